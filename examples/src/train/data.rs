//! The handwritten digits: reading the file, and holding a fifth of it out.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, ArrayView2, Axis, s};

/// The number of pixels of an image: 8 x 8, row by row.
pub const PIXELS: usize = 64;

/// The number of digits, 0 to 9.
pub const CLASSES: usize = 10;

/// The largest value of a pixel in the file.
const INK: f32 = 16.0;

/// Images and their labels, row for row.
#[derive(Clone, Debug, PartialEq)]
pub struct Digits {
    /// One image a row, each pixel from 0 (paper) to 1 (ink).
    pub images: Array2<f32>,
    /// The digit that each row shows.
    pub labels: Vec<u8>,
}

/// The data that the network learns from, and the data that it is examined on.
#[derive(Clone, Debug)]
pub struct Split {
    /// Four fifths of the rows.
    pub training: Digits,
    /// The other fifth, which is not used before the training is over.
    pub held_out: Digits,
    /// The rows of the file (from 0) that were held out, in the order of the shuffle.
    pub held_out_rows: Vec<usize>,
}

impl Digits {
    /// Reads a file with one image a line: 64 pixels from 0 to 16, then the label, separated by
    /// commas.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text = fs::read_to_string(path)
            .map_err(|cause| DataError::Unreadable { path: path.to_owned(), cause })?;
        Self::parse(&text).map_err(|(line, problem)| DataError::Broken {
            path: path.to_owned(),
            line,
            problem,
        })
    }

    /// Parses the text. The error is the number of the line, from 1, and its problem.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut pixels = Vec::new();
        let mut labels = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at = |problem| (index + 1, problem);
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            if fields.len() != PIXELS + 1 {
                let found = fields.len();
                return Err(at(format!(
                    "{found} values where {} belong; write the pixels and then the digit",
                    PIXELS + 1
                )));
            }
            for field in &fields[..PIXELS] {
                let value = number(field, INK as u8).map_err(at)?;
                pixels.push(f32::from(value) / INK);
            }
            labels.push(number(fields[PIXELS], CLASSES as u8 - 1).map_err(at)?);
        }
        // A split needs at least one row on either side.
        if labels.len() < 5 {
            let problem = format!(
                "the file ends after {} rows, but at least 5 are needed; add rows",
                labels.len()
            );
            return Err((labels.len() + 1, problem));
        }
        let images = Array2::from_shape_vec((labels.len(), PIXELS), pixels)
            .map_err(|error| (labels.len(), error.to_string()))?;
        Ok(Self { images, labels })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the given rows, in the given order.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            images: self.images.select(Axis(0), rows),
            labels: rows.iter().map(|&row| self.labels[row]).collect(),
        }
    }

    /// Returns the rows from `from` up to `to`, without copying.
    pub fn rows(&self, from: usize, to: usize) -> (ArrayView2<'_, f32>, &[u8]) {
        (self.images.slice(s![from..to, ..]), &self.labels[from..to])
    }

    /// Holds out a fifth of the rows (rounded down), chosen by a shuffle that depends on `seed`
    /// alone.
    pub fn split(&self, seed: u64) -> Split {
        let mut rows: Vec<usize> = (0..self.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut rows);
        let (held_out, training) = rows.split_at(self.len() / 5);
        Split {
            training: self.select(training),
            held_out: self.select(held_out),
            held_out_rows: held_out.to_vec(),
        }
    }
}

/// Reads a whole number from 0 to `max`.
fn number(field: &str, max: u8) -> Result<u8, String> {
    match field.parse::<u8>() {
        Ok(value) if value <= max => Ok(value),
        _ => Err(format!("{field:?} is not a whole number from 0 to {max}")),
    }
}

/// The reason why there is no data.
#[derive(Debug)]
pub enum DataError {
    /// The file is not there, or cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The file does not have the expected form.
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem at that line.
        problem: String,
    },
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, cause } => {
                write!(
                    f,
                    "cannot read the digits from {}: {cause}; check that the file exists and may \
                     be read",
                    path.display()
                )
            }
            Self::Broken { path, line, problem } => {
                write!(f, "{} line {line}: {problem}", path.display())
            }
        }
    }
}

impl std::error::Error for DataError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> Digits {
        Digits::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv"))).unwrap()
    }

    fn row(pixel: &str, label: &str) -> String {
        format!("{}{label}\n", format!("{pixel},").repeat(PIXELS))
    }

    #[test]
    fn the_shipped_file_has_1797_digits_of_every_kind() {
        let digits = shipped();
        assert_eq!(digits.len(), 1797);
        assert_eq!(digits.images.dim(), (1797, PIXELS));
        assert!(digits.images.iter().all(|&pixel| (0.0..=1.0).contains(&pixel)));
        for digit in 0..CLASSES as u8 {
            assert!(digits.labels.iter().filter(|&&label| label == digit).count() > 150);
        }
        // The first row of the file begins 0,0,5,13 and shows a nought.
        assert_eq!(digits.images[[0, 3]], 13.0 / 16.0);
        assert_eq!(digits.labels[0], 0);
    }

    #[test]
    fn a_split_uses_each_row_once_and_depends_on_the_seed_alone() {
        let digits = shipped();
        let split = digits.split(1);
        assert_eq!(split.held_out.len(), 359);
        assert_eq!(split.training.len(), 1438);
        assert_eq!(split.held_out_rows, digits.split(1).held_out_rows);
        assert_ne!(split.held_out_rows, digits.split(2).held_out_rows);

        let ink = |digits: &Digits| digits.images.iter().map(|&p| f64::from(p)).sum::<f64>();
        assert_eq!(ink(&split.training) + ink(&split.held_out), ink(&digits));
        let mut rows = split.held_out_rows.clone();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), 359);
        assert_eq!(split.held_out, digits.select(&split.held_out_rows));
    }

    #[test]
    fn a_broken_line_is_named() {
        let good = row("3", "7").repeat(5);
        assert_eq!(Digits::parse(&good).unwrap().labels, [7; 5]);
        let broken = |bad: &str| Digits::parse(&format!("{good}{bad}")).unwrap_err();
        assert_eq!(
            broken("1,2,3"),
            (6, "3 values where 65 belong; write the pixels and then the digit".to_owned())
        );
        assert_eq!(
            broken(&row("17", "7")),
            (6, "\"17\" is not a whole number from 0 to 16".to_owned())
        );
        assert_eq!(
            broken(&row("3", "10")),
            (6, "\"10\" is not a whole number from 0 to 9".to_owned())
        );
        assert_eq!(broken(&row("ink", "1")).0, 6);
    }

    #[test]
    fn a_file_with_too_few_rows_is_refused() {
        assert!(Digits::parse("").unwrap_err().1.contains("after 0 rows"));
        assert!(Digits::parse(&row("3", "7").repeat(4)).unwrap_err().1.contains("after 4 rows"));
    }
}
