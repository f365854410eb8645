//! Tests that the pictures of races in the book are those that the emulator draws, on the default
//! devices with `ASCEND_EMULATOR_CHECK=race`.
//!
//! Run `HCCL_TEST_BLESS=1 cargo test -p ascend-emulator --test alone picture::` to draw them again.

use ascend_emulator_testing::alone;
use ascend_emulator_testing::common::{self, D2D, D2H};
use ascend_emulator_testing::ok;
use ascend_sys::*;
use std::path::Path;

/// Returns the pictures of the findings of a small program. It must run on a thread called main,
/// and first in its process, so that all names and numbers are the same every time.
fn races() -> [String; 2] {
    const SIZE: usize = 4096;
    // SAFETY: this is the only test of this process, and no other thread reads the environment.
    unsafe { std::env::set_var("ASCEND_EMULATOR_CHECK", "race") };
    ok!(aclrtSetDevice(0));
    let (compute, transfer) = (common::stream(), common::stream());
    let [gradient, copy] = [(); 2].map(|()| {
        let memory = common::malloc(SIZE);
        ok!(aclrtMemset(memory, SIZE, 0, SIZE));
        memory
    });
    let mut event = std::ptr::null_mut();
    ok!(aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC));
    // The event is recorded before the write that it should cover.
    ok!(aclrtRecordEvent(event, compute));
    ok!(aclrtMemsetAsync(gradient, SIZE, 1, SIZE, compute));
    ok!(aclrtStreamWaitEvent(transfer, event));
    let half = gradient.wrapping_byte_add(SIZE / 2);
    ok!(aclrtMemcpyAsync(copy, SIZE, half, SIZE / 2, D2D, transfer));
    // The second mistake is that the host does not wait for the copy.
    let mut host = [0_u8; SIZE];
    ok!(aclrtMemcpy(host.as_mut_ptr().cast(), SIZE, copy, SIZE, D2H));
    let mut count = 0;
    ok!(ascendExtFindings(0, &mut count));
    assert_eq!(count, 2);
    [0, 1].map(|index| {
        let (form, mut length) = (AscendExtFindingForm::ASCEND_EXT_FINDING_SVG, 0);
        let mut text = vec![0_u8; 1 << 16];
        let to = text.as_mut_ptr().cast();
        ok!(ascendExtFinding(0, index, form, to, text.len(), &mut length));
        text.truncate(length);
        String::from_utf8(text).unwrap()
    })
}

#[test]
fn the_pictures_in_the_book_are_what_is_drawn() {
    alone!();
    let main = std::thread::Builder::new().name("main".into());
    let pictures = main.spawn(races).unwrap().join().unwrap();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/images");
    for (name, picture) in ["race.svg", "race-host.svg"].iter().zip(&pictures) {
        let file = images.join(name);
        if std::env::var_os("HCCL_TEST_BLESS").is_some() {
            std::fs::write(&file, picture).unwrap();
        }
        let drawn = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(drawn == *picture, "{name} differs; HCCL_TEST_BLESS=1 draws it anew");
    }
}
