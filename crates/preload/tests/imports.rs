//! Functions of the C library that the preloaded library must not import.
//!
//! The pager may start while the program's own allocator holds its lock, in `mmap(2)`. A function
//! of the C library that calls `malloc` would then wait for that lock for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod library;

use elf::{ElfStream, abi, endian::AnyEndian};
use library::library;
use std::fs::File;

/// Functions that allocate, or that call a function that allocates (`fs::read_dir` calls
/// `opendir`).
const ALLOCATING: [&str; 14] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "opendir",
    "fdopendir",
    "scandir",
    "fopen64",
    "setenv",
    "getaddrinfo",
    "getpwnam_r",
    "dlopen",
];

#[test]
fn no_function_that_allocates_is_imported() {
    let mut elf = ElfStream::<AnyEndian, _>::open_stream(File::open(library()).unwrap()).unwrap();
    let (symbols, names) = elf.dynamic_symbol_table().unwrap().unwrap();
    let undefined = symbols.iter().filter(|symbol| symbol.st_shndx == abi::SHN_UNDEF);
    let imports: Vec<&str> =
        undefined.map(|symbol| names.get(symbol.st_name as usize).unwrap()).collect();
    assert!(imports.contains(&"memcpy"), "the imports are read: {imports:?}");
    let wrong: Vec<&&str> = imports.iter().filter(|name| ALLOCATING.contains(name)).collect();
    assert!(wrong.is_empty(), "the preloaded library imports {wrong:?}");
}
