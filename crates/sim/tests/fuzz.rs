//! Feeds the parsers with mutated scenario, device and expander files and DIMM traces: no parser
//! panics, each error names the file with the line or the field, and accepted scenarios can be
//! simulated.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use interleaf_model::{
    control::Settings,
    format::{FileError, demand_toml, platform_toml},
    platform::Platform,
    policy::PolicyKind,
};
use interleaf_sim::{
    cxl,
    dimm::{
        device::{self, DeviceError, Options},
        trace::{AddressLimits, Trace},
    },
    machine::{
        Outcome, PreparedScenario, Scenario, Trial,
        scenario_toml::{self, DemandSource, LoadedDemand},
    },
};
use proptest::{prelude::*, sample::Index};
use std::sync::LazyLock;

/// Device files, each with the name of one of its modules.
const DEVICES: [(&str, &str); 4] = [
    (include_str!("../../../devices/ddr5.toml"), "rdimm-6400-2r"),
    (include_str!("../../../devices/ddr4.toml"), "ddr4-3200-2r"),
    (include_str!("../../../devices/ddr3.toml"), "ddr3-1600"),
    (include_str!("../../../devices/stt-mram.toml"), "stt-mram-ddr3"),
];
const EXPANDER: &str = include_str!("../../../devices/cz122.toml");

/// A trace of four requests in each text format.
const TRACES: [&str; 3] = [
    "# time kind address\n0 R 0x40\n12.5 W 128\n13.125 R 0xFF\n20 R 4096\n",
    "LD 0x40\nST 128\n0x80 R\n256 W\n",
    "0x40 READ 0\n0x80 WRITE 2\n0xC0 READ 3\n0x100 WRITE 40\n",
];

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
local = [{ threads = 8, runtime_s = 1.0, bandwidth_gbps = 60.0 }]
hotness = { kind = "zipf", exponent = 0.9 }
"#;

/// A scenario file that uses all keys, with few page groups and a short duration.
const SCENARIO: &str = r#"
schema = "interleaf.scenario/1"
name = "all"
platform = "small"
duration = "3s"
page_groups = 100
counter_noise = "3%"
counts_latency = false
seed = 7

[migration]
rate = "2GB/s"
stall = "3us"
page = "2MiB"

[damon]
sampling = "100ms"
aggregation = "500ms"
regions = [5, 50]

[held]
dram = "60GiB"
cxl = "100GiB"

[[workload]]
name = "first"
workload = "loop"
threads = 4
footprint = "1GiB"
start = "1s"
runs = 2
work = 0.5
cycles = 4
domain = "socket1"
scope = "batch"
steered = false

[[workload]]
demand = "loop.demand.toml"
threads = 6

[[device]]
name = "nic"
tier = "cxl"
domain = "socket1"
bandwidth = "20GB/s"
read_share = 0.5
from = "1s"
to = "2s"
"#;

static SMALL: LazyLock<Platform> = LazyLock::new(|| {
    let curves = |path: &str| {
        let (gbps, ns) = if path == "dram.csv" { (80, 90) } else { (30, 220) };
        let header = "mix,bandwidth_gbps,latency_ns,provenance,source";
        Ok(format!("{header}\nR,0,{ns},assumed,test\nR,{gbps},{},assumed,test\n", 3 * ns))
    };
    platform_toml::parse("small.toml", PLATFORM, &curves).unwrap()
});

/// Bounds on the duration, the groups and the cycles of a simulated scenario, because a mutated
/// scenario may be long and have many pages.
const DURATION_MAX_S: f64 = 3.0;
const GROUPS_MAX: usize = 200;
const CYCLES_MAX: u32 = 20;

#[derive(Clone, Debug)]
enum Mutation {
    Character(Index, char),
    DeleteLine(Index),
    DuplicateLine(Index),
    SwapLines(Index, Index),
    Number(Index, &'static str),
}

/// Numbers at and beyond the limits of valid ranges, and some numbers within the ranges.
const NUMBERS: [&str; 16] = [
    "nan",
    "inf",
    "-1",
    "1e308",
    "1e-308",
    "0",
    "-0.0",
    "1",
    "2",
    "8",
    "0.001",
    "63.9",
    "1000",
    "4194304",
    "99999.9",
    "9223372036854775807",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        1 => (at(), any::<char>()).prop_map(|(at, c)| Mutation::Character(at, c)),
        2 => at().prop_map(Mutation::DeleteLine),
        1 => at().prop_map(Mutation::DuplicateLine),
        1 => (at(), at()).prop_map(|(a, b)| Mutation::SwapLines(a, b)),
        // Numbers are changed most often, because most files with a changed number are still
        // accepted.
        6 => (at(), prop::sample::select(&NUMBERS[..])).prop_map(|(at, n)| Mutation::Number(at, n)),
    ]
}

fn mutate(text: &str, mutation: &Mutation) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.into();
    }
    match mutation {
        Mutation::Character(at, new) => {
            let mut characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len());
            characters[at] = *new;
            return characters.into_iter().collect();
        }
        Mutation::DeleteLine(at) => {
            lines.remove(at.index(lines.len()));
        }
        Mutation::DuplicateLine(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        Mutation::SwapLines(a, b) => {
            let length = lines.len();
            lines.swap(a.index(length), b.index(length));
        }
        Mutation::Number(at, new) => {
            let numbers = numbers(text);
            if numbers.is_empty() {
                return text.into();
            }
            let (start, end) = numbers[at.index(numbers.len())];
            return format!("{}{new}{}", &text[..start], &text[end..]);
        }
    }
    lines.join("\n")
}

/// Returns the byte range of each number in a text: its start, and its end, which is excluded.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = vec![];
    for (at, _) in text.char_indices().filter(|(_, c)| c.is_ascii_digit() || *c == '.') {
        match found.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => found.push((at, at + 1)),
        }
    }
    found
}

fn mutated(text: &'static str) -> impl Strategy<Value = String> {
    let apply = |mutations: Vec<Mutation>| {
        mutations.iter().fold(text.to_string(), |text, mutation| mutate(&text, mutation))
    };
    prop::collection::vec(mutation(), 1..4).prop_map(apply)
}

/// Checks that an error names its file, a remedy, and a line of the file. An error of the whole
/// file names a field instead, or says that a field is missing.
fn check_error(why: &FileError, text: &str) -> Result<(), TestCaseError> {
    let lines = text.lines().count().max(1);
    prop_assert_eq!(&why.file, "f");
    prop_assert!(!why.problem.is_empty() && !why.hint.is_empty(), "{why:?}");
    match why.line {
        Some(line) => prop_assert!((1..=lines).contains(&line), "{why:?}"),
        None => {
            let missing = why.problem.contains("missing field");
            prop_assert!(why.field.is_some() || missing, "{why:?}");
        }
    }
    Ok(())
}

fn check_device<T>(found: Result<T, DeviceError>, text: &str) -> Result<(), TestCaseError> {
    match found {
        Err(DeviceError::File(why)) => check_error(&why, text),
        Err(
            DeviceError::Choice { problem, hint } | DeviceError::ModuleOption { problem, hint, .. },
        ) => {
            prop_assert!(!problem.is_empty() && !hint.is_empty(), "{problem}: {hint}");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Returns the scenario of a file and its duration, if the file is valid.
fn scenario(text: &str) -> Option<(Scenario, f64)> {
    let demands = |_: DemandSource<'_>| {
        Ok::<_, FileError>(LoadedDemand {
            demand: demand_toml::parse("loop.toml", DEMAND)?,
            measured_on: None,
        })
    };
    let file = scenario_toml::parse("s.toml", text).ok()?;
    let scenario = file.build(SMALL.clone(), &demands).ok()?;
    Some((scenario, file.duration().map_or(DURATION_MAX_S, |duration| duration.seconds())))
}

/// Checks that all figures of a simulation's outcome are finite, and that its shares are valid.
fn sane(outcome: &Outcome, scenario: &Scenario) -> Result<(), TestCaseError> {
    for period in &outcome.periods {
        let bandwidths = period.tier_bandwidth_gbps.iter();
        let mut numbers = bandwidths.chain(period.tier_latency_ns.iter().flatten());
        prop_assert!(numbers.all(|number| number.is_finite() && *number >= 0.0), "{period:?}");
        let sum: f64 = period.reached.iter().sum();
        prop_assert!((sum - 1.0).abs() < 1e-6, "{period:?}");
        prop_assert!(period.judged_gbps.is_none_or(f64::is_finite), "{period:?}");
    }
    for task in &outcome.tasks {
        let given = [task.runtime_s, task.speedup(), task.regret(), task.regret_over_duration()];
        prop_assert!(given.iter().flatten().all(|number| number.is_finite()), "{task:?}");
        prop_assert!(task.work.is_finite() && task.work >= 0.0, "{task:?}");
    }
    if let Some(best) = &outcome.best_static {
        prop_assert!(best.tasks.iter().all(|task| task.runtime_s.is_finite()), "{best:?}");
        prop_assert_eq!(best.points.len(), scenario.platform.domains.len());
    }
    Ok(())
}

/// Returns a configuration of proptest with `cases` cases. Failing seeds are not stored: proptest
/// stores seeds beside a folder `src`, and an integration test is not below such a folder.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn the_scenario_that_is_changed_is_one() {
    let (scenario, duration_s) = scenario(SCENARIO).unwrap();
    assert_eq!((scenario.tasks.len(), duration_s), (2, 3.0));
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn any_text(text in any::<String>()) {
        let _ = scenario(&text);
    }

    #[test]
    fn changed_scenarios(text in mutated(SCENARIO)) {
        if let Err(why) = scenario_toml::parse("f", &text) {
            check_error(&why, &text)?;
        }
        let _ = scenario(&text);
    }

    #[test]
    fn changed_expanders(text in mutated(EXPANDER)) {
        check_device(cxl::in_file("f", &text), &text)?;
    }

    #[test]
    fn changed_traces(
        text in (0..TRACES.len()).prop_flat_map(|which| mutated(TRACES[which])),
    ) {
        let limits = AddressLimits { bytes: 1 << 40, mega_transfers: 6400 };
        // A trace without any request is an error without a line, so this error is not checked.
        let Ok(trace) = Trace::new("f", text.as_bytes(), None, limits) else { return Ok(()) };
        if let Err(why) = trace.count_all() {
            prop_assert!(why.line.is_some());
            check_error(&why, &text)?;
        }
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn changed_devices(
        (text, module) in (0..DEVICES.len()).prop_flat_map(|which| {
            let (text, module) = DEVICES[which];
            (mutated(text), Just(module))
        }),
    ) {
        let none = |_: &str| Err(("there is no file".into(), "name one".into()));
        let found = device::in_file("f", &text, Some(module), &Options::default(), &none);
        check_device(found, &text)?;
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn changed_scenarios_can_be_simulated(
        text in mutated(SCENARIO),
        (policy, ..) in prop::sample::select(PolicyKind::ALL.to_vec()),
        curve_error in -0.9..0.9f64,
    ) {
        if let Some((mut scenario, duration_s)) = scenario(&text) {
            scenario.page_groups = scenario.page_groups.min(GROUPS_MAX);
            for task in &mut scenario.tasks {
                task.cycles = task.cycles.min(CYCLES_MAX);
            }
            let duration = Duration::from_secs_f64(duration_s.min(DURATION_MAX_S));
            let prepared = PreparedScenario::new(&scenario, duration);
            let settings = Settings { period: Duration::from_secs(1), ..Settings::default() };
            let trial = Trial { policy, points: None, curve_error, settings };
            sane(&prepared.run(&trial).unwrap(), &scenario)?;
        }
    }
}
