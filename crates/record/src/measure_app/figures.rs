//! Figures of a profile: the counted quantities over the time of the run.

use super::{AppDocument, ProfileDocument, SampleDocument, SlotsDocument};
use crate::figure::{Figure, Scale, Series, SeriesKind};

const GIB: f64 = 1_073_741_824.0;

impl ProfileDocument {
    /// Returns a figure for each quantity that was counted.
    pub fn figures(&self) -> Vec<Figure> {
        let app = &self.app;
        let all = [
            app.bandwidth(),
            app.latency(),
            app.placement(),
            app.cpus(),
            app.slots(),
            app.power(),
            app.storage(),
        ];
        all.into_iter().filter(|figure| !figure.series.is_empty()).collect()
    }
}

impl AppDocument {
    fn figure(&self, id: &str, title: &str, y_label: &str, series: Vec<Option<Series>>) -> Figure {
        Figure {
            id: id.into(),
            title: title.into(),
            y_from: 0.0,
            scale: Scale::Linear,
            x_label: "time, s".into(),
            y_label: y_label.into(),
            categories: vec![],
            series: series.into_iter().flatten().collect(),
            caption: String::new(),
        }
    }

    /// Returns a line of `value` over time, or `None` if fewer than two samples have this value.
    fn line(
        &self,
        name: &str,
        group: usize,
        value: impl Fn(&SampleDocument) -> Option<f64>,
    ) -> Option<Series> {
        let points = self.samples.iter().filter_map(|it| Some((it.time_s, value(it)?)));
        drawn(name, group, points.collect())
    }

    /// Like [`Self::line`], but the horizontal axis counts only the time in which traffic was
    /// counted (`counted_s`).
    fn counted_line(
        &self,
        name: &str,
        group: usize,
        value: impl Fn(&SampleDocument) -> Option<f64>,
    ) -> Option<Series> {
        let mut time_s = 0.0;
        let points = self.samples.iter().filter_map(|it| {
            time_s += it.counted_s;
            Some((time_s, value(it)?))
        });
        drawn(name, group, points.collect())
    }

    fn bandwidth(&self) -> Figure {
        let gbps = |at: usize| {
            move |it: &SampleDocument| {
                let bytes = it.tiers.get(at)?.bytes()?;
                (it.counted_s > 0.0).then(|| bytes / it.counted_s / 1e9)
            }
        };
        let tiers = self.tiers.iter().enumerate();
        let mut series: Vec<Option<Series>> =
            tiers.map(|(at, tier)| self.counted_line(&tier.name, at, gbps(at))).collect();
        if self.samples.iter().any(|sample| sample.command_bytes.is_some()) {
            let all = |it: &SampleDocument| it.gbps();
            series.push(self.counted_line("the command", self.tiers.len() + 1, all));
        }
        if self.phases.len() > 1 {
            let ends = self.phases.iter().flat_map(|phase| {
                [phase.from_s, phase.to_s].map(|time_s| (time_s, phase.bandwidth_gbps))
            });
            series.push(drawn("phases", self.tiers.len(), ends.collect()));
        }
        Figure {
            caption: "Traffic of each tier, of all programs.".into(),
            ..self.figure("bandwidth", "Bandwidth", "GB/s", series)
        }
    }

    fn latency(&self) -> Figure {
        let tiers = self.tiers.iter().enumerate();
        let of = |at: usize| move |it: &SampleDocument| it.tiers.get(at)?.latency_ns();
        let series = tiers.map(|(at, tier)| self.counted_line(&tier.name, at, of(at))).collect();
        Figure {
            caption: "Time that a miss of the last cache waited.".into(),
            ..self.figure("latency", "Latency of misses", "ns", series)
        }
    }

    fn placement(&self) -> Figure {
        let of =
            |at: usize| move |it: &SampleDocument| Some(*it.placement_bytes.get(at)? as f64 / GIB);
        let tiers = self.tiers.iter().enumerate();
        let mut series: Vec<Option<Series>> =
            tiers.map(|(at, tier)| self.line(&tier.name, at, of(at))).collect();
        series.push(
            self.line("resident", self.tiers.len(), |it| Some(it.resident_bytes? as f64 / GIB)),
        );
        Figure {
            caption: "Placement of the memory of the command and its descendants.".into(),
            ..self.figure("placement", "Memory", "GiB", series)
        }
    }

    fn cpus(&self) -> Figure {
        let series = vec![self.line("the command", 0, SampleDocument::cpus)];
        self.figure("cpus", "CPUs used", "CPUs", series)
    }

    fn slots(&self) -> Figure {
        let of = |kind: fn(&SlotsDocument) -> Option<f64>| {
            move |it: &SampleDocument| {
                let slots = it.slots.as_ref()?;
                Some(100.0 * kind(slots)? / slots.all.filter(|all| *all > 0.0)?)
            }
        };
        let series = vec![
            self.line("retiring", 0, of(|it| it.retiring)),
            self.line("bad speculation", 1, of(|it| it.bad_speculation)),
            self.line("frontend bound", 2, of(|it| it.frontend)),
            self.line("backend bound", 3, of(|it| it.backend)),
            self.line("memory bound", 4, of(|it| it.memory)),
        ];
        Figure {
            caption: "Issue slots of the command's threads; memory is a part of backend.".into(),
            ..self.figure("topdown", "Where slots went", "%", series)
        }
    }

    fn power(&self) -> Figure {
        let of = |at: usize| {
            move |it: &SampleDocument| {
                let energy_j = it.energy_j.get(at).copied().flatten()?;
                (it.span_s > 0.0).then(|| energy_j / it.span_s)
            }
        };
        let domains = self.energy_domains.iter().enumerate();
        let series = domains.map(|(at, name)| self.line(name, at, of(at))).collect();
        Figure {
            caption: "Of the whole machine; memory behind CXL is in none of it.".into(),
            ..self.figure("power", "Power", "W", series)
        }
    }

    fn storage(&self) -> Figure {
        let of = |bytes: fn(&SampleDocument) -> Option<u64>| {
            move |it: &SampleDocument| {
                let bytes = bytes(it)? as f64;
                (it.looked_s > 0.0).then(|| bytes / it.looked_s / 1e9)
            }
        };
        let series = vec![
            self.line("read", 0, of(|it| it.storage_read_bytes)),
            self.line("written", 1, of(|it| it.storage_written_bytes)),
        ];
        self.figure("storage", "Storage", "GB/s", series)
    }
}

fn drawn(name: &str, group: usize, points: Vec<(f64, f64)>) -> Option<Series> {
    (points.len() > 1).then(|| Series::new(name, SeriesKind::Line, group, points))
}
