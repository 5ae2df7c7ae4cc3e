//! `extend SIZE --dram SIZE [--fixed] [--signal] [--rounds N] [--migrate SECONDS]
//! [--interleave NODE,..]`
//!
//! Runs threads on memory that the pager extends. The store is in memory, and the frames are on all
//! nodes that have CPUs. For each such node, a thread fills its own array of `SIZE` bytes and then
//! sweeps it, while the thread stays on the node. A sweep checks and changes the first word of each
//! cache line. After each round, the program prints for each thread on which nodes the resident
//! pages of its array are: `round 1 node 1 pages 0:3 1:4093`.
//!
//! - `--dram`: the budget of all threads.
//! - `--fixed`: the nodes have fixed, equal shares of the budget; otherwise the pager divides the
//!   budget among the nodes by demand.
//! - `--signal`: the faulting threads handle minor faults.
//! - `--rounds`: number of sweeps. Default: 3.
//! - `--migrate`: after the rounds, the threads sweep for this time, and each thread moves to a
//!   random CPU after some pages. Prints `intact after 12 sweeps`.
//! - `--interleave`: first sets a memory policy for the whole process, which interleaves pages by
//!   the machine's weights.

use std::{
    io::{self, Write},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use interleaf_linux::{
    machine::node::{self, Node},
    place::mempolicy::{Policy, nodes_at},
    process::numa_maps::NodeBytes,
    root::Root,
};
use interleaf_pager::{
    cache::Settings,
    kernel::uffd::FaultMode,
    nodes::{NodeBudget, Nodes},
    pager::{Pager, Region},
};
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::{FileStore, Options};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{
    memory::{LINE, LINES},
    pages::Pages,
    words::{self, number, size},
};

/// Number of pages after which a migrating thread moves to another CPU.
const PAGES_PER_CPU: usize = 97;

/// Factor of a 64-bit linear congruential generator (Knuth, The Art of Computer Programming vol. 2,
/// section 3.3.4).
const FACTOR: u64 = 6_364_136_223_846_793_005;

#[derive(Debug, Default, PartialEq, Eq)]
struct ExtendArgs {
    size: usize,
    dram: usize,
    is_fixed: bool,
    is_signal: bool,
    rounds: u64,
    migrate: Option<Duration>,
    policy: Option<Policy>,
}

impl ExtendArgs {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self { rounds: 3, ..Self::default() };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--dram" => found.dram = size(&value()?)?,
                "--fixed" => found.is_fixed = true,
                "--signal" => found.is_signal = true,
                "--rounds" => found.rounds = number(&value()?)?,
                "--migrate" => found.migrate = Some(Duration::from_secs(number(&value()?)?)),
                "--interleave" => {
                    found.policy = Some(Policy::WeightedInterleave(words::nodes(&value()?)?));
                }
                _ => found.size = size(&arg)?,
            }
        }
        match found.size > 0 && found.dram > 0 {
            true => Ok(found),
            false => Err("write for example 16MiB --dram 16MiB".into()),
        }
    }
}

/// Runs the program. `args` excludes the program's name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let done =
        ExtendArgs::parse(args).map_err(io::Error::other).and_then(|args| extend(&args, out));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If stdout is closed, an error message cannot be delivered.
            let _ = writeln!(out, "extend: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The array of one thread, and the CPUs of its node.
struct Array {
    region: Region,
    node: u32,
    cpus: Vec<u32>,
    /// Number of sweeps so far. The words of a page depend on the number of the sweep that wrote
    /// them.
    sweeps: u64,
}

fn extend(args: &ExtendArgs, out: &mut impl Write) -> io::Result<()> {
    if let Some(policy) = &args.policy {
        policy.set()?;
    }
    let budgets = budgets(args)?;
    let store = FileStore::memory(1, Options::default()).map_err(io::Error::other)?;
    let frames = u32::try_from(args.dram / PAGE_BYTES).map_err(io::Error::other)?;
    let mode = if args.is_signal { FaultMode::Signal } else { FaultMode::Thread };
    let (settings, nodes) = (Settings::for_budget(frames), Nodes::new(&budgets));
    let pager = Pager::with_slot(settings, 1 << 32, store, None, mode, nodes)?;
    let array = |budget: &NodeBudget| {
        let (node, cpus) = (budget.node, budget.cpus.clone());
        Ok(Array { region: pager.region(args.size)?, node, cpus, sweeps: 0 })
    };
    let mut arrays: Vec<Array> = budgets.iter().map(array).collect::<io::Result<_>>()?;
    for round in 1..=args.rounds {
        in_threads(&mut arrays, &|array| {
            stay_on(&array.cpus)?;
            array.sweep(&mut || Ok(()))
        })?;
        for array in &arrays {
            writeln!(out, "round {round} node {} {}", array.node, array.placed()?)?;
        }
    }
    if let Some(time) = args.migrate {
        let cpus: Vec<u32> = arrays.iter().flat_map(|array| array.cpus.clone()).collect();
        in_threads(&mut arrays, &|array| array.migrate(&cpus, time))?;
        let sweeps: Vec<u64> = arrays.iter().map(|array| array.sweeps).collect();
        writeln!(out, "intact after {} sweeps", sweeps.iter().sum::<u64>())?;
    }
    let counts = pager.counts();
    writeln!(out, "read {} written {}", counts.read, counts.written)
}

/// Returns the budget on each node that has CPUs. If `args.is_fixed` is true, each node has an
/// equal share of `args.dram`. Otherwise the pager divides `args.dram` by demand.
fn budgets(args: &ExtendArgs) -> io::Result<Vec<NodeBudget>> {
    let nodes = node::nodes(&Root::live()).map_err(io::Error::other)?;
    let with_cpus: Vec<_> = nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    let share = (args.dram / with_cpus.len().max(1)) as u64;
    let budget = |node: &&Node| NodeBudget {
        node: node.id,
        cpus: node.cpus.iter().collect(),
        available_bytes: node.total_bytes / 2,
        dram_bytes: args.is_fixed.then_some(share),
    };
    Ok(with_cpus.iter().map(budget).collect())
}

/// Calls `work` for all arrays at the same time, with a thread for each array.
fn in_threads(
    arrays: &mut [Array],
    work: &(dyn Fn(&mut Array) -> io::Result<()> + Sync),
) -> io::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            arrays.iter_mut().map(|array| scope.spawn(move || work(array))).collect();
        threads
            .into_iter()
            .try_for_each(|it| it.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
    })
}

/// Pins the calling thread to `cpus`.
fn stay_on(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    Ok(sched_setaffinity(None, &set)?)
}

impl Array {
    /// Checks and changes the first word of each cache line, page after page. Calls `before_page`
    /// before each page.
    fn sweep(&mut self, before_page: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let (node, sweeps) = (u64::from(self.node), self.sweeps);
        for (page, bytes) in self.region.bytes_mut().chunks_exact_mut(PAGE_BYTES).enumerate() {
            before_page()?;
            let mut is_right = true;
            for (at, line) in bytes.chunks_exact_mut(LINE).enumerate() {
                let stamp = |sweeps: u64| match sweeps {
                    0 => 0,
                    _ => ((page * LINES + at) as u64 + sweeps).wrapping_mul(FACTOR) ^ node,
                };
                let word = &mut line[..8];
                is_right &= *word == stamp(sweeps).to_ne_bytes();
                word.copy_from_slice(&stamp(sweeps + 1).to_ne_bytes());
            }
            if !is_right {
                return Err(io::Error::other(format!(
                    "page {page} of node {node} does not hold what sweep {sweeps} wrote"
                )));
            }
        }
        self.sweeps += 1;
        Ok(())
    }

    /// Sweeps until `time` has passed. After each [`PAGES_PER_CPU`] pages, the calling thread moves
    /// to a CPU of `cpus` that is chosen at random.
    fn migrate(&mut self, cpus: &[u32], time: Duration) -> io::Result<()> {
        let (begun, mut pages) = (Instant::now(), 0_usize);
        let mut random = u64::from(self.node) + 1;
        while begun.elapsed() < time {
            self.sweep(&mut || {
                pages += 1;
                if !pages.is_multiple_of(PAGES_PER_CPU) {
                    return Ok(());
                }
                random = random.wrapping_mul(FACTOR).wrapping_add(1);
                stay_on(&[cpus[(random >> 33) as usize % cpus.len()]])
            })?;
        }
        Ok(())
    }

    /// Returns the number of resident pages of the array on each NUMA node.
    fn placed(&self) -> io::Result<Pages> {
        let start = self.region.bytes().as_ptr().addr() as u64;
        let pages = self.region.bytes().len() / PAGE_BYTES;
        let addresses: Vec<u64> =
            (0..pages).map(|page| start + (page * PAGE_BYTES) as u64).collect();
        let mut found = NodeBytes::default();
        for node in nodes_at(&addresses)?.into_iter().flatten() {
            *found.0.entry(node).or_default() += PAGE_BYTES as u64;
        }
        Ok(Pages(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parse = |text: &str| ExtendArgs::parse(text.split_whitespace().map(String::from));
        let all = ExtendArgs {
            size: 16 << 20,
            dram: 8 << 20,
            is_fixed: true,
            is_signal: true,
            rounds: 5,
            migrate: Some(Duration::from_secs(2)),
            policy: Some(Policy::WeightedInterleave([0, 2].into_iter().collect())),
        };
        let text = "16MiB --dram 8MiB --fixed --signal --rounds 5 --migrate 2 --interleave 0,2";
        assert_eq!(parse(text), Ok(all));
        for wrong in ["", "16MiB", "--dram 8MiB", "16MiB --dram 8MiB --migrate 2s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
