//! Options of one run of the loop that are not part of its configuration.

use interleaf_model::units::Time;
use std::path::PathBuf;

/// Duration of the loop, and outputs of its periods.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time after which the loop stops. With `None` the daemon runs until a signal, advice ends
    /// when it is stable, and a simulated machine runs for 300 s.
    pub duration: Option<Time>,
    /// True if each period is printed as a line of JSON.
    pub json: bool,
    /// The file to which each period is appended as a line of JSON.
    pub output: Option<PathBuf>,
}
