//! The memory of the workloads' arrays: from the allocator, from an anonymous mapping, or from a
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

/// The kind of memory in which arrays are allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The ordinary allocator, which maps new pages of zeros for a large array.
    Heap,
    /// An anonymous mapping for each array, with advice for Linux.
    Anonymous(Hint),
    /// A mapping of an unnamed file for each array, with advice for Linux. The path is the folder
    /// of the file.
    File(PathBuf, Hint),
}

/// Advice about a mapping, which madvise(2) gives to Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    #[default]
    Normal,
    /// Read far ahead, and evict pages soon after use.
    Sequential,
    /// No readahead.
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

/// An array of numbers, aligned to a page.
#[derive(Debug)]
pub struct Array {
    block: Block,
    bytes: usize,
}

#[derive(Debug)]
enum Block {
    /// The allocated vector, and the index of its first word that is aligned to a page.
    Heap(Vec<u64>, usize),
    Map(MmapMut),
}

impl Memory {
    /// Allocates an array of `bytes` zero bytes.
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
    // `vec!` of zeros calls `calloc(3)`, which does not touch new pages: a page is allocated at its
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
    // SAFETY: the file has no name, so no other process can open the file, and change or shorten
    // it.
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

    /// The array as 32-bit words that several threads may change at once.
    pub fn atomic_u32(&mut self) -> &[AtomicU32] {
        let words = self.of_mut::<u32>();
        // SAFETY: an atomic word has the size, the alignment and the values of the word, and the
        // mutable borrow excludes every other access as long as the result lives.
        unsafe { std::slice::from_raw_parts(words.as_mut_ptr().cast(), words.len()) }
    }

    /// The array as 64-bit words that several threads may change at once.
    pub fn atomic_u64(&mut self) -> &[AtomicU64] {
        let words = self.of_mut::<u64>();
        // SAFETY: as in `atomic_u32`: an atomic word is like a word, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts(words.as_mut_ptr().cast(), words.len()) }
    }
}
