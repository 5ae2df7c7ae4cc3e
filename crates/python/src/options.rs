//! The options of a call from Python: texts by the name of the option, which are parsed as on the
//! command line.

use interleaf_console::Failure;
use std::{collections::BTreeMap, fmt::Display, str::FromStr};

/// The options that are set in a call: the text of each, by its name.
pub(crate) type Texts = BTreeMap<String, String>;

/// Parses the option `name` by `parse`; `None` if the option is not set. An error of `parse` has
/// the form `PROBLEM: write ALLOWED`, of which `ALLOWED` becomes the hint.
pub(crate) fn parsed<T, E: Display>(
    texts: &Texts,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let Some(text) = texts.get(name) else { return Ok(None) };
    parse(text).map(Some).map_err(|why| refused(name, text, &why.to_string()))
}

/// Returns the error of the option `name`, whose value `text` was rejected for the reason `why`.
pub(crate) fn refused(name: &str, text: &str, why: &str) -> Failure {
    let (problem, hint) = match why.rfind(": write ") {
        Some(at) => (&why[..at], why[at + 2..].to_string()),
        None => (why, format!("correct {name}")),
    };
    Failure::new(format!("{name} = \"{text}\": {problem}"), hint)
}

/// Returns a function that parses a whole number from `least` to `most`.
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
