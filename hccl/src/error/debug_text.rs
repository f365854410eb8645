//! The macro that implements `{:?}` of the parts of an error.

/// Implements `Debug` as the name of the type followed by the text. If the caller of the macro
/// names the fields, `{:#?}` shows the structure.
macro_rules! debug_as_text {
    ($error:ident { $($field:ident),* }) => {
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if f.alternate() {
                    let mut shown = f.debug_struct(stringify!($error));
                    shown$(.field(stringify!($field), &self.$field))*.finish()
                } else {
                    write!(f, concat!(stringify!($error), ": {}"), self)
                }
            }
        }
    };
    ($($error:ident)*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($error), ": {}"), self)
            }
        }
    )*};
}

pub(super) use debug_as_text;
