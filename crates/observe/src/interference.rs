//! Measures interference during a measurement: CPU time of other programs, CPU time that the
//! hypervisor took (steal), and changes of CPU frequency.

use interleaf_linux::{
    machine::id_list::IdList,
    root::{Root, RootError},
};
use interleaf_procfs::stat::Stat;
use std::collections::BTreeMap;

const STAT: &str = "/proc/stat";
const OWN: &str = "/proc/self/stat";
const CPUS: &str = "/sys/devices/system/cpu";

/// CPU times from boot to the moment of reading, and the CPU frequencies at this moment. Times are
/// summed over all CPUs, in ticks of [`rustix::param::clock_ticks_per_second`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuCounters {
    /// Time for which CPUs worked for any process.
    pub worked: u64,
    /// Time for which CPUs worked for this process.
    pub own: u64,
    /// Time that the hypervisor took from this guest (steal).
    pub stolen: u64,
    /// The frequency of each online CPU, kHz; empty if the kernel reports no frequencies.
    pub frequencies_khz: BTreeMap<u32, u64>,
}

/// Interference between two readings of [`CpuCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interference {
    /// CPU time of other programs, as a mean number of CPUs.
    pub others: f64,
    /// CPU time that the hypervisor took (steal), as a mean number of CPUs.
    pub stolen: f64,
    /// The largest relative change of any CPU's frequency, such as 0.1 for 10 %; `None` if no CPU's
    /// frequency is known from both readings.
    pub frequency_change: Option<f64>,
}

impl CpuCounters {
    /// Reads the CPU times and the frequencies.
    ///
    /// # Errors
    /// When an existing file cannot be read. Malformed CPU times read as 0.
    pub fn read(root: &Root) -> Result<Self, RootError> {
        // `peek` leaves the file out of a capture (`doctor --capture` copies the machine's files),
        // in which a single reading of counters is useless.
        let text = root.peek(STAT)?.unwrap_or_default();
        let (worked, stolen) = machine(&text).unwrap_or_default();
        let own = own(&root.peek(OWN)?.unwrap_or_default()).unwrap_or(0);
        let online = root.peek(&format!("{CPUS}/online"))?.unwrap_or_default();
        let online = IdList::of_kernel(&online).unwrap_or_default();
        let frequency = |cpu: u32| {
            // The kernel reports no frequency of a CPU that has just gone offline: the read fails
            // with EBUSY.
            let text = root.peek(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq"));
            Some((cpu, text.ok()??.trim().parse().ok()?))
        };
        let frequencies_khz = online.iter().filter_map(frequency).collect();
        Ok(Self { worked, own, stolen, frequencies_khz })
    }

    /// Returns the interference since the reading `earlier`, which was taken `seconds` before this
    /// one.
    pub fn since(&self, earlier: &Self, seconds: f64) -> Interference {
        let ticks = (rustix::param::clock_ticks_per_second() as f64 * seconds).max(1e-9);
        let passed = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let worked = passed(self.worked, earlier.worked) - passed(self.own, earlier.own);
        let changes = self.frequencies_khz.iter().filter_map(|(cpu, now)| {
            let then = earlier.frequencies_khz.get(cpu)?;
            Some((*now as f64 / (*then).max(1) as f64 - 1.0).abs())
        });
        Interference {
            others: worked.max(0.0) / ticks,
            stolen: passed(self.stolen, earlier.stolen) / ticks,
            frequency_change: changes.reduce(f64::max),
        }
    }
}

/// Returns the busy and the stolen ticks of all CPUs, from the first line of `/proc/stat`
/// (proc_stat(5)).
fn machine(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    // The numbers are user, nice, system, idle, iowait, irq, softirq and steal time. User and nice
    // time include the time of guests.
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    Some((at(0) + at(1) + at(2) + at(5) + at(6), at(7)))
}

/// Returns the user and system time in a line of `/proc/PID/stat`, clock ticks.
fn own(text: &str) -> Option<u64> {
    Stat::parse(text.as_bytes())?.cpu_ticks()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::fs;

    #[test]
    fn lines_are_read() {
        let text = "cpu  100 10 50 1000 20 3 4 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine(text), Some((167, 7)));
        assert_eq!(machine("intr 5"), None);
        let line = "42 (a) b) S 7 6 5 0 -1 0 0 0 0 0 70 30 0 0 20 0 1 0 9876 0 0";
        assert_eq!(own(line), Some(100));
        assert_eq!(own("42 (a) S 1"), None);
    }

    #[test]
    fn other_programs_have_the_rest_of_cpu_time() {
        let hz = rustix::param::clock_ticks_per_second();
        let frequencies_khz = BTreeMap::from([(0, 5), (2, 1_000_000)]);
        let earlier = CpuCounters { frequencies_khz, ..CpuCounters::default() };
        let now = CpuCounters {
            worked: 3 * hz,
            own: 2 * hz,
            stolen: hz / 2,
            frequencies_khz: BTreeMap::from([(1, 7), (2, 900_000)]),
        };
        let between = now.since(&earlier, 2.0);
        assert_eq!((between.others, between.stolen), (0.5, 0.25));
        assert!((between.frequency_change.unwrap() - 0.1).abs() < 1e-12);
        // A negative difference, which rounding to ticks can cause, must count as 0.
        assert_eq!(earlier.since(&now, 1.0).others, 0.0);
    }

    #[test]
    fn frequencies_are_those_of_online_cpus() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-1,3\n");
        for cpu in [0, 2, 3] {
            let file = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
            write(&file, &format!("{}\n", 1000 + cpu));
        }
        // The file of CPU 1 is a folder, so its frequency cannot be read, and must be left out.
        let unreadable = "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq";
        fs::create_dir_all(folder.path().join(unreadable)).unwrap();
        let counters = CpuCounters::read(&Root::captured(folder.path())).unwrap();
        assert_eq!(counters.frequencies_khz, BTreeMap::from([(0, 1000), (3, 1003)]));
    }

    #[test]
    fn this_machine_works() {
        let busy = CpuCounters::read(&Root::live()).unwrap();
        assert!(busy.worked > 0);
    }
}
