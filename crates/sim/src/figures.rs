//! Reads the numbers of a device file. Each number is a pair: the value with its unit, and the
//! source of the value.
//!
//! A source is a key of the file's table `[sources]`, or a reason that begins with `derived: ` or
//! `assumed: `. A number without a source is refused.
//!
//! ```toml
//! [sources]
//! pcie = "PCI Express Base Specification 3.1"
//!
//! [link]
//! rate = ["8 GT/s", "pcie"]
//! delay = ["125 ns", "assumed: both ends of the link, one way"]
//! ```

use core::{ops::RangeInclusive, str::FromStr};
use interleaf_model::format::{FileError, toml_text::TomlText};
use std::collections::BTreeMap;
use toml::Spanned;

/// The pair of a value with its unit and of its source, with the pair's position in the file.
pub type Sourced = Spanned<[String; 2]>;

const FS_PER_NS: f64 = 1e6;

/// Reads the numbers of one device file, and refuses a number without a source.
pub struct FigureReader<'a> {
    /// The text of the file.
    pub text: &'a TomlText<'a>,
    /// The sources of the file, by key.
    pub sources: &'a BTreeMap<String, String>,
}

/// Returns true if `source` is "derived: " or "assumed: ", followed by a text that is not empty.
pub(crate) fn has_reason(source: &str) -> bool {
    let explained = |word| source.strip_prefix(word).is_some_and(|how| !how.trim().is_empty());
    ["derived: ", "assumed: "].into_iter().any(explained)
}

impl FigureReader<'_> {
    /// Reads the value of `pair`, a number of `unit` within `range`. Error messages name `field`.
    ///
    /// # Errors
    /// If the pair has no known source, another unit, or a number outside of the range.
    pub fn number(
        &self,
        field: &str,
        pair: &Sourced,
        unit: &str,
        range: RangeInclusive<f64>,
    ) -> Result<f64, FileError> {
        let [value, source] = pair.get_ref();
        if !(self.sources.contains_key(source) || has_reason(source)) {
            let problem = format!("\"{source}\" is not a source of this file");
            let hint = "name one under [sources], or say \"derived: how\" or \"assumed: why\"";
            return Err(self.text.error(field, pair, problem, hint));
        }
        let (low, high) = (*range.start(), *range.end());
        let hint = format!("write a number and its unit, from {low} to {high}: \"{high} {unit}\"");
        let number = value.strip_suffix(unit).map(str::trim).and_then(|n| f64::from_str(n).ok());
        let Some(number) = number else {
            let problem = format!("\"{value}\" is not a number of {unit}");
            return Err(self.text.error(field, pair, problem, hint));
        };
        if !range.contains(&number) {
            let problem = format!("{value} is not between {low} and {high} {unit}");
            return Err(self.text.error(field, pair, problem, hint));
        }
        Ok(number)
    }

    /// Reads the value of `pair`, a whole number of `unit` within `range`. Error messages name
    /// `field`.
    ///
    /// # Errors
    /// If [`number`](Self::number) fails, or the number has decimals.
    pub fn whole(
        &self,
        field: &str,
        pair: &Sourced,
        unit: &str,
        range: RangeInclusive<u32>,
    ) -> Result<u32, FileError> {
        let limits = f64::from(*range.start())..=f64::from(*range.end());
        let number = self.number(field, pair, unit, limits)?;
        if number.fract() == 0.0 {
            return Ok(number as u32);
        }
        let problem = format!("\"{}\" is not a whole number", pair.get_ref()[0]);
        Err(self.text.error(field, pair, problem, "write a number without decimals"))
    }

    /// Reads the value of `pair`, a time of 0 to `most_ns` nanoseconds. Returns femtoseconds.
    ///
    /// # Errors
    /// If [`number`](Self::number) fails.
    pub fn time_fs(&self, field: &str, pair: &Sourced, most_ns: f64) -> Result<u64, FileError> {
        Ok((self.number(field, pair, "ns", 0.0..=most_ns)? * FS_PER_NS).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_unit_a_range_and_a_source() {
        let text = TomlText::new("card.toml", "pair = [\"1.5 ns\", \"s\"]");
        let sources = BTreeMap::from([("s".to_owned(), "a data sheet".to_owned())]);
        let reader = FigureReader { text: &text, sources: &sources };
        let pair =
            |value: &str, source: &str| Spanned::new(0..1, [value.to_owned(), source.to_owned()]);
        assert_eq!(reader.time_fs("a.b", &pair("1.5 ns", "s"), 10.0), Ok(1_500_000));
        assert_eq!(reader.whole("a.b", &pair("64 B", "assumed: why"), "B", 1..=64), Ok(64));
        let wrong = [
            ("1.5 us", "s", "card.toml:1: a.b: \"1.5 us\" is not a number of ns"),
            ("11 ns", "s", "11 ns is not between 0 and 10 ns"),
            ("1 ns", "t", "\"t\" is not a source of this file"),
            ("1 ns", "assumed: ", "is not a source of this file"),
        ];
        for (value, source, expected) in wrong {
            let why = reader.time_fs("a.b", &pair(value, source), 10.0).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        }
        let why = reader.whole("a.b", &pair("1.5 B", "s"), "B", 1..=64).unwrap_err().to_string();
        assert!(why.contains("is not a whole number"), "{why}");
    }
}
