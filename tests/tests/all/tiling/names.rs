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

/// Numbers by their own names, where `u32` and `u64` are others.
mod shadowed {
    use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};

    #[allow(non_camel_case_types, dead_code, reason = "its name is the test")]
    struct u32;
    #[allow(non_camel_case_types, dead_code, reason = "its name is the test")]
    struct u64;

    /// Is called for the length of an array, inside of what the derive makes.
    const fn fields() -> usize {
        2
    }

    #[derive(Tiling)]
    #[repr(C)]
    pub struct Data {
        pub init: Mc2InitTiling,
        pub member: Mc2CcTiling,
        pub rows: [i32; fields()],
    }
}

#[test]
fn numbers_and_functions_of_the_program_are_not_those_of_the_derive() {
    assert_eq!(shadowed::Data::MEMBER_OFFSET, 64);
    assert_eq!(shadowed::Data::LAYOUT.fields()[2].count(), 2);
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
