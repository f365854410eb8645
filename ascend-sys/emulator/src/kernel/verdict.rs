//! What the checker says of a launch, kept for the next one like it.
//!
//! A kernel is checked before its first block runs: by what the documents ask for, or by what the hardware tolerates, if the
//! environment variable `ASCEND_EMULATOR_KERNELS` is `tolerant`, or not at all, if it is `unchecked`.

use super::global::Region;
use crate::profile;
use crate::sync::lock_std as lock;
use ascend_program::Program;
use ascend_program::check::{Product, Setting, Severity, check};
use ascend_program::flow::Launch;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};

/// A loaded program.
pub(crate) struct Recorded {
    pub(crate) program: Arc<Program>,
    /// The newest last.
    verdicts: Mutex<Vec<Verdict>>,
}

/// Kept for each program.
const MOST: usize = 8;
/// Findings that a text lists.
const LISTED: usize = 8;

struct Verdict {
    launch: Arc<Launch>,
    product: profile::Product,
    sizes: Vec<Option<u64>>,
    text: Option<String>,
}

/// What is asked of kernels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Strict,
    Tolerant,
    Unchecked,
}

fn strictness() -> Result<Strictness, String> {
    static ASKED: OnceLock<Result<Strictness, String>> = OnceLock::new();
    let ask = || match std::env::var("ASCEND_EMULATOR_KERNELS").as_deref() {
        Err(_) | Ok("" | "strict") => Ok(Strictness::Strict),
        Ok("tolerant") => Ok(Strictness::Tolerant),
        Ok("unchecked") => Ok(Strictness::Unchecked),
        Ok(other) => {
            let text = "strict, tolerant and unchecked are possible";
            Err(format!("ASCEND_EMULATOR_KERNELS={other}: {text}"))
        }
    };
    ASKED.get_or_init(ask).clone()
}

impl Recorded {
    pub(super) fn new(program: Program) -> Recorded {
        Recorded { program: Arc::new(program), verdicts: Mutex::default() }
    }

    /// Looks at a launch. The error lists what is wrong with it.
    pub(super) fn check(
        &self,
        launch: &Arc<Launch>,
        product: profile::Product,
        regions: &[Result<Region, String>],
    ) -> Result<(), String> {
        let strictness = strictness()?;
        if strictness == Strictness::Unchecked {
            return Ok(());
        }
        let size = |region: &Result<Region, String>| {
            region.as_ref().ok().map(|region| region.extent().1 as u64)
        };
        let sizes: Vec<_> = regions.iter().map(size).collect();
        let mut verdicts = lock(&self.verdicts);
        let known = verdicts.iter().find(|verdict| {
            verdict.product == product
                && verdict.sizes == sizes
                && verdict.launch.blocks == launch.blocks
                && verdict.launch.groups == launch.groups
                && verdict.launch.tiling == launch.tiling
        });
        let text = match known {
            Some(verdict) => verdict.text.clone(),
            None => {
                let text = self.look(launch, product, &sizes, strictness);
                if verdicts.len() == MOST {
                    verdicts.remove(0);
                }
                let (launch, found) = (Arc::clone(launch), text.clone());
                verdicts.push(Verdict { launch, product, sizes, text: found });
                text
            }
        };
        text.map_or(Ok(()), Err)
    }

    fn look(
        &self,
        launch: &Launch,
        product: profile::Product,
        sizes: &[Option<u64>],
        strictness: Strictness,
    ) -> Option<String> {
        let product = match product {
            profile::Product::A2 => Product::A2,
            profile::Product::A3 => Product::A3,
            profile::Product::Ascend950 => Product::Ascend950,
        };
        let (workspace, parameters) = sizes.split_last()?;
        let setting = Setting {
            tolerant: strictness == Strictness::Tolerant,
            parameters: parameters.to_vec(),
            workspace: *workspace,
            ..Setting::strict(product)
        };
        let findings = check(&self.program, launch, &setting).err()?;
        let errors: Vec<_> =
            findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        let mut text = String::from("the kernel breaks rules of the product, so it was not begun");
        for finding in errors.iter().take(LISTED) {
            let _ = write!(text, "\n{finding}");
        }
        if errors.len() > LISTED {
            let _ = write!(text, "\nand {} more", errors.len() - LISTED);
        }
        Some(text)
    }
}
