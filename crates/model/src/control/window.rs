//! Collects the samples of a control period, and computes from them the observation that the policy
//! gets.

use super::Settings;
use crate::{
    machine::{Sample, Traffic},
    policy::{Observation, Reading, TierObservation, TierReading},
    statistics,
};
use core::mem;

/// The multiple of the samples' mean bandwidth that their range (maximum minus minimum) must exceed
/// for the load to count as varying. Noise alone has a smaller range: with a standard deviation of
/// 5 %, thirty samples have a range of 20 %.
const VARYING_RANGE: f64 = 0.5;

/// The multiple of the median difference between neighbouring samples that the samples' range of
/// bandwidths must also exceed for the load to count as varying. Noise alone has a smaller range:
/// thirty samples of a normal distribution have a range of 4.1 standard deviations, and a median
/// difference of 0.95 standard deviations.
const STEPS_OF_NOISE: f64 = 6.0;

/// A change of placement counts as a migration if at least this fraction of the changed bytes was
/// counted as migrated. The allocation and the release of memory change the placement too. If they
/// counted as migrations, a busy machine would never be quiet.
const MIGRATED: f64 = 0.5;

/// Minimum number of long quiet samples that suffice in place of [`Settings::quiet_min`] samples
/// ([`Window::is_quiet`]). A single sample does not suffice, because it shows no scatter.
const LONG_MIN: usize = 2;

/// The samples of one period, with the counters of one domain only.
pub(super) struct Window {
    tiers: usize,
    samples: Vec<Kept>,
    /// The placement of each scope's pages in the last sample, bytes on each tier; `None` if the
    /// placement was not sampled.
    placements: Vec<Option<Vec<u64>>>,
    /// Bytes that migrated since the last sample in which the placement had changed. The sum runs
    /// over several samples, because a machine may sample the placement less often than it counts
    /// migrations.
    since_bytes: u64,
    /// The placement at the last decision, if that decision migrates pages; otherwise empty. Once a
    /// later sample has another placement, the migration has begun.
    placements_at_decision: Vec<Option<Vec<u64>>>,
}

/// The part of a sample that the window keeps: the counters of the tiers near one domain.
struct Kept {
    span_ns: f64,
    quiet: bool,
    /// True if the traffic to all tiers near the domain was counted.
    counted: bool,
    traffic: Vec<Traffic>,
    free_bytes: Vec<Option<u64>>,
    migrated_bytes: u64,
    scope_bytes: Vec<Option<u64>>,
}

impl Kept {
    fn tier_gbps(&self, tier: usize) -> f64 {
        self.traffic[tier].bytes().unwrap_or(0.0) / self.span_ns
    }

    fn total_gbps(&self) -> f64 {
        (0..self.traffic.len()).map(|tier| self.tier_gbps(tier)).sum()
    }
}

impl Window {
    pub(super) const fn new(tiers: usize) -> Self {
        Self {
            tiers,
            samples: vec![],
            placements: vec![],
            since_bytes: 0,
            placements_at_decision: vec![],
        }
    }

    pub(super) fn clear(&mut self) {
        self.samples.clear();
    }

    /// Adds the counters of `sample` for `domain`, its `near` tiers and its steered `scopes`.
    /// Returns the same counters as a [`Reading`], which the policy gets for each sample.
    pub(super) fn add(
        &mut self,
        sample: &Sample,
        domain: usize,
        near: &[usize],
        scopes: &[usize],
        settings: &Settings,
    ) -> Reading {
        let traffic: Vec<Traffic> = near.iter().map(|tier| sample.traffic[domain][*tier]).collect();
        let moved = |tier: &usize| sample.tier_memory[*tier].migrated_in_bytes.unwrap_or(0);
        let migrated_bytes: u64 = near.iter().map(moved).sum();
        let all_bytes: f64 = traffic.iter().filter_map(Traffic::bytes).sum();
        let placements = scopes.iter().map(|scope| sample.scopes.get(*scope)?.used_bytes.clone());
        let before = mem::replace(&mut self.placements, placements.collect());
        self.since_bytes += migrated_bytes;
        let floor = settings.placement_floor.unwrap_or(f64::INFINITY);
        let gone = before.iter().zip(&self.placements).map(|(a, b)| moved_bytes(a, b, floor));
        let moved_bytes: f64 = gone.sum();
        let is_on_its_way = moved_bytes > 0.0 && self.since_bytes as f64 >= MIGRATED * moved_bytes;
        if before != self.placements {
            self.since_bytes = 0;
        }
        let is_little = migrated_bytes as f64 <= settings.migration_floor * all_bytes;
        let kept = Kept {
            span_ns: sample.span.as_nanos() as f64,
            quiet: is_little && !is_on_its_way,
            counted: traffic.iter().all(|tier| tier.bytes().is_some()),
            traffic,
            free_bytes: near.iter().map(|tier| sample.tier_memory[*tier].free_bytes).collect(),
            migrated_bytes,
            scope_bytes: sample
                .scopes
                .iter()
                .map(|scope| scope.used_bytes.as_ref().map(|bytes| bytes.iter().sum()))
                .collect(),
        };
        let tiers = (0..self.tiers).map(|tier| {
            let Traffic { inserts, occupancy_ns, .. } = kept.traffic[tier];
            TierReading {
                bandwidth_gbps: kept.tier_gbps(tier),
                inserts_per_ns: inserts.map(|inserts| inserts / kept.span_ns),
                occupancy: occupancy_ns.map(|occupancy| occupancy / kept.span_ns),
            }
        });
        let reading = Reading { tiers: tiers.collect(), migrating: !kept.quiet };
        self.samples.push(kept);
        reading
    }

    /// Records a decision; called after each decision. If the decision migrates pages, keeps the
    /// current placement, in which [`Self::has_begun`] then looks for changes; otherwise keeps
    /// none. The decision migrates pages if its `shares` of the `near` tiers differ from the shares
    /// `before`, and if for some tier the share differs from the current placement by more than
    /// [`Settings::placement_floor`].
    pub(super) fn send(
        &mut self,
        near: &[usize],
        shares: &[f64],
        before: &[f64],
        settings: &Settings,
    ) {
        let known = || self.placements.iter().flatten();
        let on = |tier: &usize| known().filter_map(|bytes| bytes.get(*tier)).sum::<u64>() as f64;
        let all = known().flatten().sum::<u64>() as f64;
        let is_off = |(tier, share): (&usize, &f64)| {
            (on(tier) / all - share).abs() > settings.placement_floor.unwrap_or(f64::INFINITY)
        };
        let elsewhere = shares != before && near.iter().zip(shares).any(is_off);
        self.placements_at_decision = if elsewhere { self.placements.clone() } else { vec![] };
    }

    /// True if the migration of the last decision has begun, or if the decision needs no migration.
    /// Until the migration begins, the counters show the old placement.
    pub(super) fn has_begun(&self, settings: &Settings) -> bool {
        let floor = settings.placement_floor.unwrap_or(f64::INFINITY);
        self.placements_at_decision.is_empty()
            || self
                .placements_at_decision
                .iter()
                .zip(&self.placements)
                .any(|(a, b)| moved_bytes(a, b, floor) > 0.0)
    }

    /// The samples after the last sample with migration, without samples whose traffic was not
    /// counted.
    fn since_the_last_move(&self) -> impl Iterator<Item = &Kept> {
        let begin = self.samples.iter().rposition(|sample| !sample.quiet).map_or(0, |at| at + 1);
        self.samples[begin..].iter().filter(|sample| sample.counted)
    }

    /// The number of samples after the last sample with migration, without samples whose traffic
    /// was not counted.
    pub(super) fn quiet(&self) -> usize {
        self.since_the_last_move().count()
    }

    /// True if the quiet samples (without migration) since the last migration suffice for a
    /// decision, in number or in total time: on busy CPUs one sample may last as long as five.
    pub(super) fn is_quiet(&self, settings: &Settings) -> bool {
        let count = self.quiet();
        let span_ns: f64 = self.since_the_last_move().map(|sample| sample.span_ns).sum();
        let wanted_ns = settings.sample.as_nanos() as f64 * settings.quiet_min as f64;
        count >= settings.quiet_min || (count >= LONG_MIN && span_ns >= wanted_ns)
    }

    /// True if pages migrated in at least one sample of the period.
    pub(super) fn has_migrated(&self) -> bool {
        self.samples.iter().any(|sample| !sample.quiet)
    }

    /// True if at least one sample counted the traffic to every tier near the domain.
    pub(super) fn is_counted(&self) -> bool {
        self.samples.iter().any(|sample| sample.counted)
    }

    /// Returns the quiet samples since the last migration if they suffice for a decision. Otherwise
    /// returns all quiet samples of the period, although the earlier ones show another placement.
    /// If no sample is quiet, returns all samples with counted bytes.
    fn usable(&self, settings: &Settings) -> Vec<&Kept> {
        if self.quiet() > 0 && self.is_quiet(settings) {
            return self.since_the_last_move().collect();
        }
        let counted = || self.samples.iter().filter(|sample| sample.counted);
        let quiet: Vec<&Kept> = counted().filter(|sample| sample.quiet).collect();
        if quiet.is_empty() { counted().collect() } else { quiet }
    }

    /// The observation of the period; `None` if no traffic was counted.
    pub(super) fn observation(
        &self,
        time_s: f64,
        target: Vec<f64>,
        scopes: &[usize],
        settings: &Settings,
    ) -> Option<Observation> {
        let usable = busy(self.usable(settings));
        let last = usable.last()?;
        let totals: Vec<f64> = usable.iter().map(|sample| sample.total_gbps()).collect();
        let count = totals.len() as f64;
        let mean = totals.iter().sum::<f64>() / count;
        let variance = totals.iter().map(|total| (total - mean) * (total - mean)).sum::<f64>()
            / (count - 1.0).max(1.0);
        let tiers = (0..self.tiers).map(|tier| self.tier(tier, &usable, last.free_bytes[tier]));
        let steered: Option<Vec<u64>> =
            scopes.iter().map(|scope| last.scope_bytes.get(*scope).copied().flatten()).collect();
        Some(Observation {
            time_s,
            quiet: usable.len(),
            bandwidth_gbps: statistics::nearest_rank(
                &statistics::sorted(totals),
                settings.percentile,
            )?,
            mean_gbps: mean,
            error_gbps: (variance / count).sqrt(),
            tiers: tiers.collect(),
            target,
            steered_bytes: steered.map(|bytes| bytes.iter().sum()),
        })
    }

    fn tier(&self, tier: usize, usable: &[&Kept], free_bytes: Option<u64>) -> TierObservation {
        let sum = |f: &dyn Fn(&Traffic) -> Option<f64>| -> Option<f64> {
            usable.iter().map(|sample| f(&sample.traffic[tier])).sum()
        };
        let (read, written) = (sum(&|t| t.read_bytes), sum(&|t| t.written_bytes));
        let span_ns: f64 = usable.iter().map(|sample| sample.span_ns).sum();
        let bytes = read.zip(written).map_or(0.0, |(read, written)| read + written);
        TierObservation {
            bandwidth_gbps: bytes / span_ns,
            read_share: read.filter(|_| bytes > 0.0).map(|read| read / bytes),
            latency_ns: latency_ns(sum(&|t| t.inserts), sum(&|t| t.occupancy_ns)),
            free_bytes,
        }
    }

    /// Mean bandwidth of each tier, GB/s, over the samples whose bytes were counted, with and
    /// without migration.
    pub(super) fn tier_bandwidth_gbps(&self) -> Vec<f64> {
        let counted = || self.samples.iter().filter(|sample| sample.counted);
        let count = counted().count().max(1) as f64;
        let mean = |tier| counted().map(|sample| sample.tier_gbps(tier)).sum::<f64>() / count;
        (0..self.tiers).map(mean).collect()
    }

    /// The mean latency of each tier over all samples, ns; `None` if a sample lacks the latency
    /// counters, or if no request was counted.
    pub(super) fn tier_latency_ns(&self) -> Vec<Option<f64>> {
        let of = |tier: usize| {
            let sum = |f: &dyn Fn(&Traffic) -> Option<f64>| -> Option<f64> {
                self.samples.iter().map(|sample| f(&sample.traffic[tier])).sum()
            };
            latency_ns(sum(&|t| t.inserts), sum(&|t| t.occupancy_ns))
        };
        (0..self.tiers).map(of).collect()
    }

    pub(super) fn migrated_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.migrated_bytes).sum()
    }
}

/// The size of the change from the placement `before` to the placement `now`, bytes: the largest
/// change of a tier's share, times all bytes that the scope has now. 0 if no share changed by more
/// than `floor`.
fn moved_bytes(before: &Option<Vec<u64>>, now: &Option<Vec<u64>>, floor: f64) -> f64 {
    let (Some(before), Some(now)) = (before, now) else { return 0.0 };
    let all = |bytes: &[u64]| bytes.iter().sum::<u64>().max(1) as f64;
    let (all_before, all_now) = (all(before), all(now));
    let part = |(before, now): (&u64, &u64)| *now as f64 / all_now - *before as f64 / all_before;
    let most = before.iter().zip(now).map(part).fold(0.0, |most: f64, part| most.max(part.abs()));
    if most > floor { most * all_now } else { 0.0 }
}

/// Returns the samples under load. A load varies if the range of the samples' bandwidths exceeds
/// both [`VARYING_RANGE`] times their mean and [`STEPS_OF_NOISE`] times the median difference
/// between neighbouring samples. Of a varying load, returns the samples in the upper half of the
/// range, because a mean over both halves would be a load that never occurs. Of a steady load,
/// returns all samples.
fn busy(samples: Vec<&Kept>) -> Vec<&Kept> {
    let totals: Vec<f64> = samples.iter().map(|sample| sample.total_gbps()).collect();
    let (least, most) = totals.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), total| {
        (least.min(*total), most.max(*total))
    });
    let mean = totals.iter().sum::<f64>() / samples.len().max(1) as f64;
    let steps = totals.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let steps = statistics::sorted(steps);
    // The median difference between neighbouring samples: the higher of the two middle ones if the
    // number of differences is even.
    let usual_step = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    if most - least <= (VARYING_RANGE * mean).max(STEPS_OF_NOISE * usual_step) {
        return samples;
    }
    let middle = 0.5 * (least + most);
    samples.into_iter().filter(|sample| sample.total_gbps() >= middle).collect()
}

/// The mean latency of a request, ns, by Little's law; `None` if a counter is missing or no request
/// was counted.
fn latency_ns(inserts: Option<f64>, occupancy_ns: Option<f64>) -> Option<f64> {
    let (inserts, occupancy_ns) = (inserts?, occupancy_ns?);
    (inserts > 0.0).then(|| occupancy_ns / inserts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Residency, TierMemory};
    use core::time::Duration;

    /// A sample of 200 ms: `gbps[i]` is the bandwidth of tier `i`, and `migrated_bytes` have
    /// migrated to the first tier.
    fn sample(gbps: [f64; 2], migrated_bytes: u64) -> Sample {
        let traffic = |gbps: f64| Traffic {
            read_bytes: Some(0.75 * gbps * 2e8),
            written_bytes: Some(0.25 * gbps * 2e8),
            inserts: Some(gbps),
            occupancy_ns: Some(gbps * 120.0),
        };
        let memory = TierMemory {
            free_bytes: Some(1 << 30),
            migrated_in_bytes: Some(migrated_bytes),
            ..TierMemory::default()
        };
        Sample {
            span: Duration::from_millis(200),
            traffic: vec![gbps.map(traffic).to_vec()],
            tier_memory: vec![memory, TierMemory::default()],
            scopes: vec![Residency { used_bytes: Some(vec![5, 6]), heat: None }],
        }
    }

    #[test]
    fn samples_with_migration_do_not_count() {
        let settings = Settings::default();
        let mut window = Window::new(2);
        for (gbps, migrated) in [(190.0, 0), (10.0, 1 << 30), (210.0, 0), (200.0, 0)] {
            window.add(&sample([gbps, gbps / 4.0], migrated), 0, &[0, 1], &[0], &settings);
        }
        assert_eq!(window.quiet(), 2, "those behind the migration");
        let few = Settings { quiet_min: 2, ..settings.clone() };
        let since = window.observation(0.8, vec![1.0, 0.0], &[0], &few).unwrap();
        assert_eq!((since.quiet, since.mean_gbps), (2, 256.25), "the two are enough");
        let seen = window.observation(0.8, vec![1.0, 0.0], &[0], &settings).unwrap();
        assert_eq!(seen.quiet, 3, "two are not");
        assert!((seen.bandwidth_gbps - 262.5).abs() < 1e-9);
        assert!((seen.mean_gbps - 250.0).abs() < 1e-9);
        assert!((seen.error_gbps - 12.5 / 3f64.sqrt()).abs() < 1e-9);
        assert!((seen.tiers[1].bandwidth_gbps - 50.0).abs() < 1e-9);
        assert_eq!(seen.tiers[0].read_share, Some(0.75));
        assert!((seen.tiers[0].latency_ns.unwrap() - 120.0).abs() < 1e-9);
        assert_eq!((seen.tiers[0].free_bytes, seen.tiers[1].free_bytes), (Some(1 << 30), None));
        assert_eq!(seen.steered_bytes, Some(11));
        assert_eq!(window.migrated_bytes(), 1 << 30);
    }

    /// On a busy machine samples are few and long. Asserts that two or more samples without
    /// migration suffice for a decision if together they last as long as five normal samples.
    #[test]
    fn a_few_long_samples_are_enough() {
        let settings = Settings::default();
        let mut window = Window::new(2);
        let add = |window: &mut Window, span_ms, migrated| {
            let sample =
                Sample { span: Duration::from_millis(span_ms), ..sample([9.0; 2], migrated) };
            window.add(&sample, 0, &[0, 1], &[0], &settings);
        };
        add(&mut window, 1500, 1 << 30);
        assert!(!window.is_quiet(&settings) && window.has_migrated());
        for (span_ms, enough) in [(900, false), (50, false), (50, true)] {
            add(&mut window, span_ms, 0);
            assert_eq!(window.is_quiet(&settings), enough, "{span_ms} ms");
        }
        assert_eq!(window.observation(2.5, vec![1.0, 0.0], &[0], &settings).unwrap().quiet, 3);
        window.clear();
        add(&mut window, 5000, 0);
        assert!(!window.is_quiet(&settings) && !window.has_migrated(), "it may be anything");
    }

    /// The test's migration has few bytes compared with the traffic, but many compared with the
    /// scope. Asserts that samples during this migration are not quiet: their counters do not show
    /// the new placement yet.
    #[test]
    fn pages_on_their_way_are_waited_for() {
        let placement_floor = Some(0.005);
        let settings = Settings { quiet_min: 2, placement_floor, ..Settings::default() };
        let mut window = Window::new(2);
        // Pairs of the bytes on the first tier (of 1000 bytes) and the bytes counted as migrated.
        // The count shows a migration at once; the placement may show it one sample later.
        let on_first = [(1000, 0), (1000, 30), (960, 10), (921, 39), (920, 1), (920, 0), (922, 9)];
        for (at, (bytes, migrated)) in on_first.into_iter().enumerate() {
            let mut sample = sample([100.0 + at as f64, 0.0], migrated);
            sample.scopes[0].used_bytes = Some(vec![bytes, 1000 - bytes]);
            window.add(&sample, 0, &[0, 1], &[0], &settings);
        }
        assert_eq!(window.quiet(), 3);
        let seen = window.observation(1.4, vec![1.0, 0.0], &[0], &settings).unwrap();
        assert_eq!(seen.mean_gbps, 105.0);
        // A migration that began before the end of a period is detected in the first sample of the
        // next period. A sample without a known placement counts as quiet, and so does the sample
        // after it: there is no placement to compare with.
        window.clear();
        for (bytes, quiet) in [(Some(500), 0), (None, 1), (Some(100), 2), (Some(100), 3)] {
            let mut sample = sample([100.0, 0.0], 500);
            sample.scopes[0].used_bytes = bytes.map(|bytes| vec![bytes, 1000 - bytes]);
            window.add(&sample, 0, &[0, 1], &[0], &settings);
            assert_eq!(window.quiet(), quiet, "{bytes:?}");
        }
        // The placement changes although few bytes were counted as migrated: a program has
        // allocated much memory on one tier. That is no migration, so the sample is quiet.
        let mut grown = sample([100.0, 0.0], 100);
        grown.scopes[0].used_bytes = Some(vec![2100, 900]);
        window.add(&grown, 0, &[0, 1], &[0], &settings);
        assert_eq!(window.quiet(), 4);
    }

    /// A migration begins more than a period after its decision. Asserts that the window reports it
    /// as not begun until the placement changes, so that the control loop waits.
    #[test]
    fn pages_that_were_sent_and_stand_still_are_waited_for() {
        let settings = Settings { placement_floor: Some(0.005), ..Settings::default() };
        let mut window = Window::new(2);
        let look = |window: &mut Window, on_first: u64| {
            let mut sample = sample([100.0, 0.0], 0);
            sample.scopes[0].used_bytes = Some(vec![on_first, 1000 - on_first]);
            window.add(&sample, 0, &[0, 1], &[0], &settings);
        };
        look(&mut window, 1000);
        assert!(window.has_begun(&settings), "nothing was sent");
        window.send(&[0, 1], &[0.92, 0.08], &[1.0, 0.0], &settings);
        for (on_first, begun) in [(1000, false), (996, false), (980, true), (921, true)] {
            look(&mut window, on_first);
            assert_eq!(window.has_begun(&settings), begun, "{on_first}");
        }
        window.send(&[0, 1], &[0.92, 0.08], &[1.0, 0.0], &settings);
        assert!(window.has_begun(&settings), "they are there");
        window.send(&[0, 1], &[0.5, 0.5], &[0.5, 0.5], &settings);
        assert!(window.has_begun(&settings), "they were sent there before");
        // If no placement was sampled, or if `placement_floor` is not set, the loop does not wait
        // for the start of a migration.
        let mut blind = Window::new(2);
        blind.send(&[0, 1], &[0.92, 0.08], &[1.0, 0.0], &settings);
        assert!(blind.has_begun(&settings));
        window.send(&[0, 1], &[0.5, 0.5], &[1.0, 0.0], &Settings::default());
        assert!(window.has_begun(&Settings::default()));
    }

    #[test]
    fn an_intermittent_load_is_judged_by_its_active_samples() {
        let settings = Settings::default();
        let mut window = Window::new(2);
        for gbps in [400.0, 410.0, 390.0, 400.0, 100.0, 90.0, 100.0] {
            window.add(&sample([gbps, 0.0], 0), 0, &[0, 1], &[0], &settings);
        }
        let seen = window.observation(1.4, vec![1.0, 0.0], &[0], &settings).unwrap();
        assert_eq!((seen.quiet, seen.mean_gbps), (4, 400.0));
        let mut noisy = Window::new(2);
        for gbps in [400.0, 300.0, 520.0, 390.0, 200.0, 480.0, 410.0] {
            noisy.add(&sample([gbps, 0.0], 0), 0, &[0, 1], &[0], &settings);
        }
        let seen = noisy.observation(1.4, vec![1.0, 0.0], &[0], &settings).unwrap();
        assert_eq!(seen.quiet, 7, "noise does not come and go");
    }

    #[test]
    fn uncounted_traffic_gives_no_observation() {
        let settings = Settings::default();
        let mut blind = sample([100.0, 20.0], 0);
        blind.traffic[0][1] = Traffic::default();
        let mut window = Window::new(2);
        window.add(&blind, 0, &[0, 1], &[0], &settings);
        assert!(!window.is_counted());
        assert_eq!(window.observation(0.2, vec![1.0, 0.0], &[0], &settings), None);
        assert_eq!(window.tier_latency_ns()[1], None);
        // A sample with a missing counter is skipped; the other samples count.
        window.add(&sample([100.0, 20.0], 0), 0, &[0, 1], &[0], &settings);
        window.add(&blind, 0, &[0, 1], &[0], &settings);
        window.add(&sample([100.0, 20.0], 0), 0, &[0, 1], &[0], &settings);
        assert_eq!((window.quiet(), window.tier_bandwidth_gbps()), (2, vec![100.0, 20.0]));
    }
}
