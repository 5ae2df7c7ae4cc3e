//! The options of a call from Python. They are texts, which are parsed as on the command line.

use interleaf_console::Failure;
use std::{collections::BTreeMap, fmt::Display, str::FromStr};

/// A map from the name of each option that a call sets to its text.
pub(crate) type Texts = BTreeMap<String, String>;

/// Parses the option `name` with `parse`. Returns `None` if the call does not set it. An error of
/// `parse` has the form `PROBLEM: write ALLOWED`; the hint becomes `write ALLOWED`.
pub(crate) fn parsed<T, E: Display>(
    texts: &Texts,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let Some(text) = texts.get(name) else { return Ok(None) };
    parse(text).map(Some).map_err(|why| refused(name, text, &why.to_string()))
}

/// Returns the error that `text` was rejected as the value of the option `name`, because of `why`.
pub(crate) fn refused(name: &str, text: &str, why: &str) -> Failure {
    let (problem, hint) = match why.rfind(": write ") {
        Some(at) => (&why[..at], why[at + 2..].to_string()),
        None => (why, format!("correct {name}")),
    };
    Failure::new(format!("{name} = \"{text}\": {problem}"), hint)
}

/// Returns a function that parses an integer from `least` to `most`.
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
