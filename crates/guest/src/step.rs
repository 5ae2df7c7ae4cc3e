//! Defines the steps that a guest executes, one per line.
//!
//! Words are separated by spaces, without quoting and without a shell. Empty lines and lines that
//! begin with `#` are ignored. A failed step does not stop later steps, because the reader of the
//! report judges the failure. In `run`, `start`, `until`, `read`, `list`, `dump` and `write`,
//! `@NAME` stands for the process ID of the program that was started as NAME.
//!
//! ```text
//! list /sys/devices/system/node
//! write /proc/sys/kernel/numa_balancing 0
//! start sweep touch 64MiB --weights 0:3,1:1 --sweep
//! await sweep touched
//! pages sweep
//! read /proc/@sweep/status
//! kill sweep TERM
//! wait sweep
//! ```

use std::{
    fmt,
    num::ParseIntError,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// A step. Its text is the variant's name in lower case, then the fields in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a program to its end, and shows its output.
    Run {
        /// The program, found in `/bin`, and its arguments.
        command: Vec<String>,
    },
    /// Starts a program in the background.
    Start {
        /// Name for later steps. The program's output goes to `/tmp/NAME.out`.
        name: String,
        /// The program, found in `/bin`, and its arguments.
        command: Vec<String>,
    },
    /// Waits until a started program prints a line that begins with a text or, if a `*` precedes
    /// the text, a line that contains the text. Only lines after the last awaited line count.
    Await {
        name: String,
        /// The text, with an optional leading `*`.
        text: String,
    },
    /// Waits until a file exists and contains a text, with the same time limit as `await`.
    Until { path: PathBuf, text: String },
    /// Sends a signal to a started program.
    Kill { name: String, signal: Signal },
    /// Waits for the end of a started program, and shows its output.
    Wait { name: String },
    /// Shows the number of pages of a started program on each node.
    Pages { name: String },
    /// Sleeps for this duration.
    Sleep(Millis),
    /// Shows a file. A `*` in the path matches any part of a name; the output then has the lines of
    /// all matching files, each after its path, a colon and a space.
    Read(PathBuf),
    /// Shows the names in a folder, sorted.
    List(PathBuf),
    /// Shows all regular files below a folder, sorted. Each line follows the file's path relative
    /// to the folder, a colon and a space. An empty file is its path and a colon; an empty folder
    /// is its path, a slash and a colon. Links are skipped.
    Dump(PathBuf),
    /// Writes a text and a newline to a file in a single call, as files of `/proc` and `/sys`
    /// require.
    Write { path: PathBuf, text: String },
}

/// A duration in a step: `500ms` or `2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millis(u64);

/// Signals that a step can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Hup,
    Int,
    Kill,
    Usr1,
    Usr2,
    Term,
    Cont,
    Stop,
}

/// The reason why a line is not a valid step.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error(
        "no step `{0}`: there are run, start, await, until, kill, wait, pages, sleep, read, list, \
         dump, write"
    )]
    Verb(String),
    #[error("`{verb}` wants {wants}")]
    Wants { verb: String, wants: &'static str },
    #[error("no signal `{0}`: there are HUP, INT, KILL, USR1, USR2, TERM, CONT, STOP")]
    Signal(String),
    #[error("no program was started as {0}")]
    Name(String),
    #[error("no duration `{0}`: write 500ms or 2s")]
    Duration(String),
    #[error("line {line}: {why}")]
    Line { line: usize, why: Box<StepError> },
}

const SIGNALS: [(&str, Signal); 8] = [
    ("HUP", Signal::Hup),
    ("INT", Signal::Int),
    ("KILL", Signal::Kill),
    ("USR1", Signal::Usr1),
    ("USR2", Signal::Usr2),
    ("TERM", Signal::Term),
    ("CONT", Signal::Cont),
    ("STOP", Signal::Stop),
];

/// Parses the steps.
///
/// # Errors
///
/// If a line is invalid. The error is that of the first invalid line.
pub fn parse(text: &str) -> Result<Vec<Step>, StepError> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let message = lines.filter(|(_, line)| !(line.is_empty() || line.starts_with('#')));
    let step = |(line, text): (usize, &str)| {
        text.parse().map_err(|why| StepError::Line { line, why: Box::new(why) })
    };
    message.map(step).collect()
}

impl Millis {
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// Splits a text into its first word and the remaining text.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    (first, rest.trim())
}

impl Step {
    /// Returns the step with each `@NAME` replaced by `pid(NAME)`, the process ID of the program
    /// that was started as NAME.
    ///
    /// # Errors
    ///
    /// If `pid` returns `None` for one of the names.
    pub fn with_pids(&self, pid: &dyn Fn(&str) -> Option<u32>) -> Result<Self, StepError> {
        let text = |text: &str| fill(text, pid);
        let path = |path: &Path| fill(&path.to_string_lossy(), pid).map(PathBuf::from);
        let words = |words: &[String]| -> Result<Vec<String>, StepError> {
            words.iter().map(|word| text(word)).collect()
        };
        Ok(match self {
            Self::Run { command } => Self::Run { command: words(command)? },
            Self::Start { name, command } => {
                Self::Start { name: name.clone(), command: words(command)? }
            }
            Self::Read(file) => Self::Read(path(file)?),
            Self::List(folder) => Self::List(path(folder)?),
            Self::Dump(folder) => Self::Dump(path(folder)?),
            Self::Write { path: file, text: line } => {
                Self::Write { path: path(file)?, text: text(line)? }
            }
            Self::Until { path: file, text: part } => {
                Self::Until { path: path(file)?, text: text(part)? }
            }
            Self::Await { .. }
            | Self::Kill { .. }
            | Self::Wait { .. }
            | Self::Pages { .. }
            | Self::Sleep(_) => self.clone(),
        })
    }
}

/// Replaces each `@NAME` in `text` by `pid(NAME)`. An `@` after a letter or digit, or without a
/// name after it, stays as it is.
fn fill(text: &str, pid: &dyn Fn(&str) -> Option<u32>) -> Result<String, StepError> {
    let is_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('@') {
        filled += before;
        let (name, more) =
            behind.split_at(behind.find(|c: char| !is_name(c)).unwrap_or(behind.len()));
        if name.is_empty() || filled.ends_with(char::is_alphanumeric) {
            filled.push('@');
            rest = behind;
            continue;
        }
        let pid = pid(name).ok_or_else(|| StepError::Name(name.to_string()))?;
        filled += &pid.to_string();
        rest = more;
    }
    Ok(filled + rest)
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let (verb, rest) = word(text);
        let wants = |wants| StepError::Wants { verb: verb.to_string(), wants };
        let command = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        let (first, more) = word(rest);
        let both = !(first.is_empty() || more.is_empty());
        let one = !first.is_empty() && more.is_empty();
        let name = first.to_string();
        let step = match verb {
            "run" if !first.is_empty() => Self::Run { command: command(rest) },
            "run" => return Err(wants("a program")),
            "start" if both => Self::Start { name, command: command(more) },
            "start" => return Err(wants("a name and a program")),
            "await" if both => Self::Await { name, text: more.to_string() },
            "await" => return Err(wants("a name and how the line begins")),
            "until" if both => Self::Until { path: PathBuf::from(first), text: more.to_string() },
            "until" => return Err(wants("a path and a text")),
            "kill" if both => Self::Kill { name, signal: more.parse()? },
            "kill" => return Err(wants("a name and a signal")),
            "wait" if one => Self::Wait { name },
            "pages" if one => Self::Pages { name },
            "wait" | "pages" => return Err(wants("the name of a started program")),
            "sleep" => Self::Sleep(rest.parse()?),
            "read" if one => Self::Read(PathBuf::from(first)),
            "list" if one => Self::List(PathBuf::from(first)),
            "dump" if one => Self::Dump(PathBuf::from(first)),
            "read" | "list" | "dump" => return Err(wants("a path")),
            "write" if both => Self::Write { path: PathBuf::from(first), text: more.to_string() },
            "write" => return Err(wants("a path and a text")),
            _ => return Err(StepError::Verb(verb.to_string())),
        };
        Ok(step)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { command } => write!(f, "run {}", command.join(" ")),
            Self::Start { name, command } => write!(f, "start {name} {}", command.join(" ")),
            Self::Await { name, text } => write!(f, "await {name} {text}"),
            Self::Until { path, text } => write!(f, "until {} {text}", path.display()),
            Self::Kill { name, signal } => write!(f, "kill {name} {signal}"),
            Self::Wait { name } => write!(f, "wait {name}"),
            Self::Pages { name } => write!(f, "pages {name}"),
            Self::Sleep(Millis(ms)) => write!(f, "sleep {ms}ms"),
            Self::Read(path) => write!(f, "read {}", path.display()),
            Self::List(path) => write!(f, "list {}", path.display()),
            Self::Dump(path) => write!(f, "dump {}", path.display()),
            Self::Write { path, text } => write!(f, "write {} {text}", path.display()),
        }
    }
}

impl FromStr for Signal {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let found = SIGNALS.iter().find(|(name, _)| *name == text);
        found.map(|(_, signal)| *signal).ok_or_else(|| StepError::Signal(text.to_string()))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) =
            SIGNALS.iter().find(|(_, signal)| signal == self).expect("each signal has a name");
        f.write_str(name)
    }
}

impl FromStr for Millis {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let wrong = |_: ParseIntError| StepError::Duration(text.to_string());
        if let Some(ms) = text.strip_suffix("ms") {
            return Ok(Self(ms.parse().map_err(wrong)?));
        }
        let s = text.strip_suffix('s').unwrap_or("").parse::<u32>().map_err(wrong)?;
        Ok(Self(u64::from(s) * 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_parsed_as_printed() {
        let steps = [
            "run touch 64MiB --weights 0:3,1:1",
            "start a touch 1MiB",
            "await a touched all of it",
            "until /sys/kernel/mm/numa/demotion_enabled false",
            "kill a TERM",
            "wait a",
            "pages a",
            "sleep 500ms",
            "read /proc/version",
            "list /sys",
            "dump /tmp/capture",
            "read /proc/@a/numa_maps",
            "write /sys/kernel/mm/numa/demotion_enabled 1",
        ];
        for text in steps {
            assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
        }
        assert_eq!("sleep 2s".parse::<Step>().unwrap(), Step::Sleep(Millis(2000)));
        assert_eq!(parse(" # nothing\n\n  wait  a \n").unwrap()[0].to_string(), "wait a");
    }

    #[test]
    fn names_stand_for_process_ids() {
        let pid =
            |name: &str| [("a", 7), ("b-2", 81)].into_iter().find(|(other, _)| *other == name);
        let pid = |name: &str| pid(name).map(|(_, pid)| pid);
        let table = [
            ("run look --pid @a", "run look --pid 7"),
            ("start a look @b-2,@a x@a", "start a look 81,7 x@a"),
            ("read /proc/@a/numa_maps", "read /proc/7/numa_maps"),
            ("write /sys/@b-2/pid @a", "write /sys/81/pid 7"),
            ("list /proc/@a", "list /proc/7"),
            ("dump /proc/@a/@ /", "`dump` wants a path"),
            ("run mail @ a@", "run mail @ a@"),
            ("await a @a", "await a @a"),
            ("run look @none", "no program was started as none"),
        ];
        for (text, expected) in table {
            let step = text.parse::<Step>().and_then(|step| step.with_pids(&pid));
            let message = step.map_or_else(|why| why.to_string(), |step| step.to_string());
            assert_eq!(message, expected, "{text}");
        }
    }

    #[test]
    fn wrong_steps_are_reported_with_their_line() {
        let table = [
            ("walk away", "line 1: no step `walk`: there are run, start, await, until, kill, "),
            ("\nrun", "line 2: `run` wants a program"),
            ("kill a", "line 1: `kill` wants a name and a signal"),
            ("kill a SEGV", "line 1: no signal `SEGV`"),
            ("sleep 5", "line 1: no duration `5`: write 500ms or 2s"),
            ("sleep", "line 1: no duration ``"),
            ("dump", "line 1: `dump` wants a path"),
            ("read /a /b", "line 1: `read` wants a path"),
        ];
        for (text, why) in table {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.starts_with(why), "{text}: {message}");
        }
    }
}
