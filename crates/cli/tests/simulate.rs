//! Tests of `simulate dimm`: rejection of runs that are too short, the number of outstanding lines,
//! and the memory power in platform files. Tests of `simulate machine`: its warnings, and machines
//! with several sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
};

fn interleaf(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaf")).args(args).output().unwrap()
}

fn dimm(args: &[&str]) -> Output {
    interleaf(&[&["simulate", "dimm"], args].concat())
}

fn document(args: &[&str]) -> Value {
    let output = dimm(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn writes_alone_have_no_latency() {
    let run =
        ["--device", "rdimm-6400-2r", "--channels", "1", "--mix", "R,0", "--requests", "9000"];
    let points = document(&run)["points"].take();
    assert!(points[0]["latency_ns"]["mean"].as_f64().unwrap() > 50.0, "{points}");
    assert!(points[1]["latency_ns"].is_null(), "{points}");
    let text = String::from_utf8(dimm(&run).stdout).unwrap();
    assert!(!text.contains(" 0 ns"), "{text}");
    let writes = text.lines().find(|line| line.trim_start().starts_with("0.0")).unwrap_or(&text);
    assert!(writes.contains(" - "), "{writes}");
}

/// Adds the path of each `null` in `value` to `found`. A `null` that is not an optional number
/// stands for a NaN, which JSON cannot express.
fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.into()),
        Value::Array(items) => items.iter().for_each(|item| nulls(item, path, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| nulls(item, &format!("{path}.{name}"), found));
        }
        _ => (),
    }
}

/// The module is in a user's file. The document of its simulation names the command of the run, and
/// this command gives the same document again. The simulation has a single load, to which no line
/// of power against bandwidth can be fitted, so `tier_power` is null.
#[test]
fn the_command_of_a_users_module_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("module.toml");
    let text = "schema = \"interleaf.devices/1\"\ninherits = \"rdimm-6400-2r\"\n\
                [[module]]\nname = \"mine\"\n";
    fs::write(&path, text).unwrap();
    let (path, page) = (path.to_str().unwrap(), folder.path().join("page.html"));
    let size = ["--requests", "10000", "--mix", "R,W2", "--load", "12.5GB/s"];
    let words = [&["--device", path, "--channels", "1"][..], &size].concat();
    let found = document(&[&words[..], &["--report", page.to_str().unwrap()]].concat());
    let command: Vec<&str> = found["command"].as_str().unwrap().split(' ').collect();
    assert_eq!(document(&command[3..]), found);
    assert!(found["tier_power"].is_null(), "{found}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("timing of mine inherited from ddr5.toml: "), "{page}");
}

/// The measured runs of bwaves do not show whether memory limits its speed, so there is a warning.
/// The measured runs of hpcg do: hpcg is faster with weights of 5:2 (113 GFlop/s) than with all
/// pages in DRAM (92 GFlop/s), so there is no warning.
#[test]
fn a_workload_that_may_limit_itself_has_the_warning_of_predict() {
    let warning = |workload: &str| {
        let args = ["simulate", "machine", "--platform", "xeon6-cz122", "--duration", "12s"];
        let output = interleaf(&[&args[..], &["--workload", workload, "--json"]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["warnings"].to_string().contains("may not be limited by memory")
    };
    assert!(warning("bwaves") && !warning("hpcg"));
}

/// If the model does not reproduce the measured result of a demand, the documents of `predict`,
/// `plan` and `simulate machine` have the same warning.
#[test]
fn each_verb_with_a_forecast_warns_that_it_misses_runs() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let hpcg = fs::read_to_string(root.join("workloads/hpcg.toml")).unwrap();
    let demand = |name: &str, result: &str| {
        let file = folder.path().join(name);
        fs::write(&file, hpcg.replace("rate = 113.0", &format!("rate = {result}"))).unwrap();
        file.display().to_string()
    };
    let (met, missed) = (demand("met.toml", "113.0"), demand("missed.toml", "180.0"));
    let warnings = |args: &[&str], file: &str| -> Vec<String> {
        let output = interleaf(&[args, &["--demand", file, "--json"]].concat());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let texts = document["warnings"].as_array().into_iter().flatten();
        let texts = texts.map(|text| text.as_str().unwrap().to_string());
        texts.filter(|text| text.contains("misses measured runs")).collect()
    };
    let predict = ["predict", "--platform", "xeon6-cz122", "--weights", "1:0"];
    let plan = ["plan", "--configuration", "rdimm-6400-cz122"];
    let simulate =
        ["simulate", "machine", "--platform", "xeon6-cz122", "--policy", "local", "--duration=12s"];
    let expected = warnings(&predict, &missed);
    assert_eq!(expected.len(), 1, "{expected:?}");
    assert_eq!(warnings(&plan, &missed), expected);
    assert_eq!(warnings(&simulate, &missed), [format!("hpcg: {}", expected[0])]);
    for args in [&predict[..], &plan, &simulate] {
        assert_eq!(warnings(args, &met), Vec::<String>::new(), "{args:?}");
    }
    let table = interleaf(&[&simulate[..], &["--demand", &missed]].concat());
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("\nwarning: hpcg: the forecast misses measured runs: "), "{table}");
}

#[test]
fn too_few_requests_are_an_error_that_names_the_least() {
    for (args, least) in [
        (&["--device", "rdimm-6400-2r"][..], 37_440),
        (&["--device", "rdimm-6400-2r", "--channels", "1"], 3120),
        (&["--device", "stt-mram-ddr3", "--channels", "1"], 144),
        (&["--device", "rdimm-6400-2r", "--outstanding", "8000", "--channels", "1"], 8000),
    ] {
        let with = |requests: u64| dimm(&[args, &["--requests", &requests.to_string()]].concat());
        for requests in [1, 10, 100, least - 1] {
            let output = with(requests);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
            assert!(said.contains(&format!("--requests {requests}:")), "{said}");
            assert!(said.contains(&format!("at least {least} are needed")), "{said}");
            assert!(said.contains("hint: give --requests "), "{said}");
        }
        let output = with(least);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}

/// A simulation needs at least as many requests as arrive in a refresh interval, and at least as
/// many as are outstanding. At a low load, the second number is the larger one: 288 requests per
/// channel.
#[test]
fn the_minimum_of_requests_depends_on_the_load() {
    let args = ["--device", "rdimm-6400-2r", "--channels", "1", "--load", "1GB/s"];
    assert!(dimm(&[&args[..], &["--requests", "288"]].concat()).status.success());
    assert!(!dimm(&[&args[..], &["--requests", "287"]].concat()).status.success());
}

/// The power of a point is its bandwidth times its energy per bit. This holds although the
/// sub-channels are measured for different spans of time, after a warm-up with another load.
#[test]
fn power_and_energy_of_a_point_agree() {
    let words = ["--device", "rdimm-6400-2r", "--channels", "2", "--requests", "40000"];
    let load = ["--mix", "R,W2", "--load", "sweep", "--pattern", "hot-bank"];
    let document = document(&[&words[..], &load].concat());
    for point in document["points"].as_array().unwrap() {
        let number = |field: &str| point[field].as_f64().unwrap();
        let watts = 8e-3 * number("energy_pj_per_bit") * number("bandwidth_gbps");
        assert!((watts / number("power_w") - 1.0).abs() < 1e-4, "{watts} W: {point}");
    }
}

/// Without refresh, the bandwidth is higher. A same-bank refresh covers fewer banks than an
/// all-bank refresh, so refresh commands are more frequent. With the row policy `closed`, most
/// accesses have auto-precharge, so there are fewer precharge commands than with `open`. The
/// command in a document gives the same document again.
#[test]
fn refresh_and_row_policy_are_options() {
    let words = ["--device", "rdimm-6400-2r", "--channels", "1", "--requests", "20000"];
    let run = |more: &[&str]| document(&[&words[..], more].concat());
    let number = |document: &Value, pointer: &str| {
        document.pointer(&format!("/points/0/{pointer}")).and_then(Value::as_f64).unwrap()
    };
    let all_bank = run(&[]);
    assert_eq!((&all_bank["refresh"], &all_bank["row_policy"]), (&Value::Null, &Value::Null));
    assert_eq!(all_bank, run(&["--refresh", "all-bank", "--row-policy", "adaptive"]));
    let (none, same_bank) = (run(&["--refresh", "none"]), run(&["--refresh", "same-bank"]));
    let refreshes = |document| number(document, "commands/refreshes");
    assert_eq!((refreshes(&none), &none["refresh"]), (0.0, &"none".into()));
    assert!(refreshes(&same_bank) > 2.0 * refreshes(&all_bank), "{same_bank}");
    let bandwidth = |document| number(document, "bandwidth_gbps");
    assert!(bandwidth(&none) > 1.03 * bandwidth(&all_bank), "{none}");
    let order = ["--pattern", "random", "--mix", "W2", "--row-policy"];
    let rows = |policy| run(&[&order[..], &[policy]].concat());
    let (open, closed) = (rows("open"), rows("closed"));
    assert!(number(&closed, "commands/precharges") < number(&open, "commands/precharges"));
    for document in [&none, &same_bank, &open, &closed] {
        let command = document["command"].as_str().unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).chain(["--json"]).collect();
        let repeated: Value = serde_json::from_slice(&interleaf(&words).stdout).unwrap();
        assert_eq!(&repeated, document, "{command}");
    }
    for (words, expected) in [
        (
            ["--device", "ddr4-3200-2r", "--refresh", "same-bank"],
            "ddr4-3200-2r has no same-bank refresh",
        ),
        (["--device", "rdimm-6400-2r", "--refresh", "always"], "there is no refresh mode"),
        (["--device", "rdimm-6400-2r", "--row-policy", "never"], "write one of open, closed"),
    ] {
        let output = dimm(&words);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains(expected), "{why}");
    }
}

#[test]
fn a_short_run_has_a_note_and_no_null_numbers() {
    let args = ["--device", "rdimm-6400-2r", "--channels", "1", "--mix", "R,W5"];
    for (requests, notes) in [("3120", 1), ("13000", 0)] {
        let document = document(&[&args[..], &["--requests", requests]].concat());
        let found = document["notes"].as_array().map_or(0, Vec::len);
        assert_eq!(found, notes, "{document}");
        let mut empty = vec![];
        nulls(&document, "", &mut empty);
        empty.dedup();
        assert_eq!(empty, [".points.offered_gbps"], "maximum load");
    }
}

/// A trace with a single request has no offered load, so this number is null in its document. If
/// the request is a write, the latency is null too. No other number is null.
#[test]
fn a_trace_of_one_request_has_no_null_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let [load, latency] = [".points.offered_gbps", ".points.latency_ns"];
    for (line, expected) in [("0 R 0\n", &[load][..]), ("0 W 0\n", &[latency, load])] {
        fs::write(&trace, line).unwrap();
        let document = document(&["--device", "rdimm-6400-2r", "--trace", trace.to_str().unwrap()]);
        let mut empty = vec![];
        nulls(&document, "", &mut empty);
        assert_eq!(empty, expected);
    }
}

/// Without `--outstanding`, each module has the documented default of 288 outstanding lines per
/// channel. The document has the number for all channels together. The command in the document has
/// the option only if the value is not the default.
#[test]
fn all_modules_have_the_same_default_of_outstanding_lines() {
    let run = |device: &str, more: &[&str]| {
        let args = ["--device", device, "--channels", "2", "--requests", "30000"];
        document(&[&args[..], more].concat())
    };
    for device in ["rdimm-6400-2r", "mrdimm-8800-2r", "mrdimm-10400-2r", "mrdimm-12800-2r"] {
        let usual = run(device, &[]);
        assert_eq!(usual["outstanding"], 2 * 288, "{device}");
        assert_eq!(run(device, &["--outstanding", "288"]), usual, "{device}");
        assert!(!usual["command"].as_str().unwrap().contains("outstanding"), "{usual}");
    }
    let more = run("mrdimm-12800-2r", &["--outstanding", "480"]);
    assert_eq!(more["outstanding"], 2 * 480);
    assert!(more["command"].as_str().unwrap().contains(" --outstanding 480 "), "{more}");
}

/// The page has a figure for each socket. The figure shows, over time, the share of the socket's
/// accesses that go to its DRAM, the target of this share, and the socket's best static weights.
#[test]
fn shares_on_two_sockets_are_drawn_per_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, page) = (path("record.json"), path("page.html"));
    let scenario = ["simulate", "machine", "--scenario", "two-sockets", "--duration", "90s"];
    let output = interleaf(&[&scenario[..], &["-o", &record, "--report", &page]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("quiet in socket1 is ") && text.contains("as fast as on dram1"),
        "{text}"
    );
    let document: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(document["domains"][1]["name"], "socket1");
    assert_eq!(document["domains"][1]["tiers"].to_string(), r#"["dram1","cxl1"]"#);
    let periods = document["periods"].as_array().unwrap();
    let first = &periods[0]["domain_hot_share"];
    assert_eq!(first[1].as_array().map(Vec::len), Some(0), "quiet starts at 60 s: {first}");
    let last = &periods.last().unwrap()["domain_hot_share"];
    for (domain, own) in [(0, [0, 2]), (1, [1, 3])] {
        let of = |tier: usize| last[domain][tier].as_f64().unwrap();
        assert!((own.iter().map(|tier| of(*tier)).sum::<f64>() - 1.0).abs() < 1e-5, "{last}");
    }

    let html = fs::read_to_string(&page).unwrap();
    for socket in [0, 1] {
        let id = format!("<figure id=\"-shares-socket{socket}\">");
        let (_, figure) = html.split_once(&id).unwrap();
        let figure = figure.split("</figure>").next().unwrap();
        let axis = format!("part of the accesses of socket{socket} on its dram{socket}, %");
        for label in [&axis, "where the accesses go", "target, decided", "best static, "] {
            assert!(figure.contains(label), "{label}: {figure}");
        }
    }
    assert!(!html.contains("<figure id=\"-shares\">"), "a figure of both sockets");
}

/// A platform file has the memory power as a linear function of bandwidth, fitted to the simulation
/// of the platform's modules. The test simulates the modules, and compares the fitted function, and
/// the power at each load, with the file. The curves of some platforms are simulated, too: the test
/// compares their maximum bandwidths.
#[test]
fn platforms_match_their_simulated_modules() {
    let (mut sweeps, mut compared): (BTreeMap<&str, Value>, usize) = Default::default();
    for (platform, device, channels, outstanding) in [
        ("xeon6-cz122", "rdimm-6400-2r", 12.0, "288"),
        ("gnr120-cz122", "rdimm-6400-2r", 12.0, "288"),
        ("two-sockets", "rdimm-6400-2r", 12.0, "288"),
        ("xeon6-rdimm-6400", "rdimm-6400-2r", 12.0, "288"),
        ("xeon6-mrdimm-8800", "mrdimm-8800-2r", 12.0, "288"),
        ("xeon6-mrdimm-12800", "mrdimm-12800-2r", 12.0, "480"),
        ("xeon6-mrdimm-8800-16ch", "mrdimm-8800-2r", 16.0, "288"),
        ("xeon6-mrdimm-12800-16ch", "mrdimm-12800-2r", 16.0, "480"),
    ] {
        let shown = interleaf(&["show", "--platform", platform, "--json"]);
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let power = &shown["tiers"][0]["power"];
        let of = |document: &Value, field: &str| {
            document[field].as_f64().unwrap_or_else(|| panic!("{platform}: {field}: {document}"))
        };
        let (static_w, pj) = (of(power, "static_w"), of(power, "energy_pj_per_bit"));
        // All channels have the same load. Simulate one of them, and multiply its power.
        let simulated = sweeps.entry(device).or_insert_with(|| {
            let one = ["--device", device, "--channels", "1", "--outstanding", outstanding];
            let sweep = ["--load", "sweep", "--mix", "R,W3,W5", "--requests", "150000"];
            document(&[&one[..], &sweep].concat())
        });
        let line = &simulated["tier_power"];
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.03;
        assert!(near(channels * of(line, "static_w"), static_w), "{platform}: {line} {power}");
        assert!(near(of(line, "energy_pj_per_bit"), pj), "{platform}: {line} {power}");
        for point in simulated["points"].as_array().unwrap() {
            let watts = channels * of(point, "power_w");
            let told = static_w + 8e-3 * pj * channels * of(point, "bandwidth_gbps");
            let limit = of(line, "max_error") + 0.03;
            assert!((told / watts - 1.0).abs() < limit, "{platform}: {told} W for {watts} W");
            let parts = point["power_parts_w"].as_object().unwrap();
            let sum: f64 = parts.values().map(|part| part.as_f64().unwrap()).sum();
            assert!((sum * channels / watts - 1.0).abs() < 1e-4, "{point}");
        }
        let curves = shown["tiers"][0]["curves"].as_array().unwrap();
        for curve in curves.iter().filter(|it| it["points"][0]["provenance"] == "simulated") {
            let points = simulated["points"].as_array().unwrap().iter();
            let gbps = points
                .filter(|point| point["mix"] == curve["mix"])
                .map(|point| channels * of(point, "bandwidth_gbps"));
            // The sweep has only three mixes. Skip the curves of the platform's other mixes.
            let Some(most) = gbps.max_by(f64::total_cmp) else { continue };
            let told = of(curve, "max_bandwidth_gbps");
            assert!((told / most - 1.0).abs() < 0.01, "{platform}: {told} GB/s for {most} GB/s");
            compared += 1;
        }
    }
    assert_eq!(compared, 5 * 3, "three mixes of five platforms");
}

#[test]
fn a_module_inherits_from_a_file_in_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("base")).unwrap();
    let base = "schema = \"interleaf.devices/1\"\ninherits = \"ddr4-3200-1r\"\n\
                [[module]]\nname = \"a\"\n[[module]]\nname = \"b\"\nranks = 2\n";
    fs::write(folder.path().join("base/two.toml"), base).unwrap();
    let own = "schema = \"interleaf.devices/1\"\ninherits = \"base/two.toml:b\"\n\
               [timing]\nt_faw = [\"30 ns\", \"assumed: a test\"]\n[[module]]\nname = \"own\"\n";
    let file = folder.path().join("own.toml");
    fs::write(&file, own).unwrap();
    let args = ["--device", file.to_str().unwrap(), "--requests", "40000", "--channels", "1"];
    let document = document(&args);
    assert_eq!((&document["device"], &document["width"]), (&"own".into(), &"x8".into()));
}
