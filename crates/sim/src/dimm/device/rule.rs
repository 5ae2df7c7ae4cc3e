//! Parses the timing values of device files: a number of clocks, a time, or the larger of the two.

/// Largest number of clocks or ns in a timing value. A larger number is a typing error.
const LIMIT: u64 = 10_000_000;

/// A timing value of a device file: the larger of `clocks` clocks and `ps` picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) clocks: i64,
    pub(super) ps: u64,
}

impl Rule {
    /// Returns the time in clocks of a DRAM whose data rate is `kilotransfers` thousand transfers
    /// per second.
    pub(super) fn at(self, kilotransfers: u64) -> i64 {
        if self.ps == 0 {
            self.clocks
        } else {
            self.clocks.max(clocks(self.ps, kilotransfers) as i64)
        }
    }
}

/// Returns the number of clocks in `ps`, rounded up. An excess of less than a hundredth of a clock
/// over a whole number is ignored, because it may come from a rounded rate such as 1333.333 MT/s.
/// JEDEC's own rounding rule ignores more.
pub(super) fn clocks(ps: u64, kilotransfers: u64) -> u64 {
    let per_clock = 2_000_000_000_u128;
    let product = u128::from(ps) * u128::from(kilotransfers);
    (product.saturating_sub(per_clock / 100)).div_ceil(per_clock) as u64
}

/// Parses `8 nCK`, `5 ns` or `max(8 nCK, 5 ns)`.
pub(super) fn rule(text: &str) -> Result<Rule, String> {
    let inner = text.trim().strip_prefix("max(").and_then(|rest| rest.strip_suffix(')'));
    let Some(inner) = inner else { return part(text) };
    let (first, second) = inner.split_once(',').ok_or("max() has one value, not two")?;
    let (first, second) = (part(first)?, part(second)?);
    let one_each = (first.ps == 0) != (second.ps == 0);
    if !one_each {
        return Err("max() takes clocks and a time".into());
    }
    Ok(Rule { clocks: first.clocks + second.clocks, ps: first.ps + second.ps })
}

fn part(text: &str) -> Result<Rule, String> {
    let (number, unit) = split(text)?;
    match unit {
        "nCK" => {
            let clocks: i64 = number
                .parse()
                .map_err(|_| format!("\"{number}\" is not a whole number of clocks"))?;
            if clocks.unsigned_abs() > LIMIT {
                return Err(format!("{clocks} nCK is more than {LIMIT}"));
            }
            Ok(Rule { clocks, ps: 0 })
        }
        "ns" => Ok(Rule { clocks: 0, ps: thousandths(number)? }),
        "" => Err(format!("\"{text}\" has no unit")),
        unit => Err(format!("there is no unit \"{unit}\" for a timing")),
    }
}

pub(super) const RULE_HINT: &str = "write clocks (8 nCK), a time (5 ns) or max(8 nCK, 5 ns)";

fn split(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-')));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    if number.is_empty() {
        return Err(format!("\"{text}\" does not begin with a number"));
    }
    Ok((number, unit.trim()))
}

/// Parses a number with up to three decimals, and returns it in thousandths: `2.5` is 2500.
fn thousandths(number: &str) -> Result<u64, String> {
    let wrong = || format!("\"{number}\" is not a number with at most three decimals");
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if decimals.len() > 3 || whole.is_empty() {
        return Err(wrong());
    }
    let value = format!("{whole}{decimals:0<3}").parse::<u64>().map_err(|_| wrong())?;
    if value / 1000 > LIMIT {
        return Err(format!("{number} is more than {LIMIT}"));
    }
    Ok(value)
}

/// Parses a quantity such as `2.5 ns`, whose unit must be `unit`. Returns the quantity in
/// thousandths of the unit.
pub(in crate::dimm) fn quantity(text: &str, unit: &str) -> Result<u64, String> {
    let (number, given) = split(text)?;
    match given {
        given if given == unit => thousandths(number),
        "" => Err(format!("\"{text}\" has no unit")),
        given => Err(format!("\"{given}\" is not {unit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let good = [
            ("8 nCK", 8, 0),
            ("-2nCK", -2, 0),
            ("5 ns", 0, 5000),
            ("max(8 nCK, 2.5 ns)", 8, 2500),
            ("max(2.5 ns, 8 nCK)", 8, 2500),
        ];
        for (text, clocks, ps) in good {
            assert_eq!(rule(text), Ok(Rule { clocks, ps }), "{text}");
        }
        let bad = [
            "",
            "8",
            "ns",
            "5 us",
            "1.5 nCK",
            "1.2345 ns",
            "max(8 nCK)",
            "max(8 nCK, 9 nCK)",
            "max(1 ns, 2 ns)",
            "-5 ns",
            "99999999999 ns",
            "99999999999999999999 nCK",
            "max(8 nCK",
        ];
        for text in bad {
            assert!(rule(text).is_err(), "{text}");
        }
        assert_eq!(quantity("6400 MT/s", "MT/s"), Ok(6_400_000));
        assert!(quantity("6400", "MT/s").is_err() && quantity("6400 MHz", "MT/s").is_err());
    }

    #[test]
    fn times_are_rounded_up_to_clocks() {
        let table = [
            (5000, 6_400_000, 16),
            (5000, 4_400_000, 11),
            (32_000, 4_400_000, 71),
            (32_000, 4_800_000, 77),
            (295_000, 6_400_000, 944),
            (36_000, 1_333_333, 24),
            (7500, 1_066_667, 4),
            (312, 6_400_000, 1),
            (316, 6_400_000, 2),
        ];
        for (ps, kilotransfers, expected) in table {
            assert_eq!(clocks(ps, kilotransfers), expected, "{ps} at {kilotransfers}");
        }
    }
}
