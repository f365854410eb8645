//! Describes in words why a core is not followed any further.

use super::client::Clients;
use super::member::{Member, State};
use super::sync::Flags;
use super::view::Ground;
use crate::declared::Core;
use crate::flow::Unknown;

/// Returns the rule and the text for a branch or loop that the checker skips. `steps` is the number
/// of steps after which the checker stops following a kernel.
pub(super) fn left_out(why: &Unknown, steps: u64) -> (&'static str, String) {
    match why {
        Unknown::Short(turns) => (
            "long",
            format!(
                "only the first {turns} iterations of this loop are checked, because the kernel takes more than {steps} steps"
            ),
        ),
        _ => (
            "data",
            "whether this runs depends on data that is not available yet, so the steps in it are not checked"
                .to_owned(),
        ),
    }
}

/// Returns the rule, the text and the help for a branch or loop that the checker cannot skip.
pub(super) fn not_followed(why: &Unknown, steps: u64) -> (&'static str, String, &'static str) {
    match why {
        Unknown::Short(turns) => (
            "long",
            format!(
                "the check of this core ends here, after {turns} iterations of this loop: the kernel takes more than {steps} steps, and other cores or later steps depend on the rest of the loop"
            ),
            "no change is needed; with longer tiles, the check covers more",
        ),
        _ => (
            "data",
            "the check of this core ends here: the control flow depends on data that is not available yet, and other cores or later steps depend on it"
                .to_owned(),
            "move calls of the client, flags and barriers out of branches and loops that depend on data",
        ),
    }
}

/// Returns the rule, the text and the help for a core that waits forever. Returns `None` for any
/// other core, and for a core that awaits a flag if a raise of a flag was rejected.
pub(super) fn stuck(
    ground: &Ground<'_>,
    members: &[Member<'_>],
    flags: &Flags,
    clients: &Clients,
    at: usize,
) -> Option<(&'static str, String, &'static str)> {
    let where_is = |at: usize| {
        let Member { name, walk, state, .. } = &members[at];
        let line = walk.source().line;
        match state {
            State::Ended => format!("{name} has reached the end of the kernel"),
            State::Flag(flag) => format!("{name} awaits flag {flag} in line {line}"),
            State::Barrier(_) => format!("{name} is at the barrier in line {line}"),
            State::Turn(_) => format!("{name} waits for the server in line {line}"),
            State::Ready | State::Lost => format!("{name} is in line {line}"),
        }
    };
    Some(match members[at].state {
        State::Ready | State::Ended | State::Lost => return None,
        State::Flag(_) if flags.refused() => return None,
        State::Flag(flag) => {
            let why = match flags.missing(members[at].name, flag) {
                Some((missing, all)) => {
                    let who = missing.first().map_or(String::new(), |first| where_is(*first));
                    let has = if missing.len() == 1 { "has" } else { "have" };
                    format!("{} of {all} cores {has} not raised it: {who}", missing.len())
                }
                None => "no core raises it".to_owned(),
            };
            let message = format!("flag {flag} is awaited forever: {why}");
            ("hang", message, "let all cores that raise the flag do it, also those without work")
        }
        State::Barrier(vector) => {
            let part = |m: &&Member<'_>| !vector || m.name.kind == Core::Aiv;
            let there = |m: &&Member<'_>| matches!(m.state, State::Barrier(of) if of == vector);
            let all = members.iter().filter(part).count();
            let here = members.iter().filter(part).filter(there).count();
            let first = members.iter().position(|m| part(&m) && !there(&m));
            let first = first.map_or(String::new(), where_is);
            let reach = if here == 1 { "reaches" } else { "reach" };
            let message = format!("only {here} of {all} cores {reach} this barrier: {first}");
            let help =
                "let all cores of the barrier call it equally often, even cores without work";
            ("hang", message, help)
        }
        State::Turn(turn) => {
            let task = ground.words.task(turn.task);
            let why = match clients.holds_up(ground.program, turn) {
                Some((holds_up, share)) => {
                    format!("{share} of `{}` are committed", ground.words.task(holds_up))
                }
                None => "the core that writes messages has not prepared it".to_owned(),
            };
            let message = format!("the wait for `{task}` never ends: {why}");
            (
                "hang",
                message,
                "the server takes tasks in the order of prepares: commit them in that order",
            )
        }
    })
}
