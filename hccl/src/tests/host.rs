//! Copies to and from parts of host memory, while devices work.

use super::*;

#[test]
fn a_download_fills_exactly_the_slice_it_was_given() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1_i16, 2, 3, 4], &stream).unwrap();
        let mut all = [0_i16; 7];
        x.download_into(&mut all[2..6], &stream).wait().unwrap();
        assert_eq!(all, [0, 0, 1, 2, 3, 4, 0]);
        let part = x.slice(1..3).unwrap();
        block_on(part.download_into(&mut all[..2], &stream)).unwrap();
        assert_eq!(all, [2, 3, 1, 2, 3, 4, 0]);
        let download = part.download_into(&mut all[5..], &stream);
        eventually("the download", || download.is_done());
        download.wait_timeout(LONG).unwrap();
        assert_eq!(all, [2, 3, 1, 2, 3, 2, 3]);
        x.slice(1..1).unwrap().download_into(&mut [], &stream).wait().unwrap();
    });
}

#[test]
fn a_download_that_is_not_awaited_leaves_the_slice_as_it_was() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1_u32; 64], &stream).unwrap();
        let mut slice = [9_u32; 64];
        let wrong = x.download_into(&mut slice[1..], &stream).wait().unwrap_err();
        let text = wrong.to_string();
        assert!(matches!(wrong, Error::WrongLength { expected: 64, found: 63, .. }), "{text}");
        assert!(text.contains("download_into"), "{text}");
        let gate = Gate::on(&stream);
        drop(x.download_into(&mut slice, &stream));
        std::mem::forget(x.download_into(&mut slice, &stream));
        let late = x.download_into(&mut slice, &stream).wait_timeout(SOON).unwrap_err();
        assert!(late.is_timeout(), "{late}");
        gate.open();
        stream.synchronize().unwrap();
        assert_eq!(slice, [9; 64]);
        let mut twice = x.download_into(&mut slice, &stream);
        block_on(&mut twice).unwrap();
        let again = block_on(&mut twice).unwrap_err().to_string();
        assert!(again.contains("polled again"), "{again}");
        assert_eq!(slice, [1; 64]);
    });
}

#[test]
fn parts_of_a_host_buffer_are_sources_and_destinations() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[1_i32, 2, 3, 4], &stream).unwrap();
        let mut host = runtime.host_buffer::<i32>(6).unwrap();
        x.slice(..2).unwrap().copy_to(host.slice_mut(4..).unwrap(), &stream).unwrap();
        let mut rest = host.slice_mut(..4).unwrap();
        let mut second = rest.slice_mut(1..2).unwrap();
        x.slice(3..).unwrap().copy_to(&mut second, &stream).unwrap();
        rest.as_mut_slice().unwrap()[0] = 7;
        assert_eq!(rest.as_slice().unwrap(), [7, 4, 0, 0]);
        assert_eq!(rest.slice(1..3).unwrap().as_slice().unwrap(), [4, 0]);
        assert_eq!(host.as_slice().unwrap(), [7, 4, 0, 0, 1, 2]);

        let mut y = device.zeros::<i32>(2, &stream).unwrap();
        let ends = host.slice(3..).unwrap();
        let end = ends.slice(1..).unwrap();
        y.copy_from_host(&end, &stream).unwrap();
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [1, 2]);
        let wrong = y.copy_from_host(ends.clone(), &stream).unwrap_err();
        assert!(matches!(wrong, Error::WrongLength { expected: 2, found: 3, .. }), "{wrong}");
        let wrong = y.copy_to(host.slice_mut(..1).unwrap(), &stream).unwrap_err();
        assert!(matches!(wrong, Error::WrongLength { expected: 2, found: 1, .. }), "{wrong}");
        assert!(matches!(host.slice(5..7).unwrap_err(), Error::OutOfRange { length: 6, .. }));
        assert!(matches!(host.slice_mut(7..).unwrap_err(), Error::OutOfRange { length: 6, .. }));
        assert!(host.split_at_mut(7).is_err());

        let pieces = host.slice_mut(..).unwrap().chunks_mut(4).unwrap();
        for (at, piece) in pieces.enumerate() {
            let from = x.slice(..piece.len()).unwrap();
            assert_eq!(piece.len(), [4, 2][at]);
            from.copy_to(piece, &stream).unwrap();
        }
        assert_eq!(host.as_slice().unwrap(), [1, 2, 3, 4, 1, 2]);
        assert!(host.slice_mut(..).unwrap().chunks_mut(0).is_err());
    });
}

#[test]
fn the_host_uses_one_part_while_a_device_uses_another() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let x = device.upload(&[5_u8; 8], &stream).unwrap();
        let mut y = device.zeros::<u8>(8, &stream).unwrap();
        let mut host = runtime.host_buffer::<u8>(24).unwrap();
        let gate = Gate::on(&stream);
        let (mut written, rest) = host.split_at_mut(8).unwrap();
        let (mut read, mut free) = rest.split_at_mut(8).unwrap();
        x.copy_to(&mut written, &stream).unwrap();
        y.copy_from_host(&read, &stream).unwrap();
        // These two accesses do not wait for the copies, which cannot run.
        free.as_mut_slice().unwrap().fill(1);
        assert_eq!(read.as_slice().unwrap(), [0; 8]);
        let opener = gate.open_later();
        // These two accesses wait for the copies.
        read.as_mut_slice().unwrap().fill(2);
        assert_eq!(written.as_slice().unwrap(), [5; 8]);
        opener.join().unwrap();
        assert_eq!(y.to_vec(&stream).wait().unwrap(), [0; 8]);
        assert_eq!(&host.as_slice().unwrap()[8..], [[2; 8], [1; 8]].concat());
    });
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_go_into_slices() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.zeros::<i64>(6, &stream).unwrap();
        let array = ndarray::array![[1_i64, 2], [3, 4]];
        x.slice_mut(2..).unwrap().upload_array(&array.t(), &stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [0, 0, 1, 3, 2, 4]);
        x.upload_array(&ndarray::array![9_i64, 8, 7, 6, 5, 4], &stream).unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [9, 8, 7, 6, 5, 4]);
        for wrong in [x.upload_array(&array, &stream), x.upload_array(&array.t(), &stream)] {
            let wrong = wrong.unwrap_err();
            assert!(matches!(wrong, Error::WrongLength { expected: 6, found: 4, .. }), "{wrong}");
        }
    });
}
