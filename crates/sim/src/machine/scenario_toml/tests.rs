use super::*;
use crate::machine::Scenario;
use interleaf_model::format::{FileError, demand_toml, platform_toml};

const PLATFORM: &str = r#"
schema = "interleaf.platform/1"
name = "small"
source = "made for this test"
cpu = { cores = 16, outstanding_lines_per_core = 16, uncore_latency_ns = 60.0 }
domain = [{ name = "socket0", cores = 8 }, { name = "socket1", cores = 8 }]
tier = [
    { name = "dram", kind = "dram", capacity = "64GiB", curves = "dram.csv" },
    { name = "cxl", kind = "cxl", capacity = "128GiB", curves = "cxl.csv" },
]
"#;

const DEMAND: &str = r#"
name = "loop"
mix = { read_share = 0.75 }
footprint = "8GiB"
local = [{ threads = 8, runtime_s = 100.0, bandwidth_gbps = 60.0 }]
hotness = { kind = "zipf", exponent = 0.9 }
"#;

const ALL: &str = r#"schema = "interleaf.scenario/1"
name = "all"
platform = "small"
duration = "10min"
page_groups = 1000
counter_noise = "3%"
counts_latency = false
seed = 7

[migration]
rate = "2GB/s"
stall = "3us"
page = "2MiB"

[damon]
sampling = "100ms"
aggregation = "2s"
regions = [5, 50]

[held]
cxl = "100GiB"

[[workload]]
name = "first"
workload = "loop"
threads = 4
footprint = "1GiB"
start = "30s"
runs = 2
work = 0.5
cycles = 4
domain = "socket1"
scope = "batch"
steered = false

[[workload]]
demand = "loop.demand.toml"

[[device]]
name = "nic"
tier = "cxl"
domain = "socket1"
bandwidth = "20GB/s"
read_share = 0.5
from = "100s"
to = "200s"

[[device]]
name = "nvme"
tier = "dram"
bandwidth = "500MB/s"
read_share = 1.0
"#;

/// Returns the text of a scenario with one workload, followed by `rest`.
fn with(rest: &str) -> String {
    let head = "schema = \"interleaf.scenario/1\"\nname = \"s\"\n[[workload]]\n";
    format!("{head}workload = \"loop\"\n{rest}")
}

fn small() -> Platform {
    let curves = |path: &str| {
        let (gbps, ns) = if path == "dram.csv" { (80, 90) } else { (30, 220) };
        Ok(format!(
            "mix,bandwidth_gbps,latency_ns,provenance,source\n\
             R,0,{ns},assumed,test\nR,{gbps},{},assumed,test\n",
            3 * ns
        ))
    };
    platform_toml::parse("small.toml", PLATFORM, &curves).unwrap()
}

fn build(text: &str) -> Result<Scenario, FileError> {
    let demand = || demand_toml::parse("loop.toml", DEMAND);
    let demands = |_: DemandSource<'_>| Ok(LoadedDemand { demand: demand()?, measured_on: None });
    parse("s.toml", text)?.build(small(), &demands)
}

#[test]
fn every_key_is_read() {
    let file = parse("all.toml", ALL).unwrap();
    assert_eq!((file.name(), file.platform_name()), ("all", Some("small")));
    assert_eq!(file.duration().map(Time::seconds), Some(600.0));
    let scenario = build(ALL).unwrap();
    assert_eq!(scenario.name, "all");
    assert_eq!((scenario.page_groups, scenario.seed), (1000, 7));
    assert_eq!((scenario.counter_noise, scenario.counts_latency), (0.03, false));
    let migration = Migration { bandwidth_gbps: 2.0, stall_ns: 3000.0, page_bytes: 2 << 20 };
    assert_eq!(scenario.migration, migration);
    let damon = Damon {
        sampling_ns: 100_000_000,
        aggregation_ns: 2_000_000_000,
        regions_min: 5,
        regions_max: 50,
    };
    assert_eq!(scenario.damon, damon);
    assert_eq!(scenario.held_bytes, [0, 100 << 30]);

    let [first, second] = &scenario.tasks[..] else { panic!("{:?}", scenario.tasks) };
    assert_eq!((first.name.as_str(), first.scope.as_str()), ("first", "batch"));
    assert_eq!((first.threads, first.domain, first.steered), (4, 1, false));
    assert_eq!((first.footprint_bytes, first.start_s), (1 << 30, 30.0));
    assert_eq!((first.runs, first.work, first.cycles), (Some(2), 0.5, 4));
    assert_eq!((second.name.as_str(), second.scope.as_str()), ("loop", "loop"));
    assert_eq!((second.threads, second.domain, second.steered), (8, 0, true));
    assert_eq!((second.footprint_bytes, second.runs), (8 << 30, None));

    let [nic, nvme] = &scenario.devices[..] else { panic!("{:?}", scenario.devices) };
    assert_eq!((nic.tier, nic.domain, nic.bandwidth_gbps, nic.read_share), (1, 1, 20.0, 0.5));
    assert_eq!((nic.from_s, nic.to_s), (100.0, 200.0));
    assert_eq!((nvme.tier, nvme.domain, nvme.bandwidth_gbps), (0, 0, 0.5));
    assert_eq!((nvme.from_s, nvme.to_s), (0.0, f64::INFINITY));
}

#[test]
fn missing_keys_have_their_defaults() {
    let file = parse("s.toml", &with("")).unwrap();
    assert_eq!((file.platform_name(), file.duration()), (None, None));
    let scenario = build(&with("")).unwrap();
    let expected = Scenario::new("s", small(), scenario.tasks.clone());
    assert_eq!(scenario, expected);
    assert_eq!((scenario.tasks[0].threads, scenario.tasks[0].start_s), (8, 0.0));
    // The default number of threads is the number of threads of the demand's largest run (here 3),
    // and not the number of cores of the domain.
    let fewer = || demand_toml::parse("d.toml", &DEMAND.replace("threads = 8", "threads = 3"));
    let demands = |_: DemandSource<'_>| Ok(LoadedDemand { demand: fewer()?, measured_on: None });
    let scenario: Result<_, FileError> = file.build(small(), &demands);
    let scenario = scenario.unwrap();
    assert_eq!(scenario.tasks[0].threads, 3);
}

#[test]
fn demands_are_asked_for_by_source_and_their_errors_pass() {
    #[derive(Debug, PartialEq)]
    enum Failed {
        File,
        Demand(String),
    }
    impl From<FileError> for Failed {
        fn from(_: FileError) -> Self {
            Self::File
        }
    }
    let demands = |source: DemandSource<'_>| match source {
        DemandSource::Workload(_) => {
            let demand = demand_toml::parse("loop.toml", DEMAND)?;
            Ok(LoadedDemand { demand, measured_on: Some(small()) })
        }
        DemandSource::File(path) => Err(Failed::Demand(path.into())),
    };
    let built = |text: &str| parse("s.toml", text).unwrap().build(small(), &demands);
    assert_eq!(built(ALL), Err(Failed::Demand("loop.demand.toml".into())));
    assert_eq!(built(&with("threads = 9")), Err(Failed::File));
    assert!(built(&with("")).is_ok());
}

/// Checks that `text` is refused with an error at `place` (line and field), which has the texts
/// `problem` and `hint`.
#[track_caller]
fn refuses(text: &str, place: &str, problem: &str, hint: &str) {
    let error = build(text).expect_err(text);
    let said = error.to_string();
    assert!(said.starts_with(&format!("s.toml{place}: ")), "{said:?} is not at {place}");
    assert!(said.contains(problem), "{said:?} lacks {problem:?}");
    assert!(error.hint.contains(hint), "{:?} lacks {hint:?}", error.hint);
}

#[test]
fn errors_of_the_file_name_line_and_field() {
    let head = "schema = \"interleaf.scenario/1\"\nname = \"s\"\n";
    refuses(head, ": workload", "there is none", "[[workload]]");
    refuses(&head.replace("/1", "/2"), ":1: schema", "is not", "interleaf.scenario/1");
    refuses(&format!("{head}[[workload]]\nname = \"a\""), ":4: workload", "neither", "demand");
    refuses(&format!("{head}[[workload]]"), ": [[workload]] 1", "neither", "demand");
    // Each row has a line with an error, then parts of the expected message: place (line and
    // field), problem, hint. The rows are in the order of the keys in a file.
    let of_all = [
        ("name = \" \"", ":2: name", "empty", "word"),
        ("platform = \"\"", ":2: platform", "empty", "word"),
        ("duration = \"600\"", ":2: duration", "it has no unit", "min, h"),
        ("duration = \"0s\"", ":2: duration", "not between 1ms", "to 24h"),
        ("duration = \"-1s\"", ":2: duration", "it is negative", "unit"),
        ("duration = \"9999h\"", ":2: duration", "not between", "to 24h"),
        ("page_groups = 0", ":2: page_groups", "0 is not between 1 and 4194304", "whole"),
        ("page_groups = 4194305", ":2: page_groups", "not between", "whole"),
        ("counter_noise = \"51%\"", ":2: counter_noise", "between 0% and 50%", "0% to 50%"),
        ("counter_noise = \"-1%\"", ":2: counter_noise", "between 0% and 50%", "0% to 50%"),
        ("counter_noise = \"2\"", ":2: counter_noise", "the \"%\" is missing", "the unit %"),
        ("seed = -1", ":2: seed", "-1 is not between 0", "whole"),
        ("sede = 1", ":2: sede", "unknown field", "spelling"),
    ];
    for (line, place, problem, hint) in of_all {
        let name = if line.starts_with("name") { "" } else { "name = \"s\"\n" };
        let tail = format!("{name}[[workload]]\nworkload = \"loop\"");
        let text = format!("schema = \"interleaf.scenario/1\"\n{line}\n{tail}");
        refuses(&text, place, problem, hint);
    }
    let of_tables = [
        ("[migration]\nrate = \"0GB/s\"", ":6: migration.rate", "not above 0", "4GB/s"),
        ("[migration]\nrate = \"4GB\"", ":6: migration.rate", "no unit \"GB\"", "GB/s"),
        ("[migration]\nstall = \"2s\"", ":6: migration.stall", "between 0s and 1s", "1s"),
        ("[migration]\npage = \"1KiB\"", ":6: migration.page", "between 4KiB", "1GiB"),
        ("[damon]\nsampling = \"0s\"", ":6: damon.sampling", "between 1ms", "1ms"),
        ("[damon]\naggregation = \"2h\"", ":6: damon.aggregation", "between 100ms and 1h", "1h"),
        (
            "[damon]\naggregation = \"100ms\"",
            ":6: damon.aggregation",
            "aggregation = 100 ms is shorter than sampling = 200 ms",
            "1 to 1000",
        ),
        ("[damon]\nsampling = \"4s\"", ":6: damon.sampling", "is shorter", "1 to 1000"),
        ("[damon]\nsampling = \"1ms\"", ":6: damon.sampling", "1000 times sampling", "1 to 1000"),
        ("[damon]\nregions = [20, 10]", ":6: damon.regions", "[20, 10]", "[10, 1000]"),
        ("[damon]\nregions = [0, 10]", ":6: damon.regions", "[0, 10]", "[10, 1000]"),
        ("[held]\ndram = \"4\"", ":6: held.dram", "it has no unit", "GiB"),
    ];
    for (tail, place, problem, hint) in of_tables {
        refuses(&with(tail), place, problem, hint);
    }
}

#[test]
fn errors_of_workloads_and_devices_name_line_and_field() {
    let of_workload = [
        ("demand = \"a.toml\"", ":5: workload.demand", "a workload already", "either"),
        ("name = \"\"", ":5: workload.name", "empty", "word"),
        ("threads = 0", ":5: workload.threads", "0 is not between 1 and 8", "1 to 8"),
        ("threads = 9", ":5: workload.threads", "9 is not between 1 and 8", "1 to 8"),
        ("footprint = \"0B\"", ":5: workload.footprint", "zero", "32GiB"),
        ("footprint = \"193GiB\"", ":5: workload.footprint", "do not fit", "smaller"),
        ("start = \"-1s\"", ":5: workload.start", "negative", "unit"),
        ("runs = 0", ":5: workload.runs", "0 is not between 1", "whole"),
        ("work = 0.0", ":5: workload.work", "not above 0 and at most 1000", "above 0"),
        ("work = 1001.0", ":5: workload.work", "at most 1000", "above 0"),
        ("work = 0.000009", ":5: workload.work", "takes 900 us, less than 1 ms", "more work"),
        ("work = 0.001\ncycles = 200", ":5: workload.work", "takes 500 us", "fewer cycles"),
        ("cycles = 0", ":5: workload.cycles", "not between 1", "whole"),
        ("domain = \"s2\"", ":5: workload.domain", "no domain \"s2\"", "are socket0, socket1"),
        ("scope = \"\"", ":5: workload.scope", "empty", "word"),
        ("[[workload]]\nworkload = \"loop\"", ":6: workload.workload", "\"loop\" is", "own"),
        ("name = \"a\"\n[[workload]]\nname = \"a\"\ndemand = \"f\"", ":7: workload.name", "tw", ""),
        (
            "[[workload]]\nname = \"b\"\nworkload = \"loop\"\nthreads = 1\nstart = \"1s\"",
            ":8: workload.threads",
            "at 1 s 9 threads run in socket0, which has 8 cores",
            "fewer threads",
        ),
        (
            "[held]\ndram = \"60GiB\"\ncxl = \"128GiB\"",
            ":4: workload.workload",
            "the pages of loop of 8 GiB do not fit into the 4 GiB",
            "smaller",
        ),
        ("[held]\nhbm = \"1GiB\"", ":6: held.hbm", "no tier \"hbm\"", "are dram, cxl"),
        ("[held]\ndram = \"65GiB\"", ":6: held.dram", "but it has 64 GiB", "less"),
    ];
    for (tail, place, problem, hint) in of_workload {
        refuses(&with(tail), place, problem, hint);
    }
    let device = "[[device]]\nname = \"nic\"\ntier = \"dram\"\nbandwidth = \"4GB/s\"\n\
                  read_share = 0.5\nfrom = \"9s\"\nto = \"10s\"\n";
    assert!(build(&with(device)).is_ok());
    let of_device = [
        ("tier = \"dram\"", "tier = \"d\"", ":7: device.tier", "no tier \"d\"", "dram, cxl"),
        ("from = \"9s\"", "domain = \"s\"", ":10: device.domain", "no domain", "socket1"),
        ("4GB/s", "0GB/s", ":8: device.bandwidth", "not above 0", "4GB/s"),
        ("4GB/s", "81GB/s", ":8: device.bandwidth", "more than dram carries", "80 GB/s"),
        ("4GB/s", "4", ":8: device.bandwidth", "it has no unit", "GB/s"),
        ("0.5", "1.5", ":9: device.read_share", "1.5 is not between 0 and 1", "fraction"),
        ("\"9s\"", "\"10s\"", ":11: device.to", "10 s is not after from = 10 s", "end after"),
        ("name = \"nic\"", "name = \"\"", ":6: device.name", "empty", "word"),
        ("read_share", "reads", ":9: reads", "unknown field", "spelling"),
    ];
    for (good, bad, place, problem, hint) in of_device {
        refuses(&with(&device.replace(good, bad)), place, problem, hint);
    }
    refuses(&with(&device.repeat(2)), ":13: device.name", "\"nic\" is there twice", "own");
}
