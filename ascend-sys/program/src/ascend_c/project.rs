//! What an operator project is made for.

/// What a project holds that a kernel does not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// The name of the package that is built.
    pub package: String,
    /// The products it is built for, such as `ascend910b` (A2) and `ascend910_93` (A3).
    pub products: Vec<String>,
    /// `numBlocks` of a launch.
    pub blocks: u32,
    /// Of the workspace, without the part that CANN takes, in bytes.
    pub workspace: u64,
    /// The bytes of the tiling struct of a launch that works, such as one on the emulator. The
    /// tiling function fills the struct with these numbers; only the names of the groups come from
    /// the attributes of the operator. What depends on the shapes of the inputs is for whoever goes
    /// on from there.
    pub tiling: Vec<u8>,
}

impl Project {
    /// For A2 and A3, with eight blocks.
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
