#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use interleaf_linux::{
    machine::{hardware::Hardware, topology::Machine},
    root::Root,
};
use interleaf_model::format::platform_toml;

/// Returns a record without points of a machine with DRAM and an expander.
pub fn record() -> MeasureDocument {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
    let root = Root::captured(folder.join("epyc-cxl"));
    let (machine, hardware) = (Machine::read(&root).unwrap(), Hardware::read(&root).unwrap());
    let machine = MeasuredMachine::new(&machine, &hardware);
    MeasureDocument::new("all", machine, SettingsDocument::default())
}

fn point(kind: PointKind, mix: &str, gbps: f64) -> MeasuredPoint {
    MeasuredPoint {
        kind,
        mix: Some(mix.into()),
        pattern: "sequential".into(),
        threads: 2,
        repeats: 3,
        took_s: 1.0,
        program_gbps: Some(gbps),
        modelled_gbps: Some(gbps),
        memory_node: Some(0),
        ..MeasuredPoint::default()
    }
}

fn loaded(node: u32, gbps: f64, ns: f64) -> MeasuredPoint {
    let memory_node = Some(node);
    MeasuredPoint { memory_node, latency_ns: Some(ns), ..point(PointKind::Loaded, "R", gbps) }
}

fn weighted(kind: PointKind, weights: &[u16], gbps: f64) -> MeasuredPoint {
    let weights = Some(weights.to_vec());
    MeasuredPoint { weights, memory_node: None, ..point(kind, "R", gbps) }
}

#[test]
fn the_best_weights_are_those_with_the_most_bandwidth() {
    let mut record = record();
    // The bandwidths are from Micron's white paper on the expander CZ122, section IV.A, first row.
    for (weights, gbps) in [([1, 0], 556.0), ([2, 1], 590.0), ([3, 1], 690.0), ([0, 1], 205.0)] {
        record.add(weighted(PointKind::Interleave, &weights, gbps));
    }
    let best = &record.best_weights[0];
    assert_eq!((best.weights.as_slice(), best.beyond_spread), (&[3, 1][..], Some(true)));
    assert!((best.gain.unwrap() - 0.241).abs() < 1e-3, "{best:?}");
}

#[test]
fn the_best_weights_move_with_the_load() {
    let mut record = record();
    let curves = [
        (vec![1, 0], [(0.0, 100.0), (500.0, 400.0)]),
        (vec![3, 1], [(0.0, 130.0), (690.0, 350.0)]),
    ];
    for (weights, points) in curves {
        for (gbps, ns) in points {
            let latency_ns = Some(ns);
            record.add(MeasuredPoint { latency_ns, ..weighted(PointKind::Loaded, &weights, gbps) });
        }
    }
    let loads = &record.best_by_load;
    assert_eq!(loads.first().unwrap().weights, [1, 0], "{loads:?}");
    assert_eq!(loads.last().unwrap().weights, [3, 1], "{loads:?}");
    assert_eq!(loads.last().unwrap().first_latency_ns, None, "DRAM alone does not carry it");
    assert!(record.figures().iter().any(|figure| figure.id == "best-weights"));
}

#[test]
fn an_unreliable_point_has_a_reason() {
    let judged = |change: &dyn Fn(&mut MeasuredPoint)| {
        let mut point = point(PointKind::Bandwidth, "R", 20.0);
        change(&mut point);
        point.assess().to_string()
    };
    assert_eq!(judged(&|_| {}), "good");
    assert_eq!(judged(&|point| point.spread = 0.12), "noisy: repeats spread by 12 %");
    let others = judged(&|point| point.contamination.others_cpus = 0.5);
    assert_eq!(others, "noisy: others kept 0.5 CPUs busy");
    assert!(judged(&|point| point.contamination.stolen_cpus = 0.5).contains("the host took"));
    assert!(judged(&|point| point.off_by = Some(0.1)).contains("pages are elsewhere"));
    let change = |point: &mut MeasuredPoint| point.contamination.frequency_change = Some(0.2);
    assert!(judged(&change).contains("the frequency changed by 20 %"));
    assert_eq!(judged(&|point| point.cacheable_share = Some(0.25)), "good");
    let cached = judged(&|point| point.cacheable_share = Some(0.8));
    assert_eq!(cached, "noisy: the last-level cache can hold 80 % of the memory");
    let cached = judged(&|point| point.cacheable_share = Some(1.0));
    assert!(cached.ends_with("can hold all of the memory"), "{cached}");
}

#[test]
fn a_record_is_noisy_where_many_points_are() {
    let mut record = record();
    for at in 0..10 {
        let spread = if at < 1 { 0.2 } else { 0.0 };
        record.add(MeasuredPoint { spread, ..point(PointKind::Bandwidth, "R", 1.0) });
    }
    assert_eq!(record.quality, Quality::Good, "one of ten");
    record.add(MeasuredPoint { spread: 0.2, ..point(PointKind::Bandwidth, "R", 1.0) });
    assert!(record.quality.to_string().starts_with("noisy: 2 of 11"), "{}", record.quality);
}

#[test]
fn a_record_becomes_a_platform() {
    let mut record = record();
    for (node, scale) in [(0, 1.0), (1, 0.4)] {
        for (gbps, ns) in [(0.0, 120.0), (200.0, 140.0), (300.0, 250.0), (290.0, 200.0)] {
            record.add(loaded(node, scale * gbps, ns / scale));
        }
    }
    record.add(point(PointKind::Bandwidth, "W2", 250.0));
    let exported = platform::platform(&record, "mine", "mine.json").unwrap();
    let files = |name: &str| {
        let found = exported.curves.iter().find(|(file, _)| name == format!("mine{file}"));
        found.map(|(_, text)| text.clone()).ok_or_else(|| name.to_string())
    };
    let platform = platform_toml::parse("mine.toml", &exported.toml, &files).unwrap();
    let names: Vec<&str> = platform.tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(names, ["node0", "node1"], "the faster one first");
    let max = |tier: usize, mix: &str| {
        let mix = mix.parse().unwrap();
        let found = platform.tiers[tier].curves.iter().find(|curve| curve.mix == mix).unwrap();
        found.curve.max_bandwidth_gbps()
    };
    assert_eq!((max(0, "R"), max(1, "R"), max(0, "W2")), (300.0, 120.0, 250.0));
    // For the mix W2, only the maximum bandwidth on node 0 was measured. So a point of the mix's
    // curve is assumed, and the file of the first tier says so.
    assert!(exported.curves[0].1.contains("assumed") && !exported.curves[1].1.contains("assumed"));
    record.points.clear();
    assert!(platform::platform(&record, "mine", "mine.json").unwrap_err().contains("no curve"));
}

/// The first point of a loaded-latency curve is a pointer chase without load. Other programs
/// disturbed it in this record: its latency is 441 ns, above the 150 ns of the points with load.
/// The exported platform must not have this point.
#[test]
fn a_disturbed_point_does_not_become_the_latency_of_a_platform() {
    let mut record = record();
    for (gbps, ns) in [(0.145, 441.0), (1.0, 150.0), (4.0, 152.0), (8.0, 160.0), (10.0, 210.0)] {
        record.add(loaded(0, gbps, ns));
    }
    let exported = platform::platform(&record, "mine", "mine.json").unwrap();
    assert!(!exported.curves[0].1.contains("441"), "{}", exported.curves[0].1);
    assert!(exported.toml.contains("# node 0, R: 1 of 5 points are left out"), "{}", exported.toml);
    let files = |_: &str| Ok::<_, String>(exported.curves[0].1.clone());
    let platform = platform_toml::parse("mine.toml", &exported.toml, &files).unwrap();
    let curve = &platform.tiers[0].curves.iter().next().unwrap().curve;
    assert_eq!(curve.idle_latency_ns(), 150.0);
}

#[test]
fn a_document_round_trips() {
    let mut record = record();
    record.add(loaded(0, 1.0, 100.0));
    record.add(weighted(PointKind::Interleave, &[3, 1], 5.0));
    let text = crate::json(&record);
    assert_eq!(serde_json::from_str::<MeasureDocument>(&text).unwrap(), record);
    for figure in record.figures() {
        assert!(figure.series.iter().all(|series| series.x.len() == series.y.len()));
    }
}
