//! `touch SIZE [--weights NODE:WEIGHT,..|--interleave NODE,..|--bind NODE,..] [--huge] [--sweep]`
//!
//! Maps anonymous memory, writes to each page of it, and prints `pages 0:12288 1:4096` and
//! `touched`. With `--weights` it first writes these weights for the whole machine and interleaves
//! its pages by them; with `--interleave` by the weights that the machine has. With `--bind` it
//! takes pages of these nodes only. With `--huge` it asks for transparent huge pages, and for none
//! of them without. With `--sweep` it goes on to write to each page, again and again, until it is
//! killed.

use std::{
    fs,
    io::{self, Write},
    process::{self, ExitCode},
};

use memmap2::{Advice, MmapMut};

use interleaf_linux::{
    mempolicy::Policy,
    numa_maps::{self, NodeBytes},
    root::Root,
};

use crate::{
    pages::Pages,
    words::{list, nodes, number, size},
};

const PAGE: usize = 4096;
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

#[derive(Debug, Default, PartialEq, Eq)]
struct Args {
    size: usize,
    weights: Vec<(u32, u8)>,
    policy: Option<Policy>,
    huge: bool,
    sweep: bool,
}

/// Does it. The arguments are those behind the name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let done = Args::parse(args).map_err(io::Error::other).and_then(|args| touch(&args, out));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Who reads this finds nothing better to do with a closed pipe than to end as well.
            let _ = writeln!(out, "touch: {why}");
            ExitCode::FAILURE
        }
    }
}

impl Args {
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

fn touch(args: &Args, out: &mut impl Write) -> io::Result<()> {
    let named = |what: &str, why: io::Error| io::Error::new(why.kind(), format!("{what}: {why}"));
    for (node, weight) in &args.weights {
        let path = format!("{WEIGHTS}/node{node}");
        fs::write(&path, weight.to_string()).map_err(|why| named(&path, why))?;
    }
    if let Some(policy) = &args.policy {
        policy.set().map_err(|why| named("set_mempolicy", why))?;
    }
    let mut memory = MmapMut::map_anon(args.size)?;
    // Advice of either kind also keeps the kernel from joining this mapping with a neighbour, so
    // that it has a line of its own in numa_maps.
    memory.advise(if args.huge { Advice::HugePage } else { Advice::NoHugePage })?;
    sweep(&mut memory);
    let pages = Pages(placed(&memory)?);
    writeln!(out, "{pages}")?;
    writeln!(out, "touched")?;
    out.flush()?;
    if !args.sweep {
        return Ok(());
    }
    loop {
        sweep(&mut memory);
    }
}

/// Where the pages of this process's `memory` are, which is a mapping of its own.
pub(crate) fn placed(memory: &[u8]) -> io::Result<NodeBytes> {
    let mappings = numa_maps::mappings(&Root::live(), process::id()).map_err(io::Error::other)?;
    let start = memory.as_ptr().addr() as u64;
    let mine = mappings.iter().flatten().filter(|mapping| mapping.start == start);
    Ok(mine.map(|mapping| &mapping.bytes).collect())
}

/// Writes to each page.
pub(crate) fn sweep(memory: &mut [u8]) {
    for byte in memory.iter_mut().step_by(PAGE) {
        *byte = byte.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Args, String> {
        Args::parse(text.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments_are_read() {
        let plain = Args { size: 64 << 20, ..Args::default() };
        assert_eq!(parse("64MiB"), Ok(plain));
        let weights = vec![(0, 3), (1, 255)];
        let policy = Some(Policy::WeightedInterleave([0, 1].into_iter().collect()));
        let all = Args { size: 1 << 30, weights, policy, huge: true, sweep: true };
        assert_eq!(parse("1GiB --weights 0:3,1:255 --huge --sweep"), Ok(all));
        for wrong in ["", "64", "64MB", "1MiB --weights 0", "1MiB --weights 0:256", "1MiB --bind"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("1MiB --bind 0 --weights 0:1").is_err());
    }

    #[test]
    fn memory_is_found_where_it_is() {
        let mut out = vec![];
        touch(&Args { size: 1 << 20, ..Args::default() }, &mut out).unwrap();
        let said = String::from_utf8(out).unwrap();
        let pages = said.strip_suffix("\ntouched\n").unwrap().strip_prefix("pages").unwrap();
        let count = |node: &str| node.split_once(':').unwrap().1.parse::<u32>().unwrap();
        assert_eq!(pages.split_whitespace().map(count).sum::<u32>(), 256, "{said}");
    }
}
