//! Configurations of a server that can be bought: a platform with some of its channels populated,
//! expanders of another platform, a drive that extends memory, and the list of all parts.
//!
//! Example: a platform has 550 GB/s with all of its twelve channels. A configuration with eight
//! populated channels has 367 GB/s. A configuration with four of the eight expanders of a tier has
//! half of the tier's bandwidth, capacity and static power.

use crate::{
    curve::CurveError,
    platform::{Coupling, Link, Platform},
    tier::Tier,
    units::Bytes,
};

/// A number of populated channels or of expanders in a configuration, together with the number for
/// which the platform gives bandwidth and capacity. Example: 8 of 12 channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number of channels or expanders in the configuration.
    pub used: u32,
    /// The number of channels or expanders to which the platform's figures apply.
    pub of: u32,
}

impl Count {
    /// The largest valid `used`, as a multiple of `of`. With more channels or expanders, the other
    /// figures of the platform, such as the number of cores, would no longer suit the memory.
    pub const FACTOR_MAX: u32 = 16;

    fn share(self) -> f64 {
        f64::from(self.used) / f64::from(self.of)
    }
}

/// Expanders that a configuration adds to its platform. Another platform describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanders {
    /// The platform that describes the expanders.
    pub platform: String,
    /// The name of the expanders' tier in `platform`.
    pub tier: String,
    /// The number of expanders in the configuration, and the number that the tier describes.
    pub count: Count,
    /// The file and line that name the expanders, for error messages.
    pub place: String,
}

/// A drive that extends memory: it stores the pages that do not fit into DRAM, and DRAM is its
/// cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDrive {
    /// The name of the drive, or its file.
    pub drive: String,
    /// The capacity of the drive.
    pub capacity: Bytes,
    /// The file and line that name the drive, for error messages.
    pub place: String,
}

/// A part of a server, with the number of pieces that the server has.
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
    /// The name of the configuration, unique in its file.
    pub name: String,
    /// A description of the configuration in one line, for tables.
    pub does: String,
    /// True if the configuration needs a part that cannot be bought yet.
    pub is_future: bool,
    /// The platform: its name, or the path of its file.
    pub platform: String,
    /// The file and the line that name the platform, for error messages.
    pub platform_place: String,
    /// The populated channels; `None` if all channels of the platform are populated.
    pub channels: Option<Count>,
    /// The capacity of the first tier. `None` takes the platform's capacity, scaled to the
    /// populated channels.
    pub capacity: Option<Bytes>,
    /// Expanders that are added to the platform; `None` if none are added.
    pub expanders: Option<Expanders>,
    /// A drive that extends memory; `None` if the server has none.
    pub drive: Option<CacheDrive>,
    /// All parts of the server, for its price.
    pub parts: Vec<PartCount>,
    /// The file and the line that list the parts, for error messages.
    pub parts_place: String,
}

/// A reason why a configuration cannot be turned into a platform.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigurationError {
    /// The platform of the expanders has no tier with the name `tier` other than its first tier, or
    /// the platform of the configuration already has a tier with this name.
    #[error("{platform} has {problem} tier \"{tier}\"")]
    Tier {
        /// The name of the platform that lacks the tier, or that already has it.
        platform: String,
        /// The words before "tier" in the error message: "no" if the tier is missing, "already a"
        /// if the configuration's platform has a tier of this name itself.
        problem: &'static str,
        /// The name of the tier.
        tier: String,
    },
    /// The traffic of the domain `domain` to the expanders' tier crosses a link on the platform of
    /// the expanders, but the platform of the configuration has no domain with this name.
    #[error(
        "{platform} has no domain \"{domain}\", whose traffic to tier \"{tier}\" crosses the link \
         \"{link}\""
    )]
    Domain {
        /// The name of the platform that lacks the domain.
        platform: String,
        /// The name of the domain.
        domain: String,
        /// The name of the link.
        link: String,
        /// The name of the expanders' tier, behind the link.
        tier: String,
    },
    /// A curve is out of range after it was scaled to the number of channels or expanders.
    #[error("the curves of {tier}: {why}")]
    Curve {
        /// The name of the tier.
        tier: String,
        /// The rule that the scaled curve breaks.
        why: CurveError,
    },
}

impl Configuration {
    /// Builds the platform of the configuration: `platform` with the populated channels and the
    /// expanders. `other` is the platform that describes the expanders.
    ///
    /// # Errors
    /// If `other` has no tier with the name of the expanders' tier other than its first tier, if
    /// `platform` already has a tier with this name, if `platform` lacks a domain whose traffic
    /// crosses the link to the expanders, or if a scaled curve is out of range.
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
/// the first tier, the link to this tier, and the number of page streams come from `other`, the
/// platform that describes the expanders.
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
    for link in other.links.iter().filter(|link| link.tiers.contains(&from)) {
        let link = copied(link, other, machine, expanders)?;
        machine.links.push(Link { tiers: vec![at], ..link });
    }
    machine.tiers.push(scaled(&other.tiers[from], expanders.count)?);
    machine.interleaving = other.interleaving.clone();
    Ok(())
}

/// Returns a copy of `link` for `machine`, with a name that no link of `machine` has. `link` is the
/// link of `other` to the tier of `expanders`. The copy carries the traffic of those domains of
/// `machine` that have the names of the link's domains. If `link` carries the traffic of all
/// domains of `other`, the copy carries the traffic of all domains of `machine`.
fn copied(
    link: &Link,
    other: &Platform,
    machine: &Platform,
    expanders: &Expanders,
) -> Result<Link, ConfigurationError> {
    let named = |domain: &usize| {
        let name = &other.domains[*domain].name;
        machine.domains.iter().position(|own| own.name == *name).ok_or_else(|| {
            ConfigurationError::Domain {
                platform: machine.name.clone(),
                domain: name.clone(),
                link: link.name.clone(),
                tier: expanders.tier.clone(),
            }
        })
    };
    let is_of_all = link.domains.len() == other.domains.len();
    let crossing = if is_of_all { &[][..] } else { &link.domains };
    let domains = crossing.iter().map(named).collect::<Result<_, _>>()?;
    let names = (1..).map(|number: u32| match number {
        1 => link.name.clone(),
        _ => format!("{}-{number}", link.name),
    });
    let is_known = |name: &String| machine.links.iter().any(|own| own.name == *name);
    let mut free = names.skip_while(is_known);
    Ok(Link { name: free.next().unwrap_or_default(), domains, ..link.clone() })
}

/// Returns `tier` with `count.used` of its `count.of` channels or expanders: bandwidth, capacity,
/// static power and the maximum of the queue counters ([`crate::tier::QueueCounters`]) are scaled
/// in proportion.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        demand::Demand,
        format::{demand_toml, platform_toml},
        predict::{Forecast, Prediction},
    };

    const DRAM: &str = "schema = \"interleaf.platform/1\"\nname = \"p\"\nsource = \"a test\"\n\
        cpu = { cores = 32, outstanding_lines_per_core = 48, uncore_latency_ns = 60.0 }\n\
        [[domain]]\nname = \"s0\"\ncores = 16\n[[domain]]\nname = \"s1\"\ncores = 16\n\
        [[tier]]\nname = \"dram\"\nkind = \"dram\"\ncapacity = \"64GiB\"\ncurves = \"100\"\n";

    const EXPANDERS: &str =
        "[[tier]]\nname = \"cxl\"\nkind = \"cxl\"\ncapacity = \"64GiB\"\ncurves = \"50\"\n";

    fn link(tiers: &str, domains: &str) -> String {
        format!(
            "[[link]]\nname = \"slow\"\nbandwidth_gbps = 8.0\ntiers = [{tiers}]\n\
             domains = [{domains}]\nprovenance = \"assumed\"\nsource = \"a test\"\n"
        )
    }

    fn platform(text: &str) -> Platform {
        let curve = |gbps: &str| {
            Ok(format!(
                "mix,bandwidth_gbps,latency_ns,provenance,source\n\
                 R,0,100,assumed,a test\nR,{gbps},200,assumed,a test\n"
            ))
        };
        platform_toml::parse("p.toml", text, &curve).unwrap()
    }

    fn with_expanders(platform: &Platform, other: &Platform) -> Result<Platform, String> {
        let expanders = Expanders {
            platform: other.name.clone(),
            tier: "cxl".into(),
            count: Count { used: 4, of: 4 },
            place: "c.toml:1".into(),
        };
        let configuration = Configuration {
            name: "p".into(),
            does: "a test".into(),
            is_future: false,
            platform: platform.name.clone(),
            platform_place: "c.toml:1".into(),
            channels: None,
            capacity: None,
            expanders: Some(expanders),
            drive: None,
            parts: vec![],
            parts_place: "c.toml:1".into(),
        };
        configuration.machine(platform, Some(other)).map_err(|why| why.to_string())
    }

    fn prediction(platform: &Platform) -> Prediction {
        let text = "name = \"a\"\nmix = { read_share = 1.0 }\n[[local]]\nthreads = 32\n\
                    runtime_s = 100.0\nbandwidth_gbps = 90.0\n";
        let demand: Demand = demand_toml::parse("d.toml", text).unwrap();
        let weights = ["1:0", "3:1", "1:1"].map(|text| text.parse().unwrap());
        Forecast::new(platform, platform, &demand).predict(32.0, &weights)
    }

    #[test]
    fn added_expanders_are_behind_their_link() {
        for domains in ["", "\"s1\"", "\"s1\", \"s0\""] {
            let whole = platform(&[DRAM, EXPANDERS, &link("\"cxl\"", domains)].concat());
            let added = with_expanders(&platform(DRAM), &whole).unwrap();
            assert_eq!(prediction(&added), prediction(&whole), "{domains}");
        }
        // In `whole`, both tiers are behind one link. The copy of the link must have only the added
        // tier behind it, and another name if `machine` already has a link of the same name.
        let whole = platform(&[DRAM, EXPANDERS, &link("\"dram\", \"cxl\"", "")].concat());
        let added = with_expanders(&platform(DRAM), &whole).unwrap();
        assert_eq!((added.links.len(), &added.links[0].tiers[..]), (1, &[1][..]));
        let linked = platform(&[DRAM, &link("\"dram\"", "\"s0\"")].concat());
        let added = with_expanders(&linked, &whole).unwrap();
        let links: Vec<_> =
            added.links.iter().map(|own| (own.name.as_str(), &own.tiers[..])).collect();
        assert_eq!(links, [("slow", &[0][..]), ("slow-2", &[1][..])]);
    }

    #[test]
    fn the_domains_of_a_link_must_exist() {
        let whole = platform(&[DRAM, EXPANDERS, &link("\"cxl\"", "\"s1\"")].concat());
        let why = with_expanders(&platform(&DRAM.replace("s1", "other")), &whole).unwrap_err();
        let expected = "p has no domain \"s1\", whose traffic to tier \"cxl\" crosses the link";
        assert!(why.starts_with(expected), "{why}");
    }
}
