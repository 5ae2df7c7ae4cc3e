//! Reads TOML files with line numbers in errors, for every TOML format of the workspace.
//!
//! The fields of a file are read into structs of [`Spanned`] values. Each function that checks and
//! converts a field takes the field's name. It returns the value, or an error that names the field
//! and its line.

use super::{
    FileError,
    inherit::{self, Table},
    names::suggestion,
};
use crate::{
    provenance::{Figure, Provenance},
    units::{Bytes, UnitError},
};
use core::{fmt::Display, ops::RangeInclusive, str::FromStr};
use serde::{Deserialize, de::DeserializeOwned};
use toml::{Spanned, de::DeValue};

/// The smallest number that counts as above 0. Smaller numbers are refused like 0, because their
/// logarithms and ratios may not be finite.
const LEAST_POSITIVE: f64 = 1e-12;

/// Checks that `text` is one line of text, with at least one word.
///
/// # Errors
/// If the text is empty, or has a line break or another control character: the problem and the hint
/// of an error message.
pub fn check_line(text: &str) -> Result<(), (String, &'static str)> {
    if text.trim().is_empty() {
        return Err(("it is empty".into(), "write at least one word"));
    }
    if text.contains(char::is_control) {
        let problem = format!("{text:?} has a line break or a control character");
        return Err((problem, "write it in one line of plain text"));
    }
    Ok(())
}

/// The name and the text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedText {
    /// The name of the file, for error messages.
    pub file: String,
    /// The whole text of the file.
    pub text: String,
}

/// A TOML file, with functions that check its values and convert them to types of the model.
pub struct TomlText<'a> {
    file: &'a str,
    text: &'a str,
    /// The files that this file inherits from, its direct base first.
    inherited: &'a [NamedText],
}

impl<'a> TomlText<'a> {
    /// Creates a `TomlText` for the file `file`, which contains `text`.
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, inherited: &[] }
    }

    /// Creates a `TomlText` for the file `file`, which contains `text` and inherits from the files
    /// `inherited`, its direct base first.
    pub const fn with_inherited(file: &'a str, text: &'a str, inherited: &'a [NamedText]) -> Self {
        Self { file, text, inherited }
    }

    /// The name of the file.
    pub const fn file(&self) -> &'a str {
        self.file
    }

    /// The text of the file.
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Parses the whole file as a `T`.
    ///
    /// # Errors
    /// If the text is not TOML, lacks a key, or has an unknown key or a value of a wrong type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|why| self.parse_error(&why))
    }

    /// Parses the whole file as a `T`, whose fields are the keys of the schema `expected`. If the
    /// file has another schema, the error says so, and not that a key is unknown.
    ///
    /// # Errors
    /// If the text is not TOML, lacks a key, or has an unknown key or a value of a wrong type.
    pub fn read_as<T: DeserializeOwned>(&self, expected: &str) -> Result<T, FileError> {
        self.read().map_err(|mut why| {
            if why.problem == "missing field `schema`" {
                why.hint = format!("add schema = \"{expected}\"");
            }
            let head: Option<Head> = toml::from_str(self.text).ok();
            let schema = head.and_then(|head| head.schema);
            schema.and_then(|schema| self.schema(&schema, expected).err()).unwrap_or(why)
        })
    }

    /// Parses `table` as a `T`. `table` is the result of merging the tables of [`Self::tables`].
    ///
    /// # Errors
    /// If the table lacks a key, or has an unknown key or a value of a wrong type.
    pub fn read_merged<T: DeserializeOwned>(&self, table: Table<'_>) -> Result<T, FileError> {
        let whole = Spanned::new(0..self.text.len(), table);
        T::deserialize(toml::Deserializer::from(whole)).map_err(|why| self.parse_error(&why))
    }

    /// The table of the file, then the tables of the files that it inherits from.
    ///
    /// # Errors
    /// If a text is not TOML.
    pub fn tables(&self) -> Result<Vec<Table<'a>>, FileError> {
        let mut tables = vec![];
        for (start, file, text) in self.files() {
            let table = Table::parse(text);
            let table = table.map_err(|why| TomlText::new(file, text).parse_error(&why))?;
            tables.push(inherit::moved(table.into_inner(), start));
        }
        Ok(tables)
    }

    /// Converts an error of the TOML parser to an error with the position of the problem.
    fn parse_error(&self, why: &toml::de::Error) -> FileError {
        let start = why.span().map(|span| span.start);
        // For a missing key, the parser's error has the span of the table that lacks the key, or of
        // the first key of the file. The first key is not where the problem is, so its span is not
        // used.
        let in_table = |at: &usize| self.at(*at).starts_with(['[', '{']);
        let missing = why.message().starts_with("missing field");
        let place = start.filter(|at| !missing || in_table(at));
        let problem = in_plain_words(why.message());
        let hint = hint_for(&problem);
        FileError {
            file: place.map_or(self.file, |at| self.file_at(at).1).into(),
            line: place.map(|at| self.line(at)),
            field: place.and_then(|at| self.key_at(at)),
            problem,
            hint,
        }
    }

    /// This file and each file that it inherits from: offset, name and text. The offset of a file
    /// is added to its spans, so that spans of different files are distinct.
    fn files(&self) -> impl Iterator<Item = (usize, &'a str, &'a str)> {
        let own = core::iter::once((self.file, self.text));
        let inherited = self.inherited.iter().map(|it| (it.file.as_str(), it.text.as_str()));
        own.chain(inherited).scan(0, |start, (file, text)| {
            let at = *start;
            // An error may have the end of a text as its span. One byte is added to the length of
            // each text, so that this end is not also the start of the next text.
            *start += text.len() + 1;
            Some((at, file, text))
        })
    }

    /// Returns the offset, the name and the text of the file whose text contains the position `at`.
    fn file_at(&self, at: usize) -> (usize, &'a str, &'a str) {
        let before = self.files().take_while(|(start, ..)| *start <= at);
        before.last().unwrap_or((0, self.file, self.text))
    }

    /// Returns the name of the base file that has `value`; `None` if this file itself has it.
    pub fn inherited_from<T>(&self, value: &Spanned<T>) -> Option<&'a str> {
        let (start, file, _) = self.file_at(value.span().start);
        (start > 0).then_some(file)
    }

    /// Returns the text from the position `at` to the end of the file that contains it.
    fn at(&self, at: usize) -> &'a str {
        let (start, _, text) = self.file_at(at);
        text.get(at - start..).unwrap_or_default()
    }

    /// Creates an error about `value`, the value of `field`. `problem` says what is wrong, and
    /// `hint` what to write instead.
    pub fn error<T>(
        &self,
        field: &str,
        value: &Spanned<T>,
        problem: impl ToString,
        hint: impl ToString,
    ) -> FileError {
        let (start, file, _) = self.file_at(value.span().start);
        let heir = match start {
            0 => String::new(),
            _ => format!(" ({} inherits it)", self.file),
        };
        FileError {
            file: file.into(),
            line: Some(self.line(value.span().start)),
            field: Some(field.into()),
            problem: problem.to_string() + &heir,
            hint: hint.to_string(),
        }
    }

    /// Returns the position of `value`, the value of `field`, as errors print it: file, line and
    /// field.
    pub fn place<T>(&self, field: &str, value: &Spanned<T>) -> String {
        let at = value.span().start;
        format!("{}:{}: {field}", self.file_at(at).1, self.line(at))
    }

    /// Creates an error about `field` without a line, for a problem of the file as a whole.
    pub fn file_error(&self, field: &str, problem: &str, hint: &str) -> FileError {
        FileError {
            file: self.file.into(),
            line: None,
            field: Some(field.into()),
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// Creates an error about the key at `path`, such as `file[2].name`: tables are separated by a
    /// point, and entries of lists are counted from 0. The error has the line of the value, if the
    /// file has this key.
    pub fn key_error(&self, path: &str, problem: &str, hint: &str) -> FileError {
        let line = Table::parse(self.text).ok().and_then(|table| {
            let start = value_at(table.get_ref(), path)?.span().start;
            Some(self.line(start))
        });
        FileError { line, ..self.file_error(path, problem, hint) }
    }

    /// Returns the value of `field` if it is above 0 and at most `limit`. Values below 1e-12 are
    /// refused like 0.
    ///
    /// # Errors
    /// If the value is out of this range.
    pub fn positive(
        &self,
        field: &str,
        value: &Spanned<f64>,
        limit: f64,
    ) -> Result<f64, FileError> {
        let number = *value.get_ref();
        if number >= LEAST_POSITIVE && number <= limit {
            return Ok(number);
        }
        let problem = if number > 0.0 && number < LEAST_POSITIVE {
            format!("{number:?} is as good as 0")
        } else {
            format!("{number:?} is not above 0 and at most {limit}")
        };
        Err(self.error(field, value, problem, format!("write a number above 0, up to {limit}")))
    }

    /// Returns the value of `field` if it is from 0 to `limit`. Otherwise the error has the remedy
    /// `hint`.
    ///
    /// # Errors
    /// If the value is out of this range.
    pub fn zero_or_above(
        &self,
        field: &str,
        value: &Spanned<f64>,
        limit: f64,
        hint: &str,
    ) -> Result<f64, FileError> {
        let number = *value.get_ref();
        if (0.0..=limit).contains(&number) {
            return Ok(number);
        }
        let problem = format!("{number:?} is not between 0 and {limit}");
        Err(self.error(field, value, problem, hint))
    }

    /// Returns the value of `field` if it is between 0 and 1.
    ///
    /// # Errors
    /// If the value is out of this range.
    pub fn part(&self, field: &str, value: &Spanned<f64>) -> Result<f64, FileError> {
        let number = *value.get_ref();
        if (0.0..=1.0).contains(&number) {
            return Ok(number);
        }
        let problem = format!("{number:?} is not between 0 and 1");
        Err(self.error(field, value, problem, "write a fraction of 1, such as 0.75"))
    }

    /// Returns the value of `field` as a `T`. `hint` returns the remedy for the error.
    ///
    /// # Errors
    /// If the value cannot be parsed as a `T`.
    pub fn parsed<T>(
        &self,
        field: &str,
        value: &Spanned<String>,
        hint: impl Fn() -> String,
    ) -> Result<T, FileError>
    where
        T: FromStr,
        T::Err: ToString,
    {
        value
            .get_ref()
            .parse()
            .map_err(|why: T::Err| self.error(field, value, why.to_string(), hint()))
    }

    /// Returns the value of `field` as a `T`, a quantity with a unit.
    ///
    /// # Errors
    /// If the value is not a quantity of the type `T`.
    pub fn quantity<T>(&self, field: &str, value: &Spanned<String>) -> Result<T, FileError>
    where
        T: FromStr<Err = UnitError>,
    {
        value.get_ref().parse().map_err(|why: UnitError| {
            let one_of = if why.allowed.contains(',') { "a unit, one of" } else { "the unit" };
            let hint = format!("write a number and {one_of} {}", why.allowed);
            self.error(field, value, why, hint)
        })
    }

    /// Returns the value of `field` as a size above 0.
    ///
    /// # Errors
    /// If the value is not a size, or is 0.
    pub fn size(&self, field: &str, value: &Spanned<String>) -> Result<Bytes, FileError> {
        let size: Bytes = self.quantity(field, value)?;
        if size.get() > 0 {
            return Ok(size);
        }
        let problem = format!("{} is not above 0", value.get_ref());
        Err(self.error(field, value, problem, "write a size such as 48GiB"))
    }

    /// Returns the value of `field` if it is in `range`.
    ///
    /// # Errors
    /// If the value is out of `range`.
    pub fn whole<T>(
        &self,
        field: &str,
        value: &Spanned<i64>,
        range: RangeInclusive<T>,
    ) -> Result<T, FileError>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let number = T::try_from(*value.get_ref()).ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (low, high) = range.into_inner();
            let problem = format!("{} is not between {low} and {high}", value.get_ref());
            self.error(field, value, problem, format!("write a whole number from {low} to {high}"))
        })
    }

    /// Returns the value of `field` if it is one line of text, with at least one word.
    ///
    /// # Errors
    /// If the value is empty, or has a line break or another control character.
    pub fn said(&self, field: &str, value: &Spanned<String>) -> Result<String, FileError> {
        check_line(value.get_ref())
            .map_err(|(problem, hint)| self.error(field, value, problem, hint))?;
        Ok(value.get_ref().clone())
    }

    /// Builds a figure from the values of the keys `provenance` and `source` in the table named
    /// `field`.
    ///
    /// # Errors
    /// If the provenance is unknown, or the source is empty.
    pub fn figure(
        &self,
        field: &str,
        provenance: &Spanned<String>,
        source: &Spanned<String>,
    ) -> Result<Figure, FileError> {
        let hint = || "write measured, published, simulated or assumed".to_string();
        let name = format!("{field}.provenance");
        let provenance: Provenance = self.parsed(&name, provenance, hint)?;
        Ok(Figure { provenance, source: self.said(&format!("{field}.source"), source)? })
    }

    /// Checks that `value`, the value of the key `schema`, is `expected`.
    ///
    /// # Errors
    /// If the value is not `expected`.
    pub fn schema(&self, value: &Spanned<String>, expected: &str) -> Result<(), FileError> {
        if value.get_ref() == expected {
            return Ok(());
        }
        let problem = format!("\"{}\" is not \"{expected}\"", value.get_ref());
        let kind =
            |schema: &str| Some(schema.strip_prefix("interleaf.")?.split('/').next()?.into());
        let kinds: [Option<String>; 2] = [kind(value.get_ref()), kind(expected)];
        let hint = match kinds {
            [Some(own), Some(other)] if own != other => format!(
                "this is a file of the kind \"{own}\": name one of the kind \"{other}\", or write \
                 schema = \"{expected}\""
            ),
            _ => format!("write schema = \"{expected}\""),
        };
        Err(self.error("schema", value, problem, hint))
    }

    fn line(&self, at: usize) -> usize {
        let (start, _, text) = self.file_at(at);
        let before = &text.as_bytes()[..(at - start).min(text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Returns the key in the line that contains the position `at`; `None` if the line has no key.
    fn key_at(&self, at: usize) -> Option<String> {
        let line = self.file_at(at).2.lines().nth(self.line(at) - 1)?;
        let key = line.split('=').next()?.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']');
        (!key.is_empty() && key.chars().all(plain)).then(|| key.to_string())
    }
}

/// Returns the value at `path` in `table`; `None` if the table has no such key. `path` has the form
/// that [`TomlText::key_error`] describes.
fn value_at<'v, 'i>(table: &'v Table<'i>, path: &str) -> Option<&'v Spanned<DeValue<'i>>> {
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let (key, number) = match key.split_once('[') {
        Some((key, number)) => (key, Some(number.strip_suffix(']')?.parse::<usize>().ok()?)),
        None => (key, None),
    };
    let value = table.get(key)?;
    let value = match number {
        Some(number) => value.get_ref().as_array()?.get(number)?,
        None => value,
    };
    rest.map_or(Some(value), |rest| value_at(value.get_ref().as_table()?, rest))
}

/// The key `schema` alone, which every TOML file of the workspace may have. Other keys are ignored.
#[derive(Deserialize)]
struct Head {
    schema: Option<Spanned<String>>,
}

/// The part of an error message that describes a figure, such as a timing of a memory module, which
/// is not written as a list of a value and its source.
const PAIR: &str = "expected a list of a value and its source";

/// Returns the message of the TOML parser without the names of Rust types.
fn in_plain_words(message: &str) -> String {
    let words = [
        ("expected i64", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u16", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("invalid type: map", "invalid type: a table or a date"),
        ("invalid type: sequence", "invalid type: a list"),
        ("expected a string", "expected text in quotes"),
        ("expected an array of length 2", PAIR),
        ("expected a tuple of size 2", PAIR),
        ("expected a tuple of size 3", "expected a list of three values"),
    ];
    let message = message.trim().replace('\n', ", ");
    // After "expected struct", the parser's message has the name of a Rust struct, which means
    // nothing to a user. It is left out.
    let message = match message.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected a table"),
        None => message,
    };
    words.iter().fold(message, |message, (rust, plain)| message.replace(rust, plain))
}

/// Returns the remedy for a problem that the parser reported.
fn hint_for(problem: &str) -> String {
    let table = [
        (UNKNOWN, "correct the spelling of the key, or take it out; comments begin with #"),
        (
            "missing field",
            "add the key; `interleaf show --schema NAME` prints the keys of each kind of file",
        ),
        ("duplicate key", "take one of them out"),
    ];
    let ends = [
        ("expected text in quotes", "write the value in quotes, a quantity with its unit"),
        ("expected a whole number", "write a whole number, without quotes and without a point"),
        ("expected a number", "write a number, without quotes and without a unit"),
        ("expected a list", "write a list in brackets; [[table]] where it is one of tables"),
        ("expected a table", "write a table in braces: { key = value }"),
        ("expected a boolean", "write true or false"),
        (PAIR, "write the value and its source: [\"57 nCK\", \"assumed: the reason\"]"),
    ];
    let starts = table.iter().find(|(start, _)| problem.starts_with(start));
    let hint = starts.or_else(|| ends.iter().find(|(end, _)| problem.ends_with(end))).map_or(
        "correct the line; `interleaf show --schema NAME` prints the keys of each kind of file",
        |(_, hint)| hint,
    );
    // The parser's message has the unknown key in quotes, and then each allowed key in quotes.
    let mut quoted = problem.split('`').skip(1).step_by(2);
    let wrong = quoted.next().filter(|_| problem.starts_with(UNKNOWN));
    let known: Vec<&str> = quoted.collect();
    wrong.map_or_else(String::new, |wrong| suggestion(wrong, &known)) + hint
}

/// The start of the parser's message for a key that the format does not have.
const UNKNOWN: &str = "unknown field";
