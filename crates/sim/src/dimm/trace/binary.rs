//! Reads and writes the binary format of traces, which has about five bytes per request.
//!
//! After the eight bytes of [`MAGIC`], each request is two numbers in LEB128: each byte has seven
//! bits of the number, the lowest bits first. The highest bit of a byte is set, except in the last
//! byte of the number.
//!
//! 1. twice the ps since the previous request, plus 1 for a write;
//! 2. the distance in lines of 64 bytes from the line of the previous request: twice the distance
//!    if forward or zero, twice the distance less 1 if backward (zigzag).
//!
//! The first request counts from time 0 and line 0.

use super::{InvalidField, ParsedRequest, Position, TraceRequest};
use interleaf_model::format::FileError;

/// The first bytes of a binary trace; the last byte is the version.
pub const MAGIC: [u8; 8] = *b"ildimm\0\x01";

const LINE: u64 = 64;

/// Maximum length of a 64-bit number in LEB128, bytes: ten groups of seven bits, one in each byte.
const NUMBER_BYTES_MAX: usize = 10;

/// Writes a binary trace, request by request.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    at_ps: u64,
    line: u64,
}

impl Default for Writer {
    fn default() -> Self {
        Self { bytes: MAGIC.to_vec(), at_ps: 0, line: 0 }
    }
}

impl Writer {
    /// Adds a request. A time before the time of the previous request is replaced by the time of
    /// the previous request.
    pub fn push(&mut self, request: TraceRequest) {
        let ahead = request.at_ps.saturating_sub(self.at_ps);
        self.number(u128::from(ahead) << 1 | u128::from(request.write));
        let line = request.address / LINE;
        let step = line.wrapping_sub(self.line) as i64;
        self.number(u128::from((step << 1 ^ step >> 63) as u64));
        self.at_ps += ahead;
        self.line = line;
    }

    /// Returns the bytes of the whole trace, with [`MAGIC`] at the start.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn number(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    byte: usize,
    number: u64,
    at_ps: u64,
    line: u64,
}

impl<'a> Records<'a> {
    pub(super) fn new(file: &str, bytes: &'a [u8]) -> Result<Self, FileError> {
        if !bytes.starts_with(&MAGIC) {
            let version = bytes.starts_with(&MAGIC[..7]) && bytes.len() > 7;
            let problem = if version {
                format!("this is version {} of the binary trace, not {}", bytes[7], MAGIC[7])
            } else {
                "this does not begin as a binary trace does".into()
            };
            return Err(FileError {
                file: file.into(),
                line: None,
                field: Some("the first 8 bytes".into()),
                problem,
                hint: "leave the format out to have it recognised, or write the trace as text"
                    .into(),
            });
        }
        Ok(Self { bytes, byte: MAGIC.len(), number: 0, at_ps: 0, line: 0 })
    }

    pub(super) fn next(&mut self) -> Option<ParsedRequest> {
        (self.byte < self.bytes.len()).then(|| {
            let position = Position::Record { number: self.number, byte: self.byte };
            let found = self.record(position);
            if found.is_err() {
                // The length of an invalid record is unknown, and so is the start of the next
                // record. The trace therefore ends at the invalid record.
                self.byte = self.bytes.len();
            }
            found.map(|request| (request, position))
        })
    }

    fn record(&mut self, position: Position) -> Result<TraceRequest, InvalidField> {
        let first = self.number(position, "time")?;
        let step = self.number(position, "address")?;
        let too_far = |field| {
            let problem = "the number leads out of 64 bits".into();
            InvalidField { position, field, problem, hint: "the trace is damaged: write it again" }
        };
        let at_ps = self.at_ps.checked_add(first >> 1).ok_or_else(|| too_far("time"))?;
        let step = (step >> 1) as i64 ^ -((step & 1) as i64);
        let line = self.line.checked_add_signed(step).ok_or_else(|| too_far("address"))?;
        let address = line.checked_mul(LINE).ok_or_else(|| too_far("address"))?;
        (self.at_ps, self.line, self.number) = (at_ps, line, self.number + 1);
        Ok(TraceRequest { at_ps, write: first & 1 == 1, address })
    }

    fn number(&mut self, position: Position, field: &'static str) -> Result<u64, InvalidField> {
        let wrong = |problem: &str| {
            let hint = "the trace is damaged or cut short: write it again";
            InvalidField { position, field, problem: problem.into(), hint }
        };
        let mut number = 0_u128;
        for piece in 0..NUMBER_BYTES_MAX {
            let Some(byte) = self.bytes.get(self.byte) else {
                return Err(wrong("the trace ends within this record"));
            };
            self.byte += 1;
            number |= u128::from(byte & 0x7f) << (7 * piece);
            if byte & 0x80 == 0 {
                return u64::try_from(number).map_err(|_| wrong("the number has over 64 bits"));
            }
        }
        Err(wrong("the number does not end"))
    }
}
