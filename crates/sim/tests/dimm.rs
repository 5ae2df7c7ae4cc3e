//! Tests the simulation of memory modules: command timing, command order, closed formulas, and
//! published figures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_model::mix::Mix;
use interleaf_sim::dimm::{
    check::Checker,
    closed_loop::{ClosedLoop, Load, Pattern},
    command::{Command, Kind},
    config::{Controller, Refresh, RowPolicy},
    controller::SubChannel,
    device::{Device, Options, names},
    mapping::Layout,
    run::{ChannelResult, Setup},
    server::Server,
    traffic::{Location, Request, Source},
};

fn device(name: &str) -> Device {
    Device::by_name(name, &Options::default()).unwrap()
}

fn of_density(name: &str, density: &str) -> Device {
    let options = Options { density: Some(density.into()), width: None };
    Device::by_name(name, &options).unwrap()
}

/// Requests with given arrival times, and the completion times of the reads.
#[derive(Default)]
struct Script {
    requests: Vec<Request>,
    next: usize,
    done: Vec<(u32, u64)>,
}

impl Script {
    /// Creates a script of requests. Each request is given by its arrival time, true for a write,
    /// and its bank, row and column.
    fn new(requests: &[(u64, bool, u8, u32, u16)]) -> Self {
        let request = |(tag, &(at, write, bank, row, column)): (usize, _)| Request {
            at,
            location: Location { pseudo: 0, bank, column, row },
            tag: tag as u32,
            order: 0,
            write,
        };
        Self { requests: requests.iter().enumerate().map(request).collect(), ..Self::default() }
    }
}

impl Source for Script {
    fn peek(&self) -> Option<u64> {
        self.requests.get(self.next).map(|request| request.at)
    }

    fn next_request(&mut self) -> Request {
        self.next += 1;
        self.requests[self.next - 1]
    }

    fn done(&mut self, request: &Request, clock: u64) {
        self.done.push((request.tag, clock));
    }
}

/// Returns a controller that keeps rows open and does not refresh. It issues only commands that a
/// request needs.
fn plain() -> Controller {
    Controller {
        row_policy: RowPolicy::Open,
        refresh: Refresh::Never,
        rank_margin: 0,
        write_idle: 1,
        preparation_ps: 0,
        ..Controller::default()
    }
}

fn issued(
    device: &Device,
    controller: &Controller,
    requests: &[(u64, bool, u8, u32, u16)],
) -> (Vec<Command>, Script) {
    let mut source = Script::new(requests);
    let mut commands = vec![];
    let mut checker = Checker::new(device);
    SubChannel::new(device, controller, (0, 1)).run(
        &mut source,
        &mut (&mut commands, &mut checker),
        requests.len() as u64,
    );
    assert_eq!(checker.violations().0, 0, "{:?}", checker.violations());
    (commands, source)
}

fn kinds(commands: &[Command]) -> Vec<&'static str> {
    commands.iter().map(|command| command.kind.name()).collect()
}

/// Returns the clocks from the first command of the kind `from` to the last command of the kind
/// `to`.
fn gap(commands: &[Command], from: Kind, to: Kind) -> u64 {
    let first = commands.iter().find(|command| command.kind == from).unwrap().at;
    commands.iter().rev().find(|command| command.kind == to).unwrap().at - first
}

// --- Device timings: the earliest allowed clock --------------------------------------------------

#[test]
fn two_accesses_are_as_close_as_the_tables_allow() {
    let device = device("rdimm-6400-2r");
    let t = device.timing;
    // The rows of the two banks have been open for a long time, so only the distance between the
    // two accesses is measured. Banks 0 and 1 are in one group, bank 4 in another group, bank 32 in
    // another rank.
    let pair = |first: (bool, u8), second: (bool, u8)| {
        let open = [(10, false, first.1, 7, 0), (10, false, second.1, 7, 1)];
        let then = [(5000, first.0, first.1, 7, 2), (5000, second.0, second.1, 7, 3)];
        let (commands, _) = issued(&device, &plain(), &[open, then].concat());
        let late: Vec<_> = commands.iter().filter(|command| command.at >= 5000).collect();
        assert_eq!(late.len(), 2, "{commands:?}");
        late[1].at - late[0].at
    };
    let clocks = u64::from;
    assert_eq!(pair((false, 0), (false, 4)), clocks(t.t_ccd_s));
    assert_eq!(pair((false, 0), (false, 1)), clocks(t.t_ccd_l));
    assert_eq!(pair((false, 0), (false, 32)), clocks(t.burst + t.t_rank));
    assert_eq!(pair((true, 0), (true, 4)), clocks(t.t_ccd_s));
    assert_eq!(pair((true, 0), (true, 1)), clocks(t.t_ccd_l_wr));
    assert_eq!(pair((true, 0), (true, 32)), clocks(t.burst + t.t_rank));
    assert_eq!(pair((false, 0), (true, 4)), clocks(t.cl + t.burst + t.t_turn - t.cwl));
    // If both requests arrived together, the read would be served first. The write therefore
    // arrives one clock earlier.
    let after_write = |bank: u8| {
        let requests = [
            (10, false, 0, 7, 0),
            (10, false, bank, 7, 1),
            (5000, true, 0, 7, 2),
            (5001, false, bank, 7, 3),
        ];
        let (commands, _) = issued(&device, &plain(), &requests);
        gap(&commands, Kind::Write, Kind::Read)
    };
    assert_eq!(after_write(4), clocks(t.cwl + t.burst + t.t_wtr_s));
    assert_eq!(after_write(1), clocks(t.cwl + t.burst + t.t_wtr_l));
    assert_eq!(after_write(32), clocks(t.cwl + t.burst + t.t_rank - t.cl));
}

#[test]
fn a_bank_takes_its_time() {
    for name in names() {
        let device = device(&name);
        let t = device.timing;
        let host = |clocks: u32| u64::from(clocks) * device.host_clocks;
        let (commands, _) =
            issued(&device, &plain(), &[(10, false, 0, 7, 0), (10, false, 0, 8, 0)]);
        assert_eq!(gap(&commands[..2], Kind::Activate, Kind::ReadAuto), host(t.t_rcd), "{name}");
        let close = host(t.t_ras.max(t.t_rcd + t.t_rtp));
        assert_eq!(gap(&commands, Kind::Activate, Kind::Activate), close + host(t.t_rp), "{name}");
    }
}

#[test]
fn activations_keep_their_distance() {
    let device = device("rdimm-4800-1r");
    let t = device.timing;
    let requests: Vec<_> = (0..8).map(|n| (10, false, 4 * (n % 8), 7, 0)).collect();
    let (commands, _) = issued(&device, &plain(), &requests);
    let at: Vec<u64> = commands
        .iter()
        .filter(|command| command.kind == Kind::Activate)
        .map(|command| command.at)
        .collect();
    assert_eq!(at.len(), 8);
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= u64::from(t.t_rrd_s)), "{at:?}");
    assert!(at.windows(5).all(|five| five[4] - five[0] >= u64::from(t.t_faw)), "{at:?}");
    assert_eq!(at[1] - at[0], u64::from(t.t_rrd_s));
}

// --- The controller: order of commands -----------------------------------------------------------

#[test]
fn open_rows_go_first_and_then_the_oldest() {
    let device = device("rdimm-6400-2r");
    let hit_behind = [(10, false, 0, 7, 0), (10, false, 0, 8, 0), (10, false, 0, 7, 1)];
    let (commands, source) = issued(&device, &plain(), &hit_behind);
    assert_eq!(kinds(&commands), ["ACT", "RD", "RDA", "ACT", "RD"]);
    let order: Vec<u32> = source.done.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(order, [0, 2, 1]);
    // The later request is for another row of the bank. With the open row policy the first row is
    // still open, so the first row is precharged before the second row is opened.
    let (commands, _) = issued(&device, &plain(), &[(10, false, 0, 7, 0), (900, false, 0, 8, 0)]);
    assert_eq!(kinds(&commands), ["ACT", "RD", "PRE", "ACT", "RD"]);
    let closed = Controller { row_policy: RowPolicy::Closed, ..plain() };
    let (commands, _) = issued(&device, &closed, &[(10, false, 0, 7, 0), (900, false, 0, 7, 1)]);
    assert_eq!(kinds(&commands), ["ACT", "RDA", "ACT", "RDA"]);
}

#[test]
fn hits_end_when_another_row_has_waited() {
    let device = device("rdimm-6400-2r");
    let mut requests = vec![(10, false, 0, 7, 0), (10, false, 0, 8, 0)];
    requests.extend((1..20).map(|column| (10, false, 0, 7, column)));
    let controller = Controller { hits_max: 4, ..plain() };
    let (_, source) = issued(&device, &controller, &requests);
    let location = source.done.iter().position(|(tag, _)| *tag == 1);
    assert_eq!(location, Some(4));
}

#[test]
fn writes_wait_for_one_another_but_not_for_ever() {
    let device = device("rdimm-6400-2r");
    let controller = Controller { preparation_ps: 16_250, ..plain() };
    let slice = device.clocks(controller.read_slice_ps);
    let reads = |from: u64, count: u64| {
        (0..count).map(move |n| (from + 8 * n, false, (4 * (n % 16)) as u8, n as u32, 0))
    };
    let mut requests = vec![(10, true, 1, 7, 0)];
    requests.insert(0, (5, false, 0, 1, 0));
    requests.extend(reads(11, 400));
    let (commands, _) = issued(&device, &controller, &requests);
    let write = commands.iter().find(|command| command.kind == Kind::Write).unwrap();
    assert!((slice / 2..2 * slice).contains(&write.at), "{} of {slice}", write.at);
    // The row of the write is opened before the turnaround, while reads still continue.
    let opens = |c: &&Command| c.kind == Kind::Activate && (c.bank_group, c.bank) == (0, 1);
    let opened = commands.iter().find(opens).unwrap().at;
    let reads_on = |c: &&Command| {
        (opened..write.at).contains(&c.at) && matches!(c.kind, Kind::Read | Kind::ReadAuto)
    };
    assert!(commands.iter().filter(reads_on).count() >= 3, "{opened} to {}", write.at);
    assert!(write.at <= opened + 2 * u64::from(device.timing.t_rcd));
    // A read of data in the write queue is answered from this queue, without an access to the DRAM.
    let own = [(5, false, 0, 1, 0), (6, true, 1, 7, 3), (7, false, 1, 7, 3), (8, false, 4, 1, 0)];
    let mut source = Script::new(&own);
    let mut channel = SubChannel::new(&device, &plain(), (0, 1));
    channel.run(&mut source, &mut (), 3);
    assert_eq!((channel.counts().forwarded, channel.counts().reads), (1, 2));
    assert_eq!(source.done[0], (2, 7));
}

// --- Closed formulas -----------------------------------------------------------------------------

fn run(setup: &Setup, offered_gbps: Option<f64>, accesses: u64) -> ChannelResult {
    setup.part(0, offered_gbps, accesses, &mut (), &|_| ())
}

#[test]
fn an_idle_module_answers_after_its_latency() {
    for name in names() {
        let device = device(&name);
        let t = device.timing;
        let mut setup = Setup::new(device.clone(), 1);
        setup.pattern = Pattern::Random;
        setup.controller.refresh = Refresh::Never;
        setup.controller.row_policy = RowPolicy::Closed;
        setup.outstanding = 1;
        let part = run(&setup, Some(setup.peak_gbps() * 1e-3), 500);
        let expected =
            device.ns(u64::from(t.t_rcd + t.cl + t.burst)) + 65.0 + device.delay_ps as f64 * 1e-3;
        let error = part.latency.mean_ns() - expected;
        // Delays are whole clocks and recorded latencies whole nanoseconds, so the mean may be
        // lower than expected by a clock and a nanosecond.
        let least = -1.0 - device.ns(1);
        assert!((least..3.0).contains(&error), "{name}: {} for {expected}", part.latency.mean_ns());
    }
}

#[test]
fn reads_reach_the_peak_less_refresh() {
    for name in ["rdimm-4800-1r", "rdimm-6400-2r", "mrdimm-8800-2r", "mrdimm-12800-4r"] {
        for density in ["16Gb", "32Gb"] {
            let mut setup = Setup::new(of_density(name, density), 1);
            // 240 outstanding lines are enough for the fastest module. With the default of 144
            // lines, MRDIMM-12800 reaches only 89 % of its peak.
            setup.outstanding = 240;
            let t = setup.device.timing;
            let peak = setup.peak_gbps() / f64::from(setup.device.sub_channels);
            let part = run(&setup, None, 60_000).bandwidth_gbps / peak;
            let left = 1.0 - f64::from(t.t_rfc) / f64::from(t.t_refi);
            assert!((left - 0.035..left + 0.002).contains(&part), "{name} {density}: {part}");
            setup.controller.refresh = Refresh::Never;
            assert!(run(&setup, None, 20_000).bandwidth_gbps / peak > 0.97, "{name}");
        }
    }
}

#[test]
fn the_offered_load_is_carried() {
    let setup = Setup::new(device("mrdimm-8800-4r"), 12);
    let part = run(&setup, Some(240.0), 30_000);
    assert!((part.bandwidth_gbps * 24.0 / 240.0 - 1.0).abs() < 0.02, "{}", part.bandwidth_gbps);
    assert_eq!(part, run(&setup, Some(240.0), 30_000), "the same seed gives the same");
    let other = Setup { seed: 2, ..setup };
    assert_ne!(part, run(&other, Some(240.0), 30_000));
}

#[test]
fn a_hot_bank_makes_a_tail_at_a_low_load() {
    let mut setup = Setup::new(device("rdimm-6400-2r"), 12);
    setup.pattern = Pattern::Random;
    let even = run(&setup, Some(180.0), 30_000).latency;
    setup.pattern = Pattern::HotBank;
    let hot = run(&setup, Some(180.0), 30_000).latency;
    assert!(hot.percentile_ns(0.999) > even.percentile_ns(0.999) + 100);
    assert!(hot.percentile_ns(0.5) < even.percentile_ns(0.5) + 10);
}

// --- Published figures ---------------------------------------------------------------------------

fn maximum(device: Device, mix: &str) -> f64 {
    let mut setup = Setup::new(device, 12);
    setup.mix = mix.parse::<Mix>().unwrap();
    let parts: Vec<ChannelResult> =
        [0, 7].iter().map(|n| setup.part(*n, None, 100_000, &mut (), &|_| ())).collect();
    ChannelResult::sum(&parts).bandwidth_gbps * f64::from(setup.parts()) / 2.0
}

#[test]
fn twelve_channels_have_the_bandwidth_of_a_server() {
    let published = [("R", 556.0), ("W3", 486.0), ("W2", 474.0), ("W5", 446.0), ("W10", 466.0)];
    let mut sum = 0.0;
    for (mix, gbps) in published {
        let error = maximum(device("rdimm-6400-2r"), mix) / gbps - 1.0;
        assert!(error.abs() <= 0.03, "{mix}: {error}");
        sum += error.abs();
    }
    assert!(sum / published.len() as f64 <= 0.02, "{sum}");
    // A share of 5 % writes instead of none costs 6 to 11 % of the peak.
    let read = maximum(device("rdimm-6400-2r"), "R");
    let few = maximum(device("rdimm-6400-2r"), "0.95");
    assert!((0.06..0.11).contains(&((read - few) / 614.4)), "{few} of {read}");
}

/// Measured on servers: with two ranks per channel, the first 5 % of writes cost 8 % of the peak,
/// and further writes cost little more. A server with one rank per channel has less bandwidth than
/// a server with two. The simulation must be within the ranges below.
#[test]
fn the_first_writes_cost_most_with_one_rank_and_with_two() {
    let part = |name: &str, mix: &str| maximum(device(name), mix) / (12.0 * 38.4);
    for (name, first, more) in [("rdimm-4800-1r", 0.16, 0.10), ("rdimm-4800-2r", 0.11, 0.05)] {
        let [reads, few, half] = ["R", "0.95", "W5"].map(|mix| part(name, mix));
        assert!((0.05..first).contains(&(reads - few)), "{name}: {few} of {reads}");
        assert!((-0.01..more).contains(&(few - half)), "{name}: {half} of {few}");
    }
    let one = part("rdimm-4800-1r", "W2") / part("rdimm-4800-2r", "W2");
    assert!((0.80..0.95).contains(&one), "{one}");
}

/// The measured bandwidths and latencies are some rows of the files in `reproduce/servers`. The
/// command `interleaf reproduce servers` compares all rows.
#[test]
fn servers_have_the_measured_maxima_and_latencies() {
    let measured = [
        ("sapphire-rapids-2r", 0.50, 236.6, [136.0, 173.2]),
        ("sapphire-rapids-2r", 0.67, 238.8, [130.5, 168.0]),
        ("sapphire-rapids-2r", 0.95, 241.6, [124.6, 141.6]),
        ("sapphire-rapids-2r", 1.00, 267.4, [122.6, 138.9]),
        ("sapphire-rapids-1r", 0.51, 187.5, [147.3, 202.4]),
        ("sapphire-rapids-1r", 1.00, 233.5, [130.5, 155.7]),
        ("cascade-lake", 0.60, 92.9, [104.6, 127.9]),
        ("cascade-lake", 0.90, 99.6, [107.9, 122.9]),
    ];
    let (mut maxima, mut latencies) = (vec![], vec![]);
    for (name, share, gbps, latency_ns) in measured {
        let mut setup = Server::by_name(name).unwrap().setup();
        setup.mix = Mix::new(share, false).unwrap();
        let parts = f64::from(setup.parts());
        let error = run(&setup, None, 12_000).bandwidth_gbps * parts / gbps - 1.0;
        assert!(error.abs() <= 0.08, "{name}, {share} of reads: {error}");
        maxima.push(error.abs());
        for (load, published) in [0.5, 0.75].into_iter().zip(latency_ns) {
            let part = run(&setup, Some(load * gbps), 12_000);
            latencies.push((part.latency.mean_ns() / published - 1.0).abs());
        }
    }
    let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean(&maxima) <= 0.045, "{maxima:?}");
    assert!(mean(&latencies) <= 0.06, "{latencies:?}");
}

#[test]
fn multiplexed_ranks_have_the_published_gain() {
    for density in ["16Gb", "24Gb", "32Gb"] {
        let plain = maximum(of_density("rdimm-6400-2r", density), "R");
        let gain = maximum(of_density("mrdimm-8800-2r", density), "R") / plain - 1.0;
        assert!((0.36..0.43).contains(&gain), "{density}: {gain}");
    }
    let of = |name: &str, mix: &str| maximum(device(name), mix);
    let ratio = of("mrdimm-8800-2r", "R") / of("mrdimm-8800-4r", "R");
    assert!((ratio - 1.0).abs() < 0.015, "{ratio}");
    for mix in ["W3", "W2", "W5"] {
        assert!(of("mrdimm-8800-4r", mix) > 1.03 * of("mrdimm-8800-2r", mix), "{mix}");
    }
}

// --- No violation of the tables ------------------------------------------------------------------

#[test]
fn no_command_breaks_a_rule() {
    let mut random = 1_u64;
    let mut below = |end: u64| {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (random >> 33) % end
    };
    let mut commands = 0;
    for round in 0..2 {
        for name in names() {
            let device = device(&name);
            let controller = Controller {
                read_queue: 1 + below(100) as usize,
                write_queue: 1 + below(64) as usize,
                write_high: 1 + below(64) as usize,
                write_low: below(32) as usize,
                write_idle: 1 + below(32) as usize,
                read_high: below(64) as usize,
                write_batch: 1 + below(16) as usize,
                preparation_ps: below(20_000),
                rank_margin: below(4) as u32,
                read_slice_ps: 50_000 + below(800_000),
                write_slice_ps: 50_000 + below(800_000),
                row_policy: [RowPolicy::Open, RowPolicy::Closed, RowPolicy::Adaptive]
                    [below(3) as usize],
                hits_max: 1 + below(20) as u32,
                refresh: [Refresh::AllBanks, Refresh::SameBank][below(2) as usize],
                refresh_together: below(2) == 0,
            };
            let load = Load {
                read_share: below(11) as f64 / 10.0,
                pattern: [Pattern::Random, Pattern::Stream, Pattern::HotBank][below(3) as usize],
                streams: 1 + below(200) as usize,
                outstanding: 1 + below(300) as usize,
                neighbours: 1 + below(3) as usize,
                rate: (below(2) == 0).then(|| 1e6 * (1 + below(600)) as f64),
                uncore_ps: below(100_000),
                fabric_ps: below(5_000),
                layout: [Layout::XEON, Layout::ROW_BY_ROW][below(2) as usize],
                seed: below(1 << 30),
            };
            let mut checker = Checker::new(&device);
            let mut seen = Counter::default();
            SubChannel::new(&device, &controller, (below(24), 24)).run(
                &mut ClosedLoop::new(&device, &load),
                &mut (&mut checker, &mut seen),
                10_000,
            );
            let (count, first) = checker.violations();
            assert_eq!(count, 0, "{name} {round}: {}\n{controller:?}\n{load:?}", first[0]);
            commands += seen.0;
        }
    }
    assert!(commands > 500_000, "{commands}");
}

#[derive(Default)]
struct Counter(u64);

impl interleaf_sim::dimm::command::Observer for Counter {
    fn command(&mut self, _: &Command) {
        self.0 += 1;
    }
}
