//! Tests the dynamic section of the preloaded library: the library must not import functions of the
//! C library that allocate, and its constructor must run first.
//!
//! The pager may start in `mmap(2)`, while the program's own allocator holds its lock. A function
//! of the C library that calls `malloc` would then wait for that lock for ever.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod library;

use elf::{ElfStream, abi, endian::AnyEndian};
use library::library;
use std::fs::File;

/// Functions of the C library that allocate, or that call a function that does (`fs::read_dir`
/// calls `opendir`).
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

/// Asserts that the constructor of the preloaded library runs before those of all other libraries.
#[test]
fn the_library_is_initialised_first() {
    let mut elf = ElfStream::<AnyEndian, _>::open_stream(File::open(library()).unwrap()).unwrap();
    let entries = elf.dynamic().unwrap().unwrap();
    let flags = entries.iter().find(|entry| entry.d_tag == abi::DT_FLAGS_1);
    let flags = flags.map_or(0, |entry| entry.d_val() as i64);
    assert_eq!(flags & abi::DF_1_INITFIRST, abi::DF_1_INITFIRST, "{flags:#x}");
}
