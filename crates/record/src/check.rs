//! Checks of a document before it is rendered. They go beyond the types of the document's fields.
//!
//! A check has two kinds of rules. A rule for one number follows from the name of its field, and
//! holds in all schemas ([`check_numbers`]): a field that ends in `_ns` is not negative, and a
//! `share` is from 0 to 1. A rule that relates several fields, such as one share per tier, is in
//! the implementation of [`Check`] for the document's struct.

use serde_json::Value;

/// An invalid field of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    /// Path of the field in the document: `rows[3].tier_share`.
    pub field: String,
    /// The fault of the value, and the allowed values.
    pub problem: String,
}

pub type Checked = Result<(), InvalidField>;

/// A document whose fields are checked before it is rendered.
pub trait Check {
    /// Checks the rules that relate several fields. By default there are none.
    ///
    /// # Errors
    /// The first invalid field.
    fn check(&self) -> Checked {
        Ok(())
    }
}

/// Returns the error that `field` is invalid, with the text `problem`.
pub fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Checked {
    Err(InvalidField { field: field.into(), problem: problem.into() })
}

/// Returns an error unless the list `field`, which has `found` elements, is as long as the list
/// `of`, which has `wanted` elements.
pub fn same_length(field: impl Into<String>, found: usize, wanted: usize, of: &str) -> Checked {
    if found == wanted {
        return Ok(());
    }
    invalid(
        field,
        format!("it has {found} elements, and {of} has {wanted}: one for each is needed"),
    )
}

/// Like [`same_length`], but the list `field` may also be empty.
pub fn same_length_or_empty(
    field: impl Into<String>,
    found: usize,
    wanted: usize,
    of: &str,
) -> Checked {
    if found == 0 { Ok(()) } else { same_length(field, found, wanted, of) }
}

/// Returns an error if the list `field`, which has `found` elements, is empty.
pub fn not_empty(field: impl Into<String>, found: usize) -> Checked {
    if found > 0 { Ok(()) } else { invalid(field, "it is empty: one element or more is needed") }
}

/// Returns an error about `field` if `low` is above `high`.
pub fn in_order(field: impl Into<String>, [low, high]: [f64; 2]) -> Checked {
    if low <= high {
        return Ok(());
    }
    invalid(field, format!("{low} is above {high}: the lower end comes first"))
}

/// Returns an error about `field` if `value` is below 0.
pub fn not_negative(field: impl Into<String>, value: f64) -> Checked {
    if value < 0.0 {
        return invalid(field, format!("{value} is below 0"));
    }
    Ok(())
}

/// Returns an error about `field` unless its text `name` can be an HTML ID and a file name.
pub fn identifier(field: impl Into<String>, name: &str) -> Checked {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if !name.is_empty() && name.chars().all(plain) {
        return Ok(());
    }
    let problem = format!("{name:?} is not a name of ASCII letters, digits, '-', '_', '.' and '+'");
    invalid(field, problem)
}

/// The largest integer that a document may have. Integers up to 2^53 are exact in JSON (RFC 8259,
/// section 6), and sums of a few of them fit in 64 bits.
const WHOLE_MAX: u64 = 1 << 53;

/// The limits of the magnitude of a number that is neither an integer nor 0. Within them, products
/// and quotients of a few numbers are finite.
const NUMBER_MAX: f64 = 1e24;
const NUMBER_MIN: f64 = 1e-60;

/// Name of the only field whose integers may exceed [`WHOLE_MAX`]: a seed has 64 bits.
const SEED: &str = "seed";

/// A field whose name ends in one of these texts must not be negative.
const NOT_NEGATIVE: [&str; 12] =
    ["_s", "_ns", "_us", "_ms", "_gbps", "_bytes", "_j", "_w", "_kb", "iops", "speedup", "spread"];

/// The largest share that a document may have. A sum of rounded shares may slightly exceed 1.
const SHARE_MAX: f64 = 1.0 + 1e-6;

/// Checks that each number is finite and of a plausible magnitude. If the name of its field ends in
/// one of `NOT_NEGATIVE`, the number must be at least 0. If the name ends in `share` or
/// `share_of_time`, the number must be from 0 to 1.
///
/// # Errors
/// The first invalid number.
pub fn check_numbers(document: &Value) -> Checked {
    check_value(document, &mut String::new(), "")
}

fn check_value(value: &Value, path: &mut String, name: &str) -> Checked {
    let length = path.len();
    match value {
        Value::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                path.push_str(&format!("[{at}]"));
                check_value(element, path, name)?;
                path.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                path.push_str(dot);
                path.push_str(name);
                check_value(field, path, name)?;
                path.truncate(length);
            }
        }
        Value::Number(number) => check_number(number, path, name)?,
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(())
}

fn check_number(number: &serde_json::Number, path: &str, name: &str) -> Checked {
    let value = number.as_f64().unwrap_or(f64::NAN);
    let size = value.abs();
    if number.is_u64() || number.is_i64() {
        if name != SEED && size > WHOLE_MAX as f64 {
            return invalid(path, format!("{number} is larger than 2^53, the most it can be"));
        }
    } else if !(value == 0.0 || (NUMBER_MIN..=NUMBER_MAX).contains(&size)) {
        let allowed = format!("0, or of a size from {NUMBER_MIN:e} to {NUMBER_MAX:e}");
        return invalid(path, format!("{number} is out of range: it is {allowed}"));
    }
    let is_part = name.ends_with("share") || name.ends_with("share_of_time");
    if is_part && !(0.0..=SHARE_MAX).contains(&value) {
        return invalid(path, format!("{number} is not a part from 0 to 1"));
    }
    if value < 0.0 && NOT_NEGATIVE.iter().any(|end| name.ends_with(end)) {
        return invalid(path, format!("{number} is negative: 0 is the least it can be"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn problem(text: &str) -> Option<(String, String)> {
        let checked = check_numbers(&serde_json::from_str(text).unwrap());
        checked.err().map(|wrong| (wrong.field, wrong.problem))
    }

    #[test]
    fn numbers_go_by_the_names_of_their_fields() {
        for good in [
            "{\"a_ns\": [0, 1.5], \"regret\": -0.1, \"read_share\": 1.0, \"seed\": 1.8e19}",
            "{\"seed\": 18446744073709551615, \"a\": null, \"b\": [\"1e308\"]}",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for (bad, field, word) in [
            ("{\"rows\": [{\"x\": 1}, {\"a_ns\": [0, -1]}]}", "rows[1].a_ns[1]", "negative"),
            ("{\"a\": 1e308}", "a", "out of range"),
            ("{\"a\": 1e-300}", "a", "out of range"),
            ("{\"a\": 18446744073709551615}", "a", "2^53"),
            ("{\"tier_share\": [0.5, 1.5]}", "tier_share[1]", "from 0 to 1"),
        ] {
            let (found, why) = problem(bad).unwrap();
            assert!(found == field && why.contains(word), "{found}: {why}");
        }
    }
}
