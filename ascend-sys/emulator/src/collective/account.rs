//! An account of what happened to a communicator, in words and rank by rank.

/// An account in words: a headline, then lines with the particulars.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) text: String,
    /// The words of each rank, where the ranks disagree.
    pub(crate) said: Vec<(usize, String)>,
}

impl From<String> for Account {
    fn from(text: String) -> Self {
        Account { text, ..Account::default() }
    }
}
