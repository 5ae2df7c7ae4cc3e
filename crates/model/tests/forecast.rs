//! Tests of the forecasts of workloads, and of their uncertainty.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_model::{
    demand::Demand,
    equilibrium::solve,
    format::{curve_csv, demand_toml, mess_csv, platform_toml},
    mix::Mix,
    platform::Platform,
    predict::{ActivePhase, Forecast, Program, Row, saturating_load},
    weights::Weights,
};
use std::fs;

fn root(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

fn platform(name: &str) -> Platform {
    let text = fs::read_to_string(root(&format!("platforms/{name}.toml"))).unwrap();
    let curves = |path: &str| {
        fs::read_to_string(root(&format!("platforms/{path}"))).map_err(|why| why.to_string())
    };
    platform_toml::parse(name, &text, &curves).unwrap()
}

fn workload(name: &str) -> Demand {
    let text = fs::read_to_string(root(&format!("workloads/{name}.toml"))).unwrap();
    demand_toml::parse(name, &text).unwrap()
}

fn row(platform: &Platform, demand: &Demand, threads: f64, weights: &str) -> Row {
    let weights: Weights = weights.parse().unwrap();
    let mut prediction = Forecast::new(platform, platform, demand).predict(threads, &[weights]);
    prediction.rows.remove(0)
}

fn width(row: &Row) -> f64 {
    row.speedup.high - row.speedup.low
}

#[test]
fn several_thread_counts_say_more_than_one() {
    let platform = platform("gnr120-cz122");
    let all = workload("cloverleaf");
    let only = |threads: u32| {
        let local = all.local.iter().filter(|run| run.threads == threads).cloned().collect();
        Demand { local, ..all.clone() }
    };
    let (many, one) = (row(&platform, &all, 60.0, "3:1"), row(&platform, &only(60), 60.0, "3:1"));
    assert!(width(&one) > 1.5 * width(&many), "{:?} and {:?}", one.speedup, many.speedup);
    // The interval must be wider after a single run without a counted bandwidth than after all runs
    // with counted bandwidths.
    let mut blind = only(60);
    blind.local.iter_mut().for_each(|run| run.bandwidth_gbps = None);
    let blind = row(&platform, &blind, 60.0, "3:1");
    assert!(width(&blind) > 1.3 * width(&many), "{:?}", blind.speedup);
}

#[test]
fn the_runs_are_met_where_they_were_made() {
    let platform = platform("gnr120-cz122");
    for name in ["stream", "cloverleaf", "lbm", "bwaves", "pr", "bfs", "bc"] {
        let demand = workload(name);
        let run = &demand.local[1];
        let local = row(&platform, &demand, f64::from(run.threads), "1:0");
        assert_eq!(local.speedup.mean, 1.0, "{name}");
        assert!((local.result.unwrap().mean / run.result - 1.0).abs() < 1e-12, "{name}");
        if let Some(counted) = run.bandwidth_gbps {
            assert!((local.bandwidth_gbps.mean / counted - 1.0).abs() < 1e-12, "{name}");
        }
    }
}

/// Asserts that a forecast agrees exactly with the runs that have a counted bandwidth, and that it
/// may differ from runs without a counted bandwidth.
#[test]
fn runs_without_a_counted_bandwidth_may_be_missed() {
    let platform = platform("gnr120-cz122");
    let all = workload("cloverleaf");
    let miss = |counted: u32| {
        let mut demand = all.clone();
        demand.local.retain(|run| run.series.is_empty());
        let others = demand.local.iter_mut().filter(|run| run.threads > counted);
        others.for_each(|run| run.bandwidth_gbps = None);
        let fits = Forecast::new(&platform, &platform, &demand).fits();
        let misses: Vec<f64> = fits.iter().map(|fit| fit.miss().abs()).collect();
        assert_eq!(misses.len(), demand.local.len());
        let met = demand.local.iter().filter(|run| run.bandwidth_gbps.is_some()).count();
        assert!(misses[..met].iter().all(|miss| *miss < 1e-9), "{misses:?}");
        misses.into_iter().fold(0.0, f64::max)
    };
    assert!(miss(119) < 1e-9);
    assert!(miss(30) > 0.02, "{}", miss(30));
    let fits = Forecast::new(&platform, &platform, &all).fits();
    assert!(fits.iter().all(|fit| fit.miss().abs() < 1e-9), "series b is not compared");
}

#[test]
fn pages_that_do_not_fit_are_never_best() {
    let platform = platform("xeon6-cz122");
    let mut demand = workload("hpcg");
    demand.footprint = Some("1200GiB".parse().unwrap());
    let tried: Vec<Weights> =
        ["1:0", "3:1", "1:1", "0:1"].iter().map(|weights| weights.parse().unwrap()).collect();
    let prediction = Forecast::new(&platform, &platform, &demand).predict(128.0, &tried);
    let too_small: Vec<_> = prediction.rows.iter().map(|row| row.too_small).collect();
    assert_eq!(too_small, [Some(0), Some(0), None, Some(1)]);
    assert_eq!(prediction.best, Some(2));
}

#[test]
fn few_outstanding_lines_leave_bandwidth_unused() {
    let platform = platform("gnr120-cz122");
    let graph = workload("pr");
    assert!(graph.outstanding_lines_per_thread.is_some());
    let cores_alone = Demand { outstanding_lines_per_thread: None, ..graph.clone() };
    let gain = |demand: &Demand| row(&platform, demand, 119.0, "2:1").speedup.mean;
    let (few, many) = (gain(&graph), gain(&cores_alone));
    assert!(few < 1.05 && many > few + 0.05, "{few} and {many}");
    let local = row(&platform, &graph, 119.0, "1:0").bandwidth_gbps.mean;
    let most = platform.tiers[0].curves.answer("cpu", graph.mix).response.max_bandwidth_gbps();
    assert!(local < 0.6 * most, "{local} of {most}");
}

#[test]
fn phases_that_leave_memory_alone_gain_nothing() {
    let platform = platform("gnr120-cz122");
    let even = row(&platform, &workload("lbm"), 119.0, "2:1");
    let mut demand = workload("lbm");
    let phases = "\n[[phase]]\nshare_of_time = 0.5\nbandwidth_gbps = 440.0\n\
                  [[phase]]\nshare_of_time = 0.5\nbandwidth_gbps = 20.0\n";
    let text = fs::read_to_string(root("workloads/lbm.toml")).unwrap() + phases;
    demand.phases = demand_toml::parse("lbm", &text).unwrap().phases;
    let phased = row(&platform, &demand, 119.0, "2:1");
    assert!(phased.speedup.mean > 1.02 && phased.speedup.mean < even.speedup.mean - 0.05);
}

#[test]
fn a_bigger_machine_is_faster() {
    let (small, big) = (platform("gnr120-cz122"), {
        let mut platform = platform("gnr120-cz122");
        let text = fs::read_to_string(root("platforms/gnr120-cz122/dram.csv")).unwrap();
        let doubled: String = text
            .lines()
            .map(|line| {
                let mut cells: Vec<String> = line.split(',').map(String::from).collect();
                if let Ok(bandwidth) = cells[1].parse::<f64>() {
                    cells[1] = (2.0 * bandwidth).to_string();
                }
                cells.join(",") + "\n"
            })
            .collect();
        platform.tiers[0].curves = curve_csv::parse("doubled", &doubled, &["cpu"]).unwrap();
        platform
    });
    let demand = workload("stream");
    let all_local: Weights = "1:0".parse().unwrap();
    let at = |platform: &Platform| {
        let forecast = Forecast::new(platform, &small, &demand);
        forecast.predict(119.0, std::slice::from_ref(&all_local)).rows[0].result.unwrap().mean
    };
    let gain = at(&big) / at(&small);
    assert!(gain > 1.5 && gain <= 2.0, "STREAM on twice the bandwidth: {gain}");
}

/// A file with the columns of the Mess plotter. Its curves include one that bends back, and an
/// outlier.
const MESS: &str = "\
read_pct_rounded,pause,bandwidth_mean,bandwidth_std,rd_percentage_actual_mean,latency_mean,\
latency_std,bandwidth_smooth,latency_smooth,rw_ratio
50,0,60.0,0.1,0.50,560.0,2.0,60.0,560.0,1
50,300,62.0,0.1,0.50,360.0,2.0,62.0,360.0,1
50,1000,45.0,0.1,0.50,289.0,2.0,45.0,289.0,1
50,9000,5.0,0.1,0.50,219.0,2.0,5.0,219.0,1
100,0,51.0,0.1,0.99,900.0,2.0,51.0,900.0,0
100,100,40.0,0.1,0.99,250.0,2.0,40.0,250.0,0
100,200,10.0,0.1,0.99,650.0,2.0,10.0,650.0,0
100,9000,2.0,0.1,0.99,215.0,2.0,2.0,215.0,0
75,0,50.0,0.1,0.75,500.0,2.0,50.0,500.0,0.3
";

#[test]
fn mess_curves() {
    assert!(mess_csv::is_one(MESS) && !mess_csv::is_one("mix,bandwidth_gbps\n"));
    let read = mess_csv::parse("memory_curves.csv", MESS, &mess_csv::measured("a run")).unwrap();
    assert_eq!(read.mixes_left_out, [75]);
    assert_eq!(read.points_left_out, 1);
    let half = read.curves.of(Mix::new(0.5, false).unwrap()).unwrap();
    assert_eq!((half.max_bandwidth_gbps(), half.idle_latency_ns()), (62.0, 219.0));
    let last = half.points().last().unwrap();
    assert_eq!(last.bandwidth_gbps, 60.0, "it bends back");
    assert_eq!(read.curves.of(Mix::READ).unwrap().points().len(), 3);
}

/// A program in two phases: 60 s with all threads, then 30 s with a tenth of the threads. Asserts
/// that the first phase behaves like the original run, and that the first tier alone is the best in
/// the second phase.
#[test]
fn a_run_may_come_and_go() {
    let platform = platform("gnr120-cz122");
    let demand = workload("lbm");
    let plain = Forecast::new(&platform, &platform, &demand).program(119.0);
    let active_phases =
        [ActivePhase { local_s: 60.0, active: 1.0 }, ActivePhase { local_s: 30.0, active: 0.1 }];
    let program = plain.clone().with_active_phases(&platform, &active_phases);
    assert_eq!(program.local_runtime_s, 90.0);
    let [all, few] = program.phases() else { panic!("{:?}", program.phases()) };
    assert!((all.work - 2.0 / 3.0).abs() < 1e-12 && (all.work + few.work - 1.0).abs() < 1e-12);
    assert_eq!(all.local_gbps, plain.phases()[0].local_gbps);
    assert!(few.local_gbps < 0.5 * all.local_gbps, "{} GB/s", few.local_gbps);
    let speed = |program: &Program, phase: usize, first: f64| {
        let load = program.load(phase, 0, vec![first, 1.0 - first]);
        let gbps = solve(&platform, &[load]).loads[0].bandwidth_gbps;
        program.speed(phase, gbps)
    };
    assert_eq!(speed(&program, 0, 0.7), speed(&plain, 0, 0.7));
    assert!(speed(&program, 0, 0.7) > 1.2);
    for phase in [0, 1] {
        let local = speed(&program, phase, 1.0);
        assert!((local - 1.0).abs() < 1e-9, "phase {phase}: {local}");
    }
    assert!(speed(&program, 1, 0.7) < 1.0);
}

/// Threads run on two sockets, with all pages interleaved over both. Asserts that each socket does
/// half of the work, as fast as a socket that runs alone with its own pages.
#[test]
fn threads_are_spread_over_the_domains() {
    let one = platform("gnr120-cz122");
    let mut two = platform("two-sockets");
    two.links.iter_mut().for_each(|link| link.bandwidth_gbps = 1e5);
    let lbm = workload("lbm");
    let at = |platform: &Platform, threads: f64, weights: &str| {
        let forecast = Forecast::new(platform, &one, &lbm);
        forecast.predict(threads, &[weights.parse().unwrap()]).rows.remove(0)
    };
    let (alone, both) = (at(&one, 120.0, "7:3"), at(&two, 240.0, "7:7:3:3"));
    let gain = both.bandwidth_gbps.mean / alone.bandwidth_gbps.mean;
    // The gain should be about two. It may be lower: both platforms have 16 page streams, but those
    // of the platform `two` are divided among four tiers instead of two, so that the tiers are
    // loaded less evenly.
    assert!((1.7..2.02).contains(&gain), "{gain}");
    for (near, far) in [(0, 1), (2, 3)] {
        let [near, far] = [near, far].map(|tier| both.tier_latency_ns[tier]);
        assert!((near / far - 1.0).abs() < 1e-9, "{near} {far}");
    }
    // If threads run on both sockets, the bandwidth must be the same with all pages on either
    // socket.
    let [left, right] = ["1:0:0:0", "0:1:0:0"].map(|weights| at(&two, 240.0, weights));
    assert!((left.bandwidth_gbps.mean / right.bandwidth_gbps.mean - 1.0).abs() < 1e-9);
}

/// Half of the traffic to each tier crosses the link to the tier's socket. Asserts that links of 50
/// GB/s therefore allow 100 GB/s on the tiers of either socket.
#[test]
fn a_link_between_sockets_carries_the_part_of_the_traffic_that_crosses_it() {
    let mut two = platform("two-sockets");
    two.links.iter_mut().for_each(|link| link.bandwidth_gbps = 50.0);
    let mix = |weights: &str| {
        let weights: Weights = weights.parse().unwrap();
        saturating_load(&two, Mix::READ).predict(&two, &[weights]).rows.remove(0)
    };
    for (weights, limit_gbps) in [("1:0:0:0", 100.0), ("1:0:1:0", 100.0), ("1:1:0:0", 200.0)] {
        let gbps = mix(weights).bandwidth_gbps.mean;
        assert!((0.9 * limit_gbps..=1.001 * limit_gbps).contains(&gbps), "{weights}: {gbps}");
    }
}

/// Asserts that the prediction for weights alone equals their prediction together with other
/// weights.
#[test]
fn rows_are_computed_one_by_one_as_together() {
    let platform = platform("gnr120-cz122");
    let demand = workload("lbm");
    let forecast = Forecast::new(&platform, &platform, &demand);
    let weights = Weights::every_ratio(2, 3);
    let at = forecast.at(119.0);
    let backwards: Vec<Row> = weights.iter().rev().map(|weights| at.row(weights)).collect();
    let rows = backwards.into_iter().rev().collect();
    assert_eq!(at.prediction(rows), forecast.predict(119.0, &weights));
}

/// Asserts that the upper bounds of the speed-up hold for all tested weights: with few threads
/// (limited by latency) and with many (limited by bandwidth), with phases and without. A search
/// depends on this, because it skips weights whose upper bound is too low.
#[test]
fn no_speedup_exceeds_its_limit() {
    let measured_on = platform("gnr120-cz122");
    let two = platform("two-sockets");
    let weights = [Weights::every_ratio(4, 1), vec!["3:3:1:1".parse().unwrap()]].concat();
    let phases = "\n[[phase]]\nshare_of_time = 0.5\nbandwidth_gbps = 440.0\n\
                  [[phase]]\nshare_of_time = 0.5\nbandwidth_gbps = 10.0\n";
    let text = fs::read_to_string(root("workloads/lbm.toml")).unwrap() + phases;
    let in_phases = demand_toml::parse("lbm in phases", &text).unwrap();
    for demand in [workload("lbm"), workload("stream"), in_phases] {
        let name = &demand.name;
        let forecast = Forecast::new(&two, &measured_on, &demand);
        for threads in [8.0, 200.0] {
            let at = forecast.at(threads);
            let limits = at.limits();
            for own in &weights {
                let (row, limit) = (at.row(own), limits.at(own));
                let speedup = row.speedup.mean;
                match row.too_small {
                    Some(_) => assert_eq!(limit, None),
                    None => assert!(limit.unwrap() >= speedup * (1.0 - 1e-9), "{name} {own}"),
                }
            }
        }
    }
    let load = saturating_load(&two, Mix::READ);
    let at = load.at(&two);
    for own in &weights {
        let limit = at.limits().at(&own.shares()) / at.local_gbps();
        assert!(limit >= at.row(own).speedup.mean * (1.0 - 1e-9), "{own}");
    }
}
