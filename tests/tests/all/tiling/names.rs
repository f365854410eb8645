//! Names of a program that the generated code must not meet.

use hccl::kernel::Tiling;

/// The derive has a length of its own, which must not be this.
#[allow(dead_code, reason = "its name is the test")]
struct N;

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Inner {
    length: u64,
}

#[derive(Tiling, Clone, Copy)]
#[repr(C)]
struct Outer {
    #[tiling(range = 1..=64)]
    rows: u64,
    inner: [Inner; 2],
}

#[test]
fn a_struct_called_n_is_not_taken_for_a_length() {
    let mut outer = Outer { inner: [Inner { length: 7 }; 2], ..Outer::zeroed() };
    outer.set_rows(64).unwrap();
    assert_eq!(Outer::from_bytes(outer.as_bytes()).unwrap().inner[1].length, 7);
}
