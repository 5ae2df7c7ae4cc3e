use super::*;
use crate::dimm::{
    check::Checker,
    config::Controller,
    controller::SubChannel,
    device::Options,
    mapping::{Layout, Mapping},
    traffic::{Request, Source},
};
use proptest::prelude::*;

/// The number of bursts of each row access in these tests: 512 bytes.
const BURSTS: u16 = 8;

fn device(name: &str, ranks: u32) -> Device {
    let density = (name == "ddr3-1600").then(|| "1Gb".to_owned());
    let device = Device::by_name(name, &Options { density, width: None }).unwrap();
    Device { ranks, ..device }
}

fn mapping(device: &Device) -> Mapping {
    Mapping::new(device, Layout { neighbours_log2: 3, banks_first: true })
}

fn access(mapping: &Mapping, segment: u64, write: bool) -> RowAccess {
    let at = mapping.location(segment * u64::from(BURSTS));
    RowAccess { bank: at.bank, row: at.row, column: at.column, bursts: BURSTS, write }
}

fn random(seed: u64, index: u64) -> u64 {
    let mixed = (seed ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 20
}

#[test]
fn an_idle_channel_has_the_times_of_the_data_sheet() {
    let device = device("stt-mram-ddr3", 4);
    let t = device.timing;
    let mut channel = RowChannel::new(&device);
    let write = RowAccess { bank: 3, row: 7, column: 0, bursts: BURSTS, write: true };
    let times = channel.serve(1000, write, &mut ());
    let first = 1000 + t.t_rcd;
    let data = first + 7 * t.t_ccd_l + t.cwl + t.burst;
    assert_eq!(times.activated, 1000);
    assert_eq!((times.first, times.data), (first.into(), data.into()));
    assert_eq!(times.closed, u64::from(data + t.t_wr + t.t_rp));
    // The next access of the bank waits until the precharge of this access has ended.
    let read = RowAccess { write: false, ..write };
    assert_eq!(channel.serve(1001, read, &mut ()).activated, times.closed);
}

#[test]
fn the_last_commands_are_reported_at_the_end() {
    let mut channel = RowChannel::new(&device("ddr3-1600", 1));
    let mut commands: Vec<Command> = vec![];
    let access = RowAccess { bank: 0, row: 1, column: 8, bursts: 3, write: false };
    channel.serve(5, access, &mut commands);
    channel.finish(&mut commands);
    let kinds: Vec<_> = commands.iter().map(|command| (command.kind, command.column)).collect();
    let expected = [(Kind::Activate, 0), (Kind::Read, 8), (Kind::Read, 9), (Kind::ReadAuto, 10)];
    assert_eq!(kinds, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_command_keeps_the_rules_of_the_device(
        seed in any::<u64>(),
        which in 0_usize..6,
        write_part in 0_u64..5,
        span in 1_u64..400,
        banks in 1_u64..64,
    ) {
        let names =
            [("ddr3-1600", 1), ("ddr3-1600", 2), ("stt-mram-ddr3", 4), ("stt-mram-ddr4", 1),
             ("ddr4-3200-2r", 2), ("rdimm-4800-2r", 2)];
        let device = device(names[which].0, names[which].1);
        let mut checker = Checker::new(&device);
        let mut channel = RowChannel::new(&device);
        let mapping = mapping(&device);
        let mut at = 0;
        for index in 0..3000 {
            // About one in 97 gaps between arrivals is drawn from 0 to 20,000 clocks, so some gaps
            // are longer than a refresh interval.
            let pause = if random(seed, index + 9).is_multiple_of(97) { 20_000 } else { span };
            at += random(seed, index) % pause;
            let segment = random(seed ^ 1, index) % (banks * 4);
            let write = random(seed ^ 2, index) % 4 < write_part;
            let times = channel.serve(at, access(&mapping, segment, write), &mut checker);
            prop_assert!(at <= times.activated && times.activated < times.first);
            prop_assert!(times.first < times.data && times.data <= times.closed);
        }
        channel.finish(&mut checker);
        let (count, violations) = checker.violations();
        prop_assert_eq!(count, 0, "{}", violations[0]);
        prop_assert!(checker.commands() > 3000 * u64::from(BURSTS));
    }
}

/// Presents row accesses to the full simulator ([`SubChannel`]) as requests for single bursts,
/// which all arrive at clock 1.
struct Bursts {
    mapping: Mapping,
    next: u64,
    end: u64,
    write: bool,
    seed: u64,
    first_done: Option<u64>,
}

impl Source for Bursts {
    fn peek(&self) -> Option<u64> {
        (self.next < self.end).then_some(1)
    }

    fn next_request(&mut self) -> Request {
        let segment = random(self.seed, self.next / u64::from(BURSTS));
        let line = segment * u64::from(BURSTS) + self.next % u64::from(BURSTS);
        self.next += 1;
        let location = self.mapping.location(line);
        Request { at: 1, location, tag: 0, order: 0, write: self.write }
    }

    fn done(&mut self, _: &Request, clock: u64) {
        self.first_done.get_or_insert(clock);
    }
}

/// Returns the number of clocks that the full simulator ([`SubChannel`]) takes for `accesses` row
/// accesses, and the clock of the first data.
fn full(device: &Device, accesses: u64, write: bool) -> (u64, Option<u64>) {
    let end = accesses * u64::from(BURSTS);
    let mut source =
        Bursts { mapping: mapping(device), next: 0, end, write, seed: 5, first_done: None };
    let mut channel = SubChannel::new(device, &Controller::default(), (0, 1));
    channel.run(&mut source, &mut (), end);
    (channel.clock(), source.first_done)
}

fn rows(device: &Device, accesses: u64, write: bool) -> u64 {
    let mapping = mapping(device);
    let mut channel = RowChannel::new(device);
    let mut last = 0;
    for index in 0..accesses {
        last = channel.serve(1, access(&mapping, random(5, index), write), &mut ()).data;
    }
    last
}

#[test]
fn throughput_and_idle_latency_agree_with_the_full_simulator() {
    // The accesses go to random row segments, all reads or all writes, with full queues. The full
    // simulator ([`SubChannel`]) completes the accesses up to 25 % earlier, because its scheduler
    // may change their order. With long activations, the full simulator completes the accesses up
    // to 20 % later, because its queues look ahead by bursts and not by rows.
    for (name, ranks) in [("ddr3-1600", 1), ("stt-mram-ddr3", 4), ("stt-mram-ddr3-1333", 4)] {
        let device = device(name, ranks);
        for write in [false, true] {
            let ratio = rows(&device, 4000, write) as f64 / full(&device, 4000, write).0 as f64;
            assert!((0.75..1.25).contains(&ratio), "{name}, write {write}: {ratio}");
        }
        let first = u64::from(device.timing.t_rcd + device.timing.cl + device.timing.burst) + 1;
        assert_eq!(full(&device, 1, false).1, Some(first), "{name}");
        let span = u64::from(BURSTS - 1) * u64::from(device.timing.t_ccd_l);
        assert_eq!(rows(&device, 1, false), first + span, "{name}");
    }
}
