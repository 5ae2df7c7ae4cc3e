//! The quality of a measured point, and of a whole measurement: good, noisy with the reasons, or
//! not assessed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The serialized quality of a point for which no reason for noise was found.
const GOOD: &str = "good";

/// The beginning of the serialized quality of a noisy point; its reasons follow.
const NOISY: &str = "noisy: ";

/// The quality of a point or of a whole measurement: `good`, `noisy: ` with the reasons, or another
/// text when the quality was not assessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Quality {
    /// `good`: spread, interference, frequency, caches and placement of the pages are within their
    /// limits.
    Good,
    /// `noisy: ` and the reasons.
    Noisy(String),
    /// Any other text: not assessed, because another tool measured or nothing was measured yet.
    Unassessed(String),
}

impl Default for Quality {
    fn default() -> Self {
        Self::Unassessed(String::new())
    }
}

impl From<String> for Quality {
    fn from(text: String) -> Self {
        match text.strip_prefix(NOISY) {
            Some(reasons) => Self::Noisy(reasons.into()),
            None if text == GOOD => Self::Good,
            None => Self::Unassessed(text),
        }
    }
}

impl From<Quality> for String {
    fn from(quality: Quality) -> Self {
        quality.to_string()
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str(GOOD),
            Self::Noisy(reasons) => write!(f, "{NOISY}{reasons}"),
            Self::Unassessed(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_survives_reading_and_writing() {
        for text in ["good", "noisy: others kept 2.0 CPUs busy", "not told: by hand", ""] {
            assert_eq!(Quality::from(text.to_string()).to_string(), text);
        }
        assert_eq!(Quality::from("noisy: x".to_string()), Quality::Noisy("x".into()));
        assert_eq!(Quality::from("good".to_string()), Quality::Good);
    }
}
