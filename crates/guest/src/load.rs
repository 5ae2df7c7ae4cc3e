//! `load --platform FILE --demand FILE --threads N --hot 128MiB [--cold 64MiB] [--bind NODE,..]
//! [--nodes NODE,..] [--feed SOCKET] [--report FILE] [--speed 20] [--phase 60s:0.1]..
//! [--phase-file FILE] [--for 2s]`
//!
//! Emulates a server's workload on a small machine: the memory is real, the speed is computed. The
//! program maps hot and cold memory, touches all pages, and prints the placement of the hot pages
//! (`pages 0:12288 1:4096`) and `touched`. Then it repeats a step ten times a second. A step writes
//! to each hot page, so that DAMON finds hot pages accessed and cold pages idle. Some steps also
//! sample the placement. From the last sample, the program computes the bandwidth that threads of
//! this demand would reach on this platform ([`Emulated`]). Each step adds a line to the report.
//!
//! A second thread sends the traffic that counters would report to SOCKET ([`feed`](crate::feed)),
//! twenty times a second. This thread does not wait for the steps, because a busy emulator must not
//! delay the counters. The program runs until it is killed, or for the time of `--for`.
//!
//! Tier `i` of the platform is node `i`, or the i-th node of `--nodes`. The inherited memory policy
//! places the pages; with `--bind` all pages are on the nodes that `--bind` lists.
//!
//! With `--speed 20`, emulated time runs twenty times as fast as the clock: a second of the clock
//! counts the traffic of 20 s on a server. The duration of a phase is the emulated time that the
//! phase takes with all pages on the first tier; with a better placement the phase ends sooner. In
//! `60s:0.1` a tenth of the threads work for 60 s, then the next phase begins. After the last phase
//! the first begins again. With `--phase-file` the program creates the file with the content 0, and
//! the number in the file selects the phase.
//!
//! The report has a header and a line per step. `time_s` is emulated time, `clock_s` real time, and
//! `phase` counts from 0. For each tier `N`, `hot_N` and `cold_N` are the shares of the hot and of
//! the cold pages that are on the tier, and `gbps_N` is the bandwidth of the tier. `gbps` is the
//! sum of the bandwidths.

mod args;
mod counting;
mod emulated;
mod input;

pub use emulated::{Emulated, Reached};
pub use input::read;

use std::{
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use interleaf_linux::{place::mempolicy::Policy, process::numa_maps::NodeBytes};
use memmap2::Advice;

use crate::{
    memory::{Memory, mappings, within},
    pages::Pages,
    touch::sweep,
};
use args::LoadArgs;
use counting::Counting;

const STEP: Duration = Duration::from_millis(100);

/// Minimum time between two samples of the placement. A sample walks the page tables of the
/// program, which takes as long as one pass over the pages. The minimum is a time and not a number
/// of steps, because in a slow guest a step takes much longer than [`STEP`].
const SAMPLE_INTERVAL: Duration = Duration::from_millis(300);

/// Runs the program. `args` excludes the program's name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let done = LoadArgs::parse(args).map_err(io::Error::other).and_then(|args| load(&args, out));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If stdout is closed, an error message cannot be delivered.
            let _ = writeln!(out, "load: {why}");
            ExitCode::FAILURE
        }
    }
}

fn load(args: &LoadArgs, out: &mut impl Write) -> io::Result<()> {
    let (platform, measured_on, demand) = input::read(&args.platform, &args.demand)?;
    let emulated = Emulated::new(platform, &measured_on, &demand, args.threads, &args.phases);
    let nodes = nodes(args, emulated.tiers())?;
    if let Some(nodes) = &args.bind {
        Policy::Bind(nodes.clone()).set()?;
    }
    let mut hot = map(args.hot)?;
    let cold = if args.cold > 0 { Some(map(args.cold)?) } else { None };
    let cold = cold.as_ref().map(Memory::addresses);
    let places = LoadMemory { hot: hot.addresses(), cold, nodes };
    if let Some(file) = &args.phase_file {
        fs::write(file, "0\n")?;
    }
    writeln!(out, "{}", Pages(within(&mappings()?, &places.hot)))?;
    writeln!(out, "touched")?;
    out.flush()?;
    let first = emulated.reached(0, &places.sample()?.hot);
    let counting = Counting::new(&emulated, args, first);
    thread::scope(|scope| {
        scope.spawn(|| counting.run());
        let done = work(args, &emulated, &mut hot, &places, &counting);
        counting.stop();
        done
    })
}

/// Repeats the program's step: touches the hot pages, updates the emulated speed, and adds a line
/// to the report.
fn work(
    args: &LoadArgs,
    emulated: &Emulated,
    hot: &mut [u8],
    places: &LoadMemory,
    counting: &Counting<'_>,
) -> io::Result<()> {
    let mut report = Report::create(args, emulated.tiers())?;
    let begun = Instant::now();
    let (mut before, mut done) = (begun, 0.0);
    let mut seen = places.sample()?;
    let mut sampled = begun;
    let mut reached: Option<(usize, Reached)> = None;
    let mut phase = 0;
    loop {
        sweep(hot);
        if sampled.elapsed() >= SAMPLE_INTERVAL {
            let now = places.sample()?;
            sampled = Instant::now();
            if now != seen {
                (seen, reached) = (now, None);
            }
        }
        phase = match &args.phase_file {
            Some(file) => phase_in(file, emulated.phases())?.unwrap_or(phase),
            None => emulated.phase(done),
        };
        let known = reached.take().filter(|(of, _)| *of == phase);
        let (_, now_reached) = reached.insert(known.unwrap_or_else(|| {
            let now_reached = emulated.reached(phase, &seen.hot);
            counting.set(&now_reached);
            (phase, now_reached)
        }));
        thread::sleep(STEP.saturating_sub(before.elapsed()));
        let now = Instant::now();
        let seconds = args.speed * (now - before).as_secs_f64();
        before = now;
        done += now_reached.speed * seconds / emulated.local_runtime_s();
        report.add(now - begun, phase, &seen, now_reached)?;
        if args.duration.is_some_and(|duration| now - begun >= duration) {
            break;
        }
    }
    Ok(())
}

/// Returns the 0-based number of the phase, read from `file`. `None` while the file is empty: it is
/// being written. A number that is not below `phases` is an error.
fn phase_in(file: &Path, phases: usize) -> io::Result<Option<usize>> {
    let text = fs::read_to_string(file)?;
    if text.is_empty() {
        return Ok(None);
    }
    let phase = text.trim().parse().ok().filter(|phase| *phase < phases);
    let wrong = || io::Error::other(format!("{}: no phase below {phases}: {text}", file.display()));
    phase.map(Some).ok_or_else(wrong)
}

/// Returns the node of each tier.
fn nodes(args: &LoadArgs, tiers: usize) -> io::Result<Vec<u32>> {
    match &args.nodes {
        Some(nodes) if nodes.len() != tiers => {
            Err(io::Error::other(format!("--nodes wants a node for each of {tiers} tiers")))
        }
        Some(nodes) => Ok(nodes.clone()),
        None => Ok((0..).take(tiers).collect()),
    }
}

/// Maps and touches memory without huge pages, because small pages can be placed one by one.
fn map(bytes: usize) -> io::Result<Memory> {
    let mut memory = Memory::map(bytes, Advice::NoHugePage)?;
    sweep(&mut memory);
    Ok(memory)
}

/// The memory of the load: its address ranges, and the nodes of the tiers.
struct LoadMemory {
    hot: Range<u64>,
    cold: Option<Range<u64>>,
    /// The node of each tier.
    nodes: Vec<u32>,
}

/// The shares of hot and cold pages on each tier.
#[derive(Clone, Debug, PartialEq)]
struct TierShares {
    hot: Vec<f64>,
    cold: Vec<f64>,
}

impl LoadMemory {
    fn sample(&self) -> io::Result<TierShares> {
        let mappings = mappings()?;
        let shares = |addresses: &Range<u64>| shares(&within(&mappings, addresses), &self.nodes);
        let cold = self.cold.as_ref().map_or(Ok(vec![0.0; self.nodes.len()]), shares)?;
        Ok(TierShares { hot: shares(&self.hot)?, cold })
    }
}

/// Returns the share of the pages that is on each node of `nodes`. A page on any other node is an
/// error.
fn shares(found: &NodeBytes, nodes: &[u32]) -> io::Result<Vec<f64>> {
    if let Some(other) = found.0.keys().find(|node| !nodes.contains(node)) {
        return Err(io::Error::other(format!("pages are on node {other}, which is not a tier")));
    }
    let total = found.total();
    if total == 0 {
        return Err(io::Error::other("no page is in memory"));
    }
    Ok(nodes.iter().map(|node| found.on(*node) as f64 / total as f64).collect())
}

/// The file of the option `--report`, with a line for each step of the program; `None` without the
/// option. `speed` is emulated time divided by real time.
struct Report {
    file: Option<File>,
    speed: f64,
}

impl Report {
    fn create(args: &LoadArgs, tiers: usize) -> io::Result<Self> {
        let mut file = args.report.as_ref().map(File::create).transpose()?;
        if let Some(file) = &mut file {
            let mut names = "time_s\tclock_s\tphase".to_string();
            for part in ["hot", "cold", "gbps"] {
                (0..tiers).for_each(|tier| names += &format!("\t{part}_{tier}"));
            }
            file.write_all((names + "\tgbps\n").as_bytes())?;
        }
        Ok(Self { file, speed: args.speed })
    }

    /// Writes a line in a single call, so that a reader finds only whole lines.
    fn add(
        &mut self,
        clock: Duration,
        phase: usize,
        seen: &TierShares,
        reached: &Reached,
    ) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let clock_s = clock.as_secs_f64();
        let mut line = format!("{:.3}\t{clock_s:.3}\t{phase}", self.speed * clock_s);
        for share in seen.hot.iter().chain(&seen.cold) {
            line += &format!("\t{share:.6}");
        }
        for gbps in &reached.tier_bandwidth_gbps {
            line += &format!("\t{gbps:.3}");
        }
        line += &format!("\t{:.3}\n", reached.bandwidth_gbps());
        file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process};

    use super::*;

    /// A program that writes to the file truncates it first.
    #[test]
    fn an_empty_file_selects_no_other_phase() {
        let file = std::env::temp_dir().join(format!("interleaf-phase-{}", process::id()));
        let phase = |text: &str| {
            fs::write(&file, text).unwrap();
            phase_in(&file, 2).ok()
        };
        assert_eq!(
            [phase(""), phase("1\n"), phase("2"), phase("x")],
            [Some(None), Some(Some(1)), None, None]
        );
        fs::remove_file(&file).unwrap();
    }

    /// Runs the program with all pages on node 0, the first tier. The report has the speed of that
    /// placement.
    #[test]
    fn the_speed_of_the_placement_is_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let report = std::env::temp_dir().join(format!("interleaf-load-{}", process::id()));
        let text = format!(
            "--platform {0}/platforms/gnr120-cz122.toml --demand {0}/workloads/lbm.toml \
             --threads 119 --hot 4MiB --cold 2MiB --nodes 0,1 --speed 10 --for 500ms --report {1}",
            root.display(),
            report.display()
        );
        let args = LoadArgs::parse(text.split_whitespace().map(String::from)).unwrap();
        let mut out = vec![];
        load(&args, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "pages 0:1024\ntouched\n");
        let text = fs::read_to_string(&report).unwrap();
        fs::remove_file(&report).unwrap();
        let mut lines = text.lines();
        let names = "time_s\tclock_s\tphase\thot_0\thot_1\tcold_0\tcold_1\tgbps_0\tgbps_1\tgbps";
        assert_eq!(lines.next(), Some(names));
        let (platform, measured_on, demand) = read(&args.platform, &args.demand).unwrap();
        let emulated = Emulated::new(platform, &measured_on, &demand, 119, &[]);
        let gbps = emulated.reached(0, &[1.0, 0.0]).bandwidth_gbps();
        let rows = lines.map(|line| {
            let row: Vec<f64> = line.split('\t').map(|word| word.parse().unwrap()).collect();
            assert!((row[0] - 10.0 * row[1]).abs() < 0.011, "{line}");
            assert_eq!(row[2..8], [0.0, 1.0, 0.0, 1.0, 0.0, (gbps * 1e3).round() / 1e3]);
            row[1]
        });
        let clock: Vec<f64> = rows.collect();
        assert!(clock.len() > 1 && clock.is_sorted() && clock[clock.len() - 1] >= 0.5);
    }

    #[test]
    fn pages_outside_of_the_tiers_are_an_error() {
        let found = NodeBytes([(0, 12288), (1, 4096)].into_iter().collect());
        assert_eq!(shares(&found, &[0, 1]).unwrap(), [0.75, 0.25]);
        assert_eq!(shares(&found, &[1, 0, 2]).unwrap(), [0.25, 0.75, 0.0]);
        let why = shares(&found, &[0, 2]).unwrap_err().to_string();
        assert_eq!(why, "pages are on node 1, which is not a tier");
        assert!(shares(&NodeBytes::default(), &[0]).is_err());
    }
}
