//! The state that all printing of a kernel shares: the text so far, the names in it, and the
//! helpers that the text needs.

use std::collections::BTreeSet;

use super::barriers::Barriers;
use super::names::{Names, Thing};
use super::text::Text;
use super::uses::Uses;
use crate::program::Program;
use crate::step::Source;

/// The printer of one kernel.
pub(super) struct Printer<'a> {
    pub(super) program: &'a Program,
    pub(super) uses: Uses,
    pub(super) names: Names,
    pub(super) text: Text,
    pub(super) helpers: BTreeSet<Helper>,
    /// The functions that the kernel calls. A function comes before those that call it.
    pub(super) functions: Vec<Function>,
    /// The call whose steps are being written as a function. It is 0 for the kernel itself.
    pub(super) call: u32,
    /// The calls whose steps stay in place.
    pub(super) stay: BTreeSet<u32>,
    pub(super) barriers: Barriers,
    /// The parts of the workspace that the source uses by name.
    pub(super) views: BTreeSet<u32>,
    /// The parts of the kernel that Ascend C cannot express.
    pub(super) problems: Vec<String>,
    /// Whether a `TPipe` is needed.
    pub(super) pipe: bool,
    /// The source of the step that is being written.
    pub(super) source: Source,
    /// The place of the same step in the program: its block, and its index in the block.
    pub(super) place: (usize, usize),
}

/// A function of the source.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    /// The types, and the body with numbers instead of names. Calls with equal texts share a
    /// function.
    pub(super) says: String,
    pub(super) doc: String,
    pub(super) head: String,
    pub(super) body: Text,
}

impl Function {
    pub(super) fn print(self, file: &mut Text) {
        file.comment(&self.doc);
        file.line(&self.head);
        file.line("{");
        file.append(self.body);
        file.line("}");
        file.blank();
    }
}

impl<'a> Printer<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        Printer {
            program,
            uses: Uses::of(program),
            names: Names::new(program),
            text: Text::indented(1),
            helpers: BTreeSet::new(),
            functions: Vec::new(),
            call: 0,
            stay: BTreeSet::new(),
            barriers: Barriers::default(),
            views: BTreeSet::new(),
            problems: Vec::new(),
            pipe: false,
            source: Source::default(),
            place: (0, 0),
        }
    }

    pub(super) fn name(&self, thing: Thing) -> String {
        // Everything is declared before its first use (see `uses`), so a name exists.
        self.names.get(thing).unwrap_or_default().to_owned()
    }

    /// Prints a part of the tiling struct. The author of the program chose the path.
    pub(super) fn path(&mut self, path: &str) -> String {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']');
        if path.is_empty() || !path.chars().all(good) {
            self.problem(&format!(
                "\"{}\" is not the path of a field of a tiling struct; use the path in C++, such \
                 as `tile.M`",
                path.escape_debug()
            ));
        }
        format!("tilingData.{path}")
    }

    /// Reports a part of the kernel that Ascend C cannot express.
    pub(super) fn problem(&mut self, text: &str) {
        let line = self.program.line(self.source);
        self.problems.push(format!("{text} ({line})"));
    }
}

/// A helper function, which the source contains if it needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Helper {
    /// Returns the smaller of two numbers.
    Smaller,
    /// Returns the larger of two numbers.
    Larger,
    /// Converts a floating-point number to the nearest whole number of a type.
    Saturated,
    /// Converts bits of the tiling struct to a 16-bit floating-point number.
    FromBits,
    /// Returns a tensor at an address.
    TensorAt,
    /// Makes a unit wait for another unit.
    SyncUnits,
}

impl Helper {
    pub(super) fn name(self) -> &'static str {
        match self {
            Helper::Smaller => "Smaller",
            Helper::Larger => "Larger",
            Helper::Saturated => "Saturated",
            Helper::FromBits => "FromBits",
            Helper::TensorAt => "TensorAt",
            Helper::SyncUnits => "SyncUnits",
        }
    }

    pub(super) fn source(self) -> &'static str {
        match self {
            Helper::Smaller => {
                "template <typename T>\n\
                 __aicore__ inline T Smaller(T a, T b)\n\
                 {\n    return b < a ? b : a;\n}\n"
            }
            Helper::Larger => {
                "template <typename T>\n\
                 __aicore__ inline T Larger(T a, T b)\n\
                 {\n    return a < b ? b : a;\n}\n"
            }
            Helper::Saturated => {
                "// A number that T cannot hold becomes the nearest that it can, and what is no number becomes 0.\n\
                 template <typename T, typename F>\n\
                 __aicore__ inline T Saturated(F number)\n\
                 {\n    constexpr bool isSigned = static_cast<T>(-1) < static_cast<T>(1);\n    \
                     constexpr uint32_t bits = sizeof(T) * 8 - (isSigned ? 1 : 0);\n    \
                     constexpr T most = static_cast<T>(UINT64_MAX >> (64 - bits));\n    \
                     constexpr T least = isSigned ? -most - 1 : 0;\n    \
                     // A power of two, which every F has.\n    \
                     constexpr F limit = static_cast<F>(1ULL << (bits - 1)) * 2;\n    \
                     if (number != number) {\n        return 0;\n    }\n    \
                     if (number >= limit) {\n        return most;\n    }\n    \
                     return number < static_cast<F>(least) ? least : static_cast<T>(number);\n}\n"
            }
            // A read of the bits as another type would let a compiler assume that they do not
            // change. A union has no such problem.
            Helper::FromBits => {
                "// The host, which fills the tiling struct, has no such type, so there are the bits.\n\
                 template <typename T>\n\
                 __aicore__ inline T FromBits(uint16_t bits)\n\
                 {\n    union {\n        uint16_t bits;\n        T number;\n    } both = {bits};\n    \
                     return both.number;\n}\n"
            }
            Helper::TensorAt => {
                "// What lies at an address, as a tensor.\n\
                 template <typename T>\n\
                 __aicore__ inline GlobalTensor<T> TensorAt(GM_ADDR address)\n\
                 {\n    GlobalTensor<T> tensor;\n    \
                     tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address));\n    \
                     return tensor;\n}\n"
            }
            Helper::SyncUnits => {
                "// The second unit of the event waits for all that the first one has been given.\n\
                 template <HardEvent event>\n\
                 __aicore__ inline void SyncUnits(TPipe& pipe)\n\
                 {\n    const event_t id = static_cast<event_t>(pipe.FetchEventID(event));\n    \
                     SetFlag<event>(id);\n    WaitFlag<event>(id);\n}\n"
            }
        }
    }
}
