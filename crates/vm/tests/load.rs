//! Tests the guest's program `load`, which emulates a server's workload: the memory traffic that
//! `load` reports agrees with the model for the present placement of its pages.
//!
//! NUMA balancing is off, because it would migrate pages to the node with the processors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::{feed::Fed, load::Emulated};
use interleaf_model::predict::ActivePhase;
use interleaf_vm::{
    Series,
    expected::Expected,
    harness::{guest_record, in_workspace, on_each, shown, step},
    outcome::Record,
};

const KERNELS: [Series; 2] = [Series::Of(6, 17), Series::Newest];

const SPEED: f64 = 20.0;
const THREADS: u32 = 119;
const FEED: &str = "/tmp/feed.sock";

/// Tolerance of the first tier's share of the traffic. The traffic follows the pages, and 0.02 are
/// about 330 of 16384 pages.
const SHARE: f64 = 0.02;

fn run(phases: &[(f64, f64)]) -> Expected {
    let platform = in_workspace("platforms/gnr120-cz122.toml");
    let demand = in_workspace("workloads/lbm.toml");
    let phases =
        phases.iter().map(|(local_s, active)| ActivePhase { local_s: *local_s, active: *active });
    Expected {
        cold_bytes: 32 << 20,
        phases: phases.collect(),
        ..Expected::new(platform, demand, THREADS, 64 << 20)
    }
}

/// Returns the command line of the program `load` for this run.
fn command(run: &Expected) -> String {
    let mut text = format!(
        "load --platform /platforms/gnr120-cz122.toml --demand /workloads/lbm.toml \
         --threads {THREADS} --hot {}MiB --cold {}MiB --speed {SPEED} --feed {FEED} \
         --report /tmp/load.tsv",
        run.hot_bytes >> 20,
        run.cold_bytes >> 20
    );
    for ActivePhase { local_s, active } in &run.phases {
        text += &format!(" --phase {local_s}s:{active}");
    }
    text
}

/// Parses the output of `drain`, which has a line for each tier. Returns for each tier the length
/// of a time span of the guest's clock, in seconds, and the traffic that `load` fed in this span.
fn fed(lines: &[String]) -> Vec<(f64, Fed)> {
    let line = |line: &str| {
        let [word, seconds, _, json] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(word, "fed");
        (seconds.parse().unwrap(), serde_json::from_str(json).unwrap())
    };
    let (last, fed) = lines.split_last().unwrap();
    assert_eq!(last, "drained");
    fed.iter().map(|text| line(text)).collect()
}

/// Returns the share of each tier in the bytes of the reported traffic.
fn shares(fed: &[(f64, Fed)]) -> Vec<f64> {
    let all: u64 = fed.iter().map(|(_, fed)| fed.bytes()).sum();
    fed.iter().map(|(_, fed)| fed.bytes() as f64 / all as f64).collect()
}

/// Returns the bandwidth of all tiers together, GB/s of emulated time, which runs `SPEED` times as
/// fast as real time. `fed` has for each tier the seconds of an interval, and the reported traffic.
fn gbps(fed: &[(f64, Fed)]) -> f64 {
    let gbps = |(seconds, fed): &(f64, Fed)| fed.bytes() as f64 * 1e-9 / seconds / SPEED;
    fed.iter().map(gbps).sum()
}

/// Checks that the reported traffic `fed` is that of the model for the phase `phase` of the load
/// and for the observed shares of the tiers, and that the first tier's share is `first`.
fn is_modelled(fed: &[(f64, Fed)], emulated: &Emulated, phase: usize, first: f64, record: &Record) {
    let shares = shares(fed);
    assert!((shares[0] - first).abs() <= SHARE, "{shares:?}, not {first}\n{record}");
    let reached = emulated.reached(phase, &shares);
    for ((_, fed), latency_ns) in fed.iter().zip(&reached.tier_latency_ns) {
        if let Some(latency) = fed.latency_ns() {
            assert!((latency / latency_ns - 1.0).abs() < 0.01, "{latency} ns\n{record}");
        }
        let reads = fed.read_bytes as f64 / fed.bytes().max(1) as f64;
        assert!(fed.bytes() == 0 || (reads - 0.58).abs() < 1e-3, "{reads}\n{record}");
    }
    // The time span is imprecise, because two processes read the clock.
    let ratio = gbps(fed) / reached.bandwidth_gbps();
    assert!((ratio - 1.0).abs() < 0.25, "{ratio} of {reached:?}\n{record}");
}

/// Returns the rows of a report of `load`, without the header.
fn rows(lines: &[String]) -> Vec<Vec<f64>> {
    let row = |line: &String| line.split('\t').map(|word| word.parse().unwrap()).collect();
    lines[1..].iter().map(row).collect()
}

/// The pages of `load` are first placed by the weights 3:1, then migrated to 1:1, and then all
/// migrated to the second tier. The bytes and the latency that `load` feeds follow the placement.
#[test]
fn traffic_follows_the_pages() {
    let run = run(&[]);
    let drain = |n: u32| format!("run drain {FEED} {n}ms");
    let to = |weights: &str| format!("run interleaf run --pid @load --weights {weights}");
    // The durations of the steps `drain` differ, so that each step has a text of its own: the
    // report of a step is found by its text. `load` samples the placement of its pages about three
    // times a second, and less often in a slow guest.
    let steps = [
        "write /proc/sys/kernel/numa_balancing 0".to_string(),
        format!("start load interleaf run --weights 3:1 -- {}", command(&run)),
        "await load touched".to_string(),
        drain(2001),
        to("1:1"),
        "sleep 5s".to_string(),
        drain(2002),
        to("0:1"),
        "sleep 5s".to_string(),
        drain(2003),
        "kill load TERM".to_string(),
        "wait load".to_string(),
        "read /tmp/load.tsv".to_string(),
    ];
    on_each(&KERNELS, |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps.join("\n")) else {
            return;
        };
        let emulated = run.emulated().unwrap();
        assert!(step(&record, "await load touched").succeeded(), "{record}");
        for (n, first) in [(2001, 0.75), (2002, 0.5), (2003, 0.0)] {
            is_modelled(&fed(shown(&record, &drain(n))), &emulated, 0, first, &record);
        }
        for row in rows(shown(&record, "read /tmp/load.tsv")) {
            // In each row of the report, the bandwidths are those that the model computes from the
            // shares in the row, to the printed digits.
            let [_, _, _, hot_0, hot_1, _, _, gbps_0, gbps_1, gbps] = row[..] else {
                panic!("{record}")
            };
            let reached = emulated.reached(0, &[hot_0, hot_1]);
            let on = &reached.tier_bandwidth_gbps;
            let near = (gbps_0 - on[0]).abs() < 0.01 && (gbps_1 - on[1]).abs() < 0.01;
            assert!(near && (gbps - on[0] - on[1]).abs() < 0.01, "{row:?}, {reached:?}");
        }
    });
}

/// All pages of `load` are on node 0. All threads are active in the first phase, and a tenth of the
/// threads in the second. The report has the bandwidth that the model gives for each phase: a lower
/// bandwidth in the second phase, on which the cold pages have no effect.
#[test]
fn demand_comes_and_goes() {
    let run = run(&[(60.0, 1.0), (60.0, 0.1)]);
    let steps = format!(
        "write /proc/sys/kernel/numa_balancing 0\n\
         start load {} --bind 0\n\
         await load touched\n\
         run drain {FEED} 500ms\n\
         sleep 7s\n\
         kill load TERM\n\
         wait load\n\
         read /tmp/load.tsv",
        command(&run)
    );
    on_each(&KERNELS, |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
        let emulated = run.emulated().unwrap();
        let fed = fed(shown(&record, &format!("run drain {FEED} 500ms")));
        assert_eq!(shares(&fed), [1.0, 0.0], "{record}");
        let expected = [0, 1].map(|phase| emulated.reached(phase, &[1.0, 0.0]).bandwidth_gbps());
        assert!(expected[1] < 0.5 * expected[0], "{expected:?}");
        let rows = rows(shown(&record, "read /tmp/load.tsv"));
        let seen = [0.0, 1.0].map(|phase| rows.iter().filter(|row| row[2] == phase).count());
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}\n{record}");
        for row in &rows {
            assert_eq!(row[3..7], [1.0, 0.0, 1.0, 0.0], "{record}");
            let gbps = expected[row[2] as usize];
            assert!((row[9] - gbps).abs() < 0.01, "{row:?}, not {gbps}\n{record}");
        }
    });
}
