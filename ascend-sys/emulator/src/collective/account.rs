//! What happened to a communicator, in words and rank by rank.

/// What happened, in words: a line that says it, then lines with the particulars.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) text: String,
    /// What each rank says, where they disagree.
    pub(crate) said: Vec<(usize, String)>,
}

impl From<String> for Account {
    fn from(text: String) -> Self {
        Account { text, ..Account::default() }
    }
}
