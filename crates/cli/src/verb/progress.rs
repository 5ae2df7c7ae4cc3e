//! Shows the progress of a job as a bar on stderr.

use indicatif::ProgressBar;
use interleaf_console::output;
use interleaf_job::Progress;
use std::sync::OnceLock;

/// The progress bar of a job. It appears when the first task of the job begins.
#[derive(Debug, Default)]
pub(super) struct Bar(OnceLock<ProgressBar>);

impl Progress for Bar {
    fn begin(&self, steps: u64, task: &str) {
        let bar = self.0.get_or_init(|| output::progress(steps, task));
        bar.reset();
        bar.set_length(steps);
        bar.set_message(task.to_string());
    }

    fn describe(&self, task: &str) {
        if let Some(bar) = self.0.get() {
            bar.set_message(task.to_string());
        }
    }

    fn advance(&self, steps: u64) {
        if let Some(bar) = self.0.get() {
            bar.inc(steps);
        }
    }

    fn end(&self) {
        if let Some(bar) = self.0.get() {
            bar.finish_and_clear();
        }
    }
}
