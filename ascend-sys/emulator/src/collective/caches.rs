//! The caches of this machine, and the stores that fit them.

use std::path::Path;
use std::sync::OnceLock;

use ascend_reduce::Store;

/// The size of the last level of cache of an unknown machine.
const FALLBACK: u64 = 16 << 20;

/// The largest size of the last level of cache for each core of a processor, in bytes. If a system
/// reports more, it sees only some cores of its processor, as a virtual machine does. The cores
/// that it does not see use the cache, too.
const MOST_FOR_A_CORE: u64 = 32 << 20;

/// Returns the kind of stores for an operation that reads and writes `working_set` bytes
/// altogether.
pub(crate) fn store_for(working_set: usize) -> Store {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    let limit = *LIMIT.get_or_init(|| lasting_bytes(Path::new("/sys/devices/system/cpu")));
    if working_set as u64 > limit { Store::Streaming } else { Store::Plain }
}

/// Returns the number of bytes that stay in caches between two operations. This is the size of the
/// last level of cache. If unseen cores use that level, it is the size of all caches of the level
/// before.
fn lasting_bytes(directory: &Path) -> u64 {
    let cores = cores(directory);
    let mut caches: Vec<Cache> = (0..8).filter_map(|index| Cache::read(directory, index)).collect();
    caches.sort_by_key(|cache| cache.bytes);
    match &caches[..] {
        [] => FALLBACK,
        [.., before, last] if last.bytes / cores > MOST_FOR_A_CORE => {
            before.bytes * (cores / before.cores).max(1)
        }
        [.., last] => last.bytes,
    }
}

/// Returns the number of cores of the machine.
fn cores(directory: &Path) -> u64 {
    let is_core = |name: &str| {
        name.strip_prefix("cpu")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let cores = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_core)).count();
    (cores as u64).max(1)
}

/// A cache of core 0.
struct Cache {
    bytes: u64,
    /// The number of cores that share the cache.
    cores: u64,
}

impl Cache {
    fn read(directory: &Path, index: u32) -> Option<Cache> {
        let directory = directory.join(format!("cpu0/cache/index{index}"));
        let text = |name| std::fs::read_to_string(directory.join(name)).ok();
        let size = text("size")?;
        let size = size.trim();
        let (digits, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit())?);
        let unit = match unit {
            "K" => 1 << 10,
            "M" => 1 << 20,
            _ => return None,
        };
        let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        // A set of cores, in hexadecimal digits.
        let map = text("shared_cpu_map").unwrap_or_default();
        let cores =
            map.chars().filter_map(|c| c.to_digit(16)).map(|it| it.count_ones()).sum::<u32>();
        Some(Cache { bytes, cores: u64::from(cores.max(1)) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Writes the files of a machine with `cores` cores and with caches, each with a size and a set
    /// of cores. Returns the bytes that stay in its caches.
    fn machine(name: &str, cores: u32, caches: &[(&str, &str)]) -> u64 {
        let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        for core in 0..cores {
            fs::create_dir_all(directory.join(format!("cpu{core}"))).unwrap();
        }
        fs::create_dir_all(directory.join("cpufreq")).unwrap();
        for (index, (size, map)) in caches.iter().enumerate() {
            let cache = directory.join(format!("cpu0/cache/index{index}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("size"), format!("{size}\n")).unwrap();
            fs::write(cache.join("shared_cpu_map"), format!("{map}\n")).unwrap();
        }
        let found = lasting_bytes(&directory);
        let _ = fs::remove_dir_all(&directory);
        found
    }

    #[test]
    #[cfg_attr(miri, ignore = "files")]
    fn data_lasts_in_the_last_cache_unless_unseen_cores_use_it() {
        let own = [("48K", "1"), ("32K", "1"), ("1024K", "1"), ("32768K", "3")];
        assert_eq!(machine("own", 2, &own), 32 << 20);
        let shared = [("48K", "1"), ("32K", "1"), ("2048K", "1"), ("266240K", "3")];
        assert_eq!(machine("shared", 2, &shared), 4 << 20);
        // Two threads of one core share its caches.
        let shared = [("2048K", "00000000,00000003"), ("266240K", "f")];
        assert_eq!(machine("threads", 4, &shared), 4 << 20);
        assert_eq!(
            machine("all-cores", 60, &[("2M", "1"), ("266240K", "fffffffffffffff")]),
            260 << 20
        );
        assert_eq!(machine("one-cache", 1, &[("512K", "1")]), 512 << 10);
        assert_eq!(machine("no-cache", 2, &[]), FALLBACK);
    }
}
