//! Happens-before: finds which tasks are certain to come before which others.
//!
//! A task comes before the next one of its thread, and a record comes before the wait that it ends.
//! To pair records and waits, this module executes the operator without data; every task takes one
//! unit of time. The first record of a notify ends its first wait, and the second record the second
//! wait. (A notify has one bit, so two records in a row would count once. Another rule,
//! `set-twice`, reports that. If it reports nothing, one bit and a count give the same pairs.)
//!
//! The result is kept as one edge for each wait and one number for each task, its unit of time. A
//! [`Search`] decides on demand whether a task comes before another. It goes backwards from the
//! later task and forwards from the earlier one, step by step in turn. It visits only tasks whose
//! time is between those of the two, until both sides meet or one of them is exhausted. A vector
//! clock for each task would answer at once, but would take gigabytes for the threads of a large
//! operator.

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
    /// The position in that thread, from 0. With [several](Order::of_all) operators, the tasks of
    /// the earlier operators are counted too.
    pub position: u32,
}

/// The order of all tasks that can run.
#[derive(Clone, Debug)]
pub struct Order {
    lanes: Lanes,
    sequence: Vec<TaskId>,
    /// The unit of time of each task. `NONE` if the task does not run.
    time: Vec<u32>,
    /// For a wait that has ended, its record. For a record that has ended a wait, that wait.
    partner: Vec<u32>,
    /// The waits that have ended, lane by lane. `records` has the records that have ended a wait.
    waits: Listed,
    records: Listed,
    /// The records that ended no wait.
    left: Vec<TaskId>,
}

/// The reason why not all tasks have an order: some waits never end.
#[derive(Clone, Debug)]
pub struct Stuck {
    /// The order of the tasks that ran.
    pub ran: Order,
    /// The waits that never end. Each of them holds up the rest of its thread.
    pub waits: Vec<TaskId>,
}

impl Order {
    /// Returns the order of an operator, or an error if it hangs.
    pub fn of(operator: &Operator) -> Result<Order, Box<Stuck>> {
        Order::of_all(std::slice::from_ref(operator))
    }

    /// Returns the order of operators that run one after the other on the same threads and
    /// notifies, or an error if they hang.
    pub fn of_all(operators: &[Operator]) -> Result<Order, Box<Stuck>> {
        let (lanes, steps) = Lanes::of(operators);
        let (ran, stuck) = run(lanes, |task| &steps[task as usize].task);
        if stuck.is_empty() {
            return Ok(ran);
        }
        let waits = stuck.into_iter().map(|task| ran.id(task)).collect();
        Err(Box::new(Stuck { ran, waits }))
    }

    /// Returns an order in which the tasks may run one by one. No task comes before a task that it
    /// waits for.
    pub fn sequence(&self) -> &[TaskId] {
        &self.sequence
    }

    /// Returns the record that ends a wait. Returns `None` if the task is not a wait or never ends.
    pub fn record_of(&self, wait: TaskId) -> Option<TaskId> {
        let (wait, record) = (self.number(wait)?, self.partner(self.number(wait)?)?);
        (self.time[record as usize] < self.time[wait as usize]).then(|| self.id(record))
    }

    /// Returns the wait that a record ends. Returns `None` if the task is not a record or ends no
    /// wait.
    pub fn wait_of(&self, record: TaskId) -> Option<TaskId> {
        let (record, wait) = (self.number(record)?, self.partner(self.number(record)?)?);
        (self.time[record as usize] < self.time[wait as usize]).then(|| self.id(wait))
    }

    /// Returns the unit of time of a task, if every task takes one unit. It is 0 if no task has to
    /// come before this task. Returns `None` if the task does not run or does not exist.
    pub fn time_of(&self, task: TaskId) -> Option<u32> {
        let time = self.time[self.number(task)? as usize];
        (time != NONE).then_some(time)
    }

    /// Returns the records that end no wait.
    pub fn unconsumed(&self) -> &[TaskId] {
        &self.left
    }

    /// Returns whether the first task is certain to end before the second one begins, however fast
    /// each thread is. `false` means that this is not certain.
    ///
    /// For many queries, keep a [`Search`].
    pub fn before(&self, first: TaskId, second: TaskId) -> bool {
        self.search().before(first, second)
    }

    /// Returns a search, for many queries.
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

    /// Returns the record of a wait, or the wait of a record.
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
    /// For each task, the number of entries with a smaller task number. The last element is the
    /// number of all entries.
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

    /// Returns the first entry whose task is in a range of tasks, and one past the last such entry.
    fn range(&self, from: u32, until: u32) -> (u32, u32) {
        (self.before[from as usize], self.before[until as usize])
    }
}

/// A search that decides whether one task comes before another.
pub struct Search<'a> {
    order: &'a Order,
    /// For each lane: the last query whose search reached the lane from the later task. The second
    /// number is the end of the tasks in the lane that are known to come before that task.
    past: Vec<(u32, u32)>,
    /// For each lane: the last query whose search reached the lane from the earlier task, and the
    /// first task in the lane that is known to come after that task.
    future: Vec<(u32, u32)>,
    /// The number of the current query.
    question: u32,
    /// Ranges of waits that have not been followed to their records yet. `forth` has ranges of
    /// records that have not been followed to their waits yet.
    back: VecDeque<(u32, u32)>,
    forth: VecDeque<(u32, u32)>,
    /// The number of search steps so far.
    steps: u64,
}

impl Search<'_> {
    /// Returns whether the first task is certain to end before the second one begins, however fast
    /// each thread is.
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
            // The search takes the latest waits first, because they make the earlier ones
            // superfluous.
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

    /// Marks that this task comes before the later task, or is the later task. Returns whether it
    /// is also known to come after the earlier task.
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

    /// Marks that this task comes after the earlier task, or is the earlier task. Returns whether
    /// it is also known to come before the later task.
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

    /// Returns the number of steps so far.
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

/// The state of a notify during the execution.
#[derive(Default)]
struct State {
    /// The records that have ended no wait yet.
    set: VecDeque<u32>,
    /// The lanes that wait for the notify.
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
                        // The notify was set in this unit of time, so the wait ends in the next
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

/// Returns a number for the notify of each task, and a state for each notify.
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
