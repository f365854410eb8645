//! Tests rare behaviour of backends and programs. A result is missing although the call succeeded,
//! a device has no free memory for a long time, or a panic payload panics when it is dropped.

use std::ffi::c_void;

use super::*;

#[test]
fn a_null_pointer_is_an_error_whatever_the_code_says() {
    unsafe extern "C" fn malloc(
        out: *mut *mut c_void,
        _: usize,
        _: ascend_sys::aclrtMemMallocPolicy,
    ) -> i32 {
        // SAFETY: the out parameter of aclrtMalloc is valid.
        unsafe { out.write(std::ptr::null_mut()) };
        0
    }
    unsafe extern "C" fn malloc_host(out: *mut *mut c_void, _: usize) -> i32 {
        // SAFETY: the out parameter of aclrtMallocHost is valid.
        unsafe { out.write(std::ptr::null_mut()) };
        0
    }
    let mut table = ascend_emulator::table();
    table.aclrtMalloc = Some(malloc);
    table.aclrtMallocHost = Some(malloc_host);
    let runtime = own(1, table);
    let device = runtime.device(0).unwrap();
    let text = device.alloc::<f32>(4).unwrap_err().to_string();
    assert!(text.contains("null pointer") && text.contains("aclrtMalloc"), "{text}");
    let text = runtime.host_buffer::<f32>(4).unwrap_err().to_string();
    assert!(text.contains("null pointer") && text.contains("aclrtMallocHost"), "{text}");
}

#[test]
fn out_of_memory_is_said_when_what_was_dropped_stays_in_use() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let most = 40 << 20;
        let gate = Gate::on(&stream);
        drop(device.zeros::<u8>(most, &stream).unwrap());
        runtime.set_deadline(Duration::from_millis(20));
        let error = device.alloc::<u8>(most).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        runtime.set_deadline(LONG);
        gate.open();
        device.alloc::<u8>(most).unwrap();
    });
}

#[test]
fn a_stream_is_made_with_its_own_device_current() {
    on_both(2, |runtime| {
        let (first, second) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let _bound = first.bind().unwrap();
        let stream = second.stream().unwrap();
        // A call with the context of the other device would have been refused and would have left
        // an error text.
        assert_eq!(runtime.table().recent_message(), None);
        stream.host_fn(|| ()).unwrap().wait().unwrap();
    });
}

#[test]
fn a_closure_whose_panic_panics_when_dropped() {
    struct ClosurePayload;
    impl Drop for ClosurePayload {
        fn drop(&mut self) {
            panic!("on purpose, by dropping what a closure panicked with");
        }
    }
    on_both(1, |runtime| {
        let stream = runtime.device(0).unwrap().stream().unwrap();
        let work = stream.host_fn(|| std::panic::panic_any(ClosurePayload)).unwrap();
        let error = work.wait().unwrap_err();
        assert!(matches!(error, Error::HostFunctionPanicked { .. }), "{error}");
    });
}

#[test]
fn the_name_of_a_dropped_communicator_is_free() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        for _ in 0..3 {
            let root = crate::RootInfo::new(&device).unwrap();
            let builder = crate::Communicator::builder().device(&device).rank(0).world_size(1);
            let config = crate::CommConfig::builder().name("again").build();
            drop(builder.root_info(&root).config(config).build().wait().unwrap());
        }
    });
}
