//! The emulator in one shared library, `libascend_emulator_core.so`.
//!
//! It exports a single function of our own, [`ascend_emulator_table`], and none of CANN's names:
//! those belong to the thin libraries that the installer (`ascend-emulator-install`) puts beside
//! it. Each of them holds one jump through this table for each symbol. So all of them share the
//! state of the one emulator here, in any number and any order of loading.

use std::sync::LazyLock;

use ascend_sys::Functions;

static TABLE: LazyLock<Functions> = LazyLock::new(ascend_emulator::table);

/// The emulator's function table, laid out as [`Functions`]: one pointer a symbol, in the order of
/// [`ascend_sys::SYMBOLS`], null where the emulator has no such function. It lives for ever.
///
/// Does not block, has no CANN counterpart, and is meant for the facades only.
#[unsafe(no_mangle)]
pub extern "C" fn ascend_emulator_table() -> *const Functions {
    &raw const *TABLE
}
