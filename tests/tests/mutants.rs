//! Measures the kernel checker. Every good kernel of the repository is broken in every place by
//! every rule. The mutants run under seeds that choose the order of units, cores and servers.
//!
//! The checker may accept a mutant if the mutant does the same under all seeds, twice. If the
//! results differ among seeds, if the mutant hangs, or if a second launch finds remains of the
//! first one, the checker has *missed* something. A mutant may also compute something else, in the
//! same way under every seed. Then it is another kernel, and no test can show that it is wrong.
//!
//! The test takes a sample by default. `HCCL_TEST_FULL=1` takes all mutants and 32 seeds, and
//! prints the table. `HCCL_TEST_TELL=1` names the mutants that stay undetermined.

mod mutants {
    pub mod mutate;
    pub mod run;
    pub mod subjects;
}

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Once;

use ascend_program::Program;
use ascend_program::check::{Finding, Late, Product, Setting, Severity, check};
use ascend_program::flow::Launch;
use ascend_program::step::{Node, Step, Sync};
use mutants::mutate::{self, Mutant, RULES};
use mutants::run::{BEFORE, Bench, Outcome};
use mutants::subjects::{self, Subject};

/// Makes the emulator run kernels that the checker would refuse; the test calls the checker itself.
fn unchecked() {
    static ONCE: Once = Once::new();
    // SAFETY: every test begins here, before anything else in this program reads the environment.
    ONCE.call_once(|| unsafe { std::env::set_var("ASCEND_EMULATOR_KERNELS", "unchecked") });
}

/// The number of seeds for runs in the order of a witness. A seed chooses everything that the
/// witness leaves open.
const WITNESS_SEEDS: u64 = 8;

fn full() -> bool {
    std::env::var_os("HCCL_TEST_FULL").is_some_and(|value| value == "1")
}

/// Returns the errors that the checker finds, on any rank.
fn refused(subject: &Subject, program: &Program) -> Vec<Finding> {
    let bytes = |bytes: usize| Some(bytes as u64);
    let setting = Setting {
        parameters: subject.tensors.iter().map(|of| bytes(*of)).collect(),
        workspace: bytes(subject.workspace),
        ..Setting::strict(Product::A3)
    };
    let mut errors = Vec::new();
    for rank in 0..subject.ranks {
        let groups = vec![(rank, subject.ranks); program.groups as usize];
        let launch = Launch { blocks: subject.blocks, tiling: (subject.tiling)("group"), groups };
        let found = check(program, &launch, &setting).err().unwrap_or_default();
        errors.extend(found.into_iter().filter(|finding| finding.severity == Severity::Error));
    }
    errors
}

/// Returns the rules of the errors.
fn rules(errors: &[Finding]) -> Vec<&str> {
    let rules: BTreeSet<&str> = errors.iter().map(|error| error.rule).collect();
    rules.into_iter().collect()
}

/// Returns the late participants in the witnesses of errors.
fn late(errors: &[Finding]) -> Vec<Late> {
    let mut late: Vec<Late> = Vec::new();
    for witness in errors.iter().filter_map(|error| error.witness.as_ref()) {
        if !late.contains(&witness.late) {
            late.push(witness.late);
        }
    }
    late
}

/// The benches of one subject. A bench is made again if a run on it has failed.
struct Benches<'a> {
    subject: &'a Subject,
    /// The outcome of the subject itself, in its own order, for each content of its outputs.
    good: [Outcome; 2],
    made: BTreeMap<u64, Bench<'a>>,
}

impl<'a> Benches<'a> {
    fn new(subject: &'a Subject) -> Self {
        let good = BEFORE.map(|before| Bench::new(subject, 0, None, before).run(&subject.program));
        Benches { subject, good, made: BTreeMap::new() }
    }

    /// Runs a program twice in a row, so that the second run finds the remains of the first one.
    fn twice(&mut self, seed: u64, program: &Program) -> [Outcome; 2] {
        let subject = self.subject;
        let bench =
            self.made.entry(seed).or_insert_with(|| Bench::new(subject, seed, None, BEFORE[0]));
        let first = bench.run(program);
        let second = if first.is_ok() { bench.run(program) } else { first.clone() };
        if second.is_err() {
            self.made.remove(&seed);
        }
        [first, second]
    }

    /// Returns whether a run goes wrong when this participant is late.
    fn goes_wrong(&self, late: Late, program: &Program) -> bool {
        (0..WITNESS_SEEDS).any(|seed| {
            BEFORE.iter().zip(&self.good).any(|(before, good)| {
                Bench::new(self.subject, seed, Some(late), *before).run(program) != *good
            })
        })
    }
}

/// The verdict on a mutant.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The checker refuses it, and a run in the order of a witness shows the error.
    Witnessed,
    /// The checker refuses it, and another run shows the error.
    Shown,
    /// The checker refuses it by these rules, and no run shows the error.
    NotShown(Vec<String>),
    /// The checker accepts it, and it does the same as the kernel.
    Same,
    /// The checker accepts it, and all runs have the same result, but not that of the kernel.
    Different,
    Missed(String),
}

fn judge(benches: &mut Benches<'_>, mutant: &Mutant, seeds: &[u64]) -> Verdict {
    let good = &benches.good[0].clone();
    let errors = refused(benches.subject, &mutant.program);
    let in_order = benches.twice(0, &mutant.program)[0].clone();
    if !errors.is_empty() {
        if late(&errors).into_iter().any(|late| benches.goes_wrong(late, &mutant.program)) {
            return Verdict::Witnessed;
        }
        let is_wrong = |outcome: &Outcome| outcome != good;
        let shown = is_wrong(&in_order)
            || seeds.iter().any(|seed| benches.twice(*seed, &mutant.program).iter().any(is_wrong));
        let rules = || rules(&errors).into_iter().map(str::to_owned).collect();
        return if shown { Verdict::Shown } else { Verdict::NotShown(rules()) };
    }
    for seed in seeds {
        for (run, outcome) in benches.twice(*seed, &mutant.program).into_iter().enumerate() {
            match outcome {
                Err(text) => return Verdict::Missed(format!("seed {seed}, run {run}: {text}")),
                outcome if outcome != in_order => {
                    return Verdict::Missed(format!("seed {seed}, run {run}: another result"));
                }
                _ => {}
            }
        }
    }
    if in_order == *good { Verdict::Same } else { Verdict::Different }
}

#[test]
fn good_kernels_do_the_same_under_every_seed() {
    unchecked();
    let seeds = if full() { 32 } else { 8 };
    for subject in subjects::subjects() {
        let name = &subject.program.name;
        assert_eq!(refused(&subject, &subject.program), [], "{name}");
        let mut benches = Benches::new(&subject);
        let good = benches.twice(0, &subject.program);
        assert!(good[0].is_ok(), "{name}: {:?}", good[0].as_ref().err());
        for seed in 0..=seeds {
            for (run, outcome) in benches.twice(seed, &subject.program).iter().enumerate() {
                assert_eq!(*outcome, good[0], "{name}, seed {seed}, run {run}");
            }
        }
    }
}

#[test]
fn what_the_checker_accepts_does_the_same_under_every_seed() {
    unchecked();
    let (seeds, every): (Vec<u64>, _) =
        if full() { ((1..=32).collect(), 1) } else { ((1..=8).collect(), 7) };
    let tell = std::env::var_os("HCCL_TEST_TELL").is_some();
    let mut table: BTreeMap<&str, [usize; 7]> = BTreeMap::new();
    let (mut missed, mut hidden, mut number) = (Vec::new(), BTreeMap::new(), 0);
    for subject in subjects::subjects() {
        let mut benches = Benches::new(&subject);
        for mutant in mutate::mutants(&subject.program) {
            number += 1;
            if number % every != 0 {
                continue;
            }
            let verdict = judge(&mut benches, &mutant, &seeds);
            let row = table.entry(mutant.rule).or_default();
            row[0] += 1;
            let name = &subject.program.name;
            match verdict {
                Verdict::Witnessed => row[1] += 1,
                Verdict::Shown => row[2] += 1,
                Verdict::NotShown(rules) => {
                    row[3] += 1;
                    if tell {
                        println!("not shown: {name}: {}: {rules:?}", mutant.what);
                    }
                    // Ranks run at the same time, so an error between them shows nearly always. An
                    // error within a core shows always.
                    assert_ne!(rules, ["units"], "{name}: no order shows {}", mutant.what);
                    *hidden.entry(rules.join(", ")).or_insert(0) += 1;
                }
                Verdict::Same => {
                    row[4] += 1;
                    if tell {
                        println!("the same: {name}: {}: {}", mutant.rule, mutant.what);
                    }
                }
                Verdict::Different => row[5] += 1,
                Verdict::Missed(why) => {
                    row[6] += 1;
                    missed.push(format!("{name}: {}: {}: {why}", mutant.rule, mutant.what));
                }
            }
        }
    }
    println!(
        "| rule | mutants | shown by a witness | shown by a run | refused | the same | another kernel | missed |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for rule in RULES {
        let row = table.get(rule).copied().unwrap_or_default().map(|count| count.to_string());
        println!("| {rule} | {} |", row.join(" | "));
    }
    println!("refused and not shown, by rules: {hidden:#?}");
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Removes every wait between units from every good kernel. The waits that the recorder inserts
/// repair the kernel, for the checker and in every order.
#[test]
fn inserted_waits_mend_every_kernel_that_has_lost_its_own() {
    unchecked();
    let seeds = if full() { 32 } else { 8 };
    let (mut broken, mut waits, mut inserted) = (0, 0, 0);
    let is_wait = |node: &Node| matches!(node.step, Step::Sync(Sync::Units(..) | Sync::Pipe(_)));
    let count =
        |program: &Program| program.blocks.iter().flatten().filter(|node| is_wait(node)).count();
    for subject in subjects::subjects() {
        let name = &subject.program.name;
        let mut program = subject.program.clone();
        program.blocks.iter_mut().for_each(|block| block.retain(|node| !is_wait(node)));
        broken += usize::from(!refused(&subject, &program).is_empty());
        ascend_program::waits::insert(&mut program);
        assert_eq!(program.validate(), Ok(()), "{name}");
        assert_eq!(refused(&subject, &program), [], "{name}");
        let mut benches = Benches::new(&subject);
        let good = benches.good[0].clone();
        for seed in 0..=seeds {
            for (run, outcome) in benches.twice(seed, &program).iter().enumerate() {
                assert_eq!(*outcome, good, "{name}, seed {seed}, run {run}");
            }
        }
        waits += count(&subject.program);
        inserted += count(&program);
        // A program that has all its waits gets no more.
        let mut again = program.clone();
        ascend_program::waits::insert(&mut again);
        assert_eq!(again, program, "{name}");
    }
    println!("{broken} kernels broken; {waits} waits of their own, {inserted} inserted");
    assert!(broken >= 3, "{broken}");
}

/// Makes the most common mistake: no unit waits for another one.
#[hccl::kernel::kernel(mix = "aiv_only")]
fn without_a_wait(
    k: hccl::kernel::Kernel,
    x: hccl::kernel::Input<f32>,
    y: hccl::kernel::Output<f32>,
) {
    let (a, b) = (k.scratch::<f32>(64).get(), k.scratch::<f32>(64).get());
    k.copy_in(&a, x, 64);
    k.muls(&b, &a, 2.0, 64);
    k.copy_out(y, &b, 64);
}

/// Returns whether `without_a_wait` doubles its input on a runtime with one device.
fn doubles(runtime: hccl::Runtime) -> hccl::Result<bool> {
    let device = runtime.device(0)?;
    let stream = device.stream()?;
    let x = device.upload(&[1.0_f32; 64], &stream)?;
    let mut y = device.zeros::<f32>(64, &stream)?;
    let mut kernel = without_a_wait::record()?.load(&device)?;
    kernel.launch(1).input(&x).output(&mut y).submit(&stream)?.wait()?;
    Ok(y.to_vec(&stream).wait()? == [2.0; 64])
}

#[test]
fn the_order_of_a_witness_shows_the_mistake() -> hccl::Result<()> {
    unchecked();
    let report = without_a_wait::record()?.check(&(), 1, 1, hccl::Product::A3, &[256, 256]);
    let late: Vec<_> =
        report.errors().filter_map(|error| Some(error.witness.as_ref()?.late)).collect();
    assert_eq!(late.len(), 2, "{report}");
    for late in late {
        let options = hccl::Runtime::emulator_builder().devices(1).kernel_late(late);
        assert!(!doubles(options.build()?)?, "{late} is late");
    }
    Ok(())
}

#[test]
fn a_seed_shows_what_the_order_of_the_program_hides() -> hccl::Result<()> {
    unchecked();
    let run = |seed: u64| {
        doubles(hccl::Runtime::emulator_builder().devices(1).kernel_seed(seed).build()?)
    };
    assert!(run(0)?, "in the order of the program");
    let right = (1..=8).map(run).collect::<Result<Vec<_>, _>>()?;
    assert!(right.contains(&false), "no seed shows it: {right:?}");
    // The same seed gives the same order.
    for (seed, right) in (1..=8).zip(right) {
        assert_eq!(run(seed)?, right, "seed {seed}");
    }
    Ok(())
}
