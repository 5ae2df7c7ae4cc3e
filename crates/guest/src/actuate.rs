//! `actuate [PID..] --way WAY --weights 60:40 [--then 20:80].. [--hottest] [--rate 64MiB] [--leave]
//! [--panic] [--follows N] [--stay N] [--until WORD] [--within POINTS]`
//!
//! Migrates pages with an actuator: the pages of the processes, or without PIDs those of the whole
//! machine. With `--hottest`, the hottest pages go to the first nodes. With `--leave`, the actuator
//! may switch off the kernel's DAMON modules and NUMA balancing.
//!
//! Prints a sample of the placement every second. After three consecutive samples within POINTS
//! percentage points of the weights, the program prints `reached 60:40 after 12` (seconds) and
//! continues with the next weights. The program fails if N samples (`--follows`) do not suffice.
//! With `--panic` the program panics when the last weights are reached. Without `--panic` the
//! program then takes N more samples (`--stay`), but stops early if a note of the actuator contains
//! WORD (`--until`), or if SIGTERM arrives. At the end the program prints the largest distance of
//! these samples from the weights, in percentage points, as `stayed within 0.40`, restores all
//! settings and exits.

use std::{
    cell::RefCell,
    io::{self, Write},
    process::ExitCode,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use interleaf_linux::{
    machine::damon::{self, probe},
    place::{
        actuator::{Actuator, ActuatorKind, ActuatorState, Goal, Scope, Setting, choose},
        journal::Journal,
    },
    root::Root,
};
use interleaf_model::machine::Order;
use signal_hook::{consts::SIGTERM, flag};

use crate::pages::Pages;

/// Weights count as reached when this number of consecutive samples of the placement are within
/// `--within` percentage points of the weights.
const IN_A_ROW: u32 = 3;

/// Default of `--follows`: far more samples, one per second, than a migration needs. In a guest
/// with the host's clock, a second contains little work while the host is busy.
const FOLLOWS: u32 = 600;

const USAGE: &str = "actuate [PID..] --way WAY --weights 60:40 [--then 20:80].. [--hottest] \
    [--rate 64MiB] [--leave] [--panic] [--follows N] [--stay N] [--until WORD] [--within POINTS]";

struct ActuateArgs {
    pids: Vec<u32>,
    kind: Option<ActuatorKind>,
    weights: Vec<String>,
    order: Order,
    rate: Option<u64>,
    leave: bool,
    panic: bool,
    follows: u32,
    stay: u32,
    until: Option<String>,
    within: f64,
}

/// Runs the program. `args` excludes the program's name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let done = parse(args).ok_or_else(|| io::Error::other(USAGE));
    match done.and_then(|args| actuate(&args, out)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If stdout is closed, an error message cannot be delivered.
            let _ = writeln!(out, "actuate: {why}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Option<ActuateArgs> {
    let mut found = ActuateArgs {
        pids: vec![],
        kind: None,
        weights: vec![],
        order: Order::Interleave,
        rate: None,
        leave: false,
        panic: false,
        follows: FOLLOWS,
        stay: 5,
        until: None,
        within: 3.0,
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--way" => found.kind = Some(ActuatorKind::named(&args.next()?)?),
            "--weights" | "--then" => found.weights.push(args.next()?),
            "--hottest" => found.order = Order::HottestFirst,
            "--rate" => {
                let mib: u64 = args.next()?.strip_suffix("MiB")?.parse().ok()?;
                found.rate = Some(mib << 20);
            }
            "--leave" => found.leave = true,
            "--panic" => found.panic = true,
            "--follows" => found.follows = args.next()?.parse().ok()?,
            "--stay" => found.stay = args.next()?.parse().ok()?,
            "--until" => found.until = Some(args.next()?),
            "--within" => found.within = args.next()?.parse().ok()?,
            pid => found.pids.push(pid.parse().ok()?),
        }
    }
    (!found.weights.is_empty()).then_some(found)
}

/// Returns the goal of the actuator for weights such as `60:40`: the weights of node 0, node 1 and
/// so on.
fn goal(args: &ActuateArgs, weights: &str) -> io::Result<Goal> {
    let weights: Result<Vec<u32>, _> = weights.split(':').map(str::parse).collect();
    let weights = weights.map_err(io::Error::other)?;
    Ok(Goal {
        nodes: (0..).zip(weights).collect(),
        order: args.order,
        demotions: vec![(0, 1)],
        rate_limit_bytes_per_s: args.rate,
    })
}

/// Probes the features of DAMON. Prints a message and returns `None` if the probe fails. A probe
/// works even while `damon_stat` uses DAMON.
fn probed(root: &Root, out: &mut impl Write) -> io::Result<Option<probe::Probed>> {
    match probe::probe(root) {
        Ok(found) => Ok(Some(found)),
        Err(why) => {
            writeln!(out, "not probed: {why}; {:?}", damon::damon(root).ok().flatten())?;
            Ok(None)
        }
    }
}

fn actuate(args: &ActuateArgs, out: &mut impl Write) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    flag::register(SIGTERM, Arc::clone(&stop))?;
    let root = Root::live();
    let (journal, _) = Journal::open(&root).map_err(io::Error::other)?;
    let journal = Rc::new(RefCell::new(journal));
    let scope = match args.pids[..] {
        [] => Scope::Machine,
        _ => Scope::Processes(args.pids.clone()),
    };
    let kernel = probed(&root, out)?;
    let ranked = choose(kernel.as_ref(), &scope, &[], args.order);
    for choice in ranked.available.iter().chain(&ranked.missing) {
        writeln!(out, "choice {choice}")?;
    }
    let kind = args.kind.or(ranked.available.first().map(|choice| choice.kind));
    let kind = kind.ok_or_else(|| io::Error::other("there is no way"))?;
    let setting = Setting { leave: args.leave, ..Setting::new(&root, journal, scope) };
    let mut actuator = kind.build(setting.clone(), &kernel.unwrap_or_default());
    let failure = |why: interleaf_linux::place::actuator::ActuatorError| {
        io::Error::other(format!("{why}\nhint: {}", why.hint()))
    };
    let mut goals = vec![];
    for weights in &args.weights {
        goals.push((weights, goal(args, weights)?));
    }
    for (weights, goal) in &goals {
        actuator.set(goal).map_err(failure)?;
        let start = Instant::now();
        writeln!(out, "{}: {}", actuator.kind().name(), actuator.describe())?;
        let mut in_a_row = 0;
        for period in 1.. {
            if period > args.follows {
                return Err(io::Error::other(format!("{weights} is not reached")));
            }
            in_a_row = match follow(&mut *actuator, &setting, goal, out)?.off_points {
                Some(off) if off <= args.within => in_a_row + 1,
                Some(_) => 0,
                None => in_a_row,
            };
            if in_a_row >= IN_A_ROW {
                break;
            }
        }
        writeln!(out, "reached {weights} after {}", start.elapsed().as_secs())?;
    }
    assert!(!args.panic, "as it was told");
    let mut most: f64 = 0.0;
    for _ in 0..args.stay {
        let Some((_, goal)) = goals.last() else { break };
        let found = follow(&mut *actuator, &setting, goal, out)?;
        most = most.max(found.off_points.unwrap_or(0.0));
        let has = |word: &String| found.notes.iter().any(|note| note.contains(word.as_str()));
        if args.until.as_ref().is_some_and(has) || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    writeln!(out, "stayed within {most:.2}")
}

/// Waits a second and returns a sample of the placement. To save time, the actuator itself samples
/// the placement of processes rarely. If the actuator took no sample in this second, this function
/// samples the placement.
fn follow(
    actuator: &mut dyn Actuator,
    setting: &Setting<'_>,
    goal: &Goal,
    out: &mut impl Write,
) -> io::Result<ActuatorState> {
    thread::sleep(Duration::from_secs(1));
    let mut found = actuator.update().map_err(io::Error::other)?;
    if found.on.is_none() {
        let processes = setting.processes().map_err(io::Error::other)?;
        found.on = setting.placement(&processes).map_err(io::Error::other)?;
        found.off_points = found.on.as_ref().and_then(|on| goal.off_points(on));
    }
    for (word, pids) in [("joined", &found.joined), ("left", &found.left)] {
        pids.iter().try_for_each(|pid| writeln!(out, "{word} {pid}"))?;
    }
    let mib = |bytes: Option<u64>| bytes.unwrap_or(0) >> 20;
    if let Some(on) = found.on.clone() {
        write!(out, "{} ", Pages(on))?;
    }
    writeln!(
        out,
        "off {:.2} tried {} applied {} moved {} demotes {} {}",
        found.off_points.unwrap_or(f64::NAN),
        mib(found.tried_bytes),
        mib(found.applied_bytes),
        mib(found.moved_bytes),
        found.demotes,
        found.notes.join("; ")
    )?;
    out.flush()?;
    Ok(found)
}
