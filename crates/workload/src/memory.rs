//! The memory that the workloads' arrays are in: from the allocator, an anonymous mapping, or a
//! mapped file.

#![expect(unsafe_code, reason = "mapped files that nobody else has, and atomic words")]

use crate::{PAGE, SetupError};
use bytemuck::Pod;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicU32, AtomicU64},
};

/// The kind of memory that an array is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// From the ordinary allocator, which maps new pages of zeros for a large array.
    Heap,
    /// An anonymous mapping for each array, with this advice.
    Anonymous(Hint),
    /// A mapping of an unnamed file for each array, with this advice. The path is the folder of the
    /// files.
    File(PathBuf, Hint),
}

/// Advice about a mapping that madvise(2) gives to Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    #[default]
    Normal,
    /// Read far ahead, and evict pages soon after their use.
    Sequential,
    /// Do not read ahead.
    Random,
    /// Read all pages ahead.
    WillNeed,
    Huge,
}

impl Hint {
    /// All hints, with their names on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("normal", Self::Normal),
        ("sequential", Self::Sequential),
        ("random", Self::Random),
        ("willneed", Self::WillNeed),
        ("hugepage", Self::Huge),
    ];

    fn advice(self) -> Advice {
        match self {
            Self::Normal => Advice::Normal,
            Self::Sequential => Advice::Sequential,
            Self::Random => Advice::Random,
            Self::WillNeed => Advice::WillNeed,
            Self::Huge => Advice::HugePage,
        }
    }
}

/// An array of numbers. It begins at the start of a page.
#[derive(Debug)]
pub struct Array {
    block: Block,
    bytes: usize,
}

#[derive(Debug)]
enum Block {
    /// The allocated vector, and the index of its first word that is at the start of a page.
    Heap(Vec<u64>, usize),
    Map(MmapMut),
}

impl Memory {
    /// Allocates an array of `bytes` bytes that are 0.
    ///
    /// # Errors
    /// When memory cannot be allocated, or the file system is full.
    pub fn array(&self, bytes: usize) -> Result<Array, SetupError> {
        let block = match self {
            Self::Heap => Ok(heap(bytes)),
            Self::Anonymous(hint) => {
                let map = MmapOptions::new().len(bytes).map_anon();
                map.and_then(|map| map.advise(hint.advice()).map(|()| Block::Map(map)))
            }
            Self::File(folder, hint) => file(folder, bytes, *hint),
        };
        block.map(|block| Array { block, bytes }).map_err(|why| SetupError::Memory { bytes, why })
    }
}

fn heap(bytes: usize) -> Block {
    let page_words = PAGE / size_of::<u64>();
    // `vec!` of zeros calls `calloc(3)`, which touches no new page: Linux allocates a page at its
    // first touch.
    let words = vec![0_u64; bytes.div_ceil(size_of::<u64>()) + page_words];
    let start = words.as_ptr().align_offset(PAGE).min(page_words);
    Block::Heap(words, start)
}

fn file(folder: &PathBuf, bytes: usize, hint: Hint) -> io::Result<Block> {
    let file = tempfile::tempfile_in(folder).map_err(|why| {
        io::Error::new(why.kind(), format!("a file in {}: {why}", folder.display()))
    })?;
    file.set_len(bytes as u64)?;
    // SAFETY: the file has no name, so no other process can open it, and change or shorten it.
    let map = unsafe { MmapOptions::new().len(bytes).map_mut(&file)? };
    map.advise(hint.advice())?;
    Ok(Block::Map(map))
}

impl Array {
    pub fn of<T: Pod>(&self) -> &[T] {
        let bytes = match &self.block {
            Block::Heap(words, start) => bytemuck::cast_slice(&words[*start..]),
            Block::Map(map) => &map[..],
        };
        bytemuck::cast_slice(&bytes[..self.bytes])
    }

    pub fn of_mut<T: Pod>(&mut self) -> &mut [T] {
        let bytes = match &mut self.block {
            Block::Heap(words, start) => bytemuck::cast_slice_mut(&mut words[*start..]),
            Block::Map(map) => &mut map[..],
        };
        bytemuck::cast_slice_mut(&mut bytes[..self.bytes])
    }

    /// Returns the array as 32-bit words that several threads may change at the same time.
    pub fn atomic_u32(&mut self) -> &[AtomicU32] {
        let words = self.of_mut::<u32>();
        // SAFETY: an `AtomicU32` has the size, the alignment and the values of a u32. The mutable
        // borrow excludes all other access while the result lives.
        unsafe { std::slice::from_raw_parts(words.as_mut_ptr().cast(), words.len()) }
    }

    /// Returns the array as 64-bit words that several threads may change at the same time.
    pub fn atomic_u64(&mut self) -> &[AtomicU64] {
        let words = self.of_mut::<u64>();
        // SAFETY: the array is aligned for an `AtomicU64`, which has the size and the values of a
        // u64. The mutable borrow excludes all other access.
        unsafe { std::slice::from_raw_parts(words.as_mut_ptr().cast(), words.len()) }
    }
}
