//! Tests that the knee of a simulated machine is found from the bandwidth and the latency of its
//! counters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use interleaf_measure::knee::{self, Knee, Loaded, Resolution};
use interleaf_model::{
    format::{demand_toml, platform_toml},
    machine::Machine,
    platform::Platform,
};
use interleaf_sim::machine::{Scenario, SimMachine, Task};
use std::fs;

const SPAN: Duration = Duration::from_millis(200);

/// The pause, ns, with which a thread is assumed to cause half the load of a thread without a
/// pause. Simulated threads have no pauses, so the test uses fewer threads in place of longer
/// pauses.
const HALF_NS: f64 = 1000.0;

fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn platform(name: &str) -> Platform {
    let curves = |path: &str| Ok(read(&format!("platforms/{path}")));
    platform_toml::parse(name, &read(&format!("platforms/{name}.toml")), &curves).unwrap()
}

/// Simulates `threads` threads of STREAM, and returns the bandwidth and the latency of the first
/// tier. The pause in the result is the pause with which all `most` threads would give the same
/// load.
fn at(platform: &Platform, threads: u32, most: u32, noise: f64) -> Loaded {
    let demand = demand_toml::parse("stream", &read("workloads/stream.toml")).unwrap();
    let task = Task::new(platform, platform, &demand, threads);
    let scenario = Scenario {
        page_groups: 256,
        counter_noise: noise,
        seed: u64::from(threads),
        ..Scenario::new("stream", platform.clone(), vec![task])
    };
    let tiers = platform.tiers.len();
    let first: Vec<f64> = (0..tiers).map(|tier| if tier == 0 { 1.0 } else { 0.0 }).collect();
    let start = platform.domains.iter().map(|_| first.clone()).collect();
    let mut machine = SimMachine::new(&scenario, start);
    let Ok(sample) = machine.observe(SPAN);
    let traffic = sample.traffic[0][0];
    Loaded {
        pause_ns: HALF_NS * (f64::from(most) / f64::from(threads) - 1.0),
        bandwidth_gbps: traffic.bytes().unwrap() / SPAN.as_nanos() as f64,
        latency_ns: traffic.occupancy_ns.unwrap() / traffic.inserts.unwrap(),
    }
}

#[test]
fn few_loads_find_the_same_knee_as_many() {
    let platform = platform("gnr120-cz122");
    let most = platform.domains.iter().map(|domain| domain.cores).sum::<u32>();
    let power = |point: &Loaded| point.bandwidth_gbps / point.latency_ns;
    let some = (1..=most).step_by(3);
    let all: Vec<Loaded> = some.map(|threads| at(&platform, threads, most, 0.0)).collect();
    let truth = all.iter().max_by(|a, b| power(a).total_cmp(&power(b))).unwrap();
    let carried = all.iter().map(|point| point.bandwidth_gbps).fold(0.0, f64::max);
    let pause_max_ns = HALF_NS * f64::from(most - 1);
    for noise in [0.0, 0.01] {
        let resolution = Resolution { pause_max_ns, ..Resolution::default() };
        let mut points: Vec<Loaded> = vec![];
        while let Some(pause) = knee::next(&points, &resolution) {
            let threads = f64::from(most) / (1.0 + pause / HALF_NS);
            let found = at(&platform, threads.round().max(1.0) as u32, most, noise);
            // The number of threads is rounded, but the point gets the requested pause, by which
            // `next` recognises measured points.
            points.push(Loaded { pause_ns: pause, ..found });
        }
        let found = knee::knee(&points);
        let Some(Knee::At { bandwidth_gbps, .. }) = found else { panic!("{found:?}") };
        let off = (bandwidth_gbps - truth.bandwidth_gbps).abs() / carried;
        assert!(off < 0.08, "{bandwidth_gbps} for {truth:?} of {carried}: {points:?}");
        assert!(points.len() <= 20, "{}", points.len());
    }
}
