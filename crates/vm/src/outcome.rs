//! Defines the result of booting a guest and running its steps (`Outcome`), and the record of the
//! run (`Record`), with the report that the guest writes to its second serial port.

use std::{fmt, time::Duration};

use interleaf_guest::report::{Ending, Line};

use crate::kernel::Series;

/// The result of booting a guest and running its steps.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The guest executed all its steps and powered off.
    Completed(Record),
    /// The kernel panicked. A kernel also panics when `/init` exits.
    Panicked {
        /// The kernel's panic message.
        why: String,
        /// The guest's report before the panic.
        record: Record,
    },
    /// The machine stopped before the guest reported the end of its steps, without a panic message.
    Stopped(Record),
    /// The machine was killed because [`crate::Boot::until`] returned true.
    Cut(Record),
    /// The run exceeded its time limit and was killed.
    TimedOut {
        limit: Duration,
        /// The guest's report before the virtual machine was killed.
        record: Record,
    },
    /// QEMU rejected its command line, or failed otherwise.
    QemuFailed {
        /// QEMU's exit status and error message.
        why: String,
    },
    /// QEMU cannot be executed, usually because it is not installed.
    QemuMissing {
        /// The reason, and a remedy.
        why: String,
    },
    /// No kernel of the series `series` is installed.
    KernelMissing {
        series: Series,
        /// The reason, and a remedy.
        why: String,
    },
}

/// The guest's report of its steps, with the kernel's log and the times of the run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The kernel's release, as reported by the guest; `None` if the run ended before this report.
    pub release: Option<String>,
    /// The steps that the guest began.
    pub steps: Vec<StepRecord>,
    /// True if the guest reported the end of its steps.
    pub complete: bool,
    /// Time from the start of QEMU to the first line of the guest's report.
    pub booted: Option<Duration>,
    /// Time from the start of QEMU to its exit.
    pub took: Duration,
    /// The kernel's log, from the first serial port.
    pub console: String,
}

/// A step that the guest began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// The step's text.
    pub step: String,
    /// The lines that the step printed.
    pub output: Vec<String>,
    /// The step's ending; `None` if the step did not end.
    pub ending: Option<Ending>,
}

impl Record {
    /// Adds a line of the guest's report.
    pub(crate) fn add_line(&mut self, line: Line) {
        match line {
            // `Machine::listen` answers a request for a block.
            Line::Ready(_) => {}
            Line::Release(release) => self.release = Some(release),
            Line::Step(_, step) => {
                self.steps.push(StepRecord { step, output: vec![], ending: None })
            }
            Line::Output(text) => {
                if let Some(step) = self.steps.last_mut() {
                    step.output.push(text);
                }
            }
            Line::End(_, ending) => {
                if let Some(step) = self.steps.last_mut() {
                    step.ending = Some(ending);
                }
            }
            Line::Off => self.complete = true,
        }
    }

    /// Returns the first step whose text is `text`.
    #[must_use]
    pub fn step(&self, text: &str) -> Option<&StepRecord> {
        self.steps.iter().find(|taken| taken.step == text)
    }
}

impl StepRecord {
    /// Returns true if the step succeeded: its program, if the step ran one, exited with 0.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        matches!(self.ending, Some(Ending::Done | Ending::Exit(0)))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(record) => write!(f, "the guest completed its steps\n{record}"),
            Self::Panicked { why, record } => write!(f, "the kernel panicked: {why}\n{record}"),
            Self::Stopped(record) => {
                write!(f, "the machine stopped before the guest was done\n{record}")
            }
            Self::Cut(record) => write!(f, "the machine was killed\n{record}"),
            Self::TimedOut { limit, record } => {
                write!(f, "not done within {limit:?}\n{record}")
            }
            Self::QemuFailed { why } => write!(f, "QEMU failed: {why}"),
            Self::QemuMissing { why } => write!(f, "no QEMU: {why}"),
            Self::KernelMissing { series, why } => write!(f, "no kernel {series}: {why}"),
        }
    }
}

/// Prints the guest's report and, if the report is incomplete, the end of the kernel's log.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "release {}", self.release.as_deref().unwrap_or("unknown"))?;
        for taken in &self.steps {
            let ending = taken.ending.as_ref().map_or("no end".to_string(), Ending::to_string);
            writeln!(f, "{}: {ending}", taken.step)?;
            taken.output.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        if !self.complete {
            let lines: Vec<&str> = self.console.lines().collect();
            let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
            last.iter().try_for_each(|line| writeln!(f, "console: {line}"))?;
        }
        Ok(())
    }
}

/// The number of last lines of the kernel's log that are printed: enough for a panic and the stack
/// trace before it.
const CONSOLE_LINES: usize = 40;
