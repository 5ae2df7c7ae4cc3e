//! Reads the lists of values of a sweep file, and numbers the cases that they make.

use interleaf_model::format::{FileError, toml_text::TomlText};
use std::{collections::BTreeSet, fmt};
use toml::Spanned;

/// Maximum number of cases of a sweep, far above any practical sweep. A larger number is probably a
/// mistake in the sweep file.
const CASES_MAX: usize = 1_000_000;

/// A quantity and the text that the quantity was parsed from. Two values are equal if their
/// quantities are equal, whatever their texts.
#[derive(Clone, Debug)]
pub struct WithText<T> {
    pub value: T,
    pub(super) text: String,
}

impl<T: PartialEq> PartialEq for WithText<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

pub(super) fn with_text<T>(value: T, text: &Spanned<String>) -> WithText<T> {
    WithText { value, text: text.get_ref().clone() }
}

/// Returns the product of `factors`, saturated at the maximum of the type.
pub(super) fn product(factors: impl IntoIterator<Item = usize>) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}

/// Checks that there are not too many cases. The error names the position of the field `seeds` in
/// the file, or, if the file has no `seeds`, the position of the field `at`.
pub(super) fn count_checked<T>(
    toml: &TomlText<'_>,
    cases: usize,
    seeds: Option<&Spanned<i64>>,
    at: (&str, &Spanned<T>),
) -> Result<(), FileError> {
    if cases <= CASES_MAX {
        return Ok(());
    }
    let problem = format!("its lists make {cases} cases, more than {CASES_MAX}");
    let hint = "make the lists shorter, or several sweeps of it";
    Err(match seeds {
        Some(seeds) => toml.error("seeds", seeds, problem, hint),
        None => toml.error(at.0, at.1, problem, hint),
    })
}

/// Returns a function that splits `number`, the 0-based index of a case, into the indices of its
/// values. Call the function once for each list, with the length of the list, the fastest varying
/// list first. It returns the index of the case's value in that list.
pub(super) fn pick(number: usize) -> impl FnMut(usize) -> usize {
    let mut rest = number;
    move |length| {
        let at = rest % length;
        rest /= length;
        at
    }
}

/// Checks that a list of names or numbers repeats no value. Otherwise the cases of the repeated
/// value would be computed and counted twice.
pub(super) fn distinct<T: Ord + fmt::Debug>(
    toml: &TomlText<'_>,
    field: &str,
    values: &[Spanned<T>],
) -> Result<(), FileError> {
    let mut known = BTreeSet::new();
    match values.iter().find(|value| !known.insert(value.get_ref())) {
        Some(value) => {
            let problem = format!("{:?} is there twice", value.get_ref());
            Err(toml.error(field, value, problem, "take one of them out"))
        }
        None => Ok(()),
    }
}

/// Reads each of `values`. For an empty list, returns one `None`, so that a field that the file
/// lacks counts as one value.
pub(super) fn or_none<V, T>(
    values: &[V],
    read: impl Fn(&V) -> Result<T, FileError>,
) -> Result<Vec<Option<T>>, FileError> {
    if values.is_empty() {
        return Ok(vec![None]);
    }
    values.iter().map(|value| read(value).map(Some)).collect()
}

/// Like [`or_none`], but also checks that the list repeats no value: "2%" and "2.0%" are equal.
pub(super) fn distinct_or_none<T: PartialEq>(
    toml: &TomlText<'_>,
    field: &str,
    values: &[Spanned<String>],
    read: impl Fn(&Spanned<String>) -> Result<T, FileError>,
) -> Result<Vec<Option<T>>, FileError> {
    let parsed = or_none(values, read)?;
    for (at, value) in values.iter().enumerate() {
        let earlier = parsed[..at].iter().position(|earlier| *earlier == parsed[at]);
        let Some(earlier) = earlier.map(|earlier| values[earlier].get_ref()) else { continue };
        let text = value.get_ref();
        let problem = match text == earlier {
            true => format!("{text:?} is there twice"),
            false => format!("{text:?} is there twice, first as {earlier:?}"),
        };
        return Err(toml.error(field, value, problem, "take one of them out"));
    }
    Ok(parsed)
}

/// Returns the seeds of the list `seed`, or the seeds from 1 to the number `seeds`. If the file has
/// neither field, returns one `None`.
pub(super) fn seeds(
    toml: &TomlText<'_>,
    seed: &[Spanned<i64>],
    seeds: Option<&Spanned<i64>>,
) -> Result<Vec<Option<u64>>, FileError> {
    match (seeds, seed.is_empty()) {
        (None, _) => or_none(seed, |seed| toml.whole("seed", seed, 0..=i64::MAX as u64)),
        (Some(count), true) => {
            Ok((1..=toml.whole("seeds", count, 1..=CASES_MAX as u64)?).map(Some).collect())
        }
        (Some(count), false) => {
            let problem = "there are both seed and seeds";
            Err(toml.error("seeds", count, problem, "give a list of seeds, or how many"))
        }
    }
}
