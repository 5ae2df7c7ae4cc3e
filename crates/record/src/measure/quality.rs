//! The quality of a measured point, and of a whole measurement: good, noisy with the reasons, or
//! not assessed. The limits below decide whether a point is noisy.

use super::MeasuredPoint;
use interleaf_measure::idle;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A point is noisy if the spread of its repetitions, or the relative change of the core frequency,
/// exceeds this fraction.
const SPREAD_MAX: f64 = 0.05;
/// A point is noisy if other programs took more than this number of CPUs per CPU of the
/// measurement, or the hypervisor took more than half of this number. The error of the kernel's CPU
/// times, which are in ticks, is added to both limits.
const OTHERS_MAX: f64 = 0.1;
/// A point is noisy if more than this fraction of its pages is on other nodes than the weights
/// demand.
const OFF_MAX: f64 = 0.01;
/// A point is noisy if more than this fraction of its memory fits into the last-level caches,
/// because it then measures the caches.
const CACHEABLE_MAX: f64 = 1.0 / idle::LAST_LEVEL_FACTOR as f64;

/// The text for a point of good quality in a document.
const GOOD: &str = "good";

/// The start of the text for a noisy point in a document. The reasons follow.
const NOISY: &str = "noisy: ";

/// The quality of a point or of a whole measurement. In a document it is a text: `good`, `noisy: `
/// with the reasons, or another text if the quality was not assessed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Quality {
    /// Spread, interference, frequency, caches and placement of pages are within their limits.
    Good,
    /// The point is noisy, for these reasons.
    Noisy(String),
    /// The quality was not assessed, because another tool measured, or because nothing is measured
    /// yet.
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

impl MeasuredPoint {
    /// Assesses the quality of the point: `Good`, or `Noisy` with all reasons.
    pub(super) fn assess(&self) -> Quality {
        let mut whys = vec![];
        let cpus = f64::from(self.threads.max(1));
        let contamination = &self.contamination;
        if self.spread > SPREAD_MAX {
            whys.push(format!("repeats spread by {:.0} %", 100.0 * self.spread));
        }
        // The kernel counts CPU time in ticks, mostly of 10 ms. So an error of two ticks (0.02 s)
        // over the duration of the point is added to both limits.
        let ticks = 0.02 / self.took_s.max(0.01);
        if contamination.others_cpus > OTHERS_MAX * cpus + ticks {
            whys.push(format!("others kept {:.1} CPUs busy", contamination.others_cpus));
        }
        if contamination.stolen_cpus > OTHERS_MAX * cpus / 2.0 + ticks {
            whys.push(format!("the host took {:.2} CPUs away", contamination.stolen_cpus));
        }
        if let Some(change) = contamination.frequency_change.filter(|it| *it > SPREAD_MAX) {
            whys.push(format!("the frequency changed by {:.0} %", 100.0 * change));
        }
        if let Some(share) = self.cacheable_share.filter(|share| *share > CACHEABLE_MAX) {
            whys.push(match share < 1.0 {
                true => {
                    format!("the last-level cache can hold {:.0} % of the memory", 100.0 * share)
                }
                false => "the last-level cache can hold all of the memory".into(),
            });
        }
        if let Some(off) = self.off_by.filter(|off| *off > OFF_MAX) {
            whys.push(format!("pages are elsewhere, {:.0} % of them", 100.0 * off));
        }
        if whys.is_empty() { Quality::Good } else { Quality::Noisy(whys.join(", ")) }
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
