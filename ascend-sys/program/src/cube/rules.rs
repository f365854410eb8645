//! The rules of a `TCubeTiling`, ordered so that each rule comes after those that it depends on.
//!
//! Some numbers follow from others. So a rule is checked only if the rules that it depends on hold.

use super::Field::{self, *};
use super::{Chip, Tiles};
use crate::declared::Matmul;

/// A number that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field with the number.
    pub field: Field,
    /// The required value and the reason. The text completes the sentence `... is 3, but must be`.
    pub must: String,
}

fn must<T>(field: Field, must: String) -> Result<T, Problem> {
    Err(Problem { field, must })
}

/// Returns a text that names the largest multiple of `of` that is not above `most`.
fn at_most(most: i128, of: i128) -> String {
    match most / of * of {
        0 => "less".into(),
        most => format!("at most {most}"),
    }
}

impl Tiles {
    /// Returns the first rule that these numbers break for products of this kind, with `l1` bytes
    /// in L1.
    pub fn problem(&self, matmul: &Matmul, chip: &Chip, l1: u32) -> Option<Problem> {
        let rules = Rules { tiles: self, matmul, chip, l1: l1.into() };
        rules.all().err()
    }

    /// Returns the fields that are not 0 here although a product without batches and without shared
    /// memory has 0 in them.
    pub fn not_plain(&self) -> impl Iterator<Item = Field> {
        let plain = |field: &Field| {
            (*field as usize >= ShareMode as usize && *field as usize <= SingleBatchN as usize)
                || (*field as usize >= ALayoutInfoB as usize
                    && *field as usize <= BatchNum as usize)
        };
        let tiles = *self;
        Field::ALL.into_iter().filter(plain).filter(move |field| tiles.get(*field) != 0)
    }
}

struct Rules<'a> {
    tiles: &'a Tiles,
    matmul: &'a Matmul,
    chip: &'a Chip,
    l1: i128,
}

/// The numbers of one of the two matrices to multiply.
struct OperandTiling {
    name: char,
    /// The number of bytes of an element.
    size: i128,
    base: Field,
    /// The depth of the whole matrix.
    depth: Field,
    buffers: Field,
    l0: (&'static str, i128),
    blocks: Field,
    step: Field,
    step_k: Field,
}

impl OperandTiling {
    /// Returns the number of bytes of a block.
    fn block(&self, tiles: &Tiles) -> i128 {
        tiles.wide(self.base) * tiles.wide(BaseK) * self.size
    }
}

impl Rules<'_> {
    fn all(&self) -> Result<(), Problem> {
        self.positive()?;
        self.switches()?;
        self.depth()?;
        self.cores()?;
        self.multiples()?;
        for side in self.sides() {
            self.l0(&side)?;
        }
        self.l0c()?;
        for side in self.sides() {
            self.blocks(&side)?;
            self.whole_depth(&side)?;
        }
        self.loops()?;
        self.l1()
    }

    fn sides(&self) -> [OperandTiling; 2] {
        let a = OperandTiling {
            name: 'A',
            size: self.matmul.a.size().into(),
            base: BaseM,
            depth: Ka,
            buffers: DbL0A,
            l0: ("L0A", self.chip.l0a.into()),
            blocks: DepthA1,
            step: StepM,
            step_k: StepKa,
        };
        let b = OperandTiling {
            name: 'B',
            size: self.matmul.b.size().into(),
            base: BaseN,
            depth: Kb,
            buffers: DbL0B,
            l0: ("L0B", self.chip.l0b.into()),
            blocks: DepthB1,
            step: StepN,
            step_k: StepKb,
        };
        [a, b]
    }

    fn positive(&self) -> Result<(), Problem> {
        let counts = [
            UsedCoreNum,
            M,
            N,
            Ka,
            Kb,
            SingleCoreM,
            SingleCoreN,
            SingleCoreK,
            BaseM,
            BaseN,
            BaseK,
            DepthA1,
            DepthB1,
            StepM,
            StepN,
            StepKa,
            StepKb,
        ];
        match counts.into_iter().find(|field| self.tiles.get(*field) < 1) {
            Some(field) => must(field, "at least 1".into()),
            None => Ok(()),
        }
    }

    fn switches(&self) -> Result<(), Problem> {
        for (field, memory) in [(DbL0A, "L0A"), (DbL0B, "L0B"), (DbL0C, "L0C")] {
            if !matches!(self.tiles.get(field), 1 | 2) {
                return must(field, format!("1 or 2, the buffers of a block in {memory}"));
            }
        }
        if !matches!(self.tiles.get(IterateOrder), 0 | 1) {
            return must(IterateOrder, "0 (along M first) or 1 (along N first)".into());
        }
        match self.tiles.get(IsBias) {
            1 => Ok(()),
            _ if self.matmul.bias.is_some() => {
                must(IsBias, "1: the product is declared with a bias".into())
            }
            0 => Ok(()),
            _ => must(IsBias, "0 or 1".into()),
        }
    }

    /// Checks that a core computes all of K.
    fn depth(&self) -> Result<(), Problem> {
        let (a, b, single) = (self.tiles.get(Ka), self.tiles.get(Kb), self.tiles.get(SingleCoreK));
        if a == b && single != a {
            return must(SingleCoreK, format!("{a} (Ka): each core does all of K"));
        }
        // Rows in memory may be longer than the depth of the product.
        let (least, name) = if a < b { (a, "Ka") } else { (b, "Kb") };
        if single > least {
            return must(SingleCoreK, format!("at most {least} ({name}), as deep as that matrix"));
        }
        Ok(())
    }

    fn cores(&self) -> Result<(), Problem> {
        let pieces = |of, single| {
            let (of, single) = (self.tiles.wide(of), self.tiles.wide(single));
            (of + single - 1) / single
        };
        let (down, across) = (pieces(M, SingleCoreM), pieces(N, SingleCoreN));
        let [m, n, single_m, single_n] =
            [M, N, SingleCoreM, SingleCoreN].map(|field| self.tiles.get(field));
        if self.tiles.wide(UsedCoreNum) != down * across {
            let why = format!(
                "{}, one for each piece: {down} of singleCoreM {single_m} in M {m}, times {across} of singleCoreN {single_n} in N {n}",
                down * across
            );
            return must(UsedCoreNum, why);
        }
        if self.tiles.wide(UsedCoreNum) > self.chip.cores.into() {
            let why = format!("at most {}, the cube cores of the chip", self.chip.cores);
            return must(UsedCoreNum, why);
        }
        Ok(())
    }

    fn multiples(&self) -> Result<(), Problem> {
        for field in [BaseM, BaseN] {
            if self.tiles.get(field) % 16 != 0 {
                return must(field, "a multiple of 16".into());
            }
        }
        let number = self.matmul.a;
        let only_b = !self.matmul.transposed_a && self.matmul.transposed_b;
        let (of, why) = match only_b {
            true => {
                let why = format!(", 32 bytes of {number}, where only B is transposed");
                (32 / number.size() as i32, why)
            }
            false => (16, String::new()),
        };
        match self.tiles.get(BaseK) % of {
            0 => Ok(()),
            _ => must(BaseK, format!("a multiple of {of}{why}")),
        }
    }

    fn l0(&self, side: &OperandTiling) -> Result<(), Problem> {
        let (bytes, (memory, room)) =
            (side.block(self.tiles) * self.tiles.wide(side.buffers), side.l0);
        if bytes <= room {
            return Ok(());
        }
        let base = self.tiles.wide(side.base);
        let why = format!(
            "{}: with baseK {}, {} bytes an element and {} {} its blocks take {bytes} bytes, but {memory} has {room}",
            at_most(room / (bytes / base), 16),
            self.tiles.get(BaseK),
            side.size,
            side.buffers.name(),
            self.tiles.get(side.buffers),
        );
        must(side.base, why)
    }

    fn l0c(&self) -> Result<(), Problem> {
        let [m, n, buffers] = [BaseM, BaseN, DbL0C].map(|field| self.tiles.wide(field));
        let (bytes, room) = (m * n * 4 * buffers, i128::from(self.chip.l0c));
        if bytes <= room {
            return Ok(());
        }
        let why = format!(
            "{}: with baseN {n}, 4 bytes a sum and dbL0C {buffers} its blocks take {bytes} bytes, but L0C has {room}",
            at_most(room / (bytes / m), 16)
        );
        must(BaseM, why)
    }

    /// Checks the number of blocks in L1: it must be that of one step, or twice that.
    fn blocks(&self, side: &OperandTiling) -> Result<(), Problem> {
        let [blocks, step, step_k] =
            [side.blocks, side.step, side.step_k].map(|field| self.tiles.wide(field));
        let once = step * step_k;
        if blocks == once || blocks == 2 * once {
            return Ok(());
        }
        let why = format!(
            "{once} or {}: {} {step} times {} {step_k}, once or twice",
            2 * once,
            side.step.name(),
            side.step_k.name()
        );
        must(side.blocks, why)
    }

    fn whole_depth(&self, side: &OperandTiling) -> Result<(), Problem> {
        let [depth, base_k, step_k] =
            [side.depth, BaseK, side.step_k].map(|field| self.tiles.wide(field));
        if self.tiles.get(side.step) == 1 || depth <= base_k * step_k {
            return Ok(());
        }
        let why = format!(
            "1 where L1 does not hold all of K: {} {step_k} times baseK {base_k} is less than {} {depth}",
            side.step_k.name(),
            side.depth.name()
        );
        must(side.step, why)
    }

    /// Checks that the number of loops over K that fill L1 with A, or that of the loops that fill
    /// it with B, divides the other.
    fn loops(&self) -> Result<(), Problem> {
        let [depth, base_k] = [SingleCoreK, BaseK].map(|field| self.tiles.wide(field));
        let loops = |step_k| {
            let once = base_k * self.tiles.wide(step_k);
            (depth + once - 1) / once
        };
        let (a, b) = (loops(StepKa), loops(StepKb));
        if a % b == 0 || b % a == 0 {
            return Ok(());
        }
        let why = format!(
            "such that one number of loops over K divides the other: singleCoreK {depth} is {b} times stepKb of baseK {base_k}, but {a} times stepKa {}",
            self.tiles.get(StepKa)
        );
        must(StepKb, why)
    }

    fn l1(&self) -> Result<(), Problem> {
        let [a, b] = self.sides().map(|side| {
            let bytes = side.block(self.tiles) * self.tiles.wide(side.blocks);
            (side, bytes)
        });
        // L1 must hold at least the bias of one block.
        let bias = match self.matmul.bias {
            Some(number) => self.tiles.wide(BaseN) * i128::from(number.size()),
            None => 0,
        };
        let (together, room) = (a.1 + b.1 + bias, self.l1);
        if together <= room {
            return Ok(());
        }
        let (larger, other) = if a.1 >= b.1 { (a, b) } else { (b, a) };
        let more = if bias > 0 { format!(" and the bias {bias}") } else { String::new() };
        let most = (room - other.1 - bias).max(0) / larger.0.block(self.tiles);
        let why = format!(
            "{}: its blocks of {} take {} bytes, those of {} {}{more}, together {together}, but L1 has {room}",
            at_most(most, 1),
            larger.0.name,
            larger.1,
            other.0.name,
            other.1
        );
        must(larger.0.blocks, why)
    }
}
