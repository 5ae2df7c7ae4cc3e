//! Configurations of a server that can be bought: a platform with some of its channels populated,
//! expanders of another platform, a drive that extends memory, and the list of all parts.
//!
//! Example: a platform with 550 GB/s on twelve channels has 367 GB/s with eight populated channels.
//! Four of the eight expanders of a tier have half of the tier's bandwidth, capacity and static
//! power.

use crate::{
    curve::CurveError,
    platform::{Coupling, Platform},
    tier::Tier,
    units::Bytes,
};

/// The number of populated channels or of expanders, and the number that the platform describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number in the configuration.
    pub used: u32,
    /// The number of channels or expanders that the figures of the platform are for.
    pub of: u32,
}

impl Count {
    /// The highest count, as a multiple of the count that the platform describes. Beyond this
    /// multiple the figures of other components, such as the cores, would no longer fit.
    pub const FACTOR_MAX: u32 = 16;

    fn share(self) -> f64 {
        f64::from(self.used) / f64::from(self.of)
    }
}

/// Expanders that another platform describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanders {
    /// The platform that describes the expanders.
    pub platform: String,
    /// The name of the expanders' tier in that platform.
    pub tier: String,
    /// The number of expanders in the configuration, and the number that the tier describes.
    pub count: Count,
    /// The file and the line of the expanders, for error messages.
    pub place: String,
}

/// A drive for pages that do not fit into memory: DRAM is a cache of the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDrive {
    /// The name of the drive, or its file.
    pub drive: String,
    /// The capacity of the drive.
    pub capacity: Bytes,
    /// The file and the line of the drive, for error messages.
    pub place: String,
}

/// A number of equal parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartCount {
    /// The name of the part in the file of prices.
    pub name: String,
    /// The number of pieces.
    pub count: u32,
}

/// A configuration of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The name of the configuration.
    pub name: String,
    /// A description for tables.
    pub does: String,
    /// True if no such server can be bought yet.
    pub is_future: bool,
    /// The platform: a name, or a file.
    pub platform: String,
    /// The file and the line that name the platform, for error messages.
    pub platform_place: String,
    /// Populated channels; `None` for all channels of the platform.
    pub channels: Option<Count>,
    /// The capacity of the first tier; `None` for the platform's capacity, scaled to the populated
    /// channels.
    pub capacity: Option<Bytes>,
    /// Expanders that are added to the platform; `None` for none.
    pub expanders: Option<Expanders>,
    /// A drive that extends memory; `None` for none.
    pub drive: Option<CacheDrive>,
    /// The parts of the server.
    pub parts: Vec<PartCount>,
    /// The file and the line that list the parts, for error messages.
    pub parts_place: String,
}

/// The platforms of a configuration do not fit together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigurationError {
    /// The platform of the expanders has no tier of this name behind its first tier, or the
    /// platform of the configuration already has a tier of this name.
    #[error("{platform} has {problem} tier \"{tier}\"")]
    Tier {
        /// The name of the platform that lacks the tier, or that already has it.
        platform: String,
        /// The words before "tier" in the error message: "no" if the tier is missing, "already a"
        /// if it exists twice.
        problem: &'static str,
        /// The name of the tier.
        tier: String,
    },
    /// A curve is out of range after it was scaled to the number of channels or expanders.
    #[error("the curves of {tier}: {why}")]
    Curve {
        /// The name of the tier.
        tier: String,
        /// The reason.
        why: CurveError,
    },
}

impl Configuration {
    /// The platform of the configuration: `platform` with the populated channels, and with the
    /// expanders that `other` describes.
    ///
    /// # Errors
    /// If `other` has no tier with the name of the expanders' tier behind its first tier, if
    /// `platform` already has a tier with this name, or if a scaled curve is out of range.
    pub fn machine(
        &self,
        platform: &Platform,
        other: Option<&Platform>,
    ) -> Result<Platform, ConfigurationError> {
        let mut machine = platform.clone();
        machine.name.clone_from(&self.name);
        if let (Some(count), Some(first)) = (self.channels, machine.tiers.first_mut()) {
            *first = scaled(first, count)?;
        }
        if let (Some(capacity), Some(first)) = (self.capacity, machine.tiers.first_mut()) {
            first.capacity = capacity;
        }
        if let (Some(expanders), Some(other)) = (&self.expanders, other) {
            add(&mut machine, expanders, other)?;
        }
        Ok(machine)
    }
}

/// Adds the tier of `expanders`, scaled to their number, to `machine`. The coupling of this tier to
/// the first tier is copied from the platform `other`. The page streams of `other` replace those of
/// `machine`.
fn add(
    machine: &mut Platform,
    expanders: &Expanders,
    other: &Platform,
) -> Result<(), ConfigurationError> {
    let wrong = |platform: &Platform, problem| ConfigurationError::Tier {
        platform: platform.name.clone(),
        problem,
        tier: expanders.tier.clone(),
    };
    let found = other.tiers.iter().position(|tier| tier.name == expanders.tier);
    let Some(from) = found.filter(|from| *from > 0) else { return Err(wrong(other, "no")) };
    if machine.tiers.iter().any(|tier| tier.name == expanders.tier) {
        return Err(wrong(machine, "already a"));
    }
    let to_first = other.couplings.iter().filter(|own| own.from == from && own.to == 0);
    let at = machine.tiers.len();
    machine.couplings.extend(to_first.map(|own| Coupling { from: at, ..own.clone() }));
    machine.tiers.push(scaled(&other.tiers[from], expanders.count)?);
    machine.interleaving = other.interleaving.clone();
    Ok(())
}

/// The tier with `count.used` of its `count.of` channels or expanders: bandwidth, capacity, static
/// power and the limit of the queue counters are scaled in proportion.
pub(crate) fn scaled(tier: &Tier, count: Count) -> Result<Tier, ConfigurationError> {
    let share = count.share();
    let curves = tier.curves.scaled(share);
    let curves =
        curves.map_err(|why| ConfigurationError::Curve { tier: tier.name.clone(), why })?;
    let mut scaled = Tier { curves, ..tier.clone() };
    scaled.capacity = Bytes::new((tier.capacity.get() as f64 * share) as u64);
    if let Some(power) = &mut scaled.power {
        power.static_w *= share;
    }
    if let Some(counters) = &mut scaled.queue_counters {
        counters.reads_max *= share;
    }
    Ok(scaled)
}
