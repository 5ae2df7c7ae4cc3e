//! Searches for the fastest kernel for each mix of reads and writes. A kernel is a timed loop of
//! loads and stores. The candidates and the fastest kernel so far run in turn, in many short
//! rounds, so that interference affects all kernels equally.
//!
//! ```text
//! cargo bench -p interleaf-benches --bench kernels -- W2 W10     # by default all mixes
//! ```
//!
//! Environment variables: `THREADS` is the number of threads, `ROUNDS` the number of rounds, `ISA`
//! the instruction set, and `MIB` the memory of a thread, MiB. `ALL` selects all instruction sets.
//! `ONLY=1x4,own 256` selects the kernels whose names end in `1x4` or `own 256`. With `SPAN_MS`,
//! only the best kernel is measured, as other programs measure: once for this time in ms, and not
//! in chunks. `SMALL` selects base pages instead of huge pages, and `RANDOM` a random order of
//! accesses. On a shared machine, only ratios are meaningful.

use interleaf_linux::place::mempolicy::Policy;
use interleaf_measure::{
    bandwidth::{self, Windows},
    clock::{Clock, ticks},
    isa::Isa,
    kernel::{Kernel, Walk},
    region::{Pages, Region},
    spread::spread,
    team::{Load, Team, pin},
    traffic::{LINE_BYTES, Pattern},
};
use std::{
    env,
    error::Error,
    io::{self, Write},
    sync::Barrier,
    thread,
    time::Duration,
};

/// The default mixes: those whose kernels differ.
const MIXES: [&str; 7] = ["R", "W5", "W6", "W2", "W3", "W11", "W10"];

/// `WARM` is the number of chunks in the warm-up, and `CHUNKS` that of measured chunks. A chunk is
/// about 256 KiB of accesses. The measured chunks together take about 10 ms.
const WARM: usize = 40;
const CHUNKS: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mixes = if named.is_empty() { MIXES.map(String::from).to_vec() } else { named };
    let number = |name: &str, otherwise: usize| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let is = |name: &str| env::var(name).is_ok();
    let best = *Isa::available().last().ok_or("no instruction set")?;
    let isa = env::var("ISA").ok().map_or(Ok(best), |name| name.parse())?.here()?;
    for name in mixes {
        let load = Load {
            traffic: name.parse()?,
            pattern: if is("RANDOM") { Pattern::Random } else { Pattern::Sequential },
            isa,
            kernel: None,
            cpus: (0..number("THREADS", 1) as u32).collect(),
            bytes: number("MIB", 128) << 20,
            pages: if is("SMALL") { Pages::Small } else { Pages::Huge },
            policy: Policy::Default,
            seed: 1,
            delay: Duration::ZERO,
        };
        match number("SPAN_MS", 0) {
            0 => search(&load, number("ROUNDS", 15))?,
            span => whole(load, Duration::from_millis(span as u64))?,
        }
    }
    Ok(())
}

/// Prints the bandwidth of the best kernel during the time `span`, for comparison with other
/// programs.
fn whole(load: Load, span: Duration) -> Result<(), Box<dyn Error>> {
    let load = Load { kernel: Kernel::best_here(&load.traffic), ..load };
    let windows = Windows { warm_up: Duration::from_millis(50), window: span, count: 1 };
    let team = Team::start(&load)?;
    let windows_gbps = bandwidth::watch(&team, &windows, &mut || true).unwrap_or_default();
    team.stop()?;
    tell(&format!("{} {:.2}", load.traffic, windows_gbps[0]));
    Ok(())
}

/// Prints the bandwidth of each candidate, and its ratio to that of the [`chosen`] kernel, highest
/// ratio first.
fn search(load: &Load, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut kernels = vec![chosen(load)?];
    let all = env::var("ALL").map_or(vec![load.isa], |_| Isa::available());
    let only = env::var("ONLY").unwrap_or_default();
    let is_asked = |kernel: &Kernel| {
        let name = kernel.to_string();
        let asked = only.split(',').any(|end| name.ends_with(end));
        kernel.serves(&load.traffic) && asked
    };
    kernels.extend(all.into_iter().flat_map(Kernel::candidates).filter(is_asked));
    let mut rates = vec![vec![]; kernels.len()];
    let mut regions = vec![];
    for _ in 0..rounds {
        for (kernel, rates) in kernels.iter().zip(&mut rates) {
            let load = Load { kernel: Some(*kernel), ..load.clone() };
            let (rate, back) = rate(&load, regions)?;
            rates.push(rate);
            regions = back;
        }
    }
    let mut rows: Vec<(f64, String)> = vec![];
    for (kernel, own) in kernels.iter().zip(&rates) {
        let ratios: Vec<f64> = own.iter().zip(&rates[0]).map(|(own, first)| own / first).collect();
        let (Some(ratio), Some(rate)) = (spread(&ratios), spread(own)) else { continue };
        let best = own.iter().copied().fold(0.0, f64::max);
        let text = format!(
            "{:.3} ± {:.3}  {:6.2} GB/s  best {best:6.2}  {kernel}",
            ratio.median,
            ratio.relative / 2.0,
            rate.median,
        );
        rows.push((ratio.median, text));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    tell(&format!("{}, {} threads", load.traffic, load.cpus.len()));
    rows.iter().for_each(|(_, text)| tell(&format!("  {text}")));
    Ok(())
}

/// Returns the kernel that the candidates are compared with: the fastest known kernel of the
/// instruction set, or of this machine if `ALL` is set.
fn chosen(load: &Load) -> Result<Kernel, String> {
    let best = match env::var("ALL") {
        Ok(_) => Kernel::best_here(&load.traffic),
        Err(_) => Kernel::best(load.isa, &load.traffic),
    };
    best.ok_or_else(|| format!("no kernel of {} for {}", load.isa, load.traffic))
}

/// Measures the bandwidth of a load, GB/s: the sum over all threads of the median over a thread's
/// chunks, which is robust against interference. `regions` is the memory that the previous call
/// returned. It is used again, and returned.
fn rate(load: &Load, regions: Vec<Region>) -> Result<(f64, Vec<Region>), Box<dyn Error>> {
    let mut regions = regions.into_iter();
    let mut walks = vec![];
    for _ in &load.cpus {
        let region = match regions.next() {
            Some(region) => region,
            None => Region::new(load.bytes, load.pages, &load.policy)?,
        };
        let kernel = load.kernel.ok_or("no kernel")?;
        walks.push(Walk::new(region, &load.traffic, load.pattern, kernel, load.seed)?);
    }
    let ready = &Barrier::new(walks.len());
    let rates: Vec<Result<f64, String>> = thread::scope(|scope| {
        let work = |(walk, &cpu)| scope.spawn(move || timed(walk, cpu, ready));
        let threads: Vec<_> = walks.iter_mut().zip(&load.cpus).map(work).collect();
        threads.into_iter().map(|it| it.join().unwrap_or_else(|_| Err("panic".into()))).collect()
    });
    let rate = rates.into_iter().sum::<Result<f64, String>>()?;
    walks.iter_mut().try_for_each(|walk| walk.verify().map(drop))?;
    Ok((rate, walks.into_iter().map(Walk::into_region).collect()))
}

fn timed(walk: &mut Walk, cpu: u32, ready: &Barrier) -> Result<f64, String> {
    pin(cpu).map_err(|why| why.to_string())?;
    ready.wait();
    let clock = Clock::here();
    let mut rates = vec![];
    let mut last = ticks();
    for chunk in 0..WARM + CHUNKS {
        let lines = walk.chunk().map_err(|fault| fault.to_string())?;
        let now = ticks();
        if chunk >= WARM {
            rates.push((lines * LINE_BYTES) as f64 / clock.ns(now - last));
        }
        last = now;
    }
    spread(&rates).map(|spread| spread.median).ok_or_else(|| "no rate".into())
}

/// Prints a line. Ignores errors, such as that of a closed stdout.
fn tell(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
