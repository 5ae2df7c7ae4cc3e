//! Implements `interleaf extend --plan`: forecasts the efficiency of a program at other budgets and
//! on other drives. The inputs are statistics of runs (`--stats FILE`), records of `bench run` or
//! `bench compare`, or a trace.
//!
//! A trace gives the traffic at every budget. Without a trace, the traffic is interpolated between
//! runs. Above the largest budget of the runs, the traffic is proportional to the bytes of the
//! footprint that the budget does not hold. A budget holds fewer bytes of the footprint than its
//! size, because some frames are kept free, and others have prefetched pages that are not used yet.

use interleaf_console::{Failure, check_distinct};
use interleaf_extend_forecast::{
    access::Trace,
    drive::{Drive, PAGE_BYTES, PageLatency},
    forecast::{CpuTime, Model, Run},
    miss_curve::{MissCurve, Point, Traffic},
    pager_curve::{PagerCurves, RandomShare, curve_of_runs},
    replacement::Replacement,
    shards::{SAMPLE_BLOCKS, Sample},
};
use interleaf_model::units::{Bytes, Percent, Time};
use interleaf_pager::session::ledger::PAGES_MIN;
use interleaf_record::{
    Document,
    bench::{self, BenchDocument},
    bench_compare::{self, BenchCompareDocument},
    extend::{
        CountsDocument, CurveRow, EnoughRow, ExtendDocument, FORECAST_SCHEMA, ForecastDocument,
        ForecastRow, SCHEMA,
    },
    figure::{Figure, Scale, Series, SeriesKind},
    rounded,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// `PARTS` is the number of budgets in the forecast. `STEPS` is the number of budgets at which the
/// traffic is computed from a trace. In both cases the budgets are equally far apart, and the
/// largest budget is the footprint.
const PARTS: u64 = 8;
const STEPS: u32 = 32;

/// Approximate number of a trace's blocks in the sample that simulated caches replay.
const SAMPLE: usize = 4096;

/// Largest allowed factor between a run's footprint and the memory that a trace touches, whichever
/// is larger. The two differ: the pager counts temporary data, and a trace has one pass and whole
/// blocks.
const FOOTPRINT_RATIO: f64 = 2.0;

/// Default of `--efficiency`: the efficiency that is enough, as a fraction of the speed in DRAM.
const ENOUGH: f64 = 0.9;

const HINT: &str = "give the file of `extend --stats FILE`, a record of `bench run -o FILE` or of \
                    `bench compare -o FILE`, or a trace (docs/extend.md)";

#[derive(Clone, Debug, Default)]
pub struct ForecastOptions {
    /// The files of the inputs: statistics, records and traces.
    pub files: Vec<PathBuf>,
    /// Names or files of the drives to forecast; empty for all built-in drives.
    pub drives: Vec<String>,
    /// Stores on the drive of the runs. The forecast measures their bandwidth and latency.
    pub stores: Vec<PathBuf>,
    /// The footprint of the program; `None` to take the footprint from the files.
    pub footprint: Option<Bytes>,
    /// The time that the runs would take with all data in DRAM. `None` to take the time from a
    /// record, or to estimate it.
    pub time_in_dram: Option<Time>,
    /// The efficiency that is enough: the speed as a fraction of the speed with all data in DRAM.
    /// `None` means 90 %.
    pub efficiency: Option<Percent>,
}

/// The runs and the trace in the files [`ForecastOptions::files`].
#[derive(Debug, Default)]
struct Inputs {
    runs: Vec<Run>,
    /// The records of `bench run` with all data in DRAM, each with the name of its file.
    in_dram: Vec<(String, BenchDocument)>,
    /// The records of `bench run` under `extend`, each with the name of its file. `runs` also has a
    /// run for each of them.
    extended: Vec<(String, BenchDocument)>,
    /// True if the first run comes from a record of `bench run` or `bench compare`. Its traffic is
    /// then that of one round, which can be compared with the traffic of a trace. In statistics
    /// (`extend --stats`), the traffic is that of a whole program.
    is_of_one_pass: bool,
    /// The trace, with the name of its file.
    trace: Option<(String, Trace)>,
    /// The footprint in the last record of `bench run` or `bench compare`.
    recorded_footprint: Option<Footprint>,
    /// The largest footprint that the pager has counted (`extend --stats`). If a record has a
    /// footprint, that is used instead, in any order of the files.
    counted_footprint: Option<Footprint>,
    /// A note for each run whose time with all data in DRAM was estimated and not measured.
    estimated: Vec<String>,
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
struct Footprint {
    /// The name of the file, or the option, that gives the footprint.
    of: String,
    bytes: u64,
}

/// Computes the forecast.
///
/// # Errors
/// When a file is neither statistics nor a record nor a trace, when the files are not of the same
/// workload, when the time in DRAM is longer than a run, when the footprint is not known, when a
/// drive is unknown, or when the drive of a store cannot be measured.
pub fn forecast(options: &ForecastOptions) -> Result<ForecastDocument, Failure> {
    let mut inputs = Inputs::default();
    for path in &options.files {
        read(path, &mut inputs)?;
    }
    match options.time_in_dram {
        Some(time) => set_time_in_dram(&mut inputs, time)?,
        None => use_time_in_dram(&mut inputs)?,
    }
    let footprint = options.footprint.map(|footprint| footprint.get());
    let curve = curve(&mut inputs, footprint)?;
    let base = base(options, &inputs)?;
    let names = match options.drives.is_empty() {
        true => interleaf_catalog::drive_names(),
        false => options.drives.clone(),
    };
    check_distinct("--drive", names.iter().map(String::as_str))?;
    let mut drives = vec![];
    for name in &names {
        drives.push(interleaf_catalog::drive(name)?);
    }
    // The model is fitted to the first run, on the drive of the runs. If `base` is `None`, no run
    // has traffic. The model then does not depend on the drive, so any drive can be passed.
    let fitted = inputs.runs.first().zip(base.as_ref().or(drives.first()));
    let model = fitted.map(|(run, drive)| Model::of_run(run, &curve, drive));
    Ok(document(options, &inputs, &curve, model.as_ref(), base.as_ref(), &drives))
}

/// Reads a file of statistics, a record or a trace, and adds its content to `inputs`.
fn read(path: &Path, inputs: &mut Inputs) -> Result<(), Failure> {
    let text = interleaf_catalog::document(path, HINT)?;
    let name = path.display().to_string();
    if !text.trim_start().starts_with('{') {
        let trace = Trace::parse(&name, &text);
        let trace = trace.map_err(|why| Failure::new(why.to_string(), HINT))?;
        inputs.trace = Some((name, trace));
        return Ok(());
    }
    // For text that is not JSON, `interleaf_record::read` returns an error with the line.
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        let schema = value["schema"].as_str().unwrap_or("none");
        if ![SCHEMA, bench::SCHEMA, bench_compare::SCHEMA].contains(&schema) {
            let problem = format!("{name}: schema: no forecast is made of \"{schema}\"");
            return Err(Failure::new(problem, HINT));
        }
    }
    let document = interleaf_record::read(&name, &text);
    match document.map_err(|why| Failure::new(why.problem, why.hint))? {
        Document::Extend(stats) => {
            let bytes = stats.total.footprint_bytes;
            if bytes > inputs.counted_footprint.as_ref().map_or(0, |it| it.bytes) {
                inputs.counted_footprint = Some(Footprint { of: name.clone(), bytes });
            }
            inputs.notes.extend(failed(&name, &stats));
            inputs.runs.push(of_stats(&stats));
            inputs.estimated.push(estimated(&name, inputs.runs.last()));
        }
        Document::BenchRun(record) => of_bench(name, *record, inputs),
        Document::Bench(record) => of_comparison(&name, &record, inputs)?,
        _ => {
            let problem = format!("{name}: no forecast is made of several documents");
            return Err(Failure::new(problem, HINT));
        }
    }
    Ok(())
}

/// Returns a note if the command of a run has failed: its traffic may then be a part of that of a
/// whole run.
fn failed(name: &str, stats: &ExtendDocument) -> Option<String> {
    let how = match (stats.signal, stats.exit_code) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) if code != 0 => format!("ended with status {code}"),
        _ => return None,
    };
    Some(format!("{name}: its command {how}, so the run may not be whole"))
}

/// Returns the note that a run's time with all data in DRAM is not measured, but computed from the
/// run.
fn estimated(name: &str, run: Option<&Run>) -> String {
    let how = match run.and_then(|run| run.cpu) {
        Some(_) => {
            "is estimated: elapsed time without stalls and without system time, at least the user \
             time where that is less than the time without stalls; the stalls are divided among \
             the fewest threads that can have had them"
        }
        None => {
            "is at most this: elapsed time without stalls, which has the pager's own work in it \
             where it shared CPUs with the program"
        }
    };
    format!("{name}: the time in DRAM {how}; give the measured time with --time-in-dram")
}

/// Returns the number of pages for which threads waited: the pages read minus the prefetched pages,
/// but at most the number of major faults.
fn demand_reads(counts: &CountsDocument) -> f64 {
    let major = counts.faults.saturating_sub(counts.soft_faults) as f64;
    let demand = counts.read_bytes as f64 / PAGE_BYTES - counts.prefetched_pages as f64;
    demand.clamp(0.0, major)
}

fn of_stats(stats: &ExtendDocument) -> Run {
    let total = &stats.total;
    Run {
        budget_bytes: stats.dram_bytes,
        seconds: stats.elapsed_s,
        dram_s: None,
        stall_s: total.stall_s,
        // The number of threads is not recorded. The stall time is a sum over threads, so divided
        // by the elapsed time it is the least number of threads that stalled.
        threads: (total.stall_s / stats.elapsed_s.max(1e-9)).ceil().clamp(1.0, 4096.0) as u32,
        cpu: stats
            .user_s
            .zip(stats.system_s)
            .map(|(user_s, system_s)| CpuTime { user_s, system_s }),
        traffic: Traffic {
            read_bytes: total.read_bytes as f64,
            written_bytes: total.written_bytes as f64,
        },
        demand_reads: demand_reads(total),
    }
}

/// Adds a record of `bench run` to `inputs`. A record with all data in DRAM is kept as it is. A
/// record under `extend` becomes a run with the mean time and the mean counts of its rounds.
fn of_bench(name: String, record: BenchDocument, inputs: &mut Inputs) {
    inputs.recorded_footprint = Some(Footprint { of: name.clone(), bytes: record.footprint_bytes });
    let Some(extended) = record.extended else {
        inputs.in_dram.push((name, record));
        return;
    };
    let counts = extended.counts;
    let rounds = record.round_seconds.len().max(1) as f64;
    inputs.is_of_one_pass |= inputs.runs.is_empty();
    inputs.runs.push(Run {
        budget_bytes: extended.dram_bytes,
        seconds: record.seconds / rounds,
        dram_s: None,
        stall_s: counts.stall_s / rounds,
        threads: record.threads,
        cpu: None,
        traffic: Traffic {
            read_bytes: counts.read_bytes as f64 / rounds,
            written_bytes: counts.written_bytes as f64 / rounds,
        },
        demand_reads: demand_reads(&counts) / rounds,
    });
    inputs.extended.push((name, record));
}

/// Sets, for each run, the time that it takes with all data in DRAM to `time`, the value of
/// `--time-in-dram`.
fn set_time_in_dram(inputs: &mut Inputs, time: Time) -> Result<(), Failure> {
    let seconds = time.seconds();
    if let Some(run) = inputs.runs.iter().find(|run| run.seconds < seconds) {
        return Err(Failure::new(
            format!(
                "--time-in-dram {seconds} s: the run with a budget of {} took {:.3} s",
                Bytes::new(run.budget_bytes),
                run.seconds
            ),
            "give the time that the same run takes with all its data in DRAM, such as 12.5s",
        ));
    }
    inputs.runs.iter_mut().for_each(|run| run.dram_s = Some(seconds));
    Ok(())
}

/// Sets the time with all data in DRAM of all runs to the mean time of a round in the first record
/// of `bench run` with all data in DRAM. Without such a record, adds notes that the time is
/// estimated.
fn use_time_in_dram(inputs: &mut Inputs) -> Result<(), Failure> {
    let hint = "record both with `bench run`, with the same arguments, once under `extend`";
    let Some((name, dram)) = inputs.in_dram.first() else {
        let extended = inputs.extended.first();
        inputs.notes.extend(extended.map(|(name, _)| estimated(name, None)));
        inputs.notes.append(&mut inputs.estimated);
        return Ok(());
    };
    let is_same = |other: &BenchDocument| {
        (&other.workload, other.footprint_bytes, other.threads)
            == (&dram.workload, dram.footprint_bytes, dram.threads)
    };
    if inputs.runs.is_empty() || inputs.runs.len() != inputs.extended.len() {
        let problem = format!("{name}: extended: it is a run in DRAM, without one of the pager");
        let hint = "record a workload of `interleaf bench list` twice with `bench run`, with the \
                    same arguments, once under `extend`; for other programs give the time in DRAM \
                    with --time-in-dram";
        return Err(Failure::new(problem, hint));
    }
    let all = inputs.extended.iter().chain(&inputs.in_dram);
    if let Some((other, record)) = all.into_iter().find(|(_, record)| !is_same(record)) {
        let said = |it: &BenchDocument| {
            let footprint = Bytes::new(it.footprint_bytes);
            format!("{} of {footprint} with {} threads", it.workload, it.threads)
        };
        let problem = format!("{name} has {}, and {other} {}", said(dram), said(record));
        return Err(Failure::new(problem, hint));
    }
    let rounds = dram.round_seconds.len().max(1) as f64;
    for run in &mut inputs.runs {
        run.dram_s = Some(dram.seconds / rounds);
    }
    Ok(())
}

/// Adds one run of a record of `bench compare` to `inputs`: the run of the pager with the smallest
/// footprint that exceeds the budget.
fn of_comparison(
    name: &str,
    record: &BenchCompareDocument,
    inputs: &mut Inputs,
) -> Result<(), Failure> {
    let first = record.rows.first().map_or("", |row| row.pattern.as_str());
    if let Some(other) = record.rows.iter().find(|row| row.pattern != first) {
        return Err(Failure::new(
            format!("{name}: rows of {first} and of {}: which of them is meant?", other.pattern),
            "record one pattern with `bench compare --workload NAME -o FILE`",
        ));
    }
    let of =
        |way: &str, ratio: f64| record.rows.iter().find(|row| row.way == way && row.ratio == ratio);
    let pager = record
        .rows
        .iter()
        .filter(|row| row.way == "pager" && row.footprint_bytes > record.dram_bytes)
        .min_by_key(|row| row.footprint_bytes);
    let run = pager.and_then(|pager| {
        let traffic = Traffic {
            read_bytes: pager.read_bytes? as f64,
            written_bytes: pager.written_bytes? as f64,
        };
        Some(Run {
            budget_bytes: record.dram_bytes,
            seconds: pager.round_s?,
            dram_s: Some(of("dram", pager.ratio)?.round_s?),
            stall_s: 0.0,
            threads: record.threads,
            cpu: None,
            traffic,
            demand_reads: 0.0,
        })
    });
    let run = run.ok_or_else(|| {
        let problem = format!("{name}: rows: none of the pager and of dram above the budget");
        Failure::new(problem, "record both with --ways dram,pager --ratio 2")
    })?;
    inputs.recorded_footprint =
        pager.map(|row| Footprint { of: name.into(), bytes: row.footprint_bytes });
    inputs.is_of_one_pass |= inputs.runs.is_empty();
    inputs.runs.push(run);
    Ok(())
}

/// Returns the traffic between DRAM and the drive as a function of the budget:
/// - Without a trace, the traffic is interpolated between the runs.
/// - With a trace, the traffic is computed by optimal replacement on the trace.
/// - With a trace and a first run whose traffic is that of one round, the traffic is a mean of
///   optimal and random replacement. The weights of the mean are such that it agrees with this run.
///
/// `footprint` is the value of `--footprint`, bytes.
fn curve(inputs: &mut Inputs, footprint: Option<u64>) -> Result<MissCurve, Failure> {
    let known = inputs.recorded_footprint.as_ref().or(inputs.counted_footprint.as_ref()).cloned();
    let given = footprint.map(|bytes| Footprint { of: "--footprint".into(), bytes });
    let known = given.or(known);
    if let Some((name, trace)) = &inputs.trace {
        check_trace(name, trace, known.as_ref(), &inputs.runs)?;
        let Some(run) = inputs.runs.first() else {
            inputs.notes.push("traffic of other budgets: optimal replacement on the trace".into());
            return Ok(MissCurve::of_trace(trace, Replacement::Optimal, STEPS, SAMPLE));
        };
        let curves = PagerCurves::of_trace(trace, STEPS, SAMPLE, run.demand_share());
        if !inputs.is_of_one_pass {
            inputs.notes.push(
                "traffic of other budgets: optimal replacement on the trace, with the part of the \
                 budget that holds used pages"
                    .into(),
            );
            return Ok(curves.curve(RandomShare::default()));
        }
        let Run { budget_bytes, traffic, .. } = *run;
        let share = curves.share_of(&Point { budget_bytes, traffic });
        inputs.notes.push(format!(
            "traffic of other budgets: the trace, between optimal replacement and random \
             replacement as in the run: {:.0} % of the way for reads, {:.0} % for writes",
            100.0 * share.reads,
            100.0 * share.writes
        ));
        return Ok(curves.curve(share));
    }
    let footprint = known.map(|known| known.bytes).ok_or_else(|| {
        Failure::new(
            "--plan: these statistics do not have the memory that the program touches",
            "add --footprint SIZE, or a trace as a second --plan FILE",
        )
    })?;
    if let Some(run) = inputs.runs.iter().find(|run| run.budget_bytes >= footprint) {
        return Err(Failure::new(
            format!(
                "--plan: the footprint, {}, fits in the run's budget of {}",
                Bytes::new(footprint),
                Bytes::new(run.budget_bytes)
            ),
            "plan from a run whose footprint exceeds its budget",
        ));
    }
    inputs.notes.push(
        "traffic of other budgets: in proportion to the bytes that exceed the used part of the \
         budget, as for loops and for uniform random access; 0 at the footprint"
            .into(),
    );
    let point = |run: &Run| Point { budget_bytes: run.budget_bytes, traffic: run.traffic };
    let points: Vec<Point> = inputs.runs.iter().map(point).collect();
    let demand_share = inputs.runs.first().map_or(0.0, Run::demand_share);
    Ok(curve_of_runs(footprint, &points, demand_share))
}

/// Checks that the trace can be of the program of the runs: that it touches about as much memory
/// (`FOOTPRINT_RATIO`), and more than the budget of each run. `name` is the trace's file, `known`
/// the footprint of the runs.
fn check_trace(
    name: &str,
    trace: &Trace,
    known: Option<&Footprint>,
    runs: &[Run],
) -> Result<(), Failure> {
    if runs.is_empty() {
        return Ok(());
    }
    let touched = (trace.distinct_blocks() as u64).saturating_mul(trace.block_bytes);
    let hint = "give a trace of the same program with the same input; it may have fewer passes";
    let size = Bytes::new;
    if let Some(Footprint { of, bytes }) = known {
        let ratio = touched as f64 / (*bytes).max(1) as f64;
        if !(1.0 / FOOTPRINT_RATIO..=FOOTPRINT_RATIO).contains(&ratio) {
            let problem = format!(
                "{name} touches {}, and the footprint of the run is {} ({of}): from half of the \
                 footprint to twice the footprint is allowed",
                size(touched),
                size(*bytes)
            );
            return Err(Failure::new(problem, hint));
        }
    }
    match runs.iter().find(|run| run.budget_bytes >= touched) {
        Some(run) => Err(Failure::new(
            format!(
                "{name} touches {}, which fits in the run's budget of {}",
                size(touched),
                size(run.budget_bytes)
            ),
            hint,
        )),
        None => Ok(()),
    }
}

/// Returns the drive of the runs: the measured stores. Without stores, the bandwidth of the drive
/// is derived from the first run that has traffic: the traffic, divided by the time that the run
/// took beyond its compute time. Returns `None` if no run has traffic.
fn base(options: &ForecastOptions, inputs: &Inputs) -> Result<Option<Drive>, Failure> {
    if !options.stores.is_empty() {
        return super::measured_drive(&options.stores, false).map(Some);
    }
    let run = inputs.runs.iter().find(|run| run.traffic.bytes() > 0.0);
    Ok(run.map(|run| {
        let rate = run.traffic.bytes() / (run.seconds - run.compute_s()).max(1e-9);
        Drive {
            name: "of the run".into(),
            does: "bytes of the run for the time that it took longer than in DRAM".into(),
            read_rate: rate,
            write_rate: rate,
            both_rate: rate,
            pages: vec![PageLatency { depth: 1.0, seconds: PAGE_BYTES / rate }],
            is_of_run: true,
            sources: vec![("all".into(), "derived".into())],
        }
    }))
}

/// Returns the budgets of the forecast: the multiples of an eighth of the footprint, up to the
/// footprint.
fn budgets(curve: &MissCurve) -> impl Iterator<Item = u64> {
    let footprint = u128::from(curve.footprint_bytes());
    (1..=PARTS).map(move |part| (footprint * u128::from(part) / u128::from(PARTS)) as u64)
}

fn document(
    options: &ForecastOptions,
    inputs: &Inputs,
    curve: &MissCurve,
    model: Option<&Model>,
    base: Option<&Drive>,
    others: &[Drive],
) -> ForecastDocument {
    let mut rows = vec![];
    let mut enough = vec![];
    // An estimated time with all data in DRAM is too long, because it includes CPU time of the
    // pager. The efficiency, which is this time divided by the time at a budget, is then too high.
    // The budgets that reach the requested efficiency are therefore lower bounds.
    let is_estimated = inputs.runs.first().is_some_and(|run| run.dram_s.is_none());
    let is_base_measured = base.is_some_and(|drive| !drive.is_of_run);
    let drives = || base.into_iter().chain(others);
    for (at, drive) in drives().enumerate() {
        let is_same = at == 0 && base.is_some();
        for budget in budgets(curve) {
            let found = model.map(|model| model.forecast(curve, drive, is_same, budget));
            let seconds = found.map_or(drive.transfer_s(curve.at(budget)), |it| it.seconds);
            rows.push(ForecastRow {
                drive: drive.name.clone(),
                dram_bytes: budget,
                seconds: rounded(seconds),
                efficiency: found.map(|it| rounded(it.efficiency)),
            });
        }
        enough.extend(model.map(|model| {
            let footprint = curve.footprint_bytes();
            let least = (PAGES_MIN * PAGE_BYTES as u64).min(footprint);
            let efficiency = options.efficiency.map_or(ENOUGH, Percent::fraction);
            let dram_bytes = model.enough(curve, drive, is_same, efficiency).max(least);
            EnoughRow {
                drive: drive.name.clone(),
                efficiency: rounded(efficiency),
                dram_bytes,
                share: rounded(dram_bytes as f64 / footprint.max(1) as f64),
                is_lower_bound: is_estimated || (!is_base_measured && !is_same),
            }
        }));
    }
    let mut notes = inputs.notes.clone();
    if model.is_some() && !is_base_measured && !others.is_empty() {
        notes.push(
            "the drive of the run is not known, nor then the software time of the pager: \
             efficiency on other drives is an upper bound; --store PATH measures the drive"
                .into(),
        );
    }
    notes.extend(drives().flat_map(|drive| {
        drive
            .sources
            .iter()
            .filter(|(_, source)| source.starts_with("assumed"))
            .map(|(field, source)| format!("{}: {field}: {source}", drive.name))
    }));
    let curve = curve_rows(inputs, curve, model);
    let measured = model.filter(|_| is_base_measured);
    ForecastDocument {
        schema: FORECAST_SCHEMA.into(),
        inputs: options.files.iter().map(|path| path.display().to_string()).collect(),
        footprint_bytes: curve.last().map_or(0, |row| row.dram_bytes),
        compute_s: model.map(|model| rounded(model.compute_s)),
        overlap: measured.map(|model| rounded(model.overlap)),
        overhead_us_per_mb: measured.map(|model| rounded(1e12 * model.overhead_s)),
        figures: vec![curve_figure(&curve), efficiency_figure(&rows)],
        curve,
        rows,
        enough,
        notes,
    }
}

fn curve_rows(inputs: &Inputs, curve: &MissCurve, model: Option<&Model>) -> Vec<CurveRow> {
    let sampled = inputs.trace.as_ref().map(|(_, trace)| {
        let sample = Sample::new(&trace.touches, trace.distinct_blocks(), SAMPLE_BLOCKS);
        (sample.histogram(), trace.block_bytes)
    });
    let points = curve.points().iter().map(|point| {
        let traffic = model.map_or(point.traffic, |it| it.traffic(curve, point.budget_bytes));
        CurveRow {
            dram_bytes: point.budget_bytes,
            read_bytes: traffic.read_bytes as u64,
            written_bytes: traffic.written_bytes as u64,
            lru_miss_ratio: sampled.as_ref().map(|(histogram, block)| {
                rounded(histogram.miss_ratio((point.budget_bytes / block) as usize))
            }),
        }
    });
    points.collect()
}

const MIB: f64 = (1 << 20) as f64;

/// Returns the plot of the traffic as a function of the budget, both in MiB.
fn curve_figure(rows: &[CurveRow]) -> Figure {
    let points = |of: fn(&CurveRow) -> u64| {
        rows.iter().map(move |row| (row.dram_bytes as f64 / MIB, of(row) as f64 / MIB))
    };
    Figure {
        id: "traffic".into(),
        title: "Traffic of the drive by budget".into(),
        x_label: "DRAM, MiB".into(),
        y_label: "traffic, MiB".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        categories: vec![],
        series: vec![
            Series::new("read", SeriesKind::Line, 0, points(|row| row.read_bytes)),
            Series::new("written", SeriesKind::Line, 1, points(|row| row.written_bytes)),
        ],
        caption: "With the traffic of the run above optimal replacement.".into(),
    }
}

/// Returns the plot of the efficiency as a function of the budget, with a line for each drive.
fn efficiency_figure(rows: &[ForecastRow]) -> Figure {
    let mut names: Vec<&str> = rows.iter().map(|row| row.drive.as_str()).collect();
    names.dedup();
    let series = names.into_iter().enumerate().map(|(group, name)| {
        let own = rows.iter().filter(|row| row.drive == name);
        let points: Vec<(f64, f64)> =
            own.filter_map(|row| Some((row.dram_bytes as f64 / MIB, row.efficiency?))).collect();
        Series::new(name, SeriesKind::Line, group, points)
    });
    Figure {
        id: "efficiency".into(),
        title: "Efficiency by budget and drive".into(),
        x_label: "DRAM, MiB".into(),
        y_label: "speed, of DRAM only".into(),
        y_from: 0.0,
        scale: Scale::Linear,
        categories: vec![],
        series: series.collect(),
        caption: "By the planner, from the run.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_budget_is_the_footprint() {
        let of = |footprint| budgets(&MissCurve::of_points(footprint, vec![])).collect::<Vec<_>>();
        assert_eq!(of(1007), [125, 251, 377, 503, 629, 755, 881, 1007]);
        assert_eq!(of(u64::MAX).last(), Some(&u64::MAX));
    }
}
