//! The fuzz target for root infos.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ascend_sys::{Functions, HcclComm, HcclResult, HcclRootInfo};

use crate::fabric::root_info::{ROOT_INFO, decode, of_words};
use crate::machine::{self, BlockRequest};
use crate::profile::Product;

/// The time limit for other ranks to join. It is short because some inputs are valid root infos for
/// ranks that do not exist.
const CONNECT: Duration = Duration::from_millis(20);

struct Setting {
    table: Functions,
    device: i32,
}

fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| {
        let request = BlockRequest { count: 1, connect_timeout: CONNECT, ..some_block() };
        let settings =
            machine::create_block(&request).unwrap_or_else(|failure| panic!("{}", failure.text));
        Setting { table: crate::table(), device: settings.first as i32 }
    })
}

/// Returns the request for a block of one device with little memory.
pub(crate) fn some_block() -> BlockRequest {
    BlockRequest {
        count: 1,
        product: Product::A3,
        connect_timeout: Duration::from_secs(20),
        exec_timeout: Duration::from_secs(20),
        buffer_megabytes: 1,
        expansion: 0,
        memory: 1 << 24,
        checked: false,
        kernel_seed: 0,
        kernel_late: None,
    }
}

/// Calls a function of the function table.
macro_rules! call {
    ($table:ident.$name:ident($($argument:expr),*)) => {{
        let function = $table.$name.expect(stringify!($name));
        #[allow(clippy::macro_metavars_in_unsafe, reason = "plain arguments")]
        // SAFETY: the arguments keep to the C contract.
        unsafe { function($($argument),*) }
    }};
}

/// Calls `HcclCommInitRootInfo` with a valid root info that was changed, or with arbitrary bytes.
/// The first three bytes select the kind of change, the number of ranks and the rank; the remaining
/// bytes are the change. A root info that was never made must be rejected with an error text,
/// within 60 seconds.
pub fn root_info(bytes: &[u8]) {
    let [how, ranks, rank, change @ ..] = bytes else { return };
    let Setting { table, device } = setting();
    assert_eq!(call!(table.aclrtSetDevice(*device)), 0);
    let mut good = HcclRootInfo::default();
    assert_eq!(call!(table.HcclGetRootInfo(&mut good)), HcclResult::HCCL_SUCCESS);
    let good: [u8; ROOT_INFO] = good.internal.map(|byte| byte as u8);
    let (home, newest) = decode(&good).expect("a root info");
    let mut info = if how & 1 == 0 { [0; ROOT_INFO] } else { good };
    match how & 2 {
        // Changes any bytes.
        0 => info.iter_mut().zip(change).for_each(|(byte, change)| *byte ^= change),
        // Changes the words and keeps the checksum valid. With bit 4, the change replaces the
        // number of the root info.
        _ => {
            let mut change = change
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(*word.first_chunk().expect("a word")));
            let mut words = [home.process.into(), newest, home.name, home.secret];
            if how & 4 != 0 {
                words[1] = 0;
            }
            words.iter_mut().for_each(|word| *word ^= change.next().unwrap_or_default());
            info = of_words(words);
        }
    }
    // Root infos that were made earlier, but that no rank has used, are valid too.
    let found = decode(&info);
    let is_newest = found == Some((home, newest));
    let was_made = found.is_some_and(|(by, number)| by == home && (1..=newest).contains(&number));

    let root = HcclRootInfo { internal: info.map(|byte| byte as _) };
    let mut comm: HcclComm = std::ptr::null_mut();
    let began = Instant::now();
    let (ranks, rank) = (u32::from(*ranks), u32::from(*rank));
    let code = call!(table.HcclCommInitRootInfo(ranks, &root, rank, &mut comm));
    assert!(began.elapsed() < Duration::from_secs(60), "it has waited {:?}", began.elapsed());
    if code == HcclResult::HCCL_SUCCESS {
        assert!(was_made && (ranks, rank) == (1, 0), "a root info that nobody has made is taken");
        assert_eq!(call!(table.HcclCommDestroy(comm)), HcclResult::HCCL_SUCCESS);
        return;
    }
    assert!(comm.is_null());
    let text = call!(table.aclGetRecentErrMsg());
    assert!(!text.is_null(), "{} without a text", code.0);
    // SAFETY: the text stays valid until the next call of this thread.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy();
    assert!(text.contains("EI") && text.len() < 4000, "{text}");
    assert!(!(is_newest && (ranks, rank) == (1, 0)), "{text}");
}
