//! The settings of an operator project.

/// The parts of a project that a kernel does not define.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// The name of the package that is built.
    pub package: String,
    /// The products for which the package is built, such as `ascend910b` (A2) and `ascend910_93`
    /// (A3).
    pub products: Vec<String>,
    /// The number of blocks of a launch (`numBlocks`).
    pub blocks: u32,
    /// The size of the workspace in bytes, without the part that CANN takes for itself.
    pub workspace: u64,
    /// The bytes of the tiling struct of a launch that works, such as one on the emulator. The
    /// tiling function fills the struct with these numbers; only the names of the groups come from
    /// the attributes of the operator. If a number depends on the shapes of the inputs, the user of
    /// the project must add the code that computes it.
    pub tiling: Vec<u8>,
}

impl Project {
    /// Makes a project for A2 and A3, with eight blocks.
    pub fn new(tiling: impl Into<Vec<u8>>) -> Self {
        Project {
            package: "custom_operators".into(),
            products: vec!["ascend910b".into(), "ascend910_93".into()],
            blocks: 8,
            workspace: 0,
            tiling: tiling.into(),
        }
    }
}
