//! Finds the levels of a memory hierarchy in a sweep of latency over the size of the visited
//! memory.
//!
//! In a virtual machine, sysfs shows the caches that the hypervisor claims, and the last level is
//! shared with other virtual machines. The levels are therefore measured:
//!
//! ```text
//!  ns                                  ________   memory
//!                                    /
//!                        ___________/             last cache
//!          _____________/                         second
//!  _______/                                       first
//!   4 KiB                              128 MiB
//! ```
//!
//! A level is a plateau of the sweep: a range of sizes (about an octave or more) with nearly
//! constant latency. A level ends at the size at which nine in ten accesses hit: at this size, the
//! latency has risen by a tenth of the step to the latency of the next level. A slope without a
//! plateau is not a level; it comes from a cache that other programs use to a varying degree.

/// The largest ratio of two latencies within a level. A plateau is not flat, because cache sets are
/// filled unevenly and TLB misses add latency.
const RISE_MAX: f64 = 1.25;

/// Minimum ratio of the largest size of a plateau to its smallest size: about an octave.
const LENGTH_MIN: f64 = 1.9;

/// Minimum ratio of the latency of a level to the latency of the previous level. Plateaus with a
/// smaller ratio are merged into one level.
const STEP_MIN: f64 = 1.4;

/// The fraction of the accesses that miss a cache level at the size at which the level ends.
const MISSES: f64 = 0.1;

/// A point of the sweep: the latency of a chase through memory of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visited {
    /// The size of the memory that the chase visits, bytes.
    pub bytes: f64,
    pub latency_ns: f64,
}

/// The latency and the size of a cache level, found in the sweep over memory sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The latency of a hit in this cache level, ns.
    pub latency_ns: f64,
    /// The largest size at which nine in ten accesses hit the level, bytes.
    pub reaches_bytes: f64,
}

/// The levels that a sweep shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels {
    /// The cache levels, the nearest to the core first.
    pub caches: Vec<Level>,
    /// Latency of a miss in all caches, ns; `None` if the latency still rises at the end of the
    /// sweep.
    pub miss_ns: Option<f64>,
}

/// Finds the levels of the memory hierarchy in a sweep of latency over memory size. The points may
/// be in any order. Points with values that are not positive numbers are ignored.
pub fn levels(sweep: &[Visited]) -> Levels {
    let is_one = |point: &&Visited| {
        let fine = |value: f64| value.is_finite() && value > 0.0;
        fine(point.bytes) && fine(point.latency_ns)
    };
    let mut points: Vec<Visited> = sweep.iter().filter(is_one).copied().collect();
    points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    let rising = rising(&points);
    let flat = plateaus(&rising);
    let mut caches = vec![];
    for pair in flat.windows(2) {
        let [here, next] = [pair[0], pair[1]].map(|run| latency(&rising[run.0..=run.1]));
        let bound = here + MISSES * (next - here);
        caches.push(Level { latency_ns: here, reaches_bytes: reach(&rising, pair[0], bound) });
    }
    let miss_ns = flat.last().filter(|run| run.1 + 1 == rising.len());
    let miss_ns = miss_ns.map(|run| latency(&rising[run.0..=run.1]));
    if let (None, Some(&run)) = (miss_ns, flat.last()) {
        // The sweep ends on a slope after the last plateau, so the latency of the next level is
        // unknown. The last plateau is then a cache that reaches to the end of the plateau.
        let latency_ns = latency(&rising[run.0..=run.1]);
        caches.push(Level { latency_ns, reaches_bytes: rising[run.1].bytes });
    }
    Levels { caches, miss_ns }
}

/// Removes disturbances from a sweep. A disturbance only adds latency, and a larger size is never
/// faster. The latency of each size is therefore limited to the lowest latency of all larger sizes.
fn rising(points: &[Visited]) -> Vec<Visited> {
    let mut rising = points.to_vec();
    let mut fastest = f64::INFINITY;
    for point in rising.iter_mut().rev() {
        fastest = fastest.min(point.latency_ns);
        point.latency_ns = fastest;
    }
    rising
}

/// Returns the plateaus of a rising sweep, each with the indices of its first and last point. The
/// longest plateau is found first, then recursively the longest plateau on each side of it.
fn plateaus(points: &[Visited]) -> Vec<(usize, usize)> {
    let mut found = vec![];
    let mut open = vec![(0, points.len())];
    while let Some((from, to)) = open.pop() {
        let part = &points[from..to];
        let Some((first, last)) = longest(part) else { continue };
        let (first, last) = (from + first, from + last);
        found.push((first, last));
        open.extend([(from, first), (last + 1, to)]);
    }
    found.sort_unstable();
    // Neighbouring plateaus with similar latencies are merged, because they are one level.
    let mut merged: Vec<(usize, usize)> = vec![];
    for run in found {
        let of = |run: (usize, usize)| latency(&points[run.0..=run.1]);
        match merged.last_mut() {
            Some(before) if of(run) < STEP_MIN * of(*before) => before.1 = run.1,
            _ => merged.push(run),
        }
    }
    merged
}

/// Returns the longest plateau of a rising sweep: the plateau with the largest ratio of its last
/// size to its first size. Returns `None` if this ratio is below [`LENGTH_MIN`].
fn longest(points: &[Visited]) -> Option<(usize, usize)> {
    let mut best: Option<(f64, (usize, usize))> = None;
    let mut last = 0;
    for first in 0..points.len() {
        last = last.max(first);
        while last + 1 < points.len()
            && points[last + 1].latency_ns <= RISE_MAX * points[first].latency_ns
        {
            last += 1;
        }
        let length = points[last].bytes / points[first].bytes;
        if length >= LENGTH_MIN && best.is_none_or(|(most, _)| length > most) {
            best = Some((length, (first, last)));
        }
    }
    let (first, mut last) = best?.1;
    // The plateau may begin on the slope before the level, where latencies are lower. The plateau
    // is therefore extended to all following points with a latency of at most `RISE_MAX` times the
    // latency of its middle point.
    let middle_ns = latency(&points[first..=last]);
    while last + 1 < points.len() && points[last + 1].latency_ns <= RISE_MAX * middle_ns {
        last += 1;
    }
    Some((first, last))
}

/// Returns the latency of a plateau: the latency of its middle point, ns. `run` has the points of
/// the plateau, at least one.
fn latency(run: &[Visited]) -> f64 {
    run[run.len() / 2].latency_ns
}

/// Returns the memory size at which the latency crosses `bound`, searched from the middle of the
/// plateau `run` to larger sizes. Between two points, the logarithm of the size is linear in the
/// latency. If no point exceeds the bound, returns the last size of the plateau.
fn reach(points: &[Visited], run: (usize, usize), bound: f64) -> f64 {
    let middle = run.0 + (run.1 + 1 - run.0) / 2;
    let over = (middle..points.len()).find(|at| points[*at].latency_ns > bound);
    match over {
        Some(at) if at > 0 => {
            let (a, b) = (points[at - 1], points[at]);
            let way = ((bound - a.latency_ns) / (b.latency_ns - a.latency_ns)).clamp(0.0, 1.0);
            a.bytes * (b.bytes / a.bytes).powf(way)
        }
        _ => points[run.1].bytes,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    /// Returns the sweep of a simulated hierarchy, with four sizes per octave from 4 KiB to 128
    /// MiB. `caches` has the size and the latency of each cache. If a cache is smaller than the
    /// visited memory, its hit rate is the fourth power of the ratio of the two sizes.
    fn sweep(caches: &[(f64, f64)], memory_ns: f64, noise: impl Fn(usize) -> f64) -> Vec<Visited> {
        let point = |step: i32| {
            let bytes = 4096.0 * 2_f64.powf(f64::from(step) / 4.0);
            let (mut latency_ns, mut left) = (0.0, 1.0);
            for &(size, ns) in caches {
                let hits = left * (size / bytes).min(1.0).powi(4);
                latency_ns += hits * ns;
                left -= hits;
            }
            let latency_ns = (latency_ns + left * memory_ns) * (1.0 + noise(step as usize));
            Visited { bytes, latency_ns }
        };
        (0..=60).map(point).collect()
    }

    const KIB: f64 = 1024.0;
    const MIB: f64 = 1024.0 * 1024.0;

    /// True if `found` has the cache levels `caches`, with sizes within a third and latencies
    /// within 15 %.
    fn shows(found: &Levels, caches: &[(f64, f64)], memory_ns: f64) -> bool {
        let near = |a: f64, b: f64, part: f64| (a / b - 1.0).abs() <= part;
        found.caches.len() == caches.len()
            && found.caches.iter().zip(caches).all(|(level, (size, ns))| {
                near(level.reaches_bytes, *size, 0.34) && near(level.latency_ns, *ns, 0.15)
            })
            && found.miss_ns.is_some_and(|ns| near(ns, memory_ns, 0.15))
    }

    #[test]
    fn a_hierarchy_shows_its_caches() {
        let caches = [(32.0 * KIB, 1.2), (MIB, 4.0), (32.0 * MIB, 15.0)];
        let found = levels(&sweep(&caches, 110.0, |_| 0.0));
        assert!(shows(&found, &caches, 110.0), "{found:?}");
        // A last-level cache that other programs fill completely has no effect. It is simulated by
        // leaving it out of the hierarchy, and must not be found.
        let found = levels(&sweep(&caches[..2], 110.0, |_| 0.0));
        assert!(shows(&found, &caches[..2], 110.0), "{found:?}");
    }

    #[test]
    fn disturbances_of_single_sizes_have_no_effect() {
        let caches = [(48.0 * KIB, 1.5), (2.0 * MIB, 5.0), (24.0 * MIB, 25.0)];
        let burst = |step: usize| if step % 7 == 3 { 0.8 } else { 0.02 };
        let found = levels(&sweep(&caches, 120.0, burst));
        assert!(shows(&found, &caches, 120.0), "{found:?}");
    }

    #[test]
    fn levels_beyond_the_sweep_are_not_reported() {
        let caches = [(32.0 * KIB, 1.2), (MIB, 4.0)];
        let all = sweep(&caches, 110.0, |_| 0.0);
        let found = levels(&all[..36]);
        assert_eq!((found.caches.len(), found.miss_ns), (2, None), "{found:?}");
        let found = levels(&all[..10]);
        assert_eq!(found.caches.len(), 0, "a sweep within one level is flat: {found:?}");
        assert_eq!(levels(&[]), Levels::default());
        let nothing = Visited { bytes: f64::NAN, latency_ns: 1.0 };
        assert_eq!(levels(&[nothing; 3]), Levels::default());
    }

    /// A sweep that was recorded on a virtual machine with 2 CPUs of an EPYC 9R14, while other load
    /// was running. According to sysfs of the virtual machine, it has caches of 32 KiB, 1 MiB and
    /// 32 MiB.
    const RECORDED: &str = include_str!("levels/virtual-machine.csv");

    #[test]
    fn a_claimed_but_unavailable_last_level_cache_is_not_reported() {
        let point = |line: &str| {
            let (bytes, latency_ns) = line.split_once(',').unwrap();
            let (bytes, latency_ns) = (bytes.parse().unwrap(), latency_ns.parse().unwrap());
            Visited { bytes, latency_ns }
        };
        let sweep: Vec<Visited> =
            RECORDED.lines().filter(|line| !line.starts_with('#')).map(point).collect();
        let found = levels(&sweep);
        let [first, second, last] = found.caches[..] else { panic!("{found:?}") };
        assert!((24.0 * KIB..40.0 * KIB).contains(&first.reaches_bytes), "{found:?}");
        assert!((0.4 * MIB..1.2 * MIB).contains(&second.reaches_bytes), "{found:?}");
        assert!((7.0 * MIB..10.0 * MIB).contains(&last.reaches_bytes), "{found:?}");
        assert!((115.0..135.0).contains(&found.miss_ns.unwrap()), "{found:?}");
    }

    proptest! {
        #[test]
        fn any_hierarchy_is_found_in_noise(
            first in 16.0..48.0_f64, second in 8.0..40.0_f64, third in 8.0..16.0_f64,
            ns in 0.8..2.0_f64, steps in prop::array::uniform3(3.0..6.0_f64),
            noise in prop::collection::vec(0.0..0.04_f64, 61),
        ) {
            let sizes = [first * KIB, first * second * KIB, first * second * third * KIB];
            let ns = [ns, ns * steps[0], ns * steps[0] * steps[1]];
            let caches: Vec<_> = sizes.into_iter().zip(ns).collect();
            let memory_ns = ns[2] * steps[2];
            let found = levels(&sweep(&caches, memory_ns, |step| noise[step]));
            prop_assert!(shows(&found, &caches, memory_ns), "{found:?}");
        }

        #[test]
        fn no_sweep_panics(
            points in prop::collection::vec((0.0..1e9_f64, -1.0..1e6_f64), 0..40),
        ) {
            let sweep: Vec<_> = points.into_iter()
                .map(|(bytes, latency_ns)| Visited { bytes, latency_ns }).collect();
            let found = levels(&sweep);
            let slower = |pair: &[Level]| pair[0].latency_ns < pair[1].latency_ns;
            prop_assert!(found.caches.windows(2).all(slower), "{found:?}");
            let farther = |pair: &[Level]| pair[0].reaches_bytes <= pair[1].reaches_bytes;
            prop_assert!(found.caches.windows(2).all(farther), "{found:?}");
        }
    }
}
