//! Reads traces: files with the memory requests of a program or of another simulator, and the times
//! of the requests.
//!
//! | format | a line, or a record | time |
//! | --- | --- | --- |
//! | text | `12.5 R 0x1f40` | ns since the start, three decimals at most |
//! | binary | two numbers of variable length, see [`binary`] | ps since the previous record |
//! | Ramulator | `LD 0x1f40`, `ST 8000`; its first version's `0x1f40 R` | as soon as possible |
//! | DRAMsim3 | `0x1f40 READ 20` | cycles of the memory's clock since the start |
//!
//! Other simulators misread unknown text silently: one simulator takes each word that is not
//! `WRITE` for a read, another reads an address in an unknown notation as 0. Here each line must
//! match the format completely, or the trace is refused with the line and the field.
//!
//! Requests are parsed one by one, from the beginning of the trace to its end, and are not stored.
//! Therefore a long trace needs no memory besides the bytes of its file.

pub mod binary;
#[cfg(test)]
mod tests;
mod text;

use core::str::FromStr;
use interleaf_model::format::FileError;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// The time since the start, ps. In a trace without times, this time is always 0, and each
    /// request is issued as soon as the number of outstanding lines is below the limit of the
    /// sub-channel.
    pub at_ps: u64,
    /// True for a write, false for a read.
    pub write: bool,
    /// The address of the first byte. The access transfers the whole line.
    pub address: u64,
}

/// The file format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines with time, R or W, and address.
    Text,
    /// The compact binary form of [`Format::Text`].
    Binary,
    /// Lines in the format of Ramulator's trace front ends.
    Ramulator,
    /// Lines in the format of DRAMsim3.
    Dramsim3,
}

impl Format {
    /// All formats with their names on the command line.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Text, "text"),
        (Self::Binary, "binary"),
        (Self::Ramulator, "ramulator"),
        (Self::Dramsim3, "dramsim3"),
    ];

    /// Detects the format from the beginning of a trace; [`Format::Text`] for a trace without
    /// requests.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(&binary::MAGIC) { Self::Binary } else { text::format_of(bytes) }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(format, _)| *format).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("there is no format \"{name}\" of traces: there is {}", names.join(", "))
        })
    }
}

/// The limits of a machine that a trace must respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLimits {
    /// The size of the memory, bytes. Each address of a trace must be below this size.
    pub bytes: u64,
    /// Data rate, million transfers per second: DRAMsim3 counts clocks of half that rate.
    pub mega_transfers: u32,
}

/// An iterator over the requests of a trace file, in the order of the file.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    file: &'a str,
    memory: AddressLimits,
    reader: Reader<'a>,
    last_ps: u64,
}

#[derive(Clone, Debug)]
enum Reader<'a> {
    Lines(text::Lines<'a>),
    Records(binary::Records<'a>),
}

/// A parsed request with its position, or the field that is invalid.
type ParsedRequest = Result<(TraceRequest, Position), InvalidField>;

#[derive(Clone, Copy, Debug)]
enum Position {
    Line(usize),
    Record { number: u64, byte: usize },
}

/// An invalid field of a request, with its position in the trace.
#[derive(Debug)]
struct InvalidField {
    position: Position,
    field: &'static str,
    problem: String,
    hint: &'static str,
}

impl<'a> Trace<'a> {
    /// Opens the trace in `bytes`. Without a `format`, detects the format from the beginning of the
    /// trace.
    ///
    /// # Errors
    ///
    /// If the trace has no request, or a binary trace has another version or does not begin with
    /// [`binary::MAGIC`]. A later invalid record is an error of the iterator.
    pub fn new(
        file: &'a str,
        bytes: &'a [u8],
        format: Option<Format>,
        memory: AddressLimits,
    ) -> Result<Self, FileError> {
        let reader = match format.unwrap_or_else(|| Format::of(bytes)) {
            Format::Binary => Reader::Records(binary::Records::new(file, bytes)?),
            format => Reader::Lines(text::Lines::new(bytes, format, memory.mega_transfers)),
        };
        let trace = Self { file, memory, reader, last_ps: 0 };
        if trace.clone().next().is_none() {
            return Err(FileError {
                file: file.into(),
                line: None,
                field: None,
                problem: "the trace has no request".into(),
                hint: "write one a line: the time in ns, R or W, and the address, as in \
                       \"12.5 R 0x1f40\""
                    .into(),
            });
        }
        Ok(trace)
    }

    /// Reads the remaining requests of the trace, and returns their number.
    ///
    /// # Errors
    ///
    /// If a record is invalid. The error describes the first invalid record.
    pub fn count_all(mut self) -> Result<u64, FileError> {
        self.try_fold(0, |count, request| request.map(|_| count + 1))
    }

    /// Checks the rules that hold in every format: the address is within the memory, and no request
    /// is earlier than the request before it.
    fn checked(
        &mut self,
        request: TraceRequest,
        position: Position,
    ) -> Result<TraceRequest, InvalidField> {
        let wrong = |field, problem, hint| Err(InvalidField { position, field, problem, hint });
        if request.address >= self.memory.bytes {
            let problem = format!(
                "{:#x} is beyond the memory, which has {:#x} bytes",
                request.address, self.memory.bytes
            );
            let hint = "simulate more channels, more ranks or a higher density, or map the trace \
                        into the memory";
            return wrong("address", problem, hint);
        }
        if request.at_ps < self.last_ps {
            let ns = |ps: u64| format!("{}.{:03}", ps / 1000, ps % 1000);
            let problem = format!(
                "{} ns is before the request above it, {} ns",
                ns(request.at_ps),
                ns(self.last_ps)
            );
            return wrong("time", problem, "sort the trace by time");
        }
        self.last_ps = request.at_ps;
        Ok(request)
    }

    fn error(&self, wrong: InvalidField) -> FileError {
        let (line, field) = match wrong.position {
            Position::Line(line) => (Some(line), wrong.field.to_string()),
            Position::Record { number, byte } => {
                (None, format!("record {number} at byte {byte}: {}", wrong.field))
            }
        };
        let (file, hint) = (self.file.into(), wrong.hint.into());
        FileError { file, line, field: Some(field), problem: wrong.problem, hint }
    }
}

impl Iterator for Trace<'_> {
    type Item = Result<TraceRequest, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match &mut self.reader {
            Reader::Lines(lines) => lines.next()?,
            Reader::Records(records) => records.next()?,
        };
        let checked = found.and_then(|(request, position)| self.checked(request, position));
        Some(checked.map_err(|wrong| self.error(wrong)))
    }
}
