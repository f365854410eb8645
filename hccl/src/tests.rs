//! Tests of the safe interface on the emulator, with and without the optional entries.

use crate::*;

#[test]
fn data_goes_there_and_back() -> Result<()> {
    let runtime = Runtime::emulator(1)?;
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[1.0_f32, 2.0, 3.0], &stream)?;
    assert_eq!(x.to_vec(&stream).wait()?, [1.0, 2.0, 3.0]);
    Ok(())
}
