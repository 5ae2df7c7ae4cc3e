//! What a run can be, and what the guest said in it.

use std::{fmt, time::Duration};

use interleaf_guest::report::{Ending, Line};

use crate::kernel::Series;

/// What became of a run.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The guest took all its steps and powered off.
    Said(Record),
    /// The kernel panicked; so it does when `/init` ends.
    Panicked {
        /// The kernel's line.
        why: String,
        /// What the guest said before.
        record: Record,
    },
    /// The machine stopped before the guest was done, and the kernel did not say why.
    Stopped(Record),
    /// The run was longer than its limit, and was ended.
    TimedOut {
        /// The limit.
        limit: Duration,
        /// What the guest said before.
        record: Record,
    },
    /// QEMU did not take its command line, or failed otherwise.
    QemuFailed {
        /// What it said.
        why: String,
    },
    /// There is no QEMU on this machine.
    QemuMissing {
        /// Why, and what to do.
        why: String,
    },
    /// There is no kernel of that series on this machine.
    KernelMissing {
        /// The series.
        series: Series,
        /// Why, and what to do.
        why: String,
    },
}

/// What was said in a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The kernel's release, as the guest has it; nothing when it did not come so far.
    pub release: Option<String>,
    /// The steps that the guest began.
    pub steps: Vec<Taken>,
    /// Whether the guest said that there are no more steps.
    pub complete: bool,
    /// From the start of QEMU to the guest's first line.
    pub booted: Option<Duration>,
    /// From the start of QEMU to its end.
    pub took: Duration,
    /// What the kernel said on its own serial port.
    pub console: String,
}

/// A step that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The step as text.
    pub step: String,
    /// The lines that it showed.
    pub output: Vec<String>,
    /// How it ended; nothing when it did not.
    pub ending: Option<Ending>,
}

impl Record {
    /// Takes in a line of the guest.
    pub(crate) fn hear(&mut self, line: Line) {
        match line {
            Line::Release(release) => self.release = Some(release),
            Line::Step(_, step) => self.steps.push(Taken { step, output: vec![], ending: None }),
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

    /// The first step of this text.
    #[must_use]
    pub fn step(&self, text: &str) -> Option<&Taken> {
        self.steps.iter().find(|taken| taken.step == text)
    }
}

impl Taken {
    /// Whether it did what it had to: a program that it was about ended with 0.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        matches!(self.ending, Some(Ending::Done | Ending::Exit(0)))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(record) => write!(f, "the guest took its steps\n{record}"),
            Self::Panicked { why, record } => write!(f, "the kernel panicked: {why}\n{record}"),
            Self::Stopped(record) => {
                write!(f, "the machine stopped before the guest was done\n{record}")
            }
            Self::TimedOut { limit, record } => {
                write!(f, "not done within {limit:?}\n{record}")
            }
            Self::QemuFailed { why } => write!(f, "QEMU failed: {why}"),
            Self::QemuMissing { why } => write!(f, "no QEMU: {why}"),
            Self::KernelMissing { series, why } => write!(f, "no kernel {series}: {why}"),
        }
    }
}

/// What the guest said; and when it did not say all, the end of what the kernel said.
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

/// A panic and the trace before it.
const CONSOLE_LINES: usize = 40;
