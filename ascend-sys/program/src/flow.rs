//! The walk of one core through a program.
//!
//! A [`Walk`] follows loops and branches with actual numbers and stops at every step that has an
//! effect. Its caller then performs the step: the emulator moves data, and the checker only counts.
//! A caller can leave a walk at any step and resume it later, so a core that waits needs no thread.

mod fold;
mod number;

use std::collections::BTreeSet;

use crate::declared::*;
use crate::layout::Number;
use crate::program::Program;
use crate::step::{Node, Source, Step};
pub(crate) use number::{compare, convert, is_float, is_signed, is_whole};
pub use number::{fit, load, show, store};

/// The settings that all cores of a launch share.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The number of blocks of the launch (`numBlocks`).
    pub blocks: u32,
    /// The bytes of the tiling struct.
    pub tiling: Vec<u8>,
    /// The rank and the number of ranks in each group.
    pub groups: Vec<(u32, u32)>,
}

/// A fault of the kernel: a step with a value that cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The place in the source.
    pub source: Source,
    /// The reason.
    pub text: String,
}

/// The walk of one core through a program.
#[derive(Debug)]
pub struct Walk<'a> {
    program: &'a Program,
    launch: &'a Launch,
    core: Core,
    index: u32,
    /// The bits of each variable, or `None` if they are not known. Only in a checker can they be
    /// unknown.
    variables: Vec<Option<u64>>,
    frames: Vec<Frame>,
    source: Source,
    /// The number of steps and ends of blocks so far. `acted` is that number at the last step that
    /// had an effect.
    passed: u64,
    acted: u64,
    /// The blocks of the last branch or loop that the walk could not decide.
    undecided: Vec<BlockId>,
    /// The loops of which only the first iterations are walked, by their bodies.
    short: BTreeSet<BlockId>,
}

/// The number of steps without effect after which `advance` returns, so that the caller can decide
/// whether to continue.
const LONGEST_IDLE: u64 = 1 << 16;

/// The number of iterations that are walked of a [shortened](Walk::shorten) loop.
const SHORT: u64 = 64;

#[derive(Debug)]
struct Frame {
    block: BlockId,
    next: usize,
    /// The variable of the loop, its end and its step. `None` if the frame is not a loop.
    repeats: Option<(VariableId, u64, u64)>,
    /// The number of iterations that have ended.
    turns: u64,
    /// The source of the loop or the branch.
    source: Source,
}

/// The range of a loop over integers.
struct LoopRange {
    variable: VariableId,
    from: u64,
    to: u64,
    step: u64,
}

/// The reason why a value has no number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// The value comes from data that the caller does not have.
    Data,
    /// The value cannot be computed.
    Fault(Fault),
    /// Only returned by [`Walk::advance`]: many steps had no effect. The next `advance` continues.
    Idle,
    /// Only returned by [`Walk::advance`]: a [shortened](Walk::shorten) loop has more iterations
    /// than this number.
    Short(u64),
}

impl From<Fault> for Unknown {
    fn from(fault: Fault) -> Self {
        Unknown::Fault(fault)
    }
}

impl<'a> Walk<'a> {
    /// Returns the walk of core number `index` of its kind, before the first step.
    pub fn new(program: &'a Program, launch: &'a Launch, core: Core, index: u32) -> Self {
        Walk {
            program,
            launch,
            core,
            index,
            variables: vec![Some(0); program.variables.len()],
            frames: vec![Frame {
                block: BlockId(0),
                next: 0,
                repeats: None,
                turns: 0,
                source: Source::default(),
            }],
            source: Source::default(),
            passed: 0,
            acted: 0,
            undecided: Vec::new(),
            short: BTreeSet::new(),
        }
    }

    /// Returns the kind of the core.
    pub fn core(&self) -> Core {
        self.core
    }

    /// Returns the index of the core among the cores of its kind (`GetBlockIdx`).
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the source of the current step.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the number of steps and ends of blocks that the walk has passed. It is a measure of
    /// the time that the walk takes.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the body of the loop around this step that has had the most iterations so far.
    pub fn longest_loop(&self) -> Option<BlockId> {
        let loops = self.frames.iter().filter(|frame| frame.repeats.is_some());
        loops.max_by_key(|frame| frame.turns).map(|frame| frame.block)
    }

    /// Limits this loop to its first iterations, whenever the walk reaches it from now on. After
    /// them, `advance` returns [`Unknown::Short`], and the next `advance` continues after the loop.
    pub fn shorten(&mut self, body: BlockId) {
        self.short.insert(body);
    }

    /// Returns the blocks of the branch or loop at which [`advance`](Self::advance) returned
    /// [`Unknown::Data`] or [`Unknown::Short`]. The next `advance` continues after that branch or
    /// loop. If the result is empty after one of these errors, the walk cannot continue.
    pub fn undecided(&self) -> &[BlockId] {
        &self.undecided
    }

    /// Returns the next step that has an effect, or `None` at the end. All steps before it have
    /// been executed. An error says why the walk has stopped before such a step.
    pub fn advance(&mut self) -> Result<Option<&'a Node>, Unknown> {
        self.undecided.clear();
        while let Some(frame) = self.frames.last_mut() {
            self.passed += 1;
            if self.passed - self.acted > LONGEST_IDLE {
                self.acted = self.passed;
                return Err(Unknown::Idle);
            }
            let block: &'a [Node] = &self.program.blocks[frame.block.0 as usize];
            let Some(node) = block.get(frame.next) else {
                self.end_of_block()?;
                continue;
            };
            frame.next += 1;
            self.source = node.source;
            match &node.step {
                Step::Comment(_) => {}
                // C++ computes the value here, whether it is used or not.
                Step::Name(value) => match self.value(*value) {
                    Ok(_) | Err(Unknown::Data) => {}
                    Err(fault) => return Err(fault),
                },
                Step::Set(variable, value) => {
                    let bits = match self.value(*value) {
                        Ok(bits) => Some(bits),
                        Err(Unknown::Data) => None,
                        Err(fault) => return Err(fault),
                    };
                    self.variables[variable.0 as usize] = bits;
                }
                Step::Loop { variable, from, to, step, body } => {
                    let bounds = [from, to, step].map(|bound| self.value(*bound));
                    let [Ok(from), Ok(to), Ok(step)] = bounds else {
                        let unknown = bounds.into_iter().find_map(Result::err);
                        return Err(self.cannot_decide(unknown, [*body]));
                    };
                    if step == 0 {
                        return Err(self
                            .fault("the step of the loop is 0; give it another step")
                            .into());
                    }
                    let range = LoopRange { variable: *variable, from, to, step };
                    if self.less(*variable, from, to) && !self.fold(&range, *body)? {
                        self.variables[variable.0 as usize] = Some(from);
                        let repeats = Some((*variable, to, step));
                        let source = node.source;
                        self.frames.push(Frame {
                            block: *body,
                            next: 0,
                            repeats,
                            turns: 0,
                            source,
                        });
                    }
                }
                Step::If { condition, then, otherwise } => match self.value(*condition) {
                    Ok(0) => self.enter(*otherwise),
                    Ok(_) => self.enter(Some(*then)),
                    Err(unknown) => {
                        let blocks = [*then].into_iter().chain(*otherwise);
                        return Err(self.cannot_decide(Some(unknown), blocks));
                    }
                },
                Step::On(core, block) => self.enter((*core == self.core).then_some(*block)),
                Step::Read(..)
                | Step::Buffer(_)
                | Step::Copy(_)
                | Step::Vector(_)
                | Step::Sync(_)
                | Step::Matmul(_)
                | Step::Hccl(_) => {
                    self.acted = self.passed;
                    return Ok(Some(node));
                }
            }
        }
        Ok(None)
    }

    /// Stops at a branch or loop whose condition or bound has no number.
    fn cannot_decide(
        &mut self,
        why: Option<Unknown>,
        blocks: impl IntoIterator<Item = BlockId>,
    ) -> Unknown {
        let why = why.unwrap_or(Unknown::Data);
        if why == Unknown::Data {
            self.undecided.extend(blocks);
        }
        why
    }

    fn enter(&mut self, block: Option<BlockId>) {
        if let Some(block) = block {
            let source = self.source;
            self.frames.push(Frame { block, next: 0, repeats: None, turns: 0, source });
        }
    }

    fn end_of_block(&mut self) -> Result<(), Unknown> {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        if let Some((variable, to, step)) = frame.repeats {
            let (block, turns, source) = (frame.block, frame.turns + 1, frame.source);
            let number = self.program.variables[variable.0 as usize].what;
            let now = self.variables[variable.0 as usize].ok_or(Unknown::Data)?;
            let next = match is_float(number) {
                true => self.binary(Binary::Add, number, now, step)?,
                false => fit(number, now.wrapping_add(step)),
            };
            if !self.less(variable, now, next) && self.less(variable, now, to) {
                let (now, step) = (show(number, now), show(number, step));
                let text = format!(
                    "a loop goes from {now} by {step}, beyond its type's range; use a wider type \
                     or a smaller end"
                );
                return Err(self.fault(&text).into());
            }
            if self.less(variable, next, to) {
                if turns >= SHORT && self.short.contains(&block) {
                    self.frames.pop();
                    self.undecided.push(block);
                    self.source = source;
                    return Err(Unknown::Short(turns));
                }
                self.variables[variable.0 as usize] = Some(next);
                if let Some(frame) = self.frames.last_mut() {
                    frame.next = 0;
                    frame.turns = turns;
                }
                return Ok(());
            }
        }
        self.frames.pop();
        Ok(())
    }

    fn less(&self, variable: VariableId, a: u64, b: u64) -> bool {
        let number = self.program.variables[variable.0 as usize].what;
        compare(Binary::Less, number, a, b)
    }

    /// Gives a variable the number that a [`Step::Read`] has read. Pass `None` if the data is not
    /// known.
    pub fn set(&mut self, variable: VariableId, bits: Option<u64>) {
        let number = self.program.variables[variable.0 as usize].what;
        self.variables[variable.0 as usize] = bits.map(|bits| fit(number, bits));
    }

    /// Computes a value as an unsigned number, for counts and offsets. A negative number is a
    /// fault.
    pub fn count(&self, id: ValueId) -> Result<u64, Unknown> {
        let bits = self.value(id)?;
        let number = self.number(id);
        if is_float(number) || (is_signed(number) && (bits as i64) < 0) {
            let shown = show(number, bits);
            return Err(self
                .fault(&format!(
                    "{shown} is not a number of elements; use a whole number of 0 or more"
                ))
                .into());
        }
        Ok(bits)
    }

    /// Returns the type of a value.
    pub fn number(&self, id: ValueId) -> Number {
        self.program.values[id.0 as usize].number
    }

    /// Returns the bits of a value. Integers are extended to 64 bits by their sign, and
    /// floating-point numbers are `f64`.
    pub fn value(&self, id: ValueId) -> Result<u64, Unknown> {
        let Value { of, number, .. } = &self.program.values[id.0 as usize];
        Ok(match of {
            Of::Constant(bits) => *bits,
            Of::Tiling { offset, element, .. } => {
                let mut at = u64::from(*offset);
                if let Some((index, length)) = element {
                    let index = self.count(*index)?;
                    if index >= u64::from(*length) {
                        let text = format!(
                            "element {index} of an array of {length}; use an index below {length}"
                        );
                        return Err(self.fault(&text).into());
                    }
                    at += index * u64::from(number.size());
                }
                self.tiling(at, *number)?
            }
            Of::BlockIndex => u64::from(self.index),
            Of::BlockCount => u64::from(self.launch.blocks),
            Of::SubBlockIndex => match self.core {
                Core::Aic => 0,
                Core::Aiv => u64::from(self.index % self.ratio()),
            },
            Of::TaskRatio => u64::from(self.ratio()),
            Of::Rank(client) => u64::from(self.group(*client)?.0),
            Of::Ranks(client) => u64::from(self.group(*client)?.1),
            Of::Variable(variable) => self.variables[variable.0 as usize].ok_or(Unknown::Data)?,
            Of::Unary(operator, a) => {
                let bits = self.value(*a)?;
                match operator {
                    Unary::Not => u64::from(bits == 0),
                    Unary::Negate if is_float(*number) => (-f64::from_bits(bits)).to_bits(),
                    Unary::Negate => self.binary(Binary::Sub, *number, 0, bits)?,
                }
            }
            Of::Binary(operator, a, b) => {
                let of = self.number(*a);
                // An operand that is not needed is not computed, because its computation may fail.
                match operator {
                    Binary::And if self.value(*a)? == 0 => 0,
                    Binary::Or if self.value(*a)? != 0 => 1,
                    Binary::And | Binary::Or => self.value(*b)?,
                    _ if operator.compares() => {
                        u64::from(compare(*operator, of, self.value(*a)?, self.value(*b)?))
                    }
                    _ => self.binary(*operator, *number, self.value(*a)?, self.value(*b)?)?,
                }
            }
            Of::Select(condition, a, b) => {
                self.value(if self.value(*condition)? != 0 { *a } else { *b })?
            }
            Of::Cast(a) => convert(self.number(*a), *number, self.value(*a)?),
        })
    }

    /// Reads a number of the tiling struct.
    pub fn tiling(&self, offset: u64, number: Number) -> Result<u64, Fault> {
        let size = number.size() as usize;
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|at| self.launch.tiling.get(at..at.checked_add(size)?))
            .ok_or_else(|| {
                let length = self.launch.tiling.len();
                self.fault(&format!(
                    "the kernel reads byte {offset} of its tiling, which has {length}; pass the \
                     whole tiling struct"
                ))
            })?;
        Ok(load(number, bytes))
    }

    fn ratio(&self) -> u32 {
        self.program.mix.ratio(self.core).max(1)
    }

    fn group(&self, client: ClientId) -> Result<(u32, u32), Fault> {
        let group = self.program.clients[client.0 as usize].what.group;
        self.launch.groups.get(group as usize).copied().ok_or_else(|| {
            self.fault(&format!("there is no context for group {group}, so there is no rank"))
        })
    }

    fn binary(&self, operator: Binary, number: Number, a: u64, b: u64) -> Result<u64, Fault> {
        if is_float(number) {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            let result = match operator {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Rem => a % b,
                // This is the result of C++ if one operand is not a number.
                Binary::Min if b < a => b,
                Binary::Max if a < b => b,
                _ => a,
            };
            return Ok(fit(number, result.to_bits()));
        }
        if b == 0 && matches!(operator, Binary::Div | Binary::Rem) {
            return Err(self.fault("a division by zero; check the divisor first"));
        }
        if is_signed(number) {
            return self.signed(operator, number, (a as i64, b as i64));
        }
        let result = match operator {
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div => a / b,
            Binary::Rem => a % b,
            Binary::Min => a.min(b),
            _ => a.max(b),
        };
        Ok(fit(number, result))
    }

    /// Computes a signed operation. If the result leaves its type, C++ leaves it undefined and
    /// Ascend C may do anything, so that is a fault.
    fn signed(&self, operator: Binary, number: Number, (x, y): (i64, i64)) -> Result<u64, Fault> {
        let (a, b) = (i128::from(x), i128::from(y));
        let (sign, result) = match operator {
            Binary::Add => ("+", a + b),
            Binary::Sub => ("-", a - b),
            Binary::Mul => ("*", a * b),
            Binary::Div => ("/", a / b),
            // C++ requires that the quotient fits too.
            Binary::Rem if fit(number, (a / b) as u64) as i64 as i128 != a / b => ("/", a / b),
            Binary::Rem => ("%", a % b),
            Binary::Min => return Ok(x.min(y) as u64),
            _ => return Ok(x.max(y) as u64),
        };
        let bits = fit(number, result as u64);
        if i128::from(bits as i64) == result {
            return Ok(bits);
        }
        Err(self.fault(&format!(
            "{x} {sign} {y} is {result}, beyond the range of {number}; use smaller numbers or a \
             wider type"
        )))
    }

    /// Returns a fault at the current step, with this text.
    pub fn fault(&self, text: &str) -> Fault {
        Fault { source: self.source, text: text.to_owned() }
    }
}
