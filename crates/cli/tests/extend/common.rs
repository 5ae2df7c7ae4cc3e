//! Common parts of the tests of `interleaf extend`: folders for stores and sessions, and programs
//! that are compiled from C.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use interleaf_linux::launch::command::with_default_signals;
use serde_json::Value;
use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// `DRAM` is the budget of the tests. `MIB` is a footprint of three times the budget, MiB.
pub const DRAM: &str = "16MiB";
pub const MIB: &str = "48";

/// Maximum time that a test waits for a condition.
pub const LONG: Duration = Duration::from_secs(60);

/// The temporary folder of one test. It has the folder `store` for the files that extend DRAM, the
/// folder `run` for the files of sessions, and other files of the test.
pub struct TestFolders {
    folder: tempfile::TempDir,
}

impl TestFolders {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(folder.path().join("store")).unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        Self { folder }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the command `interleaf extend` with `options`. Its sessions are in this test's
    /// folder `run`.
    pub fn interleaf(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.arg("extend").args(options).env("XDG_RUNTIME_DIR", self.at("run"));
        command.env("INTERLEAF_PRELOAD", library());
        with_default_signals(&mut command);
        command
    }

    /// Returns the command `interleaf extend` that runs `words` with `options`, a DRAM budget, a
    /// store, and a file for statistics.
    pub fn extended(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = self.interleaf(&["--dram", DRAM, "--min-alloc", "1MiB"]);
        command.arg("--store").arg(self.at("store"));
        command.arg("--stats").arg(self.at("stats.json"));
        command.args(options).arg("--").args(words);
        command
    }

    pub fn stats(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.at("stats.json")).unwrap()).unwrap()
    }

    /// Returns the processes of the only running session, as the first line of `--monitor --json`
    /// lists them.
    pub fn watched(&self) -> Vec<Value> {
        let mut watch = self.interleaf(&["--monitor", "--json"]);
        let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(watch.stdout.take().unwrap()).read_line(&mut line).unwrap();
        watch.kill().unwrap();
        watch.wait().unwrap();
        let seen: Value = serde_json::from_str(&line).unwrap();
        seen["processes"].as_array().unwrap().clone()
    }

    /// Counts the files that are left in the folders for sessions and stores.
    pub fn left(&self) -> usize {
        let count = |name: &str| fs::read_dir(self.at(name)).map_or(0, Iterator::count);
        count("run/interleaf-extend") + count("store")
    }
}

/// Returns the path of the preload library. Cargo builds it in the folder of the test executables
/// or in the folder above.
pub fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let mut folders = test.ancestors().skip(1).take(2);
    let found =
        folders.find_map(|folder| folder.join("libinterleaf_preload.so").canonicalize().ok());
    found.expect("the library beside the tests")
}

/// Returns the assignment that names the preload library in the environment.
pub fn preload() -> OsString {
    let mut word = OsString::from("INTERLEAF_PRELOAD=");
    word.push(library());
    word
}

pub fn compiled(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/extend").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Two tests may compile the same program at the same time. So the compiler writes a temporary
    // file, which then gets the name of the program.
    let new = program.with_extension(format!("{:?}", thread::current().id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-o"]).arg(&new).arg(source).args(options);
    assert!(compiler.status().unwrap().success(), "a C compiler is needed");
    fs::rename(&new, &program).unwrap();
    program
}

/// Returns the path of the compiled program `sweep`, which makes passes over its memory.
pub fn sweep() -> &'static str {
    static SWEEP: OnceLock<PathBuf> = OnceLock::new();
    SWEEP.get_or_init(|| compiled("sweep", "sweep.c", &[])).to_str().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn refused(output: &Output, problem: &str, hint: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.contains(problem), "{problem}: {stderr}");
    assert!(stderr.contains(&format!("\n\nhint: {hint}")), "{hint}: {stderr}");
}

/// Starts a command that prints "there" when it is ready, and waits for this line. The command's
/// stdin is a pipe. `Child::wait` closes it, unless the test has taken it.
pub fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    try_started(command).expect("memory for the command")
}

/// Like [`started`], but returns `None` if the OOM killer ends the command before it is ready.
pub fn try_started(command: &mut Command) -> Option<(Child, BufReader<std::process::ChildStdout>)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    if line == "there\n" {
        return Some((child, lines));
    }
    let said = text(&child.wait_with_output().unwrap().stderr);
    assert!(is_oom_killed(&said), "{line}{said}");
    None
}

/// True if `said`, the stderr of `interleaf extend`, says that the OOM killer ended the command.
pub fn is_oom_killed(said: &str) -> bool {
    said.contains("the kernel has killed a process")
}

/// Sends SIGTERM to `interleaf extend`, and checks its exit status. Its command ends too.
pub fn ends(child: &mut Child) {
    // Keep stdin open, which `wait` would close. Otherwise a command that waits for the end of its
    // stdin would end by itself, and not by the signal.
    let _stdin = child.stdin.take();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl TestFolders {
    /// Runs `interleaf extend` with a budget, a store, `options` and the command `words`, and waits
    /// for its end. Unlike [`Self::extended`], it requests no statistics.
    pub fn extended_dry(&self, options: &[&str], words: &[&str]) -> Output {
        let mut command = self.interleaf(&["--dram", DRAM, "--store"]);
        command.arg(self.at("store")).args(options);
        if !words.is_empty() {
            command.arg("--").args(words);
        }
        command.output().unwrap()
    }
}
