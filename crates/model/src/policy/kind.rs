//! The names of the policies, and the creation of a policy from its kind.

use super::{Calibrator, ClosedForm, DmiSettings, Fixed, Guided, HotCold, Policy, Watermark};
use crate::{machine::TierLayout, platform::Platform};
use std::{fmt, str::FromStr};

/// The kinds of policies. `PolicyKind::ALL` has their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// All pages on the first tier.
    Local,
    /// Static shares, which the user chooses.
    Static,
    /// Static shares in the ratio of the kernel's automatic weights, which follow the rated
    /// bandwidths.
    Bandwidth,
    /// Dynamic memory interleaving: hill climbing to the highest bandwidth, with a dead band
    /// against noise.
    Dmi,
    /// Dynamic memory interleaving as in its authors' prototype, without a dead band.
    DmiPrototype,
    /// Colloid: makes the latencies of the tiers equal, by a closed formula.
    Colloid,
    /// Colloid: makes the latencies of the tiers equal, by a binary search between two marks.
    ColloidWatermark,
    /// The hottest pages on the fastest tier.
    HotCold,
    /// Curves propose shares, observed bandwidth accepts or rejects them.
    Guided,
}

impl PolicyKind {
    /// Each kind of policy with its name and a summary in one line.
    pub const ALL: [(Self, &'static str, &'static str); 9] = [
        (Self::Local, "local", "all pages on the first tier"),
        (Self::Static, "static", "fixed weights, from --weights or the configuration"),
        (Self::Bandwidth, "bandwidth", "fixed weights from rated bandwidths"),
        (Self::Dmi, "dmi", "dynamic memory interleaving: steps while bandwidth rises"),
        (Self::DmiPrototype, "dmi-prototype", "dmi without a dead band, as its prototype"),
        (Self::Colloid, "colloid", "equal latencies of the tiers, in closed form"),
        (Self::ColloidWatermark, "colloid-watermark", "equal latencies, by watermark search"),
        (Self::HotCold, "hotcold", "the hottest pages on the fastest tier"),
        (Self::Guided, "guided", "curves propose shares, measured bandwidth decides"),
    ];

    /// The kinds of policies that a command line can select by name alone: all but
    /// [`Self::Static`], which needs weights too.
    pub fn of_commands() -> impl Iterator<Item = &'static (Self, &'static str, &'static str)> {
        Self::ALL.iter().filter(|(kind, ..)| *kind != Self::Static)
    }

    /// Creates the policy for the domain of `context`.
    pub fn make(self, context: &PolicyContext<'_>) -> Box<dyn Policy> {
        let tiers = context.tiers;
        match self {
            Self::Local => Box::new(Fixed::local(tiers.len())),
            Self::Static => Box::new(Fixed::at(context.fixed.to_vec())),
            Self::Bandwidth => Box::new(Fixed::bandwidth(tiers)),
            Self::Dmi => Box::new(Calibrator::new(tiers.to_vec(), DmiSettings::documented(tiers))),
            Self::DmiPrototype => {
                Box::new(Calibrator::new(tiers.to_vec(), DmiSettings::prototype(tiers)))
            }
            Self::Colloid => Box::new(ClosedForm::new(tiers.to_vec())),
            Self::ColloidWatermark => Box::new(Watermark::new(tiers.to_vec())),
            Self::HotCold => Box::new(HotCold::new(tiers.to_vec())),
            Self::Guided => Box::new(Guided::new(
                context.believed.clone(),
                context.domain,
                context.near.to_vec(),
            )),
        }
    }
}

/// The domain and the tiers for which a policy decides, and the other inputs of its creation.
#[derive(Clone, Copy, Debug)]
pub struct PolicyContext<'a> {
    /// The index of the domain whose traffic the policy serves.
    pub domain: usize,
    /// The tiers near the domain, the fastest first, as indices into the machine's tiers. A tier is
    /// near if the domain reaches it without a link between sockets.
    pub near: &'a [usize],
    /// The near tiers in the order of `near`, with the ratings of the machine's firmware.
    pub tiers: &'a [TierLayout],
    /// The platform whose curves the policy `Guided` uses. A simulated machine may deviate from
    /// this description.
    pub believed: &'a Platform,
    /// The shares of [`PolicyKind::Static`].
    pub fixed: &'a [f64],
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        found.map(|(kind, ..)| *kind).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name, _)| *name).collect();
            format!("there is no policy \"{text}\": write one of {}", names.join(", "))
        })
    }
}
