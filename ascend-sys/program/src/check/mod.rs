//! The checker: finds mistakes of a launch before its first block runs.
//!
//! [`check`] walks every core of a launch through the program with the actual tiling, number of
//! blocks and ranks. It moves no data. It checks the requirements that Ascend C and HCCL have for a
//! kernel. A release build on hardware checks almost none of them; a kernel that breaks one hangs
//! or overwrites memory. These are the rules, by the name that a [`Finding`] carries:
//!
//! | rules | subject |
//! |---|---|
//! | `fault`, `data`, `long`, `launch` | a value that cannot be computed; steps that depend on data and are not checked; a kernel that is too long to walk; a launch without blocks or contexts |
//! | `init`, `configure`, `group` | `InitV2` once and first; `SetCcTilingV2` for each operation that is prepared, with a tiling that the host has filled; one client a context |
//! | `product`, `ranks`, `dtype`, `reduction` | features that a product, a number of ranks, or an element type does not allow |
//! | `repeat`, `count`, `stride`, `overlap`, `counts` | the arguments of a prepare call |
//! | `bounds`, `written` | every turn of a task, from any rank, and every copy, within its tensor; inputs are not written |
//! | `prepares`, `prepare-core`, `prepare-order`, `task` | at most 63 prepares and group syncs; the cores that prepare; a handle used by the core and client that has it |
//! | `commit`, `wait`, `commit-order`, `wait-order`, `iterate` | every turn committed and waited for, once, by the right core |
//! | `ready`, `arrived` | data that a turn sends is written before its commit, data that it receives is used after a wait, by any cores and through any argument |
//! | `race` | two cores that use the same memory meet in between, if one of them writes |
//! | `units` | two units of a core use the same memory, and one of them writes: the later one has waited for the earlier one, by a queue, a wait or a barrier |
//! | `unwritten` | bytes of local memory are written, since their buffer was allocated, before they are read |
//! | `clean`, `line` | single elements that a core writes are cleaned before others use them, and bytes that others wrote are cleaned before a core reads single elements of them; no two cores write elements of one cache line |
//! | `windows` | bytes of windows that are read or sent, and that no rank writes: an error if all ranks are checked together, a note if one is checked alone |
//! | `never-written`, `overwritten` | warnings: an output that nothing writes; a result of a turn that is overwritten before anything uses it |
//! | `finalize`, `finalize-sync` | `Finalize` once, last, after every other core's last wait |
//! | `cores` | cores that must all meet, and that are no more than the chip has |
//! | `mix`, `flag`, `flag-count`, `flag-mode`, `hang`, `unawaited` | cores can and do meet at every `SyncAll` and every flag |
//! | `core`, `memory`, `buffers`, `queue`, `tensor`, `freed` | local memory: the cores that have it, its size, the tensors that pass through queues |
//! | `align`, `pieces`, `vector-type`, `vector-count`, `cast`, `matmul` | operations of the vector and the cube unit |
//! | `cube-tiling` | the numbers of a `TCubeTiling`: cores, steps, blocks in L1, buffers in L0 |
//!
//! CANN's documents require more than the hardware does. [`Setting::tolerant`] allows everything
//! that the hardware tolerates.

mod area;
mod buffer;
mod call;
mod client;
mod clock;
mod core_name;
mod finding;
mod global;
mod in_place;
mod local;
mod matmul;
mod member;
mod one_sided;
mod operation;
mod ranges;
mod run;
mod setting;
mod space;
mod stop;
mod sync;
mod traffic;
mod uneven;
mod vector;
mod view;
mod widen;
mod windows;
mod witness;

pub use finding::{Finding, Severity};
pub use setting::{CoreReads, Product, Setting};
pub use witness::{Late, Witness};

use crate::flow::Launch;
use crate::program::Program;

/// Checks a launch of a program that has been [validated](Program::validate). Does not block.
///
/// The result is `Ok` if the launch may run; the list holds [warnings](Severity::Warning) and
/// [notes](Severity::Note), if there are any. It is `Err` if the launch must not run; errors come
/// first. The same launch gives the same list, so a caller may keep the result.
pub fn check(
    program: &Program,
    launch: &Launch,
    setting: &Setting,
) -> Result<Vec<Finding>, Vec<Finding>> {
    let findings = look(program, std::slice::from_ref(launch), setting, false).swap_remove(0);
    match findings.first() {
        Some(Finding { severity: Severity::Error, .. }) => Err(findings),
        _ => Ok(findings),
    }
}

/// Checks the launches of all ranks, so that the writes of each rank to the windows of other ranks
/// are known. Returns, for each launch, the findings of [`check`] and the findings about windows
/// that need all ranks. Errors come first.
pub fn check_ranks(program: &Program, launches: &[Launch], setting: &Setting) -> Vec<Vec<Finding>> {
    look(program, launches, setting, true)
}

/// Checks some launches. If `all` is set, these are the launches of all ranks.
fn look(program: &Program, launches: &[Launch], setting: &Setting, all: bool) -> Vec<Vec<Finding>> {
    let mut ranks: Vec<_> =
        launches.iter().map(|launch| run::run(program, launch, setting)).collect();
    windows::settle(program, &mut ranks, all);
    ranks.into_iter().map(|(report, _)| report.into_findings(program)).collect()
}
