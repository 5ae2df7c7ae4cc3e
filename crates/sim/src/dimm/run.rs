//! Simulates closed-loop traffic on all channels of a machine.
//!
//! Sub-channels share nothing, and each has an equal share of the load. Each sub-channel is
//! simulated separately, on any thread, and the results are added in the order of the sub-channels'
//! numbers.

use super::{
    closed_loop::{ClosedLoop, Load, Pattern},
    command::Observer,
    config::{Controller, Refresh},
    controller::{Counts, SubChannel},
    device::Device,
    histogram::Histogram,
    mapping::Layout,
};
use interleaf_model::mix::Mix;

/// Default number of outstanding lines of a sub-channel, for any module: 128 cores with 27 lines
/// each over 24 sub-channels. With this number, the simulated latency at 556 GB/s equals the
/// latency that was measured on a server with these cores and sub-channels.
pub const OUTSTANDING: usize = 144;

/// Minimum number of refresh intervals in a measurement, for a bandwidth within half a percent of
/// the bandwidth of a long run. With 12 x DDR5-6400, read-only, the error is 5 % in a run of one
/// interval, and 0.4 % in a run of four intervals.
const REFRESH_INTERVALS: u64 = 4;

/// Default number of streams: one for each core.
pub const STREAMS: usize = 128;

/// Default uncore latency, round trip, ps: an idle latency of 100 ns less 35 ns of the DRAM.
pub const UNCORE_PS: u64 = 65_000;

/// Default of [`Setup::seed`].
pub const SEED: u64 = 1;

/// The configuration of a simulation: a machine's memory, and the load on it.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The memory module in each channel.
    pub device: Device,
    /// The memory controller of each sub-channel.
    pub controller: Controller,
    /// The number of channels, with one module each.
    pub channels: u32,
    /// The mix of reads and writes.
    pub mix: Mix,
    /// The order in which lines are accessed.
    pub pattern: Pattern,
    /// Number of outstanding lines of each sub-channel.
    pub outstanding: usize,
    /// Number of read streams of each sub-channel, and also of write streams.
    pub streams: usize,
    /// Uncore latency, round trip, ps.
    pub uncore_ps: u64,
    /// The bandwidth of the fabric between cores and controllers, all channels together, GB/s;
    /// `None` if the fabric is faster than the DRAM.
    pub fabric_gbps: Option<f64>,
    /// The mapping of lines to banks.
    pub layout: Layout,
    /// The seed of the random addresses, start times and pauses.
    pub seed: u64,
}

/// The minimum numbers of accesses of a measurement.
///
/// DDR5-6400 at 25.6 GB/s per sub-channel does 1560 accesses in a refresh interval of 3.9 us. A
/// shorter run may have no refresh at all. A run with fewer accesses than outstanding lines (144)
/// does not use all of these lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastRequests {
    /// The number of sub-channels.
    pub parts: u64,
    /// Minimum number of accesses of each sub-channel: enough for one refresh interval, and for one
    /// access of each outstanding line.
    pub each: u64,
    /// The refresh interval, ns; 0 without refresh.
    pub refresh_ns: f64,
    /// Minimum number of accesses of all sub-channels together.
    pub all: u64,
    /// Minimum number of accesses of all sub-channels together for bandwidths within about half a
    /// percent of the bandwidths of long runs.
    pub steady: u64,
}

/// The measurements of one sub-channel, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChannelResult {
    /// Commands and accesses during the measurement.
    pub counts: Counts,
    /// Bandwidth of reads and writes together, GB/s.
    pub bandwidth_gbps: f64,
    /// Duration of the measurement, ns; for several sub-channels the longest.
    pub simulated_ns: f64,
    /// The clock of the DRAM at the end of the measurement, counted from the start of the warm-up;
    /// for several sub-channels the latest.
    pub end_clock: u64,
    /// Latencies of reads, from the core's cache miss to the arrival of the line at the core.
    pub latency: Histogram,
}

impl Setup {
    /// Creates a setup of `channels` channels with one `device` each, and the default controller
    /// and load.
    pub fn new(device: Device, channels: u32) -> Self {
        Self {
            device,
            controller: Controller::default(),
            channels,
            mix: Mix::READ,
            pattern: Pattern::Stream,
            outstanding: OUTSTANDING,
            streams: STREAMS,
            uncore_ps: UNCORE_PS,
            fabric_gbps: None,
            layout: Layout::XEON,
            seed: SEED,
        }
    }

    /// Returns the number of sub-channels of all channels.
    pub fn parts(&self) -> u32 {
        self.channels * self.device.sub_channels
    }

    /// Returns the peak bandwidth of all channels, GB/s.
    pub fn peak_gbps(&self) -> f64 {
        self.device.peak_gbps() * f64::from(self.channels)
    }

    /// Returns the minimum numbers of requests of a measurement at `offered_gbps`, or at the peak
    /// bandwidth without `offered_gbps`: enough for a whole refresh interval, and for each
    /// outstanding line.
    pub fn least_requests(&self, offered_gbps: Option<f64>) -> LeastRequests {
        let parts = u64::from(self.parts());
        let gbps = offered_gbps.map_or(self.peak_gbps(), |gbps| gbps.min(self.peak_gbps()));
        let refresh_ns = match self.controller.refresh {
            Refresh::Never => 0.0,
            _ => self.device.ns(self.device.timing.t_refi.into()),
        };
        let part_gbps = gbps / parts as f64;
        let bytes = f64::from(self.device.burst_bytes());
        // 1e-6 is subtracted before `ceil`, so that a product that is a whole number except for a
        // rounding error is not rounded up to the next whole number.
        let refresh = (refresh_ns * part_gbps / bytes - 1e-6).ceil() as u64;
        let each = refresh.max(self.outstanding as u64);
        let steady = each.max(REFRESH_INTERVALS * refresh);
        LeastRequests { parts, each, refresh_ns, all: each * parts, steady: steady * parts }
    }

    /// Simulates sub-channel `number` under its share of `offered_gbps`; `None` is the maximum
    /// load. A warm-up fills the queues, then `accesses` accesses are measured. Calls `progress`
    /// with the number of accesses since the previous call.
    pub fn part<O: Observer>(
        &self,
        number: u32,
        offered_gbps: Option<f64>,
        accesses: u64,
        observer: &mut O,
        progress: &dyn Fn(u64),
    ) -> ChannelResult {
        let bytes = f64::from(self.device.burst_bytes());
        let rate = offered_gbps.map(|gbps| gbps * 1e9 / bytes / f64::from(self.parts()));
        let load = Load {
            read_share: self.mix.read_share(),
            pattern: self.pattern,
            streams: self.streams,
            outstanding: self.outstanding,
            neighbours: 1,
            rate,
            uncore_ps: self.uncore_ps,
            fabric_ps: self
                .fabric_gbps
                .map_or(0, |gbps| (bytes * f64::from(self.parts()) / gbps * 1e3) as u64),
            layout: self.layout,
            // The multiplication makes the seeds of neighbouring sub-channels, and of runs with
            // neighbouring values of `self.seed`, differ in many bits.
            seed: (self.seed << 16 | u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        let mut source = ClosedLoop::new(&self.device, &load);
        let phase = (u64::from(number), u64::from(self.parts()));
        let mut channel = SubChannel::new(&self.device, &self.controller, phase);
        channel.run(&mut source, observer, accesses / 10 + 4 * self.outstanding as u64);
        source.start_counting();
        observer.start_counting(channel.clock() * self.device.host_clocks);
        let (before, start) = (*channel.counts(), channel.clock());
        const STEP: u64 = 1 << 16;
        let mut left = accesses;
        while left > 0 {
            let step = left.min(STEP);
            channel.run(&mut source, observer, step);
            left -= step;
            progress(step);
        }
        let counts = channel.counts().since(&before);
        let simulated_ns = self.device.ns(channel.clock() - start);
        ChannelResult {
            counts,
            bandwidth_gbps: counts.bandwidth_gbps(bytes, simulated_ns),
            simulated_ns,
            end_clock: channel.clock(),
            latency: source.into_latency(),
        }
    }
}

impl ChannelResult {
    /// Adds the measurements of several sub-channels, in the order of `parts`.
    pub fn sum(parts: &[Self]) -> Self {
        let mut sum = Self::default();
        for part in parts {
            sum.counts.add(&part.counts);
            sum.bandwidth_gbps += part.bandwidth_gbps;
            sum.simulated_ns = sum.simulated_ns.max(part.simulated_ns);
            sum.end_clock = sum.end_clock.max(part.end_clock);
            sum.latency.add(&part.latency);
        }
        sum
    }
}
