//! A cache of the checker's warnings and notes on the latest launches of a kernel. A later launch
//! with the same numbers has the same warnings and notes.
//!
//! Errors are not reported here: the backend that runs the kernel checks it too, and refuses it.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ascend_program::Program;
use ascend_program::check::{self, Finding, Setting, Severity};
use ascend_program::flow::Launch;

use super::check::is_cut;
use crate::error::product::Product;

/// The maximum number of launches of a kernel whose notes are kept.
const MOST: usize = 8;

/// The numbers of a launch that the checker needs.
#[derive(PartialEq)]
pub(super) struct LaunchNumbers<'a> {
    pub blocks: u32,
    pub tiling: &'a [u8],
    /// The rank and the number of ranks in each group.
    pub groups: &'a [(u32, u32)],
    /// The size of each tensor in bytes.
    pub sizes: &'a [u64],
    pub workspace: Option<u64>,
}

/// The notes on the latest launches of a kernel.
#[derive(Default)]
pub(super) struct Looked {
    verdicts: VecDeque<Verdict>,
    /// The texts of the notes that were already logged with `tracing`.
    told: BTreeSet<String>,
}

struct Verdict {
    launch: Launch,
    sizes: Vec<u64>,
    workspace: Option<u64>,
    notes: Arc<[Finding]>,
}

impl Verdict {
    fn is_of(&self, numbers: &LaunchNumbers<'_>) -> bool {
        let Launch { blocks, tiling, groups } = &self.launch;
        let own = LaunchNumbers {
            blocks: *blocks,
            tiling,
            groups,
            sizes: &self.sizes,
            workspace: self.workspace,
        };
        own == *numbers
    }
}

impl Looked {
    /// Returns the warnings and notes of the checker on this launch. The first time that a text
    /// appears for this kernel, it is also logged with `tracing`.
    pub(super) fn look(
        &mut self,
        program: &Program,
        product: Product,
        numbers: &LaunchNumbers<'_>,
    ) -> Arc<[Finding]> {
        if let Some(known) = self.verdicts.iter().find(|verdict| verdict.is_of(numbers)) {
            return Arc::clone(&known.notes);
        }
        let launch = Launch {
            blocks: numbers.blocks,
            tiling: numbers.tiling.to_vec(),
            groups: numbers.groups.to_vec(),
        };
        let setting = Setting {
            parameters: numbers.sizes.iter().map(|bytes| Some(*bytes)).collect(),
            workspace: numbers.workspace,
            ..Setting::strict(product.of_kernels())
        };
        let found = check::check(program, &launch, &setting).unwrap_or_else(|errors| errors);
        let notes: Arc<[Finding]> =
            found.into_iter().filter(|finding| finding.severity != Severity::Error).collect();
        for note in notes.iter() {
            let text = note.to_string();
            if !self.told.contains(&text) {
                let (kernel, rule, line) = (&program.name, note.rule, note.line);
                tracing::warn!(kernel, rule, file = note.file, line, "{text}");
                self.told.insert(text);
            }
        }
        if self.verdicts.len() == MOST {
            self.verdicts.pop_front();
        }
        self.verdicts.push_back(Verdict {
            launch,
            sizes: numbers.sizes.to_vec(),
            workspace: numbers.workspace,
            notes: Arc::clone(&notes),
        });
        notes
    }
}

/// Returns the reason why a strict launch with these notes is refused, or `None` if all parts of
/// the kernel were checked.
pub(super) fn left_out(kernel: &str, notes: &[Finding]) -> Option<String> {
    let mut cut = notes.iter().filter(|note| is_cut(note)).peekable();
    cut.peek()?;
    let notes: Vec<String> = cut.map(Finding::to_string).collect();
    Some(format!(
        "parts of the kernel `{kernel}` cannot be checked, and the launch is strict: change these parts, or launch without `.strict()`\n{}",
        notes.join("\n")
    ))
}
