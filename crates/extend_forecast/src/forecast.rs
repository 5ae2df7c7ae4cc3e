//! Predicts a program's runtime and efficiency at a budget of DRAM from one run of the program.
//!
//! ```text
//! T = C + X - h min(C, X)        X = D + o (read + written)
//!
//! T  runtime                            X  transfer time
//! C  compute time: the run in DRAM      D  time of the drive for the traffic at this budget
//! h  overlap of C and X, 0 to 1         o  software time for a byte; 0 if h > 0
//! ```
//!
//! `h = 1` is perfect prefetching, `T = max(C, X)`; `h = 0` is a program that waits for each
//! transfer. One run with a known `C` gives `h` if the run took less than `C + D`, and `o` if it
//! took more.
//!
//! If `C` is unknown, the model takes the elapsed time of the run minus the stalls that the pager
//! counted. On a machine with few CPUs, this difference still includes the pager's work on pages
//! for which no thread waits. That work is system time, so the system time is subtracted too, but
//! the result is at least the user time.
//!
//! The number of faults is not proportional to the traffic. With a larger budget, fewer bytes are
//! read, and there are also fewer faults for each byte: the faults per byte are proportional to the
//! square root of (bytes read / footprint) (20 runs of four workloads, docs/validation.md). The
//! exponent 0.5 of this law is for a run in which all reads were prefetched. It falls to 0 for a
//! run in which all were demand reads. The model scales three quantities of the run by this law:
//! the software time `o`, the number of demand reads, and the transfer time of a drive that is
//! known from this run only ([`Drive::is_of_run`]).
//!
//! A run may have more traffic than the miss curve, for three reasons: the replacement policy,
//! unused prefetched pages, and write-back of earlier data. The model assumes that this extra
//! traffic is proportional to the bytes by which the footprint exceeds the used part of the budget
//! ([`missing_bytes`]). If the run had less traffic than the curve, the curve is scaled at all
//! budgets by one factor for reads and one for writes.
//!
//! A worked example: C = 1 s, D = 3 s with half of the footprint in DRAM, T = 3.2 s. Then h = 0.8.
//! With three quarters in DRAM, D = 1.5 s and T = 1 + 1.5 - 0.8 = 1.7 s: an efficiency of 0.59.

use crate::{
    drive::{Drive, PAGE_BYTES},
    miss_curve::{MissCurve, Traffic},
    pager_curve::missing_bytes,
};

/// Exponent of the law of faults if all reads are prefetched. The law: the number of faults per
/// byte of traffic is proportional to (bytes read / footprint) to the power of this exponent.
const FAULTS_EXPONENT: f64 = 0.5;

/// Number of budgets among which [`Model::enough`] searches: equal steps up to the footprint.
const PARTS: u64 = 1024;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub budget_bytes: u64,
    /// Elapsed time of the run, seconds.
    pub seconds: f64,
    /// Elapsed time of the same work with all data in DRAM, seconds; `None` if it was not measured.
    pub dram_s: Option<f64>,
    /// Stall: the time for which threads waited for pages, summed over threads, seconds.
    pub stall_s: f64,
    pub threads: u32,
    /// CPU time of the program and its pager; `None` if it is not known.
    pub cpu: Option<CpuTime>,
    /// Bytes that the drive transferred in the run.
    pub traffic: Traffic,
    /// Number of demand reads: reads of single pages that were not prefetched, so that a thread
    /// waited for them (major faults).
    pub demand_reads: f64,
}

/// CPU time in user mode and in the kernel, summed over threads, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuTime {
    pub user_s: f64,
    pub system_s: f64,
}

impl Run {
    /// Returns the time of the run with all data in DRAM, seconds: `dram_s`, or an estimate if that
    /// was not measured. The estimate is the elapsed time minus the mean stall of a thread. If the
    /// CPU time is known, the system time is subtracted too, but the result is at least the user
    /// time. If the user time of several threads exceeds the elapsed time minus the stall, no
    /// system time is subtracted. The result is clamped to the range from 0 to the elapsed time.
    pub fn compute_s(&self) -> f64 {
        let stalled = self.stall_s / f64::from(self.threads.max(1));
        let active_s = self.seconds - stalled;
        let estimate = self.cpu.map_or(active_s, |CpuTime { user_s, system_s }| {
            (active_s - system_s).max(user_s).min(active_s)
        });
        self.dram_s.unwrap_or(estimate).clamp(0.0, self.seconds)
    }

    /// Returns the fraction of the bytes read that were demand reads, 0 to 1: reads of single pages
    /// that were not prefetched, so that a thread waited for them.
    pub fn demand_share(&self) -> f64 {
        match self.traffic.read_bytes > 0.0 {
            true => (self.demand_reads * PAGE_BYTES / self.traffic.read_bytes).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

/// A model that predicts the runtime of a program at any budget and on any drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The program's time with all data in DRAM, seconds.
    pub compute_s: f64,
    /// The time for which computation and transfers overlap, as a fraction of the compute time or
    /// of the transfer time, whichever is shorter; 0 to 1.
    pub overlap: f64,
    /// Software time for each byte of traffic, seconds; 0 if `overlap` is above 0.
    pub overhead_s: f64,
    /// Factors by which the miss curve is scaled, for reads and for writes, at most 1: the bytes of
    /// the run divided by the bytes on the curve at the run's budget.
    pub factors: [f64; 2],
    /// The bytes that the run has read and written in excess of the miss curve, for each byte by
    /// which the footprint exceeds the used part of the budget ([`missing_bytes`]).
    pub extra: [f64; 2],
    /// Fraction of the bytes read in the run that were demand reads, for which a thread waited; 0
    /// to 1.
    pub demand_share: f64,
    /// Bytes read in the run divided by the footprint.
    pub read_share: f64,
    pub threads: u32,
    /// A factor of the transfer time, at most 1, which corrects the figures of the drive. It is
    /// below 1 only if the run took less time than its transfers would take by these figures. It is
    /// then the elapsed time of the run divided by that transfer time.
    pub drive_scale: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    pub budget_bytes: u64,
    pub traffic: Traffic,
    pub seconds: f64,
    /// Speed divided by the speed in DRAM, 0 to 1.
    pub efficiency: f64,
    /// True if the transfer time is longer than the compute time.
    pub is_drive_bound: bool,
}

impl Model {
    /// Returns a model of a program that overlaps all of its transfers with computation.
    pub fn overlapped(compute_s: f64, threads: u32) -> Self {
        Self {
            compute_s,
            overlap: 1.0,
            overhead_s: 0.0,
            factors: [1.0; 2],
            extra: [0.0; 2],
            demand_share: 0.0,
            read_share: 0.0,
            threads,
            drive_scale: 1.0,
        }
    }

    /// Fits the model to a run that used `drive`. `curve` is the miss curve of the program.
    pub fn of_run(run: &Run, curve: &MissCurve, drive: &Drive) -> Self {
        let threads = run.threads.max(1);
        let compute_s = run.compute_s();
        let expected = curve.at(run.budget_bytes);
        let demand_share = run.demand_share();
        let missing = missing_bytes(curve.footprint_bytes(), run.budget_bytes, demand_share) as f64;
        let factor = |measured: f64, expected: f64| match expected > 0.0 {
            true => (measured / expected).min(1.0),
            false => 1.0,
        };
        let extra = |measured: f64, expected: f64| match missing > 0.0 {
            true => (measured - expected).max(0.0) / missing,
            false => 0.0,
        };
        let Traffic { read_bytes, written_bytes } = run.traffic;
        let mut model = Self {
            factors: [
                factor(read_bytes, expected.read_bytes),
                factor(written_bytes, expected.written_bytes),
            ],
            extra: [
                extra(read_bytes, expected.read_bytes),
                extra(written_bytes, expected.written_bytes),
            ],
            demand_share,
            read_share: read_bytes / curve.footprint_bytes().max(1) as f64,
            ..Self::overlapped(compute_s, threads)
        };
        let drive_s = model.drive_s(run.traffic, 1.0, drive);
        let sum = compute_s + drive_s;
        let least = compute_s.min(drive_s);
        if drive_s > run.seconds {
            model.drive_scale = run.seconds / drive_s;
        } else if run.seconds >= sum || least <= 0.0 {
            model.overlap = 0.0;
            if run.traffic.bytes() > 0.0 {
                model.overhead_s = ((run.seconds - sum) / run.traffic.bytes()).max(0.0);
            }
        } else {
            model.overlap = ((sum - run.seconds) / least).clamp(0.0, 1.0);
        }
        model
    }

    /// Returns the faults per byte of `traffic`, divided by the faults per byte of the run to which
    /// the model was fitted.
    fn faults(&self, traffic: &Traffic, curve: &MissCurve) -> f64 {
        let exponent = FAULTS_EXPONENT * (1.0 - self.demand_share);
        let read_share = traffic.read_bytes / curve.footprint_bytes().max(1) as f64;
        match self.read_share > 0.0 {
            true => (read_share / self.read_share).powf(exponent),
            false => 1.0,
        }
    }

    /// Returns the transfer time of `traffic` on `drive` without the software time `overhead_s`,
    /// seconds. `faults` is the result of [`Self::faults`].
    fn drive_s(&self, traffic: Traffic, faults: f64, drive: &Drive) -> f64 {
        let demand = (self.demand_share * faults).min(1.0) * traffic.read_bytes;
        let read_bytes = traffic.read_bytes - demand;
        let streamed = drive.transfer_s(Traffic { read_bytes, ..traffic });
        let faults = if drive.is_of_run { faults } else { 1.0 };
        faults * streamed + drive.demand_s(demand / PAGE_BYTES, self.threads)
    }

    /// Returns the traffic at a budget: the traffic on `curve` times [`Self::factors`], plus
    /// [`Self::extra`] times the [`missing_bytes`].
    pub fn traffic(&self, curve: &MissCurve, budget_bytes: u64) -> Traffic {
        let Traffic { read_bytes, written_bytes } = curve.at(budget_bytes);
        let ([read, written], [more_read, more_written]) = (self.factors, self.extra);
        let footprint = curve.footprint_bytes();
        let missing = missing_bytes(footprint, budget_bytes, self.demand_share) as f64;
        Traffic {
            read_bytes: read * read_bytes + more_read * missing,
            written_bytes: written * written_bytes + more_written * missing,
        }
    }

    /// Predicts runtime and efficiency at a budget. `is_same_drive` is true if `drive` is the drive
    /// of the run to which the model was fitted.
    pub fn forecast(
        &self,
        curve: &MissCurve,
        drive: &Drive,
        is_same_drive: bool,
        budget_bytes: u64,
    ) -> Forecast {
        let traffic = self.traffic(curve, budget_bytes);
        let scale = if is_same_drive { self.drive_scale } else { 1.0 };
        let faults = self.faults(&traffic, curve);
        let overhead_s = self.overhead_s * faults * traffic.bytes();
        let transfer_s = scale * self.drive_s(traffic, faults, drive) + overhead_s;
        let seconds = self.compute_s + transfer_s - self.overlap * self.compute_s.min(transfer_s);
        let efficiency = if seconds > 0.0 { self.compute_s / seconds } else { 1.0 };
        let is_drive_bound = transfer_s > self.compute_s;
        Forecast { budget_bytes, traffic, seconds, efficiency, is_drive_bound }
    }

    /// Returns the smallest budget whose efficiency is at least `efficiency`, in steps of a 1024th
    /// of the footprint.
    pub fn enough(
        &self,
        curve: &MissCurve,
        drive: &Drive,
        is_same_drive: bool,
        efficiency: f64,
    ) -> u64 {
        let budget = |part: u64| curve.footprint_bytes().div_ceil(PARTS) * part;
        // A binary search is possible, because efficiency never falls as the budget grows.
        let is_enough = |part: u64| {
            self.forecast(curve, drive, is_same_drive, budget(part)).efficiency >= efficiency
        };
        let (mut least, mut most) = (1, PARTS);
        while least < most {
            let middle = (least + most) / 2;
            match is_enough(middle) {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        budget(most).min(curve.footprint_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{drive::PageLatency, miss_curve::Point};
    use proptest::prelude::*;

    const GB: f64 = 1e9;

    fn drive(gbps: f64) -> Drive {
        Drive {
            name: "d".into(),
            does: String::new(),
            read_rate: gbps * GB,
            write_rate: gbps * GB,
            both_rate: gbps * GB,
            pages: vec![PageLatency { depth: 1.0, seconds: 50e-6 }],
            is_of_run: false,
            sources: vec![],
        }
    }

    /// Returns a linear miss curve: 3 GB of reads at a budget of 3 GB, with a footprint of 6 GB.
    fn line() -> MissCurve {
        let traffic = Traffic { read_bytes: 3.0 * GB, written_bytes: 0.0 };
        MissCurve::of_points(6_000_000_000, vec![Point { budget_bytes: 3_000_000_000, traffic }])
    }

    fn run(seconds: f64) -> Run {
        Run {
            budget_bytes: 3_000_000_000,
            seconds,
            dram_s: Some(1.0),
            stall_s: 0.0,
            threads: 1,
            cpu: None,
            traffic: line().at(3_000_000_000),
            demand_reads: 0.0,
        }
    }

    #[test]
    fn the_worked_example() {
        let (curve, drive) = (line(), drive(1.0));
        let model = Model::of_run(&run(3.2), &curve, &drive);
        assert!((model.overlap - 0.8).abs() < 1e-9 && model.overhead_s == 0.0);
        let found = model.forecast(&curve, &drive, true, 4_500_000_000);
        assert!((found.seconds - 1.7).abs() < 1e-9 && found.is_drive_bound);
        // This efficiency means a runtime of 1.1 s. From 1.1 s = 1 s + X - 0.8 X follows the
        // transfer time X = 0.5 s.
        let enough = model.enough(&curve, &drive, true, 1.0 / 1.1) as f64 / GB;
        assert!((enough - 5.5).abs() < 0.01, "{enough}");
    }

    #[test]
    fn pages_that_are_waited_for_take_the_latency_of_the_drive() {
        let pages = 3.0 * GB / PAGE_BYTES;
        let slow = Run { demand_reads: pages, seconds: 1.0 + pages * 60e-6, ..run(0.0) };
        let model = Model::of_run(&slow, &line(), &drive(1.0));
        assert_eq!((model.demand_share, model.overlap), (1.0, 0.0));
        assert!((model.overhead_s * PAGE_BYTES - 10e-6).abs() < 1e-9, "10 us for a fault");
    }

    #[test]
    fn traffic_above_the_curve_is_in_proportion_to_what_does_not_fit() {
        let (curve, drive) = (line(), drive(1.0));
        let traffic = Traffic { read_bytes: 5.0 * GB, written_bytes: 1.0 * GB };
        let model = Model::of_run(&Run { traffic, ..run(9.0) }, &curve, &drive);
        let found = model.traffic(&curve, 4_500_000_000);
        // The run's budget is 3 GB, the forecast's 4.5 GB. In each budget, free frames and unused
        // prefetched pages take 0.134 GB, so 3.134 and 1.634 GB of the 6 GB footprint do not fit.
        let share = 1.634 / 3.134;
        assert!((found.read_bytes / GB - (1.5 + 2.0 * share)).abs() < 1e-3, "{found:?}");
        assert!((found.written_bytes / GB - share).abs() < 1e-3, "{found:?}");
        assert_eq!(model.traffic(&curve, 6_000_000_000), Traffic::default());
        let less = Traffic { read_bytes: 1.5 * GB, written_bytes: 0.0 };
        let model = Model::of_run(&Run { traffic: less, ..run(9.0) }, &curve, &drive);
        assert_eq!((model.factors, model.extra), ([0.5, 1.0], [0.0; 2]));
    }

    #[test]
    fn without_a_run_in_dram_stalls_are_not_compute_time() {
        let stalled = Run { dram_s: None, stall_s: 4.0, threads: 2, ..run(5.0) };
        assert_eq!(Model::of_run(&stalled, &line(), &drive(1.0)).compute_s, 3.0);
    }

    #[test]
    fn system_time_is_not_compute_time() {
        let compute_s = |user_s: f64, system_s: f64| {
            let cpu = Some(CpuTime { user_s, system_s });
            Run { dram_s: None, stall_s: 6.0, cpu, ..run(15.0) }.compute_s()
        };
        assert_eq!(compute_s(1.0, 3.0), 6.0, "it also sleeps");
        assert_eq!(compute_s(1.0, 8.5), 1.0, "part of the system time is in the stalls");
        assert_eq!(compute_s(20.0, 8.5), 9.0, "several threads compute at a time");
    }

    #[test]
    fn faults_for_a_byte_fall_with_the_bytes_read_where_pages_are_prefetched() {
        let (curve, of_run) = (line(), Drive { is_of_run: true, ..drive(1.0) });
        // The run has no overlap: it has 1 s of computation and 3 s of transfers. At the budget of
        // the forecast, half of the bytes are read: the transfers take 1.5 s, times the ratio of
        // the faults per byte, which is 0.5 to the power `FAULTS_EXPONENT`.
        let model = Model::of_run(&run(4.0), &curve, &of_run);
        let found = model.forecast(&curve, &of_run, true, 4_500_000_000).seconds;
        assert!((found - (1.0 + 1.5 * 0.5_f64.sqrt())).abs() < 1e-9, "{found}");
        let slow = Model { overhead_s: 1e-9, ..model };
        let found = slow.forecast(&curve, &drive(1.0), false, 4_500_000_000).seconds;
        assert!((found - (1.0 + 1.5 + 1.5 * 0.5_f64.sqrt())).abs() < 1e-9, "{found}");
        let random = Model { demand_share: 1.0, ..slow };
        assert_eq!(random.faults(&curve.at(4_500_000_000), &curve), 1.0, "each page is a fault");
    }

    proptest! {
        #[test]
        fn the_model_repeats_the_run_it_is_from(
            seconds in 1.0_f64..20.0,
            gbps in 0.2_f64..10.0,
            demand in 0.0_f64..1e5,
        ) {
            let (curve, drive) = (line(), drive(gbps));
            let run = Run { demand_reads: demand, ..run(seconds) };
            let model = Model::of_run(&run, &curve, &drive);
            let found = model.forecast(&curve, &drive, true, run.budget_bytes).seconds;
            // The forecast for the run's budget equals the run, except at the limits of the model:
            // if the run took less than the drive's transfer time, or if the overlap is complete.
            // The forecast may then be longer than the run, but not shorter.
            let limit = model.drive_scale < 1.0 || model.overlap >= 1.0;
            prop_assert!((found / seconds - 1.0).abs() < 1e-9 || limit && found >= seconds);
        }

        #[test]
        fn efficiency_never_falls_with_the_budget(
            seconds in 1.0_f64..20.0,
            gbps in 0.2_f64..10.0,
        ) {
            let (curve, drive) = (line(), drive(gbps));
            let model = Model::of_run(&run(seconds), &curve, &drive);
            let of = |part: u64| {
                model.forecast(&curve, &drive, true, part * 500_000_000).efficiency
            };
            prop_assert!((1..13).all(|part| of(part) + 1e-12 >= of(part - 1)));
            prop_assert_eq!(of(12), 1.0);
        }
    }
}
