//! A rank that goes is told to the others at once, whatever way the communicator was made.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use hccl::prelude::*;

/// Far beyond what takes a moment; a rank that is not told would wait for longer.
const LONG: Duration = Duration::from_secs(60);

/// The communicators of two ranks, made in each way; those in the second list are parts of those in the first.
type Pair = Vec<Communicator>;

fn small() -> Runtime {
    Runtime::emulator_builder().devices(2).memory(64 << 20).build().unwrap()
}

fn ways(runtime: &Runtime) -> Vec<(&'static str, Pair, Pair)> {
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let all = || Communicator::init_all(&devices).wait().unwrap();
    let by_root = || {
        let root = RootInfo::new(&devices[0]).unwrap();
        let ranks = [0, 1].map(|rank| {
            let builder = Communicator::builder().runtime(runtime).rank(rank).world_size(2);
            builder.root_info(&root).build()
        });
        ranks.map(|rank| rank.wait().unwrap()).into()
    };
    let both = |parts: Vec<Pending<Option<Communicator>>>| -> Pair {
        parts.into_iter().map(|part| part.wait().unwrap().unwrap()).collect()
    };
    let split = |whole: &mut Pair| both(whole.iter_mut().map(|it| it.split(Some(0), 0)).collect());
    let subset =
        |whole: &mut Pair| both(whole.iter_mut().map(|it| it.subset(&[1, 0], 1)).collect());
    let (mut wholes, mut roots): (Pair, Pair) = (all(), by_root());
    let (parts, members) = (split(&mut wholes), subset(&mut roots));
    vec![
        ("init_all", Vec::new(), all()),
        ("root info", Vec::new(), by_root()),
        ("split", wholes, parts),
        ("subset", roots, members),
    ]
}

/// Rank 1 waits, and says what it was told when rank 0 has gone in this way. Before the first contact, and after it.
fn told(go: impl Fn(Communicator), says: &[&str]) {
    for linked in [false, true] {
        let runtime = small();
        runtime.set_deadline(LONG);
        for (way, wholes, mut pair) in ways(&runtime) {
            if linked {
                let links: Vec<_> = pair.iter_mut().map(Communicator::connect).collect();
                links.into_iter().for_each(|link| link.wait().unwrap());
            }
            let [goes, mut stays] = <[_; 2]>::try_from(pair).unwrap();
            let stream = stays.device().stream().unwrap();
            let work = stays.barrier(&stream).unwrap();
            go(goes);
            let text = work.wait().unwrap_err().to_string();
            for piece in says {
                assert!(text.contains(piece), "{way}, linked {linked}: {piece}: {text}");
            }
            // It is a part that has gone: the whole goes on.
            let mut whole = wholes.into_iter();
            if let (Some(mut zero), Some(mut one)) = (whole.next(), whole.next()) {
                let other = zero.device().stream().unwrap();
                let theirs = zero.barrier(&other).unwrap();
                one.barrier(&stream).unwrap().wait().unwrap();
                theirs.wait().unwrap();
            }
        }
    }
}

#[test]
fn a_rank_that_drops_its_communicator_is_gone_for_the_others() {
    told(drop, &["is gone", "it has dropped its communicator"]);
}

#[test]
fn a_task_that_returns_an_error_is_gone_for_the_others() {
    let go = |comm| {
        let task = async move {
            let _comm: Communicator = comm;
            Err::<(), _>("cannot read my shard")
        };
        assert!(futures::executor::block_on(task).is_err());
    };
    told(go, &["is gone", "it has dropped its communicator"]);
}

#[test]
fn a_rank_that_panics_is_gone_for_the_others() {
    let go = |comm: Communicator| {
        let dies = AssertUnwindSafe(move || {
            let _comm = comm;
            std::panic::resume_unwind(Box::new("this is what is tested"));
        });
        catch_unwind(dies).unwrap_err();
    };
    told(go, &["is gone", "its task or thread has panicked"]);
}

#[test]
fn a_thread_that_ends_takes_its_communicators_along() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Communicator>> = const { std::cell::RefCell::new(None) };
    }
    let go = |comm| thread::spawn(move || KEPT.set(Some(comm))).join().unwrap();
    told(go, &["is gone", "it has dropped its communicator"]);
}

#[test]
fn a_forgotten_communicator_goes_nowhere() {
    let runtime = small();
    for (way, _wholes, pair) in ways(&runtime) {
        let [goes, mut stays] = <[_; 2]>::try_from(pair).unwrap();
        std::mem::forget(goes);
        let stream = stays.device().stream().unwrap();
        let work = stays.barrier(&stream).unwrap();
        let error = work.wait_timeout(Duration::from_millis(50)).unwrap_err();
        assert!(error.is_timeout(), "{way}: {error}");
        stays.abort().unwrap();
    }
}

#[test]
fn an_abort_says_who_has_aborted_what() {
    told(
        |comm| {
            comm.abort().unwrap();
            std::mem::forget(comm);
        },
        &["has aborted the communicator \""],
    );
}

#[test]
fn an_abort_of_the_whole_ends_its_parts_and_says_so() {
    let runtime = small();
    runtime.set_deadline(LONG);
    for (way, wholes, pair) in ways(&runtime) {
        let Some(whole) = wholes.first() else { continue };
        let [_zero, mut one] = <[_; 2]>::try_from(pair).unwrap();
        let stream = one.device().stream().unwrap();
        let work = one.barrier(&stream).unwrap();
        whole.abort().unwrap();
        let text = work.wait().unwrap_err().to_string();
        let says = format!("rank 0 has aborted the communicator \"{}\", of which \"", whole.name());
        assert!(text.contains(&says) && text.contains("is a part"), "{way}: {text}");
    }
}
