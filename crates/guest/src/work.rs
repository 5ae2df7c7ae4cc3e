//! `work SIZE --best 3:1`
//!
//! A program that is as fast as memory of two tiers lets it be: it puts memory somewhere, looks
//! where its pages really are, and takes as long as the node that is the last to be done with its
//! share. With the best weights that is a second. It prints `pages 0:6144 1:2048` and `rate 0.98`,
//! the part of the best that it reached.

use std::{
    io::{self, Write},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use memmap2::{Advice, MmapMut};

use crate::{pages::Pages, touch, words};

#[derive(Debug, PartialEq, Eq)]
struct Args {
    size: usize,
    /// What each node carries, as weights, from node 0 on.
    best: Vec<u32>,
}

/// Does it. The arguments are those behind the name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let begun = Instant::now();
    let args: Vec<String> = args.collect();
    let done = Args::parse(&args).map_err(io::Error::other).and_then(|args| {
        let time = work(&args, out)?;
        thread::sleep(Duration::from_secs_f64(time).saturating_sub(begun.elapsed()));
        Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // As for `touch`.
            let _ = writeln!(out, "work: {why}");
            ExitCode::FAILURE
        }
    }
}

impl Args {
    fn parse(args: &[String]) -> Result<Self, String> {
        let [size, option, best] = args else { return Err("write SIZE --best 3:1".into()) };
        if option != "--best" {
            return Err(format!("no option: {option}"));
        }
        let part = |part: &str| part.parse().map_err(|_| format!("no weights: {best}"));
        let best: Vec<u32> = best.split(':').map(part).collect::<Result<_, String>>()?;
        if best.contains(&0) {
            return Err("each node carries something".into());
        }
        Ok(Self { size: words::size(size)?, best })
    }
}

/// Puts the memory where the policy says; how long it takes, seconds.
fn work(args: &Args, out: &mut impl Write) -> io::Result<f64> {
    let mut memory = MmapMut::map_anon(args.size)?;
    // So that it has a line of its own in numa_maps.
    memory.advise(Advice::NoHugePage)?;
    touch::sweep(&mut memory);
    let placed = touch::placed(&memory)?;
    let (all, carried) = (placed.total() as f64, f64::from(args.best.iter().sum::<u32>()));
    let time = |(node, best): (usize, &u32)| {
        placed.on(node as u32) as f64 / all / (f64::from(*best) / carried)
    };
    let time = args.best.iter().enumerate().map(time).fold(0.0, f64::max);
    writeln!(out, "{}\nrate {:.4}", Pages(placed), 1.0 / time)?;
    out.flush()?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parse = |text: &str| {
            Args::parse(&text.split_whitespace().map(String::from).collect::<Vec<_>>())
        };
        assert_eq!(parse("1MiB --best 3:1"), Ok(Args { size: 1 << 20, best: vec![3, 1] }));
        for wrong in ["", "1MiB", "1MiB --best 3:x", "1MiB --best 3:0", "1MiB --worst 3:1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_slowest_node_decides() {
        let mut out = vec![];
        let time = work(&Args { size: 1 << 20, best: vec![1, 1] }, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap();
        assert!(said.starts_with("pages "), "{said}");
        // On one node it takes twice as long as on both.
        assert!((1.0..=2.0).contains(&time), "{time}");
    }
}
