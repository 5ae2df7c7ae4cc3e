//! Runs static programs with steered swap: swap in place of the pager, with hints to the kernel.
//! Asserts that their results equal those without swap, and that no swap file or control group
//! remains.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_launch::extend::SteeredSwap;
use interleaf_linux::{place::journal::Journal, root::Root};
use interleaf_swap_hints::group::HintedGroup;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::{Mutex, PoisonError},
    thread,
};

const MIB: u64 = 1 << 20;

/// Serializes the tests. They would use the same control group, because it is named after the
/// process.
static TURN: Mutex<()> = Mutex::new(());

/// Compiles the test program as a static executable in `folder`.
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

/// True if the kernel swaps to a file of this process.
fn has_swap() -> bool {
    let name = format!(".interleaf-swap-{}-", process::id());
    fs::read_to_string("/proc/swaps").unwrap().contains(&name)
}

/// True if this process has a control group.
fn has_group() -> bool {
    let name = format!("interleaf-extend-{}", process::id());
    let trees = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    trees.iter().any(|tree| Path::new(tree).join(&name).exists())
}

#[test]
fn a_static_program_computes_the_same() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir_in(".").unwrap();
    let program = program(folder.path());
    let expected = command(&program, "160").output().unwrap();
    // The OOM killer may end a program in a small group while all pages are being written to swap.
    // The run is then repeated.
    let run = || steered(folder.path(), &program);
    let (output, ahead, out) = (0..4).find_map(|_| run()).unwrap();
    assert_eq!((output.status, output.stdout), (expected.status, expected.stdout));
    // Assert only that hints of both kinds were given: pages to read ahead (`ahead`), and pages to
    // swap out (`out`). The kernel may also have swapped pages without a hint.
    assert!(ahead > 0 && out > 0, "{ahead} ahead, {out} out");
}

/// Runs the program with steered swap. Returns its output, the number of pages that hints asked the
/// kernel to read ahead, and the number that they asked it to swap out. Returns `None` if the OOM
/// killer has ended the program.
fn steered(store: &Path, program: &Path) -> Option<(Output, u64, u64)> {
    let root = Root::live();
    let (mut journal, _) = Journal::open(&root).unwrap();
    let swap = SteeredSwap::begin(&root, &mut journal, store, 64 * MIB, 256 * MIB).unwrap();
    assert!(has_swap() && has_group());
    let start = || command(program, "160").spawn().unwrap();
    let mut child = swap.group().run_inside(start).unwrap();
    let mut hinted = HintedGroup::new(swap.group().processes_file(), 64 * MIB);
    while child.try_wait().unwrap().is_none() {
        thread::sleep(hinted.scan());
    }
    let output = child.wait_with_output().unwrap();
    let (ahead, out) = hinted.hinted();
    let is_killed = swap.group().has_oom_killed();
    journal.close().unwrap();
    assert_eq!(fs::read_dir(store).unwrap().count(), 1, "the program");
    assert!(!has_swap() && !has_group());
    (!is_killed).then_some((output, ahead, out))
}

#[test]
fn a_store_without_swap_is_refused() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Root::live();
    let (mut journal, _) = Journal::open(&root).unwrap();
    let mut refused = |store: &Path, bytes| {
        SteeredSwap::begin(&root, &mut journal, store, MIB, bytes).map(drop).unwrap_err()
    };
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    let why = refused(file.path(), MIB);
    assert!(why.to_string().ends_with("is not a folder"), "{why}");
    let folder = tempfile::tempdir_in(".").unwrap();
    let why = refused(folder.path(), 1 << 50);
    assert!(why.why.starts_with("no swap there: "), "{why}");
    journal.close().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
