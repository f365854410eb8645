//! The check of a kernel for all ranks, without a launch. Use it in a test or a build script. A
//! program that launches the kernel need not call it, since every launch is checked.

#![forbid(unsafe_code)]

use std::fmt::{self, Display, Formatter};

use ascend_program::Warning;
/// A finding of [`Recorded::check`].
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64 }
/// # #[kernel(mix = "aiv_only")]
/// # fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
/// #     let count = k.tiling().count;
/// #     let a = k.scratch::<f32>(64).get();
/// #     k.copy_in(&a, x, count);
/// #     k.muls(&a, &a, 2.0, count);
/// #     k.copy_out(y, &a, count);
/// # }
/// # fn main() -> hccl::Result<()> {
/// // A kernel whose vector unit does not wait for the copy before it.
/// let kernel = double::record()?;
/// let report = kernel.check(&Sizes { count: 64 }, 1, 1, hccl::Product::A3, &[256, 256]);
/// for finding in report.errors() {
///     println!("{}, line {}: {}", finding.rule, finding.line, finding.message);
///     println!("{}", finding.help);
/// }
/// # assert_eq!(report.errors().count(), 2);
/// # Ok(())
/// # }
/// ```
pub use ascend_program::check::Finding;
/// The part of a kernel that is late in a [`Witness`].
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64 }
/// # #[kernel(mix = "aiv_only")]
/// # fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
/// #     let count = k.tiling().count;
/// #     let a = k.scratch::<f32>(64).get();
/// #     k.copy_in(&a, x, count);
/// #     k.muls(&a, &a, 2.0, count);
/// #     k.copy_out(y, &a, count);
/// # }
/// # fn main() -> hccl::Result<()> {
/// // A kernel whose vector unit does not wait for the copy before it.
/// let kernel = double::record()?;
/// let report = kernel.check(&Sizes { count: 64 }, 1, 1, hccl::Product::A3, &[256, 256]);
/// let late: Option<Late> = report.errors().find_map(|it| it.witness.as_ref()).map(|it| it.late);
/// if let Some(late) = late {
///     // On this runtime, every run of the kernel shows the error.
///     let runtime = hccl::Runtime::emulator_builder().devices(1).kernel_late(late).build()?;
/// #   let _ = runtime;
/// }
/// # assert!(late.is_some());
/// # Ok(())
/// # }
/// ```
pub use ascend_program::check::Late;
/// The severity of a [`Finding`].
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64 }
/// # #[kernel(mix = "aiv_only")]
/// # fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
/// #     let count = k.tiling().count;
/// #     let a = k.scratch::<f32>(64).get();
/// #     k.copy_in(&a, x, count);
/// #     k.muls(&a, &a, 2.0, count);
/// #     k.copy_out(y, &a, count);
/// # }
/// # fn main() -> hccl::Result<()> {
/// // A kernel whose vector unit does not wait for the copy before it.
/// let kernel = double::record()?;
/// let report = kernel.check(&Sizes { count: 64 }, 1, 1, hccl::Product::A3, &[256, 256]);
/// let errors = report.findings().filter(|finding| finding.severity == Severity::Error);
/// assert_eq!(errors.count(), 2);
/// # Ok(())
/// # }
/// ```
pub use ascend_program::check::Severity;
/// The proof of a [`Finding`] about order: an order of execution in which the result is wrong.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[derive(Tiling)]
/// # #[repr(C)]
/// # struct Sizes { count: u64 }
/// # #[kernel(mix = "aiv_only")]
/// # fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
/// #     let count = k.tiling().count;
/// #     let a = k.scratch::<f32>(64).get();
/// #     k.copy_in(&a, x, count);
/// #     k.muls(&a, &a, 2.0, count);
/// #     k.copy_out(y, &a, count);
/// # }
/// # fn main() -> hccl::Result<()> {
/// // A kernel whose vector unit does not wait for the copy before it.
/// let kernel = double::record()?;
/// let report = kernel.check(&Sizes { count: 64 }, 1, 1, hccl::Product::A3, &[256, 256]);
/// for witness in report.errors().filter_map(|finding| finding.witness.as_ref()) {
///     println!("{} (late: {})", witness.text, witness.late);
/// }
/// # assert!(report.errors().any(|finding| finding.witness.is_some()));
/// # Ok(())
/// # }
/// ```
pub use ascend_program::check::Witness;
use ascend_program::check::{self, Setting};
use ascend_program::flow::Launch;

use super::recorded::Recorded;
use super::symbol::TilingArgument;
use crate::error::product::Product;

impl<T: TilingArgument> Recorded<T> {
    /// Checks the kernel as a launch on every rank would check it, but without a device. The rules
    /// are those of [`ascend_program::check`]. Moves no data and does not block.
    ///
    /// `tiling` is the tiling struct, filled as for a launch (`&()` for a kernel without one).
    /// `blocks` is the number of blocks, and `ranks` the number of ranks of each group. `sizes` has
    /// the size of each tensor in bytes, in the order of the arguments, and then the size of the
    /// workspace if the kernel uses one. If the list is too short, the remaining sizes are not
    /// known. Then the bounds of these tensors are not checked, and the report says so.
    ///
    /// ```
    /// use hccl::kernel::*;
    /// use hccl::prelude::Product;
    ///
    /// #[derive(Tiling)]
    /// #[repr(C)]
    /// struct Sizes { count: u64 }
    ///
    /// /// `y = 2 x`, without a queue and without a wait.
    /// #[kernel(mix = "aiv_only")]
    /// fn double(k: Kernel<Sizes>, x: Input<f32>, y: Output<f32>) {
    ///     let count = k.tiling().count;
    ///     let a = k.scratch::<f32>(64).get();
    ///     k.copy_in(&a, x, count);
    ///     k.muls(&a, &a, 2.0, count);
    ///     k.copy_out(y, &a, count);
    /// }
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let report = double::record()?.check(&Sizes { count: 64 }, 1, 1, Product::A3, &[256, 256]);
    /// let rules: Vec<_> = report.errors().map(|finding| finding.rule).collect();
    /// assert_eq!(rules, ["units", "units"]);
    /// assert!(report.to_string().contains("call `k.wait_for(Pipe::Vector, Pipe::In)` in between"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn check(
        &self,
        tiling: &T,
        blocks: u32,
        ranks: u32,
        product: Product,
        sizes: &[usize],
    ) -> Report {
        let program = self.program();
        let count = program.parameters.len();
        let bytes = |at: usize| sizes.get(at).map(|bytes| *bytes as u64);
        let setting = Setting {
            parameters: (0..count).map(bytes).collect(),
            workspace: bytes(count),
            ..Setting::strict(product.of_kernels())
        };
        // Without a group, the launch is the same on all ranks.
        let different = if program.groups == 0 { 1 } else { ranks };
        let names = program.parameters.iter().map(|parameter| parameter.name.clone());
        let names = names.chain(program.workspace.then(|| "workspace".to_owned()));
        let mut report = Report {
            kernel: program.name.clone(),
            product,
            blocks,
            ranks,
            different,
            sizes: names.clone().zip(sizes.iter().copied()).collect(),
            unknown: names.skip(sizes.len()).collect(),
            findings: Vec::new(),
        };
        let launches: Vec<Launch> = (0..different)
            .map(|rank| {
                let groups = vec![(rank, ranks); program.groups as usize];
                Launch { blocks, tiling: tiling.bytes().to_vec(), groups }
            })
            .collect();
        let found = check::check_ranks(program, &launches, &setting);
        found.into_iter().zip(0..).for_each(|(found, rank)| report.add(rank, found));
        report
    }
}

/// Returns whether a note says that a part of the kernel was not checked. Considers only the rules
/// that a rank checks alone.
pub(super) fn is_cut(note: &Finding) -> bool {
    note.severity == Severity::Note && matches!(note.rule, "data" | "long" | "launch")
}

/// The findings of [`Recorded::check`], with the numbers of the checked launch. `Display` prints a
/// summary of the launch, and then each finding. A finding that is not on all ranks is printed with
/// its ranks.
///
/// ```
/// use hccl::kernel::*;
///
/// # #[kernel(mix = "aiv_only")]
/// # fn sevens(k: Kernel, y: Output<u64>) {
/// #     let line = y.at(k.block_index() * 8);
/// #     line.set(0, 7);
/// #     line.clean(0);
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Two blocks, one rank, 128 bytes in `y`.
/// let report: Report = sevens::record()?.check(&(), 2, 1, hccl::Product::A3, &[128]);
/// for finding in report.errors() {
///     eprintln!("{finding}");
/// }
/// assert!(report.is_good(true));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Report {
    kernel: String,
    product: Product,
    blocks: u32,
    ranks: u32,
    /// The number of ranks that were checked, which is 1 if all ranks do the same.
    different: u32,
    /// The names of the tensors of known size, with their sizes in bytes.
    sizes: Vec<(String, usize)>,
    /// The names of the tensors of unknown size.
    unknown: Vec<String>,
    /// Each finding, with the ranks on which it was found.
    findings: Vec<(Finding, Vec<u32>)>,
}

impl Report {
    /// Adds the findings of a rank. Errors come first, and a cause comes before the findings that
    /// it may have caused. Otherwise the findings of a rank are in the order of the source.
    fn add(&mut self, rank: u32, findings: Vec<Finding>) {
        let place = |of: &Finding| (of.severity, of.rule, of.file.clone(), of.line, of.column);
        for finding in findings {
            let known = self.findings.iter_mut().find(|(of, _)| place(of) == place(&finding));
            match known {
                Some((_, ranks)) => ranks.push(rank),
                None => self.findings.push((finding, vec![rank])),
            }
        }
        let place = |finding: &Finding| (finding.severity, finding.may_be_caused());
        self.findings.sort_by_key(|(finding, _)| place(finding));
    }

    /// Returns all findings: errors first, then warnings, then notes.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().map(|(finding, _)| finding)
    }

    /// Returns the errors: findings that prevent a launch of the kernel.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings().filter(|finding| finding.severity == Severity::Error)
    }

    /// Returns the warnings: findings that do not prevent a launch, but mean that a part of the
    /// kernel's work is lost. The kernel can [allow](super::Kernel::allow) them.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings().filter(|finding| finding.severity == Severity::Warning)
    }

    /// Returns the notes: parts of the kernel that were not checked, and code that is usual but
    /// fragile.
    pub fn notes(&self) -> impl Iterator<Item = &Finding> {
        self.findings().filter(|finding| finding.severity == Severity::Note)
    }

    /// Returns whether the whole kernel was checked. This requires that no part of it depends on
    /// data or is too long, that there are not too many blocks, and that all sizes were given.
    pub fn is_complete(&self) -> bool {
        let is_open = |note: &Finding| is_cut(note) || note.rule == Warning::Windows.rule();
        self.unknown.is_empty() && !self.notes().any(is_open)
    }

    /// Returns whether there is no error. If `strict` is set, the whole kernel must also have been
    /// [checked](Self::is_complete).
    pub fn is_good(&self, strict: bool) -> bool {
        self.errors().next().is_none() && (self.is_complete() || !strict)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let many = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let Report { kernel, product, blocks, ranks, different, unknown, findings, .. } = self;
        let errors = match self.errors().count() {
            0 => "no error".to_owned(),
            count => many(count, "error"),
        };
        write!(
            f,
            "`{kernel}` on {product}, {}, {}: {errors}",
            many(*blocks as usize, "block"),
            many(*ranks as usize, "rank")
        )?;
        match self.warnings().count() {
            0 => {}
            count => write!(f, ", {}", many(count, "warning"))?,
        }
        match self.is_complete() {
            true => write!(f, ", all of it checked")?,
            false => write!(f, ", not all of it checked")?,
        }
        if self.is_complete() && self.errors().next().is_none() {
            let sizes: Vec<String> = self
                .sizes
                .iter()
                .map(|(name, bytes)| format!("`{name}` of {bytes} bytes"))
                .collect();
            let sizes = if sizes.is_empty() { "no tensors".to_owned() } else { sizes.join(", ") };
            write!(
                f,
                "\n   = in every order of units, cores and turns, with this tiling and {sizes}"
            )?;
        }
        if !unknown.is_empty() {
            write!(
                f,
                "\n   = bounds of {} were not checked: no size was given; pass all sizes to \
                 `check`",
                unknown.join(", ")
            )?;
        }
        for (finding, on) in findings {
            write!(f, "\n{finding}")?;
            if on.len() < *different as usize {
                let noun = if on.len() == 1 { "rank" } else { "ranks" };
                let on: Vec<String> = on.iter().map(u32::to_string).collect();
                write!(f, "\n   = on {noun} {} of {ranks}", on.join(", "))?;
            }
        }
        Ok(())
    }
}
