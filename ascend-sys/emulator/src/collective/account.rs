//! The description of the failure of a communicator: its text, and the part of each rank.

/// The description of the failure of a communicator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) text: String,
    /// The ranks that disagree, each with a description of its own call.
    pub(crate) said: Vec<(usize, String)>,
}

impl From<String> for Account {
    fn from(text: String) -> Self {
        Account { text, ..Account::default() }
    }
}
