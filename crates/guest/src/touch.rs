//! `touch SIZE [--weights NODE:WEIGHT,..|--interleave NODE,..|--bind NODE,..] [--huge] [--sweep]
//! [--stay] [--check] [--tell 60:40].. [--group NAME] [--spawn RATE]`
//!
//! Maps anonymous memory, touches all pages, and prints `pages 0:12288 1:4096` and `touched`.
//!
//! - `--weights`: writes the listed weights for the whole machine, and interleaves the program's
//!   pages by these weights.
//! - `--interleave`: interleaves by the machine's weights.
//! - `--bind`: allocates pages from the listed nodes only.
//! - `--huge`: requests transparent huge pages; without the option, the program has small pages
//!   only.
//! - `--stay`: idles until killed.
//! - `--sweep`: writes to each page repeatedly until killed.
//! - `--check`: sweeps, and verifies two words of each page in each sweep. On SIGTERM it verifies
//!   one word of each cache line and prints `intact after 12 sweeps`, or fails.
//! - `--tell`: prints `reached 60:40` when the placement is first within 3 percentage points of the
//!   weights, or has passed them between two samples. With several `--tell`, the program waits for
//!   the weights one after the other, in the order of the options.
//! - `--group`: first moves the program to a control group.
//! - `--spawn`: starts RATE children per second until killed, and prints `spawned 10` after each
//!   ten. A child touches 2 MiB and is killed after 1.5 s.

use std::{
    collections::VecDeque,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::{self, Child, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use memmap2::Advice;
use signal_hook::{consts::SIGTERM, flag};

use interleaf_linux::{place::mempolicy::Policy, process::numa_maps::NodeBytes};
use interleaf_procfs::page::PAGE_BYTES;

use crate::{
    memory::{LINE, LINES, Memory, mappings, within},
    pages::Pages,
    words::{list, nodes, number, size},
};

const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

#[derive(Debug, Default, PartialEq, Eq)]
struct TouchArgs {
    size: usize,
    weights: Vec<(u32, u8)>,
    policy: Option<Policy>,
    huge: bool,
    sweep: bool,
    stay: bool,
    check: bool,
    report: Vec<String>,
    group: Option<String>,
    /// Number of children that are started per second.
    spawn: Option<u32>,
}

/// Runs the program. `args` excludes the program's name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let done = TouchArgs::parse(args).map_err(io::Error::other).and_then(|args| touch(&args, out));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If stdout is closed, an error message cannot be delivered.
            let _ = writeln!(out, "touch: {why}");
            ExitCode::FAILURE
        }
    }
}

impl TouchArgs {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self::default();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            let policy = match arg.as_str() {
                "--huge" => {
                    found.huge = true;
                    continue;
                }
                "--sweep" => {
                    found.sweep = true;
                    continue;
                }
                "--stay" => {
                    found.stay = true;
                    continue;
                }
                "--check" => {
                    found.check = true;
                    continue;
                }
                "--tell" => {
                    found.report.push(value()?);
                    continue;
                }
                "--group" => {
                    found.group = Some(value()?);
                    continue;
                }
                "--spawn" => {
                    found.spawn = Some(number(&value()?)?).filter(|rate| *rate > 0);
                    continue;
                }
                "--bind" => Policy::Bind(nodes(&value()?)?),
                "--interleave" => Policy::WeightedInterleave(nodes(&value()?)?),
                "--weights" => {
                    found.weights = list(&value()?, &weight)?;
                    let nodes = found.weights.iter().map(|(node, _)| *node);
                    Policy::WeightedInterleave(nodes.collect())
                }
                _ => {
                    found.size = size(&arg)?;
                    continue;
                }
            };
            if found.policy.replace(policy).is_some() {
                return Err("one of --weights, --interleave and --bind".to_string());
            }
        }
        if found.size == 0 {
            return Err("how much? write for example 64MiB".to_string());
        }
        Ok(found)
    }
}

fn weight(text: &str) -> Result<(u32, u8), String> {
    let (node, weight) = text.split_once(':').ok_or_else(|| format!("no weight: {text}"))?;
    Ok((number(node)?, number(weight)?))
}

fn touch(args: &TouchArgs, out: &mut impl Write) -> io::Result<()> {
    let named = |name: &str, why: io::Error| io::Error::new(why.kind(), format!("{name}: {why}"));
    if let Some(group) = &args.group {
        join(group).map_err(|why| named(group, why))?;
    }
    for (node, weight) in &args.weights {
        let path = format!("{WEIGHTS}/node{node}");
        fs::write(&path, weight.to_string()).map_err(|why| named(&path, why))?;
    }
    if let Some(policy) = &args.policy {
        policy.set().map_err(|why| named("set_mempolicy", why))?;
    }
    let advice = if args.huge { Advice::HugePage } else { Advice::NoHugePage };
    let mut memory = Memory::map(args.size, advice)?;
    if args.check {
        fill(&mut memory)
    } else {
        sweep(&mut memory)
    }
    // The handler of SIGTERM is registered before `touched` is printed, because SIGTERM may follow
    // at once.
    let stop = Arc::new(AtomicBool::new(false));
    if args.check {
        flag::register(SIGTERM, Arc::clone(&stop))?;
    }
    let pages = Pages(placed(&memory)?);
    writeln!(out, "{pages}")?;
    writeln!(out, "touched")?;
    out.flush()?;
    if args.check {
        return checked(args, &mut memory, &stop, out);
    }
    if let Some(rate) = args.spawn {
        return spawn(rate, out);
    }
    if args.stay {
        loop {
            thread::park();
        }
    }
    if !args.sweep {
        return Ok(());
    }
    let mut awaited = Awaited::new(&args.report);
    loop {
        let begun = Instant::now();
        sweep(&mut memory);
        awaited.report(&memory, out)?;
        rest(begun);
    }
}

/// Number of started children after which a line `spawned` is printed.
const SPAWNED: u32 = 10;

/// Lifetime of a child. It spans a few sampling periods of the Interleaf daemon.
const LIFE: Duration = Duration::from_millis(1500);

/// Starts short-lived children at `rate` per second, until killed.
fn spawn(rate: u32, out: &mut impl Write) -> io::Result<()> {
    let mut children: VecDeque<(Child, Instant)> = VecDeque::new();
    for count in 1_u32.. {
        let mut child = Command::new("/bin/touch");
        child.args(["2MiB", "--stay"]).stdin(Stdio::null()).stdout(Stdio::null());
        children.push_back((child.spawn()?, Instant::now()));
        while let Some((child, _)) =
            children.front_mut().filter(|(_, begun)| begun.elapsed() >= LIFE)
        {
            child.kill()?;
            child.wait()?;
            children.pop_front();
        }
        if count % SPAWNED == 0 {
            writeln!(out, "spawned {count}")?;
            out.flush()?;
        }
        thread::sleep(Duration::from_secs(1) / rate);
    }
    Ok(())
}

/// Joins a control group such as `kept/inner`. The function creates the group, with the memory
/// controller.
fn join(group: &str) -> io::Result<()> {
    let mut folder = PathBuf::from("/sys/fs/cgroup");
    for name in group.split('/') {
        fs::write(folder.join("cgroup.subtree_control"), "+memory")?;
        folder.push(name);
        fs::create_dir_all(&folder)?;
    }
    fs::write(folder.join("cgroup.procs"), process::id().to_string())
}

/// Sweeps and verifies the pages until `stop` is set.
fn checked(
    args: &TouchArgs,
    memory: &mut Memory,
    stop: &AtomicBool,
    out: &mut impl Write,
) -> io::Result<()> {
    let lost =
        |page: usize| io::Error::other(format!("page {page} does not hold what was written"));
    let mut awaited = Awaited::new(&args.report);
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        // Verifies cache line 0, which has the number of the sweep (`round`), and one further cache
        // line, another one in each sweep.
        let line = 1 + round as usize % (LINES - 1);
        for (page, bytes) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
            if read(bytes, 0) != round || read(bytes, line) != stamp(page, line) {
                return Err(lost(page));
            }
            write(bytes, 0, round + 1);
        }
        round += 1;
        awaited.report(memory, out)?;
        rest(begun);
    }
    for (page, bytes) in memory.chunks_exact(PAGE_BYTES).enumerate() {
        let is_kept = (1..LINES).all(|line| read(bytes, line) == stamp(page, line));
        if read(bytes, 0) != round || !is_kept {
            return Err(lost(page));
        }
    }
    writeln!(out, "intact after {round} sweeps")
}

/// Sleeps until the next sweep, to leave the processor to other programs. DAMON samples a page
/// every 100 ms, so with a sweep every 80 ms DAMON finds all pages accessed. If a sweep takes more
/// than half of the 80 ms, the pause is as long as the sweep, but at most 100 ms.
fn rest(begun: Instant) {
    let swept = begun.elapsed();
    thread::sleep(swept.max(PERIOD.saturating_sub(swept)).min(REST_MAX));
}

/// Time from the start of a sweep to the start of the next, if a sweep takes at most half of this
/// time.
const PERIOD: Duration = Duration::from_millis(80);
/// Maximum pause between two sweeps.
const REST_MAX: Duration = Duration::from_millis(100);

/// Interval between samples of the placement for `--tell`. A sample costs more than a sweep.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Writes the first word of each cache line of each page. The word of line 0 counts the sweeps,
/// from 0. The words of the other lines are unique.
fn fill(memory: &mut [u8]) {
    for (page, bytes) in memory.chunks_exact_mut(PAGE_BYTES).enumerate() {
        write(bytes, 0, 0);
        for line in 1..LINES {
            write(bytes, line, stamp(page, line));
        }
    }
}

fn stamp(page: usize, line: usize) -> u64 {
    // The factor is odd, so different indexes have different words.
    ((page * LINES + line) as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns the first word of the cache line with the index `line` in a page.
fn read(page: &[u8], line: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&page[line * LINE..][..8]);
    u64::from_ne_bytes(word)
}

fn write(page: &mut [u8], line: usize, word: u64) {
    page[line * LINE..][..8].copy_from_slice(&word.to_ne_bytes());
}

/// Weights count as reached if the share of the pages on each node differs from the weights by less
/// than this number of percentage points.
const NEAR: f64 = 3.0;

/// Weights such as `60:40` of node 0, node 1 and so on, which are reported when they are reached.
struct Awaited<'a> {
    weights: &'a [String],
    /// True if, in the first sample, node 0 had more pages than the awaited weights (the first
    /// entry of `weights`) give to node 0; `None` before the first sample. If this comparison has
    /// another result in a later sample, the placement has passed the awaited weights between the
    /// samples, and they count as reached.
    above: Option<bool>,
    /// Time of the last sample of the placement.
    sampled: Option<Instant>,
}

impl<'a> Awaited<'a> {
    fn new(weights: &'a [String]) -> Self {
        Self { weights, above: None, sampled: None }
    }

    /// Prints the awaited weights, the first entry of `weights`, if the placement has reached them.
    fn report(&mut self, memory: &Memory, out: &mut impl Write) -> io::Result<()> {
        let Some((weights, others)) = self.weights.split_first() else { return Ok(()) };
        if self.sampled.is_some_and(|sampled| sampled.elapsed() < SAMPLE_INTERVAL) {
            return Ok(());
        }
        self.sampled = Some(Instant::now());
        if self.are_reached(weights, &placed(memory)?) {
            *self = Self::new(others);
            writeln!(out, "reached {weights}")?;
            out.flush()?;
        }
        Ok(())
    }

    fn are_reached(&mut self, weights: &str, on: &NodeBytes) -> bool {
        let wanted: Vec<f64> = weights.split(':').filter_map(|it| it.parse().ok()).collect();
        let sum: f64 = wanted.iter().sum();
        let off = |(node, weight): (u32, &f64)| {
            100.0 * on.on(node) as f64 / on.total() as f64 - 100.0 * weight / sum
        };
        let off: Vec<f64> = (0..).zip(&wanted).map(off).collect();
        let above = off.first().is_some_and(|points| *points > 0.0);
        let was_above = *self.above.get_or_insert(above);
        above != was_above || off.iter().all(|points| points.abs() < NEAR)
    }
}

/// Returns the placement of `memory`.
pub(crate) fn placed(memory: &Memory) -> io::Result<NodeBytes> {
    Ok(within(&mappings()?, &memory.addresses()))
}

/// Changes the first byte of each page.
pub(crate) fn sweep(memory: &mut [u8]) {
    for byte in memory.iter_mut().step_by(PAGE_BYTES) {
        *byte = byte.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TouchArgs, String> {
        TouchArgs::parse(text.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments_are_read() {
        let plain = TouchArgs { size: 64 << 20, ..TouchArgs::default() };
        assert_eq!(parse("64MiB"), Ok(plain));
        let weights = vec![(0, 3), (1, 255)];
        let policy = Some(Policy::WeightedInterleave([0, 1].into_iter().collect()));
        let (report, group) = (vec!["60:40".into(), "20:80".into()], Some("kept".into()));
        let all = TouchArgs {
            size: 1 << 30,
            weights,
            policy,
            huge: true,
            sweep: true,
            stay: true,
            check: true,
            report,
            group,
            spawn: Some(50),
        };
        let text = "1GiB --weights 0:3,1:255 --huge --sweep --stay --check --tell 60:40 \
                    --tell 20:80 --group kept --spawn 50";
        assert_eq!(parse(text), Ok(all));
        for wrong in ["", "64", "64MB", "1MiB --weights 0", "1MiB --weights 0:256", "1MiB --bind"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("1MiB --bind 0 --weights 0:1").is_err());
    }

    #[test]
    fn lost_words_are_detected() {
        let mut memory = Memory::map(4 * PAGE_BYTES, Advice::NoHugePage).unwrap();
        memory.fill(1);
        fill(&mut memory);
        let mut words: Vec<u64> =
            (0..4 * LINES).map(|at| read(&memory[at / LINES * PAGE_BYTES..], at % LINES)).collect();
        words.retain(|word| *word != 0);
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 4 * (LINES - 1), "each place has a word of its own");
        memory[PAGE_BYTES + LINE] ^= 1;
        let (args, stop) = (TouchArgs::default(), AtomicBool::new(false));
        let why = checked(&args, &mut memory, &stop, &mut vec![]).unwrap_err().to_string();
        assert_eq!(why, "page 1 does not hold what was written");
    }

    #[test]
    fn weights_are_reached_in_turn_or_passed() {
        let weights = ["60:40", "45:55", "20:80"].map(String::from);
        let mut awaited = Awaited::new(&weights);
        // Each pair is a sample of a placement of 100 pages: the number of pages on node 0, and the
        // number of weights that are reached after the sample. At 40 and 17 pages on node 0, the
        // placement has passed 45:55 and 20:80 since the previous sample.
        for (pages, reached) in [(100, 0), (64, 0), (62, 1), (62, 1), (40, 2), (30, 2), (17, 3)] {
            let on = NodeBytes([(0, pages), (1, 100 - pages)].into_iter().collect());
            let (first, others) = awaited.weights.split_first().unwrap();
            if awaited.are_reached(first, &on) {
                awaited = Awaited::new(others);
            }
            assert_eq!(weights.len() - awaited.weights.len(), reached, "{pages}");
        }
        let on = NodeBytes([(0, 22), (1, 78)].into_iter().collect());
        assert!(awaited.are_reached("20:80", &on));
    }

    #[test]
    fn the_nodes_of_all_pages_are_reported() {
        let mut out = vec![];
        touch(&TouchArgs { size: 1 << 20, ..TouchArgs::default() }, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        let pages = printed.strip_suffix("\ntouched\n").unwrap().strip_prefix("pages").unwrap();
        let count = |node: &str| node.split_once(':').unwrap().1.parse::<u32>().unwrap();
        assert_eq!(pages.split_whitespace().map(count).sum::<u32>(), 256, "{printed}");
    }
}
