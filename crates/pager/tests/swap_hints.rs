//! Static programs on swap with hints: their results equal those in memory, and no swap file or
//! control group remains, however the session ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_pager::swap_hints::swap::{self, SwapSession};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

const MIB: u64 = 1 << 20;

/// Serializes the tests, since a control group is named after its process.
static TURN: Mutex<()> = Mutex::new(());

/// Compiles the test program as a static executable.
fn program(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sweep.c");
    let program = folder.join("sweep");
    let made = Command::new("cc").args(["-O2", "-static", "-o"]).arg(&program).arg(source).status();
    assert!(made.unwrap().success());
    program
}

fn command(program: &Path, mib: &str) -> Command {
    let mut command = Command::new(program);
    command.args([mib, "2"]).stdout(Stdio::piped());
    command
}

fn swaps() -> String {
    fs::read_to_string("/proc/swaps").unwrap()
}

fn groups() -> Vec<PathBuf> {
    let trees = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(fs::read_dir);
    let all = trees.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
    all.filter(|path| path.to_string_lossy().contains("interleaf-extend-")).collect()
}

#[test]
fn a_static_program_computes_the_same() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir_in(".").unwrap();
    let program = program(folder.path());
    let expected = command(&program, "160").output().unwrap();
    let mut swap = SwapSession::begin(folder.path(), 64 * MIB, 256 * MIB).unwrap();
    assert!(swaps().contains(".interleaf-swap-"), "{}", swaps());
    let mut child = swap.run_in_group(|| command(&program, "160").spawn().unwrap()).unwrap();
    while child.try_wait().unwrap().is_none() {
        thread::sleep(swap.scan());
    }
    let output = child.wait_with_output().unwrap();
    let (ahead, out) = swap.hinted();
    assert_eq!((output.status, output.stdout), (expected.status, expected.stdout));
    // Only lower bounds: the kernel may have swapped some pages by itself.
    assert!(ahead > 0 && out > 0, "{ahead} ahead, {out} out");
    drop(swap);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the program");
    assert!(!swaps().contains(".interleaf-swap-") && groups().is_empty(), "{}", swaps());
}

/// Runs a session in a child process: does nothing unless another test started the process.
#[test]
fn a_session() {
    let Ok(folder) = env::var("INTERLEAF_TEST_SWAP") else { return };
    let _swap = SwapSession::begin(Path::new(&folder), 64 * MIB, 64 * MIB).unwrap();
    fs::write(Path::new(&folder).join("begun"), "").unwrap();
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn leftovers_of_a_killed_session_are_removed() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut session = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_session"])
        .env("INTERLEAF_TEST_SWAP", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !folder.path().join("begun").exists() {
        assert!(session.try_wait().unwrap().is_none(), "it could not begin");
        thread::sleep(Duration::from_millis(5));
    }
    session.kill().unwrap();
    session.wait().unwrap();
    assert!(swaps().contains(".interleaf-swap-") && !groups().is_empty());
    swap::remove_leftovers(folder.path());
    assert!(!swaps().contains(".interleaf-swap-") && groups().is_empty());
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "the file that says that it had begun"
    );
}

#[test]
fn a_store_without_swap_is_refused() {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    let why = SwapSession::begin(file.path(), MIB, MIB).unwrap_err();
    assert!(why.to_string().ends_with("is no folder"), "{why}");
    let folder = tempfile::tempdir_in(".").unwrap();
    let why = SwapSession::begin(folder.path(), MIB, 1 << 50).unwrap_err();
    assert!(why.why.starts_with("no swap there: "), "{why}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
