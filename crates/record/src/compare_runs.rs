//! A comparison of configurations by runs on this machine, as `interleaf.compare.runs/1`.
//!
//! `interleaf compare --a CONFIG --b CONFIG` writes the document after each round. A speed-up
//! compares a configuration with the first configuration. A speed-up above 1 is better, both for
//! metrics of which higher values are better, and for those of which lower values are better.
//! Between rounds there are *looks*: evaluations that may end the comparison (`model::paired`).
//! With the probability `confidence`, the intervals of all looks contain the true speed-up.

use super::{
    check::{Check, Checked, in_order, invalid, not_empty},
    figure::{Figure, Scale, Series, SeriesKind},
    measure::MeasuredMachine,
    rounded,
};
use interleaf_model::{
    paired::{self, Design, Effect, Judgement},
    statistics,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.compare.runs/1";

/// The name of the metric of a comparison by wall time.
pub const WALL_TIME: &str = "wall time";

/// The smallest speed-up in a document. Its reciprocal is the largest. The range is limited because
/// the end of an interval may be infinite, and JSON has no infinity.
const RATIO_MIN: f64 = 1e-9;

/// Comparison of configurations: all runs, and the results so far. The document is one JSON object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRunsDocument {
    pub schema: String,
    pub machine: MeasuredMachine,
    pub design: DesignDocument,
    /// Configurations that are compared; the first one is the reference of all speed-ups.
    pub configurations: Vec<ConfigurationDocument>,
    pub workloads: Vec<ComparedWorkload>,
    /// Geometric mean of a configuration's speed-ups in all workloads, for each configuration after
    /// the first; empty with one workload.
    pub means: Vec<SpeedupDocument>,
    pub stopped: RunsStop,
    /// Reason for `stopped`, in words.
    pub stopped_because: String,
}

/// The design of a comparison. It is fixed before the first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesignDocument {
    /// Numbers of rounds after which the comparison may stop.
    pub looks: Vec<usize>,
    /// Probability that the intervals of all looks contain the true speed-up, 0 to 1.
    pub confidence: f64,
    /// Smallest relative difference that matters to the user, a fraction.
    pub min_difference: f64,
    /// Number of warm-up runs of each configuration before the first round.
    pub warm_up: usize,
    pub time_limit_s: Option<f64>,
    pub seed: u64,
}

/// One of the configurations that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationDocument {
    pub name: String,
    /// Setting of the configuration, as on the command line: `weights=3:1,threads=4`.
    pub setting: String,
    /// Words that a user puts before the command in a shell to run it under the configuration.
    /// `env` may be among them; the comparison itself sets the variables without this program.
    pub prefix: Vec<String>,
    /// Arguments that the configuration appends to the command of a workload of `interleaf bench`;
    /// left out when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suffix: Vec<String>,
}

/// The runs of a command, or of a workload of `interleaf bench`, under all configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedWorkload {
    pub name: String,
    /// Command, without the words that a configuration adds.
    pub command: Vec<String>,
    /// Name of the metric: `wall time`, the pattern of `--metric`, or `rate` for a workload of
    /// `interleaf bench`.
    pub metric: String,
    /// Unit of the metric; empty if unknown.
    pub unit: String,
    pub higher_is_better: bool,
    /// All runs in order of time. Warm-up runs are left out.
    pub runs: Vec<ComparedRun>,
    /// Result of each configuration over all complete rounds.
    pub results: Vec<ComparedResult>,
}

/// One run of the command. It is one JSON object with 12 fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Number of the round, counted from 1.
    pub round: usize,
    /// Index of the run's configuration, counted from 0.
    pub configuration: usize,
    /// Metric of the run, in the workload's `unit`.
    pub value: f64,
    pub wall_s: f64,
    pub user_s: f64,
    pub system_s: f64,
    /// Peak resident memory of the largest process of the run; null if unknown.
    #[serde(default)]
    pub resident_max_bytes: Option<u64>,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Bytes that the command read from drives.
    pub read_bytes: u64,
    /// Bytes that the command wrote to drives.
    pub written_bytes: u64,
    /// Checksum of the results of a workload of `interleaf bench`; null for a command.
    #[serde(default)]
    pub checksum: Option<String>,
}

/// Result of a configuration over all complete rounds. CPU times, faults, bytes and memory are
/// medians of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedResult {
    pub configuration: usize,
    pub rounds: usize,
    /// Geometric mean of the metric over the configuration's runs.
    pub value: f64,
    /// Relative standard deviation of the metric between the runs; null with one round.
    pub noise: Option<f64>,
    /// Rounds in which the configuration's run is an outlier. The result includes the outliers.
    pub outliers: Vec<usize>,
    pub user_s: f64,
    pub system_s: f64,
    /// Median of the runs' peaks of resident memory, as far as they are known; null when none is.
    #[serde(default)]
    pub resident_max_bytes: Option<f64>,
    pub minor_faults: f64,
    pub major_faults: f64,
    pub read_bytes: f64,
    pub written_bytes: f64,
    /// True if the workload's results equal those with the first configuration; null without
    /// checksums.
    pub same_result: Option<bool>,
    /// Speed-up over the first configuration; null for that configuration itself, and before the
    /// third round.
    pub speedup: Option<SpeedupDocument>,
}

/// A configuration's speed-up over the first configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedupDocument {
    pub configuration: usize,
    /// Geometric mean of the speed-ups of the single rounds.
    pub speedup: f64,
    pub speedup_low: f64,
    pub speedup_high: f64,
    pub verdict: RunsVerdict,
}

/// The verdict on a configuration, compared with the first configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunsVerdict {
    Faster,
    Slower,
    /// The speeds differ by less than `min_difference`.
    Same,
    /// The rounds so far do not decide between faster, slower and the same.
    Uncertain,
}

display_word!(RunsVerdict);

impl From<Effect> for RunsVerdict {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Faster => Self::Faster,
            Effect::Slower => Self::Slower,
            Effect::Same => Self::Same,
            Effect::Uncertain => Self::Uncertain,
        }
    }
}

/// The state of a comparison: more runs follow, or it has ended for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunsStop {
    /// More runs follow.
    Running,
    /// Nothing was run (`--dry-run`).
    DryRun,
    /// Each configuration has a verdict other than uncertain in each workload.
    Settled,
    /// The maximum number of rounds is reached.
    Rounds,
    /// The time limit is reached.
    Time,
    /// A signal arrived.
    Signal,
    /// A command failed.
    Failed,
}

impl From<&DesignDocument> for Design {
    fn from(document: &DesignDocument) -> Self {
        Self {
            looks: document.looks.clone(),
            confidence: document.confidence,
            min_difference: document.min_difference,
            seed: document.seed,
        }
    }
}

impl SpeedupDocument {
    fn new(configuration: usize, judged: Judgement) -> Self {
        // The interval of few or noisy rounds may end near 0 or infinity. Limit its ends to the
        // range that a document may have.
        let finite = |value: f64| rounded(value.clamp(RATIO_MIN, 1.0 / RATIO_MIN));
        Self {
            configuration,
            speedup: finite(judged.speedup.mean),
            speedup_low: finite(judged.speedup.low),
            speedup_high: finite(judged.speedup.high),
            verdict: judged.effect.into(),
        }
    }
}

impl ComparedWorkload {
    /// Returns the number of complete rounds: rounds in which all `count` configurations ran.
    pub fn rounds(&self, count: usize) -> usize {
        let runs = |at: usize| self.runs.iter().filter(|run| run.configuration == at).count();
        (0..count).map(runs).min().unwrap_or(0)
    }

    /// Returns the runs of configuration `configuration` in the first `rounds` rounds.
    pub fn runs_of(&self, configuration: usize, rounds: usize) -> Vec<&ComparedRun> {
        let is_of = |run: &&ComparedRun| run.configuration == configuration && run.round <= rounds;
        self.runs.iter().filter(is_of).collect()
    }

    /// Returns the cost of a configuration in each of the first `rounds` rounds. A lower cost is
    /// better: it is the metric, or its reciprocal if a higher metric is better.
    fn costs(&self, configuration: usize, rounds: usize) -> Vec<f64> {
        let runs = self.runs_of(configuration, rounds);
        let cost = |run: &&ComparedRun| match self.higher_is_better {
            true => 1.0 / run.value,
            false => run.value,
        };
        runs.iter().map(cost).collect()
    }

    /// Returns the logarithm of a configuration's speed-up over the first configuration, for each
    /// of the first `rounds` rounds.
    fn log_speedups(&self, configuration: usize, rounds: usize) -> Vec<f64> {
        paired::log_speedups(&self.costs(0, rounds), &self.costs(configuration, rounds))
    }

    /// Computes the results from all complete rounds.
    fn update(&mut self, design: &Design, count: usize) {
        let rounds = self.rounds(count);
        if rounds > 0 {
            self.results = (0..count).map(|at| self.result(at, rounds, design)).collect();
        }
    }

    fn result(&self, configuration: usize, rounds: usize, design: &Design) -> ComparedResult {
        let runs = self.runs_of(configuration, rounds);
        let costs = self.costs(configuration, rounds);
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let median_of = |values| rounded(statistics::quantile(&statistics::sorted(values), 0.5));
        let median =
            |of: fn(&ComparedRun) -> f64| median_of(runs.iter().map(|run| of(run)).collect());
        let peaks: Vec<f64> =
            runs.iter().filter_map(|run| Some(run.resident_max_bytes? as f64)).collect();
        let others = (configuration > 0).then(|| self.log_speedups(configuration, rounds));
        let judged = others.and_then(|speedups| design.judge(&[speedups]));
        let first = self.runs.iter().find(|run| run.configuration == 0);
        let expected = first.and_then(|run| run.checksum.as_ref());
        let is_same = |expected| runs.iter().all(|run| run.checksum.as_ref() == Some(expected));
        ComparedResult {
            configuration,
            rounds,
            value: rounded(paired::geometric_mean(&values)),
            noise: paired::noise(&costs).map(rounded),
            outliers: paired::outliers(&costs).iter().map(|at| runs[*at].round).collect(),
            user_s: median(|run| run.user_s),
            system_s: median(|run| run.system_s),
            resident_max_bytes: (!peaks.is_empty()).then(|| median_of(peaks)),
            minor_faults: median(|run| run.minor_faults as f64),
            major_faults: median(|run| run.major_faults as f64),
            read_bytes: median(|run| run.read_bytes as f64),
            written_bytes: median(|run| run.written_bytes as f64),
            same_result: expected.map(is_same),
            speedup: judged.map(|judged| SpeedupDocument::new(configuration, judged)),
        }
    }

    /// Returns the speed-up of `result`'s configuration by CPU time, if CPU time gives a verdict
    /// and wall time gives none. On a machine with other load, CPU time has less noise than wall
    /// time. `None` if the metric is not wall time.
    pub fn speedup_by_cpu_time(
        &self,
        result: &ComparedResult,
        design: &DesignDocument,
    ) -> Option<SpeedupDocument> {
        let is_uncertain = result.speedup.as_ref()?.verdict == RunsVerdict::Uncertain;
        if !is_uncertain || self.metric != WALL_TIME || design.looks.is_empty() {
            return None;
        }
        let times = |configuration| -> Vec<f64> {
            let runs = self.runs_of(configuration, result.rounds);
            runs.iter().map(|run| run.user_s + run.system_s).collect()
        };
        let (first, other) = (times(0), times(result.configuration));
        if first.iter().chain(&other).any(|time| *time <= 0.0) {
            return None;
        }
        let judged = Design::from(design).judge(&[paired::log_speedups(&first, &other)])?;
        let is_certain = judged.effect != Effect::Uncertain;
        is_certain.then(|| SpeedupDocument::new(result.configuration, judged))
    }

    /// True if each configuration after the first has a verdict other than uncertain.
    pub fn is_settled(&self) -> bool {
        let others = self.results.iter().filter(|result| result.configuration > 0);
        let is_certain = |result: &ComparedResult| {
            let speedup = result.speedup.as_ref();
            speedup.is_some_and(|speedup| speedup.verdict != RunsVerdict::Uncertain)
        };
        !self.results.is_empty() && others.clone().all(is_certain)
    }
}

impl CompareRunsDocument {
    /// Creates the document of a comparison that has not run yet.
    pub fn new(
        machine: MeasuredMachine,
        design: DesignDocument,
        configurations: Vec<ConfigurationDocument>,
        workloads: Vec<ComparedWorkload>,
    ) -> Self {
        Self {
            schema: SCHEMA.into(),
            machine,
            design,
            configurations,
            workloads,
            means: vec![],
            stopped: RunsStop::Running,
            stopped_because: "it runs".into(),
        }
    }

    /// Computes the results of the workload at the index `workload`, and the mean speed-ups over
    /// all workloads.
    pub fn update(&mut self, workload: usize, design: &Design) {
        let count = self.configurations.len();
        self.workloads[workload].update(design, count);
        let of_all = |at: usize| {
            let speedups = |it: &ComparedWorkload| it.log_speedups(at, it.rounds(count));
            let strata: Vec<Vec<f64>> = self.workloads.iter().map(speedups).collect();
            design.judge(&strata).map(|judged| SpeedupDocument::new(at, judged))
        };
        if self.workloads.len() > 1 {
            self.means = (1..count).filter_map(of_all).collect();
        }
    }

    pub fn stop(&mut self, stopped: RunsStop, because: impl Into<String>) {
        self.stopped = stopped;
        self.stopped_because = because.into();
    }

    /// True if, in any workload, a configuration is faster or slower than the first configuration.
    pub fn differs(&self) -> bool {
        let results = self.workloads.iter().flat_map(|workload| &workload.results);
        results
            .filter_map(|result| result.speedup.as_ref())
            .any(|speedup| matches!(speedup.verdict, RunsVerdict::Faster | RunsVerdict::Slower))
    }

    /// Returns a figure of the speed-ups in all workloads, and for each workload a figure of its
    /// runs.
    pub fn figures(&self) -> Vec<Figure> {
        let names: Vec<String> = self.workloads.iter().map(|it| it.name.clone()).collect();
        let speedup = |configuration: usize| {
            let found = self.workloads.iter().enumerate().filter_map(|(at, workload)| {
                let result = workload.results.get(configuration)?;
                Some((at, result.speedup.as_ref()?))
            });
            let found: Vec<(usize, &SpeedupDocument)> = found.collect();
            let of = |value: fn(&SpeedupDocument) -> f64| {
                found.iter().map(|(_, speedup)| value(speedup)).collect::<Vec<f64>>()
            };
            Series {
                name: self.configurations[configuration].name.clone(),
                kind: SeriesKind::Bars,
                group: configuration,
                x: found.iter().map(|(at, _)| *at as f64).collect(),
                y: of(|it| it.speedup),
                low: of(|it| it.speedup_low),
                high: of(|it| it.speedup_high),
                labels: vec![],
            }
        };
        let count = self.configurations.len();
        let first = self.configurations.first().map_or("", |first| &first.name);
        let mut figures = vec![Figure {
            id: "speedup".into(),
            title: format!("Speed-up over {first}"),
            x_label: "workload".into(),
            y_label: format!("speed-up over {first}"),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: names,
            series: (1..count).map(speedup).collect(),
            caption: format!(
                "Geometric mean of the rounds, with intervals of {} % over all looks.",
                rounded(100.0 * self.design.confidence)
            ),
        }];
        let runs = self.workloads.iter().enumerate().filter(|(_, it)| !it.runs.is_empty());
        figures.extend(runs.map(|(at, workload)| self.figure_of_runs(at, workload)));
        figures
    }

    fn figure_of_runs(&self, at: usize, workload: &ComparedWorkload) -> Figure {
        let series = self.configurations.iter().enumerate().map(|(configuration, it)| {
            let runs = workload.runs_of(configuration, usize::MAX);
            Series {
                name: it.name.clone(),
                kind: SeriesKind::Line,
                group: configuration,
                x: runs.iter().map(|run| run.round as f64).collect(),
                y: runs.iter().map(|run| run.value).collect(),
                low: vec![],
                high: vec![],
                labels: vec![],
            }
        });
        let unit = match workload.unit.as_str() {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        Figure {
            id: format!("runs-{}", at + 1),
            title: format!("Runs of {}", workload.name),
            x_label: "round".into(),
            y_label: format!("{}{unit}", workload.metric),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series: series.collect(),
            caption: "Each run, outliers included.".into(),
        }
    }
}

fn within(field: impl Into<String>, number: f64, [least, most]: [f64; 2]) -> Checked {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    invalid(field, format!("{number} is not from {least} to {most}"))
}

impl Check for CompareRunsDocument {
    fn check(&self) -> Checked {
        let count = self.configurations.len();
        let is_one = |field: String, at: usize| match at < count {
            true => Ok(()),
            false => invalid(field, format!("{at} is not an index of {count} configurations")),
        };
        let speedup = |field: &str, it: &SpeedupDocument| {
            is_one(format!("{field}.configuration"), it.configuration)?;
            for (name, ratio) in [
                ("speedup", it.speedup),
                ("speedup_low", it.speedup_low),
                ("speedup_high", it.speedup_high),
            ] {
                within(format!("{field}.{name}"), ratio, [RATIO_MIN, 1.0 / RATIO_MIN])?;
            }
            in_order(format!("{field}.speedup_low"), [it.speedup_low, it.speedup_high])
        };
        not_empty("configurations", count)?;
        within("design.confidence", self.design.confidence, [0.0, 1.0])?;
        within("design.min_difference", self.design.min_difference, [0.0, 1.0])?;
        for (at, mean) in self.means.iter().enumerate() {
            speedup(&format!("means[{at}]"), mean)?;
        }
        for (at, workload) in self.workloads.iter().enumerate() {
            let field = format!("workloads[{at}]");
            for (at, run) in workload.runs.iter().enumerate() {
                is_one(format!("{field}.runs[{at}].configuration"), run.configuration)?;
            }
            for (at, result) in workload.results.iter().enumerate() {
                let field = format!("{field}.results[{at}]");
                if result.configuration != at {
                    return invalid(format!("{field}.configuration"), format!("it is not {at}"));
                }
                is_one(format!("{field}.configuration"), at)?;
                let noise = result.noise.unwrap_or(0.0);
                within(format!("{field}.noise"), noise, [0.0, 1.0 / RATIO_MIN])?;
                result
                    .speedup
                    .iter()
                    .try_for_each(|it| speedup(&format!("{field}.speedup"), it))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In twelve rounds, the wall time of each run varies by a factor of 2 at random, and the CPU
    /// time of the second configuration is 3 % longer.
    #[test]
    fn cpu_time_gives_a_verdict_where_wall_time_gives_none() {
        let wall = [1.3, 2.0, 1.1, 1.7, 1.2, 1.0, 1.9, 1.4, 1.6, 1.5, 1.8, 1.0];
        let runs = (0..24).map(|at| {
            let (round, configuration) = (at / 2, at % 2);
            let wall_s = wall[(5 * at + configuration) % wall.len()];
            let user_s = (1.0 + 0.03 * configuration as f64) * (1.0 + 0.001 * (at % 5) as f64);
            let round = round + 1;
            ComparedRun {
                round,
                configuration,
                value: wall_s,
                wall_s,
                user_s,
                ..Default::default()
            }
        });
        let mut workload = ComparedWorkload {
            name: "program".into(),
            command: vec!["program".into()],
            metric: WALL_TIME.into(),
            unit: "s".into(),
            higher_is_better: false,
            runs: runs.collect(),
            results: vec![],
        };
        let design = DesignDocument {
            looks: vec![6, 12],
            confidence: 0.95,
            min_difference: 0.02,
            warm_up: 0,
            time_limit_s: None,
            seed: 1,
        };
        let verdicts = |workload: &mut ComparedWorkload| {
            workload.update(&Design::from(&design), 2);
            let result = &workload.results[1];
            let of = |it: SpeedupDocument| it.verdict;
            (result.speedup.clone().map(of), workload.speedup_by_cpu_time(result, &design).map(of))
        };
        let (uncertain, slower) = (Some(RunsVerdict::Uncertain), Some(RunsVerdict::Slower));
        assert_eq!(verdicts(&mut workload), (uncertain, slower));
        workload.metric = "rate".into();
        assert_eq!(verdicts(&mut workload), (uncertain, None), "the metric is not wall time");
        workload.metric = WALL_TIME.into();
        workload.runs[0].user_s = 0.0;
        assert_eq!(verdicts(&mut workload), (uncertain, None), "a CPU time is not known");
        workload.runs[0].user_s = 1.0;
        workload.runs.iter_mut().for_each(|run| run.value = run.user_s);
        assert_ne!(verdicts(&mut workload).0, uncertain);
        assert_eq!(verdicts(&mut workload).1, None, "wall time gives a verdict");
    }
}
