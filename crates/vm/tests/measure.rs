//! Tests `interleaf measure` under real kernels with several nodes. Each page is on the node that
//! the record states, and weights are restored, however the run ends. QEMU's memory has the same
//! speed on all nodes, so the tests check no figure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{guest_record, guest_record_changed, on_each, shown, step, with_all_processors},
    outcome::Record,
};
use serde_json::Value;

const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

/// Options of `interleaf measure`: sizes that are small enough for a guest, and short durations.
const SMALL: &str =
    "--chase 4MiB --buffer 4MiB --duration 30ms --repeat 1 --pages small --isa sse2 -q";

/// Returns steps that read the weights and journals before and after `steps`.
fn with_readings(steps: &str) -> String {
    let reading = format!("read {WEIGHTS}/*\nlist /run/interleaf\n");
    format!("{reading}{steps}\n{reading}")
}

/// Checks that the weights are equal before and after, and that no journal remains.
fn nothing_changed(record: &Record) {
    let reading = format!("read {WEIGHTS}/*");
    let readings: Vec<_> = record.steps.iter().filter(|taken| taken.step == reading).collect();
    let (before, after) = (readings.first().unwrap(), readings.last().unwrap());
    assert_eq!(before.output, after.output, "{record}");
    let journals = record.steps.iter().rfind(|taken| taken.step == "list /run/interleaf").unwrap();
    let left: Vec<&String> =
        journals.output.iter().filter(|name| name.ends_with(".json")).collect();
    assert!(left.is_empty(), "{left:?}\n{record}");
}

/// Returns the document that a step printed, as JSON.
fn document(record: &Record, step: &str) -> Value {
    let text = shown(record, step).join("\n");
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}\n{record}"))
}

/// Returns the points of `document` whose kind is `kind`.
fn points<'a>(document: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = document["points"].as_array().unwrap();
    all.iter().filter(|point| point["kind"] == kind).collect()
}

/// Measures from the CPUs of node 0 to the memory of both nodes. All pages of a measured point are
/// on the memory node that the record states for the point.
fn nodes_are_measured(series: Series) {
    let (file, read) = ("/tmp/matrix.json", "read /tmp/matrix.json");
    let run = format!("run interleaf measure matrix {SMALL} -o {file}");
    let chase = SMALL.replace("--buffer 4MiB ", "");
    let idle = format!("run interleaf measure idle --quick --nodes 1 {chase} --json");
    let buffer = SMALL.replace("--chase 4MiB ", "");
    let bandwidth = format!("run interleaf measure bandwidth --mix W2 --nodes 1 {buffer} --json");
    let steps = with_readings(&format!("{run}\n{read}\n{idle}\n{bandwidth}"));
    let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
    let matrix = document(&record, read);
    assert_eq!(matrix["stopped"], "done", "{record}");
    for kind in ["idle", "bandwidth"] {
        let nodes: Vec<&Value> =
            points(&matrix, kind).iter().map(|point| &point["memory_node"]).collect();
        assert!(nodes.contains(&&Value::from(0)) && nodes.contains(&&Value::from(1)), "{record}");
    }
    for document in [&matrix, &document(&record, &idle), &document(&record, &bandwidth)] {
        for point in document["points"].as_array().unwrap() {
            if point["kind"] == "cache" {
                continue;
            }
            assert_eq!(point["cpu_node"], 0, "node 1 has no CPUs: {record}");
            let pages = point["pages_by_node"].as_object().unwrap();
            let node = point["memory_node"].to_string();
            assert_eq!(pages.keys().collect::<Vec<_>>(), [&node], "{point}\n{record}");
            // In a bandwidth measurement, each thread has a buffer of 4 MiB (1024 pages). A pointer
            // chase has one such buffer.
            let threads = point["threads"].as_u64().unwrap().max(1);
            assert_eq!(pages[&node].as_u64().unwrap(), 1024 * threads, "{point}\n{record}");
        }
    }
    nothing_changed(&record);
}

#[test]
fn nodes_are_measured_on_6_12() {
    nodes_are_measured(Series::Of(6, 12));
}

#[test]
fn nodes_are_measured_on_the_newest() {
    nodes_are_measured(Series::Newest);
}

/// The pages on each node agree with the weights in the record, except for partial rounds of
/// interleaving.
fn weights_are_exact(series: Series, method: &str) {
    let run = format!(
        "run interleaf measure interleave --way {method} --mix R,W10 --weights 1:0,3:1,1:1,0:1 \
         {SMALL} --json"
    );
    let steps = with_readings(&run);
    let record = guest_record_changed(series, "two-nodes-hmat", &steps, &with_all_processors);
    let Some(record) = record else { return };
    let document = document(&record, &run);
    let points = points(&document, "interleave");
    assert_eq!(points.len(), 8, "{record}");
    for point in points {
        let weights: Vec<u64> =
            point["weights"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
        let pages = |node: &str| point["pages_by_node"][node].as_u64().unwrap_or(0);
        let (first, second) = (pages("0"), pages("1"));
        assert_eq!(first + second, 2048, "two threads with 4 MiB each: {point}\n{record}");
        let wanted = 2048 * weights[0] / (weights[0] + weights[1]);
        // Each thread's buffer may begin in the middle of a round of interleaving, so the counts
        // differ by a few pages from the weights.
        assert!(first.abs_diff(wanted) <= 4, "{point}\n{record}");
        assert!(point["off_by"].as_f64().unwrap() < 0.01, "{point}\n{record}");
    }
    assert_eq!(document["best_weights"].as_array().unwrap().len(), 2, "{record}");
    nothing_changed(&record);
}

#[test]
fn the_kernels_weights_are_exact_and_restored() {
    on_each(&[Series::Of(6, 12), Series::Newest], |series| {
        weights_are_exact(series, "kernel");
    });
}

/// Placing pages one by one needs no kernel setting, and works on a kernel without weighted
/// interleaving.
#[test]
fn pages_are_placed_one_by_one() {
    on_each(&[Series::Of(6, 1), Series::Of(6, 17)], |series| {
        weights_are_exact(series, "pages");
    });
}

/// After a signal, the record has the points that were measured before the signal, and the weights
/// are restored.
#[test]
fn a_signal_leaves_a_record_and_no_weights() {
    let start = format!(
        "start it interleaf measure interleave --mix R,W2,W5 --weights 7:2,5:1,4:3 {} \
         --duration 2s -o /tmp/cut.json",
        SMALL.replace("--duration 30ms ", "").replace(" -q", "")
    );
    let read = "read /tmp/cut.json";
    let steps = with_readings(&format!(
        "{start}\nawait it *interleave\nread {WEIGHTS}/node0\nkill it INT\nwait it\n{read}"
    ));
    let Some(record) = guest_record(Series::Of(6, 17), "two-nodes-hmat", &steps) else {
        return;
    };
    assert_eq!(step(&record, "wait it").ending, Some(Ending::Exit(130)), "{record}");
    assert_eq!(shown(&record, &format!("read {WEIGHTS}/node0")), ["7"], "{record}");
    let document = document(&record, read);
    assert_eq!(document["stopped"], "signal", "{record}");
    let count = points(&document, "interleave").len();
    assert!((1..9).contains(&count), "{count}\n{record}");
    nothing_changed(&record);
}

/// A killed `interleaf measure` cannot restore the weights that it changed. The command `interleaf
/// run --restore` restores the weights from the journal.
#[test]
fn settings_of_a_killed_measurement_are_restored() {
    let start = format!(
        "start it interleaf measure interleave --mix R,W2,W5 --weights 7:2 {} --duration 2s",
        SMALL.replace("--duration 30ms ", "").replace(" -q", "")
    );
    let restore = "run interleaf run --restore";
    let steps = with_readings(&format!(
        "{start}\nawait it *interleave\nkill it KILL\nwait it\nread {WEIGHTS}/node0\n{restore}"
    ));
    let Some(record) = guest_record(Series::Of(6, 12), "two-nodes-hmat", &steps) else {
        return;
    };
    assert_eq!(shown(&record, &format!("read {WEIGHTS}/node0")), ["7"], "{record}");
    let restored = shown(&record, restore).join("\n");
    assert!(restored.contains(&format!("restored {WEIGHTS}/node0")), "{record}");
    nothing_changed(&record);
}

/// Invalid requests are rejected with a hint before any setting changes.
#[test]
fn invalid_requests_are_refused() {
    let wrong = [
        ("bandwidth --nodes 5", "\"5\": there is no 5"),
        ("bandwidth --cpu-node 1", "it has no CPUs"),
        ("bandwidth --buffer 900MiB", "is more than node 0 has free"),
        ("idle --pages reserved", "of 2 MiB are needed"),
        ("interleave --weights 4:2:1", "4:2:1 has 3 weights"),
    ];
    let steps: Vec<String> =
        wrong.iter().map(|(words, _)| format!("run interleaf measure {words}")).collect();
    let Some(record) =
        guest_record(Series::Of(6, 17), "two-nodes-hmat", &with_readings(&steps.join("\n")))
    else {
        return;
    };
    for (text, (_, why)) in steps.iter().zip(wrong) {
        let taken = step(&record, text);
        assert_eq!(taken.ending, Some(Ending::Exit(2)), "{text}\n{record}");
        let output = taken.output.join("\n");
        assert!(output.contains(why) && output.contains("hint: "), "{text}\n{record}");
    }
    nothing_changed(&record);
}
