//! A pipeline: a model that is cut between its layers. Each rank is a *stage* and has some layers.
//!
//! A batch is cut into *micro-batches*, so that the stages can work on different micro-batches at
//! the same time. The order is 1F1B: after a few forward passes that fill the pipeline, a stage
//! does one backward pass for each forward pass. So it keeps the inputs of at most as many
//! micro-batches as there are stages from it to the end, however many micro-batches a batch has.
//!
//! One batch of messages sends the output of a pass and receives the input of the next pass. If the
//! send and the receive were separate, two neighbours would each wait for the other to receive.

use hccl::prelude::*;

use crate::error::{Error, Result, check_length};
use crate::gradient::Gradient;

/// A pass of one micro-batch through a stage.
///
/// ```
/// use hccl_train::pipeline::{Pass, schedule};
///
/// // The first of two stages, with two micro-batches.
/// for pass in schedule(0, 2, 2) {
///     match pass {
///         Pass::Forward(micro) => println!("micro-batch {micro} on its way"),
///         Pass::Backward(micro) => println!("micro-batch {micro} on its way back"),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The forward pass of the micro-batch with this number.
    Forward(usize),
    /// The backward pass of the micro-batch with this number. The backward passes of the
    /// micro-batches have the same order as their forward passes.
    Backward(usize),
}
use Pass::{Backward, Forward};

/// Returns the passes of a stage for `micros` micro-batches, in the order in which the stage runs
/// them.
pub fn schedule(stage: usize, stages: usize, micros: usize) -> Vec<Pass> {
    let fill = stages.saturating_sub(stage + 1).min(micros);
    let steady = (fill..micros).flat_map(|micro| [Forward(micro), Backward(micro - fill)]);
    let drain = (micros - fill..micros).map(Backward);
    (0..fill).map(Forward).chain(steady).chain(drain).collect()
}

/// Draws the schedule of all stages, for the case that all passes take the same time. Each line is
/// a stage, and each column is the time of one pass.
///
/// ```
/// let picture = hccl_train::pipeline::picture(2, 3);
/// assert_eq!(picture.lines().next(), Some("stage 0  F0 F1  . B0 F2 B1  . B2"));
/// assert_eq!(picture.lines().nth(1), Some("stage 1   . F0 B0 F1 B1 F2 B2"));
/// ```
pub fn picture(stages: usize, micros: usize) -> String {
    let mut queues =
        Vec::from_iter((0..stages).map(|stage| schedule(stage, stages, micros).into_iter()));
    let mut next: Vec<_> = queues.iter_mut().map(Iterator::next).collect();
    let mut lines = Vec::from_iter((0..stages).map(|stage| format!("stage {stage} ")));
    // A column is as wide as the longest name of a pass.
    let width = 1 + format!("F{}", micros.saturating_sub(1)).len();
    // The numbers of forward and backward passes that each stage has done.
    let (mut forward, mut backward) = (vec![0; stages], vec![0; stages]);
    while next.iter().any(Option::is_some) {
        let (gone, back) = (forward.clone(), backward.clone());
        for stage in 0..stages {
            let ready = next[stage].filter(|pass| match *pass {
                Forward(micro) => stage == 0 || gone[stage - 1] > micro,
                Backward(micro) => stage + 1 == stages || back[stage + 1] > micro,
            });
            let name = match ready {
                Some(Forward(micro)) => format!("F{micro}"),
                Some(Backward(micro)) => format!("B{micro}"),
                None => ".".to_string(),
            };
            lines[stage] += &format!("{name:>width$}");
            match ready {
                Some(Forward(_)) => forward[stage] += 1,
                Some(Backward(_)) => backward[stage] += 1,
                None => continue,
            }
            next[stage] = queues[stage].next();
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end_matches([' ', '.']))).collect()
}

/// The stage of one rank, and the buffers for messages with the stages before and after it.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::pipeline::{Pass, Pipeline};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// // A model of two factors, 3 on rank 0 and 4 on rank 1: each rank computes with its own.
/// let slopes = runtime.run_ranks(2, |rank| -> hccl_train::Result<f32> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut stage = Pipeline::<f32>::new(1, &comm, &stream)?;
///     let (factor, data) = ([3.0, 4.0][stage.stage()], [1.0_f32, 2.0, 5.0]);
///     let (mut inputs, mut slope) = (vec![0.0; data.len()], 0.0);
///     let run = |pass, input: Option<Vec<f32>>| -> hccl_train::Result<Vec<f32>> {
///         match pass {
///             Pass::Forward(micro) => {
///                 // From the stage before, or from the data.
///                 inputs[micro] = input.map_or(data[micro], |input| input[0]);
///                 Ok(vec![factor * inputs[micro]])
///             }
///             Pass::Backward(micro) => {
///                 // From the stage after it, or from the loss, which is the sum of the outputs.
///                 let delta = input.map_or(1.0, |delta| delta[0]);
///                 slope += delta * inputs[micro];
///                 Ok(vec![factor * delta])
///             }
///         }
///     };
///     stage.step(data.len(), &mut comm, &stream, |_| 1, run)?;
///     Ok(slope)
/// })?;
/// assert_eq!(slopes, [4.0 * 8.0, 3.0 * 8.0]);
/// # Ok(())
/// # }
/// ```
pub struct Pipeline<T: Gradient> {
    stage: usize,
    stages: usize,
    outgoing: DeviceBuffer<T>,
    incoming: DeviceBuffer<T>,
}

impl<T: Gradient> Pipeline<T> {
    /// Makes a pipeline whose stages are the ranks of a communicator, in their order. `room` is the
    /// largest number of elements that one stage sends to another stage for one micro-batch.
    /// Allocates memory for twice as many elements on the device of the stream.
    pub fn new(room: usize, comm: &Communicator, stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stage: comm.rank() as usize,
            stages: comm.world_size() as usize,
            outgoing: device.zeros(room, stream)?,
            incoming: device.zeros(room, stream)?,
        })
    }

    /// Returns the stage of this rank, counted from 0.
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Returns whether this stage is the last stage of the model.
    pub fn is_last(&self) -> bool {
        self.stage + 1 == self.stages
    }

    /// Runs one batch: the forward and backward passes of all its micro-batches.
    ///
    /// `run` computes a pass. The input of a forward pass is the activations that the stage before
    /// has sent. The input of a backward pass is the gradient that the stage after it has sent. The
    /// input is `None` for a forward pass of the first stage, which begins with the data. It is
    /// also `None` for a backward pass of the last stage, which begins with the loss. The result of
    /// `run` is sent to the next stage in the direction of the pass. At the end of the pipeline it
    /// is dropped.
    ///
    /// `expects` returns the number of elements in the input of a pass. All ranks must agree on
    /// this number. Returns the first error of `run`. Returns [`Error::Length`] if an input or a
    /// result has more elements than the room of the pipeline. Blocks until the messages of this
    /// stage are complete.
    pub fn step<E: From<Error>>(
        &mut self,
        micros: usize,
        comm: &mut Communicator,
        stream: &Stream,
        expects: impl Fn(Pass) -> usize,
        mut run: impl FnMut(Pass, Option<Vec<T>>) -> std::result::Result<Vec<T>, E>,
    ) -> std::result::Result<(), E> {
        let passes = schedule(self.stage, self.stages, micros);
        let mut given = None;
        for pass in passes {
            let input = self.exchange(given, Some((pass, expects(pass))), comm, stream)?;
            let output = run(pass, input)?;
            given = self.after(pass).map(|to| (output, to));
        }
        self.exchange(given, None, comm, stream)?;
        Ok(())
    }

    /// Returns the stage that sends the input of a pass, if there is one.
    fn before(&self, pass: Pass) -> Option<usize> {
        match pass {
            Forward(_) => self.stage.checked_sub(1),
            Backward(_) => Some(self.stage + 1).filter(|stage| *stage < self.stages),
        }
    }

    /// Returns the stage that receives the output of a pass, if there is one.
    fn after(&self, pass: Pass) -> Option<usize> {
        match pass {
            Forward(micro) => self.before(Backward(micro)),
            Backward(micro) => self.before(Forward(micro)),
        }
    }

    /// Sends the output of a pass, and receives the input of the next pass.
    fn exchange(
        &mut self,
        given: Option<(Vec<T>, usize)>,
        next: Option<(Pass, usize)>,
        comm: &mut Communicator,
        stream: &Stream,
    ) -> Result<Option<Vec<T>>> {
        let needs = next.and_then(|(pass, elements)| Some((self.before(pass)?, elements)));
        let room = self.outgoing.len();
        // The lengths are checked before anything is sent.
        let lengths = needs.map(|(_, elements)| elements).into_iter();
        for elements in lengths.chain(given.as_ref().map(|(output, _)| output.len())) {
            check_length(|| "the room of the pipeline".into(), room.min(elements), elements)?;
        }
        let mut messages = comm.batch();
        if let Some((output, to)) = &given {
            let mut place = self.outgoing.slice_mut(..output.len())?;
            drop(place.upload(output, stream)?);
            messages = messages.send(self.outgoing.slice(..output.len())?, *to as u32);
        }
        if let Some((from, elements)) = needs {
            messages = messages.recv(self.incoming.slice_mut(..elements)?, from as u32);
        }
        messages.submit(stream)?.wait()?;
        let Some((_, elements)) = needs else { return Ok(None) };
        Ok(Some(self.incoming.slice(..elements)?.to_vec(stream).wait()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_keeps_no_more_micro_batches_than_there_are_stages_behind_it() {
        for stages in 1..6 {
            for micros in 0..9 {
                for stage in 0..stages {
                    let passes = schedule(stage, stages, micros);
                    assert_eq!(passes.len(), 2 * micros);
                    let (mut gone, mut back, mut most) = (0, 0, 0);
                    for pass in passes {
                        match pass {
                            Forward(micro) => {
                                assert_eq!(micro, gone);
                                gone += 1;
                            }
                            Backward(micro) => {
                                assert_eq!(micro, back);
                                back += 1;
                            }
                        }
                        most = most.max(gone - back);
                    }
                    assert_eq!((gone, back), (micros, micros));
                    assert_eq!(most, micros.min(stages - stage));
                }
            }
        }
    }
}
