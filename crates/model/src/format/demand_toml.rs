//! Demand files: a workload's requests to memory, as measured runs. Each file has at least one run
//! with all pages on the first tier (`[[local]]`), and may have runs at other weights.

use super::{FileError, toml_text::TomlText};
use crate::{
    demand::{Demand, Hotness, InterleavedRun, LocalRun, Metric, Phase},
    mix::Mix,
    platform::Platform,
    provenance::Figure,
    tier::Tier,
    weights::Weights,
};
use serde::Deserialize;
use toml::Spanned;

/// The schema of a demand file.
pub const SCHEMA: &str = "interleaf.demand/1";

/// Maximum number of outstanding lines of a thread. No core has more.
const OUTSTANDING_LINES_MAX: f64 = 1024.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DemandFile {
    /// The schema and its version: `interleaf.demand/1`.
    schema: Option<Spanned<String>>,
    /// The name of the workload.
    name: Spanned<String>,
    /// The provenance of the figures: measured, published, simulated or assumed.
    provenance: Option<Spanned<String>>,
    /// The origin of the figures: a document, a record, a quote.
    source: Option<Spanned<String>>,
    /// The platform of the measured runs; default: the platform of the prediction.
    platform: Option<String>,
    /// Read share and kind of writes of the workload.
    mix: MixFile,
    /// Memory that the workload touches: "96GiB".
    footprint: Option<Spanned<String>>,
    /// Median of the outstanding lines of a thread; default: the outstanding lines of a core of the
    /// platform.
    outstanding_lines_per_thread: Option<Spanned<f64>>,
    /// Measured runs with all pages on the first tier.
    local: Vec<RunFile>,
    /// Measured runs with pages interleaved over several tiers.
    #[serde(default)]
    interleaved: Vec<RunFile>,
    /// The distribution of accesses over pages; default: uniform.
    hotness: Option<HotnessFile>,
    /// Phases of a run; the shares of time of all phases sum to 1.
    #[serde(default)]
    phase: Vec<PhaseFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MixFile {
    /// Reads as a fraction of the bytes, 0 to 1.
    read_share: Spanned<f64>,
    /// Lowest and highest read share, if the read share is uncertain: `[0.6, 1.0]`.
    read_share_range: Option<Spanned<Vec<f64>>>,
    /// True if the writes bypass the caches (non-temporal stores); default: false.
    #[serde(default)]
    nontemporal: bool,
    /// True if lines are accessed in random order; default: false.
    #[serde(default)]
    random: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFile {
    /// Number of threads of the run.
    threads: Spanned<i64>,
    /// Duration of the run, s; each run has either `runtime_s` or `rate`.
    runtime_s: Option<Spanned<f64>>,
    /// Result of the run, in `rate_unit`.
    rate: Option<Spanned<f64>>,
    /// Unit of the rate: "GFlop/s".
    rate_unit: Option<Spanned<String>>,
    /// Bandwidth counted while the workload was active, GB/s; not used for interleaved runs.
    bandwidth_gbps: Option<Spanned<f64>>,
    /// Name of the series of a local run. Runs of one series were made under equal conditions.
    series: Option<String>,
    /// Weights of an interleaved run: "5:2".
    weights: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HotnessFile {
    /// The kind of distribution: uniform, zipf or hot-set.
    kind: Spanned<String>,
    /// The exponent of a zipf distribution, above 0, at most 10.
    exponent: Option<Spanned<f64>>,
    /// For a hot set: the fraction of the pages that is hot, 0 to 1; above 0 if `accesses` is above
    /// 0.
    pages: Option<Spanned<f64>>,
    /// For a hot set: the fraction of the accesses that goes to the hot pages, 0 to 1.
    accesses: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseFile {
    /// The fraction of the run's time in this phase, 0 to 1.
    share_of_time: Spanned<f64>,
    /// Bandwidth in the phase, GB/s.
    bandwidth_gbps: Spanned<f64>,
}

/// Pairs of a missing key and the hint that the error prints: what to add.
const MISSING: [(&str, &str); 3] = [
    (
        "mix",
        "add mix = { read_share = 0.75 }, the reads among the bytes that counters saw: `interleaf \
         measure app --demand FILE` writes it; where it is not known, assume a range: mix = { \
         read_share = 0.8, read_share_range = [0.6, 1.0] }",
    ),
    ("read_share", "add read_share = 0.75, the reads as a fraction of the bytes: 0 to 1"),
    (
        "local",
        "add a [[local]] table for each run with all pages on the first tier: threads = 64, \
         runtime_s = 210.0, and bandwidth_gbps = 330.0 if it was counted",
    ),
];

/// The file and line of the platform's name in a demand file, as errors print them; `None` if the
/// file names no platform.
pub fn platform_place(file: &str, text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct PlatformName {
        platform: Option<Spanned<String>>,
    }
    let read: PlatformName = toml::from_str(text).ok()?;
    Some(TomlText::new(file, text).place("platform", &read.platform?))
}

/// Reads the demand in `text`, the content of the file `file`.
///
/// # Errors
/// If the file is not a demand file, or if a value is invalid.
pub fn parse(file: &str, text: &str) -> Result<Demand, FileError> {
    let toml = TomlText::new(file, text);
    let read: DemandFile =
        toml.read_as(SCHEMA).map_err(|why: FileError| why.with_hint_of_missing(&MISSING))?;
    if let Some(schema) = &read.schema {
        toml.schema(schema, SCHEMA)?;
    }
    let figure = match (&read.provenance, &read.source) {
        (Some(provenance), Some(source)) => toml.figure("demand", provenance, source)?,
        (Some(_), None) => {
            let hint = "add source = \"where its figures come from\"";
            return Err(toml.file_error("source", "there is a provenance, but no source", hint));
        }
        (None, Some(source)) => {
            let hint = "add provenance = \"measured\" (or published, simulated, assumed)";
            return Err(toml.error("source", source, "there is no provenance with it", hint));
        }
        (None, None) => Figure::assumed("the demand file does not say"),
    };
    let (mix, read_share_range) = mix(&toml, &read.mix)?;
    let footprint = read.footprint.as_ref().map(|size| toml.size("footprint", size)).transpose()?;
    let outstanding_lines_per_thread = match &read.outstanding_lines_per_thread {
        Some(lines) => {
            let field = "outstanding_lines_per_thread";
            Some(toml.positive(field, lines, OUTSTANDING_LINES_MAX)?)
        }
        None => None,
    };
    let Some(first) = read.local.first() else {
        let hint = "add a [[local]] with threads and runtime_s (or rate and rate_unit)";
        return Err(toml.file_error("local", "there is no run", hint));
    };
    let metric = metric(&toml, first)?;
    let local = read.local.iter().map(|run| local_run(&toml, run, &metric));
    let local = local.collect::<Result<Vec<_>, _>>()?;
    let interleaved =
        read.interleaved.iter().map(|run| interleaved_run(&toml, run, &metric, &local));
    Ok(Demand {
        name: toml.said("name", &read.name)?,
        figure,
        platform: read.platform.clone(),
        mix,
        read_share_range,
        footprint,
        outstanding_lines_per_thread,
        interleaved: interleaved.collect::<Result<_, _>>()?,
        local,
        metric,
        hotness: hotness(&toml, read.hotness.as_ref())?,
        phases: phases(&toml, &read.phase)?,
    })
}

/// The factor by which a measured bandwidth may exceed the maximum of the platform, because both
/// figures have errors of measurement (assumed).
const BANDWIDTH_TOLERANCE: f64 = 1.1;

/// A bandwidth of at least this multiple of the platform's maximum was probably written in MB/s,
/// which makes the number 1000 times as large.
const PROBABLY_MBPS: f64 = 20.0;

/// Checks that `demand` is possible on `platform`, on which its runs were measured. `text` is the
/// text of the demand's file, for the lines in errors. Each interleaved run must have one weight
/// for each tier. The bandwidth of each local run and phase must be at most `BANDWIDTH_TOLERANCE`
/// times the maximum of `platform`.
///
/// # Errors
/// The first run or phase that is impossible on `platform`.
pub fn check_runs(
    file: &str,
    text: &str,
    demand: &Demand,
    platform: &Platform,
) -> Result<(), FileError> {
    let toml = TomlText::new(file, text);
    let read: DemandFile = toml.read()?;
    let weights = read.interleaved.iter().filter_map(|run| run.weights.as_ref());
    for (run, text) in demand.interleaved.iter().zip(weights) {
        run.weights.clone().for_tiers(&platform.tier_names()).map_err(|why| {
            let hint = format!("write one weight for each tier of {}", platform.name);
            toml.error("interleaved.weights", text, why, hint)
        })?;
    }
    let local = read.local.iter().filter_map(|run| run.bandwidth_gbps.as_ref());
    let phases = read.phase.iter().map(|phase| &phase.bandwidth_gbps);
    let local = local.map(|value| ("local.bandwidth_gbps", value));
    let check = bandwidth_check(demand, platform);
    for (field, value) in local.chain(phases.map(|value| ("phase.bandwidth_gbps", value))) {
        check(*value.get_ref())
            .map_err(|(problem, hint)| toml.error(field, value, problem, hint))?;
    }
    Ok(())
}

/// Returns a check of the bandwidth, GB/s, of a local run or of a phase of `demand` on `platform`.
/// The check fails with the problem and the hint of an error message if the bandwidth exceeds
/// `BANDWIDTH_TOLERANCE` times the maximum of `platform`.
pub fn bandwidth_check<'a>(
    demand: &Demand,
    platform: &'a Platform,
) -> impl Fn(f64) -> Result<(), (String, String)> + use<'a> {
    let most = max_gbps(demand, platform);
    let (first, name) = (&platform.tiers[0].name, &platform.name);
    move |gbps| {
        if gbps <= BANDWIDTH_TOLERANCE * most {
            return Ok(());
        }
        let problem =
            format!("{gbps} GB/s is above {most:.0} GB/s, the maximum of {first} of {name}");
        let hint = match gbps >= PROBABLY_MBPS * most {
            true => format!("write GB/s, not MB/s: {}", gbps / 1000.0),
            false => format!(
                "correct it, or name the platform of the runs: up to {:.0} GB/s is allowed for \
                 errors of measurement",
                BANDWIDTH_TOLERANCE * most
            ),
        };
        Err((problem, hint))
    }
}

/// The sum of the maximum bandwidths of all tiers of the first tier's kind, GB/s: a run on several
/// sockets may use the first tier of each socket. A tier's maximum is the highest bandwidth of any
/// domain at any of three read shares: the lowest, the given and the highest of the demand.
fn max_gbps(demand: &Demand, platform: &Platform) -> f64 {
    let (low, high) = demand.read_share_range;
    let mix = |share: f64| Mix::new(share, demand.mix.nontemporal()).ok();
    let ordered = |mix: Mix| if demand.mix.random() { mix.in_random_order() } else { mix };
    let mixes: Vec<Mix> =
        [low, demand.mix.read_share(), high].into_iter().filter_map(mix).map(ordered).collect();
    let kind = platform.tiers[0].kind;
    let of_tier = |tier: &Tier| {
        let pairs = platform.domains.iter().flat_map(|own| mixes.iter().map(move |mix| (own, mix)));
        let most = pairs.map(|(domain, mix)| {
            tier.curves.answer(&domain.name, *mix).response.max_bandwidth_gbps()
        });
        most.fold(0.0, f64::max)
    };
    platform.tiers.iter().filter(|tier| tier.kind == kind).map(of_tier).sum()
}

/// Writes a demand as the text of a file, which [`parse`] reads as the same demand.
pub fn text(demand: &Demand) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let figure = &demand.figure;
    let mut text = format!(
        "schema = \"{SCHEMA}\"\nname = {}\nprovenance = \"{}\"\nsource = {}\n",
        quoted(&demand.name),
        figure.provenance,
        quoted(&figure.source),
    );
    if let Some(platform) = &demand.platform {
        text += &format!("platform = {}\n", quoted(platform));
    }
    text += &mix_text(demand);
    if let Some(footprint) = demand.footprint {
        let (bytes, kib) = (footprint.get(), footprint.get() / 1024);
        let size = if bytes % 1024 == 0 { format!("{kib}KiB") } else { format!("{bytes}B") };
        text += &format!("footprint = \"{size}\"\n");
    }
    if let Some(lines) = demand.outstanding_lines_per_thread {
        text += &format!("outstanding_lines_per_thread = {lines:?}\n");
    }
    let result = |result: f64| match &demand.metric {
        Metric::Runtime => format!("runtime_s = {result:?}\n"),
        Metric::Rate(unit) => format!("rate = {result:?}\nrate_unit = {}\n", quoted(unit)),
    };
    for run in &demand.local {
        text += &format!("\n[[local]]\nthreads = {}\n{}", run.threads, result(run.result));
        if let Some(gbps) = run.bandwidth_gbps {
            text += &format!("bandwidth_gbps = {gbps:?}\n");
        }
        if !run.series.is_empty() {
            text += &format!("series = {}\n", quoted(&run.series));
        }
    }
    for run in &demand.interleaved {
        let (weights, threads) = (&run.weights, run.threads);
        text += &format!("\n[[interleaved]]\nweights = \"{weights}\"\nthreads = {threads}\n");
        text += &result(run.result);
    }
    match demand.hotness {
        Hotness::Uniform => {}
        Hotness::Zipf { exponent } => {
            text += &format!("\n[hotness]\nkind = \"zipf\"\nexponent = {exponent:?}\n");
        }
        Hotness::HotSet { pages, accesses } => {
            text += "\n[hotness]\nkind = \"hot-set\"\n";
            text += &format!("pages = {pages:?}\naccesses = {accesses:?}\n");
        }
    }
    for Phase { share_of_time, bandwidth_gbps } in &demand.phases {
        text += &format!("\n[[phase]]\nshare_of_time = {share_of_time:?}\n");
        text += &format!("bandwidth_gbps = {bandwidth_gbps:?}\n");
    }
    text
}

fn mix_text(demand: &Demand) -> String {
    let mix = demand.mix;
    let mut fields = vec![format!("read_share = {:?}", mix.read_share())];
    let (low, high) = demand.read_share_range;
    if low < high {
        fields.push(format!("read_share_range = [{low:?}, {high:?}]"));
    }
    for (is_so, field) in [(mix.nontemporal(), "nontemporal"), (mix.random(), "random")] {
        if is_so {
            fields.push(format!("{field} = true"));
        }
    }
    format!("mix = {{ {} }}\n", fields.join(", "))
}

fn mix(toml: &TomlText<'_>, read: &MixFile) -> Result<(Mix, (f64, f64)), FileError> {
    let share = toml.part("mix.read_share", &read.read_share)?;
    let mix = Mix::new(share, read.nontemporal)
        .map_err(|why| toml.error("mix.read_share", &read.read_share, why, "write 0 to 1"))?;
    let mix = if read.random { mix.in_random_order() } else { mix };
    let Some(range) = &read.read_share_range else { return Ok((mix, (share, share))) };
    match range.get_ref()[..] {
        [low, high] if 0.0 <= low && low <= share && share <= high && high <= 1.0 => {
            Ok((mix, (low, high)))
        }
        _ => {
            let given = range.get_ref();
            let problem = format!("{given:?} does not hold read_share = {share} within [0, 1]");
            let hint = "write the lowest and the highest read share it may be, such as [0.6, 1.0]";
            Err(toml.error("mix.read_share_range", range, problem, hint))
        }
    }
}

const RESULT_HINT: &str =
    "give each run either runtime_s, or rate with rate_unit, as the first one";

/// The metric of all results, which `run`, the first run, determines.
fn metric(toml: &TomlText<'_>, run: &RunFile) -> Result<Metric, FileError> {
    match (&run.runtime_s, &run.rate, &run.rate_unit) {
        (Some(_), None, None) => Ok(Metric::Runtime),
        (None, Some(_), Some(unit)) => Ok(Metric::Rate(toml.said("local.rate_unit", unit)?)),
        (None, Some(rate), None) => {
            let hint = "add rate_unit, such as \"GB/s\"";
            Err(toml.error("local.rate", rate, "the rate has no rate_unit", hint))
        }
        (Some(runtime), Some(_), _) => {
            let problem = "the run has both a runtime_s and a rate";
            Err(toml.error("local.runtime_s", runtime, problem, RESULT_HINT))
        }
        (Some(_), None, Some(unit)) => Err(unit_without_rate(toml, "local.rate_unit", unit)),
        (None, None, _) => {
            let problem = "the run has no result";
            Err(toml.error("local.threads", &run.threads, problem, RESULT_HINT))
        }
    }
}

fn unit_without_rate(toml: &TomlText<'_>, field: &str, unit: &Spanned<String>) -> FileError {
    let problem = format!("\"{}\" is the unit of a rate, and the run has none", unit.get_ref());
    toml.error(field, unit, problem, "take it out: runtime_s is in seconds")
}

/// The result of `run`, which must be in `metric`, the metric of all runs.
fn result(toml: &TomlText<'_>, run: &RunFile, metric: &Metric) -> Result<f64, FileError> {
    let other = |problem: &str| toml.error("threads", &run.threads, problem, RESULT_HINT);
    match metric {
        Metric::Runtime => match (&run.runtime_s, &run.rate, &run.rate_unit) {
            (Some(runtime), None, None) => toml.positive("runtime_s", runtime, 1e12),
            (Some(_), None, Some(unit)) => Err(unit_without_rate(toml, "rate_unit", unit)),
            _ => Err(other("the first run has a runtime_s, this one has not just that")),
        },
        Metric::Rate(unit) => match (&run.runtime_s, &run.rate, &run.rate_unit) {
            (None, Some(rate), Some(own)) if own.get_ref() == unit => {
                toml.positive("rate", rate, 1e18)
            }
            (None, Some(_), Some(own)) => {
                let problem = format!("\"{}\" is not \"{unit}\", as the first has", own.get_ref());
                Err(toml.error("rate_unit", own, problem, "give all runs the same unit"))
            }
            _ => Err(other("the first run has a rate, this one has not just that")),
        },
    }
}

fn threads(toml: &TomlText<'_>, run: &RunFile) -> Result<u32, FileError> {
    toml.whole("threads", &run.threads, 1..=65536)
}

fn local_run(toml: &TomlText<'_>, run: &RunFile, metric: &Metric) -> Result<LocalRun, FileError> {
    if let Some(weights) = &run.weights {
        let hint = "runs at other weights belong under [[interleaved]]";
        let problem = "a local run has all pages on the first tier";
        return Err(toml.error("local.weights", weights, problem, hint));
    }
    let bandwidth_gbps = match &run.bandwidth_gbps {
        Some(bandwidth) => Some(toml.positive("local.bandwidth_gbps", bandwidth, 1e6)?),
        None => None,
    };
    let place = |value| toml.place("local.bandwidth_gbps", value);
    Ok(LocalRun {
        threads: threads(toml, run)?,
        result: result(toml, run, metric)?,
        bandwidth_gbps,
        bandwidth_place: run.bandwidth_gbps.as_ref().map_or_else(String::new, place),
        series: run.series.clone().unwrap_or_default(),
    })
}

fn interleaved_run(
    toml: &TomlText<'_>,
    run: &RunFile,
    metric: &Metric,
    local: &[LocalRun],
) -> Result<InterleavedRun, FileError> {
    let Some(text) = &run.weights else {
        let hint = "add weights = \"5:2\"";
        return Err(toml.error("interleaved.threads", &run.threads, "it has no weights", hint));
    };
    if let Some(bandwidth) = &run.bandwidth_gbps {
        toml.positive("interleaved.bandwidth_gbps", bandwidth, 1e6)?;
    }
    let hint = || "write pages on each tier in one round, such as 3:1".to_string();
    let weights: Weights = toml.parsed("interleaved.weights", text, hint)?;
    let threads = threads(toml, run)?;
    if !local.iter().any(|local| local.threads == threads) {
        let problem = format!("there is no [[local]] run with {threads} threads to compare with");
        let hint = "give the run the threads of a local one, or add that one";
        return Err(toml.error("interleaved.threads", &run.threads, problem, hint));
    }
    Ok(InterleavedRun {
        weights,
        weights_place: toml.place("interleaved.weights", text),
        threads,
        result: result(toml, run, metric)?,
    })
}

fn hotness(toml: &TomlText<'_>, read: Option<&HotnessFile>) -> Result<Hotness, FileError> {
    let Some(read) = read else { return Ok(Hotness::Uniform) };
    let kind = &read.kind;
    let hint = "uniform takes nothing, zipf takes exponent, hot-set takes pages and accesses";
    match (kind.get_ref().as_str(), &read.exponent, &read.pages, &read.accesses) {
        ("uniform", None, None, None) => Ok(Hotness::Uniform),
        ("zipf", Some(exponent), None, None) => {
            Ok(Hotness::Zipf { exponent: toml.positive("hotness.exponent", exponent, 10.0)? })
        }
        ("hot-set", None, Some(pages), Some(accesses)) => hot_set(toml, pages, accesses),
        ("uniform" | "zipf" | "hot-set", ..) => {
            let problem = format!("\"{}\" does not go with these keys", kind.get_ref());
            Err(toml.error("hotness.kind", kind, problem, hint))
        }
        _ => {
            let problem = format!("\"{}\" is none of uniform, zipf, hot-set", kind.get_ref());
            Err(toml.error("hotness.kind", kind, problem, hint))
        }
    }
}

fn hot_set(
    toml: &TomlText<'_>,
    of_pages: &Spanned<f64>,
    of_accesses: &Spanned<f64>,
) -> Result<Hotness, FileError> {
    let pages = toml.part("hotness.pages", of_pages)?;
    let accesses = toml.part("hotness.accesses", of_accesses)?;
    if pages == 0.0 && accesses > 0.0 {
        let problem = format!("0 pages cannot have a fraction of {accesses} of the accesses");
        let hint = "write a fraction of the pages above 0, such as 0.1";
        return Err(toml.error("hotness.pages", of_pages, problem, hint));
    }
    Ok(Hotness::HotSet { pages, accesses })
}

fn phases(toml: &TomlText<'_>, read: &[PhaseFile]) -> Result<Vec<Phase>, FileError> {
    let phase = |phase: &PhaseFile| {
        Ok(Phase {
            share_of_time: toml.part("phase.share_of_time", &phase.share_of_time)?,
            bandwidth_gbps: toml.positive("phase.bandwidth_gbps", &phase.bandwidth_gbps, 1e6)?,
        })
    };
    let phases: Vec<Phase> = read.iter().map(phase).collect::<Result<_, _>>()?;
    let sum: f64 = phases.iter().map(|phase| phase.share_of_time).sum();
    if let Some(first) = read.first().filter(|_| (sum - 1.0).abs() > 1e-6) {
        let problem = format!("the shares of all phases sum to {sum}, not to 1");
        let hint = "let the phases make up the whole run";
        return Err(toml.error("phase.share_of_time", &first.share_of_time, problem, hint));
    }
    Ok(phases)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"a\"\nmix = { read_share = 1.0 }\n\
        [[local]]\nthreads = 8\nruntime_s = 9.0\nseries = \"s\"\n\
        [[local]]\nthreads = 4\nruntime_s = 12.0\n\
        [[interleaved]]\nthreads = 8\nweights = \"3:1\"\nruntime_s = 8.0\n\
        [hotness]\nkind = \"hot-set\"\npages = 0.1\naccesses = 0.9\n";

    #[test]
    fn a_key_that_is_not_used_is_refused_at_its_line() {
        assert_eq!(parse("d.toml", TEXT).unwrap().local[0].series, "s");
        let of_first = "local.rate_unit: \"s\" is the unit of a rate, and the run has none";
        let of_other = "rate_unit: \"s\" is the unit of a rate, and the run has none";
        let both = "local.runtime_s: the run has both a runtime_s and a rate";
        for (from, added, line, expected) in [
            ("= 9.0\n", "rate_unit = \"s\"\n", 6, of_first.to_string()),
            ("= 9.0\n", "rate = 1.0\nrate_unit = \"s\"\n", 5, both.into()),
            ("= 12.0\n", "rate_unit = \"s\"\n", 10, of_other.into()),
            ("= 8.0\n", "rate_unit = \"s\"\n", 14, of_other.into()),
        ] {
            let text = TEXT.replace(from, &format!("{from}{added}"));
            let why = parse("d.toml", &text).unwrap_err().to_string();
            assert!(why.starts_with(&format!("d.toml:{line}: {expected}")), "{why}");
        }
        let counted =
            |gbps: &str| TEXT.replace("= 8.0", &format!("= 8.0\nbandwidth_gbps = {gbps}"));
        assert!(parse("d.toml", &counted("40.0")).is_ok());
        let why = parse("d.toml", &counted("-5.0")).unwrap_err().to_string();
        assert!(why.starts_with("d.toml:14: interleaved.bandwidth_gbps"), "{why}");
    }

    #[test]
    fn a_hot_set_without_pages_has_no_accesses() {
        let none = TEXT.replace("pages = 0.1", "pages = 0.0");
        let why = parse("d.toml", &none).unwrap_err().to_string();
        assert!(why.contains("hotness.pages: 0 pages cannot have a fraction of 0.9"), "{why}");
        assert!(parse("d.toml", &none.replace("accesses = 0.9", "accesses = 0.0")).is_ok());
    }
}
