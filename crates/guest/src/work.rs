//! `work SIZE --best 3:1`
//!
//! A program whose speed depends on the placement of its pages. The program maps memory, reads the
//! placement of its pages, and runs for the time that the slowest node would need for its share of
//! the pages: one second with the best weights. The program prints `pages 0:6144 1:2048` and `rate
//! 0.98`, the speed relative to the best weights.

use std::{
    io::{self, Write},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use memmap2::Advice;

use crate::{memory::Memory, pages::Pages, touch, words};

#[derive(Debug, PartialEq, Eq)]
struct WorkArgs {
    size: usize,
    /// The bandwidths of the nodes, from node 0 on, as weights. With these weights the program is
    /// fastest.
    best: Vec<u32>,
}

/// Runs the program. `args` excludes the program's name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let begun = Instant::now();
    let args: Vec<String> = args.collect();
    let done = WorkArgs::parse(&args).map_err(io::Error::other).and_then(|args| {
        let time = work(&args, out)?;
        thread::sleep(Duration::from_secs_f64(time).saturating_sub(begun.elapsed()));
        Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If stdout is closed, an error message cannot be delivered.
            let _ = writeln!(out, "work: {why}");
            ExitCode::FAILURE
        }
    }
}

impl WorkArgs {
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

/// Maps memory under the inherited memory policy, and returns the runtime for the placement of this
/// memory, s.
fn work(args: &WorkArgs, out: &mut impl Write) -> io::Result<f64> {
    let mut memory = Memory::map(args.size, Advice::NoHugePage)?;
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
            WorkArgs::parse(&text.split_whitespace().map(String::from).collect::<Vec<_>>())
        };
        assert_eq!(parse("1MiB --best 3:1"), Ok(WorkArgs { size: 1 << 20, best: vec![3, 1] }));
        for wrong in ["", "1MiB", "1MiB --best 3:x", "1MiB --best 3:0", "1MiB --worst 3:1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_slowest_node_decides() {
        let mut out = vec![];
        let time = work(&WorkArgs { size: 1 << 20, best: vec![1, 1] }, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        assert!(printed.starts_with("pages "), "{printed}");
        // The memory policy of the test decides the placement. The runtime is 1 s with the pages
        // evenly on both nodes, and 2 s with all pages on one node.
        assert!((1.0..=2.0).contains(&time), "{time}");
    }
}
