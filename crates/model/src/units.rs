//! Quantities with a unit, and their text form.
//!
//! The unit is part of a value, so a number without a unit is refused. GB/s is 10^9 bytes a second,
//! GiB is 2^30 bytes.

use std::{fmt, str::FromStr};

/// Bytes in a cache line, the unit of memory requests.
pub const LINE_BYTES: f64 = 64.0;

/// The reason why a text is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a {kind}: {reason}")]
pub struct UnitError {
    /// The text that was refused.
    pub text: String,
    /// The kind of quantity that was expected, such as "size".
    pub kind: &'static str,
    /// The problem of the text, as part of the error message.
    pub reason: String,
    /// The allowed units, separated by commas, for the hint of an error message.
    pub allowed: String,
}

impl UnitError {
    /// Returns an error message that a user can follow: the problem, the allowed units, and a valid
    /// text, `example`.
    pub fn with_example(&self, example: &str) -> String {
        let one_of = if self.allowed.contains(',') { "one of" } else { "the unit" };
        format!("{self}: write a number with {one_of} {}, such as {example}", self.allowed)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

const SIZE_UNITS: [(&str, f64); 9] = [
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
];

impl Bytes {
    /// Creates a size from a number of bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = quantity(text, "size", &SIZE_UNITS)?;
        if bytes.fract() != 0.0 || bytes > 9e18 {
            return Err(UnitError {
                text: text.into(),
                kind: "size",
                reason: "it is not a whole number of bytes below 8 EiB".into(),
                allowed: unit_list(&SIZE_UNITS),
            });
        }
        Ok(Self(bytes as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) =
            SIZE_UNITS[..5].iter().rev().find(|(_, scale)| self.0 as f64 >= *scale).unwrap_or(
                // No unit is found for a size of 0, because 0 is less than 1 of each unit. A size
                // of 0 is printed in bytes.
                &SIZE_UNITS[0],
            );
        let value = self.0 as f64 / scale;
        if value.fract() == 0.0 {
            write!(f, "{value} {unit}")
        } else {
            write!(f, "{value:.1} {unit}")
        }
    }
}

/// A bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(f64);

const BANDWIDTH_UNITS: [(&str, f64); 6] = [
    ("GB/s", 1.0),
    ("MB/s", 1e-3),
    ("TB/s", 1e3),
    ("GiB/s", 1.073741824),
    ("MiB/s", 1.048576e-3),
    ("B/s", 1e-9),
];

impl Bandwidth {
    /// The bandwidth in GB/s, 10^9 bytes a second.
    pub const fn gbps(self) -> f64 {
        self.0
    }
}

impl FromStr for Bandwidth {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, "bandwidth", &BANDWIDTH_UNITS).map(Self)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GB/s", self.0)
    }
}

/// A duration, or a point in time; never negative.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Time(f64);

const TIME_UNITS: [(&str, f64); 6] =
    [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("min", 60.0), ("h", 3600.0)];

/// The longest `Time`, s: about 300 years. In nanoseconds, it fits in 64 bits.
const TIME_MAX_S: f64 = 1e10;

impl Time {
    /// Creates a time from seconds, limited to the range from 0 to about 300 years.
    pub const fn from_seconds(seconds: f64) -> Self {
        Self(seconds.clamp(0.0, TIME_MAX_S))
    }

    /// The time in seconds.
    pub const fn seconds(self) -> f64 {
        self.0
    }

    /// The time in nanoseconds, rounded to a whole number.
    pub fn nanoseconds(self) -> u64 {
        (self.0 * 1e9).round() as u64
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let seconds = quantity(text, "time", &TIME_UNITS)?;
        if seconds > TIME_MAX_S {
            return Err(UnitError {
                text: text.into(),
                kind: "time",
                reason: format!("it is longer than {TIME_MAX_S} s"),
                allowed: unit_list(&TIME_UNITS),
            });
        }
        Ok(Self(seconds))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Times are printed in units up to the second: 90 s is clearer than 1.5 min.
        let (unit, scale) =
            TIME_UNITS[..4].iter().find(|(_, scale)| self.0 >= *scale).unwrap_or(&TIME_UNITS[0]);
        // The value is rounded, because 30 x 1e-9 is not exactly 3e-8.
        let value = (self.0 / scale * 1e6).round() / 1e6;
        write!(f, "{value} {unit}")
    }
}

/// A percentage, which may be negative.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(f64);

const PERCENT_UNITS: [(&str, f64); 1] = [("%", 1.0)];

impl Percent {
    /// The percentage zero.
    pub const ZERO: Self = Self(0.0);

    /// The percentage as a fraction: 5 % is 0.05.
    pub const fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        signed_quantity(text, "percentage", &PERCENT_UNITS).map(Self)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Parses a quantity like [`signed_quantity`], but refuses negative numbers.
fn quantity(text: &str, kind: &'static str, units: &[(&str, f64)]) -> Result<f64, UnitError> {
    let value = signed_quantity(text, kind, units)?;
    if value < 0.0 {
        let reason = "it is negative".into();
        return Err(UnitError { text: text.into(), kind, reason, allowed: unit_list(units) });
    }
    Ok(value)
}

/// Parses `text`, a number and the name of a unit. Returns the number multiplied by the scale of
/// the unit. Each of `units` is a pair of a name and a scale.
fn signed_quantity(
    text: &str,
    kind: &'static str,
    units: &[(&str, f64)],
) -> Result<f64, UnitError> {
    let error =
        |reason: String| UnitError { text: text.into(), kind, reason, allowed: unit_list(units) };
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | '_')))
        .unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    if number.is_empty() {
        return Err(error("it does not begin with a number".into()));
    }
    let value: f64 = number.parse().map_err(|_| error(format!("\"{number}\" is not a number")))?;
    if unit.is_empty() {
        return Err(error(match units {
            [(only, _)] => format!("the \"{only}\" is missing"),
            _ => "it has no unit".into(),
        }));
    }
    let Some((_, scale)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(error(format!("there is no unit \"{unit}\" for a {kind}")));
    };
    Ok(value * scale)
}

fn unit_list(units: &[(&str, f64)]) -> String {
    units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [
            ("768GiB", 768 << 30),
            ("64 MiB", 64 << 20),
            ("1.5KiB", 1536),
            ("4096B", 4096),
            ("2GB", 2_000_000_000),
            ("0B", 0),
        ];
        for (text, bytes) in good {
            assert_eq!(text.parse::<Bytes>().map(Bytes::get), Ok(bytes), "{text}");
        }
        let bad = [
            ("768", "it has no unit"),
            ("", "it does not begin with a number"),
            ("GiB", "it does not begin with a number"),
            ("1.2.3GiB", "\"1.2.3\" is not a number"),
            ("4 gigs", "there is no unit \"gigs\" for a size"),
            ("-1GiB", "it is negative"),
            ("0.3B", "it is not a whole number of bytes below 8 EiB"),
            ("99999999999TiB", "it is not a whole number of bytes below 8 EiB"),
        ];
        for (text, reason) in bad {
            assert_eq!(text.parse::<Bytes>().unwrap_err().reason, reason, "{text}");
        }
        assert_eq!(Bytes::new(768 << 30).to_string(), "768 GiB");
        assert_eq!(Bytes::new(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes::new(0).to_string(), "0 B");
    }

    #[test]
    fn bandwidths() {
        assert_eq!("150GB/s".parse::<Bandwidth>().map(Bandwidth::gbps), Ok(150.0));
        assert_eq!("1500 MB/s".parse::<Bandwidth>().map(Bandwidth::gbps), Ok(1.5));
        assert_eq!("150".parse::<Bandwidth>().unwrap_err().reason, "it has no unit");
        assert_eq!(
            "150GB".parse::<Bandwidth>().unwrap_err().reason,
            "there is no unit \"GB\" for a bandwidth"
        );
    }

    #[test]
    fn times() {
        let good = [
            ("600s", 600.0, 600_000_000_000, "600 s"),
            ("500ms", 0.5, 500_000_000, "500 ms"),
            ("2us", 2e-6, 2_000, "2 us"),
            ("30 ns", 30e-9, 30, "30 ns"),
            ("5min", 300.0, 300_000_000_000, "300 s"),
            ("1h", 3600.0, 3_600_000_000_000, "3600 s"),
            ("1.5ms", 0.0015, 1_500_000, "1.5 ms"),
            ("0s", 0.0, 0, "0 s"),
        ];
        for (text, seconds, nanoseconds, shown) in good {
            let time: Time = text.parse().unwrap();
            assert!((time.seconds() - seconds).abs() <= 1e-12 * seconds, "{text}");
            assert_eq!(time.nanoseconds(), nanoseconds, "{text}");
            assert_eq!(time.to_string(), shown, "{text}");
        }
        let bad = [
            ("600", "it has no unit"),
            ("s", "it does not begin with a number"),
            ("1m", "there is no unit \"m\" for a time"),
            ("-1s", "it is negative"),
            ("1-2s", "\"1-2\" is not a number"),
            ("9999999h", "it is longer than 10000000000 s"),
        ];
        for (text, reason) in bad {
            assert_eq!(text.parse::<Time>().unwrap_err().reason, reason, "{text}");
        }
        assert_eq!("600".parse::<Time>().unwrap_err().allowed, "s, ms, us, ns, min, h");
        assert_eq!(Time::from_seconds(-1.0), Time::from_seconds(0.0));
    }

    #[test]
    fn percentages() {
        let good = [("5%", 0.05), ("-20%", -0.2), ("2.5 %", 0.025), ("+7%", 0.07), ("0%", 0.0)];
        for (text, part) in good {
            assert_eq!(text.parse::<Percent>().map(Percent::fraction), Ok(part), "{text}");
        }
        let bad = [
            ("5", "the \"%\" is missing"),
            ("0.05", "the \"%\" is missing"),
            ("%", "it does not begin with a number"),
            ("5 percent", "there is no unit \"percent\" for a percentage"),
        ];
        for (text, reason) in bad {
            let error = text.parse::<Percent>().unwrap_err();
            assert_eq!((error.reason.as_str(), error.allowed.as_str()), (reason, "%"), "{text}");
        }
        assert_eq!("2.5 %".parse::<Percent>().unwrap().to_string(), "2.5%");
    }
}
