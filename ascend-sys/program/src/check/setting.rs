//! The settings that a launch is checked against.

use crate::cube::Chip;
use crate::declared::Core;

/// The default number of steps for which a launch is followed.
const STEPS: u64 = 1 << 20;

/// A product: the chip, and its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// Atlas A2.
    A2,
    /// Atlas A3.
    A3,
    /// Ascend 950.
    Ascend950,
}

impl Product {
    pub(super) fn name(self) -> &'static str {
        match self {
            Product::A2 => "A2",
            Product::A3 => "A3",
            Product::Ascend950 => "Ascend 950",
        }
    }

    /// Returns the number of cube cores of a chip, as CANN's platform files have it for Ascend910B2
    /// (A2), Ascend910_9392 (A3) and Ascend950PR_958b (Ascend 950). Other chips of a product may
    /// have other numbers, so a program must query its device.
    pub fn cube_cores(self) -> u32 {
        match self {
            Product::A2 | Product::A3 => 24,
            Product::Ascend950 => 32,
        }
    }

    /// Returns the cube cores of this chip and their memory.
    pub fn cube(self) -> Chip {
        const KIB: u32 = 1024;
        let (l0c, l1_reserve, bias) = match self {
            Product::A2 | Product::A3 => (128 * KIB, 256, KIB),
            Product::Ascend950 => (256 * KIB, 0, 4 * KIB),
        };
        Chip {
            cores: self.cube_cores(),
            l0a: 64 * KIB,
            l0b: 64 * KIB,
            l0c,
            l1: 512 * KIB,
            l1_reserve,
            bias,
        }
    }

    /// Returns the number of vector cores of this chip, two for each cube core.
    pub fn vector_cores(self) -> u32 {
        2 * self.cube_cores()
    }
}

/// The settings that a launch is checked against.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The product that the launch runs on.
    pub product: Product,
    /// Whether only the limits of the hardware apply. If false, those of CANN's documents apply.
    pub tolerant: bool,
    /// The number of bytes of each argument of the program, in order. If a number is `None` or
    /// missing, it is not known, and the bounds of that argument are not checked.
    pub parameters: Vec<Option<u64>>,
    /// The address of each argument, in the same order, and then that of the workspace. If an
    /// address is `None` or missing, it is not known, and the argument is taken to share no memory
    /// with another one.
    pub addresses: Vec<Option<u64>>,
    /// The number of bytes of the user's part of the workspace, if it is known.
    pub workspace: Option<u64>,
    /// The number of bytes of an input window, and of an output window, if it is known.
    pub window: Option<u64>,
    /// The numbers that cores have read in a launch that is over. With them, nothing depends on
    /// unknown data. They are unknown for cores that are missing here, and beyond the end of a
    /// core's list.
    pub reads: Vec<CoreReads>,
    /// The number of steps of all cores together after which long loops are no longer followed to
    /// their ends.
    pub steps: u64,
}

/// The numbers that a core has read in a launch that is over.
#[derive(Debug, Clone)]
pub struct CoreReads {
    /// The kind of the core.
    pub kind: Core,
    /// The index of the core among the cores of its kind.
    pub index: u32,
    /// The number that each `Step::Read` gave its variable, in order.
    pub bits: Vec<u64>,
}

impl Setting {
    /// Returns the strict rules of the documents, with no known sizes.
    pub fn strict(product: Product) -> Self {
        Setting {
            product,
            tolerant: false,
            parameters: Vec::new(),
            addresses: Vec::new(),
            workspace: None,
            window: None,
            reads: Vec::new(),
            steps: STEPS,
        }
    }
}
