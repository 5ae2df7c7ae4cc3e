//! Reads the results of a run from the output of its application.

use crate::Recipe;
use interleaf_console::Failure;
use regex_lite::Regex;
use std::ops::RangeInclusive;

/// Valid results of a run. A result is a time or a rate, so it is above 0.
const RESULTS: RangeInclusive<f64> = 1e-12..=1e15;

/// The results of one run of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The result, in the unit of the recipe, 1e-12 to 1e15.
    pub value: f64,
    /// The checksum that the run printed. It is equal in every run of the same problem.
    pub checksum: String,
    /// True if the application reported that it verified its result; false if the recipe has no
    /// pattern `verified`.
    pub is_verified: bool,
    pub figures: Vec<Figure>,
}

/// A figure that a run printed in addition to the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

impl Recipe {
    /// Reads the results in `output`, the output of the application.
    ///
    /// # Errors
    /// If the output lacks the result, the checksum or a figure; if the result is out of range or a
    /// figure no finite number; or if the recipe has the pattern `verified` and nothing in the
    /// output matches it.
    pub fn outcome(&self, output: &str) -> Result<Outcome, Failure> {
        let value = self.number("result", &self.result, output)?;
        if !RESULTS.contains(&value) {
            let text = self.text("result", &self.result, output)?;
            let problem = format!("{}: the result {text} is not from 1e-12 to 1e15", self.name());
            return Err(Failure::new(problem, format!("the pattern is '{}'", self.result)));
        }
        let checksum = self.text("checksum", &self.check, output)?;
        let figure = |it: &crate::FigurePattern| {
            let value = self.number(&it.name, &it.pattern, output)?;
            Ok(Figure { name: it.name.clone(), value, unit: it.unit.clone() })
        };
        let figures = self.figures.iter().map(figure).collect::<Result<_, Failure>>()?;
        if let Some(pattern) = &self.verified
            && !Regex::new(pattern).is_ok_and(|regex| regex.is_match(output))
        {
            return Err(Failure::new(
                format!("{}: its output does not say that the result is right", self.name()),
                format!("the pattern is '{pattern}'; run it by hand with a smaller --footprint"),
            ));
        }
        Ok(Outcome { value, checksum, is_verified: self.verified.is_some(), figures })
    }

    fn number(&self, name: &str, pattern: &str, output: &str) -> Result<f64, Failure> {
        let text = self.text(name, pattern, output)?;
        text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
            let problem = format!("{}: the {name} \"{text}\" is not a number", self.name());
            Failure::new(problem, format!("the pattern is '{pattern}'"))
        })
    }

    /// Returns the first group of the last match of `pattern` in `output`. If there is no match,
    /// the error says that the output has no `name`.
    fn text(&self, name: &str, pattern: &str, output: &str) -> Result<String, Failure> {
        let found = Regex::new(pattern).ok().and_then(|regex| {
            let last = regex.captures_iter(output).last()?;
            last.get(1).map(|it| it.as_str().to_string())
        });
        found.ok_or_else(|| {
            let problem = format!("{}: its output has no {name} ({pattern})", self.name());
            Failure::new(problem, "see whether another version of it prints something else")
        })
    }
}
