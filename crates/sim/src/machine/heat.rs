//! Simulates how DAMON samples page hotness.
//!
//! DAMON divides addresses into regions. In each sampling interval, DAMON checks the accessed bit
//! of one page of each region. `accesses` counts the checks of an aggregation interval that found
//! the bit set, and is the estimate for every page of the region. Neighbouring regions with similar
//! counts merge, and each region is split at random, so region boundaries converge on the
//! boundaries of hotness (Documentation/mm/damon/design.rst). The simulation has the same errors as
//! DAMON: a page that is read once in each sampling interval looks as hot as a page that is read
//! ten times in each.

use super::{noise::Noise, pages::Pages, scenario::Damon};

/// Neighbouring regions merge if their `accesses` differ by at most this fraction of the samples of
/// an aggregation interval. A change of `accesses` within this fraction does not reset the `age` of
/// a region.
const MERGE: f64 = 0.1;

/// Consecutive page groups for which DAMON has one common hotness estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The index of the first page group.
    pub(super) start: usize,
    /// The index after the last page group.
    pub(super) end: usize,
    /// The number of samples in the last aggregation interval that found an access.
    pub(super) accesses: u32,
    /// Aggregation intervals since the hotness of the region last changed.
    pub(super) age: u32,
}

/// The sampled hotness of a task's pages.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    regions: Vec<Region>,
    aggregations: u32,
}

impl Heat {
    /// Creates the hotness of `groups` page groups before the first sample.
    pub(super) fn new(groups: usize, damon: &Damon) -> Self {
        let count = damon.regions_min.clamp(1, groups);
        let region = |at: usize| Region {
            start: at * groups / count,
            end: (at + 1) * groups / count,
            accesses: 0,
            age: 0,
        };
        Self { regions: (0..count).map(region).collect(), aggregations: 0 }
    }

    /// Returns the regions in the order of addresses.
    pub(super) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns true if at least one aggregation interval has ended.
    pub(super) const fn is_known(&self) -> bool {
        self.aggregations > 0
    }

    /// Ends an aggregation interval. `visits` converts the share of the accesses that go to a page
    /// group into the number of visits to one of its pages in a sampling interval.
    pub(super) fn aggregate(
        &mut self,
        damon: &Damon,
        pages: &Pages,
        noise: &mut Noise,
        visits: impl Fn(f64) -> f64,
    ) {
        let samples = samples(damon);
        // `known` caches the last access share and the probability that was computed from it. Most
        // page groups of a region are equally hot, so most samples need no new exponential
        // function.
        let mut known = (f64::NAN, 0.0);
        for region in &mut self.regions {
            let mut hits = 0;
            for _ in 0..samples {
                let share =
                    pages.access_share(region.start + noise.below(region.end - region.start));
                if share != known.0 {
                    known = (share, 1.0 - libm::exp(-visits(share)));
                }
                hits += u32::from(noise.uniform() < known.1);
            }
            let changed = f64::from(hits.abs_diff(region.accesses));
            let same = changed <= MERGE * f64::from(samples);
            region.age = if same { region.age + 1 } else { 0 };
            region.accesses = hits;
        }
        self.aggregations += 1;
        self.merge(damon, samples, pages.groups());
        self.split(damon, noise);
    }

    fn merge(&mut self, damon: &Damon, samples: u32, groups: usize) {
        let size_max = groups.div_ceil(damon.regions_min);
        let near = |a: &Region, b: &Region| {
            f64::from(a.accesses.abs_diff(b.accesses)) <= MERGE * f64::from(samples)
        };
        let mut merged: Vec<Region> = Vec::with_capacity(self.regions.len());
        for region in self.regions.drain(..) {
            match merged.last_mut() {
                Some(last) if near(last, &region) && region.end - last.start <= size_max => {
                    let (own, other) = (last.end - last.start, region.end - region.start);
                    let mean = |a: u32, b: u32| {
                        let sum = a as usize * own + b as usize * other;
                        (sum as f64 / (own + other) as f64).round() as u32
                    };
                    last.accesses = mean(last.accesses, region.accesses);
                    last.age = mean(last.age, region.age);
                    last.end = region.end;
                }
                _ => merged.push(region),
            }
        }
        self.regions = merged;
    }

    fn split(&mut self, damon: &Damon, noise: &mut Noise) {
        if self.regions.len() > damon.regions_max / 2 {
            return;
        }
        let mut split = Vec::with_capacity(2 * self.regions.len());
        for region in self.regions.drain(..) {
            let size = region.end - region.start;
            if size < 2 {
                split.push(region);
                continue;
            }
            let at = region.start + 1 + noise.below(size - 1);
            split.push(Region { end: at, ..region });
            split.push(Region { start: at, ..region });
        }
        self.regions = split;
    }
}

/// Returns the number of samples of each region in an aggregation interval.
pub(super) fn samples(damon: &Damon) -> u32 {
    u32::try_from(damon.aggregation_ns / damon.sampling_ns).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_model::demand::Hotness;

    #[test]
    fn a_hot_set_is_found() {
        let damon = Damon::default();
        let hotness = Hotness::HotSet { pages: 0.1, accesses: 0.9 };
        // With fewer than 256 page groups, as here, hot groups are not spread over the addresses:
        // the first tenth of the groups is hot.
        let pages = Pages::new(1 << 30, 200, hotness, 2);
        let mut heat = Heat::new(200, &damon);
        let mut noise = Noise::new(1, 0);
        for _ in 0..40 {
            heat.aggregate(&damon, &pages, &mut noise, |share| 200.0 * share / 5.0);
        }
        let covered: usize = heat.regions().iter().map(|region| region.end - region.start).sum();
        assert_eq!(covered, 200);
        assert!(heat.regions().windows(2).all(|pair| pair[0].end == pair[1].start));
        let mean = |from: usize, to: usize| {
            let of = |region: &Region| {
                let both = region.end.min(to).saturating_sub(region.start.max(from));
                both as f64 * f64::from(region.accesses)
            };
            heat.regions().iter().map(of).sum::<f64>() / (to - from) as f64
        };
        // In a sampling interval, a page of the hot tenth is accessed 1.8 times on average, any
        // other page 0.02 times. So of the 15 samples of an aggregation interval, on average more
        // than 10 find an access in the hot tenth, and fewer than 2 elsewhere.
        assert!(mean(0, 20) > 10.0, "{}", mean(0, 20));
        assert!(mean(20, 200) < 2.0, "{}", mean(20, 200));
        assert!((10..=1000).contains(&heat.regions().len()));
    }
}
