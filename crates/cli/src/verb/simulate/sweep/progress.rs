//! Shows the progress of a sweep as a bar, and advises to use several machines for a long sweep.

use indicatif::ProgressBar;
use interleaf_console::{Failure, output, system};
use interleaf_linux::launch::command::Signals;
use std::{
    path::Path,
    process,
    sync::Once,
    thread,
    time::{Duration, Instant},
};

/// Time limit of one wait for a signal. The thread waits repeatedly.
const WAIT: Duration = Duration::from_secs(3600);

/// Time after which the number of cases per second is reliable: the first cases may be slower.
const KNOWN_AFTER: Duration = Duration::from_secs(30);

/// A sweep is long if its remaining time exceeds this. Only users of long sweeps are advised to use
/// several machines, because the start of a cluster is assumed to take about as long.
const LONG: Duration = Duration::from_secs(1800);

/// The progress of a sweep, counted in completed cases.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
    /// Number of cases that an earlier run of the sweep computed.
    before: u64,
    /// Prints the advice to use several machines only once.
    told: Once,
    file: String,
}

impl Progress {
    /// Begins to show the progress of the sweep `name` in the sweep file `file`. An earlier run has
    /// computed `done` of the `cases` cases.
    pub(super) fn begin(file: &Path, name: &str, cases: usize, done: usize) -> Self {
        let bar = output::progress(cases as u64, name);
        bar.inc(done as u64);
        // The cases of an earlier run must not count in the estimated rate of this run.
        bar.reset_eta();
        Self {
            bar,
            began: Instant::now(),
            before: done as u64,
            told: Once::new(),
            file: file.display().to_string(),
        }
    }

    /// Starts a thread that ends this process at once when a signal arrives. The thread then prints
    /// how many cases are in the file `rows`.
    pub(super) fn exit_on_signal(&self, rows: &Path) -> Result<(), Failure> {
        let signals = Signals::hold().map_err(system::signal_failure)?;
        let (bar, rows) = (self.bar.clone(), rows.display().to_string());
        let watch = move || {
            let number = loop {
                if let Some(number) = signals.wait(WAIT) {
                    break number;
                }
            };
            let (done, cases) = (bar.position(), bar.length().unwrap_or(0));
            bar.finish_and_clear();
            output::message(&format!(
                "stopped: {done} of {cases} cases are in {rows}; the same command computes the \
                 others"
            ));
            process::exit(128 + number)
        };
        let started = thread::Builder::new().name("stop".into()).spawn(watch);
        started.map(|_| ()).map_err(system::signal_failure)
    }

    /// Counts a completed case. If the sweep is long, prints once the advice to use several
    /// machines.
    pub(super) fn advance(&self) {
        self.bar.inc(1);
        let (done, cases) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let own = done.saturating_sub(self.before);
        let Some(left) = long(self.began.elapsed(), own, cases.saturating_sub(done)) else {
            return;
        };
        self.told.call_once(|| self.bar.suspend(|| output::message(&advice(&self.file, left))));
    }

    /// Prints an estimate of the time that `left` more cases will take. The first `done` cases took
    /// `elapsed`.
    pub(super) fn say_time(&self, elapsed: Duration, done: usize, left: usize) {
        if let Some(time) = time_of(elapsed, done as u64, left as u64).filter(|_| left > 0) {
            let text = format!("about {} for the other {left}", time_text(time));
            self.bar.suspend(|| output::message(&text));
        }
    }

    /// Removes the progress bar. The sweep may be incomplete.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints the number of cases of a sweep. If the rows go to a file (`to_file`), also prints that
/// they survive an interruption.
pub(super) fn say_cases(cases: usize, to_file: bool) {
    let count = if cases == 1 { "1 case".into() } else { format!("{cases} cases") };
    let kept = "; Ctrl-C keeps the rows so far, and the same command computes the others";
    output::message(&format!("{count}{}", if to_file { kept } else { "" }));
}

/// Prints how many cases an earlier run has computed, if any.
pub(super) fn say_done(done: usize) {
    if done > 0 {
        output::message(&format!("{done} of them are there"));
    }
}

/// Estimates the time of `left` cases from the time `elapsed` that `done` cases took. Returns
/// `None` if `done` is 0.
fn time_of(elapsed: Duration, done: u64, left: u64) -> Option<Duration> {
    let seconds = elapsed.as_secs_f64() / done as f64 * left as f64;
    (done > 0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Returns the remaining time, estimated by [`time_of`]. Returns `None` if it does not exceed
/// [`LONG`], or if the sweep has run for less than [`KNOWN_AFTER`].
fn long(elapsed: Duration, done: u64, left: u64) -> Option<Duration> {
    let time = time_of(elapsed, done, left).filter(|time| *time > LONG)?;
    (elapsed >= KNOWN_AFTER).then_some(time)
}

/// Formats an estimated time, rounded, in seconds, minutes or hours.
fn time_text(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1.0 => "1 s".into(),
        ..90.0 => format!("{seconds:.0} s"),
        ..5400.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Returns the advice to use several machines, for a sweep with the remaining time `left`.
fn advice(file: &str, left: Duration) -> String {
    let left = time_text(left);
    format!(
        "about {left} are left on this machine. Dask, Ray or Slurm run the same file on \
         several (docs/python.md): interleaf.sweep(\"{file}\", engine=\"dask\", output=\"FOLDER\")"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sweep_is_told_of_other_engines() {
        let second = Duration::from_secs(1);
        // After 29 s the rate is not known yet: the first cases may be slower than the others.
        // Without a completed case it is never known.
        assert_eq!(long(29 * second, 1, 1_000_000), None);
        assert_eq!(long(60 * second, 0, 1_000_000), None);
        // 1800 further cases of a second each take exactly [`LONG`], so the sweep is not long.
        assert_eq!(long(60 * second, 60, 1800), None);
        let left = long(60 * second, 60, 9000);
        assert_eq!(left, Some(9000 * second));
        let said = advice("noise.toml", 9000 * second);
        assert!(said.starts_with("about 2.5 h are left"), "{said}");
        let texts = [0.2, 12.4, 600.0, 9000.0].map(|s| time_text(Duration::from_secs_f64(s)));
        assert_eq!(texts, ["1 s", "12 s", "10 min", "2.5 h"]);
        assert!(said.contains("interleaf.sweep(\"noise.toml\", engine=\"dask\""), "{said}");
    }
}
