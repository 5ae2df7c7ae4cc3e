//! Runs the scheduler with random settings, and checks each of its commands with `Checker`.

use interleaf_sim::dimm::{
    check::{Checker, Violation},
    closed_loop::{ClosedLoop, Load, Pattern},
    config::{Controller, Refresh, RowPolicy},
    controller::SubChannel,
    device::{Device, Options},
    mapping::Layout,
};

const LAYOUT_OF_8: Layout = Layout { neighbours_log2: 3, banks_first: false };

/// The configuration of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) device: Device,
    pub(crate) controller: Controller,
    pub(crate) load: Load,
}

/// The pseudo-random number generator SplitMix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

impl Setup {
    /// Creates the configuration of a run of the module `name`, with random devices (density and
    /// width), controller and load.
    pub(crate) fn random(name: &str, seed: u64) -> Self {
        let mut random = SplitMix64(seed);
        let some = |text: &str| Some(text.to_string());
        let ddr5 = name.contains("rdimm");
        let options = Options {
            density: random.one_of(&[some("16Gb"), some("24Gb"), some("32Gb")]).filter(|_| ddr5),
            width: random.one_of(&[some("x4"), some("x8")]).filter(|_| ddr5),
        };
        let device = Device::by_name(name, &options).expect("it comes with the tool");
        let write_high = 2 + random.below(47) as usize;
        let slice = |random: &mut SplitMix64| 20_000 + 1000 * random.below(1000);
        let controller = Controller {
            read_queue: 1 + random.below(64) as usize,
            write_queue: write_high + random.below(17) as usize,
            write_high,
            write_low: random.below(write_high as u64) as usize,
            write_idle: 1 + random.below(write_high as u64) as usize,
            read_high: random.below(64) as usize,
            write_batch: 1 + random.below(16) as usize,
            preparation_ps: 1000 * random.below(20),
            rank_margin: random.below(4) as u32,
            read_slice_ps: slice(&mut random),
            write_slice_ps: slice(&mut random),
            row_policy: random.one_of(&[RowPolicy::Open, RowPolicy::Closed, RowPolicy::Adaptive]),
            hits_max: 1 + random.below(32) as u32,
            refresh: random.one_of(&[Refresh::AllBanks, Refresh::SameBank]),
            refresh_together: random.below(2) == 0,
        };
        let shares = [1.0, 0.95, 0.75, 2.0 / 3.0, 0.5, 0.25, 0.0];
        let neighbours = random.one_of(&[1, 1, 2, 8]);
        let load = Load {
            read_share: random.one_of(&shares),
            pattern: random.one_of(&[Pattern::Random, Pattern::Stream, Pattern::HotBank]),
            streams: 1 + random.below(64) as usize,
            outstanding: 1 + random.below(300) as usize,
            neighbours,
            rate: random.one_of(&[None, None, Some(1e6), Some(1e8), Some(3e8)]),
            uncore_ps: 60_000,
            fabric_ps: random.one_of(&[0, 0, 2_500]),
            layout: random.one_of(&[Layout::XEON, Layout::ROW_BY_ROW, LAYOUT_OF_8]),
            seed,
        };
        Self { device, controller, load }
    }
}

/// Simulates `accesses` accesses. The scheduler uses the tables of `setup`, the checker uses the
/// tables of `device`. Returns the number of checked commands, and the first violations.
pub(crate) fn run(device: &Device, setup: &Setup, accesses: u64) -> (u64, Vec<Violation>) {
    let mut channel = SubChannel::new(&setup.device, &setup.controller, (setup.load.seed % 24, 24));
    let mut source = ClosedLoop::new(&setup.device, &setup.load);
    let mut checker = Checker::new(device);
    channel.run(&mut source, &mut checker, accesses);
    let mut violations = checker.violations().1.to_vec();
    violations.extend(checker.finish(channel.clock() * device.host_clocks).err());
    (checker.commands(), violations)
}
