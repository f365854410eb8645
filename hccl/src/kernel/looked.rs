//! The notes of the checker on a launch that it lets pass, kept for the next launch like it.
//!
//! Errors are not told here: the backend that runs the kernel checks it too, and refuses it.

#![forbid(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ascend_program::Program;
use ascend_program::check::{self, Finding, Setting, Severity};
use ascend_program::flow::Launch;

use super::check::is_cut;
use crate::error::product::Product;

/// The number of launches that are kept, of each kernel.
const MOST: usize = 8;

/// The numbers of a launch that the checker needs.
#[derive(PartialEq)]
pub(super) struct LaunchNumbers<'a> {
    pub blocks: u32,
    pub tiling: &'a [u8],
    /// The rank and the number of ranks in each group.
    pub groups: &'a [(u32, u32)],
    /// The bytes of each tensor.
    pub sizes: &'a [u64],
    pub workspace: Option<u64>,
}

/// The notes on the launches of a kernel.
#[derive(Default)]
pub(super) struct Looked {
    verdicts: VecDeque<Verdict>,
    /// The notes that were told in `tracing`.
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
    /// Returns the warnings and notes of this launch. A new one is told in `tracing`, too.
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

/// Returns why a launch is refused that has to be checked in all its parts but was not.
pub(super) fn left_out(kernel: &str, notes: &[Finding]) -> Option<String> {
    let mut cut = notes.iter().filter(|note| is_cut(note)).peekable();
    cut.peek()?;
    let notes: Vec<String> = cut.map(Finding::to_string).collect();
    Some(format!(
        "the kernel `{kernel}` was not checked in all its parts, and the launch is strict:\n{}",
        notes.join("\n")
    ))
}
