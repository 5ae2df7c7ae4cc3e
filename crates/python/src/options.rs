//! Options of a call: texts by name, which are parsed as on the command line.

use interleaf_console::Failure;
use std::{collections::BTreeMap, fmt::Display, str::FromStr};

/// The options that are set in a call.
pub(crate) type Texts = BTreeMap<String, String>;

/// Parses the option `name` if it is set. An error of `parse` has the form `PROBLEM: write
/// ALLOWED`.
pub(crate) fn parsed<T, E: Display>(
    texts: &Texts,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let Some(text) = texts.get(name) else { return Ok(None) };
    parse(text).map(Some).map_err(|why| refused(name, text, &why.to_string()))
}

/// The error of an option whose value `text` was rejected for the reason `why`.
pub(crate) fn refused(name: &str, text: &str, why: &str) -> Failure {
    let (problem, hint) = match why.rfind(": write ") {
        Some(at) => (&why[..at], why[at + 2..].to_string()),
        None => (why, format!("correct {name}")),
    };
    Failure::new(format!("{name} = \"{text}\": {problem}"), hint)
}

/// Parses a whole number from `least` to `most`.
pub(crate) fn whole<T: FromStr + PartialOrd + Display>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let number = text.parse::<T>().ok().filter(|number| (&least..=&most).contains(&number));
        number.ok_or_else(|| {
            format!("it is not a whole number from {least} to {most}: write one such as {least}")
        })
    }
}
