//! The description of a disagreement: its subject, then one line for each side. The lines are
//! aligned in columns, so that the difference is visible.

use std::fmt::Write as _;

use super::account::Account;
use super::request::CollectiveRequest;
use super::table::{self, Table};

const COUNTS_DIFFER: &str = "the counts differ";
const NOTHING: &str = "nothing yet";

/// The sides of a disagreement, with the ranks on each.
#[derive(Default)]
pub(crate) struct Sides<'a> {
    /// The columns of each line, with the ranks of the line.
    lines: Vec<(Vec<String>, Vec<usize>)>,
    called: Vec<(usize, CollectiveRequest, Option<&'a Table>)>,
}

impl<'a> Sides<'a> {
    /// Adds the collective that a rank has called, and the table that came with it.
    pub(crate) fn called(
        &mut self,
        rank: usize,
        request: CollectiveRequest,
        table: Option<&'a Table>,
    ) {
        self.called.push((rank, request, table));
    }

    /// Adds the description of a rank that has called no collective.
    pub(crate) fn says(&mut self, rank: usize, columns: Vec<String>) {
        match self.lines.iter_mut().find(|(said, _)| *said == columns) {
            Some((_, ranks)) => ranks.push(rank),
            None => self.lines.push((columns, vec![rank])),
        }
    }

    /// Adds a rank that has issued nothing yet.
    pub(crate) fn silent(&mut self, rank: usize) {
        self.says(rank, vec![NOTHING.into()]);
    }

    /// Returns the description: the arguments that differ between the collectives, and the sides
    /// below.
    pub(crate) fn compare(mut self) -> Account {
        let tables: Vec<&Table> = self
            .called
            .iter()
            .filter(|(_, request, _)| request.operation.has_table() && !request.is_void())
            .filter_map(|(.., table)| *table)
            .collect();
        let headline = self.difference();
        if tables.len() < self.called.len() || headline != COUNTS_DIFFER {
            return self.under(&headline);
        }
        let counts = table::differences(&tables);
        for ((rank, request, _), counts) in std::mem::take(&mut self.called).iter().zip(counts) {
            let mut columns = request.columns();
            columns.insert(1, counts);
            self.says(*rank, columns);
        }
        self.under(&headline)
    }

    fn difference(&self) -> String {
        let differ = |what: &dyn Fn(&CollectiveRequest) -> u64| {
            self.called.windows(2).any(|pair| what(&pair[0].1) != what(&pair[1].1))
        };
        let differences: Vec<_> = [
            (differ(&|request| request.count), "counts"),
            (differ(&|request| request.dtype as u64), "data types"),
            (differ(&|r| r.operation.reduction().map_or(0, |op| op as u64)), "reductions"),
            (differ(&|request| request.operation.root().unwrap_or(0).into()), "roots"),
        ]
        .into_iter()
        .filter_map(|(differs, what)| differs.then_some(what))
        .collect();
        // If the collectives do not differ, some rank has called no collective.
        if differences.is_empty() || differ(&|request| request.claim().kind & 0xff) {
            return "the ranks called different operations".into();
        }
        format!("the {} differ", differences.join(" and the "))
    }

    /// Returns the headline with the sides below it.
    pub(crate) fn under(mut self, headline: &str) -> Account {
        for (rank, request, _) in std::mem::take(&mut self.called) {
            self.says(rank, request.columns());
        }
        self.lines.iter_mut().for_each(|(_, ranks)| ranks.sort_unstable());
        self.lines.sort_unstable_by_key(|(_, ranks)| ranks.first().copied());
        let said = self.lines.iter().filter(|(columns, _)| *columns != [NOTHING]);
        let said = said.flat_map(|(columns, ranks)| {
            let columns = columns.join(", ");
            ranks.iter().map(move |rank| (*rank, columns.clone()))
        });
        let said = said.collect();
        let lines: Vec<Vec<String>> = self
            .lines
            .into_iter()
            .map(|(columns, ranks)| std::iter::once(list(&ranks)).chain(columns).collect())
            .collect();
        let mut widths = Vec::new();
        for line in &lines {
            widths.resize(widths.len().max(line.len()), 0);
            // The last column of a line need not be padded.
            for (width, column) in widths.iter_mut().zip(line).take(line.len() - 1) {
                *width = column.len().max(*width);
            }
        }
        let mut text = String::from(headline);
        for line in &lines {
            let mut said = String::new();
            for (column, &width) in line.iter().zip(&widths) {
                let _ = write!(said, "  {column:width$}");
            }
            text.push('\n');
            text += said.trim_end();
        }
        Account { text, said }
    }
}

/// Returns the ranks as text: "rank 3" or "ranks 1, 2".
pub(crate) fn list(ranks: &[usize]) -> String {
    list_some(ranks.iter().copied(), ranks.len())
}

/// Returns `count` ranks as text, as [`list`] does, but without a list of all ranks in memory. Only
/// the first 16 ranks are named.
pub(crate) fn list_some(ranks: impl Iterator<Item = usize>, count: usize) -> String {
    const MENTIONED: usize = 16;
    let names: Vec<_> = ranks.take(MENTIONED).map(|rank| rank.to_string()).collect();
    let more = match count.saturating_sub(MENTIONED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let noun = if count == 1 { "rank" } else { "ranks" };
    format!("{noun} {}{more}", names.join(", "))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::collective::request::Operation;
    use ascend_reduce::{DataType, ReduceOp};

    fn sum(count: u64) -> CollectiveRequest {
        let operation = Operation::AllReduce(ReduceOp::Sum);
        CollectiveRequest { operation, dtype: DataType::Fp32, count }
    }

    fn sides(requests: &[CollectiveRequest]) -> Sides<'static> {
        let mut sides = Sides::default();
        requests.iter().enumerate().for_each(|(rank, request)| sides.called(rank, *request, None));
        sides
    }

    #[test]
    fn a_difference_is_called_by_its_name() {
        let all_reduce = sum(4);
        let of = |other| sides(&[all_reduce, other]).difference();
        assert_eq!(of(sum(5)), "the counts differ");
        assert_eq!(
            of(CollectiveRequest { dtype: DataType::Int32, ..all_reduce }),
            "the data types differ"
        );
        let max = CollectiveRequest { operation: Operation::AllReduce(ReduceOp::Max), ..sum(5) };
        assert_eq!(of(max), "the counts and the reductions differ");
        assert_eq!(of(CollectiveRequest::BARRIER), "the ranks called different operations");
        let broadcast =
            |root| CollectiveRequest { operation: Operation::Broadcast(root), ..all_reduce };
        assert_eq!(sides(&[broadcast(0), broadcast(1)]).difference(), "the roots differ");
    }

    #[test]
    fn the_sides_stand_column_under_column() {
        let sides = sides(&[sum(1000), sum(64), sum(1000)]);
        let expected = "differ\n  ranks 0, 2  HcclAllReduce  count 1000  FP32  SUM\n  \
                        rank 1      HcclAllReduce  count 64    FP32  SUM";
        let account = sides.under("differ");
        assert_eq!(account.text, expected);
        let said =
            ["1000", "64", "1000"].map(|count| format!("HcclAllReduce, count {count}, FP32, SUM"));
        let mut ranks = account.said;
        ranks.sort_unstable();
        assert_eq!(ranks, (0..).zip(said).collect::<Vec<_>>());
    }
}
