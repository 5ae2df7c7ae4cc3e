//! The search for the best loop of each kind: every candidate against the chosen one, one after the
//! other in many short rounds, so that whatever else the machine does disturbs them alike.
//!
//! ```text
//! cargo bench -p interleaf-benches --bench kernels -- W2 W10     # these mixes; all without
//! ```
//!
//! `THREADS`, `ROUNDS`, `ISA` and `MIB` in the environment change what their names say. Only the
//! ratios mean something on a machine that others use too.

use interleaf_linux::mempolicy::Policy;
use interleaf_measure::{
    bandwidth::{self, Windows},
    isa::Isa,
    kernel::Kernel,
    point::Pattern,
    region::{Pages, Region},
    spread::spread,
    team::{Load, Team, TeamError},
    traffic::Traffic,
};
use std::{env, error::Error, time::Duration};

/// The mixes that differ in what a kernel does.
const MIXES: [&str; 7] = ["R", "W5", "W6", "W2", "W3", "W11", "W10"];

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let mixes = if named.is_empty() { MIXES.map(String::from).to_vec() } else { named };
    let number = |name: &str, otherwise: usize| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let best = *Isa::available().last().ok_or("no instruction set")?;
    let isa = env::var("ISA").ok().map_or(Ok(best), |name| name.parse())?.here()?;
    for name in mixes {
        let load = Load {
            traffic: name.parse()?,
            pattern: Pattern::Sequential,
            isa,
            kernel: None,
            cpus: (0..number("THREADS", 1) as u32).collect(),
            bytes: number("MIB", 128) << 20,
            pages: Pages::Huge,
            policy: Policy::Default,
            seed: 1,
            delay: Duration::ZERO,
        };
        search(&load, number("ROUNDS", 15))?;
    }
    Ok(())
}

/// Prints of each candidate how fast it was, the fastest first.
fn search(load: &Load, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut kernels = vec![chosen(load.isa, &load.traffic)?];
    kernels.extend(
        Kernel::candidates(load.isa).into_iter().filter(|kernel| kernel.serves(&load.traffic)),
    );
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
    println!("{}, {} threads", load.traffic, load.cpus.len());
    rows.iter().for_each(|(_, text)| println!("  {text}"));
    Ok(())
}

fn chosen(isa: Isa, traffic: &Traffic) -> Result<Kernel, String> {
    Kernel::best(isa, traffic).ok_or_else(|| format!("no kernel of {isa} for {traffic}"))
}

/// A short look at a load, in memory that is there already.
fn rate(load: &Load, regions: Vec<Region>) -> Result<(f64, Vec<Region>), TeamError> {
    let ms = Duration::from_millis;
    let team = Team::start_in(load, regions)?;
    let windows = Windows { warm_up: ms(4), window: ms(5), count: 5 };
    let rates = bandwidth::watch(&team, &windows);
    let (_, regions) = team.release()?;
    Ok((spread(&rates).map_or(0.0, |spread| spread.median), regions))
}
