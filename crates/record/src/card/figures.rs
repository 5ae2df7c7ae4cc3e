//! Figures of simulated cards: IOPS and latency against queue depth, and distributions of the
//! latency.

use super::{CardDocument, CardPoint, STORAGE};
use crate::figure::{Figure, Scale, Series, SeriesKind};

impl CardDocument {
    /// Returns the figures of each load, which have a line for each card. If a card has points at
    /// several queue depths, two figures show the IOPS and the mean latency against the depth. One
    /// figure shows the distribution of the completion latency at the largest depth.
    pub fn figures(&self) -> Vec<Figure> {
        let loads = self.loads();
        let mut figures = vec![];
        for (number, load) in loads.iter().enumerate() {
            // With several loads, the number of the load makes the figures' IDs unique.
            let suffix = if loads.len() > 1 { format!("-{}", number + 1) } else { String::new() };
            let title = load.title();
            if self.cards.iter().any(|card| self.of(load, &card.name).count() > 1) {
                figures.push(self.against_depth(load, &Quantity::iops(&title, &suffix)));
                figures.push(self.against_depth(load, &Quantity::latency(&title, &suffix)));
            }
            figures.push(self.distribution(load, &title, &suffix));
        }
        figures
    }

    /// Returns the points of the card named `card` that have the same load as the point `load`.
    fn of<'a>(&'a self, load: &'a CardPoint, card: &'a str) -> impl Iterator<Item = &'a CardPoint> {
        self.points.iter().filter(move |point| point.card == card && point.load() == load.load())
    }

    fn against_depth(&self, load: &CardPoint, quantity: &Quantity) -> Figure {
        let series = self.cards.iter().enumerate().map(|(group, card)| {
            let points = self.of(load, &card.name);
            let points = points.map(|point| (f64::from(point.iodepth), (quantity.value)(point)));
            Series::new(&card.name, SeriesKind::Line, group, points)
        });
        Figure {
            id: quantity.id.clone(),
            title: quantity.title.clone(),
            x_label: "queue depth".into(),
            y_label: quantity.y_label.into(),
            y_from: 0.0,
            scale: Scale::LogX,
            categories: vec![],
            series: series.filter(|series| !series.x.is_empty()).collect(),
            caption: quantity.caption.into(),
        }
    }

    /// Returns a figure of the fraction of I/Os that take at least a given latency. Each card has a
    /// line: its I/Os at the largest queue depth.
    fn distribution(&self, load: &CardPoint, title: &str, suffix: &str) -> Figure {
        let series = self.cards.iter().enumerate().filter_map(|(group, card)| {
            let point = self.of(load, &card.name).max_by_key(|point| point.iodepth)?;
            let name = format!("{}, depth {}", card.name, point.iodepth);
            let slower = point.clat_us.slower_than(point.ios);
            Some(Series::new(name, SeriesKind::Line, group, slower))
        });
        Figure {
            id: format!("distribution{suffix}"),
            title: format!("latency distribution: {title}"),
            x_label: "completion latency, us".into(),
            y_label: "fraction of slower I/Os".into(),
            y_from: 0.0,
            scale: Scale::LogXy,
            categories: vec![],
            series: series.collect(),
            caption: "Each curve falls from 1 (all I/Os are slower) to the slowest one. 0.01 is \
                      the 99th percentile, 0.0001 the 99.99th."
                .into(),
        }
    }
}

/// A quantity that a figure shows against queue depth: the figure's texts, and the function that
/// returns the quantity of a point.
struct Quantity {
    id: String,
    title: String,
    y_label: &'static str,
    caption: &'static str,
    value: fn(&CardPoint) -> f64,
}

impl Quantity {
    fn iops(load: &str, suffix: &str) -> Self {
        Self {
            id: format!("iops{suffix}"),
            title: format!("throughput: {load}"),
            y_label: "thousand IOPS",
            caption: "More outstanding requests give more IOPS until one component is busy all \
                      the time.",
            value: |point| 1e-3 * point.iops,
        }
    }

    fn latency(load: &str, suffix: &str) -> Self {
        Self {
            id: format!("latency{suffix}"),
            title: format!("mean latency: {load}"),
            y_label: "completion latency, us",
            caption: "Once a component is busy all the time, latency grows with the depth: \
                      requests wait.",
            value: |point| point.clat_us.mean,
        }
    }
}

impl CardPoint {
    /// Describes the load of the point: "randwrite, 4 KiB, 2 jobs".
    pub fn title(&self) -> String {
        let mut title = match self.job.as_str() {
            "" => self.rw.clone(),
            job => format!("{job}: {}", self.rw),
        };
        if let Some(percent) = self.rwmixread {
            title += &format!(" ({percent} % reads)");
        }
        title += &format!(", {}", interleaf_model::units::Bytes::new(self.bs_bytes));
        if self.numjobs > 1 {
            title += &format!(", {} jobs", self.numjobs);
        }
        if let Some(rate) = self.rate_iops {
            title += &format!(", {rate} IOPS asked for");
        }
        if self.access != STORAGE {
            title += &format!(", {} access", self.access);
        }
        if let Some(stores) = self.fsync {
            title += &format!(", fsync {stores}");
        }
        title
    }
}
