use super::*;
use crate::dimm::command::{Command, Kind};

fn expander() -> Expander {
    by_name("cz122").expect("it comes with the tool")
}

fn run(expander: &Expander, mix: &str, expanders: u32) -> ExpanderOutcome {
    let load = ExpanderLoad { mix: mix.parse().expect("it is a mix"), expanders, seed: 1 };
    expander.run(&load, 100_000, &mut ())
}

/// Micron published the bandwidths of eight expanders in a server, measured with MLC
/// (CCM004-676576390-11778, section III). The simulation must agree within 3 %.
#[test]
fn eight_expanders_have_the_measured_bandwidth() {
    let published = [("R", 205.0), ("W3", 214.0), ("W2", 208.0), ("W5", 214.0), ("W10", 189.0)];
    for (mix, published) in published {
        let ours = 8.0 * run(&expander(), mix, 8).bandwidth_gbps;
        let error = ours / published - 1.0;
        assert!(error.abs() < 0.03, "{mix}: {ours:.1} GB/s, {:+.1} %", 100.0 * error);
    }
}

/// The published bandwidth of a single expander is up to 36 GB/s at two reads per write (product
/// brief), and 35.3 GB/s at 74 % reads (curves of the Mess benchmark). The simulation must agree
/// within 7 %, although no parameter was fitted to these figures.
#[test]
fn one_expander_alone_gives_more_than_an_eighth() {
    for (mix, published) in [("W2", 36.0), ("0.74", 35.3)] {
        let ours = run(&expander(), mix, 1).bandwidth_gbps;
        assert!((ours / published - 1.0).abs() < 0.07, "{mix}: {ours:.1} GB/s");
    }
}

#[test]
fn an_idle_read_has_the_sum_of_all_delays() {
    let alone = Expander { host_lines: 1, ..expander() };
    let outcome = run(&alone, "R", 1);
    // The least latency is the sum of twice the link delay, the delay of the controller, and the
    // column access and the data of a row hit. The greatest latency adds the activation of a row,
    // and the time of the messages on the link.
    let least = 35.0 + 35.0 + 30.0 + 22.0 * 0.625 + 4.0 * 0.625;
    let most = least + 22.0 * 0.625 + 8.0;
    let mean = outcome.latency.mean_ns();
    assert!((least..most + 10.0).contains(&mean), "{mean} is not from {least} to {most}");
    assert!(outcome.latency.percentile_ns(0.1) as f64 >= least.floor());
}

#[test]
fn the_link_bounds_read_bandwidth() {
    // The link is the bottleneck of reads: if a slot of the link takes twice the time, the
    // bandwidth halves. If a slot takes a quarter of the time, the DRAM is the bottleneck.
    let expander = expander();
    let bound = |e: &Expander| {
        64.0 / ((e.read_response + e.overhead) as f64 / 100.0 * e.slot_fs as f64 * 1e-6)
    };
    assert!((bound(&expander) - 25.8).abs() < 0.05, "{}", bound(&expander));
    let slow = Expander { slot_fs: 2 * expander.slot_fs, ..expander.clone() };
    let outcome = run(&slow, "R", 1);
    assert!((outcome.bandwidth_gbps / bound(&slow) - 1.0).abs() < 0.02, "{outcome:?}");
    assert!(outcome.link_busy[1] > 0.97 && outcome.link_busy[0] < 0.3);
    let fast = Expander { slot_fs: expander.slot_fs / 4, ..expander };
    assert!(run(&fast, "R", 1).bandwidth_gbps < 51.2);
}

#[test]
fn the_same_seed_gives_the_same() {
    let expander = expander();
    assert_eq!(run(&expander, "W2", 8), run(&expander, "W2", 8));
    let mut commands: Vec<Command> = vec![];
    let load = ExpanderLoad { mix: "W5".parse().expect("it is a mix"), expanders: 8, seed: 2 };
    expander.run(&load, 1000, &mut commands);
    let writes = commands.iter().filter(|c| matches!(c.kind, Kind::Write | Kind::WriteAuto));
    assert!(writes.count() > 400);
}

#[test]
fn errors_name_the_field_of_a_file() {
    let text = include_str!("../../../../devices/cz122.toml");
    let table = [
        ("lanes = 8", "lanes = 0", "cz122.toml:13: link.lanes: 0 is not between 1 and 16"),
        ("68 B", "67 B", "link.flit: there are no flits of 67 bytes"),
        ("35 ns", "35 us", "link.delay: \"35 us\" is not a number of ns"),
        ("0.1 slots", "101 slots", "link.overhead: 101 slots is not between 0 and 100 slots"),
        ("assumed: through both", "thought: through both", "is not a source of this file"),
        ("ddr4-3200-2r", "ddr9", "memory.module: there is no device \"ddr9\""),
        (
            "channels = 2",
            "channels = 2\ndensity = \"3Gb\"",
            "cz122.toml:33: memory.density: there is no ddr4 with a density of \"3Gb\"",
        ),
        ("channels = 2", "chanels = 2", "unknown field"),
    ];
    for (good, bad, message) in table {
        assert!(text.contains(good), "{good}");
        let why = in_file("cz122.toml", &text.replace(good, bad)).expect_err(message);
        assert!(why.to_string().contains(message) && !why.hint().is_empty(), "{why}");
    }
    assert!(by_name("cz999").is_err_and(|why| why.hint().contains("cz122")));
}
