//! Finds the library that is preloaded into extended programs.

use interleaf_console::Failure;
use std::{
    env,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

/// The environment variable that has the path of the preloaded library. Users set it if the library
/// is not installed with this program.
const LIBRARY_VARIABLE: &str = "INTERLEAF_PRELOAD";

const LIBRARY: &str = "libinterleaf_preload.so";

/// The type of a shared library in the header of an ELF file (elf(5)).
const ET_DYN: u16 = 3;

/// Number of bytes of an ELF header up to the end of the field for the processor (`e_machine`).
const HEADER_BYTES: u64 = 20;

/// Returns the path of the preloaded library: the value of [`LIBRARY_VARIABLE`] if it is set.
/// Otherwise searches beside this program, and then in `../lib/interleaf`.
pub(super) fn library() -> Result<PathBuf, Failure> {
    let hint = format!(
        "install {LIBRARY} beside `interleaf` or in ../lib/interleaf, or name it in \
         {LIBRARY_VARIABLE}; cargo build -p interleaf-preload makes it"
    );
    if let Some(named) = env::var_os(LIBRARY_VARIABLE).map(PathBuf::from) {
        let problem = match named.is_file() {
            true => {
                problem(&named).map_or_else(|why| Some(why.to_string()), |it| it.map(String::from))
            }
            false => Some("there is no such file".into()),
        };
        return match problem {
            None => Ok(named),
            Some(problem) => {
                let problem = format!("{LIBRARY_VARIABLE}={}: {problem}", named.display());
                Err(Failure::new(problem, hint))
            }
        };
    }
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/interleaf").join(LIBRARY)];
    let found = places.iter().find_map(|place| place.canonicalize().ok());
    found.ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Failure::new(
            format!("the library of extended memory is not at {}", places.join(" nor at ")),
            hint,
        )
    })
}

/// Returns the reason why the loader cannot load the file `path` into programs for the processor of
/// this program; `None` if the loader can load it.
fn problem(path: &Path) -> io::Result<Option<&'static str>> {
    Ok(header_problem(&header(path)?, &header(Path::new("/proc/self/exe"))?))
}

fn header(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path)?.take(HEADER_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Compares the ELF header `found` with that of this program, `own`.
fn header_problem(found: &[u8], own: &[u8]) -> Option<&'static str> {
    if found.get(..4) != Some(b"\x7fELF") || found.len() < own.len() {
        return Some("it is not an ELF file");
    }
    // The address width, the byte order and the processor.
    if (&found[4..6], &found[18..]) != (&own[4..6], &own[18..]) {
        return Some("it is made for another processor");
    }
    (found[16..18] != ET_DYN.to_ne_bytes()).then_some("it is not a shared library")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_libraries_for_this_processor_can_be_loaded() {
        let low = u16::from_ne_bytes([1, 0]) == 1;
        let with = |kind: u8, processor: u8| {
            let mut bytes = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\0\0\x3e\0";
            bytes[if low { 16 } else { 17 }] = kind;
            bytes[18] = processor;
            bytes
        };
        let own = with(3, 0x3e);
        assert_eq!(header_problem(&own, &own), None);
        assert_eq!(header_problem(&with(1, 0x3e), &own), Some("it is not a shared library"));
        assert_eq!(header_problem(&with(3, 0xb7), &own), Some("it is made for another processor"));
        for text in [&b"root:x:0:0:root:/root:/bin/sh\n"[..20], b"", &own[..19]] {
            assert_eq!(header_problem(text, &own), Some("it is not an ELF file"));
        }
    }
}
