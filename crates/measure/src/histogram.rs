//! Measures the distribution of the latencies of single accesses.
//!
//! The time-stamp counter is read before and after each load. The two readings themselves take
//! longer than a hit in the first-level cache. This overhead is measured with loads that hit this
//! cache, and is subtracted from each sample:
//!
//! ```text
//! a load from memory, with the readings            150 ns
//! a load that hits the cache, with the readings     20 ns, of which the hit takes 1 ns
//! latency of the load from memory                  150 - (20 - 1) = 131 ns
//! ```
//!
//! The far tail, beyond one access in ten thousand, is not caused by memory: interrupts, other
//! threads and a hypervisor stop the thread between the two readings. Such samples are kept, and
//! tagged with the cause if the cause is known. The *raw* distribution has all samples, the
//! *filtered* distribution the samples without a tag.
//!
//! | tag | evidence |
//! | --- | --- |
//! | interrupted | a segment register that a return from an interrupt clears (x86-64) |
//! | moved | `rdtscp` names another CPU than at the load before |
//! | switched | longer than [`GAP_NS`], in a batch of loads with a context switch |
//! | stolen | longer than [`GAP_NS`], while the kernel counted time that a hypervisor took |
//! | gap | longer than [`GAP_NS`], for an unknown reason |

pub mod distribution;

mod stamp;

use crate::{
    chase::{Chase, ChaseError, ChaseShape, Order, Slices},
    clock::Clock,
    context_switches::context_switches,
    region::{Pages, Region},
};
use distribution::Distribution;
use interleaf_linux::{place::mempolicy::Policy, root::Root};
use interleaf_model::statistics::{quantile, sorted};
use stamp::{Spin, Stamp};
use std::time::{Duration, Instant};

/// Upper bound of the latency of memory, ns: memory does not cause longer samples. The slowest
/// accesses of published expanders are faster: one access in 10 000 takes a few µs ("Melody",
/// ASPLOS 2025).
pub const GAP_NS: f64 = 10_000.0;

/// The number of loads between two readings of the thread's number of context switches; these loads
/// take about 1 ms. A [`Stamp`] has 4 bytes, so the stamps of these loads take 32 KiB.
const BATCH: usize = 8192;

/// The time between two readings of stolen time (time that a hypervisor took), which the kernel
/// counts in ticks of 10 ms. After each such window of sampling, the chase measures the latency for
/// comparison.
const WINDOW: Duration = Duration::from_millis(50);

/// The time for which the chase runs after each window of sampling, to measure the latency for
/// comparison.
const CHASE_SPAN: Duration = Duration::from_millis(6);

/// Bytes of the memory whose loads calibrate the timer: at most half of the first-level cache of
/// every current processor, because the stamps also need a part of this cache.
const CALIBRATION_BYTES: usize = 16 << 10;

/// The number of loads of one calibration of the timer; they take about 40 µs.
const CALIBRATION_LOADS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramOptions {
    /// The number of accesses to sample. Default: 4 million.
    pub samples: u64,
    /// A delay that is injected to test the measurement. Default: none.
    pub delay: Option<Delay>,
}

impl Default for HistogramOptions {
    fn default() -> Self {
        Self { samples: 4_000_000, delay: None }
    }
}

/// A delay that is added between the two readings of the time-stamp counter, to test the histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// One of `every` accesses is delayed; 0 means 1.
    pub every: u64,
    pub ns: f64,
}

impl Delay {
    fn spin(&self, clock: Clock) -> Spin {
        let ticks = (self.ns.max(0.0) * clock.ticks_per_ns) as u64;
        Spin { every: self.every.max(1), ticks }
    }
}

/// The properties of the time-stamp counter that affect samples: the time that the two readings of
/// the counter add to a sample, and the step of the counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timer {
    /// The overhead that is subtracted from samples, ns. Each batch of samples has its own
    /// calibration; this is the median over all batches.
    pub overhead_ns: f64,
    /// The step of the counter, ns.
    pub resolution_ns: f64,
}

/// The number of samples with each tag. A sample to which several tags apply is counted once, in
/// the first matching field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tagged {
    /// An interrupt came during the load, or between the previous load and this load.
    pub interrupted: u64,
    /// The thread was moved to another CPU since the previous load.
    pub moved: u64,
    /// The sample is longer than [`GAP_NS`], and a context switch occurred in its batch of loads.
    pub switched: u64,
    /// The sample is longer than [`GAP_NS`], and a hypervisor took CPU time in its window of
    /// sampling (50 ms of loads).
    pub stolen: u64,
    /// The sample is longer than [`GAP_NS`] for an unknown reason.
    pub gaps: u64,
}

impl Tagged {
    pub const fn total(&self) -> u64 {
        self.interrupted + self.moved + self.switched + self.stolen + self.gaps
    }
}

/// The raw and the filtered distribution of the latencies of single accesses, and the latency by
/// the chase for comparison.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// All samples.
    pub raw: Distribution,
    /// Samples without a tag.
    pub filtered: Distribution,
    pub tagged: Tagged,
    /// The overhead of reading the time-stamp counter, which is subtracted from the samples, and
    /// the step of the counter.
    pub timer: Timer,
    /// The latency that the chase measured in the same memory, alternately with the samples.
    pub chase: Slices,
    /// The number of context switches of the measuring thread during the measurement.
    pub switches: u64,
    /// CPU time that a hypervisor took, in ticks of the Linux kernel; `None` if the kernel does not
    /// count stolen time.
    pub stolen_ticks: Option<u64>,
    /// Duration of the measurement.
    pub took: Duration,
}

/// Measures the overhead of reading the time-stamp counter on the CPU of the calling thread.
struct Calibration {
    clock: Clock,
    /// A chase whose memory stays in the first-level cache of the CPU.
    chase: Chase,
    /// The latency of a hit in the first-level cache, ns.
    hit_ns: f64,
    stamps: Vec<Stamp>,
    /// The step of the time-stamp counter, ns.
    resolution_ns: f64,
    /// The overhead that each calibration so far has measured, ns.
    overheads_ns: Vec<f64>,
}

impl Calibration {
    fn new(clock: Clock) -> Result<Self, ChaseError> {
        let region = Region::new(CALIBRATION_BYTES, Pages::Small, &Policy::Default)?;
        let order = Order::Random;
        let shape =
            ChaseShape { bytes: CALIBRATION_BYTES, stride: 64, order, seed: 1, new_laps: false };
        let mut chase = Chase::new(region, shape)?;
        chase.warm()?;
        let hit_ns = chase.slices(clock, 3 * CHASE_SPAN, &mut || true)?.p5_ns;
        let mut stamps = vec![Stamp::default(); 4 * BATCH];
        let resolution_ns = clock.ns(u64::from(step(&timed(&mut chase, &mut stamps)?)));
        stamps.truncate(CALIBRATION_LOADS);
        Ok(Self { clock, chase, hit_ns, stamps, resolution_ns, overheads_ns: vec![] })
    }

    /// Measures the present overhead of reading the counter, ns. The overhead changes by a third
    /// when the SMT sibling of the CPU starts or stops to work, so each batch of samples has its
    /// own calibration.
    fn overhead_ns(&mut self) -> Result<f64, ChaseError> {
        self.chase.warm()?;
        let ticks = timed(&mut self.chase, &mut self.stamps)?;
        let overhead_ns = (sound_mean(&ticks) / self.clock.ticks_per_ns - self.hit_ns).max(0.0);
        self.overheads_ns.push(overhead_ns);
        Ok(overhead_ns)
    }

    /// Returns the timer with the median of all measured overheads. `overhead_ns` must have been
    /// called at least once.
    fn timer(self) -> Timer {
        let overhead_ns = quantile(&sorted(self.overheads_ns), 0.5);
        Timer { overhead_ns, resolution_ns: self.resolution_ns }
    }
}

/// Times one load for each element of `stamps`. Returns the ticks of the loads in ascending order.
fn timed(chase: &mut Chase, stamps: &mut [Stamp]) -> Result<Vec<u32>, ChaseError> {
    walk(chase, None, 0, stamps)?;
    let mut ticks: Vec<u32> = stamps.iter().map(|stamp| stamp.ticks()).collect();
    ticks.sort_unstable();
    Ok(ticks)
}

/// Returns the mean of the sorted samples `batch`, ticks. A single sample would be too inaccurate,
/// because the counter may have steps of 10 ns. Samples above four times the median are left out,
/// because the thread was interrupted during them.
fn sound_mean(batch: &[u32]) -> f64 {
    let most = 4 * batch[batch.len() / 2];
    let sound = &batch[..batch.partition_point(|ticks| *ticks <= most)];
    sound.iter().map(|ticks| f64::from(*ticks)).sum::<f64>() / sound.len() as f64
}

/// Returns the step of the time-stamp counter, ticks: the greatest common divisor of the
/// differences of neighbouring samples in `sorted`. The slowest tenth of the samples is left out,
/// because these samples are sparse, and the thread may have been interrupted during them.
fn step(sorted: &[u32]) -> u32 {
    let near = &sorted[..sorted.len() * 9 / 10];
    let distances = near.windows(2).map(|pair| pair[1] - pair[0]).filter(|distance| *distance > 0);
    let divisor = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    distances.reduce(divisor).unwrap_or(1)
}

/// Continues the chase by one timed load for each element of `stamps`. `number` is the index of the
/// first of these loads, counted from the beginning of the measurement. `spin` delays some of the
/// loads.
fn walk(
    chase: &mut Chase,
    spin: Option<Spin>,
    number: u64,
    stamps: &mut [Stamp],
) -> Result<(), ChaseError> {
    let loads = stamps.len() as u64;
    chase.begin_lap_if_due(loads);
    let Some((ring, from)) = chase.cursor() else { return Ok(()) };
    let is = ring.slot(stamp::stamp(from, spin, number, stamps));
    chase.advance(loads, is)
}

/// Samples accesses of `chase` in the calling thread, which should stay on its CPU; other threads
/// may load the memory meanwhile. `proceed` is called with the completed fraction, 0 to 1; the
/// sampling stops if `proceed` returns false.
///
/// # Errors
/// When the chase ends at a wrong line, `proceed` stops the sampling, or memory for the calibration
/// cannot be allocated.
pub fn histogram(
    root: &Root,
    clock: Clock,
    chase: &mut Chase,
    options: &HistogramOptions,
    proceed: &mut dyn FnMut(f64) -> bool,
) -> Result<Histogram, ChaseError> {
    let began = Instant::now();
    let (mut sampling, mut calibration) = (Sampling::new(clock), Calibration::new(clock)?);
    let spin = options.delay.map(|delay| delay.spin(clock));
    let mut stamps = vec![Stamp::default(); BATCH];
    let mut chased = vec![];
    let (stolen_first, switches_first) = (stolen_ticks(root), context_switches());
    chase.warm_while(&mut || proceed(0.0))?;
    let mut done = 0;
    while done < options.samples {
        let (window, stolen) = (Instant::now(), stolen_ticks(root));
        while done < options.samples && window.elapsed() < WINDOW {
            let count = (options.samples - done).min(BATCH as u64) as usize;
            let overhead_ns = calibration.overhead_ns()?;
            let before = context_switches();
            walk(chase, spin, done, &mut stamps[..count])?;
            sampling.add_batch(&stamps[..count], overhead_ns, context_switches() > before);
            done += count as u64;
        }
        sampling.settle(stolen_ticks(root) > stolen);
        chase.slice(clock, CHASE_SPAN, &mut || true, &mut chased)?;
        if !proceed(done as f64 / options.samples as f64) {
            return Err(ChaseError::Stopped);
        }
    }
    let stolen_ticks =
        stolen_ticks(root).zip(stolen_first).map(|(now, before)| now.saturating_sub(before));
    let Sampling { raw, filtered, tagged, .. } = sampling;
    Ok(Histogram {
        raw,
        filtered,
        tagged,
        timer: calibration.timer(),
        chase: Slices::of(&chased),
        switches: context_switches() - switches_first,
        stolen_ticks,
        took: began.elapsed(),
    })
}

/// The distributions of the samples so far, and the number of samples with each tag.
#[derive(Debug)]
struct Sampling {
    clock: Clock,
    raw: Distribution,
    filtered: Distribution,
    tagged: Tagged,
    /// The number of samples of the current window that are longer than [`GAP_NS`] and have no tag
    /// yet. At the end of the window, either all of them are counted as stolen, or all as gaps.
    open: u64,
}

impl Sampling {
    fn new(clock: Clock) -> Self {
        let none = Distribution::default();
        Self { clock, raw: none.clone(), filtered: none, tagged: Tagged::default(), open: 0 }
    }

    /// Counts the samples and the tags of a batch of loads. `switched` is true if a context switch
    /// occurred during the batch.
    fn add_batch(&mut self, stamps: &[Stamp], overhead_ns: f64, switched: bool) {
        for stamp in stamps {
            let ns = self.clock.ns(u64::from(stamp.ticks())) - overhead_ns;
            self.raw.record(ns);
            if stamp.interrupted() {
                self.tagged.interrupted += 1;
            } else if stamp.moved() {
                self.tagged.moved += 1;
            } else if ns <= GAP_NS {
                self.filtered.record(ns);
            } else if switched {
                self.tagged.switched += 1;
            } else {
                self.open += 1;
            }
        }
    }

    /// Ends a window of sampling. Counts its `open` samples as stolen if the hypervisor took time
    /// during the window (`stolen`), otherwise as gaps.
    fn settle(&mut self, stolen: bool) {
        if stolen {
            self.tagged.stolen += self.open;
        } else {
            self.tagged.gaps += self.open;
        }
        self.open = 0;
    }
}

/// Reads the ticks that a hypervisor took from the CPU of the calling thread since the machine
/// started; `None` if the kernel does not count stolen time.
fn stolen_ticks(root: &Root) -> Option<u64> {
    let text = root.peek("/proc/stat").ok()??;
    stolen_of(&text, rustix::thread::sched_getcpu())
}

/// Parses the stolen time, ticks, in the text of `/proc/stat`: the eighth number in the line of
/// `cpu` (`man 5 proc_stat`); `None` if the text has no such number.
fn stolen_of(text: &str, cpu: usize) -> Option<u64> {
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{idle, spread::spread};
    use distribution::{BIN_NS, BINS};

    /// The number of loads that these tests measure at a time.
    const LOADS: usize = 2048;

    /// Maximum difference, ns, between two overheads of the timer that count as equal. Work on the
    /// SMT sibling of the CPU changes the overhead by several ns.
    const SAME_NS: f64 = 1.0;

    fn chase(bytes: usize) -> Chase {
        let shape = idle::ChaseOptions { bytes, ..idle::ChaseOptions::default() };
        Chase::new(shape.region().unwrap(), shape.local()).unwrap()
    }

    fn of_chase(bytes: usize, options: &HistogramOptions) -> Histogram {
        let mut chase = chase(bytes);
        histogram(&Root::live(), Clock::here(), &mut chase, options, &mut |_| true).unwrap()
    }

    /// Calls `measure` between two calibrations of the timer, and returns the overhead of the
    /// timer, ns. Returns `None` if the overhead was not the same before and after, or if another
    /// thread ran meanwhile: in both cases, the overhead during `measure` is unknown.
    fn steady_overhead_ns(calibration: &mut Calibration, measure: impl FnOnce()) -> Option<f64> {
        let switches = context_switches();
        let before_ns = calibration.overhead_ns().unwrap();
        measure();
        let after_ns = calibration.overhead_ns().unwrap();
        let is_alone = context_switches() == switches;
        let is_steady = is_alone && (after_ns - before_ns).abs() < SAME_NS;
        is_steady.then_some((before_ns + after_ns) / 2.0)
    }

    #[test]
    fn both_are_kept_and_add_up() {
        let options = HistogramOptions { samples: 100_001, delay: None };
        let found = of_chase(1 << 20, &options);
        assert_eq!(found.raw.count(), 100_001);
        assert_eq!(found.filtered.count() + found.tagged.total(), 100_001, "{:?}", found.tagged);
        assert_eq!(found.raw.bins.iter().sum::<u64>(), 100_001);
        assert!(found.filtered.max_ns().unwrap() <= 1.002 * GAP_NS);
        assert!(found.timer.resolution_ns > 0.0 && found.timer.overhead_ns < 1000.0);
    }

    /// Returns the mean latency of timed loads minus the latency that the chase measures, ns. The
    /// result is the median over pairs of these two measurements, which follow each other within a
    /// ms. Pairs during which the overhead of the timer changes are left out.
    fn mean_minus_chase_ns(bytes: usize) -> f64 {
        let (clock, mut chase) = (Clock::here(), chase(bytes));
        let mut calibration = Calibration::new(clock).unwrap();
        let mut stamps = vec![Stamp::default(); LOADS];
        chase.warm().unwrap();
        let mut difference_ns = || {
            let mut chase_ns = 0.0;
            let overhead_ns = steady_overhead_ns(&mut calibration, || {
                // This run brings the lines of a small memory into the cache before both
                // measurements.
                chase.run(LOADS as u64).unwrap();
                walk(&mut chase, None, 0, &mut stamps).unwrap();
                let (loads, ticks) = chase.run(LOADS as u64).unwrap();
                chase_ns = clock.ns(ticks) / loads as f64;
            })?;
            let mut sampling = Sampling::new(clock);
            sampling.add_batch(&stamps, overhead_ns, false);
            Some(sampling.filtered.mean_ns().unwrap() - chase_ns)
        };
        let all: Vec<f64> = (0..20_000).filter_map(|_| difference_ns()).take(500).collect();
        spread(&all).unwrap().median
    }

    /// The mean of the samples must agree with the chase for at least one of three sizes of memory.
    /// In a cache that is shared with other programs, a line is evicted more often between two
    /// samples than between two steps of the chase, because steps are faster. Samples may therefore
    /// truly be slower at one size. The smallest memory is a small part of the second-level cache,
    /// and is visited too often to be evicted. An overhead that is wrong by about 30 ns would show
    /// at all sizes.
    #[test]
    fn the_mean_is_the_latency_of_the_chase() {
        let off = [96 << 10, 8 << 20, 128 << 20].map(mean_minus_chase_ns);
        assert!(off.iter().any(|ns| ns.abs() < 3.0), "{off:?}");
    }

    /// Samples a hundred batches of loads that hit the second-level cache. Returns the filtered
    /// distribution: the samples without a tag, which names an outside cause such as an interrupt.
    /// Batches during which the overhead of the timer changes are left out.
    fn of_steady_batches(delay: Option<Delay>) -> Distribution {
        let (clock, mut chase) = (Clock::here(), chase(64 << 10));
        let mut calibration = Calibration::new(clock).unwrap();
        let spin = delay.map(|delay| delay.spin(clock));
        let (mut sampling, mut stamps) = (Sampling::new(clock), vec![Stamp::default(); LOADS]);
        chase.warm().unwrap();
        let (mut batches, mut number) = (0, 0);
        while number < 100 * LOADS as u64 {
            batches += 1;
            assert!(batches <= 20_000, "only {number} loads are steady");
            let measure = || walk(&mut chase, spin, number, &mut stamps).unwrap();
            if let Some(overhead_ns) = steady_overhead_ns(&mut calibration, measure) {
                sampling.add_batch(&stamps, overhead_ns, false);
                number += LOADS as u64;
            }
        }
        sampling.filtered
    }

    /// Accesses hit the second-level cache, so only injected delays are slow. The fraction of slow
    /// samples must equal the fraction of delayed accesses. Three runs are made, and their median
    /// counts, because other programs may run on this machine.
    #[test]
    fn a_delay_in_one_of_a_hundred_shows_as_one_percent_in_its_bins() {
        let share = |delay: Option<Delay>| {
            let runs: Vec<Distribution> = (0..3).map(|_| of_steady_batches(delay)).collect();
            let shares: Vec<f64> =
                runs.iter().map(|run| run.share_between(1990.0, 2150.0)).collect();
            (spread(&shares).unwrap().median, runs)
        };
        let delay = Some(Delay { every: 100, ns: 2000.0 });
        let (with, runs) = share(delay);
        assert!((with - 0.01).abs() < 0.0005, "{with}");
        // A delay ends when the spin loop first reads a clock value after 2000 ns. Delayed samples
        // must therefore be in the bin of 2000 ns or in one of the next few bins.
        let fullest = |run: &Distribution| {
            (100..BINS).max_by_key(|bin| run.bins[*bin]).map(|bin| bin as f64 * BIN_NS)
        };
        let near = |ns: Option<f64>| ns.is_some_and(|ns| (1992.0..2064.0).contains(&ns));
        assert!(runs.iter().filter(|run| near(fullest(run))).count() >= 2, "{runs:?}");
        let (without, _) = share(None);
        assert!(without < 0.0005, "{without}");
        // The public function `histogram`, which does not select batches, must show the delays as
        // well: one sample in a hundred is slow. The bound is below 2000 ns, because the overhead
        // may change between calibration and sample.
        let found = of_chase(64 << 10, &HistogramOptions { samples: 20_000, delay });
        let slow = found.raw.share_between(1900.0, 1e10);
        assert!(slow >= 0.01, "{slow}");
    }

    #[test]
    fn samples_are_tagged_by_their_cause() {
        let clock = Clock { ticks_per_ns: 1.0 };
        let mut sampling = Sampling::new(clock);
        let sample = |ticks: u64, interrupted, moved| Stamp::new(ticks, interrupted, moved);
        let gap = sample(50_000, false, false);
        sampling.add_batch(&[sample(120, false, false), sample(120, true, true), gap], 20.0, true);
        sampling.add_batch(&[sample(10, false, false), sample(120, false, true), gap], 20.0, false);
        sampling.settle(true);
        sampling.add_batch(&[gap, gap], 20.0, false);
        sampling.settle(false);
        let tagged = Tagged { interrupted: 1, moved: 1, switched: 1, stolen: 1, gaps: 2 };
        assert_eq!(sampling.tagged, tagged);
        assert_eq!((sampling.raw.count(), sampling.filtered.count()), (8, 2));
        assert_eq!((sampling.filtered.bins[0], sampling.filtered.bins[12]), (1, 1));
    }

    #[test]
    fn the_step_of_the_counter_and_stolen_ticks_are_read() {
        assert_eq!(step(&[26, 26, 52, 104, 104, 130, 156, 182, 208, 999]), 26);
        assert_eq!((step(&[]), step(&[5, 5]), step(&[10, 13, 20, 30])), (1, 1, 1));
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 80 9 10\ncpu10 0 0\n";
        assert_eq!(stolen_of(text, 1), Some(80));
        assert_eq!((stolen_of(text, 10), stolen_of(text, 2)), (None, None));
    }
}
