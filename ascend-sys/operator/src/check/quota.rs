//! Checks the resources that operators take: against the limits of a communicator, the abilities of
//! a product, and the plan.

use super::finding::{Notes, Place};
use super::{Product, Setting};
use crate::acquire::Holdings;
use crate::plan::Plan;
use crate::task::{Operator, ReduceOp, Step, Task};
use std::panic::Location;

pub(super) fn look(operators: &[Operator], setting: &Setting, notes: &mut Notes) {
    let ranks = operators.iter().map(|operator| operator.ranks.len()).max().unwrap_or(0);
    for rank in 0..ranks {
        let of_rank = operators.iter().map(|operator| operator.ranks.get(rank));
        let plans: Vec<_> = of_rank.map(|tasks| Some(Plan::of(tasks?, setting.engine))).collect();
        let mut held = Holdings::default();
        for (at, plan) in plans.iter().enumerate() {
            let Some(plan) = plan else { continue };
            held.acquire(at, plan, setting.product);
            opened(rank, at, &operators[at], (plan, &held), notes);
        }
        // All operators together take the resources. The finding shows the first operator.
        let source = operators.iter().find_map(|operator| operator.source);
        let Some(plan) = plans.into_iter().flatten().reduce(|all, plan| all.with(&plan)) else {
            continue;
        };
        quota(rank, &plan, &held, (setting, source), notes);
        let planned = match &setting.plans[..] {
            [all] => Some(all),
            plans => plans.get(rank),
        };
        if let Some(planned) = planned {
            against(rank, &plan, (planned, source), notes);
        }
    }
    if let Some(product @ (Product::A2 | Product::A3)) = setting.product {
        for (at, operator) in (0..).zip(operators) {
            reductions((operators.len() > 1).then_some(at), operator, product, notes);
        }
    }
}

/// Reports a channel that an earlier operator has opened with too few notifies.
fn opened(
    rank: usize,
    at: usize,
    operator: &Operator,
    (plan, held): (&Plan, &Holdings),
    notes: &mut Notes,
) {
    for (peer, uses) in &plan.channels {
        if let Some((opener, has)) = held.channels.get(peer)
            && has < uses
        {
            let source = operator.source_of_channel(rank as u32, *peer);
            notes.about("quota", "opened", source, || {
                let message = format!(
                    "operator {at} uses {uses} notifies of the channel from rank {rank} to rank {peer}, which operator {opener} opened with {has}"
                );
                let help = "run the operator that uses most notifies first, or on a communicator of its own";
                (message, help.to_owned())
            });
        }
    }
}

/// The source line that a finding shows, if it is known.
type Source = Option<&'static Location<'static>>;

fn quota(
    rank: usize,
    plan: &Plan,
    held: &Holdings,
    (setting, source): (&Setting, Source),
    notes: &mut Notes,
) {
    let mut add = |kind, needs: u64, has: u32, what: &str, help: &str| {
        if needs > has.into() {
            notes.about("quota", kind, source, || {
                let message = format!("rank {rank} takes {needs} {what}, and there are {has}");
                (message, help.to_owned())
            });
        }
    };
    let threads = held.threads.len() as u64;
    let help = match plan.threads_to_acquire() < held.threads.len() as u32 {
        // Operators that run one after the other could not use each other's resources.
        true => {
            "on A2 and A3 an existing thread gets no more notifies: run the operator that uses most notifies first"
        }
        false => "use fewer threads, and let each do several things one after the other",
    };
    add("threads", threads, setting.threads, "threads of a communicator", help);
    let per_thread = plan.notifies_per_thread().max(plan.main_notifies);
    let help = "let sub-threads end in groups, or use notifies again";
    add("thread", per_thread.into(), setting.thread_notifies, "notifies of a thread", help);
    let all = held.threads.iter().map(|notifies| u64::from(*notifies)).sum();
    let help = "every thread gets as many notifies as the thread that needs most: use fewer threads or fewer notifies";
    add("notifies", all, setting.notifies, "notifies of all threads of a communicator", help);
    let (per_channel, most) = (plan.notifies_per_channel(), setting.channel_notifies);
    let help = "use notifies of a channel again, when their waits are over";
    add("channel", per_channel.into(), most, "notifies of a channel", help);
}

/// Reports resources that an operator takes but that were not planned.
fn against(rank: usize, plan: &Plan, (planned, source): (&Plan, Source), notes: &mut Notes) {
    let mut add = |kind, message: String| {
        let help = "plan for this operator (`Plan::of`), or let it use fewer resources";
        notes.about("plan", kind, source, || (message, help.to_owned()));
    };
    let mut more = |kind, takes: u32, has: u32, what: String| {
        if takes > has {
            add(kind, format!("rank {rank} takes {takes} {what}, and {has} were planned"));
        }
    };
    more("threads", plan.threads, planned.threads, "threads".into());
    let (takes, has) = (plan.main_notifies, planned.main_notifies);
    more("main", takes, has, "notifies of the main thread".into());
    for (at, takes) in plan.sub_notifies.iter().enumerate() {
        // A thread that was not planned at all has already been reported.
        let has = planned.sub_notifies.get(at).copied().unwrap_or(u32::MAX);
        more("sub", *takes, has, format!("notifies of thread {}", at + 1));
    }
    let known = |peer| planned.channels.iter().find(|(other, _)| *other == peer);
    for (peer, takes) in &plan.channels {
        if let Some((_, has)) = known(*peer) {
            let what = format!("notifies of its channel with rank {peer}");
            more("channel", *takes, *has, what);
        }
    }
    for (peer, _) in plan.channels.iter().filter(|(peer, _)| known(*peer).is_none()) {
        add(
            "no channel",
            format!("rank {rank} takes a channel to rank {peer}, and none was planned"),
        );
    }
}

fn reductions(which: Option<u32>, operator: &Operator, product: Product, notes: &mut Notes) {
    for (rank, tasks) in (0..).zip(&operator.ranks) {
        for (thread, steps) in (0..).zip(&tasks.threads) {
            for (position, step) in (0..).zip(steps) {
                let Step { task, source } = *step;
                let Task::Reduce { op, .. } = task else { continue };
                let what = match op {
                    ReduceOp::Prod => "no product of elements".to_owned(),
                    _ if operator.element > 4 => {
                        format!("no reduction of elements of {} bytes", operator.element)
                    }
                    _ => continue,
                };
                let place = Place { operator: which, rank, thread, position, source, task };
                notes.add("product", "reduction", vec![place], || {
                    let message = format!("{} has {what}", product.name());
                    let help = "reduce fp32, fp16, bf16, int8, int16 or int32 with sum, max or min, or let the host do it";
                    (message, help.into())
                });
            }
        }
    }
}
