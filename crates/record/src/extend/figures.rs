//! Figures of a session under `interleaf extend`: faults, prefetches and traffic of each process.

use super::{CountsDocument, ExtendDocument};
use crate::figure::{Figure, Series, SeriesKind};

/// Maximum number of processes that have bars of their own. The other processes share one group of
/// bars, with the sums of their counts.
const PROCESSES_MAX: usize = 8;

/// A series of bars: its name, and a function from the counts of a process to the height of its
/// bar.
type Bars = (&'static str, fn(&CountsDocument) -> f64);

/// The series of the figure of faults and prefetches. A prefetch hit is a page for which a thread
/// would have waited without the prefetch. A wasted prefetch is a page that was evicted untouched.
const PAGES: [Bars; 4] = [
    ("major faults", |it| it.faults.saturating_sub(it.soft_faults) as f64),
    ("minor faults", |it| it.soft_faults as f64),
    ("prefetch hits", |it| it.prefetch_hits as f64),
    ("wasted prefetches", |it| it.prefetch_wasted as f64),
];

const MIB: f64 = (1 << 20) as f64;

const TRAFFIC: [Bars; 2] =
    [("read", |it| it.read_bytes as f64 / MIB), ("written", |it| it.written_bytes as f64 / MIB)];

impl ExtendDocument {
    /// Returns a figure of faults and prefetches, and a figure of traffic, both with bars for each
    /// process. Leaves out a figure whose counts are all 0.
    pub fn figures(&self) -> Vec<Figure> {
        let pages = Figure {
            caption: "A thread waits for a major fault until its page is read, and hardly for a \
                      minor fault or a prefetch hit. A wasted prefetch was evicted untouched."
                .into(),
            ..Figure::new("pages", "Faults and prefetches", "process", "pages")
        };
        let traffic = Figure {
            caption: "Pages read and written back, with prefetched pages.".into(),
            ..Figure::new("traffic", "Traffic of the stores", "process", "MiB")
        };
        let all = [self.bars(pages, &PAGES), self.bars(traffic, &TRAFFIC)];
        all.into_iter().flatten().collect()
    }

    fn bars(&self, figure: Figure, bars: &[Bars]) -> Option<Figure> {
        let processes = self.largest_processes();
        let series = bars.iter().enumerate().map(|(group, (name, value))| {
            let points = processes.iter().enumerate();
            let points = points.map(|(at, (_, counts))| (at as f64, value(counts)));
            Series::new(*name, SeriesKind::Bars, group, points)
        });
        let series: Vec<Series> = series.collect();
        let is_counted = series.iter().flat_map(|series| &series.y).any(|value| *value > 0.0);
        let categories = processes.into_iter().map(|(name, _)| name).collect();
        is_counted.then_some(Figure { categories, series, ..figure })
    }

    /// Returns the processes with the most faults and prefetches, in the document's order, and the
    /// sum of the counts of all others.
    fn largest_processes(&self) -> Vec<(String, CountsDocument)> {
        let work = |at: &usize| {
            let counts = &self.processes[*at].counts;
            counts.faults.saturating_add(counts.prefetched_pages)
        };
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(work(at)));
        let others = order.split_off(PROCESSES_MAX.min(order.len()));
        order.sort_unstable();
        let named = order.iter().map(|at| {
            let process = &self.processes[*at];
            (format!("{} ({})", process.name, process.pid), process.counts)
        });
        let mut found: Vec<(String, CountsDocument)> = named.collect();
        if !others.is_empty() {
            let counts = others.iter().map(|at| self.processes[*at].counts);
            let sum = counts.fold(CountsDocument::default(), |sum, counts| sum + counts);
            found.push((format!("{} others", others.len()), sum));
        }
        found
    }
}
