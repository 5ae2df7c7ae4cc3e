//! Accesses to blocks of memory, and the text form of a trace of them.
//!
//! A trace has the accesses of one pass of a program that repeats this pass. Its text form has a
//! header line, and then a line for each access (`r` for a read, `w` for a write, and the block):
//!
//! ```text
//! interleaf.trace/1 block_bytes=65536
//! r 0
//! w 17
//! ```
//!
//! Lines that begin with `#` are comments. One line may stand for several consecutive accesses to
//! the same block.

use std::fmt::Write as _;

/// The first word of a trace's header line.
pub const SCHEMA: &str = "interleaf.trace/1";

/// The allowed block sizes, bytes: a page (4 KiB) to 1 GiB.
const BLOCK: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// An access to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub block: u32,
    /// Offset of the access within the block, bytes.
    pub offset: u32,
    pub is_write: bool,
}

/// Numbers of blocks that a drive transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTraffic {
    /// Blocks read from the drive.
    pub read: u64,
    /// Blocks written to the drive.
    pub written: u64,
}

/// The accesses of one pass of a program, to blocks of equal size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Size of a block, bytes.
    pub block_bytes: u64,
    pub touches: Vec<Touch>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}: {problem}")]
pub struct TraceError {
    pub name: String,
    /// The number of the line, counted from 1.
    pub line: usize,
    /// The wrong value, and the values that are allowed.
    pub problem: String,
}

impl Trace {
    /// Parses the text of a trace. Error messages use `name` as the name of the file.
    ///
    /// # Errors
    /// When a line does not have the form of a trace (the error names the first such line), or the
    /// trace has no access.
    pub fn parse(name: &str, text: &str) -> Result<Self, TraceError> {
        let fail = |line: usize, problem: String| TraceError { name: name.into(), line, problem };
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let (first, header) = lines.next().unwrap_or((1, ""));
        let block_bytes = header
            .strip_prefix(SCHEMA)
            .and_then(|rest| rest.trim().strip_prefix("block_bytes="))
            .and_then(|bytes| bytes.parse().ok())
            .filter(|bytes| BLOCK.contains(bytes))
            .ok_or_else(|| {
                let (least, most) = (BLOCK.start(), BLOCK.end());
                let rule = format!("with a block size from {least} to {most}");
                let example = format!("\"{SCHEMA} block_bytes=4096\", {rule}");
                fail(first, format!("\"{header}\" is not the header of a trace: write {example}"))
            })?;
        let mut touches = vec![];
        for (at, line) in lines {
            let (word, block) = line.split_once(' ').unwrap_or((line, ""));
            let is_write = match word {
                "r" => false,
                "w" => true,
                _ => return Err(fail(at, format!("\"{word}\" is not an access: write r or w"))),
            };
            let block = block.trim().parse().map_err(|_| {
                let rule = format!("write a whole number from 0 to {}", u32::MAX);
                fail(at, format!("\"{}\" is not a block: {rule}", block.trim()))
            })?;
            touches.push(Touch { block, offset: 0, is_write });
        }
        match touches.is_empty() {
            true => Err(fail(first, "the trace has no access: write lines such as \"r 0\"".into())),
            false => Ok(Self { block_bytes, touches }),
        }
    }

    /// Returns the text form of the trace, which [`Self::parse`] reads. The text form has no
    /// offsets within blocks, so `parse` sets them to 0.
    pub fn text(&self) -> String {
        let mut text = format!("{SCHEMA} block_bytes={}\n", self.block_bytes);
        for touch in &self.touches {
            let word = if touch.is_write { 'w' } else { 'r' };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{word} {}", touch.block);
        }
        text
    }

    /// The number of different blocks that the pass accesses.
    pub fn distinct_blocks(&self) -> usize {
        let mut blocks: Vec<u32> = self.touches.iter().map(|touch| touch.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len()
    }

    /// The memory that the pass touches, bytes.
    pub fn footprint_bytes(&self) -> u64 {
        self.distinct_blocks() as u64 * self.block_bytes
    }
}

/// Returns a hash of a block number or another value, uniform over 64 bits: the finalizer of
/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn hash(value: u64) -> u64 {
    let mut hash = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let text = "# of a sweep\ninterleaf.trace/1 block_bytes=65536\nr 0\nw 17\n\nr 0\n";
        let trace = Trace::parse("a.trace", text).unwrap();
        assert_eq!((trace.touches.len(), trace.distinct_blocks()), (3, 2));
        assert_eq!(trace.footprint_bytes(), 2 << 16);
        assert_eq!(Trace::parse("b", &trace.text()).unwrap(), trace);
    }

    #[test]
    fn errors_name_the_line_the_value_and_the_rule() {
        let head = "interleaf.trace/1 block_bytes=4096\n";
        for (text, line, part) in [
            (String::new(), 1, "is not the header"),
            ("interleaf.trace/1 block_bytes=7\nr 1\n".into(), 1, "4096 to 1073741824"),
            (head.into(), 1, "no access"),
            (format!("{head}x 1\n"), 2, "\"x\" is not an access: write r or w"),
            (format!("{head}r 1\nw -3\n"), 3, "\"-3\" is not a block"),
            (format!("{head}r\n"), 2, "\"\" is not a block"),
        ] {
            let why = Trace::parse("t", &text).unwrap_err();
            assert!(why.line == line && why.problem.contains(part), "{why}");
        }
    }
}
