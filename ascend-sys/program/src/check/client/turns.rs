//! Checks the progress of tasks: commits, waits and the end.

use super::*;

impl Clients {
    /// Returns the handle of a task on this core. If there is no handle, reports that and returns
    /// `None`. Also returns `None` for a task without turns.
    fn handle(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        task: TaskId,
    ) -> Option<(ClientId, usize)> {
        let client = view.ground.program.tasks[task.0 as usize].what;
        self.ready(view, core, client)?;
        let found = self.own(client, core).current.get(&task).copied();
        if found.is_none() {
            let name = view.words().task(task);
            let elsewhere = (self.own[client.0 as usize].iter().zip(&self.cores))
                .find_map(|(own, core)| own.current.contains_key(&task).then_some(core));
            let message = match elsewhere {
                None => format!("`{name}` has not been prepared on this core"),
                Some(other) => {
                    format!("`{name}` has not been prepared on this core, but on {other}")
                }
            };
            view.error("task", message, "prepare, commit and wait on the same cores");
        }
        let at = found?;
        // If there is nothing to commit or to wait for, the prepare call has already reported that.
        (self.own(client, core).handles[at].turns > 0).then_some((client, at))
    }

    /// Checks a `Commit`.
    pub(in crate::check) fn commit(&mut self, view: &mut View<'_, '_>, core: usize, task: TaskId) {
        let Some((client, at)) = self.handle(view, core, task) else { return };
        let product = view.product();
        let handles = &mut self.own(client, core).handles;
        let before = handles[..at].iter().find(|before| before.committed < before.steps).cloned();
        let handle = &mut handles[at];
        let name = view.words().task(task);
        if handle.committed + handle.step > handle.steps {
            let message = format!(
                "`{name}` is committed once more, after {}",
                handle.share(handle.committed)
            );
            if view.strict() || product == Product::Ascend950 {
                view.error(
                    "commit",
                    message,
                    "commit each turn once, or all with the prepare call",
                );
            }
            return;
        }
        let committed = handle.committed;
        handle.committed += handle.step;
        self.sent(view, core, (client, at), committed);
        if let Some(before) = before
            && product == Product::Ascend950
        {
            let message = format!(
                "`{name}` is committed before `{}`, of which {} are committed",
                view.words().task(before.task),
                before.share(before.committed)
            );
            view.error(
                "commit-order",
                message,
                "commit in the order of prepares, as Ascend 950 requires",
            );
        }
    }

    /// Checks a `Wait`. Returns the turn for which the core then waits, if any.
    pub(in crate::check) fn wait(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        task: TaskId,
    ) -> Option<Turn> {
        let (client, at) = self.handle(view, core, task)?;
        let (product, source) = (view.product(), view.source);
        let own = self.own(client, core);
        own.waited = Some((view.units.call().1, source));
        let queues = own.queues;
        let before = own.handles[..at].iter().find(|before| before.waited < before.steps).cloned();
        let handle = &mut own.handles[at];
        let name = view.words().task(task);
        if handle.waited + handle.step > handle.committed {
            let message = format!(
                "this waits for turn {} of `{name}`, of which {} are committed: it returns at once with -1",
                handle.waited / handle.step + 1,
                handle.share(handle.committed)
            );
            view.error(
                "wait",
                message,
                "commit a turn before waiting for it, and wait once for each",
            );
            return None;
        }
        handle.waited += handle.step;
        let turn = Turn { client, handle: at, steps: handle.waited, task };
        if let Some(before) = before
            && (view.strict() || product == Product::Ascend950)
        {
            let message = format!(
                "this waits for `{name}` before all of `{}`, of which {} have been waited for",
                view.words().task(before.task),
                before.share(before.waited)
            );
            view.error("wait-order", message, "wait in the order of prepares");
        }
        // A client with queues of its own does not make the core wait, so there is no turn.
        (queues == 0).then_some(turn)
    }

    /// Checks an `Iterate` with one slice. Returns the block, and the turn for which the core
    /// waits.
    pub(in crate::check) fn slice(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        task: TaskId,
        received: bool,
    ) -> (Option<u64>, Option<Turn>) {
        if view.product() != Product::A3 {
            view.lacks("Iterate", "wait for whole turns");
            return (None, None);
        }
        let Some((client, at)) = self.handle(view, core, task) else { return (None, None) };
        let Some((rank, ranks)) = view.group(client) else { return (None, None) };
        let (rank, ranks) = (u64::from(rank), u64::from(ranks.max(1)));
        let handle = &mut self.own(client, core).handles[at];
        let name = view.words().task(task);
        if handle.steps == handle.turns && ranks > 1 {
            let message = format!("`{name}` is not divided into steps");
            let help = "divide only an AlltoAllV, with an Mc2CcTiling that has a step size and \
                        full mesh with pairwise";
            view.error("iterate", message, help);
            return (None, None);
        }
        if handle.side.is_some_and(|side| side != received) {
            let message = format!(
                "`{name}` is iterated both for the data to send and for the data that it receives"
            );
            view.error("iterate", message, "iterate a task for only one of the two");
        }
        handle.side = Some(received);
        if handle.iterated >= ranks * handle.turns {
            return (Some(0), None);
        }
        let step = handle.iterated % ranks;
        handle.iterated += 1;
        let waits = received && handle.iterated.is_multiple_of(handle.step);
        let block = if received { (rank + ranks - step) % ranks } else { (rank + step) % ranks };
        let turn = if waits { self.wait(view, core, task) } else { None };
        (Some(block), turn)
    }

    /// Checks a `Query`. Returns the turn that it queries, if there is one.
    pub(in crate::check) fn query(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        task: TaskId,
        given: Option<u64>,
    ) -> Option<Turn> {
        if view.product() == Product::Ascend950 {
            view.lacks("Query", "wait for the turn");
        }
        let (client, handle) = self.handle(view, core, task)?;
        let steps = given.filter(|finished| *finished > 0)?;
        Some(Turn { client, handle, steps, task })
    }

    /// Checks a `GetQueueNum`.
    pub(in crate::check) fn queues(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        client: ClientId,
    ) -> Option<u64> {
        if view.product() != Product::A3 {
            view.lacks("GetQueueNum", "use queue 0");
        }
        self.ready(view, core, client)?;
        Some(self.own(client, core).queues)
    }

    /// Checks an `InterHcclGroupSync`. Returns whether the state of the object is known afterwards.
    pub(in crate::check) fn after(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        client: ClientId,
        task: TaskId,
    ) -> bool {
        if view.product() != Product::A3 {
            view.lacks("InterHcclGroupSync", "wait for the task, and commit the next one then");
        }
        if self.ready(view, core, client).is_none() {
            return true;
        }
        let program = view.ground.program;
        let other = program.tasks[task.0 as usize].what;
        let group = |of: ClientId| program.clients[of.0 as usize].what.group;
        if group(other) == group(client) {
            let message = format!(
                "`{}` is to come after `{}`, a task of the same group",
                view.words().client(client),
                view.words().task(task)
            );
            view.error("task", message, "leave it out: tasks of a group run in prepare order");
            return true;
        }
        let Some(found) = self.handle(view, core, task) else { return true };
        if !self.slot(view, core, client) {
            return false;
        }
        let own = self.own(client, core);
        own.syncs += 1;
        own.after.push(found);
        true
    }

    /// Checks a `QueueBarrier`.
    pub(in crate::check) fn barrier(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        client: ClientId,
        queue: Option<u64>,
    ) {
        if view.product() != Product::A3 {
            view.lacks("QueueBarrier", "finalise the client, which waits for all queues");
        }
        if self.ready(view, core, client).is_none() {
            return;
        }
        let own = self.own(client, core);
        let queues = own.queues;
        let Some(queue) = queue else {
            // The queue is unknown, so the barrier may be one of any queue.
            own.barriers.extend(0..queues.max(1));
            return;
        };
        own.barriers.insert(queue);
        if queue >= queues.max(1) {
            let message = format!("a barrier of queue {queue}, but there are {queues}");
            let help = match queues {
                0 => "set the number of queues on the host (queueNum), or use queue 0",
                _ => "use a queue below that number, because queues are counted from 0",
            };
            view.error("task", message, help);
        }
    }

    /// Checks a `Finalize`.
    pub(in crate::check) fn finalize(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        client: ClientId,
        waits: bool,
    ) {
        let program = view.ground.program;
        let name = view.words().client(client);
        if let Some(before) = &self.own(client, core).finalized {
            let message = format!("`{name}` is finalised again, after line {}", before.source.line);
            view.error("finalize", message, "finalise it once");
            return;
        }
        if self.ready(view, core, client).is_none() {
            return;
        }
        let works = self.works(program, client, core);
        let own = &self.own[client.0 as usize][core];
        if !waits {
            let batches = own.handles.iter().all(|handle| handle.command == 18);
            if view.product() != Product::A3 || !batches {
                let message = format!("`{name}` is finalised without waiting");
                let help = "let it wait: only an A3 client that prepares only BatchWrite need not";
                view.error("finalize", message, help);
            } else if let Some(open) =
                (0..own.queues.max(1)).find(|queue| !own.barriers.contains(queue))
            {
                let message = format!(
                    "`{name}` is finalised without waiting, but queue {open} has no barrier"
                );
                let help = "call `queue_barrier` for each queue before `finalise_without_waiting`";
                view.error("finalize", message, help);
            }
        }
        let elsewhere = (self.own[client.0 as usize].iter()).any(|own| !own.handles.is_empty());
        if works && !elsewhere && view.product() == Product::Ascend950 {
            let message = format!("`{name}` has prepared nothing, but is finalised");
            view.error("finalize", message, "leave out a client that is not used");
        }
        if let Some(open) = own.handles.iter().find(|handle| handle.committed < handle.steps)
            && works
        {
            let message = format!(
                "`{name}` is finalised with {} of `{}` committed, and waits forever for the rest",
                open.share(open.committed),
                view.words().task(open.task)
            );
            view.error("commit", message, "commit every turn first");
        }
        if works && waits {
            let turns: u64 = own.handles.iter().map(|handle| handle.steps).sum();
            self.heard(client, turns as u32, view.units.control());
        }
        let (clock, _) = view.units.call();
        let knows = (0..self.cores.len()).map(|other| clock.of(other, Unit::Control)).collect();
        let source = view.source;
        self.own(client, core).finalized = Some(Finalized { source, knows });
    }

    /// Reports a handle that is lost before all its turns are committed: a task that is prepared
    /// again stands only for the new handle.
    pub(super) fn lost(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        client: ClientId,
        task: TaskId,
    ) {
        let own = self.own(client, core);
        let Some(old) = own.current.get(&task).map(|at| &own.handles[*at]) else { return };
        if old.committed < old.steps {
            let message = format!(
                "`{}` is prepared again with {} committed, and the rest can no longer be committed",
                view.words().task(task),
                old.share(old.committed)
            );
            view.error("commit", message, "commit every turn first, or use another task");
        }
    }

    /// Reports the tasks that are open when all cores have reached their end. `at` makes a view for
    /// a core and a source, and passes it to a closure.
    pub(in crate::check) fn end(
        &self,
        mut at: impl FnMut(usize, Source, &mut dyn FnMut(&mut View<'_, '_>)),
        program: &Program,
    ) {
        for client in (0..program.clients.len() as u32).map(ClientId) {
            let Some(worker) = self.worker(program, client) else { continue };
            let all = &self.own[client.0 as usize];
            let own = &all[worker];
            for handle in own.handles.iter().filter(|_| !own.misused) {
                at(worker, handle.source, &mut |view| waited(view, handle));
            }
            if let Some(first) = own.handles.first()
                && own.finalized.is_none()
            {
                at(worker, first.source, &mut |view| {
                    let name = view.words().client(client);
                    let message = format!("`{name}` prepares this and is never finalised");
                    view.error("finalize", message, "finalise it on the same core, at the end");
                });
            }
            for (core, other) in all.iter().enumerate() {
                if core == worker {
                    continue;
                }
                if own.queues > 0 {
                    if let Some(first) = other.handles.first()
                        && other.finalized.is_none()
                    {
                        at(core, first.source, &mut |view| {
                            let name = view.words().client(client);
                            let message =
                                format!("`{name}` writes batches here and is never finalised");
                            view.error(
                                "finalize",
                                message,
                                "finalise it on every core with queues",
                            );
                        });
                    }
                    continue;
                }
                let alike =
                    |(a, b): (&Handle, &Handle)| a.command == b.command && a.turns == b.turns;
                let same = other.handles.iter().zip(&own.handles).take_while(|two| alike(*two));
                if let Some(first) = other.handles.get(same.count()) {
                    at(core, first.source, &mut |view| {
                        let message = format!(
                            "`{}` is prepared here, but not on {}, the core that writes messages",
                            view.words().task(first.task),
                            self.cores[worker]
                        );
                        let help = "prepare the same tasks in the same order there, or only there";
                        view.error("prepare-order", message, help);
                    });
                }
                let product_counts = all[worker].handles.iter().zip(&other.handles);
                for (mine, theirs) in product_counts {
                    at(core, theirs.source, &mut |view| same_waits(view, mine, theirs));
                }
            }
            let Some(end) = &own.finalized else { continue };
            for (core, other) in all.iter().enumerate().filter(|(core, _)| *core != worker) {
                let Some((tick, source)) = other.waited else { continue };
                if tick > end.knows[core] && own.queues == 0 {
                    at(core, end.source, &mut |view| {
                        let tolerated = !view.strict() && view.product() == Product::Ascend950;
                        if tolerated {
                            return;
                        }
                        let message = format!(
                            "`{}` is finalised on {}, but this core may still be in the wait of line {}",
                            view.words().client(client),
                            self.cores[worker],
                            source.line
                        );
                        let help =
                            "synchronise all cores after the last wait and before `finalise`";
                        view.error("finalize-sync", message, help);
                    });
                }
            }
        }
    }
}

/// Checks that the core has waited for every turn.
fn waited(view: &mut View<'_, '_>, handle: &Handle) {
    let tolerated = !view.strict() && (view.product() != Product::Ascend950 || handle.turns <= 64);
    if handle.waited < handle.steps && handle.command != 18 && !tolerated {
        let message = format!(
            "`{}` is prepared, but {} have been waited for at the end",
            view.words().task(handle.task),
            handle.share(handle.waited)
        );
        view.error("wait", message, "wait once for each turn, on the core that prepared it");
    }
}

/// Checks that all cores that wait do so for the same number of turns, as Ascend 950 requires.
fn same_waits(view: &mut View<'_, '_>, mine: &Handle, theirs: &Handle) {
    if view.product() == Product::Ascend950 && theirs.waited > 0 && theirs.waited != mine.waited {
        let message = format!(
            "this core waits for {} of `{}`, but the core that writes the messages waits for {}",
            theirs.share(theirs.waited),
            view.words().task(theirs.task),
            mine.share(mine.waited)
        );
        let help = "let each core wait for as many turns of a task as the core that writes the messages, or for none, as Ascend 950 requires";
        view.error("wait", message, help);
    }
}
