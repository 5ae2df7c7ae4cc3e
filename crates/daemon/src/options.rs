//! Options of one run of the control loop that are not part of the daemon's configuration.

use interleaf_model::units::Time;
use std::path::PathBuf;

/// The duration of a run of the control loop, and the outputs to which it writes a record of each
/// period.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The time after which the control loop stops. With `None`, the daemon runs until a signal;
    /// the observation for advice ends when the advice is stable, or after 30 periods; a simulated
    /// machine runs for 300 s of simulated time.
    pub duration: Option<Time>,
    /// True if each period is printed as a line of JSON.
    pub json: bool,
    /// The file to which each period is appended as a line of JSON.
    pub output: Option<PathBuf>,
}
