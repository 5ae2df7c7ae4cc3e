//! Figures of a simulated machine.

use super::{MachineDocument, PeriodDocument};
use crate::document::{
    figure::{Figure, Series, SeriesKind},
    predict::weights_text,
};

impl MachineDocument {
    /// Figures of this simulation.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![self.shares(), self.bandwidth(), self.migration()];
        if !self.comparison.is_empty() {
            figures.push(self.policies());
        }
        figures
    }

    fn figure(&self, id: &str, what: &str, y_label: &str, series: Vec<Series>) -> Figure {
        Figure {
            id: id.into(),
            title: format!("{what}: {} under {} on {}", self.scenario, self.policy, self.platform),
            y_from: 0.0,
            x_label: "time, s".into(),
            y_label: y_label.into(),
            categories: vec![],
            series,
            caption: String::new(),
        }
    }

    /// A line of something that each period has.
    fn line(&self, name: &str, group: usize, value: impl Fn(&PeriodDocument) -> f64) -> Series {
        let points = self.periods.iter().map(|period| (period.time_s, value(period)));
        Series::new(name, SeriesKind::Line, group, points)
    }

    /// Target and reached share of the first tier, with the decisions.
    pub(crate) fn shares(&self) -> Figure {
        let first = &self.tiers[0];
        let target = |period: &PeriodDocument| f64::from(period.target_weights[0]);
        let decisions =
            self.periods.iter().map(|p| format!("{}: {}", p.decision, p.reason)).collect();
        // A target holds until the next one: a decision is a point.
        let points = self.periods.iter().map(|period| (period.time_s, target(period)));
        let mut series = vec![
            self.line("where the accesses go", 0, |period| 100.0 * period.hot_share[0]),
            Series::new("target, decided", SeriesKind::Points, 1, points).with_labels(decisions),
        ];
        if let Some(best) = self.workloads.first().and_then(|w| w.best_static.as_ref()) {
            let last = self.periods.last().map_or(0.0, |period| period.time_s);
            let y = f64::from(best.weights[0]);
            let name = format!("best static, {}", weights_text(&best.weights));
            series.push(Series::new(name, SeriesKind::Line, 2, [(0.0, y), (last, y)]));
        }
        let y_label = format!("on {first}, %");
        let lowest = series.iter().flat_map(|series| &series.y).copied().fold(100.0, f64::min);
        Figure {
            y_from: share_axis_from(lowest),
            caption: "Each point is a decision; it says why where the mouse points.".into(),
            ..self.figure("shares", "Where pages go", &y_label, series)
        }
    }

    fn bandwidth(&self) -> Figure {
        let tiers = self.tiers.iter().enumerate();
        let mut series: Vec<Series> = tiers
            .map(|(at, tier)| self.line(tier, at, |period| period.tier_bandwidth_gbps[at]))
            .collect();
        series.push(self.line("all", self.tiers.len(), |period| period.bandwidth_gbps));
        Figure {
            caption: "As counted, with the noise of the counters and the pages that move.".into(),
            ..self.figure("bandwidth", "Bandwidth", "GB/s", series)
        }
    }

    fn migration(&self) -> Figure {
        let mut sum = 0.0;
        let moved = self.periods.iter().map(|period| {
            sum += period.migrated_bytes as f64 * 1e-9;
            (period.time_s, sum)
        });
        let moved: Vec<(f64, f64)> = moved.collect();
        let series = vec![Series::new("pages moved", SeriesKind::Line, 0, moved)];
        Figure {
            caption: "Bytes of pages that moved since the start.".into(),
            ..self.figure("migration", "Migration", "GB", series)
        }
    }

    /// Speed-ups of all policies, workload by workload.
    fn policies(&self) -> Figure {
        let mut policies: Vec<(&str, Vec<f64>)> = vec![(&self.policy, speedups(&self.workloads))];
        let others = self.comparison.iter();
        policies.extend(others.map(|other| (other.policy.as_str(), speedups(&other.workloads))));
        policies.sort_by(|a, b| a.0.cmp(b.0));
        let workloads = self.workloads.iter().enumerate();
        let series = workloads.map(|(at, workload)| {
            let bars = policies.iter().enumerate().map(|(x, (_, own))| (x as f64, own[at]));
            Series::new(workload.name.clone(), SeriesKind::Bars, at, bars)
        });
        Figure {
            id: "policies".into(),
            title: format!("Policies side by side: {} on {}", self.scenario, self.platform),
            y_from: 0.0,
            x_label: "policy".into(),
            y_label: "speed-up over the first tier alone, search included".into(),
            categories: policies.iter().map(|(name, _)| (*name).to_string()).collect(),
            series: series.collect(),
            caption: "Of the first whole run of each workload.".into(),
        }
    }
}

/// Where an axis of shares in percent begins that are at least `lowest`: the tens below.
pub(crate) fn share_axis_from(lowest: f64) -> f64 {
    10.0 * ((lowest - 2.0) / 10.0).floor().clamp(0.0, 9.0)
}

fn speedups(workloads: &[super::WorkloadDocument]) -> Vec<f64> {
    workloads.iter().map(|workload| workload.speedup.unwrap_or(0.0)).collect()
}
