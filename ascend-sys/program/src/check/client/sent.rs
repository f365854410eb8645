//! The committed turns, and the cores' knowledge of them.

use super::begun::Begun;
use super::*;

/// The greatest number of steps of a task that are followed. A task of 255 turns among 256 ranks
/// has fewer steps. More ranks are an error, and could make the number of steps arbitrarily large.
const MOST_STEPS: usize = 1 << 16;

impl Clients {
    /// Records the newly committed turns of a handle, after those that were committed before.
    pub(super) fn sent(
        &mut self,
        view: &mut View<'_, '_>,
        core: usize,
        (client, at): (ClientId, usize),
        committed: u64,
    ) {
        let (clock, _) = view.units.call();
        if !self.works(view.ground.program, client, core) {
            return;
        }
        let handle = &self.own[client.0 as usize][core].handles[at];
        let earlier = self.first_turns(core, client, at);
        let numbered = |step: u64| (earlier + step + 1) as u32;
        if let Some(knows) = Clock::join(std::slice::from_ref(&clock)) {
            let over =
                |(other, at): &(_, usize)| (*other, self.first_turns(core, *other, at + 1) as u32);
            let after: Rc<[_]> = handle.after.iter().map(over).collect();
            let begun = || Begun { knows: Rc::clone(&knows), after: Rc::clone(&after) };
            let turns = (committed..handle.committed).take(MOST_STEPS);
            let turns = turns.map(|step| (numbered(step), begun()));
            self.committed[client.0 as usize].extend(turns);
        }
        if handle.touched.is_empty() {
            return;
        }
        let group = view.ground.program.clients[client.0 as usize].what.group as usize;
        let (rank, ranks) = view.ground.launch.groups.get(group).copied().unwrap_or((0, 1));
        let (rank, ranks) = (rank as usize, ranks.max(1) as usize);
        // A step sends to one rank and receives from one rank.
        let part = |step: u64| match handle.steps == handle.turns {
            true => (step, None),
            false => {
                let (turn, step) = (step / ranks as u64, step % ranks as u64);
                let far = step as usize;
                (turn, Some((step, [(rank + far) % ranks, (rank + ranks - far) % ranks])))
            }
        };
        self.sent.extend((committed..handle.committed).map(|number| Sent {
            client,
            task: handle.task,
            turn: part(number).0,
            step: part(number).1,
            number: numbered(number),
            clock: clock.clone(),
            source: view.source,
            touched: Rc::clone(&handle.touched),
        }));
    }

    /// Returns the turns that the working cores have committed.
    pub(in crate::check) fn all_sent(&self) -> &[Sent] {
        &self.sent
    }

    /// Returns the number of turns that a client's server has finished when it has finished this
    /// turn.
    pub(in crate::check) fn number(&self, program: &Program, turn: Turn) -> (ClientId, u32) {
        let worker = self.worker(program, turn.client);
        let earlier = worker.map_or(0, |worker| self.first_turns(worker, turn.client, turn.handle));
        (turn.client, (earlier + turn.steps) as u32)
    }

    /// Returns the number of turns of the first tasks that a core has prepared.
    fn first_turns(&self, core: usize, client: ClientId, tasks: usize) -> u64 {
        let handles = self.own[client.0 as usize][core].handles.iter();
        handles.take(tasks).map(|handle| handle.steps).sum()
    }

    /// Records in a core's clock that the server of a client has finished `turns` turns. The core
    /// also gets the knowledge of the committing cores, and the knowledge that the tasks before
    /// these turns are finished.
    pub(in crate::check) fn heard(&self, client: ClientId, turns: u32, clock: &mut Clock) {
        let server = self.server(client);
        let before = clock.turns(server);
        if before < turns {
            clock.hear(server, turns);
            let committed = self.committed[client.0 as usize].range(before + 1..=turns);
            for (_, begun) in committed {
                clock.learn(&begun.knows);
                for (other, turns) in begun.after.iter() {
                    self.heard(*other, *turns, clock);
                }
            }
        }
    }

    /// Returns the index of a client's server in a clock.
    pub(in crate::check) fn server(&self, client: ClientId) -> usize {
        self.cores.len() + client.0 as usize
    }
}
