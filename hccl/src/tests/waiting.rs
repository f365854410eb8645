//! Properties of waits that only show from inside.

use super::*;
use tracing::field::{Field, Visit};
use tracing::span;

/// Keeps the texts of warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The tests wait for a shorter time than others before they warn.
#[test]
fn a_long_wait_says_once_what_it_waits_for() {
    on_both(1, |runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let mut x = device.zeros::<u8>(4, &stream).unwrap();
        let gate = Gate::on(&stream);
        let (one, two) = (x.fill_zero(&stream).unwrap(), x.fill_zero(&stream).unwrap());
        let opener = std::thread::spawn(move || {
            std::thread::sleep(3 * crate::device::wait::WARN_AFTER);
            drop(gate);
        });
        let warnings = Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            block_on(one).unwrap();
            two.wait().unwrap();
        });
        opener.join().unwrap();
        let warnings = warnings.0.lock().unwrap();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let said = &warnings[0];
        assert!(said.contains("fill_zero has waited") && said.contains("#3"), "{said}");
    });
}

/// While a communicator is made, which takes until all ranks have come, operations of others keep their turns.
#[test]
fn operations_do_not_stand_in_line_behind_a_communicator_that_is_made() {
    let runtime = EmulatorOptions::small(2).start_with(ascend_emulator::table()).unwrap();
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let root = crate::comm::RootInfo::new(&devices[0]).unwrap();
    let build = |rank: u32| {
        let device = &devices[rank as usize];
        Communicator::builder().device(device).rank(rank).world_size(2).root_info(&root).build()
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| build(0));
        // The first rank waits for the second inside the call. Ten thousand turns of half a second would be seen.
        eventually("building", || devices[0].making().try_lock().is_none());
        let stream = devices[0].stream().unwrap();
        let mut alone = Communicator::init_all(&devices[..1]).unwrap().remove(0);
        let issued = std::iter::repeat_with(|| alone.barrier(&stream).map(drop)).take(10_000);
        issued.collect::<Result<()>>().unwrap();
        build(1).unwrap();
        first.join().unwrap().unwrap();
    });
}
