//! A root info as bytes: an address that programs may print, followed by the emulator's own words.

use crate::processes::peer::Home;

/// The size of a root info, in bytes.
pub(crate) const ROOT_INFO: usize = 4108;
/// The text at the start of a root info. Programs print it, and some parse it as an address.
const ADDRESS: &[u8] = b"127.0.0.1\0";
/// The offset of the emulator's own words, in bytes. They are a magic number, the process id, the
/// number of the root info, the name and the secret of the process's address, and a checksum.
const WORDS_AT: usize = 64;
const MARK: u64 = u64::from_le_bytes(*b"ascendEM");

/// Returns the bytes of a root info.
pub(super) fn encode(home: &Home, number: u64) -> [u8; ROOT_INFO] {
    let Home { process, name, secret } = *home;
    let mut info = [0; ROOT_INFO];
    info[..ADDRESS.len()].copy_from_slice(ADDRESS);
    let said = [process.into(), number, name, secret];
    let words = [MARK, said[0], number, name, secret, check(said)];
    for (place, word) in info[WORDS_AT..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    // If a program copies fewer bytes than a root info has, these last bytes are missing.
    info[ROOT_INFO - 8..].copy_from_slice(&check(said).to_le_bytes());
    info
}

fn check(said: [u64; 4]) -> u64 {
    said.iter().fold(MARK, |sum, word| {
        (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ MARK
    })
}

/// Returns the address of the process that made a root info, and the number of the root info there.
/// `None` if the bytes are not a root info, or are damaged.
pub(crate) fn decode(info: &[u8; ROOT_INFO]) -> Option<(Home, u64)> {
    let mut words = info[WORDS_AT..]
        .chunks_exact(8)
        .map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
    let [mark, process, number, name, secret, sum] =
        std::array::from_fn(|_| words.next().unwrap_or_default());
    let is_whole = mark == MARK
        && sum == check([process, number, name, secret])
        && info[ROOT_INFO - 8..] == sum.to_le_bytes();
    let process = u32::try_from(process).ok().filter(|_| is_whole)?;
    Some((Home { process, name, secret }, number))
}

/// Makes a root info of these words, as another process could have made it.
#[cfg(all(any(test, fuzzing), not(loom), not(miri)))]
pub(crate) fn of_words([process, number, name, secret]: [u64; 4]) -> [u8; ROOT_INFO] {
    encode(&Home { process: process as u32, name, secret }, number)
}
