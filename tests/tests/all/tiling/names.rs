//! Names of a program that must not collide with those in the generated code.

use hccl::kernel::Tiling;

/// Items with all names that the generated code uses, and with none that a program has by itself.
#[allow(
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unused_macros,
    unused_imports,
    clippy::wrong_self_convention,
    clippy::should_implement_trait,
    clippy::new_ret_no_self,
    reason = "the names are the test"
)]
mod crowded {
    #![no_implicit_prelude]

    use ::hccl::kernel as kernels;
    use kernels::{Mc2CcTiling, Mc2InitTiling, Tiling, kernel};

    macro_rules! types {
        ($($name:ident)*) => { $(pub struct $name;)* };
    }
    // Unit structs are constants, too, so no pattern can have their names.
    types! {
        bool char str i8 i16 i32 i64 u16 u32 u64 u128 usize isize f32 f64
        Option Result Vec String Box Some None Ok Err Clone Copy Debug Default Drop Sized Send Sync
        Cow Bounds Range Item Layout Role Message Type If Unfit Symbolic Symbols At Mix Argument Recording First
        FieldType InnerSymbols HcclDataSymbols N T K E
    }

    macro_rules! modules {
        ($($name:ident)*) => { $(pub mod $name {})* };
    }
    modules! { core std alloc hccl kernel_private __private primitive }

    macro_rules! constants {
        ($($name:ident)*) => { $(pub const $name: () = ();)* };
    }
    constants! {
        value at problem here start k name offset index item fields layout range bounds it error
        rows inner scale halves member length record x y t self_ LAYOUT ITEM
    }

    macro_rules! macros {
        ($($name:ident)*) => { $(
            #[allow(unused_macros, reason = "its name is the test")]
            macro_rules! $name { ($d:tt) => { ::core::compile_error!("the macro of the program") } }
        )* };
    }
    macros! { assert concat panic offset_of unreachable matches vec format compile_error stringify }

    macro_rules! methods {
        ($($name:ident)*) => {
            /// A trait that gives every type functions with the names of the called methods.
            pub trait Everything {
                $(fn $name(self) where Self: ::core::marker::Sized {})*
            }
        };
    }
    methods! {
        as_str field clone check_value check contains read is_empty name __name into_iter from into
        symbols array declare first record here structs
    }
    impl<X: ?::core::marker::Sized> Everything for X {}

    type Number = ::core::primitive::u64;

    /// Returns the length of an array inside the generated code.
    pub const fn count() -> ::core::primitive::usize {
        2
    }

    #[derive(Tiling)]
    #[repr(C)]
    #[tiling(name = "InnerData", namespace = "a::b", size = 16)]
    pub struct Inner {
        #[tiling(range = Self::LEAST..=64)]
        pub length: Number,
        pub steps: [::core::primitive::u16; Self::STEPS],
    }

    impl Inner {
        const LEAST: Number = 1;
        const STEPS: ::core::primitive::usize = 4;
    }

    /// A struct with the name of a standard type that no tiling struct can contain.
    #[derive(Tiling)]
    #[repr(C)]
    pub struct Cell {
        pub value: Number,
    }

    /// A struct with the name that the symbols of `Data` could have.
    #[derive(Tiling)]
    #[repr(C)]
    pub struct DataSymbols {
        pub value: Number,
    }

    #[derive(Tiling)]
    #[repr(C)]
    pub struct Data {
        pub init: Mc2InitTiling,
        pub member: Mc2CcTiling,
        #[tiling(range = 1..=64)]
        pub rows: Number,
        pub inner: [Inner; count()],
        #[tiling(range = 0.5..2.0)]
        pub scale: [[::core::primitive::f32; 2]; 2],
        #[tiling(range = ::hccl::f16::ZERO..)]
        pub halves: [::hccl::f16; 4],
        pub(in crate::tiling) value: Cell,
        pub(super) at: [Cell; 2],
        r#type: Number,
        pub symbols: DataSymbols,
    }

    #[kernel(inline)]
    pub fn each<const N: ::core::primitive::usize>(
        t_: <Data as kernels::symbol::Symbolic>::Symbols,
    ) -> kernels::Value<Number> {
        let least = t_.inner[N].length;
        let both = (least, 3);
        both.0
    }

    #[kernel(mix = "aiv_only")]
    pub fn fills<T, const N: ::core::primitive::usize>(
        k_: kernels::Kernel<Data>,
        x_: kernels::Output<T>,
    ) where
        T: kernels::value::Scalar + ::hccl::dtype::Element,
    {
        let sizes = k_.tiling();
        let again = ::core::clone::Clone::clone(&sizes);
        let first = again.inner[N].length + each::<{ N }>(sizes);
        let total = first + again.value.value + again.r#type + again.symbols.value;
        k_.range(..total, |row| x_.set(row, k_.value(1u8).cast::<T>()));
    }

    pub fn recorded() -> ::core::result::Result<kernels::Recorded<Data>, kernels::RecordError> {
        fills::record::<::core::primitive::f32, 1>()
    }
}

#[test]
fn the_derive_works_whatever_names_are_in_scope() {
    use crowded::{Cell, Data, Inner};

    assert_eq!(Data::MEMBER_OFFSET, 64);
    assert_eq!(Data::LAYOUT.fields()[3].count(), 2);
    assert_eq!(Inner::LAYOUT.path(), "a::b::InnerData");
    let mut data = Data::zeroed();
    data.value = Cell { value: 7 };
    data.set_rows(64).unwrap().set_scale([[0.5, 1.0], [1.5, 1.75]]).unwrap();
    for inner in &mut data.inner {
        inner.set_length(5).unwrap();
    }
    assert!(data.set_rows(65).is_err());
    assert!(data.set_scale([[0.5, 1.0], [1.5, 2.0]]).is_err());
    assert!(data.set_halves([hccl::f16::NEG_ONE; 4]).is_err());
    assert!(data.inner[0].set_length(0).is_err());
    assert!(data.check().is_ok());
    data.inner[1].length = 0;
    assert!(data.check().unwrap_err().to_string().contains("`length` is 0, but it must lie in"));
}

#[test]
fn a_kernel_works_whatever_names_are_in_scope() {
    let text = crowded::recorded().unwrap().to_string();
    assert!(text.contains("let total"), "{text}");
    assert!(text.contains("value.value"), "{text}");
}

/// Derives a struct in a function, whose items have the same names as the generated code.
#[test]
fn a_struct_in_a_function_has_the_derive() {
    const ROWS: usize = 3;

    #[derive(Tiling)]
    #[repr(C)]
    struct Local {
        rows: [u64; ROWS],
    }

    assert_eq!(Local::LAYOUT.fields()[0].count(), 3);
    assert_eq!(Local::zeroed().rows, [0; ROWS]);
}
