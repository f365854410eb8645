//! Timelines of kernels, communication servers and operators.
//!
//! The emulator fills a [`Record`] for each block of devices. [`Records`] has the records of one
//! process, and [`Records::join`] joins those of several processes. [`picture`] draws records as
//! SVG, and [`trace`] writes a Chrome trace. Both first put all entries on one clock and lay them
//! out as rows. [`draw`] has the tools for pictures and traces, which the pictures of operators and
//! races also use.

mod chart;
pub mod draw;
mod entries;
mod merged;
mod picture;
mod record;
mod rows;
mod threads;
mod trace;

pub use entries::{
    Block, CoreKind, Doing, Launch, Moved, NotifyKey, Part, PrimitiveSpan, PrimitiveWork,
    ServersKey, TurnSpan,
};
pub use record::{Record, RecordError, Records, Source};

use chart::Chart;
use std::path::Path;

/// Draws records. Returns the text of an SVG file.
pub fn picture(records: &Records) -> String {
    picture::draw(&Chart::of(records))
}

/// Writes records in Chrome's trace event format, for <https://ui.perfetto.dev>. Returns the text
/// of a JSON file.
pub fn trace(records: &Records) -> String {
    trace::write(&Chart::of(records))
}

/// Returns the function that makes the text of a file with this name: [`picture`] for `.svg`,
/// [`trace`] for `.json`, and `None` for any other extension.
pub fn form_of(file: &Path) -> Option<fn(&Records) -> String> {
    match file.extension()?.to_str()? {
        "svg" => Some(picture),
        "json" => Some(trace),
        _ => None,
    }
}
