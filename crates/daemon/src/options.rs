//! Options of a run of the loop that are no part of its configuration.

use interleaf_model::units::Time;
use std::path::PathBuf;

/// The duration of the loop, and the outputs of its periods.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time after which it stops; `None` for never, in advice when the answer is known, and 300
    /// s on a simulated machine.
    pub duration: Option<Time>,
    /// True if each period is printed as a line of JSON.
    pub json: bool,
    /// The file to which each period is appended as a line of JSON.
    pub output: Option<PathBuf>,
}
