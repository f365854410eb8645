//! Happens-before: finds which tasks certainly come before others.
//!
//! A task comes before the next one of its thread, and a record before the wait that it ends. To
//! pair records and waits, the operator is executed without data, and every task takes one unit of
//! time. The first record of a notify ends its first wait, the second one the second. (A notify has
//! one bit, so that two records in a row would count once. That is a finding of its own,
//! `set-twice`; where it is not found, one bit is as good as a count.)
//!
//! The result is kept as one edge a wait and one number a task: its unit of time. Whether a task
//! comes before another is [searched](Search) on demand: backwards from the later one and forwards
//! from the earlier one, step by step in turn. The search visits only tasks whose time lies between
//! the two, until both sides meet or one of them is exhausted. A clock for each task would answer
//! at once, but would take gigabytes with the threads of a large operator.

use crate::lanes::{Lane, Lanes, NONE};
use crate::task::{Operator, Signal, Task};
use std::collections::{HashMap, VecDeque};

/// A task of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The rank.
    pub rank: u32,
    /// The thread of the rank.
    pub thread: u32,
    /// The place in that thread, from 0; with [several](Order::of_all) operators, the tasks of the
    /// earlier ones are counted too.
    pub position: u32,
}

/// The order of all tasks that can run.
#[derive(Clone, Debug)]
pub struct Order {
    lanes: Lanes,
    sequence: Vec<TaskId>,
    /// The time of each task; `NONE`: it does not run.
    time: Vec<u32>,
    /// The record of each wait that has ended, and the wait of each record that has ended one.
    partner: Vec<u32>,
    /// All waits that have ended, and all records that have ended one, both lane by lane.
    waits: Listed,
    records: Listed,
    /// Records that ended no wait.
    left: Vec<TaskId>,
}

/// The reason why there is no order of all tasks: some wait for ever.
#[derive(Clone, Debug)]
pub struct Stuck {
    /// The order of the tasks that ran.
    pub ran: Order,
    /// The waits that never end. Each holds up the rest of its thread.
    pub waits: Vec<TaskId>,
}

impl Order {
    /// The order of an operator. Err: it hangs.
    pub fn of(operator: &Operator) -> Result<Order, Box<Stuck>> {
        Order::of_all(std::slice::from_ref(operator))
    }

    /// The order of operators that run one after the other, on the same threads and notifies. Err:
    /// they hang.
    pub fn of_all(operators: &[Operator]) -> Result<Order, Box<Stuck>> {
        let (lanes, steps) = Lanes::of(operators);
        let (ran, stuck) = run(lanes, |task| &steps[task as usize].task);
        if stuck.is_empty() {
            return Ok(ran);
        }
        let waits = stuck.into_iter().map(|task| ran.id(task)).collect();
        Err(Box::new(Stuck { ran, waits }))
    }

    /// An order in which the tasks may run one by one: none comes before a task that it waits for.
    pub fn sequence(&self) -> &[TaskId] {
        &self.sequence
    }

    /// The record that ends a wait.
    pub fn record_of(&self, wait: TaskId) -> Option<TaskId> {
        let (wait, record) = (self.number(wait)?, self.partner(self.number(wait)?)?);
        (self.time[record as usize] < self.time[wait as usize]).then(|| self.id(record))
    }

    /// The wait that a record ends.
    pub fn wait_of(&self, record: TaskId) -> Option<TaskId> {
        let (record, wait) = (self.number(record)?, self.partner(self.number(record)?)?);
        (self.time[record as usize] < self.time[wait as usize]).then(|| self.id(wait))
    }

    /// The time of a task if each takes one unit: 0, if nothing has to be before it. None: it does
    /// not run.
    pub fn time_of(&self, task: TaskId) -> Option<u32> {
        let time = self.time[self.number(task)? as usize];
        (time != NONE).then_some(time)
    }

    /// The records that end no wait.
    pub fn unconsumed(&self) -> &[TaskId] {
        &self.left
    }

    /// Whether the first task is over before the second one begins, however fast each thread is.
    /// False: nothing is certain.
    ///
    /// Keep a [`Search`] for many questions.
    pub fn before(&self, first: TaskId, second: TaskId) -> bool {
        self.search().before(first, second)
    }

    /// A search, for many questions.
    pub fn search(&self) -> Search<'_> {
        Search {
            order: self,
            past: vec![(0, 0); self.lanes.all().len()],
            future: vec![(0, 0); self.lanes.all().len()],
            question: 0,
            back: VecDeque::new(),
            forth: VecDeque::new(),
            steps: 0,
        }
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    pub(crate) fn id(&self, task: u32) -> TaskId {
        id(self.lanes.lane(task), task)
    }

    pub(crate) fn number(&self, task: TaskId) -> Option<u32> {
        let lane = self.lanes.find(task.rank, task.thread)?;
        lane.start.checked_add(task.position).filter(|number| *number < lane.end)
    }

    /// The record of a wait, or the wait of a record.
    pub(crate) fn partner(&self, task: u32) -> Option<u32> {
        Some(self.partner[task as usize]).filter(|partner| *partner != NONE)
    }
}

fn id(lane: &Lane, task: u32) -> TaskId {
    TaskId { rank: lane.rank, thread: lane.thread, position: task - lane.start }
}

/// A list of some of the tasks.
#[derive(Clone, Debug, Default)]
struct Listed {
    tasks: Vec<u32>,
    /// The number of entries before each task in the numbering of all, and before the end.
    before: Vec<u32>,
}

impl Listed {
    fn of(tasks: u32, is_listed: impl Fn(u32) -> bool) -> Listed {
        let mut listed = Listed::default();
        for task in 0..tasks {
            listed.before.push(listed.tasks.len() as u32);
            if is_listed(task) {
                listed.tasks.push(task);
            }
        }
        listed.before.push(listed.tasks.len() as u32);
        listed
    }

    /// The entries in a range of tasks.
    fn range(&self, from: u32, until: u32) -> (u32, u32) {
        (self.before[from as usize], self.before[until as usize])
    }
}

/// A search that decides whether one task comes before another.
pub struct Search<'a> {
    order: &'a Order,
    /// For each lane: the last question whose search reached it from the later task, and the end of
    /// the tasks in it that are known to come before that task.
    past: Vec<(u32, u32)>,
    /// For each lane: the last question whose search reached it from the earlier task, and the
    /// first task in it that is known to come after that task.
    future: Vec<(u32, u32)>,
    /// The number of this question.
    question: u32,
    /// Ranges of waits that have not been followed to their records, and of records that have not
    /// been followed to their waits.
    back: VecDeque<(u32, u32)>,
    forth: VecDeque<(u32, u32)>,
    /// The number of waits and records that have been visited.
    steps: u64,
}

impl Search<'_> {
    /// Whether the first task is over before the second one begins, however fast each thread is.
    pub fn before(&mut self, first: TaskId, second: TaskId) -> bool {
        match (self.order.number(first), self.order.number(second)) {
            (Some(first), Some(second)) => self.reaches(first, second),
            _ => false,
        }
    }

    pub(crate) fn reaches(&mut self, first: u32, second: u32) -> bool {
        let order = self.order;
        if order.lanes.number(first) == order.lanes.number(second) {
            return first < second;
        }
        let (earliest, latest) = (order.time[first as usize], order.time[second as usize]);
        if latest == NONE || earliest >= latest {
            return false;
        }
        self.begin_turn();
        self.is_past(second);
        self.is_future(first);
        loop {
            self.steps += 1;
            // The latest waits first: they make the earlier ones superfluous.
            let Some((from, until)) = self.back.front_mut() else { return false };
            *until -= 1;
            let wait = order.waits.tasks[*until as usize];
            if from == until || order.time[wait as usize] <= earliest {
                self.back.pop_front();
            }
            let record = order.partner[wait as usize];
            if order.time[record as usize] >= earliest && self.is_past(record) {
                return true;
            }
            let Some((from, until)) = self.forth.front_mut() else { return false };
            let record = order.records.tasks[*from as usize];
            *from += 1;
            if from == until || order.time[record as usize] >= latest {
                self.forth.pop_front();
            }
            let wait = order.partner[record as usize];
            if order.time[wait as usize] <= latest && self.is_future(wait) {
                return true;
            }
        }
    }

    /// Records that this task comes before the later one, or is it. Returns whether it also comes
    /// behind the earlier one.
    fn is_past(&mut self, task: u32) -> bool {
        let lane = self.order.lanes.number(task) as usize;
        let start = self.order.lanes.all()[lane].start;
        let known = self.past[lane];
        let known = if known.0 == self.question { known.1 } else { start };
        if task < known {
            return false;
        }
        self.past[lane] = (self.question, task + 1);
        let (from, until) = self.order.waits.range(known, task + 1);
        if from < until {
            self.back.push_back((from, until));
        }
        let (question, first) = self.future[lane];
        question == self.question && first <= task
    }

    /// Records that this task comes behind the earlier one, or is it. Returns whether it also comes
    /// before the later one.
    fn is_future(&mut self, task: u32) -> bool {
        let lane = self.order.lanes.number(task) as usize;
        let end = self.order.lanes.all()[lane].end;
        let known = self.future[lane];
        let known = if known.0 == self.question { known.1 } else { end };
        if task >= known {
            return false;
        }
        self.future[lane] = (self.question, task);
        let (from, until) = self.order.records.range(task, known);
        if from < until {
            self.forth.push_back((from, until));
        }
        let (question, behind) = self.past[lane];
        question == self.question && task < behind
    }

    /// The number of steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    fn begin_turn(&mut self) {
        self.back.clear();
        self.forth.clear();
        self.question = match self.question.checked_add(1) {
            Some(question) => question,
            None => {
                self.past.fill((0, 0));
                self.future.fill((0, 0));
                1
            }
        };
    }
}

/// A notify during the execution.
#[derive(Default)]
struct State {
    /// Records that have ended no wait yet.
    set: VecDeque<u32>,
    /// Lanes that wait.
    waiting: VecDeque<u32>,
}

/// Runs all tasks, one unit of time after the other. Returns the order, and the waits that never
/// end.
fn run<'a>(lanes: Lanes, task: impl Fn(u32) -> &'a Task) -> (Order, Vec<u32>) {
    let tasks = lanes.tasks();
    let (signal_of, mut signals) = signals(tasks, &task);
    let mut next: Vec<u32> = lanes.all().iter().map(|lane| lane.start).collect();
    let (mut time, mut partner) = (vec![NONE; tasks], vec![NONE; tasks]);
    let mut sequence = Vec::with_capacity(tasks);
    let is_over = |lane: u32, next: &[u32]| next[lane as usize] >= lanes.all()[lane as usize].end;
    let mut now: Vec<u32> = (0..next.len() as u32).filter(|lane| !is_over(*lane, &next)).collect();
    let mut later = Vec::new();
    let mut clock = 0;
    while !now.is_empty() {
        for &lane in &now {
            let at = next[lane as usize];
            let signal = signal_of[at as usize];
            match task(at) {
                Task::Wait(_) if partner[at as usize] == NONE => {
                    let state = &mut signals[signal as usize];
                    match state.set.front() {
                        // It was set in this very unit of time, so the wait is over in the next
                        // one.
                        Some(record) if time[*record as usize] == clock => {
                            later.push(lane);
                            continue;
                        }
                        Some(&record) => {
                            state.set.pop_front();
                            partner[at as usize] = record;
                            partner[record as usize] = at;
                        }
                        None => {
                            state.waiting.push_back(lane);
                            continue;
                        }
                    }
                }
                Task::Record(_) => {
                    let state = &mut signals[signal as usize];
                    match state.waiting.pop_front() {
                        Some(waiting) => {
                            let wait = next[waiting as usize];
                            partner[at as usize] = wait;
                            partner[wait as usize] = at;
                            later.push(waiting);
                        }
                        None => state.set.push_back(at),
                    }
                }
                _ => {}
            }
            time[at as usize] = clock;
            sequence.push(id(&lanes.all()[lane as usize], at));
            next[lane as usize] += 1;
            if !is_over(lane, &next) {
                later.push(lane);
            }
        }
        now.clear();
        std::mem::swap(&mut now, &mut later);
        now.sort_unstable();
        clock += 1;
    }
    let is_wait = |at: u32| matches!(task(at), Task::Wait(_));
    let has_partner = |at: u32| partner[at as usize] != NONE;
    let waits = Listed::of(tasks as u32, |at| has_partner(at) && is_wait(at));
    let records = Listed::of(tasks as u32, |at| has_partner(at) && !is_wait(at));
    let mut left: Vec<TaskId> = signals
        .iter()
        .flat_map(|state| &state.set)
        .map(|record| id(lanes.lane(*record), *record))
        .collect();
    left.sort_unstable();
    let stuck = (0..next.len() as u32)
        .filter(|lane| !is_over(*lane, &next))
        .map(|lane| next[lane as usize])
        .collect();
    (Order { lanes, sequence, time, partner, waits, records, left }, stuck)
}

/// A number for the notify of each task, and a state for each notify.
fn signals<'a>(tasks: usize, task: &impl Fn(u32) -> &'a Task) -> (Vec<u32>, Vec<State>) {
    let mut numbers: HashMap<Signal, u32> = HashMap::new();
    let mut of_task = vec![NONE; tasks];
    for (at, number) in of_task.iter_mut().enumerate() {
        if let Task::Record(signal) | Task::Wait(signal) = task(at as u32) {
            let new = numbers.len() as u32;
            *number = *numbers.entry(*signal).or_insert(new);
        }
    }
    let mut states = Vec::new();
    states.resize_with(numbers.len(), State::default);
    (of_task, states)
}
