//! The bandwidth of a team of threads, measured in short windows, so that a disturbance affects one
//! window and not the whole measurement.

use crate::{
    kernel::Checksums,
    point::{Binding, Rate},
    spread::spread,
    team::{Load, Team, TeamError},
};
use interleaf_linux::machine::node::Node;
use std::{
    thread,
    time::{Duration, Instant},
};

/// The windows of time in which a bandwidth is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The time before the first window: caches fill, and cores reach their frequency.
    pub warm_up: Duration,
    /// The length of a window. A window is much longer than the interval between two updates of a
    /// thread's counter (some 10 us) and than the handling of a timer tick, but so short that a
    /// disturbance affects few windows.
    pub window: Duration,
    pub count: usize,
}

impl Default for Windows {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self { warm_up: ms(100), window: ms(20), count: 50 }
    }
}

/// The measured bandwidth of a team of loading threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Bandwidth {
    pub rate: Rate,
    /// The bandwidth in each window, GB/s: bytes that the program loaded and stored.
    pub windows_gbps: Vec<f64>,
    /// The checksums of each thread.
    pub sums: Vec<Checksums>,
}

/// The points of a matrix measurement: every pair of a node with CPUs and a node with memory. Each
/// pair comes with those CPUs of its first node that are in `allowed`
/// ([`crate::team::allowed_cpus`]). A node without such CPUs occurs only as the node with memory.
pub fn pairs(nodes: &[Node], allowed: &[u32]) -> Vec<(Vec<u32>, Binding)> {
    let cpus_of = |node: &Node| -> Vec<u32> {
        node.cpus.iter().filter(|cpu| allowed.contains(cpu)).collect()
    };
    let with_memory = || nodes.iter().filter(|node| node.total_bytes > 0);
    let of_node = |node: &Node| {
        let (cpus, cpu_node) = (cpus_of(node), node.id);
        let place = move |memory: &Node| Binding { cpu_node, memory: vec![(memory.id, 1)] };
        let pairs: Vec<_> = with_memory().map(|memory| (cpus.clone(), place(memory))).collect();
        if cpus.is_empty() { vec![] } else { pairs }
    };
    nodes.iter().flat_map(of_node).collect()
}

/// Starts the threads of a load, measures its bandwidth in `windows`, and verifies the memory.
///
/// # Errors
/// When the load cannot be started, or a thread has read or written a wrong word.
pub fn measure(load: &Load, windows: &Windows) -> Result<Bandwidth, TeamError> {
    let team = Team::start(load)?;
    let windows_gbps = watch(&team, windows);
    let sums = team.stop()?;
    Ok(Bandwidth { rate: rate(load, &windows_gbps), windows_gbps, sums })
}

/// The bandwidth of a team in each window, GB/s: bytes that the program loaded and stored.
pub fn watch(team: &Team, windows: &Windows) -> Vec<f64> {
    thread::sleep(windows.warm_up);
    let slack = windows.window / 256;
    let mut last = read_progress(team, slack);
    let mut next = || {
        thread::sleep(windows.window);
        let now = read_progress(team, slack);
        let (bytes, span) = (now.0 - last.0, now.1 - last.1);
        last = now;
        bytes as f64 / span.as_nanos() as f64
    };
    (0..windows.count).map(|_| next()).collect()
}

/// The maximum number of attempts of [`read_progress`] to read the bytes without a preemption.
const READS_MAX: u32 = 8;

/// The bytes that a team has loaded and stored so far, and the time. The calling thread may be
/// preempted between these two readings. It therefore reads the clock before and after the bytes,
/// and repeats the reading until the two times are at most `slack` apart.
fn read_progress(team: &Team, slack: Duration) -> (u64, Instant) {
    let mut reads = 1;
    loop {
        let (before, bytes) = (Instant::now(), team.program_bytes());
        let now = Instant::now();
        if now - before <= slack || reads == READS_MAX {
            return (bytes, now);
        }
        reads += 1;
    }
}

fn rate(load: &Load, windows_gbps: &[f64]) -> Rate {
    let none = crate::spread::Spread { median: 0.0, relative: 0.0, count: 0 };
    Rate {
        program_gbps: spread(windows_gbps).unwrap_or(none),
        controller_factor: load.traffic.controller_factor(),
        measured_gbps: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{isa::Isa, point::Pattern, region::Pages, traffic::Traffic};
    use interleaf_linux::place::mempolicy::Policy;

    #[test]
    fn a_matrix_has_nodes_without_cpus_as_memory_only() {
        let node = |id, cpus: &[u32], total_bytes| Node {
            id,
            cpus: cpus.iter().copied().collect(),
            total_bytes,
            free_bytes: total_bytes,
            distances: vec![],
            rated: None,
            huge_pages: vec![],
        };
        let nodes = [node(0, &[0, 1], 1 << 30), node(1, &[2, 3], 0), node(2, &[], 1 << 30)];
        let place = |cpu_node, memory| Binding { cpu_node, memory: vec![(memory, 1)] };
        let expected = [
            (vec![0, 1], place(0, 0)),
            (vec![0, 1], place(0, 2)),
            (vec![3], place(1, 0)),
            (vec![3], place(1, 2)),
        ];
        assert_eq!(pairs(&nodes, &[0, 1, 3]), expected);
        assert_eq!(pairs(&nodes, &[]), []);
    }

    #[test]
    fn windows_agree_with_the_total_work() {
        let load = Load {
            traffic: Traffic::READ,
            pattern: Pattern::Sequential,
            isa: *Isa::available().last().unwrap(),
            kernel: None,
            cpus: vec![0],
            bytes: 4 << 20,
            pages: Pages::Small,
            policy: Policy::Default,
            seed: 1,
            delay: Duration::ZERO,
        };
        let ms = Duration::from_millis;
        let windows = Windows { warm_up: ms(0), window: ms(5), count: 10 };
        let found = measure(&load, &windows).unwrap();
        assert_eq!(found.windows_gbps.len(), 10);
        assert_eq!(found.rate.program_gbps.count, 10);
        let best_gbps = found.windows_gbps.iter().copied().fold(0.0, f64::max);
        assert!(best_gbps >= found.rate.program_gbps.median);
        // The team also works outside the windows, so it loads at least the bytes that the windows
        // count.
        let seen: f64 = found.windows_gbps.iter().map(|gbps| gbps * 5e6).sum();
        assert!(seen > 0.0 && found.sums[0].loaded as f64 * 64.0 >= seen);
    }
}
