//! The provenance of a figure: measured, published, simulated or assumed.
//!
//! Every figure that enters a prediction carries its provenance, and the prediction carries the
//! weakest provenance of its figures.

use std::{fmt, str::FromStr};

/// The origin of a figure. The variants are in order from the strongest to the weakest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provenance {
    /// Measured on the machine to which the figure applies.
    Measured,
    /// Published for the machine or the device to which the figure applies.
    Published,
    /// The result of a simulation.
    Simulated,
    /// Assumed: taken from a similar device, or a default.
    Assumed,
}

impl Provenance {
    /// All variants, from the strongest to the weakest.
    pub const ALL: [Self; 4] = [Self::Measured, Self::Published, Self::Simulated, Self::Assumed];

    /// The name of the provenance in files and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Simulated => "simulated",
            Self::Assumed => "assumed",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text that is not the name of a provenance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is none of measured, published, simulated, assumed")]
pub struct ProvenanceError(pub String);

impl FromStr for Provenance {
    type Err = ProvenanceError;

    fn from_str(text: &str) -> Result<Self, ProvenanceError> {
        Self::ALL
            .into_iter()
            .find(|provenance| provenance.name() == text)
            .ok_or_else(|| ProvenanceError(text.into()))
    }
}

/// The provenance of a figure, and its source in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Figure {
    /// The origin of the figure: measured, published, simulated or assumed.
    pub provenance: Provenance,
    /// The paper or record, with the section or table; for an assumption, its reason.
    pub source: String,
}

impl Figure {
    /// The origin of a figure that is assumed for the reason `reason`.
    pub fn assumed(reason: &str) -> Self {
        Self { provenance: Provenance::Assumed, source: reason.into() }
    }

    /// The origin of a figure that is published in `source`.
    pub fn published(source: &str) -> Self {
        Self { provenance: Provenance::Published, source: source.into() }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.provenance, self.source)
    }
}
