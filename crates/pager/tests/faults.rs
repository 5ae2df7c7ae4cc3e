//! Tests of programs on failing drives: the content of memory is never wrong, and the last message
//! explains the failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_pager::{cache::Settings, kernel::uffd::FaultMode, nodes::Nodes, pager::Pager};
use interleaf_prefetch::Limits;
use interleaf_procfs::stat::Stat;
use interleaf_store::{FileStore, Options, fault_injection::FaultPlan, retry::RetryPolicy};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::{
    env, fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Settings with a budget of 8 MiB.
const SETTINGS: Settings =
    Settings { frames: 2048, order: 2, prefetch: Limits { initial: 16, max: 256 } };

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

fn pager(path: &Path, faults: FaultPlan, retry: RetryPolicy) -> Pager {
    pager_in(FaultMode::Thread, path, faults, retry)
}

fn pager_in(mode: FaultMode, path: &Path, faults: FaultPlan, retry: RetryPolicy) -> Pager {
    let options = Options { faults: Some(faults), retry, ..Options::default() };
    let store = FileStore::open_all(&[path, path], options).unwrap();
    let pager = Pager::with_slot(SETTINGS, 1 << 30, store, None, mode, Nodes::single());
    pager.unwrap_or_else(|why| {
        panic!("userfaultfd is not available ({why}): these tests need root and Linux 6.8")
    })
}

/// Does `steps` steps. Each step checks the content of one random piece, or of 2000 pieces from a
/// random piece on. Half of the steps also write to the checked pieces. Other threads write to
/// other pieces on the same pages. The expected content of a piece follows from the number of
/// writes to it.
fn work(mut pieces: Vec<&mut [u8]>, seed: u64, steps: u32) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut times = vec![0_u8; pieces.len()];
    let value = |at: usize, times: u8| match times {
        0 => 0,
        _ => (at as u64 ^ seed).wrapping_mul(SEED).to_le_bytes()[7] ^ times,
    };
    for _ in 0..steps {
        let first = random.next_u64() as usize % pieces.len();
        let count = if random.next_u64() % 50 == 0 { 2000 } else { 1 };
        let is_write = random.next_u64() % 2 == 0;
        for at in first..(first + count).min(pieces.len()) {
            let expected = value(at, times[at]);
            let is_right = pieces[at].iter().all(|byte| *byte == expected);
            assert!(is_right, "piece {at} of {seed}: {:?}, not {expected}", &pieces[at][..16]);
            if is_write {
                times[at] = times[at].wrapping_add(1).max(1);
                pieces[at].fill(value(at, times[at]));
            }
        }
    }
}

fn work_on(pager: &Pager, bytes: usize, threads: usize, steps: u32) {
    let mut region = pager.region(bytes).unwrap();
    let mut pieces: Vec<Vec<&mut [u8]>> = (0..threads).map(|_| vec![]).collect();
    for (at, piece) in region.bytes_mut().chunks_mut(1000).enumerate() {
        pieces[at % threads].push(piece);
    }
    thread::scope(|scope| {
        for (seed, pieces) in pieces.into_iter().enumerate() {
            scope.spawn(move || work(pieces, seed as u64, steps));
        }
    });
}

#[test]
fn no_word_is_wrong_on_a_drive_that_fails() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let plan = FaultPlan {
        seed: 1,
        eio: 50,
        again: 20,
        short: 20,
        torn: 20,
        delayed: 50,
        delay_ms: 3,
        reordered: true,
        ..FaultPlan::default()
    };
    let retry = RetryPolicy { tries: 20, first: Duration::from_micros(10) };
    let pager = pager(folder.path(), plan, retry);
    work_on(&pager, 48 << 20, 4, 3000);
    let counts = pager.counts();
    assert!(counts.read > 1000 && counts.written > 1000, "{counts:?}");
}

/// In each lap, the program fills all pages: with ones if they are zeros, and with zeros if they
/// are ones. A failed write-back may leave some ones in the store. A page that the program has
/// filled with zeros afterwards must not be read as ones from the store.
#[test]
fn the_rest_of_a_failed_write_is_never_read() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let plan = FaultPlan { seed: 1, torn: 2, ..FaultPlan::default() };
    let pager = pager(folder.path(), plan, RetryPolicy { tries: 1, ..RetryPolicy::default() });
    let mut region = pager.region(24 << 20).unwrap();
    for lap in 0_u32..12 {
        for (at, page) in region.bytes_mut().chunks_mut(4096).enumerate() {
            let now = (lap % 2) as u8;
            assert!(page.iter().all(|byte| *byte == now), "page {at} in lap {lap}");
            page.fill(1 - now);
        }
    }
}

#[test]
fn no_word_is_wrong_on_a_drive_that_takes_seconds() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let plan = FaultPlan { seed: 1, delayed: 400, delay_ms: 2000, ..FaultPlan::default() };
    let pager = pager(folder.path(), plan, RetryPolicy::default());
    work_on(&pager, 24 << 20, 4, 200);
}

// --- Programs that end by a signal ---------------------------------------------------------------

/// Returns the task, the fault plan and the folder of this process if a test has started it by
/// [`start`]. They are the three words in `INTERLEAF_TEST_FAULTS`. `None` in the process of the
/// tests itself, which does not have this variable.
fn program() -> Option<(String, FaultPlan, String)> {
    let said = env::var("INTERLEAF_TEST_FAULTS").ok()?;
    let mut words = said.split(' ').map(String::from);
    let (what, plan) = (words.next()?, words.next()?);
    Some((what, plan.parse().unwrap(), words.next()?))
}

fn start(what: &str, plan: &str, folder: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_program", "--nocapture", "--test-threads=1"])
        .env("INTERLEAF_TEST_FAULTS", format!("{what} {plan} {}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the counters that show a process's progress: the number of its page faults, and the
/// lines of `/proc/PID/io` with the bytes that it has read from drives and written to them. CPU
/// time does not show progress, because a process that hangs may still poll.
fn progress(pid: u32) -> (Option<u64>, Vec<String>) {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let faults = Stat::parse(&stat).and_then(|stat| stat.field(10)?.checked_add(stat.field(12)?));
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    (faults, io.lines().filter(|line| line.contains("_bytes")).map(String::from).collect())
}

/// Waits for a process to exit. The test fails if the process makes no progress for a minute. It
/// also fails if the process runs for 15 minutes, because a process that faults for ever makes
/// progress too.
fn end(mut program: Child) -> Output {
    let begun = Instant::now();
    let (mut last, mut since) = (progress(program.id()), begun);
    while program.try_wait().unwrap().is_none() {
        let now = progress(program.id());
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed().as_secs() > 60 || begun.elapsed().as_secs() > 15 * 60 {
            program.kill().unwrap();
            panic!("it hangs at {last:?}: {:?}", program.wait_with_output().unwrap());
        }
        thread::sleep(Duration::from_millis(5));
    }
    program.wait_with_output().unwrap()
}

/// Not a test of its own. In a child process that another test has started, runs the task that
/// [`program`] returns. In the process of the tests, does nothing.
#[test]
fn a_program() {
    let Some((what, plan, folder)) = program() else { return };
    let retry = RetryPolicy { tries: 1, ..RetryPolicy::default() };
    let (task, mode) = match what.strip_suffix("-in-signals") {
        Some(task) => (task, FaultMode::Signal),
        None => (&*what, FaultMode::Thread),
    };
    let pager = pager_in(mode, Path::new(&folder), plan, retry);
    match task {
        "write-and-read" => {
            let mut region = pager.region(48 << 20).unwrap();
            for lap in 0_u8..4 {
                for (at, page) in region.bytes_mut().chunks_mut(4096).enumerate() {
                    assert!(page.iter().all(|byte| *byte == lap), "page {at} in lap {lap}");
                    page.fill(lap + 1);
                }
            }
        }
        "work" => work_on(&pager, 48 << 20, 4, u32::MAX),
        _ => panic!("{what}?"),
    }
}

/// The store cannot read some of the pages that it has written. In both fault handling modes,
/// SIGBUS must end the program at such a page: the faulting thread must not wait for ever.
#[test]
fn an_unreadable_page_raises_a_signal_that_is_explained() {
    for what in ["write-and-read", "write-and-read-in-signals"] {
        let folder = tempfile::tempdir_in(".").unwrap();
        let output = end(start(what, "lost_mib=16", folder.path()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{what}: {said}");
        let name = folder.path().display().to_string();
        assert!(said.contains(&format!("the store {name} cannot give back")), "{what}: {said}");
        assert!(said.contains("Input/output error"), "{what}: {said}");
        assert!(said.contains("SIGBUS"), "{what}: {said}");
    }
}

#[test]
fn a_full_store_ends_the_program_with_an_explanation() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let output = end(start("write-and-read", "room=8000000", folder.path()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{said}");
    let name = folder.path().display().to_string();
    assert!(said.contains(&format!("the store {name} cannot take")), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("SIGBUS"), "{said}");
}

#[test]
fn a_killed_program_leaves_no_file() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..12 {
        let mut program = start("work", "seed=1", folder.path());
        thread::sleep(Duration::from_millis(random.next_u64() % 400));
        assert!(program.try_wait().unwrap().is_none(), "it ended: {:?}", end(program));
        program.kill().unwrap();
        assert_eq!(program.wait().unwrap().signal(), Some(libc::SIGKILL));
        let left: Vec<_> = folder.path().read_dir().unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
