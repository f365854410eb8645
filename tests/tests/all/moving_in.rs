//! Tests the chapters for users of other libraries: hccl has the functions that their tables list,
//! and each way to divide a model has the cost on its page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use hccl::prelude::*;
use hccl_tests::repository;
use hccl_train::pipeline::Pipeline;
use hccl_train::tensor_parallel::TensorParallel;
use hccl_train::{BucketOptions, Error, GradientBuckets, LayerShards, Shards};
use tracing::field::{Field, Visit};
use tracing::{Id, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

const PAGES: [&str; 3] = ["torch", "nccl", "mpi"];

fn page(path: &str) -> String {
    fs::read_to_string(repository().join("docs/src").join(path)).expect("the page is there")
}

/// Returns the texts between backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the cells below the headings for which `is_wanted` is true, of all tables of a page.
fn cells(page: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<&str> {
    let (mut found, mut wanted) = (Vec::new(), None::<Vec<usize>>);
    for line in page.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix('|')) else {
            wanted = None;
            continue;
        };
        let row: Vec<&str> = row.split('|').map(str::trim).collect();
        match &wanted {
            Some(columns) => found.extend(columns.iter().filter_map(|column| row.get(*column))),
            None => wanted = Some((0..row.len()).filter(|at| is_wanted(row[*at])).collect()),
        }
    }
    found
}

fn sources(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(&path).expect("a source is text"));
        }
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Returns whether a source has a public item of this name.
fn declares(source: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "mod", "unsafe"];
    source.lines().filter(|line| line.contains(name)).map(str::trim_start).any(|line| {
        let mut words = words(line).skip_while(|word| ["", "pub"].contains(word));
        let is_item = words.next().is_some_and(|kind| kinds.contains(&kind));
        line.starts_with("pub ") && is_item && words.any(|word| word == name)
    })
}

/// Returns whether a path such as `Type::method`, `module::function` or `Type` exists.
fn exists(path: &str, sources: &[String]) -> bool {
    let path = path.split("::<").next().expect("a first part");
    match path.rsplit_once("::") {
        None => sources.iter().any(|source| declares(source, path)),
        Some((of, name)) => sources.iter().any(|source| {
            let is_of = |line: &str| line.starts_with("impl") && words(line).any(|word| word == of);
            let is_module = source.starts_with("//! ") && of.starts_with(char::is_lowercase);
            declares(source, name) && (is_module || source.lines().any(is_of))
        }),
    }
}

/// Code in the columns of hccl that is not the name of an item of hccl.
const OTHERS: [&str; 14] = [
    // Items that macros make.
    "Sum",
    "Prod",
    "Max",
    "Min",
    // Names of Rust and its crates.
    "None",
    "join_all",
    "select",
    "std::time::Instant",
    "tracing",
    // Names of other libraries.
    "Comm",
    "MPI_Ssend",
    "MPI_UNDEFINED",
    "HcclCommSymWinRegister",
    "_in_place",
];

#[test]
fn what_the_tables_say_that_hccl_has_exists() {
    let mut all = Vec::new();
    for directory in ["hccl/src", "hccl/train/src"] {
        sources(&repository().join(directory), &mut all);
    }
    let is_path = |span: &&str| span.starts_with(char::is_alphabetic) && !span.contains([' ', '-']);
    let is_variable = |span: &str| span.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let mut names = BTreeSet::new();
    for name in PAGES.into_iter().chain(["dividing"]) {
        let text = page(&format!("moving-in/{name}.md"));
        let columns = cells(&text, |head| ["hccl", "hccl-train", "take"].contains(&head));
        let spans = columns.iter().flat_map(|cell| code_spans(cell)).filter(is_path);
        let ours: Vec<&str> =
            spans.filter(|span| !OTHERS.contains(span) && !is_variable(span)).collect();
        assert!(ours.len() >= 5, "the tables of {name}.md have gone missing: {ours:?}");
        names.extend(ours.into_iter().map(str::to_owned));
    }
    let missing: Vec<_> = names.iter().filter(|name| !exists(name, &all)).collect();
    assert!(missing.is_empty(), "there is no {missing:?}");
    assert!(!exists("Communicator::gather", &all) && !exists("Gatherer", &all));
}

#[test]
fn each_chapter_has_every_collective() {
    let collectives = page("reference/collectives.md");
    let table = cells(&collectives, |head| ["method", "in place"].contains(&head));
    let methods: BTreeSet<&str> = table.into_iter().flat_map(code_spans).collect();
    assert!(methods.len() > 15, "the table has gone missing: {methods:?}");
    for name in PAGES {
        let text = page(&format!("moving-in/{name}.md"));
        let named: BTreeSet<&str> =
            code_spans(&text).filter_map(|span| span.strip_prefix("Communicator::")).collect();
        let missing: Vec<_> = methods.difference(&named).collect();
        assert!(missing.is_empty(), "{name}.md does not have {missing:?}");
    }
}

/// A subscriber that collects the operations that ranks report to `tracing`: names and elements.
#[derive(Default)]
struct Issued(Mutex<BTreeMap<String, u64>>);

#[derive(Default)]
struct Fields {
    operation: String,
    count: u64,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "count" {
            self.count = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "operation" {
            self.operation = value.into();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl<S: Subscriber> Layer<S> for &'static Issued {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        *self.0.lock().unwrap().entry(fields.operation).or_default() += fields.count;
    }
}

/// Runs a step on two ranks, and returns the elements of each kind of operation that rank 1 has
/// issued, without the comparison of the lengths in the first step.
fn issued(
    step: impl Fn(&mut Communicator, &Stream) -> hccl_train::Result<()> + Sync,
) -> BTreeMap<String, u64> {
    let runtime = hccl_tests::runtime_with(2);
    let counts = runtime.run_ranks(2, |rank| -> hccl_train::Result<_> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let issued: &'static Issued = Box::leak(Box::default());
        let heard = tracing_subscriber::registry().with(issued);
        tracing::subscriber::with_default(heard, || step(&mut comm, &stream))?;
        Ok(std::mem::take(&mut *issued.0.lock().unwrap()))
    });
    let mut counts = counts.unwrap().swap_remove(1);
    // The ranks exchange the lengths by these operations, which no way to divide a model uses.
    counts.retain(|operation, _| !operation.starts_with("all_to_all"));
    counts
}

fn counts<const N: usize>(of: [(&str, u64); N]) -> BTreeMap<String, u64> {
    of.map(|(name, count)| (name.to_owned(), count)).into()
}

/// Compares the counts with the page's table, for two ranks and a model of 100 parameters. A count
/// is that of a rank's part.
#[test]
fn each_way_to_divide_a_model_moves_what_the_page_says() {
    const LAYERS: [usize; 4] = [40, 20, 10, 30];
    let data_parallel = issued(|comm, stream| {
        let options = BucketOptions::default().bytes(100);
        let mut buckets = GradientBuckets::<f32>::with(options, &LAYERS, stream)?;
        let mut step = buckets.step(comm, stream);
        for layer in (0..LAYERS.len()).rev() {
            step.push(layer, &vec![1.0; LAYERS[layer]])?;
        }
        step.finish()?.norm().map(drop)
    });
    assert_eq!(data_parallel, counts([("all_reduce", 100)]));

    let sharded = issued(|comm, stream| {
        let mut shards = Shards::<f32>::new(&LAYERS, comm, stream)?;
        let own = shards.reduce(comm, stream)?.to_vec();
        shards.gather(&own, comm, stream)?;
        shards.parameter(0).map(drop)
    });
    assert_eq!(sharded, counts([("reduce_scatter", 50), ("all_gather", 50)]));

    let layers = issued(|comm, stream| {
        let mut layers =
            LayerShards::<f32>::new(&LAYERS, comm, stream, |_, own| vec![0.0; own.len()])?;
        for layer in 0..LAYERS.len() {
            layers.get(layer, comm, stream)?;
        }
        for layer in (0..LAYERS.len()).rev() {
            layers.get(layer, comm, stream)?;
            let own = layers.reduce(layer, &vec![1.0; LAYERS[layer]], comm, stream)?;
            layers.update(layer, &own, stream)?;
        }
        Ok(())
    });
    // Forward there are 100 parameters, and backward all but the last two layers, in two parts.
    assert_eq!(layers, counts([("reduce_scatter", 50), ("all_gather", (100 + 60) / 2)]));

    let tensor = issued(|comm, stream| {
        let mut group = TensorParallel::new(comm, stream);
        group.reduce_out(&[1.0_f32; 24])?;
        group.copy_in_backward(&[1.0_f32; 24]).map(drop)
    });
    assert_eq!(tensor, counts([("all_reduce", 2 * 24)]));

    let sequence = issued(|comm, stream| {
        let mut group = TensorParallel::new(comm, stream);
        let all = group.gather_in(&[1.0_f32; 12])?;
        let own = group.scatter_out(&all)?;
        let all = group.scatter_out_backward(&own)?;
        group.gather_in_backward(&all).map(drop)
    });
    assert_eq!(sequence, counts([("all_gather", 2 * 12), ("reduce_scatter", 2 * 12)]));

    let pipeline = issued(|comm, stream| {
        let mut pipeline = Pipeline::<f32>::new(24, comm, stream)?;
        pipeline.step(3, comm, stream, |_| 24, |_, _| Ok::<_, Error>(vec![1.0; 24]))
    });
    // This is the last of two stages. Three messages come forward and three go back, in batches of
    // one or two messages.
    assert_eq!(pipeline, counts([("batch", 2 * 3)]));
}

/// Returns how much less device memory is free after `make`, on one of two ranks.
fn taken<T>(make: impl Fn(&mut Communicator, &Stream) -> hccl_train::Result<T> + Sync) -> usize {
    let runtime = hccl_tests::runtime_with(2);
    let taken = runtime.run_ranks(2, |rank| -> hccl_train::Result<usize> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let before = rank.device().memory_info()?.free;
        let made = make(&mut comm, &stream)?;
        stream.synchronize()?;
        let after = rank.device().memory_info()?.free;
        drop(made);
        Ok(before - after)
    });
    taken.unwrap()[0]
}

#[test]
fn the_buffers_of_hccl_train_take_what_the_page_says() {
    const B: usize = 4;
    const L: usize = 1 << 18;
    let (p, n) = (2 * L, 2);
    let lengths = [L, L];
    // An allocation is rounded up by less than this.
    let is_about = |taken: usize, expected: usize| {
        assert!((expected..expected + (1 << 14)).contains(&taken), "{taken}, not {expected}");
    };
    is_about(taken(|_, stream| GradientBuckets::<f32>::new(&lengths, stream)), B * p);
    is_about(taken(|comm, stream| Shards::<f32>::new(&lengths, comm, stream)), B * p + B * p / n);
    let layers = taken(|comm, stream| {
        LayerShards::<f32>::new(&lengths, comm, stream, |_, own| vec![0.0; own.len()])
    });
    is_about(layers, B * p / n + 2 * B * L + B * L / n);
    is_about(taken(|comm, stream| Pipeline::<f32>::new(L, comm, stream)), 2 * B * L);
}
