//! Defines the lines of the guest's report of its steps.
//!
//! ```text
//! @release 6.12.0
//! @step 1 read /proc/sys/kernel/numa_balancing
//! |1
//! @end 1 done
//! @step 2 run touch 64MiB
//! |pages 0:16384
//! @end 2 exit 0
//! @off
//! ```

use std::{fmt, str::FromStr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The guest waits for files from the host, and asks for the block with this 0-based number
    /// (see [`crate::blocks`]).
    Ready(usize),
    /// The kernel has booted. The text is the kernel's release.
    Release(String),
    /// A step begins: its 1-based number, and its text.
    Step(usize, String),
    /// A line of the step's output.
    Output(String),
    /// The step with this number has ended.
    End(usize, Ending),
    /// All steps are done.
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The step succeeded.
    Done,
    /// The step's program exited with this code.
    Exit(i32),
    /// The step's program was killed by this signal.
    Signal(i32),
    /// The step failed, for this reason.
    Failed(String),
}

/// The line is not in the format of a report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a line of a guest: {0:?}")]
pub struct LineError(String);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(block) => write!(f, "@ready {block}"),
            Self::Release(release) => write!(f, "@release {release}"),
            Self::Step(number, text) => write!(f, "@step {number} {text}"),
            Self::Output(text) => write!(f, "|{text}"),
            Self::End(number, ending) => write!(f, "@end {number} {ending}"),
            Self::Off => f.write_str("@off"),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Failed(why) => write!(f, "failed {why}"),
        }
    }
}

impl FromStr for Line {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        // A terminal ends a line with a carriage return and a line feed.
        let text = text.trim_end_matches(['\r', '\n']);
        read(text).ok_or_else(|| LineError(text.to_string()))
    }
}

fn read(text: &str) -> Option<Line> {
    if let Some(output) = text.strip_prefix('|') {
        return Some(Line::Output(output.to_string()));
    }
    let (mark, rest) = text.split_once(' ').unwrap_or((text, ""));
    let numbered = || {
        let (number, rest) = rest.split_once(' ')?;
        Some((number.parse().ok()?, rest))
    };
    match mark {
        "@release" => Some(Line::Release(rest.to_string())),
        "@step" => numbered().map(|(number, text)| Line::Step(number, text.to_string())),
        "@end" => numbered().and_then(|(number, text)| Some(Line::End(number, ending(text)?))),
        "@ready" => rest.parse().ok().map(Line::Ready),
        "@off" if rest.is_empty() => Some(Line::Off),
        _ => None,
    }
}

fn ending(text: &str) -> Option<Ending> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "done" if rest.is_empty() => Some(Ending::Done),
        "exit" => rest.parse().ok().map(Ending::Exit),
        "signal" => rest.parse().ok().map(Ending::Signal),
        "failed" => Some(Ending::Failed(rest.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_as_printed() {
        let lines = [
            Line::Ready(0),
            Line::Release("6.12.0".into()),
            Line::Step(1, "read /proc/version".into()),
            Line::Output("@off | x".into()),
            Line::Output(String::new()),
            Line::End(1, Ending::Done),
            Line::End(2, Ending::Exit(-1)),
            Line::End(3, Ending::Signal(15)),
            Line::End(4, Ending::Failed("no such file".into())),
            Line::Off,
        ];
        for line in lines {
            assert_eq!(format!("{line}\r\n").parse(), Ok(line));
        }
        for wrong in ["", "@", "@end 1", "@end x done", "@end 1 exit", "@offset", "Hello"] {
            assert_eq!(wrong.parse::<Line>(), Err(LineError(wrong.into())), "{wrong}");
        }
    }
}
