//! The emulator in one shared library, `libascend_emulator_core.so`.
//!
//! It exports two functions of our own, and none of CANN's names. Those belong to the thin
//! libraries that the installer (`ascend-emulator-install`) puts next to it. Each thin library
//! holds one jump for each of its symbols: through the table of [`ascend_emulator_table`], or, for
//! a function without a published signature, to [`ascend_emulator_undeclared`]. So all of them
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

/// Calls a function of [`ascend_emulator::undeclared`] by its index there. Returns the code, or 0
/// for an index that is not in the list.
///
/// Does not block. CANN has no such function. Only the facades may use it. The result has 64 bits,
/// so that it is 0 for callers that expect a number.
#[unsafe(no_mangle)]
pub extern "C" fn ascend_emulator_undeclared(index: u32) -> u64 {
    let found = ascend_emulator::undeclared().nth(index as usize);
    found.map_or(0, |(list, name)| list.call(name).0.into())
}
