//! The results of copies, and copies that are refused.

use super::*;
use crate::api::Table;
use crate::device::deferred::Retire;
use crate::order::stamps::Conflicts;

#[test]
fn data_goes_there_and_back() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1.0_f32, 2.0, 3.0], &stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(block_on(x.to_vec(&stream)).unwrap(), [1.0, 2.0, 3.0]);
        let zeros = device.zeros::<u16>(5, &stream).unwrap();
        assert_eq!(zeros.to_vec(&stream).wait().unwrap(), [0; 5]);
        let mut host = runtime.host_buffer::<f32>(3).unwrap();
        x.copy_to(&mut host, &stream).unwrap();
        assert_eq!(host.as_slice().unwrap(), [1.0, 2.0, 3.0]);
        host.as_mut_slice().unwrap()[1] = 7.0;
        let mut y = device.upload(&[0.0_f32; 3], &stream).unwrap();
        y.copy_from_host(&host, &stream).unwrap();
        assert_eq!(y.slice(1..).unwrap().to_vec(&stream).wait().unwrap(), [7.0, 3.0]);
    });
}

#[test]
fn nothing_goes_there_and_back() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload::<f32>(&[], &stream).unwrap();
        let zeros = device.zeros::<f32>(0, &stream).unwrap();
        x.copy_from(&zeros, &stream).unwrap().wait().unwrap();
        assert!(x.is_empty() && x.to_vec(&stream).wait().unwrap().is_empty());
        let y = device.upload(&[1_u8, 2, 3], &stream).unwrap();
        assert!(y.slice(1..1).unwrap().to_vec(&stream).wait().unwrap().is_empty());
        let mut host = runtime.host_buffer::<f32>(0).unwrap();
        x.copy_to(&mut host, &stream).unwrap().wait().unwrap();
        assert!(host.as_slice().unwrap().is_empty());
    });
}

#[test]
fn sizes_are_checked_before_anything_moves() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.upload(&[1_u8, 2, 3], &stream).unwrap();
        assert!(matches!(device.alloc::<f64>(usize::MAX).unwrap_err(), Error::TooLarge { .. }));
        assert!(matches!(x.slice(2..4).unwrap_err(), Error::OutOfRange { length: 3, .. }));
        assert!(matches!(x.slice(..=usize::MAX).unwrap_err(), Error::OutOfRange { .. }));
        assert!(x.split_at_mut(4).is_err() && x.split_at_mut(3).is_ok());
        let wrong = x.upload(&[1, 2], &stream).unwrap_err();
        assert!(matches!(wrong, Error::WrongLength { expected: 3, found: 2, .. }), "{wrong}");
        #[cfg(feature = "ndarray")]
        {
            let wrong = x.to_array((2, 2), &stream).wait().unwrap_err();
            assert!(matches!(wrong, Error::WrongLength { expected: 3, found: 4, .. }), "{wrong}");
        }
        // SAFETY: the pointer is that of a live buffer, used by this stream only.
        let alias = unsafe { DeviceBuffer::<u8>::from_raw(&device, x.as_ptr(), 3) }.unwrap();
        let wrong = x.copy_from(&alias, &stream).unwrap_err();
        assert!(matches!(wrong, Error::Overlap { bytes: 3, .. }), "{wrong}");
        assert!(matches!(runtime.device(1).unwrap_err(), Error::NoSuchDevice { count: 1, .. }));
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_foreign_pointer_that_cannot_hold_the_elements_is_refused() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1_u8, 2, 3, 4, 5, 6, 7, 8], &stream).unwrap();
        let foreign = |pointer: *mut std::ffi::c_void, len: usize| {
            // SAFETY: nothing uses the memory through the buffer.
            unsafe { DeviceBuffer::<f32>::from_raw(&device, pointer, len) }.map(|x| x.len())
        };
        let (null, odd) = (std::ptr::null_mut(), x.as_ptr().wrapping_byte_add(1));
        for (pointer, problem) in [(null, "is null, but len is 1"), (odd, "not a multiple of 4")] {
            let wrong = foreign(pointer, 1).unwrap_err();
            assert!(matches!(wrong, Error::Invalid { .. }), "{wrong}");
            assert!(wrong.to_string().contains(problem), "{wrong}");
            // A buffer without elements needs no valid address.
            assert_eq!(foreign(pointer, 0).unwrap(), 0);
        }
        assert!(matches!(foreign(null, usize::MAX).unwrap_err(), Error::TooLarge { .. }));
        assert_eq!(foreign(x.as_ptr(), 2).unwrap(), 2);
    });
}

#[test]
fn buffer_of_another_device_is_refused() {
    on_both(2, |runtime| {
        let (first, second) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let (stream, other) = (first.stream().unwrap(), second.stream().unwrap());
        let gate = Gate::on(&stream);
        let x = first.upload(&[1_i32, 2], &stream).unwrap();
        let mut y = second.zeros::<i32>(2, &other).unwrap();
        let refused = y.copy_from(&x, &other).unwrap_err();
        assert!(
            matches!(refused, Error::WrongDevice { expected: 1, found: 0, what: "the source", .. }),
            "{refused}"
        );
        let foreign = runtime_with(1).device(0).unwrap();
        let z = foreign.upload(&[1_i32, 2], &foreign.stream().unwrap()).unwrap();
        let refused = y.copy_from(&z, &other).unwrap_err();
        assert!(matches!(refused, Error::WrongRuntime { what: "the source", .. }), "{refused}");
        // Nothing moved, and both streams still work.
        assert_eq!(y.to_vec(&other).wait().unwrap(), [0, 0]);
        gate.open();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1, 2]);
    });
}

/// A dropped object that holds memory. It is free after some checks, and until then it has no
/// unfinished operation to wait for. It stands for an operation that completes while the dropped
/// objects are being checked.
struct CompleteSoon {
    looks: u32,
    _memory: DeviceBuffer<u8, crate::memory::Uninit>,
}

impl Retire for CompleteSoon {
    fn name(&self) -> &'static str {
        "test"
    }

    fn order(&self) -> u8 {
        0
    }

    fn is_free(&mut self) -> bool {
        self.looks -= 1;
        self.looks == 0
    }

    fn unfinished(&self) -> Conflicts {
        Conflicts::default()
    }

    fn destroy(self: Box<Self>, _: &Table) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_becomes_complete_while_it_is_looked_at_is_found() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let bytes = device.memory_info().unwrap().free / 4 * 3;
        let memory = device.alloc(bytes).unwrap();
        // One check before the allocation is tried, one after it has failed, and one more.
        device.retire(CompleteSoon { looks: 3, _memory: memory });
        drop(device.alloc::<u8>(bytes).unwrap());
    });
}
