//! Pictures of operators show all tasks and their order.
//!
//! The pictures in the book are compared with the drawn ones. To draw them again, run
//! `HCCL_TEST_BLESS=1 cargo test -p ascend-operator --test all pictures::`.

pub(crate) mod algorithms;
mod drawing;
mod explain;
mod read;

use ascend_operator::{
    Goal, Memory, Model, Operator, Order, Piece, RankTasks, Signal, Step, Task, TaskId, check,
    picture,
};
use read::{Element, elements};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Returns operators of every kind, in several sizes.
fn all() -> Vec<Operator> {
    let small = (2..9).flat_map(|p| {
        let n = 1000 * u64::from(p);
        [algorithms::ring(p, n), algorithms::mesh(p, n), algorithms::pairwise(p, n)]
    });
    small.chain([2, 4, 8].map(|p| algorithms::hierarchical(p, 64))).collect()
}

fn ids(operator: &Operator) -> impl Iterator<Item = TaskId> {
    (0..).zip(&operator.ranks).flat_map(|(rank, tasks)| {
        (0..).zip(&tasks.threads).flat_map(move |(thread, steps)| {
            (0..steps.len() as u32).map(move |position| TaskId { rank, thread, position })
        })
    })
}

fn key(id: TaskId) -> String {
    format!("{}/{}/{}", id.rank, id.thread, id.position)
}

/// Returns each record with its wait, by the keys that a picture uses.
fn notifies(operator: &Operator) -> BTreeSet<(String, String)> {
    let order = Order::of(operator).unwrap();
    ids(operator).filter_map(|id| Some((key(order.record_of(id)?), key(id)))).collect()
}

fn both(operator: &Operator) -> [Vec<Element>; 2] {
    let model = Model::default();
    [picture::graph(operator), picture::timeline(operator, &model)]
        .map(|text| elements(&text).unwrap())
}

#[test]
fn every_task_is_drawn_once() {
    for operator in all() {
        for elements in both(&operator) {
            let drawn: Vec<&str> =
                elements.iter().filter(|e| e.is("task")).map(|e| e.get("data-task")).collect();
            assert_eq!(drawn.len(), operator.tasks(), "{}", operator.name);
            let drawn: BTreeSet<String> = drawn.into_iter().map(str::to_owned).collect();
            assert_eq!(drawn, ids(&operator).map(key).collect(), "{}", operator.name);
        }
    }
}

#[test]
fn every_arrow_joins_a_record_and_the_wait_that_takes_it() {
    for operator in all() {
        for elements in both(&operator) {
            let arrows: Vec<(String, String)> = (elements.iter().filter(|e| e.is("notify")))
                .map(|e| (e.get("data-from").to_owned(), e.get("data-to").to_owned()))
                .collect();
            let expected = notifies(&operator);
            assert_eq!(arrows.len(), expected.len(), "{}", operator.name);
            assert_eq!(arrows.into_iter().collect::<BTreeSet<_>>(), expected, "{}", operator.name);
        }
    }
}

#[test]
fn arrows_of_the_graph_lead_from_where_the_record_is_to_where_the_wait_is() {
    let elements = elements(&picture::graph(&algorithms::ring(4, 4))).unwrap();
    // The middle of each sign, by its task.
    let mut places = HashMap::new();
    for pair in elements.windows(3).filter(|pair| pair[0].is("task")) {
        let (group, sign) = (&pair[0], &pair[2]);
        let place = match sign.name.as_str() {
            "circle" => (sign.number("cx"), sign.number("cy")),
            "path" => {
                let (x, y) = point(sign.get("d"));
                (x + 4.5, y + 5.0)
            }
            _ => continue,
        };
        places.insert(group.get("data-task"), place);
    }
    let mut seen = 0;
    for parts in elements.windows(4).filter(|parts| parts[0].is("notify")) {
        let (from, to) = (places[parts[0].get("data-from")], places[parts[0].get("data-to")]);
        let begin = point(parts[1].get("d"));
        let end =
            parts.iter().skip(2).find(|e| e.name == "path").map(|e| point(e.get("d"))).unwrap();
        assert!((begin.0 - from.0 - 5.0).abs() < 0.2 && (begin.1 - from.1).abs() < 0.2);
        assert!((to.0 - 5.0 - end.0).abs() < 0.2 && (end.1 - to.1).abs() < 0.2);
        assert!(begin.0 < end.0, "it leads back");
        seen += 1;
    }
    assert_eq!(seen, notifies(&algorithms::ring(4, 4)).len());
}

/// Returns the point at which a path begins.
fn point(path: &str) -> (f64, f64) {
    let mut numbers =
        path[1..].split(|c: char| c == ' ' || c.is_ascii_alphabetic()).filter(|n| !n.is_empty());
    let mut next = || numbers.next().unwrap().parse().unwrap();
    (next(), next())
}

#[test]
fn the_critical_path_is_marked_and_nothing_else() {
    for operator in all() {
        let cost = ascend_operator::Cost::of(&operator, &Model::default());
        let elements = elements(&picture::timeline(&operator, &Model::default())).unwrap();
        let marked: BTreeSet<&str> =
            elements.iter().filter(|e| e.is("critical")).map(|e| e.get("data-task")).collect();
        let path: Vec<String> = cost.critical_path.iter().copied().map(key).collect();
        assert_eq!(marked, path.iter().map(String::as_str).collect(), "{}", operator.name);
    }
}

/// Returns the edges of a text: left, right, top, bottom. The estimate assumes wide letters.
fn extent(text: &Element) -> [f64; 4] {
    let size = if text.get("font-size").is_empty() { 12.0 } else { text.number("font-size") };
    let width = text.text.chars().count() as f64 * size * 0.53;
    let (x, y) = (text.number("x"), text.number("y"));
    let left = match text.get("text-anchor") {
        "middle" => x - width / 2.0,
        "end" => x - width,
        _ => x,
    };
    [left, left + width, y - size * 0.8, y + size * 0.2]
}

#[test]
fn no_text_lies_on_another_or_outside() {
    let mut pictures = vec![explain::notify(), explain::channel()];
    pictures.push(picture::finding(&careless().0, &careless().1));
    for operator in all().iter().chain([&algorithms::hangs(), &algorithms::mesh(20, 4)]) {
        pictures.push(picture::graph(operator));
        pictures.push(picture::timeline(operator, &Model::default()));
    }
    for picture in pictures {
        let elements = elements(&picture).unwrap();
        let (width, height) = (elements[0].number("width"), elements[0].number("height"));
        let texts: Vec<_> =
            elements.iter().filter(|e| e.name == "text" && !e.text.is_empty()).collect();
        for (at, text) in texts.iter().enumerate() {
            let [left, right, top, bottom] = extent(text);
            assert!(
                left >= 0.0 && right <= width && top >= 0.0 && bottom <= height,
                "{text:?} of {width}"
            );
            for other in &texts[at + 1..] {
                let [l, r, t, b] = extent(other);
                let apart = r <= left || right <= l || b <= top || bottom <= t;
                assert!(apart, "{text:?} and {other:?} in {}", texts[0].text);
            }
        }
    }
}

#[test]
fn the_same_operator_is_drawn_the_same_way() {
    let model = Model::default();
    let draw = || {
        all()
            .iter()
            .map(|o| [picture::graph(o), picture::timeline(o, &model), picture::trace(o, &model)])
            .collect::<Vec<_>>()
    };
    assert_eq!(draw(), draw());
}

#[test]
fn what_hangs_is_red_and_what_would_end_it_is_shown() {
    let operator = algorithms::hangs();
    let stuck = Order::of(&operator).unwrap_err();
    let elements = elements(&picture::graph(&operator)).unwrap();
    let of = |class: &str| -> BTreeSet<String> {
        elements.iter().filter(|e| e.is(class)).map(|e| e.get("data-task").to_owned()).collect()
    };
    assert_eq!(of("stuck"), stuck.waits.iter().copied().map(key).collect());
    // After each stuck wait everything is faint, because none of it runs.
    assert_eq!(of("never").len(), 5);
    assert!(of("critical").is_empty());
    let missing: BTreeSet<(&str, &str)> = (elements.iter().filter(|e| e.is("missing")))
        .map(|e| (e.get("data-from"), e.get("data-to")))
        .collect();
    // The first two ranks wait for each other's record. The third rank waits for a record that does
    // not exist.
    assert_eq!(missing, [("1/0/2", "0/0/1"), ("0/0/2", "1/0/1"), ("", "2/0/1")].into());
    assert_eq!(
        elements.iter().filter(|e| e.text == "?").count(),
        2,
        "in the picture and its legend"
    );
    assert!(elements.iter().any(|e| e.text == "It hangs: nothing ends 3 waits."));
}

#[test]
fn large_operators_are_drawn_in_part_and_say_so() {
    let mesh = algorithms::mesh(64, 4);
    let far = TaskId { rank: 60, thread: 50, position: 2 };
    for (text, most) in [
        (picture::graph_with(&mesh, &[far]), 4000),
        (picture::timeline(&mesh, &Model::default()), 12_000),
        (picture::graph(&algorithms::ring(64, 4)), 4000),
    ] {
        let elements = elements(&text).unwrap();
        let drawn = elements.iter().filter(|e| e.is("task")).count();
        assert!((100..=most).contains(&drawn), "{drawn}");
        assert!(elements.iter().any(|e| e.text.starts_with("56 more ranks are not drawn")));
        assert!(elements[0].number("width") < 3000.0 && elements[0].number("height") < 3000.0);
    }
    let marked = elements(&picture::graph_with(&mesh, &[far])).unwrap();
    assert!(marked.iter().any(|e| e.is("marked") && e.get("data-task") == "60/50/2"));
}

#[test]
fn marked_tasks_are_red() {
    let operator = algorithms::mesh(3, 4);
    let marked =
        [TaskId { rank: 1, thread: 0, position: 3 }, TaskId { rank: 2, thread: 1, position: 2 }];
    let elements = elements(&picture::graph_with(&operator, &marked)).unwrap();
    let drawn: BTreeSet<&str> =
        elements.iter().filter(|e| e.is("marked")).map(|e| e.get("data-task")).collect();
    assert_eq!(drawn, ["1/0/3", "2/1/2"].into());
}

#[test]
fn what_makes_no_sense_is_drawn_too() {
    let here = std::panic::Location::caller();
    let piece = |rank| Piece { rank, memory: Memory::Buffer, start: u64::MAX, bytes: u64::MAX };
    let tasks = [
        Task::Copy { from: piece(77), to: piece(u32::MAX) },
        Task::Record(Signal::Thread { rank: 9, thread: u32::MAX, index: 0 }),
        Task::Wait(Signal::Channel { rank: u32::MAX, peer: 3, index: u32::MAX }),
    ];
    let thread: Vec<Step> = tasks.map(|task| Step { task, source: here }).into();
    let rank = RankTasks { threads: vec![Vec::new(), thread], ..RankTasks::default() };
    let goal = Goal::Other { input: 0, output: 0 };
    let name = "<b>\"&\u{1}'\n".to_owned();
    let mut operator = Operator {
        name,
        goal,
        count: 0,
        element: 4,
        floats: false,
        handshake: false,
        source: None,
        ranks: Vec::new(),
    };
    for ranks in [Vec::new(), vec![RankTasks::default()], vec![rank]] {
        operator.ranks = ranks;
        let nowhere = [TaskId { rank: 5, thread: u32::MAX, position: u32::MAX }];
        elements(&picture::graph_with(&operator, &nowhere)).unwrap();
        elements(&picture::timeline(&operator, &Model::new(f64::INFINITY, 0.0, 0.0))).unwrap();
        elements(&picture::timeline(&operator, &Model::default())).unwrap();
        serde_json::from_str::<serde_json::Value>(&picture::trace(&operator, &Model::default()))
            .unwrap();
    }
}

#[test]
fn a_notify_is_one_bit() {
    let of = |at: usize| explain::bit(explain::LATCHED[at].0, explain::LATCHED[at].1);
    assert_eq!((of(0).lost.len(), of(0).ends[0].unwrap() > 5.0), (0, true));
    assert_eq!((of(1).lost.len(), of(1).ends[0].unwrap() < 5.5), (0, true));
    assert_eq!((of(2).lost, of(2).ends[1]), (vec![3.2], None));
    assert_eq!((of(3).lost.len(), of(3).ends.iter().flatten().count()), (0, 2));
}

#[test]
fn the_pictures_in_the_book_are_what_is_drawn() {
    let model = Model::default();
    let (ring, mesh) = (algorithms::ring(4, 25_000), algorithms::mesh(4, 25_000));
    let pictures = [
        ("notify", explain::notify()),
        ("channel", explain::channel()),
        ("operator-resources", explain::resources([("Ring", &ring), ("Mesh", &mesh)])),
        ("operator-ring", picture::graph(&ring)),
        ("operator-ring-timeline", picture::timeline(&ring, &model)),
        ("operator-mesh", picture::graph(&mesh)),
        ("operator-mesh-timeline", picture::timeline(&mesh, &model)),
        ("operator-hierarchical", picture::graph(&algorithms::hierarchical(8, 50_000))),
        ("operator-hangs", picture::graph(&algorithms::hangs())),
        ("operator-set-twice", picture::finding(&careless().0, &careless().1)),
    ];
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/images");
    for (name, picture) in pictures {
        elements(&picture).unwrap();
        let file = images.join(name).with_extension("svg");
        if std::env::var_os("HCCL_TEST_BLESS").is_some() {
            std::fs::write(&file, &picture).unwrap();
        }
        let drawn = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(drawn == picture, "{name}.svg differs; HCCL_TEST_BLESS=1 draws it anew");
    }
}

/// Returns two exchanges in which no rank reports that it has left the buffer, and the finding
/// about both together.
fn careless() -> ([Operator; 2], check::Finding) {
    let exchange = || {
        let mut operator = algorithms::mesh(2, 4);
        operator.name = "careless exchange".into();
        operator.ranks.iter_mut().for_each(|rank| rank.threads[0].truncate(5));
        operator
    };
    let operators = [exchange(), exchange()];
    let finding = check::check_all(&operators).findings.swap_remove(0);
    (operators, finding)
}

#[test]
fn a_finding_is_drawn_with_its_tasks_and_what_it_says() {
    let (operators, finding) = careless();
    let picture = elements(&picture::finding(&operators, &finding)).unwrap();
    let tasks: usize = operators.iter().map(Operator::tasks).sum();
    assert_eq!(picture.iter().filter(|e| e.is("task")).count(), tasks);
    let marked: BTreeSet<&str> =
        picture.iter().filter(|e| e.is("marked")).map(|e| e.get("data-task")).collect();
    // The marked tasks are record 2 and wait 3 of the first operator, and the record of the second
    // operator, which comes after the five tasks of the first one.
    assert_eq!(marked, ["0/0/2", "0/0/7", "1/0/3"].into(), "{finding}");
    assert!(picture.iter().any(|e| e.text.starts_with("set-twice: a notify is recorded again")));
    assert!(picture.iter().any(|e| e.text.starts_with("help: ")));
}

#[test]
fn what_is_drawn_as_an_example_is_right() {
    for operator in all() {
        let report = check::check(&operator);
        assert!(report.is_good(), "{}: {report}", operator.name);
    }
}
