//! Figures of a simulated machine whose pages a policy places.

use super::{
    BestStaticDocument, SimulateDocument, SimulatedDomain, SimulatedPeriod, WorkloadDocument,
};
use crate::{
    figure::{Figure, Scale, Series, SeriesKind},
    predict::weights_text,
};

impl SimulateDocument {
    /// Returns figures of the shares, the bandwidth and the migrated bytes over time, and, if other
    /// policies were simulated too, a figure that compares all policies.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = self.shares();
        figures.extend([self.bandwidth(), self.migration()]);
        if !self.comparison.is_empty() {
            figures.push(self.policies());
        }
        figures
    }

    fn figure(&self, id: &str, title: &str, y_label: &str, series: Vec<Series>) -> Figure {
        Figure {
            id: id.into(),
            title: format!("{title}: {} under {} on {}", self.scenario, self.policy, self.platform),
            y_from: 0.0,
            scale: Scale::Linear,
            x_label: "time, s".into(),
            y_label: y_label.into(),
            categories: vec![],
            series,
            caption: String::new(),
        }
    }

    fn line(&self, name: &str, group: usize, value: impl Fn(&SimulatedPeriod) -> f64) -> Series {
        let points = self.periods.iter().map(|period| (period.time_s, value(period)));
        Series::new(name, SeriesKind::Line, group, points)
    }

    /// Returns a figure of the share of accesses that go to the first tier, and of the target with
    /// the policy's decisions. On a machine with several domains, returns a figure for each domain
    /// that has a target. It shows the share of the domain's accesses that go to the domain's own
    /// first tier.
    pub fn shares(&self) -> Vec<Figure> {
        if self.domains.len() < 2 {
            let y_label = format!("part of the accesses on {}, %", self.tiers[0]);
            let title = "Where pages go";
            return vec![self.share_figure("shares", title, &y_label, self.shares_of_machine())];
        }
        let of_domain = |at: usize| {
            let SimulatedDomain { name, tiers } = &self.domains[at];
            let y_label = format!("part of the accesses of {name} on its {}, %", tiers.first()?);
            let title = format!("Where pages of {name} go");
            let figure =
                self.share_figure(&format!("shares-{name}"), &title, &y_label, self.shares_in(at)?);
            (!figure.series.is_empty()).then_some(figure)
        };
        (0..self.domains.len()).filter_map(of_domain).collect()
    }

    fn share_figure(&self, id: &str, title: &str, y_label: &str, series: Vec<Series>) -> Figure {
        let lowest = series.iter().flat_map(|series: &Series| &series.y);
        let lowest = lowest.copied().fold(100.0, f64::min);
        Figure {
            y_from: share_axis_from(lowest),
            caption: "Each point is a decision; the table of decisions has its reason.".into(),
            ..self.figure(id, title, y_label, series)
        }
    }

    fn shares_of_machine(&self) -> Vec<Series> {
        let target = |period: &SimulatedPeriod| f64::from(period.target_weights[0]);
        let decisions = self.periods.iter().map(why).collect();
        // The policy decides once in each period, so the target is a point for each period. The
        // label of the point is the decision.
        let points = self.periods.iter().map(|period| (period.time_s, target(period)));
        let mut series = vec![
            self.line("where the accesses go", 0, |period| 100.0 * period.hot_share[0]),
            Series::new("target, decided", SeriesKind::Points, 1, points).with_labels(decisions),
        ];
        let best = self.workloads.first().and_then(|w| w.best_static.as_ref());
        series.extend(best.and_then(|best| self.best_static(best, 0)));
        series
    }

    /// Returns the lines of the domain with the index `at`: the share of its accesses that go to
    /// its first tier, its target, and the best static weights of its first workload. Returns
    /// `None` if no period has a target for this domain.
    fn shares_in(&self, at: usize) -> Option<Vec<Series>> {
        let domain = &self.domains[at];
        let tier = self.tiers.iter().position(|tier| Some(tier) == domain.tiers.first())?;
        let reached = self.periods.iter().filter_map(|period| {
            let share = period.domain_hot_share.get(at)?.get(tier)?;
            Some((period.time_s, 100.0 * share))
        });
        let decided = self.periods.iter().filter_map(|period| {
            let points = period.domain_weights.get(at)?.get(tier)?;
            Some(((period.time_s, f64::from(*points)), why(period)))
        });
        let (points, labels): (Vec<(f64, f64)>, Vec<String>) = decided.unzip();
        if points.is_empty() {
            return None;
        }
        let mut series = vec![
            Series::new("where the accesses go", SeriesKind::Line, 0, reached),
            Series::new("target, decided", SeriesKind::Points, 1, points).with_labels(labels),
        ];
        let own = |workload: &&WorkloadDocument| workload.domain.as_ref() == Some(&domain.name);
        let best = self.workloads.iter().find(own).and_then(|w| w.best_static.as_ref());
        series.extend(best.and_then(|best| self.best_static(best, tier)));
        Some(series)
    }

    /// Returns a line of the percentage of pages on `tier` with the best static weights, or `None`
    /// if `best` has no weight for this tier.
    fn best_static(&self, best: &BestStaticDocument, tier: usize) -> Option<Series> {
        let last = self.periods.last().map_or(0.0, |period| period.time_s);
        let y = f64::from(*best.weights.get(tier)?);
        let name = format!("best static, {}", weights_text(&best.weights));
        Some(Series::new(name, SeriesKind::Line, 2, [(0.0, y), (last, y)]))
    }

    fn bandwidth(&self) -> Figure {
        let tiers = self.tiers.iter().enumerate();
        let mut series: Vec<Series> = tiers
            .map(|(at, tier)| self.line(tier, at, |period| period.tier_bandwidth_gbps[at]))
            .collect();
        series.push(self.line("all", self.tiers.len(), |period| period.bandwidth_gbps));
        Figure {
            caption: "By the simulated counters, with their noise and the pages that move.".into(),
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

    /// Returns a figure of the speed-ups: a group of bars for each policy, with a bar for each
    /// workload.
    fn policies(&self) -> Figure {
        let mut policies: Vec<(&str, Vec<f64>)> = vec![(&self.policy, speedups(&self.workloads))];
        let others = self.comparison.iter();
        policies.extend(others.map(|other| (other.policy.as_str(), speedups(&other.workloads))));
        policies.sort_by(|a, b| a.0.cmp(b.0));
        let workloads = self.workloads.iter().enumerate();
        let series = workloads.map(|(at, workload)| {
            let bars = policies.iter().enumerate().map(|(x, (_, own))| (x as f64, own[at]));
            Series::new(workload.label(), SeriesKind::Bars, at, bars)
        });
        Figure {
            id: "policies".into(),
            title: format!("Policies side by side: {} on {}", self.scenario, self.platform),
            y_from: 0.0,
            scale: Scale::Linear,
            x_label: "policy".into(),
            y_label: "speed-up over the first tier alone, search included".into(),
            categories: policies.iter().map(|(name, _)| (*name).to_string()).collect(),
            series: series.collect(),
            caption: "Of the first whole run of each workload.".into(),
        }
    }
}

/// Returns the lower end of an axis for percentages, whose smallest value is `lowest`. It is the
/// largest multiple of ten that is at least 2 below `lowest`, limited to 0 to 90. For example, it
/// is 50 if `lowest` is 61, and 60 if `lowest` is 62.
pub fn share_axis_from(lowest: f64) -> f64 {
    10.0 * ((lowest - 2.0) / 10.0).floor().clamp(0.0, 9.0)
}

fn why(period: &SimulatedPeriod) -> String {
    format!("{}: {}", period.decision, period.reason)
}

fn speedups(workloads: &[WorkloadDocument]) -> Vec<f64> {
    workloads.iter().map(|workload| workload.speedup.unwrap_or(0.0)).collect()
}
