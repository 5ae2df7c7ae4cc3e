//! Files of platforms: a TOML file, with a CSV file of curves for each tier.

use super::{FileError, curve_csv, mess_csv, toml_text::TomlText};
use crate::{
    platform::{Coupling, Cpu, Domain, Interleaving, Link, PAGE_STREAMS_MAX, Platform, Power},
    tier::{Curves, QueueCounters, Tier, TierKind, TierPower},
    units::Bytes,
};
use serde::Deserialize;
use toml::Spanned;

/// The schema of a platform file.
pub const SCHEMA: &str = "interleaf.platform/1";

/// The highest valid power in W, or energy in pJ/bit. No component of a platform takes more.
const POWER_MAX: f64 = 1e6;

/// The highest valid `reads_max` of a tier's queue counters. A higher figure is a typing error: no
/// tier has that many outstanding reads.
const READS_MAX: f64 = 1e6;

/// The highest valid number of channels or expanders of a tier. A higher figure is a typing error.
const COUNT_MAX: u32 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlatformFile {
    /// The schema and its version: `interleaf.platform/1`.
    schema: Spanned<String>,
    /// The name of the platform.
    name: Spanned<String>,
    /// The origin of the platform's figures: a document, a record, a quote.
    source: Spanned<String>,
    /// Cores, with their outstanding lines and the latency to the memory controller.
    cpu: CpuFile,
    /// Sockets or sub-NUMA clusters; default: one domain with all cores.
    #[serde(default)]
    domain: Vec<DomainFile>,
    /// Tiers of memory, the fastest first.
    tier: Vec<TierFile>,
    /// Links, each of which limits the traffic to some tiers, of all domains or of some.
    #[serde(default)]
    link: Vec<LinkFile>,
    /// Couplings: traffic on a tier that reduces the bandwidth of another tier.
    #[serde(default)]
    coupling: Vec<CouplingFile>,
    /// The number of page streams, for pages interleaved over tiers.
    interleaving: Option<InterleavingFile>,
    /// Power of the server, for the energy of a task.
    power: Option<PowerFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuFile {
    /// Number of cores of all domains together.
    cores: Spanned<i64>,
    /// Maximum number of outstanding lines of a core.
    outstanding_lines_per_core: Spanned<f64>,
    /// Latency between a core and the memory controller, ns.
    uncore_latency_ns: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DomainFile {
    /// The name of the domain.
    name: Spanned<String>,
    /// Number of cores of the domain; the cores of all domains sum to `cpu.cores`.
    cores: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierFile {
    /// The name of the tier.
    name: Spanned<String>,
    /// The kind of memory: dram, cxl, nvram or storage.
    kind: Spanned<String>,
    /// Capacity of the tier: "512GiB".
    capacity: Spanned<String>,
    /// A CSV file of curves, relative to this file; a memory_curves.csv of the Mess benchmark; or
    /// the curves of a tier of a built-in platform: "xeon6-cz122:cxl".
    curves: Spanned<String>,
    /// Power of all devices of the tier.
    power: Option<TierPowerFile>,
    /// The limit of the counters of the tier's request queue.
    queue_counters: Option<QueueCountersFile>,
    /// Number of channels or expanders that `curves` and `capacity` describe.
    count: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueCountersFile {
    /// Maximum number of outstanding reads that the counters include; further reads wait before the
    /// queue.
    reads_max: Spanned<f64>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Spanned<String>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierPowerFile {
    /// Power of all devices of the tier without traffic, W.
    static_w: Spanned<f64>,
    /// Energy of a bit that is read or written, pJ.
    energy_pj_per_bit: Spanned<f64>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Spanned<String>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerFile {
    /// Power of the server with idle cores, without its memory, W.
    idle_w: Spanned<f64>,
    /// Additional power of each core that runs a thread, W.
    core_w: Spanned<f64>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Spanned<String>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    /// The name of the link.
    name: Spanned<String>,
    /// Bandwidth of the link, GB/s.
    bandwidth_gbps: Spanned<f64>,
    /// Tiers whose traffic passes through the link.
    tiers: Spanned<Vec<Spanned<String>>>,
    /// Domains whose traffic passes through the link; default: all domains.
    #[serde(default)]
    domains: Vec<Spanned<String>>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Spanned<String>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CouplingFile {
    /// The tier whose traffic reduces the bandwidth of `to`.
    from: Spanned<String>,
    /// The tier that loses bandwidth.
    to: Spanned<String>,
    /// GB/s lost on `to` for each GB/s on `from`.
    loss: Spanned<f64>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Spanned<String>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterleavingFile {
    /// Number of independent streams of pages that all threads together walk.
    page_streams: Spanned<i64>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Spanned<String>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
}

/// Reads the platform in `text`, the content of the file `file`. `curves` is called with the name
/// of a curve file, and returns its text or the reason why it cannot be read.
///
/// # Errors
/// If the file is not a valid platform file, or if a curve file that it names is invalid.
pub fn parse(
    file: &str,
    text: &str,
    curves: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Platform, FileError> {
    let toml = TomlText::new(file, text);
    let read: PlatformFile = toml.read_as(SCHEMA)?;
    toml.schema(&read.schema, SCHEMA)?;
    let cpu = cpu(&toml, &read.cpu)?;
    let domains = domains(&toml, &read, &cpu)?;
    let tiers = tiers(&toml, &read, &domains, curves)?;
    let links = links(&toml, &read, &tiers, &domains)?;
    Ok(Platform {
        name: toml.said("name", &read.name)?,
        source: toml.said("source", &read.source)?,
        couplings: couplings(&toml, &read, &tiers)?,
        interleaving: interleaving(&toml, read.interleaving.as_ref())?,
        power: read.power.as_ref().map(|read| power(&toml, read)).transpose()?,
        cpu,
        domains,
        tiers,
        links,
    })
}

fn cpu(toml: &TomlText<'_>, cpu: &CpuFile) -> Result<Cpu, FileError> {
    let limit = 1e4;
    Ok(Cpu {
        cores: count(toml, "cpu.cores", &cpu.cores, 65536)?,
        outstanding_lines_per_core: toml.positive(
            "cpu.outstanding_lines_per_core",
            &cpu.outstanding_lines_per_core,
            limit,
        )?,
        uncore_latency_ns: toml.zero_or_above(
            "cpu.uncore_latency_ns",
            &cpu.uncore_latency_ns,
            limit,
            "write the time between core and memory controller in ns, such as 60.0",
        )?,
    })
}

fn count(
    toml: &TomlText<'_>,
    field: &str,
    value: &Spanned<i64>,
    limit: u32,
) -> Result<u32, FileError> {
    let number = u32::try_from(*value.get_ref()).ok().filter(|n| (1..=limit).contains(n));
    number.ok_or_else(|| {
        let problem = format!("{} is not between 1 and {limit}", value.get_ref());
        toml.error(field, value, problem, format!("write a whole number from 1 to {limit}"))
    })
}

fn domains(toml: &TomlText<'_>, read: &PlatformFile, cpu: &Cpu) -> Result<Vec<Domain>, FileError> {
    if read.domain.is_empty() {
        return Ok(vec![Domain { name: "cpu".into(), cores: cpu.cores }]);
    }
    let mut domains: Vec<Domain> = vec![];
    for domain in &read.domain {
        let name = toml.said("domain.name", &domain.name)?;
        if domains.iter().any(|known| known.name == name) {
            return Err(twice(toml, "domain.name", &domain.name));
        }
        domains
            .push(Domain { name, cores: count(toml, "domain.cores", &domain.cores, cpu.cores)? });
    }
    let sum: u32 = domains.iter().map(|domain| domain.cores).sum();
    if sum != cpu.cores {
        let problem = format!("it is {}, but the domains have {sum} together", cpu.cores);
        let hint = "let the cores of all [[domain]] sum to those of [cpu]";
        return Err(toml.error("cpu.cores", &read.cpu.cores, problem, hint));
    }
    Ok(domains)
}

fn tiers(
    toml: &TomlText<'_>,
    read: &PlatformFile,
    domains: &[Domain],
    curves: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Vec<Tier>, FileError> {
    if read.tier.is_empty() {
        let hint = "add a [[tier]] with name, kind, capacity and curves";
        return Err(toml.file_error("tier", "there is none", hint));
    }
    let names: Vec<&str> = domains.iter().map(|domain| domain.name.as_str()).collect();
    let mut tiers: Vec<Tier> = vec![];
    for tier in &read.tier {
        let name = toml.said("tier.name", &tier.name)?;
        if tiers.iter().any(|known| known.name == name) {
            return Err(twice(toml, "tier.name", &tier.name));
        }
        let kinds = || "write dram, cxl, nvram or storage".to_string();
        let kind: TierKind = toml.parsed("tier.kind", &tier.kind, kinds)?;
        let capacity: Bytes = toml.quantity("tier.capacity", &tier.capacity)?;
        if capacity.get() == 0 {
            let hint = "leave a tier without memory out";
            return Err(toml.error("tier.capacity", &tier.capacity, "it is zero", hint));
        }
        let curves = tier_curves(toml, tier, &names, curves)?;
        let power = tier.power.as_ref().map(|read| tier_power(toml, read)).transpose()?;
        let queue_counters =
            tier.queue_counters.as_ref().map(|read| queue_counters(toml, read)).transpose()?;
        let count = tier.count.as_ref().map(|count| toml.whole("tier.count", count, 1..=COUNT_MAX));
        let count = count.transpose()?;
        tiers.push(Tier { name, kind, capacity, curves, power, queue_counters, count });
    }
    Ok(tiers)
}

fn tier_curves(
    toml: &TomlText<'_>,
    tier: &TierFile,
    domains: &[&str],
    curves: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Curves, FileError> {
    let path = toml.said("tier.curves", &tier.curves)?;
    let text = curves(&path).map_err(|why| {
        let hint = "write the path of a curve file, UTF-8 text, relative to the platform file, or \
                    a tier of a built-in platform, such as xeon6-cz122:cxl";
        toml.error("tier.curves", &tier.curves, format!("\"{path}\": {why}"), hint)
    })?;
    if mess_csv::is_one(&text) {
        Ok(mess_csv::parse(&path, &text, &mess_csv::measured(&path))?.curves)
    } else {
        curve_csv::parse(&path, &text, domains)
    }
}

fn tier_power(toml: &TomlText<'_>, read: &TierPowerFile) -> Result<TierPower, FileError> {
    Ok(TierPower {
        static_w: toml.zero_or_above(
            "tier.power.static_w",
            &read.static_w,
            POWER_MAX,
            "write what all devices of the tier draw without traffic, in W",
        )?,
        energy_pj_per_bit: toml.zero_or_above(
            "tier.power.energy_pj_per_bit",
            &read.energy_pj_per_bit,
            POWER_MAX,
            "write what a bit that is read or written costs, in pJ, such as 15.0",
        )?,
        figure: toml.figure("tier.power", &read.provenance, &read.source)?,
    })
}

fn queue_counters(
    toml: &TomlText<'_>,
    read: &QueueCountersFile,
) -> Result<QueueCounters, FileError> {
    Ok(QueueCounters {
        reads_max: toml.positive("tier.queue_counters.reads_max", &read.reads_max, READS_MAX)?,
        figure: toml.figure("tier.queue_counters", &read.provenance, &read.source)?,
    })
}

fn power(toml: &TomlText<'_>, read: &PowerFile) -> Result<Power, FileError> {
    Ok(Power {
        idle_w: toml.zero_or_above(
            "power.idle_w",
            &read.idle_w,
            POWER_MAX,
            "write what the server draws with idle cores and without its memory, in W",
        )?,
        core_w: toml.zero_or_above(
            "power.core_w",
            &read.core_w,
            POWER_MAX,
            "write what a core that runs a thread draws more, in W",
        )?,
        figure: toml.figure("power", &read.provenance, &read.source)?,
    })
}

fn links(
    toml: &TomlText<'_>,
    read: &PlatformFile,
    tiers: &[Tier],
    domains: &[Domain],
) -> Result<Vec<Link>, FileError> {
    let mut links: Vec<Link> = vec![];
    for link in &read.link {
        let name = toml.said("link.name", &link.name)?;
        if links.iter().any(|known| known.name == name) {
            return Err(twice(toml, "link.name", &link.name));
        }
        if link.tiers.get_ref().is_empty() {
            let hint = "name the tiers behind the link";
            return Err(toml.error("link.tiers", &link.tiers, "it is empty", hint));
        }
        let mut behind = vec![];
        for tier in link.tiers.get_ref() {
            let at = tier_named(toml, "link.tiers", tier, tiers)?;
            if behind.contains(&at) || links.iter().any(|known| known.tiers.contains(&at)) {
                let problem = format!("\"{}\" is behind a link already", tier.get_ref());
                let hint = "put each tier behind one link, the narrowest on its way";
                return Err(toml.error("link.tiers", tier, problem, hint));
            }
            behind.push(at);
        }
        let mut from = vec![];
        for domain in &link.domains {
            let at = domains.iter().position(|known| known.name == *domain.get_ref());
            let at = at.ok_or_else(|| {
                let problem = format!("there is no domain \"{}\"", domain.get_ref());
                toml.error("link.domains", domain, problem, "name a [[domain]] of this platform")
            })?;
            if from.contains(&at) {
                let problem = format!("\"{}\" is there twice", domain.get_ref());
                return Err(toml.error("link.domains", domain, problem, "name each domain once"));
            }
            from.push(at);
        }
        links.push(Link {
            name,
            bandwidth_gbps: toml.positive("link.bandwidth_gbps", &link.bandwidth_gbps, 1e6)?,
            tiers: behind,
            domains: from,
            figure: toml.figure("link", &link.provenance, &link.source)?,
        });
    }
    Ok(links)
}

fn couplings(
    toml: &TomlText<'_>,
    read: &PlatformFile,
    tiers: &[Tier],
) -> Result<Vec<Coupling>, FileError> {
    let coupling = |coupling: &CouplingFile| {
        let from = tier_named(toml, "coupling.from", &coupling.from, tiers)?;
        let to = tier_named(toml, "coupling.to", &coupling.to, tiers)?;
        if from == to {
            let hint = "name another tier: what a tier's own traffic costs it is in its curves";
            return Err(toml.error("coupling.to", &coupling.to, "it is the tier itself", hint));
        }
        let hint = "write the GB/s that `to` loses for each GB/s that `from` carries";
        let loss = toml.zero_or_above("coupling.loss", &coupling.loss, 10.0, hint)?;
        let figure = toml.figure("coupling", &coupling.provenance, &coupling.source)?;
        Ok(Coupling { from, to, loss, figure })
    };
    read.coupling.iter().map(coupling).collect()
}

fn interleaving(
    toml: &TomlText<'_>,
    read: Option<&InterleavingFile>,
) -> Result<Interleaving, FileError> {
    let Some(read) = read else { return Ok(Interleaving::default()) };
    let field = "interleaving.page_streams";
    Ok(Interleaving {
        page_streams: count(toml, field, &read.page_streams, PAGE_STREAMS_MAX)?,
        figure: toml.figure("interleaving", &read.provenance, &read.source)?,
    })
}

fn tier_named(
    toml: &TomlText<'_>,
    field: &str,
    name: &Spanned<String>,
    tiers: &[Tier],
) -> Result<usize, FileError> {
    tiers.iter().position(|tier| tier.name == *name.get_ref()).ok_or_else(|| {
        let names: Vec<_> = tiers.iter().map(|tier| tier.name.as_str()).collect();
        let problem = format!("there is no tier \"{}\"", name.get_ref());
        toml.error(field, name, problem, format!("the tiers are {}", names.join(", ")))
    })
}

fn twice(toml: &TomlText<'_>, field: &str, name: &Spanned<String>) -> FileError {
    let problem = format!("\"{}\" is there twice", name.get_ref());
    toml.error(field, name, problem, "give each a name of its own")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_each_domain_once() {
        let text = "schema = \"interleaf.platform/1\"\nname = \"p\"\nsource = \"a test\"\n\
            cpu = { cores = 8, outstanding_lines_per_core = 48, uncore_latency_ns = 60.0 }\n\
            [[domain]]\nname = \"a\"\ncores = 8\n\
            [[tier]]\nname = \"dram\"\nkind = \"dram\"\ncapacity = \"64GiB\"\ncurves = \"c\"\n\
            [[link]]\nname = \"upi\"\nbandwidth_gbps = 8.0\ntiers = [\"dram\"]\n\
            domains = [\"a\"]\nprovenance = \"assumed\"\nsource = \"a test\"\n";
        let curve = "mix,bandwidth_gbps,latency_ns,provenance,source\nR,0,100,assumed,a\n\
                     R,50,200,assumed,a\n";
        let read = |text: &str| parse("p.toml", text, &|_| Ok(curve.into()));
        assert_eq!(read(text).unwrap().links[0].domains, [0]);
        let twice = text.replace("domains = [\"a\"]", "domains = [\"a\", \"a\"]");
        let why = read(&twice).unwrap_err().to_string();
        assert!(why.starts_with("p.toml:17: link.domains: \"a\" is there twice"), "{why}");
    }
}
