//! Registered memory of the program, which devices access directly.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use super::*;
use crate::memory::{GivenBack, HostMemory, HostMemoryMut};

const PAGE: usize = 4096;

/// Memory that sets a flag when it is dropped.
struct Told(Vec<u8>, Arc<AtomicBool>);

// SAFETY: a vector that nobody changes keeps its elements at the same address. It is their only
// owner.
unsafe impl HostMemory for Told {
    type Element = u8;
    fn memory(&mut self) -> NonNull<[u8]> {
        self.0.memory()
    }
}
// SAFETY: the vector is the only owner of its elements.
unsafe impl HostMemoryMut for Told {}

impl Drop for Told {
    fn drop(&mut self) {
        self.1.store(true, SeqCst);
    }
}

/// Returns a byte that depends on its position.
fn byte(at: usize) -> u8 {
    (at % 251) as u8 + 1
}

/// Copies to and from parts of borrowed memory, which begins at any offset from a page.
fn goes_there_and_back(runtime: &Runtime) {
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let expected: Vec<u8> = (0..6 * PAGE).map(byte).collect();
    let x = device.upload(&expected, &stream).unwrap();
    let mut all = vec![0; 6 * PAGE];
    let to_page = all.as_ptr().addr().wrapping_neg() % PAGE;
    for start in [0, 1, 16, PAGE - 1] {
        for len in [0, 1, 100, PAGE - 1, PAGE, 2 * PAGE - 2, 2 * PAGE, 4 * PAGE + 17] {
            all.fill(0);
            let memory = &mut all[to_page + start..][..len];
            runtime
                .lend_mut(memory, |mut host| {
                    x.slice(..len)?.copy_to(&mut host, &stream)?;
                    assert!(host.as_slice()? == &expected[..len], "{len} bytes from {start}");
                    // The program writes the ends and the middle byte after the device.
                    for at in [0, len / 2, len.saturating_sub(1)] {
                        let piece = at..(at + 1).min(len);
                        host.slice_mut(piece)?.as_mut_slice()?.fill(0);
                    }
                    let mut back = device.upload(&vec![9; len], &stream)?;
                    back.copy_from_host(&host, &stream)?;
                    let back = back.to_vec(&stream).wait()?;
                    assert!(back == host.as_slice()?, "{len} bytes from {start}");
                    // The result of this last write is checked after the scope.
                    x.slice(len / 3..len)?.copy_to(host.slice_mut(len / 3..)?, &stream)?;
                    Ok(())
                })
                .unwrap();
            let mut reference = expected[..len].to_vec();
            if len > 0 {
                reference[0] = if len / 3 == 0 { byte(0) } else { 0 };
            }
            assert!(memory == &reference[..], "{len} bytes from {start}");
            let around = all
                .iter()
                .enumerate()
                .filter(|(at, _)| !(to_page + start..to_page + start + len).contains(at));
            assert!(around.into_iter().all(|(_, byte)| *byte == 0), "{len} bytes from {start}");
        }
    }
}

#[test]
fn memory_that_begins_anywhere_goes_there_and_back() {
    on_both(1, goes_there_and_back);
}

#[test]
fn lent_memory_is_no_race() {
    let runtime = own_checked(1);
    goes_there_and_back(&runtime);
    assert!(runtime.findings().is_empty(), "{:?}", runtime.findings());
}

#[test]
fn program_and_device_write_turn_by_turn_beside_the_pages() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let x = device.upload(&[1_u8, 2, 3, 4], &stream).unwrap();
        let mut y = device.zeros::<u8>(8, &other).unwrap();
        let mut mine = runtime.register(vec![9_u8; 8].into_boxed_slice()).unwrap();
        // A device reads bytes that another operation has just written, and bytes beside them that
        // the program has written meanwhile.
        let gate = Gate::on(&stream);
        x.copy_to(mine.slice_mut(..4).unwrap(), &stream).unwrap();
        mine.slice_mut(6..).unwrap().as_mut_slice().unwrap().fill(7);
        y.copy_from_host(&mine, &other).unwrap();
        gate.open();
        assert_eq!(y.to_vec(&other).wait().unwrap(), [1, 2, 3, 4, 9, 9, 7, 7]);
        mine.as_mut_slice().unwrap()[1] = 8;
        y.copy_from_host(&mine, &other).unwrap();
        assert_eq!(y.to_vec(&other).wait().unwrap(), [1, 8, 3, 4, 9, 9, 7, 7]);
        y.copy_to(&mut mine, &other).unwrap();
        assert_eq!(*mine.into_inner().unwrap(), [1, 8, 3, 4, 9, 9, 7, 7]);
    });
}

#[test]
fn memory_comes_back_when_the_device_is_done_with_it() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let n = 3 * PAGE;
        let x = device.upload(&vec![5_u8; n], &stream).unwrap();
        let mut mine = runtime.register(vec![0_u8; n]).unwrap();
        let address = mine.as_slice().unwrap().as_ptr();
        let gate = Gate::on(&stream);
        x.copy_to(&mut mine, &stream).unwrap();
        runtime.set_deadline(SOON);
        let GivenBack { error, value: mine } = mine.into_inner().unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(mine.as_slice().unwrap_err().is_timeout());
        runtime.set_deadline(LONG);
        let opener = gate.open_later();
        let mine = mine.into_inner().unwrap();
        opener.join().unwrap();
        assert!(mine.as_ptr() == address && mine == vec![5; n]);
        // It can be registered again.
        let shared: Arc<[u8]> = mine.into();
        let registered = runtime.register(shared.clone()).unwrap();
        let mut y = device.zeros::<u8>(n, &stream).unwrap();
        y.copy_from_host(&registered, &stream).unwrap();
        assert_eq!(y.to_vec(&stream).wait().unwrap(), *shared);
        assert!(Arc::ptr_eq(&registered.into_inner().unwrap(), &shared));
    });
}

#[test]
fn memory_dropped_or_forgotten_in_flight_stays_until_the_device_is_done() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let n = 3 * PAGE;
        let x = device.upload(&vec![5_u8; n], &stream).unwrap();
        let dropped = Arc::new(AtomicBool::new(false));
        let told = || Told(vec![0_u8; n], dropped.clone());
        let mut mine = runtime.register(told()).unwrap();
        let mut forgotten = runtime.register(told()).unwrap();
        let gate = Gate::on(&stream);
        x.copy_to(&mut mine, &stream).unwrap();
        x.copy_to(&mut forgotten, &stream).unwrap();
        std::mem::forget(forgotten);
        drop(mine);
        device.reap();
        assert!(!dropped.load(SeqCst), "dropped in flight");
        gate.open();
        stream.synchronize().unwrap();
        eventually("the memory goes", || {
            device.reap();
            dropped.load(SeqCst)
        });
        dropped.store(false, SeqCst);
        drop(runtime.register(told()).unwrap());
        assert!(dropped.load(SeqCst), "nothing uses it");
    });
}

#[test]
fn a_scope_ends_when_the_device_is_done_also_by_a_panic() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&vec![5_u8; 3 * PAGE], &stream).unwrap();
        let mut mine = vec![0_u8; 3 * PAGE];
        let mut opener = None;
        // The deadline is short, to show that it does not end the wait of the scope.
        runtime.set_deadline(SOON / 10);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            runtime.lend_mut(&mut mine, |host| {
                let gate = Gate::on(&stream);
                drop(x.copy_to(host, &stream)?);
                // The gate opens after many deadlines have passed.
                opener = Some(std::thread::spawn(move || {
                    std::thread::sleep(SOON * 10);
                    drop(gate);
                }));
                if true {
                    panic!("with a copy in flight");
                }
                Ok(())
            })
        }));
        runtime.set_deadline(LONG);
        assert!(panic.is_err());
        assert!(mine.iter().all(|byte| *byte == 5));
        opener.unwrap().join().unwrap();
        // The memory can be registered again, so the registration has ended.
        assert_eq!(runtime.lend(&mine, |host| Ok(host.len())).unwrap(), 3 * PAGE);
    });
}

/// The bytes beside the whole pages are copied back to the caller's memory in this case too.
#[test]
fn a_scope_whose_wait_fails_just_when_the_device_is_done_leaves_nothing_out() {
    static FAILS: AtomicBool = AtomicBool::new(false);
    static GATE: Mutex<Option<Gate>> = Mutex::new(None);
    unsafe extern "C" fn wait(
        stream: *mut c_void,
        ticket: u64,
        limit: u32,
        patience: u32,
    ) -> ascend_sys::aclError {
        let fails = FAILS.swap(false, SeqCst);
        if fails {
            drop(GATE.lock().unwrap().take());
        }
        // SAFETY: the caller's arguments are passed on.
        let code = unsafe {
            let wait = ascend_emulator::table().ascendExtAwaitTask.unwrap();
            wait(stream, ticket, if fails { 10_000 } else { limit }, patience)
        };
        if fails { 507_899 } else { code }
    }
    let table =
        ascend_sys::Functions { ascendExtAwaitTask: Some(wait), ..ascend_emulator::table() };
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&vec![5_u8; 3 * PAGE], &stream).unwrap();
    stream.synchronize().unwrap();
    let mut mine = vec![0_u8; 3 * PAGE + 17];
    let copied = runtime.lend_mut(&mut mine[17..], |host| {
        *GATE.lock().unwrap() = Some(Gate::on(&stream));
        drop(x.copy_to(host, &stream)?);
        FAILS.store(true, SeqCst);
        Ok(())
    });
    copied.unwrap();
    assert!(!FAILS.load(SeqCst), "no wait has failed");
    assert!(mine[17..].iter().all(|byte| *byte == 5));
}

#[test]
fn memory_that_cannot_be_registered_comes_back() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let shared: Arc<[u32]> = vec![3_u32; 2 * PAGE].into();
        let registered = runtime.register(shared.clone()).unwrap();
        let GivenBack { error, value } = runtime.register(shared.clone()).unwrap_err();
        assert!(error.to_string().contains("ALREADY_REGISTERED"), "{error}");
        assert!(Arc::ptr_eq(&value, &shared));
        assert!(runtime.lend(&shared, |_| Ok(())).is_err());
        // The first registration still works.
        let mut x = device.zeros::<u32>(2 * PAGE, &stream).unwrap();
        x.copy_from_host(&registered, &stream).unwrap();
        let wrong = x.copy_from_host(registered.slice(1..).unwrap(), &stream).unwrap_err();
        assert!(matches!(wrong, Error::WrongLength { .. }), "{wrong}");
        assert!(matches!(registered.slice(..8193).unwrap_err(), Error::OutOfRange { .. }));
        assert_eq!(x.to_vec(&stream).wait().unwrap(), *shared);
    });
}

#[test]
fn memory_comes_back_from_a_backend_that_cannot_register() {
    let mut table = ascend_emulator::table();
    table.aclrtHostRegister = None;
    let runtime = own(1, table);
    let GivenBack { error, value } = runtime.register(vec![7_u8; 3 * PAGE]).unwrap_err();
    assert!(matches!(error, Error::MissingSymbol { function: "aclrtHostRegister", .. }), "{error}");
    assert_eq!(value, [7; 3 * PAGE]);
    // Less than a page needs no registration.
    assert_eq!(runtime.register(vec![7_u8]).unwrap().into_inner().unwrap(), [7]);
    // Memory that one runtime has registered cannot be used by another runtime.
    let other = own(1, ascend_emulator::table());
    let device = other.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mine = runtime.register(vec![7_u8]).unwrap();
    let mut x = device.zeros::<u8>(1, &stream).unwrap();
    let wrong = x.copy_from_host(&mine, &stream).unwrap_err();
    assert!(matches!(wrong.root_cause(), Error::WrongRuntime { .. }), "{wrong}");
}

/// A registration has ended when its pages are unregistered. So an error that comes later, when the
/// ends are freed, does not prevent the owner from getting the memory back.
#[test]
fn memory_comes_back_when_the_pinned_copies_of_its_ends_cannot_be_freed() {
    static REFUSES: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn free_host(pointer: *mut c_void) -> ascend_sys::aclError {
        // SAFETY: the caller's arguments are passed on.
        let code = unsafe { ascend_emulator::table().aclrtFreeHost.unwrap()(pointer) };
        if REFUSES.swap(false, SeqCst) { 507_899 } else { code }
    }
    let table =
        ascend_sys::Functions { aclrtFreeHost: Some(free_host), ..ascend_emulator::table() };
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let x = device.upload(&[7_u8; 4 * PAGE + 100], &stream).unwrap();
    let mut mine = runtime.register(vec![0_u8; 4 * PAGE + 100]).unwrap();
    x.copy_to(&mut mine, &stream).unwrap();
    assert_eq!(mine.as_slice().unwrap(), [7; 4 * PAGE + 100]);
    REFUSES.store(true, SeqCst);
    assert_eq!(mine.into_inner().unwrap(), [7; 4 * PAGE + 100]);
    assert!(!REFUSES.load(SeqCst), "nothing was freed");
}

#[test]
fn memory_whose_drop_panics_harms_nobody() {
    struct Panics(Vec<u8>, Arc<AtomicBool>);
    // SAFETY: a vector that nobody changes keeps its elements at the same address.
    unsafe impl HostMemory for Panics {
        type Element = u8;
        fn memory(&mut self) -> NonNull<[u8]> {
            self.0.memory()
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            self.1.store(true, SeqCst);
            panic!("of the owner");
        }
    }
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let dropped = Arc::new(AtomicBool::new(false));
        let mine = Panics(vec![6; 2 * PAGE], dropped.clone());
        let mine = runtime.register(mine).unwrap();
        let mut x = device.zeros::<u8>(2 * PAGE, &stream).unwrap();
        x.copy_from_host(&mine, &stream).unwrap();
        drop(mine);
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [6; 2 * PAGE]);
        eventually("the memory goes", || {
            device.reap();
            dropped.load(SeqCst)
        });
        device.upload(&[1_u8], &stream).unwrap().to_vec(&stream).wait().unwrap();
    });
}
