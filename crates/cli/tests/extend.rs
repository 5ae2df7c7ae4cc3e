//! `interleaf extend` on the machine of the tests, with programs that a C compiler makes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// The budget, and a footprint that is three times as large.
const DRAM: &str = "16MiB";
const MIB: &str = "48";

/// How long something is waited for.
const LONG: Duration = Duration::from_secs(60);

/// A place for stores, sessions and programs, of one test.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join("store")).unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        Self { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `interleaf extend` with options, whose sessions are this place's own.
    fn interleaf(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.arg("extend").args(options).env("XDG_RUNTIME_DIR", self.at("run"));
        command.env("INTERLEAF_PRELOAD", library());
        command
    }

    /// The same with a budget, a store and a command.
    fn extended(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = self.interleaf(&["--dram", DRAM, "--min-alloc", "1MiB"]);
        command.arg("--store").arg(self.at("store"));
        command.arg("--stats").arg(self.at("stats.json"));
        command.args(options).arg("--").args(words);
        command
    }

    fn stats(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.at("stats.json")).unwrap()).unwrap()
    }

    /// What is left of sessions and of stores.
    fn left(&self) -> usize {
        let count = |name: &str| fs::read_dir(self.at(name)).map_or(0, Iterator::count);
        count("run/interleaf-extend") + count("store")
    }
}

/// The library that is preloaded, built as it is for users.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_interleaf")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "interleaf-preload", "--target-dir"]);
        cargo.arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        folder.join("libinterleaf_preload.so")
    })
}

fn compiled(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/extend").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Two tests may do so at once: what is run is whole.
    let new = program.with_extension(format!("{:?}", thread::current().id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-o"]).arg(&new).arg(source).args(options);
    assert!(compiler.status().unwrap().success(), "a C compiler is needed");
    fs::rename(&new, &program).unwrap();
    program
}

/// The program that goes over memory.
fn sweep() -> &'static str {
    static SWEEP: OnceLock<PathBuf> = OnceLock::new();
    SWEEP.get_or_init(|| compiled("sweep", "sweep.c", &[])).to_str().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(output: &Output, problem: &str, hint: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(problem), "{problem}: {stderr}");
    assert!(stderr.contains(&format!("\n\nhint: {hint}")), "{hint}: {stderr}");
}

/// Starts a command that says "there", and waits until it has.
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    (child, lines)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_has_three_times_the_budget() {
    let place = Place::new();
    let output = place.extended(&[], &[sweep(), MIB, "3"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "as it was left\n".into()));
    let stats = place.stats();
    assert_eq!(stats["schema"], "interleaf.extend/1");
    assert_eq!((&stats["dram_bytes"], &stats["exit_code"]), (&(16 << 20).into(), &0.into()));
    let count = |name: &str| stats[name].as_u64().unwrap_or_else(|| panic!("{name}: {stats}"));
    // Two thirds were written once at least, and read in each lap but the first, less what stayed.
    let third = 16 << 20;
    assert!(count("written_bytes") >= 2 * third, "{stats}");
    assert!(count("read_bytes") >= 2 * third, "{stats}");
    assert!(count("evicted_pages") * 4096 >= 2 * third, "{stats}");
    assert!(count("faults") > 0 && count("prefetch_hits") <= count("prefetched_pages"), "{stats}");
    assert!(stats["stall_s"].as_f64().unwrap() > 0.0);
    let process = &stats["processes"][0];
    assert_eq!((&process["name"], &process["dram_bytes"]), (&"sweep".into(), &(16 << 20).into()));
    assert!(stderr.contains("interleaf: 16 MiB of DRAM, "), "{stderr}");
    assert_eq!(place.left(), 0, "nothing is left behind");
}

#[test]
fn how_a_command_ends_is_passed_on() {
    let place = Place::new();
    let output = place.extended(&[], &["sh", "-c", "echo out; exit 42"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(42), "out\n".into()));
    assert!(text(&output.stderr).contains("nothing was extended: "), "{}", text(&output.stderr));
    let output = place.extended(&["-q"], &["sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(128 + 9), String::new()));
    assert_eq!(place.stats()["signal"], 9);
}

#[test]
fn a_signal_is_passed_on_and_nothing_is_left() {
    for (signal, number) in [("-TERM", 15), ("-INT", 2)] {
        let place = Place::new();
        let mut command = place.extended(&[], &[sweep(), MIB, "2", "60000"]);
        let (mut child, _lines) = started(&mut command);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        assert_eq!(place.stats()["signal"], number);
        assert_eq!(place.left(), 0);
    }
}

#[test]
fn what_the_killed_leave_is_found_by_the_next() {
    let place = Place::new();
    let mut command = place.extended(&[], &[sweep(), MIB, "2", "1500"]);
    let (mut child, mut lines) = started(&mut command);
    child.kill().unwrap();
    child.wait().unwrap();
    let clean = || text(&place.interleaf(&["--clean"]).output().unwrap().stderr);
    assert_eq!(clean(), "interleaf: no session has left anything\n", "its command goes on");
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "as it was left\n", "and has its memory");
    until("the folder of the killed is removed", || clean().contains(": removed, its session"));
    assert_eq!(place.left(), 0);
}

#[test]
fn children_share_the_budget_have_one_of_their_own_or_none() {
    let two =
        format!("{0} {MIB} 2 & one=$!; {0} {MIB} 2 & two=$!; wait $one && wait $two", sweep());
    let names = |options: &[&str]| {
        let place = Place::new();
        let output = place.extended(options, &["bash", "-c", &two]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let stats = place.stats();
        let processes = stats["processes"].as_array().unwrap().iter();
        let all = processes.map(|it| (it["name"].clone(), it["dram_bytes"].as_u64().unwrap()));
        all.collect::<Vec<_>>()
    };
    let shared = names(&["--processes", "2"]);
    assert_eq!(shared, vec![("sweep".into(), 8 << 20), ("sweep".into(), 8 << 20)]);
    let own = names(&["--children", "own"]);
    assert_eq!(own, vec![("sweep".into(), 16 << 20), ("sweep".into(), 16 << 20)]);
    assert_eq!(names(&["--children", "none"]), vec![]);
}

#[test]
fn a_child_that_is_forked_has_a_part_of_its_own() {
    let place = Place::new();
    let program = compiled("fork", "fork.c", &[]);
    let output = place.extended(&[], &[program.to_str().unwrap(), MIB]).output().unwrap();
    assert_eq!(text(&output.stdout), "each has its own\n", "{}", text(&output.stderr));
    let stats = place.stats();
    let processes = stats["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{stats}");
    // The least that a process has comes on top, where the first has all.
    let held: u64 = processes.iter().map(|process| process["dram_bytes"].as_u64().unwrap()).sum();
    assert!(held <= (16 + 4) << 20, "{stats}");
    assert!(processes.iter().all(|process| process["read_bytes"].as_u64() > Some(0)), "{stats}");
}

#[test]
fn one_after_the_other_they_have_all_of_it() {
    let place = Place::new();
    let three = format!("{0} 20 2 && {0} 20 2 && exec {0} 20 2", sweep());
    let output = place.extended(&[], &["sh", "-c", &three]).output().unwrap();
    assert_eq!(text(&output.stdout), "as it was left\n".repeat(3), "{}", text(&output.stderr));
    let stats = place.stats();
    let processes = stats["processes"].as_array().unwrap();
    assert!(!processes.is_empty(), "{stats}");
    assert!(processes.iter().all(|process| process["dram_bytes"] == 16 << 20), "{stats}");
    // Of each 4 MiB did not fit.
    assert!(stats["evicted_pages"].as_u64().unwrap() * 4096 >= 3 * (4 << 20), "{stats}");
}

#[test]
fn what_is_started_under_one_name_shares_one_budget() {
    let place = Place::new();
    let options = ["--session", "job", "--processes", "2"];
    let mut first = place.extended(&options, &[sweep(), MIB, "2", "1500"]);
    let (first, _lines) = started(&mut first);
    let second = place.extended(&options, &[sweep(), MIB, "2"]).output().unwrap();
    assert_eq!(text(&second.stdout), "as it was left\n");
    assert!(first.wait_with_output().unwrap().status.success());
    // Who is the last tells of all.
    let stats = place.stats();
    let held: Vec<_> = stats["processes"].as_array().unwrap().iter().collect();
    assert!(held.iter().all(|process| process["dram_bytes"] == 8 << 20), "{stats}");
    assert_eq!((held.len(), place.left()), (2, 0));
    // Ranks are told by their launcher.
    let rank = |words: &[&str]| {
        let mut command = place.extended(&[], words);
        command.env("PMIX_NAMESPACE", "job@1").env("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
        command
    };
    let (first, _lines) = started(&mut rank(&[sweep(), MIB, "2", "1500"]));
    assert!(rank(&[sweep(), MIB, "2"]).status().unwrap().success());
    assert!(first.wait_with_output().unwrap().status.success());
    let stats = place.stats();
    let held: Vec<_> = stats["processes"].as_array().unwrap().iter().collect();
    assert!(held.iter().all(|process| process["dram_bytes"] == 8 << 20), "{stats}");
    let mut third = place.extended(&options, &[sweep(), MIB, "2", "60000"]);
    let (mut third, _lines) = started(&mut third);
    let other = place.extended(&["--session", "job"], &["true"]).output().unwrap();
    refused(&other, "a session with other settings is there", "give every part of the session");
    third.kill().unwrap();
    third.wait().unwrap();
}

#[test]
fn a_session_is_watched_from_outside() {
    let place = Place::new();
    let none = place.interleaf(&["--monitor"]).output().unwrap();
    refused(&none, "no session runs that could be watched", "start one with interleaf extend");
    let mut command = place.extended(&[], &[sweep(), MIB, "2", "2500"]);
    let (mut child, _lines) = started(&mut command);
    let strange = place.interleaf(&["--monitor=1"]).output().unwrap();
    refused(&strange, "--monitor=1: no session has this process", "start one");
    let pid = format!("--monitor={}", child.id());
    let seen = place.interleaf(&[&pid, "--json"]).output().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(text(&seen.stderr).contains("interleaf: the session has ended"));
    let lines = text(&seen.stdout);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["schema"], &first["exit_code"]),
        (&"interleaf.extend/1".into(), &Value::Null)
    );
    assert_eq!(first["processes"][0]["name"], "sweep");
    assert!(first["written_bytes"].as_u64().unwrap() > 0, "{first}");
}

#[test]
fn what_cannot_be_extended_is_refused() {
    let place = Place::new();
    let refuses = |words: &[&str], problem: &str, hint: &str| {
        refused(&place.extended(&[], words).output().unwrap(), problem, hint);
    };
    let fixed = compiled("fixed", "sweep.c", &["-static"]);
    refuses(&[fixed.to_str().unwrap(), "1", "1"], "it is linked statically", "link it dynamically");
    refuses(&["no-such-program"], "no-such-program: there is no such program", "name a program");
    let script = place.at("script");
    fs::write(&script, format!("#!{}\n", fixed.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    refuses(&[script.to_str().unwrap()], "a script, read by ", "link it dynamically");
    let other = place.at("other-user");
    fs::copy(sweep(), &other).unwrap();
    if std::os::unix::fs::chown(&other, Some(65534), None).is_ok() {
        fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).unwrap();
        let words = [other.to_str().unwrap(), "1", "1"];
        refuses(&words, "takes no library from its caller", "run it as the user");
    }
    let file = place.at("data");
    fs::write(&file, "precious").unwrap();
    let mut command = place.interleaf(&["--dram", DRAM, "--store"]);
    let output = command.arg(&file).args(["--", "true"]).output().unwrap();
    refused(&output, "is neither a folder nor a block device", "name the folder");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn a_dry_run_says_what_it_found_and_runs_nothing() {
    let place = Place::new();
    let output = place.extended_dry(&["--dry-run", "--json"], &["sh", "-c", "echo ran"]);
    let plan: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((output.status.code(), &plan["can_be_done"]), (Some(0), &true.into()), "{plan}");
    let checks = plan["checks"].as_array().unwrap().iter();
    let found: Vec<_> = checks.map(|check| check["what"].as_str().unwrap()).collect();
    for what in ["library", "command", "userfaultfd", "io_uring", "store", "memory"] {
        assert!(found.contains(&what), "{what}: {plan}");
    }
    let fixed = compiled("fixed-too", "sweep.c", &["-static"]);
    let output = place.extended_dry(&["--dry-run"], &[fixed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "the answer is no");
    assert!(text(&output.stdout).contains("cannot run: "), "{}", text(&output.stdout));
}

#[test]
fn an_estimate_measures_the_store_and_leaves_nothing_there() {
    let place = Place::new();
    let output = place.extended_dry(&["--estimate", "--footprint", "64MiB", "--json"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let plan: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let estimate = &plan["estimate"];
    assert!(estimate["read_gbps"].as_f64().unwrap() > 0.0, "{plan}");
    let depths = estimate["drives"][0]["random"].as_array().unwrap().iter();
    let depths: Vec<_> = depths.map(|random| random["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [1, 16, 64]);
    let row = &estimate["rows"][0];
    assert_eq!(
        (&row["footprint_bytes"], &row["missing_share"]),
        (&(64 << 20).into(), &0.75.into())
    );
    assert!(row["read_gbps"].as_f64() > estimate["read_gbps"].as_f64(), "{plan}");
    assert_eq!(place.left(), 0);
}

impl Place {
    /// What runs nothing, and writes no statistics.
    fn extended_dry(&self, options: &[&str], words: &[&str]) -> Output {
        let mut command = self.interleaf(&["--dram", DRAM, "--store"]);
        command.arg(self.at("store")).args(options);
        if !words.is_empty() {
            command.arg("--").args(words);
        }
        command.output().unwrap()
    }
}
