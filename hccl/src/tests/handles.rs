//! What handles promise to the threads that hold them.

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
