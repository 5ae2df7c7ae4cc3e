//! Tests of `simulate --sweep`, which simulates each combination of listed values (a case). The
//! bytes of its CSV file do not depend on the number of cores, nor on an interruption after which
//! the sweep is run again. The second run detects changed rows. The cases may name demand files and
//! weights.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

/// A sweep file with 16 cases: 8 cases of the workload `lbm`, with one row each in the output, and
/// 8 cases of the scenario `pair`, with a row for each of its two workloads.
const SWEEP: &str = r#"
schema = "interleaf.sweep/1"
duration = "30s"
page_groups = 100
platform = ["gnr120-cz122"]
workload = ["lbm"]
scenario = ["pair.toml"]
policy = ["dmi", "hotcold"]
counter_noise = ["2%", "5%"]
seeds = 2
"#;

const PAIR: &str = r#"
schema = "interleaf.scenario/1"
name = "pair, of two"
platform = "gnr120-cz122"

[[workload]]
name = "first"
workload = "lbm"
threads = 16

[[workload]]
name = "sécond"
workload = "lbm"
threads = 16
start = "10s"
"#;

/// The temporary folder of a test, with the sweep file and the scenario file.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        fs::write(folder.path("sweep.toml"), SWEEP).unwrap();
        fs::write(folder.path("pair.toml"), PAIR).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sweep(&self, target: &str, threads: &str) -> Output {
        self.run("sweep.toml", target, threads)
    }

    fn run(&self, sweep: &str, target: &str, threads: &str) -> Output {
        self.simulated("machine", sweep, target, threads)
    }

    /// Runs the sweep file `sweep` with `interleaf simulate KIND` on `threads` threads. The rows go
    /// to the file `target`.
    fn simulated(&self, kind: &str, sweep: &str, target: &str, threads: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_interleaf"))
            .args(["simulate", kind, "--sweep", sweep, "-o", target])
            .env("RAYON_NUM_THREADS", threads)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }

    /// Runs the sweep without an interruption, and returns the content of the CSV file.
    fn whole(&self, threads: &str) -> Vec<u8> {
        let target = format!("whole-{threads}.csv");
        succeeded(&self.sweep(&target, threads));
        fs::read(self.path(&target)).unwrap()
    }
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn written(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn cores_do_not_matter() {
    let folder = Folder::new();
    let [one, two] = ["1", "2"].map(|threads| folder.whole(threads));
    assert_eq!(String::from_utf8_lossy(&one), String::from_utf8_lossy(&two));
    assert!(one.starts_with(b"case,platform,"), "the header is the first line");
    // The file has a header, a row for each of the 8 cases of `lbm`, and two rows for each of the 8
    // cases of `pair`.
    assert_eq!(one.iter().filter(|byte| **byte == b'\n').count(), 1 + 8 + 2 * 8);
}

/// Returns the offsets after the line feeds of `text`, in order.
fn line_ends(text: &[u8]) -> Vec<usize> {
    (0..text.len()).filter(|at| text[*at] == b'\n').map(|at| at + 1).collect()
}

#[test]
fn a_truncated_sweep_is_completed() {
    let folder = Folder::new();
    let whole = folder.whole("2");
    let ends = line_ends(&whole);
    let rows = ends.len();
    let letter = whole.windows(2).position(|pair| pair == "é".as_bytes()).unwrap() + 1;
    let cuts = [
        0,
        5,                   // within the header
        ends[0],             // behind the header
        ends[0] + 1,         // within the number of a case
        ends[3],             // behind a case
        ends[10],            // behind the first row of a case with two rows
        letter,              // within a UTF-8 sequence
        ends[rows - 3] + 20, // within the last case
        ends[rows - 2],      // behind the first row of the last case
        whole.len() - 1,     // before the last line break
    ];
    let path = folder.path("cut.csv");
    for cut in cuts {
        fs::write(&path, &whole[..cut]).unwrap();
        succeeded(&folder.sweep("cut.csv", "2"));
        let resumed = fs::read(&path).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&resumed),
            String::from_utf8_lossy(&whole),
            "cut off at {cut}"
        );
    }
}

#[test]
fn rows_that_are_there_are_kept_in_any_order() {
    let folder = Folder::new();
    let whole = folder.whole("2");
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // A sweep that is interrupted on several cores may leave rows out of order, without the rows of
    // some cases. Keep six rows of the complete file, out of order.
    let some: String = lines[..1].iter().chain(&lines[5..8]).chain(&lines[1..4]).copied().collect();
    let path = folder.path("some.csv");
    fs::write(&path, some).unwrap();
    succeeded(&folder.sweep("some.csv", "2"));
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn a_finished_sweep_is_not_rewritten() {
    let folder = Folder::new();
    let whole = folder.whole("2");
    let path = folder.path("whole-2.csv");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    succeeded(&folder.sweep("whole-2.csv", "2"));
    assert_eq!(fs::read(&path).unwrap(), whole);
    assert_eq!(written(&path), long_ago);
}

#[test]
fn an_altered_row_is_found() {
    let folder = Folder::new();
    let whole = String::from_utf8(folder.whole("2")).unwrap();
    let path = folder.path("altered.csv");
    let lines: Vec<&str> = whole.lines().collect();
    for (line, cell) in [(1, 11), (6, 3), (lines.len() - 1, 12)] {
        let mut cells: Vec<&str> = lines[line].split(',').collect();
        cells[cell] = "1.25";
        let altered = cells.join(",");
        let mut lines = lines.clone();
        lines[line] = &altered;
        let altered = lines.join("\n") + "\n";
        fs::write(&path, &altered).unwrap();
        let output = folder.sweep("altered.csv", "2");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let place = format!("altered.csv:{}: the row was altered", line + 1);
        assert!(said.contains(&place), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), altered, "the file is not touched");
    }
    // An editor or a spreadsheet may change line endings, and put a byte order mark at the
    // beginning. The sweep accepts such a file, and restores the original bytes.
    let crlf = whole.replace('\n', "\r\n");
    let texts = [crlf.clone(), crlf.replacen("\r\n", "\n", 1), format!("\u{feff}{crlf}")];
    for text in texts {
        fs::write(&path, text).unwrap();
        succeeded(&folder.sweep("altered.csv", "2"));
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    }
}

impl Folder {
    /// Starts a sweep of 8000 cases that writes to `rows.csv`, and waits until some rows are
    /// written.
    fn long(&self) -> Child {
        fs::write(self.path("long.toml"), SWEEP.replace("seeds = 2", "seeds = 1000")).unwrap();
        let mut sweep = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        sweep.args(["simulate", "machine", "--sweep", "long.toml", "-o", "rows.csv"]);
        let sweep = sweep.current_dir(self.0.path()).stderr(Stdio::piped()).spawn().unwrap();
        let rows = || fs::read_to_string(self.path("rows.csv")).unwrap_or_default().lines().count();
        while rows() < 4 {
            thread::sleep(Duration::from_millis(10));
        }
        sweep
    }
}

/// Ends a sweep by SIGTERM. If a shell runs this test as a background job, the shell ignores SIGINT
/// for it, and the sweep inherits this, so SIGINT would have no effect.
fn terminated(sweep: Child) -> Output {
    rustix::process::kill_process(Pid::from_child(&sweep), Signal::TERM).unwrap();
    sweep.wait_with_output().unwrap()
}

#[test]
fn a_signal_stops_a_sweep_and_tells_how_to_continue() {
    let folder = Folder::new();
    let output = terminated(folder.long());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{said}");
    let last = said.lines().next_back().unwrap();
    assert!(last.starts_with("stopped: "), "{said}");
    let end = " of 8000 cases are in rows.csv; the same command computes the others";
    assert!(last.ends_with(end), "{said}");
}

/// While a sweep runs, a second sweep into the same file is rejected: the first one replaces the
/// file at its end, so the rows of the second one would be lost.
#[test]
fn a_file_has_the_rows_of_one_running_sweep() {
    let folder = Folder::new();
    let first = folder.long();
    let second = folder.run("long.toml", "rows.csv", "1");
    terminated(first);
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("rows.csv: another sweep that runs now"), "{said}");
    assert!(said.contains("wait until it ends, or name another file"), "{said}");
    // After SIGTERM has ended the first sweep, its lock of the file is released. Another sweep can
    // use the file.
    fs::write(folder.path("rows.csv"), "").unwrap();
    succeeded(&folder.sweep("rows.csv", "2"));
}

#[test]
fn the_number_of_cases_is_printed_first_and_their_time() {
    let folder = Folder::new();
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    let output = folder.sweep("a.csv", "2");
    succeeded(&output);
    let lines: Vec<String> = said(&output).lines().map(String::from).collect();
    let kept = "; Ctrl-C keeps the rows so far, and the same command computes the others";
    assert_eq!(lines[0], format!("16 cases{kept}"), "{lines:?}");
    assert!(lines[1].starts_with("about ") && lines[1].ends_with(" for the other 14"), "{lines:?}");
    let whole = fs::read_to_string(folder.path("a.csv")).unwrap();
    let some: String = whole.split_inclusive('\n').take(4).collect();
    fs::write(folder.path("a.csv"), some).unwrap();
    let output = folder.sweep("a.csv", "2");
    succeeded(&output);
    let first = format!("16 cases{kept}\n3 of them are there\n");
    assert!(said(&output).starts_with(&first), "{}", said(&output));
}

/// Each combination of values of `tier.cxl.count` and `tier.dram.capacity` gives a different
/// platform, so each case has its own platform.
#[test]
fn a_sweep_has_parameters_of_tiers() {
    let folder = Folder::new();
    let sweep = r#"
schema = "interleaf.sweep/1"
duration = "30s"
page_groups = 100
platform = ["gnr120-cz122"]
tier.cxl.count = [2, 8]
tier.dram.capacity = ["64GiB", "768GiB"]
workload = ["lbm"]
policy = ["static"]
weights = ["3:1"]
"#;
    fs::write(folder.path("tiers.toml"), sweep).unwrap();
    succeeded(&folder.run("tiers.toml", "tiers.csv", "2"));
    let text = fs::read_to_string(folder.path("tiers.csv")).unwrap();
    let speeds: Vec<(String, f64)> = csv::Reader::from_reader(text.as_bytes())
        .deserialize::<BTreeMap<String, String>>()
        .map(|row| row.unwrap())
        .map(|row| (row["platform"].clone(), row["speedup"].parse().unwrap()))
        .collect();
    let names: Vec<&str> = speeds.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [(2, "64GiB"), (2, "768GiB"), (8, "64GiB"), (8, "768GiB")]
        .map(|(count, size)| format!("gnr120-cz122:cxl.count={count},dram.capacity={size}"));
    assert_eq!(names, expected);
    assert!(speeds[3].1 > 1.3 * speeds[1].1, "a quarter of pages on two expanders: {speeds:?}");
    for (wrong, problem) in [
        ("tier.cxl.count = [2, 2]", "tier.cxl.count: 2 is there twice"),
        ("tier.cxi.count = [2]", "has no tier \"cxi\""),
        ("tier.cxl.cout = [2]", "cout"),
    ] {
        let text = sweep.replace("tier.cxl.count = [2, 8]", wrong);
        fs::write(folder.path("wrong.toml"), text).unwrap();
        let output = folder.run("wrong.toml", "wrong.csv", "2");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(problem) && told.contains("wrong.toml"), "{told}");
    }
}

/// A sweep file without a duration and a seed takes those of its scenario. If it has a duration or
/// a seed, this value replaces that of the scenario.
#[test]
fn a_sweep_takes_duration_and_seed_of_its_scenario() {
    let folder = Folder::new();
    let pair = PAIR.replacen("name =", "duration = \"20s\"\nseed = 7\nname =", 1);
    fs::write(folder.path("pair.toml"), pair).unwrap();
    let sweep = "schema = \"interleaf.sweep/1\"\npage_groups = 100\nscenario = [\"pair.toml\"]\n\
                 policy = [\"dmi\"]\n";
    let rows = |name: &str, lines: &str| {
        fs::write(folder.path(name), format!("{sweep}{lines}")).unwrap();
        let target = format!("{name}.csv");
        succeeded(&folder.run(name, &target, "2"));
        let text = fs::read_to_string(folder.path(&target)).unwrap();
        // The last two columns are fingerprints: of the sweep file, which differs here, and of the
        // row.
        let results = |row: &str| row.rsplitn(3, ',').last().unwrap().to_string();
        text.lines().map(results).collect::<Vec<String>>()
    };
    let own = rows("own.toml", "");
    assert_eq!(own, rows("same.toml", "duration = \"20s\"\nseed = [7]\n"));
    let others = ["duration = \"30s\"\nseed = [7]\n", "duration = \"20s\"\nseed = [1]\n"];
    for (at, other) in others.into_iter().enumerate() {
        assert_ne!(own, rows(&format!("other-{at}.toml"), other), "{other}");
    }
}

const OWN: &str = r#"
schema = "interleaf.sweep/1"
duration = "30s"
page_groups = 100
platform = ["gnr120-cz122"]
demand = ["own.toml"]
policy = ["static", "hotcold"]
weights = ["1:0", "3:1"]
"#;

#[test]
fn a_sweep_has_demand_files_and_static_weights() {
    let folder = Folder::new();
    let demand = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/lbm.toml");
    let text = fs::read_to_string(demand).unwrap();
    let renamed = text.replacen("name = \"lbm\"", "name = \"own\"", 1);
    assert_ne!(renamed, text);
    fs::write(folder.path("own.toml"), &renamed).unwrap();
    fs::write(folder.path("own-sweep.toml"), OWN).unwrap();
    succeeded(&folder.run("own-sweep.toml", "own.csv", "2"));
    let mut reader = csv::Reader::from_path(folder.path("own.csv")).unwrap();
    let column = |name: &str| reader.headers().unwrap().iter().position(|it| it == name).unwrap();
    let columns = ["scenario", "policy", "weights", "final_weights"].map(column);
    let rows: Vec<Vec<String>> = reader
        .records()
        .map(|row| columns.map(|at| row.as_ref().unwrap()[at].to_string()).to_vec())
        .collect();
    assert_eq!(rows[0], ["own", "static", "1:0", "100:0"]);
    assert_eq!(rows[1], ["own", "static", "3:1", "75:25"]);
    assert_eq!(rows[2][..3], ["own", "hotcold", ""]);
    // The sweep's fingerprint covers the content of the demand file. With a changed demand file,
    // the earlier rows are rejected.
    let changed = renamed.replacen("name = \"own\"", "name = \"other\"", 1);
    fs::write(folder.path("own.toml"), changed).unwrap();
    assert_eq!(folder.run("own-sweep.toml", "own.csv", "2").status.code(), Some(2));
}

/// `simulate --report`, and `interleaf report` of the CSV file, create the same page, except for
/// its title.
#[test]
fn a_sweep_has_a_page() {
    let folder = Folder::new();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let output = command.args(args).current_dir(folder.0.path()).output().unwrap();
        succeeded(&output);
        String::from_utf8(output.stdout).unwrap()
    };
    let words = ["simulate", "machine", "--sweep", "sweep.toml", "-o", "a.csv"];
    run(&[&words[..], &["--report", "a.html"]].concat());
    let page = fs::read_to_string(folder.path("a.html")).unwrap();
    let again = run(&["report", "a.csv"]);
    assert_eq!(page.replace("Sweep sweep", "Sweep a.csv"), again);
    assert_eq!(page.matches("<figure id=").count(), 6, "regret and speed-up of three workloads");
    assert!(page.contains("noise of a counter, %") && page.contains("16 cases"), "{page}");
    let text = run(&["report", "a.csv", "--format", "markdown"]);
    assert!(text.contains("| dmi") && text.contains("| hotcold"), "{text}");
    assert!(run(&["report", "a.csv", "--format", "csv"]).starts_with("policy,platform,workload,"));
    assert!(run(&["report", "a.csv", "--format", "svg"]).contains("<svg"));
}

#[test]
fn a_record_of_something_else_is_not_touched() {
    let folder = Folder::new();
    let whole = folder.whole("2");
    let changes =
        [("sweep.toml", SWEEP.replace("30s", "36s")), ("pair.toml", PAIR.replace("16", "17"))];
    for (name, changed) in changes {
        let before = fs::read(folder.path(name)).unwrap();
        fs::write(folder.path(name), changed).unwrap();
        let output = folder.sweep("whole-2.csv", "2");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(fs::read(folder.path("whole-2.csv")).unwrap(), whole, "{name}");
        fs::write(folder.path(name), before).unwrap();
    }
}

/// A sweep file with two modules (a built-in one, and one in a file) and two mixes. `load` is
/// `sweep`, which stands for a list of offered loads. A case has a row for each offered load.
const MODULES: &str = r#"
schema = "interleaf.sweep.dimm/1"
device = ["rdimm-6400-2r", "own.toml"]
channels = [1]
mix = ["R", "W2"]
load = ["sweep"]
requests = [5_000]
seeds = 2
"#;

const MODULE: &str = r#"
schema = "interleaf.devices/1"
inherits = "rdimm-6400-2r"

[[module]]
name = "own-1r"
ranks = 1
"#;

#[test]
fn a_sweep_of_modules_is_completed_and_has_a_page() {
    let folder = Folder::new();
    fs::write(folder.path("modules.toml"), MODULES).unwrap();
    fs::write(folder.path("own.toml"), MODULE).unwrap();
    let run = |target: &str, threads: &str| {
        let output = folder.simulated("dimm", "modules.toml", target, threads);
        succeeded(&output);
        fs::read(folder.path(target)).unwrap()
    };
    let whole = run("whole.csv", "2");
    assert_eq!(String::from_utf8_lossy(&run("one.csv", "1")), String::from_utf8_lossy(&whole));
    let ends = line_ends(&whole);
    assert_eq!(ends.len(), 1 + 2 * 2 * 2 * 20);
    for cut in [0, ends[0], ends[20], ends[30], whole.len() - 1] {
        fs::write(folder.path("cut.csv"), &whole[..cut]).unwrap();
        assert!(run("cut.csv", "2") == whole, "cut at {cut}");
    }
    let mut reader = csv::Reader::from_reader(&whole[..]);
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    let last = rows.iter().filter(|row| row["offered_gbps"].is_empty());
    let last: Vec<(&str, &str)> =
        last.map(|row| (row["device"].as_str(), row["mix"].as_str())).collect();
    let [r, w2] = ["R", "W2"].map(|mix| ("rdimm-6400-2r", mix));
    let [own_r, own_w2] = ["R", "W2"].map(|mix| ("own.toml", mix));
    assert_eq!(last, [r, r, w2, w2, own_r, own_r, own_w2, own_w2]);
    // A row has the same figures as `simulate dimm` with the same options.
    let words = ["simulate", "dimm", "--device", "own.toml", "--channels", "1", "--mix", "W2"];
    let words = [&words[..], &["--requests", "5000", "--seed", "2", "--json"]].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_interleaf"))
        .args(words)
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    succeeded(&output);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let point = &document["points"][0];
    let row = rows.last().unwrap();
    assert_eq!(row["bandwidth_gbps"], point["bandwidth_gbps"].to_string());
    assert_eq!(row["latency_mean_ns"], point["latency_ns"]["mean"].to_string());
    assert_eq!(row["energy_pj_per_bit"], point["energy_pj_per_bit"].to_string());
    // The sweep's fingerprint covers the file of the module. With a changed module, the earlier
    // rows are rejected, and stay in the file.
    fs::write(folder.path("own.toml"), MODULE.replace("ranks = 1", "ranks = 4")).unwrap();
    let output = folder.simulated("dimm", "modules.toml", "whole.csv", "2");
    assert_eq!(output.status.code(), Some(2));
    assert!(fs::read(folder.path("whole.csv")).unwrap() == whole);
    let output = Command::new(env!("CARGO_BIN_EXE_interleaf"))
        .args(["report", "whole.csv"])
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(page.matches("<figure id=").count(), 4, "latency by load, and three metrics");
    assert!(page.contains("8 cases") && page.contains("own-1r"), "{page}");
}
