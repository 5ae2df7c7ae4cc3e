//! Tests of the reproductions of published studies. A row of a study compares a computed figure
//! with the published figure. The errors of the rows must stay within limits. Limits may be
//! tightened, and never widened.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex, OnceLock},
};

fn interleaf(arguments: &[&str]) -> String {
    interleaf_on(None, arguments)
}

/// Runs `interleaf` on `threads` threads. `None` means one thread per processor.
fn interleaf_on(threads: Option<u32>, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.args(arguments);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The studies that are computed so far, by name. A study takes seconds, and several tests use the
/// same study.
static STUDIES: Mutex<BTreeMap<String, Arc<OnceLock<Value>>>> = Mutex::new(BTreeMap::new());

/// Returns the study `name`. The first call computes it.
fn study(name: &str) -> Value {
    let study = Arc::clone(STUDIES.lock().unwrap().entry(name.into()).or_default());
    study.get_or_init(|| computed(name)).clone()
}

fn computed(name: &str) -> Value {
    let document: Value =
        serde_json::from_str(&interleaf(&["reproduce", name, "--predicted", "--json"])).unwrap();
    assert_eq!(document["schema"], "interleaf.reproduce/1");
    let study = document["studies"][0].clone();
    for row in study["rows"].as_array().unwrap() {
        let noted = row["note"].as_str().is_some_and(|note| !note.is_empty());
        assert_eq!(row["error"].is_null(), row["published"].is_null(), "{row}");
        let off = row["error"].as_f64().unwrap_or(1.0).abs();
        assert!(off <= 0.05 || noted, "it does not say why it is off, or that none knows: {row}");
    }
    study
}

/// Returns the errors of the rows of a study for which `chosen` is true, as (mean absolute error,
/// maximum absolute error, number of rows).
fn errors(study: &Value, chosen: impl Fn(&Value) -> bool) -> (f64, f64, usize) {
    let rows = study["rows"].as_array().unwrap().iter().filter(|row| chosen(row));
    let errors: Vec<f64> = rows.map(|row| row["error"].as_f64().unwrap().abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (mean, errors.iter().copied().fold(0.0, f64::max), errors.len())
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap()
}

fn is_coverage(row: &Value) -> bool {
    text(row, "section") == "coverage of the 90 % interval"
}

#[test]
fn intervals_cover_what_they_say() {
    for (name, rows) in [("cxl-interleaving", 1), ("gnr120-interleaving", 2)] {
        let study = study(name);
        // The coverage is the fraction of the published values that are within their 90 %
        // intervals. The error of the coverage's row is its distance from the range 0.86 to 0.94.
        // The coverage stays within this range if any one workload is left out.
        let coverage = errors(&study, is_coverage);
        assert!(coverage.1 <= 0.02 && coverage.2 == rows, "{name}: {coverage:?}");
        let left_out = errors(&study, |row| text(row, "what").ends_with("workload left out"));
        assert!(left_out.1 == 0.0 || left_out.2 == 0, "{name}: {left_out:?}");
    }
}

/// Two kinds of rows do not count in the errors of their study: a row whose figure another row has
/// in another unit (a result and its speed-up), and a row whose figure the study did not publish
/// (the coverage of intervals).
#[test]
fn repeated_figures_are_counted_once() {
    let study = study("cxl-interleaving");
    let rows = study["rows"].as_array().unwrap();
    let of_speedup = |row: &&Value| text(row, "what").ends_with("speed-up");
    for row in rows.iter().filter(of_speedup) {
        let result = text(row, "what").trim_end_matches(", speed-up");
        let result = rows.iter().find(|row| text(row, "what") == result).unwrap();
        assert_eq!(
            (&result["uncounted"], &row["uncounted"]),
            (&true.into(), &Value::Null),
            "{row}"
        );
    }
    let coverage = rows.iter().find(|row| is_coverage(row)).unwrap();
    assert_eq!(coverage["uncounted"], true);
    let (mean, most, _) =
        errors(&study, |row| row["used_for_fit"] == false && row["uncounted"] == Value::Null);
    let stated = ["mean_abs_error", "max_abs_error"].map(|field| study[field].as_f64().unwrap());
    assert!((mean - stated[0]).abs() < 1e-6 && (most - stated[1]).abs() < 1e-6, "{stated:?}");
}

#[test]
fn cxl_interleaving() {
    let study = study("cxl-interleaving");
    let of_one_tier =
        |row: &Value| text(row, "what").ends_with("1:0") || text(row, "what").ends_with("0:1");

    let mixed =
        errors(&study, |row| text(row, "section") == "MLC (section IV.A)" && !of_one_tier(row));
    assert!(mixed.2 == 20 && mixed.0 <= 0.0205 && mixed.1 <= 0.0475, "mixed points: {mixed:?}");

    let left_out = errors(&study, |row| text(row, "section") == "MLC, mix left out of the fit");
    assert!(left_out.2 == 20 && left_out.0 <= 0.0245 && left_out.1 <= 0.0495, "{left_out:?}");

    let tiers = errors(&study, |row| text(row, "section") == "tiers (section III)");
    assert!(tiers.2 == 10 && tiers.1 <= 0.001, "tiers alone: {tiers:?}");

    let best = errors(&study, |row| text(row, "section") == "best weights (section IV.A)");
    assert!(best.2 == 4 && best.1 <= 0.0115, "best weights: {best:?}");

    let figure_4 = errors(&study, |row| text(row, "section") == "figure 4");
    assert!(figure_4.2 == 2 && figure_4.1 == 0.0, "figure 4: {figure_4:?}");

    // The model does not explain the speed-up of xcompact3d at weights of 2:1 (docs/model.md).
    // Assert that this row is still an outlier.
    let is_outlier = |row: &Value| text(row, "what").starts_with("xcompact3d at 2:1");
    let predicted =
        |row: &Value| text(row, "what").ends_with("speed-up") && row["used_for_fit"] == false;
    let speedups = errors(&study, |row| predicted(row) && !is_outlier(row));
    assert!(speedups.2 == 10 && speedups.0 <= 0.0215 && speedups.1 <= 0.047, "{speedups:?}");
    let outlier = errors(&study, |row| predicted(row) && is_outlier(row));
    assert!(outlier.1 > 0.3, "the outlier is explained now, say so in docs/model.md: {outlier:?}");

    let summary = errors(&study, |row| text(row, "section") == "abstract");
    assert!(summary.2 == 3 && summary.1 <= 0.029, "abstract: {summary:?}");
}

#[test]
fn the_platform_file_has_the_constants_that_the_fit_gives() {
    let study = study("cxl-interleaving");
    let constants: Vec<&str> =
        study["fitted_constants"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    for name in ["page streams", "coupling of cxl to dram"] {
        let stated = constants.iter().find_map(|constant| constant.strip_prefix(name));
        let stated = stated.unwrap_or_else(|| panic!("{name} is not among {constants:?}"));
        let numbers = stated
            .strip_prefix(": ")
            .and_then(|rest| rest.split_once(" (platform file: "))
            .and_then(|(fitted, rest)| Some((fitted, rest.split_once(')')?.0)));
        let (fitted, shipped) = numbers.unwrap_or_else(|| panic!("{name}{stated}: two numbers"));
        let [fitted, shipped] = [fitted, shipped].map(|number| number.parse::<f64>().unwrap());
        assert_eq!(fitted, shipped, "{name}{stated}");
        assert!(fitted > 0.0, "{name}{stated}");
    }
}

#[test]
fn cz122() {
    let study = study("cz122");
    let eight = errors(&study, |row| text(row, "section") == "eight expanders");
    assert!(eight.2 == 5 && eight.0 <= 0.0145 && eight.1 <= 0.0205, "eight: {eight:?}");
    let one = errors(&study, |row| text(row, "section") == "one expander");
    assert!(one.2 == 2 && one.1 <= 0.085, "one alone: {one:?}");
}

#[test]
fn gnr120_interleaving() {
    let study = study("gnr120-interleaving");
    let all = errors(&study, |row| !is_coverage(row));
    assert!(all.2 == 48 && all.0 <= 0.021 && all.1 <= 0.068, "{all:?}");
}

#[test]
fn dmi() {
    let study = study("dmi");
    let section = |name: &'static str| move |row: &Value| text(row, "section") == name;
    // The error of the last period is larger, because the placements differ: DRAM has 62 % of the
    // pages in the log of the study's prototype, and 60 % in the simulation.
    let calibrator = errors(&study, section("the calibrator on CloverLeaf"));
    assert!(calibrator.2 == 6 && calibrator.0 <= 0.0262, "{calibrator:?}");
    assert!(calibrator.1 <= 0.063, "{calibrator:?}");
    let rising = errors(&study, |row| {
        section("the calibrator on CloverLeaf")(row) && text(row, "what") != "period 6"
    });
    assert!(rising.2 == 5 && rising.0 <= 0.0188 && rising.1 <= 0.036, "{rising:?}");

    let ends = errors(&study, section("where it ends"));
    assert!(ends.2 == 4 && ends.0 <= 0.102 && ends.1 <= 0.274, "{ends:?}");
    // Leave out the number of periods until convergence: eight in the simulation, and eleven in the
    // prototype.
    let is_count = |row: &Value| text(row, "what").starts_with("periods until");
    let places = errors(&study, |row| section("where it ends")(row) && !is_count(row));
    assert!(places.2 == 3 && places.0 <= 0.044 && places.1 <= 0.072, "{places:?}");

    let shifting = errors(&study, section("shifting demand"));
    assert!(shifting.2 == 2 && shifting.0 <= 0.0185 && shifting.1 <= 0.023, "{shifting:?}");

    // These limits are wide: even the logged runs of the prototype differ by up to 20 % between
    // measurement campaigns.
    let prototype = errors(&study, section("real runs: speed-up of the prototype"));
    assert!(prototype.2 == 16 && prototype.0 <= 0.0515 && prototype.1 <= 0.154, "{prototype:?}");
    // A constant of the model is fitted to these runs of Colloid (docs/model.md).
    let colloid = errors(&study, section("real runs: speed-up of Colloid"));
    assert!(colloid.2 == 17 && colloid.0 <= 0.033 && colloid.1 <= 0.0965, "{colloid:?}");
    let ratio = errors(&study, section("real runs: median ratio of the prototype"));
    assert!(ratio.2 == 16 && ratio.0 <= 0.1285 && ratio.1 <= 0.381, "{ratio:?}");

    let all = errors(&study, |row| !text(row, "section").starts_with("real runs"));
    assert!(all.2 == 12 && all.0 <= 0.05 && all.1 <= 0.274, "{all:?}");
    assert_eq!(study["fitted_constants"].as_array().unwrap().len(), 3);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for arguments in [
        &["reproduce", "gnr120-interleaving", "--json"][..],
        &["predict", "--platform", "gnr120-cz122", "--workload", "lbm", "--json"],
        &["predict", "--platform", "xeon6-cz122", "--mix", "R", "--load", "sweep", "--json"],
        &["predict", "--platform", "two-sockets", "--workload", "lbm", FEW_WEIGHTS, "--json"],
        &["simulate", "dimm", "--device", "mrdimm-8800-2r", "--load", "sweep", SHORT, "--json"],
        &["simulate", "machine", "--scenario", "two-sockets", "--duration", "60s", "--json"],
    ] {
        let one = interleaf_on(Some(1), arguments);
        for threads in [1, 2, 5] {
            assert!(one == interleaf_on(Some(threads), arguments), "{threads}: {arguments:?}");
        }
    }
}

const FEW_WEIGHTS: &str = "--weights=1:0:0:0,1:1:0:0,7:7:3:3,3:3:2:1,1:2:3:4";
const SHORT: &str = "--requests=60000";

#[test]
fn a_report_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, page) = (path("record.json"), path("page.html"));
    interleaf(&["reproduce", "cxl-interleaving", "-o", &record, "--report", &page]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(!html.contains(" src=") && !html.contains("<link "), "it loads something");
    assert!(!html.contains("<script"), "it runs something");
    assert_eq!(html.matches("<figure id=\"cxl-interleaving-").count(), 3);
    // `report` renders the same page from the record alone.
    let again = path("again.html");
    interleaf(&["report", &record, "-o", &again]);
    assert_eq!(html, std::fs::read_to_string(&again).unwrap());
    let csv = interleaf(&["report", &record, "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 114);
    let markdown = interleaf(&["report", &record, "--format", "markdown"]);
    assert!(markdown.starts_with("# Weighted interleaving"));
    for figure in ["mlc", "load", "workloads"] {
        let svg = interleaf(&["report", &record, "--format", "svg", "--figure", figure]);
        assert!(svg.starts_with("<svg") && svg.contains("</svg>"));
    }
}

#[test]
fn the_documented_fields_are_there() {
    let arguments = ["predict", "--platform", "xeon6-cz122", "--workload", "hpcg", "--weights"];
    let document = interleaf(&[&arguments[..], &["1:0,3:1,6:2", "--json"]].concat());
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "interleaf.predict/1");
    let row = &document["rows"][1];
    for field in [
        "weights",
        "tier_share",
        "bandwidth_gbps",
        "tier_bandwidth_gbps",
        "tier_latency_ns",
        "latency_ns",
        "extrapolated",
        "runtime_s",
        "speedup",
    ] {
        assert!(row.get(field).is_some(), "{field}");
    }
    assert_eq!(document["rows"][0]["speedup"], 1.0);
    assert_eq!(document["rows"][2]["weights"].to_string(), "[6,2]", "kept as given");
    assert!(document["best"]["speedup"].as_f64().unwrap() > 1.1);
}

#[test]
fn mrdimm() {
    let study = study("mrdimm");
    let of = |section: &'static str| move |row: &Value| text(row, "section") == section;

    let baseline = errors(&study, of("MLC maxima of the baseline"));
    assert!(baseline.2 == 5 && baseline.0 <= 0.012 && baseline.1 <= 0.022, "{baseline:?}");

    // The published idle latency is a mean, which includes reads that a refresh delays. So the
    // simulated latency is also the mean.
    let idle = errors(&study, |row| text(row, "what").starts_with("idle latency"));
    assert!(idle.2 == 1 && idle.1 <= 0.241, "{idle:?}");
    let fitted = study["fitted_constants"].as_array().unwrap();
    let uncore = fitted.iter().find(|constant| constant.as_str().unwrap().starts_with("65 ns"));
    assert!(uncore.unwrap().as_str().unwrap().contains("median"), "{uncore:?}");

    // The published gains are 38 to 41 %.
    let gains = errors(&study, of("figures 4 to 6"));
    assert!(gains.2 == 3 && gains.1 <= 0.005, "{gains:?}");

    let gen2 = errors(&study, of("Gen 2 (projected)"));
    assert!(gen2.2 == 2 && gen2.1 <= 0.01, "{gen2:?}");

    // The speeds of the applications on MRDIMMs are predicted from their runs on RDIMMs. The errors
    // of 619.lbm_s and PageRank, the largest, are not wholly explained.
    let speeds = errors(&study, of("applications, speed"));
    assert!(speeds.2 == 11 && speeds.0 <= 0.0545 && speeds.1 <= 0.156, "{speeds:?}");
    let bound = |row: &Value| {
        let named = ["OpenFOAM", "POT3D", "Llama", "Milvus"].iter();
        of("applications, speed")(row) && named.clone().any(|it| text(row, "what").starts_with(it))
    };
    let bound = errors(&study, bound);
    assert!(bound.2 == 4 && bound.0 <= 0.03 && bound.1 <= 0.04, "{bound:?}");
    let latency = errors(&study, of("applications, latency of misses"));
    assert!(latency.2 == 3 && latency.0 <= 0.091 && latency.1 <= 0.241, "{latency:?}");
    let energy = errors(&study, of("applications, energy"));
    assert!(energy.2 == 3 && energy.1 <= 0.07, "{energy:?}");

    let outlook = errors(&study, of("outlook"));
    assert!(outlook.2 == 2 && outlook.1 <= 0.03, "{outlook:?}");

    let ours = |what: &str| {
        let rows = study["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| text(row, "what").contains(what)).unwrap();
        row["ours"].as_f64().unwrap()
    };
    let crossover = ours("answers sooner");
    assert!((120.0..=185.0).contains(&crossover), "{crossover}");
    let lead = ours("where RDIMM saturates");
    assert!((0.35..=0.48).contains(&lead), "{lead}");
    for (what, published) in [
        ("at high load, MRDIMM", 0.80),
        ("at high load, RDIMM", 0.50),
        ("over all loads, MRDIMM", 0.80),
        ("over all loads, RDIMM", 0.53),
    ] {
        let part = ours(what);
        assert!((part - published).abs() <= 0.05, "{what}: {part}");
    }
}

#[test]
fn servers() {
    let study = study("servers");
    let of = |name: &'static str| errors(&study, move |row| text(row, "section") == name);
    let two = of("sapphire-rapids-2r, maxima");
    assert!(two.2 == 12 && two.0 <= 0.04 && two.1 <= 0.08, "{two:?}");
    let one = of("sapphire-rapids-1r, maxima");
    assert!(one.2 == 2 && one.0 <= 0.045 && one.1 <= 0.08, "{one:?}");
    for (name, rows) in
        [("sapphire-rapids-2r, latencies", 48), ("sapphire-rapids-1r, latencies", 8)]
    {
        let latencies = of(name);
        assert!(latencies.2 == rows && latencies.0 <= 0.06, "{name}: {latencies:?}");
    }
    let idle = [
        ("sapphire-rapids-2r", 12, 0.045),
        ("sapphire-rapids-1r", 2, 0.054),
        ("zen2", 10, 0.03),
        ("cascade-lake", 13, 0.135),
    ];
    for (server, rows, mean) in idle {
        let section = format!("{server}, latency without load");
        let idle = errors(&study, |row| text(row, "section") == section);
        assert!(idle.2 == rows && idle.0 <= mean, "{section}: {idle:?}");
    }
    for name in
        ["cascade-lake, maxima", "cascade-lake, latencies", "zen2, maxima", "zen2, latencies"]
    {
        let own = of(name);
        assert!(own.0 <= 0.06, "{name}: {own:?}");
    }
}

/// The slides of the NVRAM study compare cards without numbers, so the test represents each of
/// their conclusions by a range of values.
#[test]
fn nvram() {
    let study = study("nvram");
    let of = |section: &'static str| move |row: &Value| text(row, "section") == section;

    // The slides say that the cards have the same performance; a range of 3 % represents this. In
    // random writes, the simulated cards differ by 4 % at depths 1 to 4 and by 5.9 % at depth 16,
    // because their memories differ.
    let throughput = errors(&study, of("throughput"));
    assert!(
        throughput.2 == 18 && throughput.0 <= 0.0037 && throughput.1 <= 0.031,
        "{throughput:?}"
    );
    let latency = errors(&study, of("latency"));
    assert!(latency.2 == 18 && latency.1 == 0.0, "{latency:?}");
    let outside = errors(&study, of("outside check"));
    assert!(outside.2 == 1 && outside.1 == 0.0, "{outside:?}");

    let rows = study["rows"].as_array().unwrap();
    for row in rows.iter().filter(|row| row["error"] != 0.0 && !row["error"].is_null()) {
        assert!(text(row, "note").contains("the cause is the memory"), "{row}");
    }
    let unprinted: Vec<&Value> = rows.iter().filter(|row| row["published"].is_null()).collect();
    assert_eq!(unprinted.len(), 2 * 2 * 2 * 9);
    let deepest = unprinted.iter().filter(|row| text(row, "what").ends_with("depth 256"));
    for row in deepest.filter(|row| text(row, "unit") == "IOPS") {
        let iops = row["ours"].as_f64().unwrap();
        assert!((1e6..=1.8e6).contains(&iops), "{row}");
        assert!(text(row, "note").contains("limited by the link"), "{row}");
    }
    assert_eq!(study["figures"].as_array().unwrap().len(), 4);
}

/// The publication has few numbers. Its words "about" and "above" are checked as ranges. The
/// results of LU without tiles and of the quantum Fourier transform are not explained: their notes
/// list the assumptions.
#[test]
fn imdt() {
    let study = study("imdt");
    let of = |name: &'static str| errors(&study, move |row| text(row, "section") == name);
    for (section, rows, mean, most) in [
        ("5.1.1", 2, 0.036, 0.071),
        ("5.1.2", 3, 0.0, 0.0),
        ("5.1.3", 2, 0.156, 0.2),
        ("5.2.1", 4, 1.4, 3.54),
        ("5.2.2", 2, 0.348, 0.61),
        ("5.3.1", 1, 0.168, 0.168),
        ("5.3.2", 2, 0.234, 0.31),
        ("5.3.4", 2, 0.837, 0.849),
        ("5.3.5", 4, 0.035, 0.076),
    ] {
        let found = of(section);
        assert!(found.2 == rows && found.0 <= mean && found.1 <= most, "{section}: {found:?}");
    }
    let fitted = errors(&study, |row| row["used_for_fit"] == true);
    assert!(fitted.2 == 1 && fitted.1 < 1e-9, "{fitted:?}");
    let orderings = study["tables"][0]["rows"].as_array().unwrap();
    let holding = orderings.iter().filter(|row| row[3] == "holds").count();
    assert!(orderings.len() == 12 && holding >= 9, "{orderings:?}");
    let figures = study["figures"].as_array().unwrap();
    let ids: Vec<&str> = figures.iter().map(|figure| text(figure, "id")).collect();
    let one = ["figure-3", "figure-4", "figure-5", "figure-6-a", "figure-6-b", "figure-7"];
    let all = ["figure-2-polynomial-1", "figure-2-polynomial-2"].into_iter().chain(one);
    assert_eq!(ids, all.collect::<Vec<_>>());
}
