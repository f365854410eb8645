//! Handles and threads: which handles are `Send` and `Sync`, and the contexts of threads.

use super::*;

#[test]
fn handles_are_send_and_sync() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Runtime>();
    check::<Device>();
    check::<Stream>();
    check::<Event>();
    check::<DeviceBuffer<f32>>();
    check::<HostBuffer<f32>>();
    check::<HostSliceMut<'static, f32>>();
    check::<DownloadInto<'static, f32>>();
    check::<Registered<Vec<f32>>>();
    check::<Work>();
    check::<Download<f32>>();
    check::<Error>();
}

#[test]
fn the_threads_own_context_is_left_alone() {
    on_both(2, |runtime| {
        let (first, second) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
        let bound = first.bind().unwrap();
        let stream = second.stream().unwrap();
        let x = second.upload(&[1_u8, 2], &stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [1, 2]);
        let current = runtime.table().current_context().unwrap().unwrap();
        assert!(first.state().is_context(current));
        drop(bound);
    });
}

#[test]
fn a_foreign_stream_is_used_and_left_to_its_owner() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let functions = runtime.table().functions();
        let mut raw = std::ptr::null_mut();
        {
            let _bound = device.bind().unwrap();
            // SAFETY: the out parameter is a live local.
            assert_eq!(unsafe { functions.aclrtCreateStream.unwrap()(&mut raw) }, 0);
        }
        // SAFETY: the stream was just made in the device's default context. It is destroyed after
        // everything that uses it.
        let stream = unsafe { Stream::from_raw(&device, raw) }.unwrap();
        assert_eq!(stream.as_raw(), raw);
        let x = device.upload(&[1_u8, 2], &stream).unwrap();
        let mut y = device.zeros::<u8>(2, &stream).unwrap();
        block_on(y.copy_from(&x, &stream).unwrap()).unwrap();
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [1, 2]);
        drop((x, y, stream));

        let mut status = ascend_sys::aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY;
        // SAFETY: the stream is alive unless `hccl` destroyed it, which the backend would report.
        assert_eq!(unsafe { functions.aclrtStreamQuery.unwrap()(raw, &mut status) }, 0);
        assert_eq!(status, ascend_sys::aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE);
        // SAFETY: nobody uses it any more.
        assert_eq!(unsafe { functions.aclrtDestroyStream.unwrap()(raw) }, 0);
    });
}

#[test]
fn streams_one_after_the_other_share_a_place() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let places: std::collections::BTreeSet<_> = (0..300)
            .map(|_| {
                let stream = device.stream().unwrap();
                stream.host_fn(|| ()).unwrap().wait().unwrap();
                crate::sync::name(stream.slot())
            })
            .collect();
        // Not exact, because other tests run at the same time.
        assert!(places.len() < 200, "{} places", places.len());
    });
}
