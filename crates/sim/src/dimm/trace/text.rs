//! Reads traces with one request per line.

use super::{Format, InvalidField, ParsedRequest, Position, TraceRequest};

const HINT_ADDRESS: &str = "an address is written 0x1f40, or in decimal digits";

/// DRAMsim3's words for reads and writes; DRAMsim3 itself takes any other word for a read.
const DRAMSIM3: [(&str, bool); 6] = [
    ("READ", false),
    ("WRITE", true),
    ("read", false),
    ("write", true),
    ("P_MEM_RD", false),
    ("P_MEM_WR", true),
];

const LETTERS: [(&str, bool); 2] = [("R", false), ("W", true)];
const LOADS: [(&str, bool); 2] = [("LD", false), ("ST", true)];

#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    line: usize,
    format: Format,
    mega_transfers: u32,
}

impl<'a> Lines<'a> {
    pub(super) const fn new(bytes: &'a [u8], format: Format, mega_transfers: u32) -> Self {
        Self { rest: bytes, line: 0, format, mega_transfers }
    }

    /// Returns the words of the next line that is neither empty nor a comment; `None` at the end.
    fn next_words(&mut self) -> Option<Result<Words<'a>, InvalidField>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let (line, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest.get(1..).unwrap_or_default();
            self.line += 1;
            let position = Position::Line(self.line);
            let Ok(line) = core::str::from_utf8(line) else {
                let problem = "the line is not text".into();
                let hint = "a binary trace begins with its mark; name the format if this is one \
                            of another kind";
                return Some(Err(InvalidField { position, field: "line", problem, hint }));
            };
            let line = line.trim();
            if !(line.is_empty() || line.starts_with('#')) {
                return Some(Ok(Words { position, words: line.split_whitespace().collect() }));
            }
        }
        None
    }

    pub(super) fn next(&mut self) -> Option<ParsedRequest> {
        let words = match self.next_words()? {
            Ok(words) => words,
            Err(wrong) => return Some(Err(wrong)),
        };
        let position = words.position;
        let request = match self.format {
            Format::Dramsim3 => words.dramsim3(self.mega_transfers),
            Format::Ramulator => words.ramulator(),
            Format::Text | Format::Binary => words.text(),
        };
        Some(request.map(|request| (request, position)))
    }
}

/// Detects the format from the first line with words.
pub(super) fn format_of(bytes: &[u8]) -> Format {
    let first = Lines::new(bytes, Format::Text, 1).next_words();
    let Some(Ok(Words { words, .. })) = first else { return Format::Text };
    match words[..] {
        [_, _] => Format::Ramulator,
        [address, word, _] if address.starts_with("0x") && !is_of(&LETTERS, word) => {
            Format::Dramsim3
        }
        _ => Format::Text,
    }
}

fn is_of(table: &[(&str, bool)], word: &str) -> bool {
    table.iter().any(|(known, _)| *known == word)
}

/// The words of a line, and the position of the line in the trace.
struct Words<'a> {
    position: Position,
    words: Vec<&'a str>,
}

impl Words<'_> {
    fn text(&self) -> Result<TraceRequest, InvalidField> {
        let hint = "a line is the time in ns, R or W, and the address: \"12.5 R 0x1f40\"";
        let [time, kind, address] = self.fields(hint)?;
        let at_ps = picoseconds(time).ok_or_else(|| {
            let hint = "the time is in ns since the start, with three decimals at most: 12.5";
            self.wrong("time", format!("\"{time}\" is not a time"), hint)
        })?;
        let write = self.kind(kind, &LETTERS, "R reads, W writes")?;
        Ok(TraceRequest { at_ps, write, address: self.address(address)? })
    }

    fn ramulator(&self) -> Result<TraceRequest, InvalidField> {
        let hint = "a line is LD or ST and the address, as in \"LD 0x1f40\", or the address and \
                    R or W";
        let [first, second] = self.fields(hint)?;
        if is_of(&LETTERS, first) && second.contains(',') {
            let problem = format!("\"{second}\" is a place in one memory, not an address");
            let hint = "record the trace before the addresses are mapped: \"LD 0x1f40\"";
            return Err(self.wrong("address", problem, hint));
        }
        let (write, address) = if is_of(&LETTERS, second) {
            (self.kind(second, &LETTERS, "R reads, W writes")?, first)
        } else {
            (self.kind(first, &LOADS, "LD reads, ST writes")?, second)
        };
        Ok(TraceRequest { at_ps: 0, write, address: self.address(address)? })
    }

    fn dramsim3(&self, mega_transfers: u32) -> Result<TraceRequest, InvalidField> {
        let hint = "a line is the address, READ or WRITE, and the cycle: \"0x1f40 READ 20\"";
        let [address, kind, time] = self.fields(hint)?;
        // DRAMsim3's addresses are hexadecimal, with or without the prefix 0x.
        let digits = address.strip_prefix("0x").unwrap_or(address);
        let address = hexadecimal(digits).ok_or_else(|| {
            let problem = format!("\"{address}\" is not an address");
            self.wrong("address", problem, "an address has hexadecimal digits: 0x1f40")
        })?;
        let write = self.kind(kind, &DRAMSIM3, "READ reads, WRITE writes")?;
        let cycle = decimal(time).ok_or_else(|| {
            let hint = "the time is a whole number of cycles of the memory's clock";
            self.wrong("time", format!("\"{time}\" is not a cycle"), hint)
        })?;
        let ps = u128::from(cycle) * 2_000_000 / u128::from(mega_transfers.max(1));
        let at_ps = u64::try_from(ps).map_err(|_| {
            self.wrong("time", format!("cycle {cycle} is too far"), "the last time is 200 days")
        })?;
        Ok(TraceRequest { at_ps, write, address })
    }

    /// Returns the words of the line, if their number is the number of fields of the format.
    fn fields<const N: usize>(&self, hint: &'static str) -> Result<[&str; N], InvalidField> {
        <[&str; N]>::try_from(&self.words[..]).map_err(|_| {
            let problem = format!("the line has {} words, not {N}", self.words.len());
            self.wrong("line", problem, hint)
        })
    }

    fn kind(
        &self,
        word: &str,
        table: &[(&str, bool)],
        hint: &'static str,
    ) -> Result<bool, InvalidField> {
        let known = table.iter().find(|(known, _)| *known == word);
        known.map(|(_, write)| *write).ok_or_else(|| {
            let problem = format!("\"{word}\" is neither a read nor a write");
            self.wrong("kind", problem, hint)
        })
    }

    fn address(&self, word: &str) -> Result<u64, InvalidField> {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let address = digits.map_or_else(|| decimal(word), hexadecimal);
        let problem = || format!("\"{word}\" is not an address");
        address.ok_or_else(|| self.wrong("address", problem(), HINT_ADDRESS))
    }

    const fn wrong(
        &self,
        field: &'static str,
        problem: String,
        hint: &'static str,
    ) -> InvalidField {
        InvalidField { position: self.position, field, problem, hint }
    }
}

/// Parses a number of digits only: no sign, which `parse` would accept. `None` for any other text.
fn decimal(digits: &str) -> Option<u64> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all)
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| all)
}

/// Parses `12.5` ns as 12500 ps, exactly; `None` for any other text, or too many decimals.
fn picoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 3 {
        return None;
    }
    let part = decimal(part)? * 10_u64.pow(3 - part.len() as u32);
    decimal(whole)?.checked_mul(1000)?.checked_add(part)
}
