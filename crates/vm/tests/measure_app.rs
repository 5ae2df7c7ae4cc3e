//! Tests `interleaf measure app` under real kernels with two nodes: the reported placement of a
//! command's pages is exact, and a demand is written only for a run on the first tier.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{self, shown, step},
    outcome::Record,
};
use serde_json::Value;

const PAGE: u64 = 4096;

/// Runs `steps` in a guest and returns its report.
fn guest_record(series: Series, steps: &str) -> Option<Record> {
    harness::guest_record(series, "two-nodes-hmat", steps)
}

/// Returns the document that a step printed, as JSON.
fn document(record: &Record, text: &str) -> Value {
    let lines = shown(record, text).join("\n");
    serde_json::from_str(&lines).unwrap_or_else(|why| panic!("{why}: {record}"))
}

/// Returns the numbers of pages on nodes 0 and 1 in the output of `read /proc/*/numa_maps`: the sum
/// over the mappings whose line contains `with`, in the process that has a mapping with `pages`
/// anonymous pages.
fn pages_of(lines: &[String], pages: u64, with: &str) -> [u64; 2] {
    let path = |line: &str| line.split_once(": ").unwrap().0.to_string();
    let anonymous = format!(" anon={pages} ");
    let owner = path(lines.iter().find(|line| line.contains(&anonymous)).unwrap());
    let of_owner = lines.iter().filter(|line| path(line) == owner && line.contains(with));
    let mut on = [0, 0];
    for word in of_owner.flat_map(|line| line.split_whitespace()) {
        for (node, sum) in on.iter_mut().enumerate() {
            let count = word.strip_prefix(&format!("N{node}="));
            *sum += count.map_or(0, |count| count.parse::<u64>().unwrap());
        }
    }
    on
}

/// The reported placement equals the kernel's counts, page by page. The run continues for 30 s
/// after all pages are touched, because samples may use only a twentieth of the time, and in a slow
/// guest one sample takes more than a second.
fn placement_is_exact(series: Series) {
    let start =
        "start app interleaf measure app --every 50ms -o /tmp/run.json --demand /tmp/d.toml";
    let steps = format!(
        "write /proc/sys/kernel/numa_balancing 0\n\
         {start} -- touch 64MiB --weights 0:3,1:1 --sweep\n\
         await app touched\n\
         sleep 30s\n\
         read /proc/*/numa_maps\n\
         kill app TERM\n\
         wait app\n\
         read /tmp/run.json\n\
         list /tmp\n"
    );
    let Some(record) = guest_record(series, &steps) else { return };
    assert_eq!(step(&record, "wait app").ending, Some(Ending::Exit(128 + 15)), "{record}");
    let app = &document(&record, "read /tmp/run.json")["app"];
    let tiers = app["whole"]["tiers"].as_array().unwrap();
    for (field, with) in [("resident_bytes", " N"), ("anonymous_bytes", " anon=")] {
        let expected = pages_of(shown(&record, "read /proc/*/numa_maps"), 16384, with);
        assert!(expected[0] >= 12288 && expected[1] >= 4096, "{expected:?}\n{record}");
        let pages = [0, 1].map(|tier: usize| tiers[tier][field].as_u64().unwrap() / PAGE);
        assert_eq!(pages, expected, "{field}\n{record}");
    }
    assert_eq!(app["signal"].as_i64(), Some(15));
    assert_eq!(app["tiers"][1]["kind"], "cxl");
    // A quarter of the memory is on the second tier. A demand describes a run with at least 95 % of
    // the memory on the first tier, so no demand is written.
    let output = step(&record, "wait app").output.join("\n");
    assert!(output.contains("no demand is written: only 7"), "{record}");
    assert!(!shown(&record, "list /tmp").contains(&"d.toml".to_string()), "{record}");
}

#[test]
fn placement_is_exact_on_6_12() {
    placement_is_exact(Series::Of(6, 12));
}

#[test]
fn placement_is_exact_on_the_newest() {
    placement_is_exact(Series::Newest);
}

/// A run on the first tier alone gives a demand that `predict` accepts.
#[test]
fn a_demand_of_the_first_tier_is_predicted_for_another_machine() {
    let steps = "start app interleaf measure app --demand /tmp/d.toml \
                 -- touch 64MiB --bind 0 --sweep\n\
                 await app touched\n\
                 sleep 1s\n\
                 kill app INT\n\
                 wait app\n\
                 read /tmp/d.toml\n\
                 run interleaf predict --platform xeon6-cz122 --demand /tmp/d.toml --weights 3:1\n";
    let Some(record) = guest_record(Series::Of(6, 12), steps) else { return };
    assert_eq!(step(&record, "wait app").ending, Some(Ending::Exit(128 + 2)), "{record}");
    let demand = shown(&record, "read /tmp/d.toml").join("\n");
    for line in ["name = \"touch\"", "threads = 1", "read_share_range = [0.5, 1.0]"] {
        assert!(demand.contains(line), "{line}\n{record}");
    }
    let predict = record.steps.last().unwrap();
    let names = predict.output.iter().any(|line| line.starts_with("touch on xeon6"));
    assert!(predict.succeeded() && names, "{record}");
}
