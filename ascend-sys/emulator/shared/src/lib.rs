//! The emulator in one shared library, `libascend_emulator_core.so`.
//!
//! It exports a single function of our own, [`ascend_emulator_table`], and none of CANN's names.
//! Those belong to the thin libraries that the installer (`ascend-emulator-install`) puts next to
//! it. Each thin library holds one jump through this table for each of its symbols. So all of them
//! share the state of the one emulator here, in any number and any order of loading.

use std::sync::LazyLock;

use ascend_sys::Functions;

static TABLE: LazyLock<Functions> = LazyLock::new(ascend_emulator::table);

/// Returns the emulator's function table, laid out as [`Functions`]: one pointer for each symbol,
/// in the order of [`ascend_sys::SYMBOLS`]. A pointer is null if the emulator has no such function.
/// The table lives forever.
///
/// Does not block. CANN has no such function. Only the facades may use it.
#[unsafe(no_mangle)]
pub extern "C" fn ascend_emulator_table() -> *const Functions {
    &raw const *TABLE
}
