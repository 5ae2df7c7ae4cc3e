//! Tests of `interleaf plan`: from workloads that were measured on a baseline server, it comes to
//! the conclusions of published studies. Other tests check the recommendation, and plans for
//! several workloads with shares of time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::{fs, path::Path, process::Command};

fn plan(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    let output = command.arg("plan").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "interleaf.plan/1");
    document
}

fn row<'a>(document: &'a Value, configuration: &str) -> &'a Value {
    let mut rows = document["rows"].as_array().unwrap().iter();
    rows.find(|row| row["configuration"] == configuration).unwrap()
}

fn speed(document: &Value, configuration: &str) -> f64 {
    row(document, configuration)["speed"].as_f64().unwrap()
}

const MODULES: &str = "--configuration=rdimm-6400,mrdimm-8800,rdimm-6400-cz122";

/// The bandwidth of RDIMMs limits these demands, so memory with more bandwidth is faster, by about
/// the published factor. For each demand, the table has the best published speed-up with eight
/// expanders (CXL white paper CCM004-676576390-11778), and the published speed-up with MRDIMMs.
#[test]
fn the_winners_of_the_studies_win() {
    for (demand, with_expanders, with_mrdimms) in [
        ("openfoam", 1.22, Some(1.35)),
        ("pot3d", 1.27, Some(1.36)),
        ("llama3-8b", 1.17, Some(1.31)),
        ("hpcg", 1.27, None),
    ] {
        let document = plan(&["--demand", demand, MODULES]);
        let rows = [("rdimm-6400-cz122", Some(with_expanders)), ("mrdimm-8800", with_mrdimms)];
        for (name, published) in rows {
            let Some(published) = published else { continue };
            let error = speed(&document, name) / published - 1.0;
            assert!(error.abs() <= 0.08, "{demand} on {name}: {error}");
        }
        assert_eq!(row(&document, "rdimm-6400")["bound_by"], "bandwidth of dram", "{demand}");
    }
}

/// For a demand far below the bandwidth of RDIMMs, more bandwidth gives no speed-up. The cheapest
/// configuration is recommended.
#[test]
fn more_bandwidth_is_not_bought_where_none_is_needed() {
    let document = plan(&["--demand", "bfs", MODULES]);
    assert!((speed(&document, "mrdimm-8800") - 1.0).abs() < 0.02);
    assert_eq!(document["recommended"], "rdimm-6400");
}

/// A server with modules in only 8 of its 12 channels has two thirds of the full server's speed at
/// full load, and costs less.
#[test]
fn fewer_modules_are_slower_and_cheaper() {
    let document =
        plan(&["--mix", "W2", "--configuration=rdimm-6400,rdimm-6400-8ch", "--goal=cost"]);
    let found = speed(&document, "rdimm-6400-8ch");
    assert!((found - 8.0 / 12.0).abs() < 0.01, "{found}");
    assert_eq!(document["recommended"], "rdimm-6400-8ch");
}

/// A server whose memory is too small is not recommended. An NVMe drive that extends its DRAM makes
/// the demand fit, at a fraction of the speed.
#[test]
fn memory_that_is_too_small_is_not_recommended() {
    let names = "--configuration=rdimm-6400-128gb,rdimm-6400,rdimm-6400-nvme,rdimm-6400-nvram";
    let document = plan(&["--demand", "hpcg", "--footprint", "1TiB", "--goal", "cost", names]);
    assert_eq!(row(&document, "rdimm-6400")["fits"], false);
    assert_eq!(row(&document, "rdimm-6400")["bound_by"], "capacity");
    assert_eq!(row(&document, "rdimm-6400-nvram")["fits"], false);
    let cached = row(&document, "rdimm-6400-nvme");
    assert_eq!((&cached["fits"], &cached["bound_by"]), (&true.into(), &"drive nvme-gen5".into()));
    assert!(cached["speed"].as_f64().unwrap() < 0.2, "{cached}");
    // The drive limits the speed of `rdimm-6400-nvme`, so its DRAM has little traffic.
    // `rdimm-6400-128gb` holds all pages in DRAM, and saturates the DRAM, so its loaded latency is
    // higher.
    let latency_ns = |name| row(&document, name)["latency_ns"].as_f64().unwrap();
    assert!(latency_ns("rdimm-6400-nvme") < 0.5 * latency_ns("rdimm-6400-128gb"), "{cached}");
    // With `--goal speed`, the cheapest server is not recommended, because its drive makes it slow.
    // The recommendation then depends on the memory that the demand needs.
    let by_speed = plan(&["--demand", "hpcg", "--footprint", "1TiB", "--goal", "speed", names]);
    assert_eq!(by_speed["recommended"], "rdimm-6400-128gb");
    let needs = by_speed["sensitivity"].as_array().unwrap();
    let needs = needs.iter().find(|row| row["figure"] == "memory that the demand needs").unwrap();
    assert_eq!(needs["recommended"][1], "rdimm-6400-128gb");
    // The recommended server holds 1.5 TiB, and the others 768 GiB. If the demand needs at most 768
    // GiB, another server is recommended. If the demand needs more than 1.5 TiB, the server with
    // the drive is recommended.
    let factor = |end: usize| needs["factors"][end].as_f64().unwrap();
    assert!((0.74..0.79).contains(&factor(0)) && (1.5..1.51).contains(&factor(1)), "{needs}");
    assert_eq!(needs["recommended_beyond"][1], "rdimm-6400-nvme");
}

/// For each price, the sensitivity has the factor at which the recommendation changes, and the
/// configuration that is recommended from there on. The default goal, `value`, recommends the
/// configuration with the lowest cost for the work.
#[test]
fn factors_and_the_cost_for_the_work_explain_the_recommendation() {
    let document = plan(&["--demand", "pot3d", MODULES]);
    let rows = document["rows"].as_array().unwrap();
    let cheaper = |a: &&Value, b: &&Value| {
        let cost = |row: &Value| row["work_cost"].as_f64().unwrap();
        cost(a).total_cmp(&cost(b))
    };
    assert_eq!(rows.iter().min_by(cheaper).unwrap()["configuration"], document["recommended"]);
    assert_eq!(row(&document, "rdimm-6400")["work_cost"], 1.0);
    assert!(rows.iter().all(|row| row["threads"] == rows[0]["threads"]), "{rows:?}");
    let mut found = 0;
    for figure in document["sensitivity"].as_array().unwrap() {
        for end in 0..2 {
            let beyond = &figure["recommended_beyond"][end];
            assert_eq!(figure["factors"][end].is_null(), beyond.is_null(), "{figure}");
            assert!(beyond.is_null() || beyond != &document["recommended"], "{figure}");
            found += usize::from(!beyond.is_null());
        }
    }
    assert!(found > 0, "{document}");
}

/// Writes a demand file: a copy of the workload `name`, with `lines` in place of the line of the
/// key `name`. Returns the file's path.
fn demand_file(folder: &Path, name: &str, lines: &str) -> String {
    let workload = format!("{}/../../workloads/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(workload).unwrap();
    let own = format!("name = \"{name}\"\n");
    assert!(text.contains(&own), "{text}");
    let path = folder.join("mine.toml");
    fs::write(&path, text.replace(&own, lines)).unwrap();
    path.display().to_string()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap()
}

/// True if two values are equal but for the rounding of figures in documents.
fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 2e-5
}

#[test]
fn several_demands_print_their_speeds_beside_the_combined_one() {
    trycmd::TestCases::new().case("tests/plan/*.trycmd");
}

/// A plan for several demands has the same prediction for each demand as a plan for this demand
/// alone. The combined speed and energy are those of the demands, weighted by their shares of time
/// on the baseline.
#[test]
fn the_combined_figures_follow_from_those_of_the_demands() {
    let both = plan(&["--demand", "hpcg=0.6,cloverleaf=40%", MODULES]);
    let single = ["hpcg", "cloverleaf"].map(|name| plan(&["--demand", name, MODULES]));
    let shares = [0.6, 0.4];
    for (at, row) in both["rows"].as_array().unwrap().iter().enumerate() {
        let demands = row["demands"].as_array().unwrap();
        assert_eq!(demands.len(), 2, "{row}");
        let (mut time, mut energy, mut base_power) = (0.0, 0.0, 0.0);
        for ((own, single), share) in demands.iter().zip(&single).zip(shares) {
            let (alone, base) = (&single["rows"][at], &single["rows"][0]);
            for key in ["weights", "speed", "speed_interval", "result", "power_w", "bound_by"] {
                assert_eq!(own[key], alone[key], "{key}");
            }
            time += share / number(own, "speed");
            let relative = number(own, "task_energy_j") / number(base, "task_energy_j");
            energy += share * number(base, "power_w") * relative;
            base_power += share * number(base, "power_w");
        }
        assert!(near(number(row, "speed"), 1.0 / time), "{row}");
        assert!(near(number(row, "task_energy_j"), energy), "{row}: {energy}");
        let base = &both["rows"][0];
        assert!(near(number(base, "task_energy_j"), base_power), "{base}: {base_power}");
        let cost = number(row, "cost") / number(base, "cost") * time;
        assert!(near(number(row, "work_cost"), cost), "{row}: {cost}");
        assert_eq!(row["cost"].as_f64() > row["parts_cost"].as_f64(), !both["years"].is_null());
    }
    let recommended = row(&both, both["recommended"].as_str().unwrap());
    assert!(recommended["dominated_by"].is_null());
    let figures = both["sensitivity"].as_array().unwrap().iter();
    let shares = figures.filter(|row| row["figure"].as_str().unwrap().starts_with("share of "));
    assert_eq!(shares.count(), 2);
}

/// A plan for `hpcg` for 30 % of the time, and for a copy of `hpcg` for the rest, has the same
/// figures as a plan for `hpcg` alone.
#[test]
fn two_equal_demands_are_like_one() {
    let folder = tempfile::tempdir().unwrap();
    let same = demand_file(folder.path(), "hpcg", "name = \"same\"\n");
    let demands = format!("hpcg=30%,{same}");
    let [one, two] = ["hpcg", &demands].map(|demands| plan(&["--demand", demands, MODULES]));
    assert_eq!(one["recommended"], two["recommended"]);
    let energy = |document: &Value, at: usize| {
        number(&document["rows"][at], "task_energy_j")
            / number(&document["rows"][0], "task_energy_j")
    };
    for (at, (own, other)) in
        one["rows"].as_array().unwrap().iter().zip(two["rows"].as_array().unwrap()).enumerate()
    {
        for key in ["weights", "threads", "fits", "bound_by", "on_cost_front", "on_energy_front"] {
            assert_eq!(own[key], other[key], "{key}");
        }
        for key in ["speed", "bandwidth_gbps", "latency_ns", "power_w", "cost", "work_cost"] {
            assert!(near(number(other, key), number(own, key)), "{key}: {own} {other}");
        }
        for end in 0..2 {
            let end = |row: &Value| row["speed_interval"][end].as_f64().unwrap();
            assert!(near(end(other), end(own)), "{own} {other}");
        }
        assert!(near(energy(&two, at), energy(&one, at)), "{own} {other}");
    }
}

/// A configuration with too little memory for one of the demands is not recommended. The notes of
/// its row name this demand.
#[test]
fn memory_that_is_too_small_for_one_demand_is_not_recommended() {
    let folder = tempfile::tempdir().unwrap();
    let large = demand_file(folder.path(), "hpcg", "name = \"large\"\nfootprint = \"1TiB\"\n");
    let demands = format!("cloverleaf=80%,{large}=20%");
    let arguments = ["--demand", &demands, "--configuration=rdimm-6400,rdimm-6400-128gb"];
    let large = ["--baseline=rdimm-6400-128gb", "--goal=cost"];
    let document = plan(&[&arguments[..], &large].concat());
    let small = row(&document, "rdimm-6400");
    assert_eq!(small["fits"], false);
    assert_eq!(small["demands"][0]["fits"], true);
    assert_eq!(small["demands"][1]["fits"], false);
    assert_eq!(small["notes"][0], "large: 1 TiB do not fit into its memory");
    assert_eq!(document["recommended"], "rdimm-6400-128gb");
    assert_eq!(document["footprint_bytes"], 1_u64 << 40);

    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    let output = command.arg("plan").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let problem = "rdimm-6400, the baseline, does not hold large: 1 TiB do not fit";
    assert!(said.contains(problem) && said.contains("--baseline: rdimm-6400-128gb"), "{said}");
}

/// Writes a platform with `tiers` tiers that have different curves, and a configuration with this
/// platform. Returns the path of the configuration file.
fn many_tiers(folder: &Path, tiers: usize) -> String {
    let tier = |at: usize| {
        let kind = if at == 0 { "dram" } else { "cxl" };
        let curve = format!("tier{at}.csv");
        let [idle, loaded, full] = [100, 110, 300].map(|ns| ns + 50 * at);
        let points = format!(
            "mix,bandwidth_gbps,latency_ns,provenance,source\n\
             R,1,{idle},assumed,a test\nR,50,{loaded},assumed,a test\n\
             R,80,{full},assumed,a test\n"
        );
        fs::write(folder.join(&curve), points).unwrap();
        format!(
            "[[tier]]\nname = \"t{at}\"\nkind = \"{kind}\"\ncapacity = \"256GiB\"\n\
             curves = \"{curve}\"\n"
        )
    };
    let tiers: String = (0..tiers).map(tier).collect();
    let platform = format!(
        "schema = \"interleaf.platform/1\"\nname = \"many\"\nsource = \"a test\"\n[cpu]\n\
         cores = 32\noutstanding_lines_per_core = 48.0\nuncore_latency_ns = 60.0\n{tiers}"
    );
    fs::write(folder.join("many.toml"), platform).unwrap();
    let configuration = format!(
        "schema = \"interleaf.configurations/1\"\n[[configuration]]\nname = \"many\"\n\
         does = \"a test\"\nplatform = \"{}\"\nparts = {{ xeon6-128-cores = 1 }}\n",
        folder.join("many.toml").display()
    );
    let path = folder.join("configuration.toml");
    fs::write(&path, configuration).unwrap();
    path.display().to_string()
}

/// For a platform with many tiers, `plan` tries only ratios of small weights. So a plan for five
/// tiers takes seconds, and not minutes.
#[test]
fn the_ratios_of_many_tiers_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    for (tiers, most) in [(4, 5), (5, 3)] {
        let configuration = many_tiers(folder.path(), tiers);
        for traffic in ["--demand=hpcg", "--mix=R"] {
            let document = plan(&["--configuration", &configuration, traffic]);
            let weights = document["rows"][0]["weights"].to_string();
            let weights: Vec<u16> = weights
                .split(|letter: char| !letter.is_ascii_digit())
                .filter_map(|weight| weight.parse().ok())
                .collect();
            assert_eq!(weights.len(), tiers, "{document}");
            assert!(weights.iter().all(|weight| *weight <= most), "{weights:?}");
        }
    }
}
