//! The side effects of extended memory. An idle program uses no CPU time and little memory. On a
//! busy machine, the pager's thread gets real-time priority. Other users and processes cannot see
//! the program's data. A command that cannot be started leaves nothing behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/common.rs"]
mod common;

use common::{LONG, MIB, TestFolders, compiled, ends, refused, started, sweep, text, until};
use interleaf_procfs::{stat::Stat, status::field};
use std::{
    collections::BTreeMap,
    fs, hint,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Child,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Time for which the test watches an idle program. No thread of the program may run in this time.
const WHILE: Duration = Duration::from_secs(3);

/// Returns the `/proc` folder of the command that `interleaf extend` runs. The command is the last
/// child: the process that releases the store's files is started before.
fn command(interleaf: &Child) -> PathBuf {
    let pid = interleaf.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    Path::new("/proc").join(children.split_whitespace().last().unwrap())
}

/// Returns a map from each thread to the number of its context switches, which does not change
/// while the thread is blocked.
fn runs(process: &Path) -> BTreeMap<String, u64> {
    // Returns `None` if the thread has ended since the folder was read.
    let of = |thread: PathBuf| {
        let name = fs::read_to_string(thread.join("comm")).ok()?;
        let status = fs::read_to_string(thread.join("status")).ok()?;
        let switches = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        let sum = switches.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum();
        let tid = thread.file_name()?.to_string_lossy().into_owned();
        Some((format!("{} {tid}", name.trim()), sum))
    };
    let threads = fs::read_dir(process.join("task")).unwrap();
    threads.filter_map(|thread| of(thread.unwrap().path())).collect()
}

/// True if all threads of a process sleep, and no transfer is outstanding. A constant number of
/// context switches does not suffice: it is also constant while a thread waits for a CPU or for a
/// drive, and during a transfer of `io_uring`.
fn is_idle(process: &Path) -> bool {
    let sleeps = |thread: PathBuf| {
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:\tS"))
    };
    let is_ring = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.ends_with("anon_inode:[io_uring]"))
    };
    let descriptors = fs::read_dir(process.join("fd")).unwrap();
    let mut rings = descriptors.map(|entry| entry.unwrap().path()).filter(is_ring);
    let mut threads = fs::read_dir(process.join("task")).unwrap();
    threads.all(|thread| sleeps(thread.unwrap().path()))
        && rings.all(|ring| is_drained(&process.join("fdinfo").join(ring.file_name().unwrap())))
}

/// True if an `io_uring` has completed all requests, and the process has read all completions.
/// `info` is the path of the ring's file in `/proc/PID/fdinfo`. While the ring is in use, the file
/// may lack these numbers.
fn is_drained(info: &Path) -> bool {
    let info = fs::read_to_string(info).unwrap_or_default();
    let number = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let requests = number("SqTail:");
    requests.is_some() && number("CqTail:") == requests && number("CqHead:") == requests
}

/// While an extended program sleeps, neither its threads nor the pager's threads wake up.
#[test]
fn a_program_that_sleeps_costs_nothing() {
    let folders = TestFolders::new();
    let mut interleaf = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
    let (mut interleaf, _lines) = started(&mut interleaf);
    let process = command(&interleaf);
    until("what is under way is done", || {
        let before = runs(&process);
        let was_idle = is_idle(&process);
        thread::sleep(Duration::from_millis(500));
        was_idle && runs(&process) == before && is_idle(&process)
    });
    let before = runs(&process);
    assert!(before.keys().any(|name| name.starts_with("pager ")), "{before:?}");
    thread::sleep(WHILE);
    assert_eq!(runs(&process), before);
    ends(&mut interleaf);
}

/// True if a thread of the process has the real-time scheduling policy `SCHED_RR`.
fn has_realtime_thread(process: &Path) -> bool {
    let is_realtime = |thread: PathBuf| {
        let stat = fs::read(thread.join("stat")).unwrap_or_default();
        // Field 41 of proc_pid_stat(5) is the scheduling policy. The value 2 is `SCHED_RR`.
        Stat::parse(&stat).and_then(|stat| stat.field(41)) == Some(2)
    };
    let mut threads = fs::read_dir(process.join("task")).unwrap();
    threads.any(|thread| is_realtime(thread.unwrap().path()))
}

/// True if this process may give threads real-time priority (`CAP_SYS_NICE`).
fn may_be_realtime() -> bool {
    let status = fs::read("/proc/self/status").unwrap();
    let set = text(field(&status, "CapEff").unwrap());
    u64::from_str_radix(set.trim(), 16).unwrap() & 1 << 23 != 0
}

/// The pager's thread has real-time priority while more threads are runnable than the machine has
/// CPUs.
#[test]
fn the_pagers_thread_has_priority_on_a_busy_machine() {
    if !may_be_realtime() {
        // Write to stderr directly: the test harness hides the captured output of a test that
        // passes.
        writeln!(io::stderr(), "not tested: real-time priority without CAP_SYS_NICE").unwrap();
        return;
    }
    let folders = TestFolders::new();
    let mut interleaf = folders.extended(&[], &[sweep(), MIB, "1000000", "stdin"]);
    let (mut interleaf, _lines) = started(&mut interleaf);
    let process = command(&interleaf);
    let (start, is_over) = (Instant::now(), AtomicBool::new(false));
    let spin = || {
        // After this time limit the threads end even if the test has failed.
        while !is_over.load(Ordering::Relaxed) && start.elapsed() < 2 * LONG {
            hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 * thread::available_parallelism().unwrap().get() {
            scope.spawn(spin);
        }
        // When its stdin is closed, the program continues its passes over memory.
        drop(interleaf.stdin.take());
        until("real-time priority", || has_realtime_thread(&process));
        is_over.store(true, Ordering::Relaxed);
    });
    ends(&mut interleaf);
}

/// Returns the private memory, KiB, of an extended program that has touched `mib` MiB.
fn private_kib(mib: &str) -> u64 {
    let folders = TestFolders::new();
    let mut interleaf = folders.extended(&[], &[sweep(), mib, "2", "stdin"]);
    let (mut interleaf, _lines) = started(&mut interleaf);
    let rollup = fs::read_to_string(command(&interleaf).join("smaps_rollup")).unwrap();
    ends(&mut interleaf);
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse().unwrap()
}

/// At the same budget, a larger footprint needs more metadata: at most 0.5 % of the additional
/// footprint.
#[test]
fn metadata_takes_at_most_half_a_percent_of_the_footprint() {
    let (few, many) = (private_kib("64"), private_kib("320"));
    let most = 256 * 1024 / 200;
    assert!(many <= few + most, "{few} KiB with 64 MiB, {many} with 320, at most {most} more");
    // The program uses the budget of 16 MiB, and little more.
    assert!((16 << 10..24 << 10).contains(&few), "{few} KiB");
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_session() {
    let folders = TestFolders::new();
    let file = folders.at("not-executable");
    fs::write(&file, "").unwrap();
    let output = folders.extended(&[], &[file.to_str().unwrap()]).output().unwrap();
    refused(&output, "cannot be started: Permission denied", "name a program that is there");
    assert_eq!(folders.left(), 0);
}

/// A store's files have no name in the folder, and other users have no permission to use them.
#[test]
fn a_store_is_private() {
    let folders = TestFolders::new();
    let mut interleaf = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
    let (mut interleaf, _lines) = started(&mut interleaf);
    let store = folders.at("store").canonicalize().unwrap();
    let descriptors = fs::read_dir(command(&interleaf).join("fd")).unwrap();
    let mut found = 0;
    for descriptor in descriptors.map(|entry| entry.unwrap().path()) {
        let Ok(target) = fs::read_link(&descriptor) else { continue };
        if target.starts_with(&store) {
            let file = fs::metadata(&descriptor).unwrap();
            assert_eq!((file.mode() & 0o7777, file.nlink()), (0o600, 0), "{}", target.display());
            found += 1;
        }
    }
    assert!(found > 0, "a store is open");
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0, "and has no name");
    ends(&mut interleaf);
    assert_eq!(folders.left(), 0);
}

/// Two processes share a budget and a store. A process must read zeros in DRAM that the other
/// process used before, and in memory that it freed and allocated again.
#[test]
fn memory_of_another_process_reads_as_zeros() {
    let folders = TestFolders::new();
    let secret = compiled("secret", "secret.c", &[]);
    let secret = secret.to_str().unwrap();
    let session = ["--session", "shared"];
    let (mut hides, _lines) = started(&mut folders.extended(&session, &[secret, "hide", MIB]));
    let output = folders.extended(&session, &[secret, "look", MIB]).output().unwrap();
    assert_eq!(text(&output.stdout), "nothing is seen\n", "{}", text(&output.stderr));
    ends(&mut hides);
    let stats = folders.stats();
    let processes = stats["processes"].as_array().unwrap().iter();
    // Both processes exceeded their share of the budget, so frames passed between them in both
    // directions.
    let evicted = processes.map(|process| process["evicted_pages"].as_u64().unwrap());
    assert!(evicted.clone().count() == 2 && evicted.min() > Some(4096), "{stats}");
}
