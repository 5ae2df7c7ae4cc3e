//! Reads the resource usage of a command: CPU time, memory and storage of its process and all
//! descendants, from `/proc/PID/stat` and `/proc/PID/io`.
//!
//! The kernel adds the usage of an ended process to the parent that waits for the process. Sums
//! over living processes are therefore complete as long as parents wait for their children. A
//! process whose parent ended first is counted only while the process runs. A zombie still has its
//! usage in `/proc`, except memory.
//!
//! Resident memory is read from `stat`; the kernel's value has an error of some MiB on machines
//! with many CPUs. Shared memory is counted once for each process that shares it.

use crate::syscall;
use interleaf_linux::{
    process::tree,
    root::{Root, RootError},
};
use interleaf_procfs::stat::Stat;
use std::{io, time::Duration};

/// Resource usage of a process and its descendants up to the moment of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The number of living processes.
    pub processes: usize,
    pub threads: usize,
    /// The number of threads that run or wait for a CPU.
    pub running: usize,
    /// CPU time, including that of ended processes.
    pub cpu: Duration,
    /// Resident memory of living processes, bytes.
    pub resident_bytes: u64,
    /// Major faults, including those of ended processes.
    pub major_faults: u64,
    /// Bytes read from and written to storage; `None` if the kernel does not account for them.
    pub storage: Option<Storage>,
    /// The number of processes of other users, whose storage traffic this user may not read.
    pub hidden: usize,
}

/// Bytes read from and written to storage, including those of ended processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    pub read_bytes: u64,
    /// Bytes of the page cache that processes made dirty, minus bytes whose write-back was
    /// cancelled because the file was removed.
    pub written_bytes: u64,
}

/// The usage of one process, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    is_running: bool,
    major_faults: u64,
    cpu_ticks: u64,
    threads: usize,
    resident_pages: u64,
}

impl Usage {
    /// Reads the usage of the process `pid` and its descendants; all 0 if the process does not
    /// exist.
    ///
    /// # Errors
    /// When a file of `/proc` is malformed.
    pub fn of_tree(root: &Root, pid: u32) -> Result<Self, RootError> {
        let mut usage = Self::default();
        let (mut ticks, mut pages) = (0, 0);
        for process in tree(root, pid)? {
            let path = format!("/proc/{}/stat", process.pid);
            let Some(text) = root.peek(&path)? else { continue };
            let used = used(&text).ok_or_else(|| RootError::Content {
                path,
                text: text.clone(),
                expected: "a line of a process",
            })?;
            ticks += used.cpu_ticks;
            pages += used.resident_pages;
            usage.major_faults += used.major_faults;
            if !process.is_zombie {
                usage.processes += 1;
                usage.threads += used.threads;
                usage.running += running(root, process.pid, &used)?;
            }
            match storage(root, process.pid) {
                Ok(None) => {}
                Ok(Some(own)) => {
                    let sum = usage.storage.get_or_insert_default();
                    sum.read_bytes += own.read_bytes;
                    sum.written_bytes += own.written_bytes;
                }
                Err(why) if why.is_permission() => usage.hidden += 1,
                Err(why) => return Err(why),
            }
        }
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        usage.cpu = Duration::from_secs_f64(ticks as f64 / per_second as f64);
        usage.resident_bytes = pages * rustix::param::page_size() as u64;
        Ok(usage)
    }
}

/// CPU time of a machine since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineTime {
    /// Time for which CPUs worked in programs and in the kernel.
    pub busy: Duration,
    /// Steal time: CPU time that the hypervisor took while CPUs had work.
    pub stolen: Duration,
}

/// Reads the CPU time of the machine; `None` if `/proc/stat` does not exist.
///
/// # Errors
/// When `/proc/stat` is malformed.
pub fn machine_time(root: &Root) -> Result<Option<MachineTime>, RootError> {
    let path = "/proc/stat";
    let Some(text) = root.peek(path)? else { return Ok(None) };
    let line = text.lines().next().unwrap_or_default();
    let ticks: Option<Vec<u64>> = line.strip_prefix("cpu ").map_or(Some(vec![]), |numbers| {
        numbers.split_whitespace().map(|number| number.parse().ok()).collect()
    });
    // The fields are user, nice, system, idle, iowait, irq, softirq and steal (proc_stat(5)).
    let Some([user, nice, system, _, _, irq, softirq, stolen, ..]) = ticks.as_deref() else {
        let (path, text) = (path.into(), line.into());
        return Err(RootError::Content { path, text, expected: "the time of all CPUs" });
    };
    let time = |ticks: u64| {
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Duration::from_secs_f64(ticks as f64 / per_second as f64)
    };
    let busy = time(user + nice + system + irq + softirq);
    Ok(Some(MachineTime { busy, stolen: time(*stolen) }))
}

/// Returns the highest peak memory of a process, bytes, among the descendants of this process that
/// were waited for. Until exec, a child inherits the peak of its parent (`exec_mmap` of Linux). If
/// the children's peak does not exceed the peak of this process, it may be inherited, so the result
/// is `None`.
///
/// # Errors
/// When getrusage(2) fails.
pub fn children_resident_max() -> io::Result<Option<u64>> {
    let [own, of_children] = syscall::resident_max()?;
    Ok((of_children > own).then_some(of_children))
}

/// True if the kernel accounts for the storage traffic of processes.
pub fn accounts_for_storage(root: &Root) -> bool {
    root.peek("/proc/self/io").is_ok_and(|text| text.is_some())
}

fn used(text: &str) -> Option<Used> {
    let stat = Stat::parse(text.as_bytes())?;
    Some(Used {
        is_running: stat.is_running(),
        major_faults: stat.major_faults()? + stat.children_major_faults()?,
        cpu_ticks: stat.cpu_ticks()? + stat.children_cpu_ticks()?,
        threads: stat.threads()? as usize,
        resident_pages: stat.resident_pages()?,
    })
}

/// Counts the running threads of a process. A thread that ended after the folder was listed does
/// not count.
fn running(root: &Root, pid: u32, used: &Used) -> Result<usize, RootError> {
    if used.threads <= 1 {
        return Ok(usize::from(used.is_running));
    }
    let folder = format!("/proc/{pid}/task");
    let mut running = 0;
    for thread in root.peek_names(&folder)? {
        let text = root.peek(&format!("{folder}/{thread}/stat"))?.unwrap_or_default();
        let stat = Stat::parse(text.as_bytes());
        running += usize::from(stat.is_some_and(|stat| stat.is_running()));
    }
    Ok(running)
}

/// Reads the storage traffic of a process from `/proc/PID/io`. Returns `None` if the process does
/// not exist, or the kernel does not account for storage traffic.
fn storage(root: &Root, pid: u32) -> Result<Option<Storage>, RootError> {
    let path = format!("/proc/{pid}/io");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(key));
        lines.next()?.strip_prefix(':')?.trim().parse::<u64>().ok()
    };
    let both = value("read_bytes").zip(value("write_bytes"));
    let (read_bytes, dirtied) = both.ok_or_else(|| RootError::Content {
        path,
        text: text.clone(),
        expected: "an account with read_bytes and write_bytes",
    })?;
    let cancelled = value("cancelled_write_bytes").unwrap_or(0);
    Ok(Some(Storage { read_bytes, written_bytes: dirtied.saturating_sub(cancelled) }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{fs, path::Path, process::Command};

    const LINE: &str = "7 (a) (b) R 1 7 7 0 -1 4194560 99 0 3 4 10 20 30 40 20 0 5 0 9876 4096 256";

    fn written(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_line_is_read() {
        let expected = Used {
            is_running: true,
            major_faults: 7,
            cpu_ticks: 100,
            threads: 5,
            resident_pages: 256,
        };
        assert_eq!(used(LINE), Some(expected));
        for wrong in ["", "7 (a) R 1", "7 (a R 1 7 7 0"] {
            assert_eq!(used(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tree_is_summed() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        written(at, "proc/7/stat", LINE);
        for (thread, state) in [(7, 'R'), (8, 'S'), (9, 'R'), (10, 'D'), (11, 'S')] {
            let line = format!("{thread} (a) (b) {state} 1");
            written(at, &format!("proc/7/task/{thread}/stat"), &line);
        }
        written(at, "proc/7/io", "rchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n");
        let child = "20 (c) S 7 7 7 0 -1 0 0 0 0 1 1 2 3 4 20 0 1 0 9999 4096 44";
        written(at, "proc/20/stat", child);
        let io = "read_bytes: 1\nwrite_bytes: 100\ncancelled_write_bytes: 60\n";
        written(at, "proc/20/io", io);
        // A zombie has no memory, but its other usage in `stat` must be counted.
        let zombie = "21 (d) Z 20 7 7 0 -1 0 0 0 2 0 5 0 0 0 20 0 1 0 9999 0 0";
        written(at, "proc/21/stat", zombie);
        written(at, "proc/30/stat", "30 (e) R 1 1 1 0 -1 0 0 0 9 9 9 9 9 9 20 0 1 0 1 1 999");
        let usage = Usage::of_tree(&Root::captured(at), 7).unwrap();
        assert_eq!((usage.processes, usage.threads, usage.running), (2, 6, 2));
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert!((usage.cpu.as_secs_f64() - 115.0 / ticks).abs() < 1e-9, "{usage:?}");
        assert_eq!(usage.resident_bytes, 300 * rustix::param::page_size() as u64);
        assert_eq!(usage.major_faults, 10);
        let storage = Storage { read_bytes: 4097, written_bytes: 8232 };
        assert_eq!((usage.storage, usage.hidden), (Some(storage), 0));
        assert_eq!(Usage::of_tree(&Root::captured(at), 8).unwrap(), Usage::default());
    }

    #[test]
    fn the_time_of_all_cpus_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::captured(folder.path());
        assert_eq!(machine_time(&root).unwrap(), None);
        written(folder.path(), "proc/stat", "cpu  10 20 30 99 99 4 6 50 0 0\ncpu0 1 2\n");
        let time = machine_time(&root).unwrap().unwrap();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert!((time.busy.as_secs_f64() - 70.0 / ticks).abs() < 1e-9, "{time:?}");
        assert!((time.stolen.as_secs_f64() - 50.0 / ticks).abs() < 1e-9, "{time:?}");
        written(folder.path(), "proc/stat", "cpu  10 x\n");
        assert!(machine_time(&root).is_err());
    }

    #[test]
    fn a_malformed_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "proc/7/stat", LINE);
        written(folder.path(), "proc/7/io", "rchar: 9\n");
        let why = Usage::of_tree(&Root::captured(folder.path()), 7).unwrap_err().to_string();
        assert!(why.starts_with("/proc/7/io: "), "{why}");
    }

    #[test]
    fn usage_of_an_ended_child_is_counted_until_wait() {
        let root = Root::live();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut last = Usage::default();
        while last.processes > 0 || last.cpu.is_zero() {
            last = Usage::of_tree(&root, child.id()).unwrap();
        }
        assert!(last.cpu > Duration::from_millis(10), "{last:?}");
        assert_eq!(last.resident_bytes, 0, "it has ended");
        child.wait().unwrap();
        assert_eq!(Usage::of_tree(&root, child.id()).unwrap().cpu, Duration::ZERO);
        let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ${#x}";
        assert!(Command::new("sh").args(["-c", script]).output().unwrap().status.success());
        let most = children_resident_max().unwrap();
        assert!(most.is_none_or(|most| most > 30_000_000), "{most:?}");
    }
}
