//! Figures of the efficiency with each kind of memory, against the ratio of footprint to budget.

use super::{BenchCompareDocument, BenchRow};
use crate::{
    distinct,
    figure::{Figure, Scale, Series, SeriesKind},
};

/// The prefix of the patterns `polynomial-N`. N is their arithmetic intensity, operations per byte.
const INTENSITY: &str = "polynomial-";

impl BenchCompareDocument {
    /// Returns figures of the efficiency: for each pattern against the ratio of footprint to
    /// budget, and for the patterns `polynomial-N` against N, the arithmetic intensity.
    pub fn figures(&self) -> Vec<Figure> {
        let by_pattern = self.patterns().into_iter().map(|pattern| self.pattern_figure(pattern));
        by_pattern.chain(self.intensity_figure()).collect()
    }

    /// Returns the patterns, in the order of their first rows.
    pub fn patterns(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.pattern.as_str()))
    }

    /// Returns the kinds of memory (ways), except `dram`, which is the reference of the efficiency.
    fn ways(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.way.as_str()).filter(|way| *way != "dram"))
    }

    fn pattern_figure(&self, pattern: &str) -> Figure {
        let of_way = |(group, way): (usize, &&str)| {
            let rows = self.rows.iter().filter(|row| row.pattern == pattern && row.way == *way);
            line(way, group, rows.filter_map(|row| Some((row.ratio, row.efficiency?))).collect())
        };
        let ways = self.ways();
        let mut series: Vec<Series> = ways.iter().enumerate().map(of_way).collect();
        let ceilings = self.ceilings.iter().filter(|it| it.pattern == pattern);
        let ceiling = ceilings.filter_map(|it| Some((it.ratio, it.efficiency?))).collect();
        series.push(line("the drive's ceiling", ways.len(), ceiling));
        series.retain(|series| !series.x.is_empty());
        Figure {
            id: pattern.into(),
            title: format!("{pattern}: efficiency against footprint"),
            x_label: "footprint over the budget of DRAM".into(),
            y_label: "speed, % of that on DRAM".into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series,
            caption: "No way exceeds the ceiling: a round takes at least as long as on DRAM, and \
                      at least as long as the drive needs for the bytes that optimal \
                      replacement would transfer."
                .into(),
        }
    }

    /// Returns a figure of the efficiency of the patterns `polynomial-N` against N (operations per
    /// byte), at the largest ratio of footprint to budget. Returns `None` with fewer than two
    /// points.
    fn intensity_figure(&self) -> Option<Figure> {
        let intensity = |row: &BenchRow| row.pattern.strip_prefix(INTENSITY)?.parse().ok();
        let rows: Vec<(f64, &BenchRow)> =
            self.rows.iter().filter_map(|row| Some((intensity(row)?, row))).collect();
        let largest = rows.iter().map(|(_, row)| row.ratio).fold(0.0, f64::max);
        let of_way = |(group, way): (usize, &&str)| {
            let of_way = rows.iter().filter(|(_, row)| row.way == *way && row.ratio == largest);
            line(way, group, of_way.filter_map(|(x, row)| Some((*x, row.efficiency?))).collect())
        };
        let ways = self.ways();
        let series: Vec<Series> = ways.iter().enumerate().map(of_way).collect();
        let points = series.iter().map(|series| series.x.len()).max().unwrap_or(0);
        (points > 1).then(|| Figure {
            id: "intensity".into(),
            title: format!("Efficiency against arithmetic intensity, at {largest} x the budget"),
            x_label: "operations with floating point for each byte".into(),
            y_label: "speed, % of that on DRAM".into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series,
            caption: "The more is computed with what is read, the less it counts where it was."
                .into(),
        })
    }
}

fn line(name: &str, group: usize, mut points: Vec<(f64, f64)>) -> Series {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points = points.into_iter().map(|(x, part)| (x, 100.0 * part));
    Series::new(name, SeriesKind::Line, group, points)
}
