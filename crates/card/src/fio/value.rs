//! Reads values of fio: sizes (`4k`), times (`500ms`), lists of depths (`1,2,4`, `1..256`).

use super::{BLOCK_BYTES, DEPTH_MAX};
use crate::memory_mode::ACCESS_BYTES;
use core::{ops::RangeInclusive, str::FromStr};

/// Maximum simulated time, ns: an hour. 64 bits hold five hours of femtoseconds.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// The units of sizes, each with its factor, a power of 1024. The prefixes `Ki`, `Mi` and so on are
/// refused: fio, with its default `kb_base` of 1024, reads `Ki` as 1000.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("b", 1),
];

/// The units of time, each with its length in ns. A number without a unit is in seconds, as in fio.
const TIME_UNITS: [(&str, u64); 7] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The error for a value that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}: write {allowed}")]
pub struct ValueError {
    /// The problem, with the invalid value.
    pub problem: String,
    /// The allowed values, as the text that follows "write" in the error message.
    pub allowed: String,
}

impl ValueError {
    pub(super) fn new(problem: String, allowed: String) -> Self {
        Self { problem, allowed }
    }
}

/// The size of the part of a card that a job covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The size is given as a number of bytes.
    Bytes(u64),
    /// The size is given as a percentage of the capacity, or of the BAR for loads and stores.
    Percent(u32),
}

impl Size {
    /// The size of the whole card, or of the whole BAR for loads and stores.
    pub const WHOLE: Self = Self::Percent(100);

    /// Returns the size in bytes, on a card (or in a BAR) of `capacity` bytes.
    pub const fn of(self, capacity: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) if percent >= 100 => capacity,
            Self::Percent(percent) => capacity / 100 * percent as u64,
        }
    }
}

impl FromStr for Size {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some(number) = text.strip_suffix('%') {
            return Ok(Self::Percent(in_range(number, "a percentage", 1..=100)?));
        }
        match size(text)? {
            0 => Err(ValueError::new("a size of 0 has no block".into(), EXAMPLE.into())),
            bytes => Ok(Self::Bytes(bytes)),
        }
    }
}

/// Examples of the allowed sizes, for error messages.
const EXAMPLE: &str = "a size such as 4k, 1m, 1g or 4096";

/// Reads a size, and returns the number of bytes. The text is a whole number. A unit `k`, `m`, `g`
/// or `t` after the number multiplies it by a power of 1024.
///
/// # Errors
/// When `text` is not a size of this form, or is 2^63 bytes or more.
pub fn size(text: &str) -> Result<u64, ValueError> {
    let wrong = |problem: String| ValueError::new(problem, EXAMPLE.into());
    let (number, unit) = split(text);
    let unit = unit.to_ascii_lowercase();
    if unit.ends_with('i') || unit.ends_with("ib") {
        return Err(wrong(format!(
            "\"{text}\" is ambiguous: fio reads Ki as 1000 and k as 1024 unless kb_base is set"
        )));
    }
    let unit_bytes = match unit.as_str() {
        "" => Some(1),
        _ => SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes),
    };
    let bytes = number.parse::<u64>().ok().zip(unit_bytes).map(|(n, unit)| n.checked_mul(unit));
    match bytes {
        Some(Some(bytes)) if bytes < 1 << 63 => Ok(bytes),
        Some(_) => Err(wrong(format!("{text} is not below 2^63 bytes"))),
        None if text.contains(',') => {
            Err(wrong(format!("\"{text}\": a size for each direction is not modelled")))
        }
        None if text.contains('-') && !text.starts_with('-') => {
            Err(wrong(format!("\"{text}\": a range of sizes is not modelled")))
        }
        None => Err(wrong(format!("\"{text}\" is not a size"))),
    }
}

/// Reads a block size, and returns the number of bytes: a multiple of 512 up to 1 MiB.
///
/// # Errors
/// When `text` is not a multiple of 512 bytes from 512 bytes to 1 MiB.
pub fn block(text: &str) -> Result<u32, ValueError> {
    let bytes = size(text)?;
    let [least, most] = BLOCK_BYTES;
    let allowed = "a multiple of 512 from 512 to 1m, such as 4k";
    let problem = match bytes {
        _ if bytes % least != 0 => format!("{text} is not a multiple of 512, the logical block"),
        _ if !(least..=most).contains(&bytes) => format!("{text} is not between 512 and 1m"),
        _ => return Ok(bytes as u32),
    };
    Err(ValueError::new(problem, allowed.into()))
}

/// Reads the size of an access, and returns the number of bytes. The access is a load or store,
/// with a power of two from 8 to 4096 bytes, or an I/O, with a size that [`block`] accepts.
///
/// # Errors
/// When `text` is neither the size of a load or store, nor the size of an I/O.
pub fn access(text: &str) -> Result<u32, ValueError> {
    let [least, most] = ACCESS_BYTES;
    match u32::try_from(size(text)?) {
        Ok(bytes) if bytes.is_power_of_two() && (least..=most).contains(&bytes) => Ok(bytes),
        _ => block(text),
    }
}

/// Reads a time, a whole number with a unit (none: seconds, as in fio). Returns the number of ns.
///
/// # Errors
/// When `text` is not a time, or longer than an hour.
pub fn time(text: &str) -> Result<u64, ValueError> {
    let allowed = "a time such as 1s, 500ms or 100us, at most 1h";
    let wrong = |problem: String| ValueError::new(problem, allowed.into());
    let (number, unit) = split(text);
    let unit = TIME_UNITS.iter().find(|(name, _)| *name == unit);
    let (Ok(number), Some((_, unit))) = (number.parse::<u64>(), unit) else {
        return Err(wrong(format!("\"{text}\" is not a time")));
    };
    let ns = number.checked_mul(*unit).filter(|ns| *ns <= TIME_MAX_NS);
    ns.ok_or_else(|| wrong(format!("{text} is longer than 1h")))
}

/// Reads a time above 0, and returns the number of ns.
///
/// # Errors
/// When [`time`] refuses `text`, or the time is 0.
pub fn runtime(text: &str) -> Result<u64, ValueError> {
    match time(text)? {
        0 => Err(ValueError::new(
            "in a time of 0 nothing is measured".into(),
            "a time such as 1s or 500ms".into(),
        )),
        ns => Ok(ns),
    }
}

/// Reads a Boolean value: 0, 1, true or false. The text "" is true.
///
/// # Errors
/// When `text` is another value.
pub fn flag(text: &str) -> Result<bool, ValueError> {
    match text {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(ValueError::new(format!("\"{text}\" is neither 0 nor 1"), "0 or 1".into())),
    }
}

/// Reads a whole number in a range. `kind` names the number in errors, for example "a queue depth".
///
/// # Errors
/// When `text` is not a whole number, or outside `range`.
pub fn in_range<T: FromStr + PartialOrd + core::fmt::Display>(
    text: &str,
    kind: &str,
    range: RangeInclusive<T>,
) -> Result<T, ValueError> {
    let allowed = || format!("a whole number from {} to {}", range.start(), range.end());
    match text.parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        Ok(value) => Err(ValueError::new(format!("{value} is out of range for {kind}"), allowed())),
        Err(_) => Err(ValueError::new(format!("\"{text}\" is not {kind}"), allowed())),
    }
}

/// Queue depths, in the order in which they are simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths(pub Vec<u32>);

impl FromStr for Depths {
    type Err = ValueError;

    /// Reads a list of depths and ranges: `1,2,4` or `1..256`. A range doubles from its first depth
    /// and always ends with its last: `3..20` is 3, 6, 12, 20.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let allowed =
            || format!("depths from 1 to {DEPTH_MAX} as a list 1,2,4 or a doubling range 1..256");
        let wrong = |problem: String| ValueError::new(problem, allowed());
        let one = |text: &str| {
            let depth = text.trim().parse::<u32>().ok().filter(|n| (1..=DEPTH_MAX).contains(n));
            depth.ok_or_else(|| wrong(format!("\"{text}\" is not a queue depth")))
        };
        let mut depths = vec![];
        for part in text.split(',') {
            let Some((from, to)) = part.split_once("..") else {
                depths.push(one(part)?);
                continue;
            };
            let (from, to) = (one(from)?, one(to)?);
            if from > to {
                return Err(wrong(format!("{part}: {from} is above {to}")));
            }
            let doubled = core::iter::successors(Some(from), |depth| depth.checked_mul(2));
            depths.extend(doubled.take_while(|depth| *depth < to));
            depths.push(to);
        }
        for (at, depth) in depths.iter().enumerate() {
            if depths[..at].contains(depth) {
                return Err(wrong(format!("{depth} is in the list twice")));
            }
        }
        Ok(Self(depths))
    }
}

/// Splits a text into the digits at its start and the text after them.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}
