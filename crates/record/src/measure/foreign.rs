//! Reads and writes measurements of other tools: the output of Intel's Memory Latency Checker (MLC)
//! and the curves of the Mess benchmark.
//!
//! Both tools report the bandwidth at the memory controller. The bandwidth of the program follows
//! from the mix, because an ordinary store first reads its line: at the mix 2:1, the controller
//! moves 210 GB/s for 140 GB/s of the program. A non-temporal store does not read its line.

use super::{
    MeasureDocument, MeasureStop, MeasuredMachine, MeasuredPoint, PointKind, Quality,
    SettingsDocument,
    platform::{controller_gbps, mix},
};
use crate::{rounded, show_machine::MachineNode};
use interleaf_linux::machine::id_list::IdList;
use interleaf_model::{
    format::{FileError, mess_csv, mlc_text},
    mix::Mix,
};
use mess_csv::MessPoint;
use mlc_text::{LoadRow, Matrix, MaxBandwidth, Mlc, MlcTable, TRAFFIC};
use std::collections::BTreeSet;

/// The quality of a point that another tool measured. The quality cannot be assessed, because the
/// outputs of MLC and Mess have no spread of repetitions.
const QUALITY_UNKNOWN: &str = "unknown: another tool measured it";

/// Parses the output of Intel MLC or of the Mess benchmark. Returns `None` for any other text.
///
/// # Errors
/// When the text is one of the two, but a line of it cannot be parsed.
pub fn read(name: &str, text: &str) -> Option<Result<MeasureDocument, FileError>> {
    if mess_csv::is_one(text) {
        let figure = mess_csv::measured(name);
        return Some(mess_csv::parse(name, text, &figure).map(|read| from_mess(name, &read)));
    }
    mlc_text::is_one(text).then(|| mlc_text::parse(name, text).map(|mlc| from_mlc(name, &mlc)))
}

fn from_mess(name: &str, read: &mess_csv::MessCurves) -> MeasureDocument {
    let mut points = vec![];
    for curve in read.curves.iter() {
        let share = (100.0 * curve.mix.read_share()).round();
        points.extend(curve.curve.points().iter().map(|point| MeasuredPoint {
            mix: Some(if share == 100.0 { "R".into() } else { format!("{share}%") }),
            latency_ns: Some(point.latency_ns),
            // Mess takes the bandwidth from the counters of the memory controllers, so it is
            // measured.
            measured_gbps: Some(point.bandwidth_gbps),
            ..traffic_point(PointKind::Loaded, (0, 0), curve.mix, point.bandwidth_gbps)
        }));
    }
    let source = format!("the Mess benchmark's {name}");
    let mut record = record(&source, &[(0, true)], points);
    if read.points_left_out > 0 {
        let left_out = read.points_left_out;
        record.notes.push(format!("{left_out} points are left out: noise put them in the way"));
    }
    for percent in &read.mixes_left_out {
        record.notes.push(format!("{percent} % reads are left out: too few points for a curve"));
    }
    record
}

fn from_mlc(name: &str, mlc: &Mlc) -> MeasureDocument {
    let mut points = vec![];
    let idle = |place, ns: f64| MeasuredPoint {
        pattern: "random".into(),
        latency_ns: Some(ns),
        ..point_at(PointKind::Idle, place)
    };
    match &mlc.latency {
        Some(matrix) => points.extend(pairs(matrix).map(|(place, ns)| idle(place, ns))),
        None => points.extend(mlc.idle_ns.map(|ns| idle((0, 0), ns))),
    }
    let matrices = || mlc.latency.iter().chain(&mlc.bandwidth);
    let with_cpus: BTreeSet<u32> =
        matrices().flat_map(|matrix| matrix.rows.iter().map(|(node, _)| *node)).collect();
    let has_cpu_nodes = !with_cpus.is_empty();
    let with_cpus = if has_cpu_nodes { with_cpus } else { BTreeSet::from([0]) };
    // MLC reports the bandwidth of the whole system, but a point of a record has the bandwidth of
    // the CPUs of one node. So divide the bandwidth evenly among the nodes with CPUs.
    let of_system = with_cpus.len() as f64;
    let whole = |kind, mix, mbps: f64| {
        let gbps = mbps / 1000.0 / of_system;
        let of_node = move |node: &u32| traffic_point(kind, (*node, *node), mix, gbps);
        with_cpus.iter().map(of_node)
    };
    for MaxBandwidth { traffic, mbps } in &mlc.most {
        let Some(mix) = Mlc::mix(traffic) else { continue };
        points.extend(whole(PointKind::Bandwidth, mix, *mbps));
    }
    let reads =
        |(place, mbps)| traffic_point(PointKind::Bandwidth, place, Mix::READ, mbps / 1000.0);
    points.extend(mlc.bandwidth.iter().flat_map(pairs).map(reads));
    for MlcTable { traffic, rows } in &mlc.loaded {
        let mix = Mlc::mix(traffic).unwrap_or(Mix::READ);
        // A table of MLC begins with the highest load, and a record with the lowest, so reverse the
        // rows. MLC's delays are in cycles, so leave them out of the points.
        for row in rows.iter().rev() {
            let latency_ns = Some(row.latency_ns);
            let of_nodes = whole(PointKind::Loaded, mix, row.mbps);
            points.extend(of_nodes.map(|point| MeasuredPoint { latency_ns, ..point }));
        }
    }
    let memory = matrices().flat_map(|matrix| matrix.memory.iter().copied());
    let all: BTreeSet<u32> = memory.chain(with_cpus.iter().copied()).collect();
    let nodes: Vec<(u32, bool)> =
        all.into_iter().map(|node| (node, with_cpus.contains(&node))).collect();
    let has_whole = !mlc.most.is_empty() || !mlc.loaded.is_empty();
    let mut record = record(&format!("MLC's {name}"), &nodes, points);
    if has_whole && with_cpus.len() > 1 {
        let list: IdList = with_cpus.iter().copied().collect();
        record.notes.push(format!(
            "MLC gives the bandwidth of the whole system: it is divided evenly among nodes {list}, \
             each with its own memory"
        ));
    } else if has_whole && !has_cpu_nodes {
        record.notes.push(
            "MLC gives the bandwidth of the whole system, and the text does not say how many \
             sockets it has: all of it is given to node 0, which is right for one socket; the \
             output of mlc without options has them"
                .into(),
        );
    }
    record
}

/// Returns the values of a matrix of MLC, as pairs of ((CPU node, memory node), value).
fn pairs(matrix: &Matrix) -> impl Iterator<Item = ((u32, u32), f64)> {
    matrix.rows.iter().flat_map(|(cpu, figures)| {
        let of = matrix.memory.iter().zip(figures);
        of.filter_map(|(memory, figure)| Some(((*cpu, *memory), (*figure)?)))
    })
}

fn point_at(kind: PointKind, (cpu, memory): (u32, u32)) -> MeasuredPoint {
    MeasuredPoint {
        kind,
        cpu_node: cpu,
        memory_node: Some(memory),
        nodes: vec![memory],
        pattern: "sequential".into(),
        ..MeasuredPoint::default()
    }
}

fn traffic_point(kind: PointKind, place: (u32, u32), mix: Mix, gbps: f64) -> MeasuredPoint {
    let read_share = mix.read_share();
    // An ordinary store first reads its line into the cache (write-allocate), and the program does
    // not count this read. These reads have as many bytes as the writes: at the read share r, the
    // fraction 1 - r of the traffic. So the program counts the fraction r. A non-temporal store
    // causes no such read.
    let part = if mix.nontemporal() { 1.0 } else { read_share };
    MeasuredPoint {
        mix: Some(mix.to_string()),
        read_share: Some(rounded(read_share)),
        program_gbps: Some(rounded(gbps * part)),
        modelled_gbps: Some(rounded(gbps)),
        ..point_at(kind, place)
    }
}

/// Returns a record of a machine of which only the nodes are known. `nodes` are pairs of (node,
/// true if it has CPUs).
fn record(source: &str, nodes: &[(u32, bool)], points: Vec<MeasuredPoint>) -> MeasureDocument {
    let node = |(node, has_cpus): &(u32, bool)| MachineNode {
        node: *node,
        cpus: if *has_cpus { "unknown CPUs".into() } else { String::new() },
        ..MachineNode::default()
    };
    let nodes = nodes.iter().map(node).collect();
    let machine = MeasuredMachine { nodes, ..MeasuredMachine::default() };
    let mut record = MeasureDocument::new("all", machine, SettingsDocument::default());
    for point in points {
        record.add(point);
    }
    for point in &mut record.points {
        point.quality = Quality::Unassessed(QUALITY_UNKNOWN.into());
    }
    record.quality = Quality::Unassessed(QUALITY_UNKNOWN.into());
    record.notes.push(format!("read from {source}"));
    record.source = Some(source.into());
    record.stop(MeasureStop::Done, "it was measured by another tool");
    record
}

/// Returns the loaded-latency curves of the record's first memory node, in the format of Mess.
///
/// # Errors
/// When the record has no curve of reads or of ordinary stores. The format of Mess has no
/// non-temporal stores.
pub fn mess(record: &MeasureDocument) -> Result<String, String> {
    let node = first_node(record);
    let point = |point: &&MeasuredPoint| {
        let share = point.read_share?;
        let stores_pass = share < 1.0 && mix(point).is_some_and(Mix::nontemporal);
        if point.weights.is_some() || point.memory_node != node || stores_pass {
            return None;
        }
        let (bandwidth_gbps, latency_ns) = (controller_gbps(point)?, point.latency_ns?);
        Some(MessPoint {
            read_percent: (100.0 * share).round() as u32,
            pause: point.delay_ns.unwrap_or(f64::from(u32::MAX)),
            bandwidth_gbps,
            bandwidth_apart_gbps: 0.0,
            latency_ns,
            latency_apart_ns: rounded(latency_ns * point.spread),
        })
    };
    let points: Vec<MessPoint> = record.loaded().iter().filter_map(point).collect();
    if points.is_empty() {
        return Err("the record has no curve with ordinary stores".into());
    }
    Ok(mess_csv::text(&points))
}

/// Returns the record in the format of MLC's output. The delays are in ns, because a record does
/// not have MLC's delays in cycles.
///
/// # Errors
/// When the record has no point of a kind that MLC's output has.
pub fn mlc(record: &MeasureDocument) -> Result<String, String> {
    let idle = record.points_of_kind(PointKind::Idle).filter(|point| point.pattern == "random");
    let reads =
        record.points_of_kind(PointKind::Bandwidth).filter(|point| mix(point) == Some(Mix::READ));
    let node = first_node(record);
    let own = |point: &&MeasuredPoint| point.memory_node == node;
    let systems = nodes_of_system(record);
    let most = TRAFFIC.iter().filter_map(|(theirs, ours)| {
        let wanted = ours.parse().ok();
        let mut points = record.points_of_kind(PointKind::Bandwidth).filter(own);
        let gbps = controller_gbps(points.find(|point| mix(point) == wanted)?)?;
        Some(MaxBandwidth { traffic: (*theirs).into(), mbps: gbps * 1000.0 * systems })
    });
    let mlc = Mlc {
        idle_ns: None,
        latency: matrix(idle, |point| point.latency_ns),
        most: most.collect(),
        bandwidth: matrix(reads, |point| Some(controller_gbps(point)? * 1000.0)),
        loaded: tables(record, node),
    };
    if mlc == Mlc::default() {
        return Err("the record has nothing that MLC prints".into());
    }
    Ok(mlc_text::text(&mlc, 1.0))
}

/// Returns the number of nodes among which [`read`] divided the bandwidth of the whole system. It
/// is 1 for a record of Interleaf, whose points have the bandwidth of one node's CPUs.
fn nodes_of_system(record: &MeasureDocument) -> f64 {
    if record.source.is_none() {
        return 1.0;
    }
    record.machine.nodes.iter().filter(|node| !node.cpus.is_empty()).count().max(1) as f64
}

fn tables(record: &MeasureDocument, node: Option<u32>) -> Vec<MlcTable> {
    let systems = nodes_of_system(record);
    let mut tables: Vec<MlcTable> = vec![];
    let loaded = record.loaded();
    let of_node = |point: &&&MeasuredPoint| point.memory_node == node && point.weights.is_none();
    for point in loaded.iter().filter(of_node) {
        let (Some(mix), Some(gbps), Some(ns)) =
            (mix(point), controller_gbps(point), point.latency_ns)
        else {
            continue;
        };
        let traffic = if mix == Mix::READ { "Read-only".into() } else { mix.to_string() };
        // Each row of MLC's table needs a delay. The point without load in a record of Interleaf
        // gets the longest delay. Records of other tools have no delays, so all of their points get
        // 0.
        let none = if record.source.is_some() { 0 } else { DELAY_MAX };
        let delay = point.delay_ns.unwrap_or(f64::from(none)).min(f64::from(DELAY_MAX));
        let row = LoadRow { delay: delay as u32, latency_ns: ns, mbps: gbps * 1000.0 * systems };
        match tables.iter_mut().find(|table| table.traffic == traffic) {
            Some(table) => table.rows.insert(0, row),
            None => tables.push(MlcTable { traffic, rows: vec![row] }),
        }
    }
    tables
}

/// The longest delay, ns, in a table of loaded latencies in MLC's format. The first column of the
/// table has five digits.
const DELAY_MAX: u32 = 99_999;

fn matrix<'a>(
    points: impl Iterator<Item = &'a MeasuredPoint>,
    figure: impl Fn(&MeasuredPoint) -> Option<f64>,
) -> Option<Matrix> {
    let mut cells: Vec<(u32, u32, f64)> = vec![];
    for point in points {
        let (Some(memory), Some(figure)) = (point.memory_node, figure(point)) else { continue };
        let known = cells.iter().any(|cell| (cell.0, cell.1) == (point.cpu_node, memory));
        if !known {
            cells.push((point.cpu_node, memory, figure));
        }
    }
    let sorted = |mut nodes: Vec<u32>| {
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    };
    let memory = sorted(cells.iter().map(|cell| cell.1).collect());
    let cpus = sorted(cells.iter().map(|cell| cell.0).collect());
    let cell = |cpu: u32, memory: u32| {
        cells.iter().find(|cell| (cell.0, cell.1) == (cpu, memory)).map(|cell| cell.2)
    };
    let row = |cpu: &u32| (*cpu, memory.iter().map(|memory| cell(*cpu, *memory)).collect());
    let rows: Vec<_> = cpus.iter().map(row).collect();
    (!rows.is_empty()).then_some(Matrix { memory, rows })
}

/// Returns the memory node of the first point that has one, or `None` if no point does.
fn first_node(record: &MeasureDocument) -> Option<u32> {
    record.points.iter().find_map(|point| point.memory_node)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const MLC: &str = "\
Intel(R) Memory Latency Checker - v3.11
Measuring idle latencies for random access (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t
       0\t  80.9\t 139.2\t

ALL Reads        :\t225630.8\t
2:1 Reads-Writes :\t210000.0\t
Measuring Loaded Latencies for the system
Using Read-only traffic type
Inject\tLatency\tBandwidth
Delay\t(ns)\tMB/sec
==========================
 00000\t260.93\t 225410.2
 00500\t 95.00\t  20000.0
";

    #[test]
    fn output_of_mlc_becomes_a_record_and_back() {
        let record = read("mlc.txt", MLC).unwrap().unwrap();
        let kinds: Vec<(PointKind, Option<u32>)> =
            record.points.iter().map(|it| (it.kind, it.memory_node)).collect();
        let expected = [PointKind::Idle, PointKind::Bandwidth, PointKind::Loaded].map(|it| [it; 2]);
        let expected = expected.concat();
        assert_eq!(kinds.iter().map(|it| it.0).collect::<Vec<_>>(), expected);
        assert_eq!(kinds[1].1, Some(1));
        // At the mix 2:1, the memory controller reads two lines for each line that it writes. The
        // program loads one line and stores one: the other line is read for the store.
        let mixed = &record.points[3];
        assert_eq!((mixed.modelled_gbps, mixed.program_gbps), (Some(210.0), Some(140.0)));
        assert_eq!(record.loaded()[0].latency_ns, Some(95.0), "the lowest load is first");
        let text = mlc(&record).unwrap();
        let again = read("again.txt", &text).unwrap().unwrap();
        let bare = |record: &MeasureDocument| {
            let of = |it: &MeasuredPoint| (it.kind, it.modelled_gbps, it.latency_ns);
            record.points.iter().map(of).collect::<Vec<_>>()
        };
        let also: Vec<_> =
            bare(&again).into_iter().filter(|it| !bare(&record).contains(it)).collect();
        assert!(also.is_empty(), "{also:?}");
    }

    #[test]
    fn the_bandwidth_of_two_sockets_is_divided_among_them() {
        let row = "       0\t  80.9\t 139.2\t\n";
        let two = MLC.replace(row, &format!("{row}       1\t 139.4\t  81.1\t\n"));
        let record = read("mlc.txt", &two).unwrap().unwrap();
        let found: Vec<(u32, Option<u32>, Option<f64>)> = record
            .points_of_kind(PointKind::Loaded)
            .map(|point| (point.cpu_node, point.memory_node, point.modelled_gbps))
            .collect();
        let of = |node: u32, gbps: f64| (node, Some(node), Some(gbps));
        assert_eq!(found, [of(0, 10.0), of(1, 10.0), of(0, 112.705), of(1, 112.705)]);
        let of_node = |node: u32| {
            let points = record.points_of_kind(PointKind::Bandwidth);
            points.filter(|it| it.memory_node == Some(node)).count()
        };
        assert_eq!((of_node(0), of_node(1)), (2, 2));
        assert!(record.notes.iter().any(|note| note.contains("nodes 0-1")), "{:?}", record.notes);
        // The platform has a tier for each node. The bandwidth in MLC's format is that of all
        // nodes: `mlc` multiplies the bandwidth of a node by 2, the number of nodes with CPUs.
        let exported = super::super::platform::platform(&record, "two", "mlc.txt").unwrap();
        assert_eq!(exported.curves.len(), 2);
        // The output of MLC has neither the number of cores nor the capacities.
        let assumed = ["cores", "outstanding_lines_per_core"].map(String::from).to_vec();
        let capacities = ["the capacity of node0", "the capacity of node1"].map(String::from);
        assert_eq!(exported.assumed, [assumed, capacities.to_vec()].concat());
        assert!(exported.toml.contains("cores = 1 # assumed"), "{}", exported.toml);
        assert!(exported.toml.contains("capacity = \"1TiB\" # assumed"), "{}", exported.toml);
        let text = mlc(&record).unwrap();
        assert!(text.contains("260.93\t 225410.0") && text.contains(":\t225630.0"), "{text}");
        // Without its matrices, the output of MLC does not show the number of nodes. A note of the
        // record says so.
        let (_, table) = MLC.split_once("ALL Reads").unwrap();
        let record = read("mlc.txt", &format!("ALL Reads{table}")).unwrap().unwrap();
        assert!(record.notes.iter().any(|note| note.contains("does not say")));
    }

    #[test]
    fn curves_go_to_mess_and_back() {
        let record = read("mlc.txt", &MLC.replace(" 00500", " 00300\t 99.00\t  90000.0\n 00500"));
        let text = mess(&record.unwrap().unwrap()).unwrap();
        let again = read("memory_curves.csv", &text).unwrap().unwrap();
        let points: Vec<_> =
            again.loaded().iter().map(|it| (it.measured_gbps, it.latency_ns)).collect();
        let expected = [(20.0, 95.0), (90.0, 99.0), (225.41, 260.93)];
        assert_eq!(points, expected.map(|(gbps, ns)| (Some(gbps), Some(ns))));
    }

    #[test]
    fn other_texts_are_none() {
        assert!(read("a.json", "{}").is_none() && read("a.csv", "a,b\n1,2\n").is_none());
        let why = read("mlc.txt", &MLC.replace("260.93", "fast")).unwrap().unwrap_err();
        assert!(why.to_string().contains("fast"), "{why}");
    }
}
