use super::*;
use crate::dimm::{
    check::Checker,
    command::{Command, Kind},
    config::RowPolicy,
    device::Options,
    trace::Format,
};

fn setup(name: &str, channels: u32) -> Setup {
    let device = Device::by_name(name, &Options::default()).expect("it comes with the tool");
    Setup { uncore_ps: 0, ..Setup::new(device, channels) }
}

fn replay(setup: &Setup, text: &str, number: u32) -> (ChannelResult, Vec<Command>) {
    let trace = Trace::new("t", text.as_bytes(), None, setup.memory()).expect("it is a trace");
    let (mut commands, mut checker) = (vec![], Checker::new(&setup.device));
    let part = setup.replay(trace, number, &mut (&mut commands, &mut checker), &|_| ());
    assert_eq!(checker.violations().0, 0);
    (part, commands)
}

#[test]
fn requests_are_made_at_their_time() {
    // 1000 ns and 2000 ns are 3200 and 6400 clocks; an access to a closed row takes 52 clocks to
    // the column command, 52 to the data, and 8 for the burst: 35 ns.
    let mut setup = setup("rdimm-6400-2r", 1);
    setup.controller.row_policy = RowPolicy::Open;
    let (part, commands) = replay(&setup, "1000 R 0x0\n2000 R 0x40\n", 0);
    assert_eq!((part.counts.reads, part.counts.activates), (2, 1));
    let times: Vec<u64> =
        commands.iter().filter(|c| c.kind != Kind::RefreshAll).map(|c| c.at).collect();
    assert_eq!(times, [3200, 3252, 6400]);
    assert_eq!((part.latency.max_ns(), part.latency.percentile_ns(0.5)), (35, 18));
    assert_eq!(part.latency.count(), 2);
}

#[test]
fn each_sub_channel_has_its_own_lines() {
    let setup = setup("mrdimm-8800-2r", 3);
    let lines = 6 * 4 * 50;
    let text: String =
        (0..lines).map(|line| format!("LD {:#x}\nST {:#x}\n", line * 64, line * 64)).collect();
    for number in 0..setup.parts() {
        let (part, _) = replay(&setup, &text, number);
        // A queued write may answer a read, which then counts as forwarded and not as a read.
        let done = part.counts.reads + part.counts.writes + part.counts.forwarded;
        assert_eq!(done, 400, "{:?}", part.counts);
        assert_eq!(part.latency.count(), 200);
        assert!(part.bandwidth_gbps > 5.0, "{}", part.bandwidth_gbps);
    }
}

#[test]
fn the_clock_of_other_simulators_is_that_of_the_host() {
    let setup = setup("mrdimm-8800-2r", 1);
    assert_eq!(setup.memory().mega_transfers, 8800);
    let text = b"0x0 READ 0\n0x40 WRITE 8800\n";
    let trace = Trace::new("t", text, Some(Format::Dramsim3), setup.memory()).expect("a trace");
    let requests: Vec<_> = trace.map(|request| request.expect("it is right").at_ps).collect();
    assert_eq!(requests, [0, 2_000_000]);
    // 32 data devices of 16 Gb have 64 GiB.
    assert_eq!(setup.memory().bytes, 64 << 30);
}

#[test]
fn outstanding_lines_stay_within_their_limit() {
    let setup = Setup { outstanding: 1, ..setup("ddr4-3200-2r", 1) };
    let text: String = (0..100_u64).map(|line| format!("LD {:#x}\n", line * (1 << 20))).collect();
    let (part, commands) = replay(&setup, &text, 0);
    let mut reads: Vec<u64> = commands
        .iter()
        .filter(|c| matches!(c.kind, Kind::Read | Kind::ReadAuto))
        .map(|c| c.at)
        .collect();
    assert_eq!(reads.len() as u64, part.counts.reads);
    reads.dedup_by(|later, earlier| *later >= *earlier + 26);
    assert_eq!(reads.len(), 1, "each waits for the data of the one before");
}
