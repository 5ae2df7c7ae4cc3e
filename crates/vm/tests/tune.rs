//! Tests `interleaf tune` under real kernels: it finds the best weights of a program whose runtime
//! depends on the placement of its pages, and restores the kernel's settings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{guest_record, shown, step},
    outcome::Record,
};
use serde_json::Value;

const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

const SERIES: [Series; 2] = [Series::Of(6, 12), Series::Of(6, 17)];

/// Runs `steps` in a guest and returns its report. Checks that the weights are the same before and
/// after the steps, and that no journal remains.
fn unchanged(series: Series, steps: &str) -> Option<Record> {
    let reading = format!("read {WEIGHTS}/*");
    let steps = format!("{reading}\n{steps}\n{reading}\nlist /run/interleaf\n");
    let record = guest_record(series, "two-nodes-hmat", &steps)?;
    let readings: Vec<_> = record.steps.iter().filter(|taken| taken.step == reading).collect();
    let [before, after] = &readings[..] else { panic!("{record}") };
    assert_eq!(before, after, "{record}");
    let journals = shown(&record, "list /run/interleaf");
    assert!(!journals.iter().any(|name| name.ends_with(".json")), "{record}");
    Some(record)
}

fn document(record: &Record, file: &str) -> Value {
    serde_json::from_str(&shown(record, &format!("read {file}")).join("\n")).unwrap()
}

/// Returns the program's runtime with the weights that were found, divided by its runtime with 3:1,
/// minus 1. Both runtimes are computed with the program's model.
fn regret(document: &Value) -> f64 {
    let weight = |at: usize| document["best"]["weights"][at].as_f64().unwrap();
    let share = weight(0) / (weight(0) + weight(1));
    f64::max(share / 0.75, (1.0 - share) / 0.25) - 1.0
}

/// The rated bandwidths give 22:9, but the program runs best at 3:1. In at most 8 runs, `tune` must
/// find weights that are within 2 % of the best. The warm-up run loads the program's file into the
/// page cache, because loading it would lengthen the first measured run.
#[test]
fn three_to_one_is_found_by_time() {
    let tune = "run interleaf tune --warm-up 1 -o /tmp/tune.json -- work 32MiB --best 3:1";
    for series in SERIES {
        let steps = format!("{tune}\nread /tmp/tune.json");
        let Some(record) = unchanged(series, &steps) else { return };
        let text = shown(&record, tune).join("\n");
        assert!(text.contains("times the first tier alone"), "{record}");
        let document = document(&record, "/tmp/tune.json");
        assert_eq!(document["proposal"]["weights"], serde_json::json!([22, 9]), "{record}");
        assert!(document["runs"].as_array().unwrap().len() <= 8, "{record}");
        assert!(regret(&document) <= 0.02, "{record}");
        let speedup = document["best"]["speedup"].as_f64().unwrap();
        assert!((speedup - 4.0 / 3.0).abs() < 0.08, "{record}");
    }
}

/// `tune` finds 3:1 by a metric that the program prints. The metric has no noise. With `--json` the
/// document is printed on stdout.
#[test]
fn three_to_one_is_found_by_a_metric() {
    let tune = "run interleaf tune -q --json --metric rate.([0-9.]+) --higher-is-better -- \
                work 32MiB --best 3:1";
    let Some(record) = unchanged(Series::Of(6, 17), tune) else { return };
    let document: Value = serde_json::from_str(&shown(&record, tune).join("\n")).unwrap();
    assert!(regret(&document) <= 0.01, "{record}");
    assert_eq!(document["stopped"], "settled", "{record}");
}

/// `tune` exits with the status 1 if the program is fastest on the first tier.
#[test]
fn no_is_an_answer() {
    let tune = "run interleaf tune -q --metric rate.([0-9.]+) --higher-is-better -- \
                work 16MiB --best 200:1";
    let Some(record) = unchanged(Series::Of(6, 12), tune) else { return };
    let taken = step(&record, tune);
    assert_eq!(taken.ending, Some(Ending::Exit(1)), "{record}");
    assert!(taken.output.join("\n").contains("no weights are better"), "{record}");
}

/// After SIGINT, `tune` exits with 130, and the document has the results so far. A command that
/// fails also ends the search.
#[test]
fn a_signal_stops_the_search() {
    let fails = "run interleaf tune -- touch nonsense";
    let steps = format!(
        "start tune interleaf tune -o /tmp/tune.json -- work 32MiB --best 3:1\n\
         await tune rate\nawait tune rate\nkill tune INT\nwait tune\nread /tmp/tune.json\n{fails}"
    );
    let Some(record) = unchanged(Series::Of(6, 17), &steps) else { return };
    let taken = step(&record, "wait tune");
    assert_eq!(taken.ending, Some(Ending::Exit(130)), "{record}");
    assert!(taken.output.join("\n").contains("so far, "), "{record}");
    let document = document(&record, "/tmp/tune.json");
    assert_eq!(document["stopped"], "signal", "{record}");
    assert!(!document["runs"].as_array().unwrap().is_empty(), "{record}");
    let failed = step(&record, fails);
    assert_eq!(failed.ending, Some(Ending::Exit(2)), "{record}");
    let text = failed.output.join("\n");
    assert!(text.contains("touch ended with status 1 under 1:0:"), "{record}");
    assert!(text.contains("touch: no size"), "{record}");
}
