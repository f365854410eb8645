//! The common part of every test of a rule: a kernel that breaks the rule gives the expected text,
//! and its repaired twin gives no text.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use ascend_program::check::{Finding, Product, Setting, Severity, check, check_ranks};
use ascend_program::flow::Launch;
use ascend_program::layout::Number;
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::{self, Builder};

/// A kernel under construction, and the arguments of its launch.
pub struct Kernel {
    pub builder: Builder,
    pub setting: Setting,
    pub blocks: u32,
    pub ranks: u32,
    /// The operations for which the tiling struct is filled.
    pub operations: Vec<u32>,
    /// The type of the elements for which the tiling struct is filled.
    pub dtype: u8,
    /// The number of contexts of the launch. `None` stands for one for each group.
    pub contexts: Option<usize>,
    /// Bytes that overwrite those of the filled tiling, each with its offset.
    pub patches: Vec<(usize, Vec<u8>)>,
    /// Whether warnings count. They do not by default, because most kernels here do no work.
    pub warned: bool,
}

impl Deref for Kernel {
    type Target = Builder;
    fn deref(&self) -> &Builder {
        &self.builder
    }
}

impl DerefMut for Kernel {
    fn deref_mut(&mut self) -> &mut Builder {
        &mut self.builder
    }
}

impl Kernel {
    pub fn new(mix: Mix) -> Self {
        Kernel {
            builder: Builder::new(mix),
            setting: Setting::strict(Product::A3),
            blocks: 2,
            ranks: 4,
            operations: Vec::new(),
            dtype: 3,
            contexts: None,
            patches: Vec::new(),
            warned: false,
        }
    }

    /// Returns the configured client.
    pub fn ready(&mut self, operations: &[u32]) -> ClientId {
        self.operations = operations.to_vec();
        self.builder.ready(operations)
    }

    pub fn put(&mut self, at: usize, number: u32) {
        self.patches.push((at, number.to_le_bytes().to_vec()));
    }

    /// Allows reads of windows that an earlier launch has written.
    pub fn allow_windows(&mut self) {
        let reason = "an earlier launch has written them".to_owned();
        self.program.allowed.push(Allowed { warning: Warning::Windows, reason });
    }

    /// Sets the tiling of a product on one core.
    pub fn put_cube(&mut self, at: usize, number: Number, bias: Option<Number>, size: [usize; 3]) {
        let tiles = build::cube(number, bias, size, 1);
        self.patches.push((at, build::cube_bytes(&tiles)));
    }

    /// Returns the findings of the launch on rank 1, or on the only rank.
    pub fn findings(self) -> Vec<Finding> {
        let rank = 1 % self.ranks.max(1);
        self.findings_by([rank], |program, launches, setting| {
            vec![check(program, &launches[0], setting).unwrap_or_else(|errors| errors)]
        })
        .swap_remove(0)
    }

    /// Returns the findings of the launches of all ranks.
    pub fn findings_of_all(self) -> Vec<Vec<Finding>> {
        let ranks = self.ranks;
        self.findings_by(0..ranks, check_ranks)
    }

    fn findings_by(
        self,
        ranks: impl IntoIterator<Item = u32>,
        check: impl Fn(&Program, &[Launch], &Setting) -> Vec<Vec<Finding>>,
    ) -> Vec<Vec<Finding>> {
        let mut tiling = build::tiling(&self.operations);
        for at in 0..self.operations.len() {
            tiling[64 + 512 * at + 14..][..2].fill(self.dtype);
        }
        for (at, bytes) in self.patches {
            tiling[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let contexts = self.contexts.unwrap_or(self.builder.program.groups as usize);
        let launch = |rank| {
            let groups = vec![(rank, self.ranks); contexts];
            Launch { blocks: self.blocks, tiling: tiling.clone(), groups }
        };
        let launches: Vec<Launch> = ranks.into_iter().map(launch).collect();
        let program = self.builder.done();
        let mut found = check(&program, &launches, &self.setting);
        let counts = |finding: &Finding| self.warned || finding.severity != Severity::Warning;
        found.iter_mut().for_each(|of| of.retain(counts));
        found
    }
}

/// Returns an exchange of elements from the start of `x` to the start of `y`, both half floats.
pub fn exchange(k: &mut Kernel, x: Base, y: Base, count: u64) -> Exchange {
    let (send, recv, count) = (k.at(x, 0), k.at(y, 0), k.n(count));
    Exchange { send, recv, count, dtype: 3 }
}

/// Returns an all-reduce of `x` into `y`, with 64 elements in a turn.
pub fn all_reduce(k: &mut Kernel, x: Base, y: Base) -> Operation {
    Operation::AllReduce(exchange(k, x, y, 64), Reduction::Sum)
}

/// Returns the client and its task `tiles`, with the operation to prepare for `x` and `y`.
pub fn reduction(k: &mut Kernel) -> (ClientId, TaskId, Operation) {
    let (x, y) = (k.input("x", Number::F16), k.output("y", Number::F16));
    let hccl = k.ready(&[2]);
    (hccl, k.task("tiles", hccl), all_reduce(k, x, y))
}

/// Returns an AlltoAllV with `count` elements for each rank, one block after the other.
pub fn all_to_all_v(k: &mut Kernel, (x, y): (Base, Base), ranks: u64, count: u64) -> Operation {
    let counts = vec![k.n(count); ranks as usize];
    let displs: Vec<ValueId> = (0..ranks).map(|rank| k.n(count * rank)).collect();
    let (counts, displs) = (PerRank::Values(counts), PerRank::Values(displs));
    Operation::AlltoAllV {
        send: k.at(x, 0),
        recv: k.at(y, 0),
        dtype: 3,
        send_counts: counts.clone(),
        send_displs: displs.clone(),
        recv_counts: counts,
        recv_displs: displs,
    }
}

pub type Build = fn(&mut Kernel, bool);

/// Checks that a kernel that breaks a rule gives the expected text, and that its twin gives none.
pub fn prove(name: &str, rule: &str, mix: Mix, build: Build) {
    let findings = |broken| {
        let mut kernel = Kernel::new(mix);
        kernel.warned = matches!(rule, "never-written" | "overwritten");
        build(&mut kernel, broken);
        kernel.findings()
    };
    let wrong = findings(true);
    assert!(wrong.iter().any(|finding| finding.rule == rule), "{rule} is not among {wrong:#?}");
    let right = findings(false);
    assert!(right.is_empty(), "the repaired kernel: {right:#?}");
    let text: Vec<String> = wrong.iter().map(|finding| finding.to_string()).collect();
    expect(name, &(text.join("\n") + "\n"));
}

const TEXTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/check/texts.txt");

/// Compares a text with the expected text of this name. With `ASCEND_PROGRAM_BLESS` set, the text
/// becomes the expected one.
pub fn expect(name: &str, text: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let bless = std::env::var_os("ASCEND_PROGRAM_BLESS").is_some();
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let known = std::fs::read_to_string(TEXTS).unwrap_or_default();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for part in known.split("== ").skip(1) {
        let (name, text) = part.split_once(" ==\n").expect("a name before each text");
        texts.insert(name.to_owned(), text.trim_end().to_owned() + "\n");
    }
    if bless {
        texts.insert(name.to_owned(), text.to_owned());
        let parts: Vec<String> =
            texts.iter().map(|(name, text)| format!("== {name} ==\n{text}")).collect();
        std::fs::write(TEXTS, parts.join("\n")).expect("write the texts");
        return;
    }
    let found = texts.get(name).map_or("nothing: set ASCEND_PROGRAM_BLESS=1 to take it", |t| t);
    assert_eq!(found, text, "the text of {name}");
}

/// Defines tests of rules. Each has a name, the rule that is broken, the cores of the kernel, and a
/// function that builds the kernel, broken or repaired.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident, $rule:literal, $mix:ident, $build:expr;)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                crate::check::harness::prove(stringify!($name), $rule, Mix::$mix, $build);
            }
        )*
    };
}
pub(crate) use rules;
