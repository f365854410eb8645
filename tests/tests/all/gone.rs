//! When a rank is gone, the other ranks get an error at once, for each way to make a communicator.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use hccl::ErrorKind;
use hccl::prelude::*;
use hccl_tests::Devices;

/// A limit far above the time of a report. A rank without a report would wait for longer.
const LONG: Duration = Duration::from_secs(60);

/// The communicators of two ranks, in the order of the ranks.
type Pair = Vec<Communicator>;

fn small() -> Runtime {
    Devices::new(2).memory(64 << 20).runtime()
}

/// Makes the communicators of two ranks in each way. Each entry has the name of the way, the
/// communicators that were divided, if any, and the communicators for the test.
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

/// Makes rank 0 leave in this way, and asserts the error that the waiting rank 1 gets. Runs without
/// links, and then with links.
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
            // Only the part is gone: the whole communicator still works.
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
fn a_rank_of_a_run_that_drops_its_communicator_is_gone_for_the_others() {
    let runtime = small();
    runtime.set_deadline(LONG);
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (tell, told) = (std::sync::Mutex::new(Some(tell)), std::sync::Mutex::new(told));
    let texts = runtime.run_ranks(2, |rank| -> hccl::Result<String> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.barrier(&stream)?.wait()?;
        if rank.index() == 0 {
            drop(comm);
            // The closure runs until the other rank has got the error.
            let _ = told.lock().unwrap().recv_timeout(LONG);
            return Ok(String::new());
        }
        let error = comm.barrier(&stream)?.wait().unwrap_err();
        drop(tell.lock().unwrap().take());
        assert_eq!(error.gone_ranks(), [0], "{error}");
        Ok(error.to_string())
    });
    let text = &texts.unwrap()[1];
    assert!(text.contains("rank 0 is gone (it has dropped its communicator)"), "{text}");
}

/// Checks the reason that the other rank gets. The values may be dropped in any order, because the
/// stream frees values that were dropped before it.
#[test]
fn a_rank_of_a_run_that_fails_is_gone_for_the_others_with_its_reason() {
    let runtime = small();
    runtime.set_deadline(LONG);
    type Any = Box<dyn std::error::Error + Send + Sync>;
    for (at_once, panics) in [(false, false), (true, false), (false, true)] {
        for linked in [false, true] {
            let told = std::sync::Mutex::new(None);
            let failed = runtime.run_ranks(2, |rank| -> Result<(), Any> {
                let stream = rank.device().stream()?;
                let mut comm = rank.communicator()?;
                if linked {
                    comm.connect().wait()?;
                }
                if rank.index() == 1 {
                    let error = comm.barrier(&stream)?.wait().unwrap_err();
                    *told.lock().unwrap() = Some(error);
                    return Ok(());
                }
                if !at_once {
                    // The other rank waits by then.
                    thread::sleep(Duration::from_millis(50));
                }
                if panics {
                    std::panic::resume_unwind(Box::new("cannot read my shard"));
                }
                Err("cannot read my shard".into())
            });
            assert!(failed.unwrap_err().to_string().contains("cannot read my shard"));
            let error = told.into_inner().unwrap().unwrap();
            assert_eq!(error.kind(), hccl::ErrorKind::RankGone, "{error}");
            assert_eq!(error.gone_ranks(), [0], "{error}");
            assert!(error.to_string().contains("cannot read my shard"), "{error}");
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

/// Checks that the peers get the error after another thread has issued the operations that the rank
/// had begun.
#[test]
fn a_rank_that_panics_behind_its_first_operation_is_gone_with_its_reason() {
    let runtime = small();
    runtime.set_deadline(LONG);
    for (way, _wholes, pair) in ways(&runtime) {
        let [mut goes, mut stays] = <[_; 2]>::try_from(pair).unwrap();
        let (stream, other) = (stays.device().stream().unwrap(), goes.device().stream().unwrap());
        let _begun = goes.barrier(&other).unwrap();
        let dies = AssertUnwindSafe(move || {
            let _comm = goes;
            std::panic::resume_unwind(Box::new("this is what is tested"));
        });
        catch_unwind(dies).unwrap_err();
        stays.barrier(&stream).unwrap().wait().unwrap();
        let text = stays.barrier(&stream).unwrap().wait().unwrap_err().to_string();
        let says = format!("rank {} is gone (its task or thread has panicked)", 1 - stays.rank());
        assert!(text.contains(&says), "{way}: {text}");
    }
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

/// Makes communicators that belong to another owner, and a handle of this program for each.
fn foreign(runtime: &Runtime) -> (Pair, [Communicator; 2]) {
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let owners = Communicator::init_all(&devices).wait().unwrap();
    let ours = [0, 1].map(|rank| {
        // SAFETY: the owners issue nothing while the handles exist, and no operation is in flight
        // when the owners are dropped.
        unsafe { Communicator::from_raw(&devices[rank], owners[rank].as_raw()) }.unwrap()
    });
    (owners, ours)
}

#[test]
fn a_communicator_of_somebody_else_is_gone_when_its_owner_ends_it() {
    let runtime = small();
    runtime.set_deadline(LONG);
    let (mut owners, [goes, mut stays]) = foreign(&runtime);
    let stream = stays.device().stream().unwrap();
    let work = stays.barrier(&stream).unwrap();
    // The owner still exists, and could make another handle.
    drop(goes);
    assert!(work.wait_timeout(Duration::from_millis(50)).unwrap_err().is_timeout());
    drop(owners.remove(0));
    let error = work.wait().unwrap_err();
    assert_eq!(error.gone_ranks(), [0], "{error}");
    assert!(error.to_string().contains("rank 0 is gone"), "{error}");
}

#[test]
fn a_part_of_a_communicator_of_somebody_else_is_gone_as_any_other() {
    let runtime = small();
    runtime.set_deadline(LONG);
    let (_owners, mut ours) = foreign(&runtime);
    for linked in [false, true] {
        let parts = ours.each_mut().map(|comm| comm.split(Some(0), 0));
        let [mut goes, mut stays] = parts.map(|part| part.wait().unwrap().unwrap());
        if linked {
            for pending in [goes.connect(), stays.connect()] {
                pending.wait().unwrap();
            }
        }
        let stream = stays.device().stream().unwrap();
        let work = stays.barrier(&stream).unwrap();
        drop(goes);
        let error = work.wait().unwrap_err();
        assert_eq!((error.kind(), error.gone_ranks()), (ErrorKind::RankGone, vec![0]), "{error}");
    }
}

#[test]
fn a_forgotten_communicator_of_somebody_else_is_gone_with_its_owner() {
    let runtime = small();
    runtime.set_deadline(LONG);
    let (mut owners, [goes, mut stays]) = foreign(&runtime);
    std::mem::forget(goes);
    let stream = stays.device().stream().unwrap();
    let work = stays.barrier(&stream).unwrap();
    assert!(work.wait_timeout(Duration::from_millis(50)).unwrap_err().is_timeout());
    let owner = owners.remove(0);
    let dies = AssertUnwindSafe(move || {
        let _owner = owner;
        std::panic::resume_unwind(Box::new("this is what is tested"));
    });
    catch_unwind(dies).unwrap_err();
    let text = work.wait().unwrap_err().to_string();
    assert!(text.contains("rank 0 is gone (its task or thread has panicked)"), "{text}");
}

#[test]
fn an_abort_of_a_communicator_of_somebody_else_is_told_as_any_other() {
    let runtime = small();
    runtime.set_deadline(LONG);
    let (_owners, [goes, mut stays]) = foreign(&runtime);
    let stream = stays.device().stream().unwrap();
    let work = stays.barrier(&stream).unwrap();
    goes.abort().unwrap();
    let error = work.wait().unwrap_err();
    assert_eq!((error.kind(), error.gone_ranks()), (ErrorKind::Aborted, vec![0]), "{error}");
    let text = error.to_string();
    assert!(text.contains("rank 0 has aborted the communicator \""), "{text}");
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
        let error = work.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{way}: {error}");
        assert_eq!(error.gone_ranks().len(), 1, "{way}: {error}");
        let text = error.to_string();
        let says =
            format!("rank 0 has aborted the communicator \"{}\", of which \"", whole.title());
        assert!(text.contains(&says) && text.contains("is a part"), "{way}: {text}");
    }
}

/// Checks that a rank leaves when the last owner of its communicator is gone: a graph, or a capture
/// that was never ended.
#[test]
fn a_graph_that_goes_after_its_communicator_takes_its_rank_along() {
    for is_ended in [true, false] {
        for panics in [false, true] {
            let runtime = small();
            runtime.set_deadline(LONG);
            for (way, _wholes, mut pair) in ways(&runtime) {
                let links: Vec<_> = pair.iter_mut().map(Communicator::connect).collect();
                links.into_iter().for_each(|link| link.wait().unwrap());
                let [mut goes, mut stays] = <[_; 2]>::try_from(pair).unwrap();
                let capture = goes.device().begin_capture().unwrap();
                goes.barrier(&capture).unwrap();
                let stream = stays.device().stream().unwrap();
                let work = stays.barrier(&stream).unwrap();
                drop(goes);
                // The graph could still issue the operation.
                let error = work.wait_timeout(Duration::from_millis(50)).unwrap_err();
                assert!(error.is_timeout(), "{way}: {error}");
                let dies = AssertUnwindSafe(move || {
                    let _graph = if is_ended { Ok(capture.end().unwrap()) } else { Err(capture) };
                    if panics {
                        std::panic::resume_unwind(Box::new("this is what is tested"));
                    }
                });
                assert_eq!(catch_unwind(dies).is_err(), panics);
                let error = work.wait().unwrap_err();
                let why = if panics { "has panicked" } else { "has dropped its communicator" };
                assert_eq!(error.gone_ranks(), [1 - stays.rank()], "{way}: {error}");
                assert!(error.to_string().contains(why), "{way}, ended {is_ended}: {error}");
            }
        }
    }
}
