//! Inspects a command: its executable, the scripts that lead to the executable, and how the
//! executable is linked. The linkage decides whether functions of the C library can be replaced by
//! a preloaded library (LD_PRELOAD).

use elf::{ElfStream, abi, endian::AnyEndian, file::Class};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::Command,
};

/// Maximum number of nested scripts, which is the kernel's own limit.
const SCRIPTS_MAX: usize = 5;

/// Number of bytes that the kernel reads from the beginning of a script (`BINPRM_BUF_SIZE`).
const LINE_MAX: u64 = 256;

/// The program that a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The path of the executable.
    pub path: PathBuf,
    /// The scripts that lead to the executable through their interpreter lines, in this order.
    pub scripts: Vec<PathBuf>,
    pub linked: Linked,
    /// The libraries that the executable itself names as needed (`DT_NEEDED`). Libraries that these
    /// libraries need are not listed.
    pub needs: Vec<String>,
    /// The dynamic loader; `None` for a static program.
    pub loader: Option<PathBuf>,
    /// True for a Go program. Its runtime allocates memory by its own system calls, not through the
    /// C library.
    pub is_go: bool,
    /// True when the program gets rights that its caller lacks (set-user-ID, capabilities). The
    /// loader then ignores LD_PRELOAD.
    pub is_privileged: bool,
}

/// How a program is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linked {
    /// The program is linked dynamically, with the GNU C library.
    Gnu,
    /// The program is linked dynamically, with musl.
    Musl,
    /// The program is linked statically.
    Static,
    /// The program is built for another processor or address width, which the field names.
    Foreign(String),
    /// The program is linked dynamically, but its loader, the field, is unknown.
    Other(PathBuf),
}

/// The reason why a command cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error("{0}: there is no such program")]
    Absent(String),
    #[error("{}: {why}", path.display())]
    Unread { path: PathBuf, why: io::Error },
}

impl Program {
    /// Inspects the command `name`.
    ///
    /// # Errors
    /// When the command does not exist or cannot be read.
    pub fn inspect(name: &OsStr) -> Result<Self, ProgramError> {
        let mut path = find(name)?;
        let mut scripts = vec![];
        loop {
            let unread = |why| ProgramError::Unread { path: path.clone(), why };
            let Some(next) = reader(&path).map_err(unread)? else { break };
            scripts.push(path);
            path = find(&next)?;
            if scripts.len() > SCRIPTS_MAX {
                let why = io::Error::other("a script is read by a script, and so on");
                return Err(ProgramError::Unread { path, why });
            }
        }
        let unread = |why| ProgramError::Unread { path: path.clone(), why };
        let (linked, loader, needs) = linked(&path).map_err(unread)?;
        let is_privileged = is_privileged(&path).map_err(unread)?;
        let is_go = is_go(&path).map_err(unread)?;
        Ok(Self { path, scripts, linked, needs, loader, is_go, is_privileged })
    }

    /// Returns all libraries that are loaded with the program, from the loader's `--list`, which
    /// does not run the program. Returns none for a program without the loader of the GNU C
    /// library.
    pub fn libraries(&self) -> Vec<String> {
        let (Linked::Gnu, Some(loader)) = (&self.linked, &self.loader) else { return vec![] };
        let listed = Command::new(loader).arg("--list").arg(&self.path).output();
        let text = listed.map(|output| output.stdout).unwrap_or_default();
        // The loader's lines begin with a library's name: `libm.so.6 => /lib/libm.so.6 (0x7f..)`.
        let name = |line: &str| line.split_whitespace().next().map(String::from);
        String::from_utf8_lossy(&text).lines().filter_map(name).collect()
    }
}

/// Returns the executable file that execvp(3) would find for the command `name`.
fn find(name: &OsStr) -> Result<PathBuf, ProgramError> {
    let absent = || ProgramError::Absent(name.to_string_lossy().into_owned());
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return if path.is_file() { Ok(path) } else { Err(absent()) };
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let runs = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&folders).map(|folder| folder.join(name)).find(runs).ok_or_else(absent)
}

/// Returns the interpreter of a script; `None` for an executable.
fn reader(path: &Path) -> io::Result<Option<OsString>> {
    let mut line = vec![];
    File::open(path)?.take(LINE_MAX).read_to_end(&mut line)?;
    Ok(reader_of(&line))
}

fn reader_of(start: &[u8]) -> Option<OsString> {
    if start.starts_with(&abi::ELFMAGIC) {
        return None;
    }
    let Some(line) = start.strip_prefix(b"#!") else {
        // execvp(3) and shells run a file of unknown format with /bin/sh.
        return Some("/bin/sh".into());
    };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let first = words.next()?;
    // `env` executes its first argument that is neither an option nor an assignment of a variable.
    let is_env = first.ends_with(b"/env");
    let found = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let reader = found.filter(|_| is_env).unwrap_or(first);
    Some(OsString::from_vec(reader.to_vec()))
}

/// Determines a program's linkage, the path of its loader, and the libraries that it needs.
fn linked(path: &Path) -> io::Result<(Linked, Option<PathBuf>, Vec<String>)> {
    let other = io::Error::other;
    let mut elf = ElfStream::<AnyEndian, _>::open_stream(File::open(path)?).map_err(other)?;
    if (elf.ehdr.class, elf.ehdr.e_machine) != own() {
        let machine = elf::to_str::e_machine_to_string(elf.ehdr.e_machine);
        let bits = if elf.ehdr.class == Class::ELF64 { 64 } else { 32 };
        return Ok((Linked::Foreign(format!("{bits}-bit {machine}")), None, vec![]));
    }
    let interpreter = elf.segments().iter().find(|segment| segment.p_type == abi::PT_INTERP);
    let Some(interpreter) = interpreter.copied() else { return Ok((Linked::Static, None, vec![])) };
    let bytes = elf.segment_data(&interpreter).map_err(other)?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let loader = PathBuf::from(OsStr::from_bytes(name));
    let needs = needs(&mut elf).unwrap_or_default();
    let file = loader.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let linked = match () {
        () if file.starts_with("ld-musl") => Linked::Musl,
        () if file.starts_with("ld-linux") || file.starts_with("ld64.so") => Linked::Gnu,
        () => Linked::Other(loader.clone()),
    };
    Ok((linked, Some(loader), needs))
}

/// True if Go's linker made the program. The linker adds a section (`.go.buildinfo`) with the
/// versions of the program's modules.
fn is_go(path: &Path) -> io::Result<bool> {
    let elf = ElfStream::<AnyEndian, _>::open_stream(File::open(path)?);
    let mut elf = elf.map_err(io::Error::other)?;
    // A Go program is not recognised if its section table was removed.
    Ok(elf.section_header_by_name(".go.buildinfo").is_ok_and(|section| section.is_some()))
}

/// Returns the libraries of `DT_NEEDED`; none for a program without a section table.
fn needs(elf: &mut ElfStream<AnyEndian, File>) -> Result<Vec<String>, elf::ParseError> {
    let dynamic = elf.dynamic()?;
    let wanted = |entry: elf::dynamic::Dyn| (entry.d_tag == abi::DT_NEEDED).then(|| entry.d_val());
    let offsets: Vec<u64> =
        dynamic.into_iter().flat_map(|table| table.iter()).filter_map(wanted).collect();
    let Some(header) = elf.section_header_by_name(".dynstr")?.copied() else { return Ok(vec![]) };
    let names = elf.section_data_as_strtab(&header)?;
    offsets.into_iter().map(|at| names.get(at as usize).map(String::from)).collect()
}

/// Returns the address width and processor for which Interleaf itself was built.
fn own() -> (Class, u16) {
    let machine = match env::consts::ARCH {
        "x86_64" => abi::EM_X86_64,
        "aarch64" => abi::EM_AARCH64,
        "riscv64" => abi::EM_RISCV,
        "powerpc64" => abi::EM_PPC64,
        "s390x" => abi::EM_S390,
        _ => abi::EM_NONE,
    };
    (if cfg!(target_pointer_width = "64") { Class::ELF64 } else { Class::ELF32 }, machine)
}

/// True if the program at `path` would run with rights that its caller lacks: the kernel then sets
/// `AT_SECURE` (getauxval(3)).
fn is_privileged(path: &Path) -> io::Result<bool> {
    let file = fs::metadata(path)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let is_other = |bit: u32, owner: u32, own: u32| file.mode() & bit != 0 && owner != own;
    let changes = is_other(0o4000, file.uid(), user.as_raw())
        || is_other(0o2010, file.gid(), group.as_raw()) && file.mode() & 0o2010 == 0o2010;
    // If the caller is root, a capability of the file gives no additional right.
    let mut value = [0_u8; 64];
    let has = rustix::fs::getxattr(path, "security.capability", &mut value[..]);
    Ok(changes || !user.is_root() && has.is_ok_and(|length| length > 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn scripts_are_followed_to_their_interpreter() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (b"\x7fELF\x02\x01", None),
            (b"#!/bin/sh\nexec x", Some("/bin/sh")),
            (b"#! /usr/bin/python3 -u\n", Some("/usr/bin/python3")),
            (b"#!/usr/bin/env python3\n", Some("python3")),
            (b"#!/usr/bin/env -S OMP=1 python3 -u\n", Some("python3")),
            (b"echo hello\n", Some("/bin/sh")),
            (b"", Some("/bin/sh")),
        ];
        for (start, reader) in cases {
            assert_eq!(reader_of(start), reader.map(OsString::from), "{start:?}");
        }
    }

    #[test]
    fn this_program_is_known() {
        let us = env::current_exe().unwrap();
        let program = Program::inspect(us.as_os_str()).unwrap();
        assert_eq!((&program.path, program.is_privileged), (&us, false));
        if cfg!(target_env = "gnu") {
            assert_eq!(program.linked, Linked::Gnu);
            assert!(program.needs.iter().any(|name| name == "libc.so.6"), "{:?}", program.needs);
            let libraries = program.libraries();
            assert!(libraries.iter().any(|name| name == "libc.so.6"), "{libraries:?}");
        }
    }

    #[test]
    fn a_script_leads_to_its_shell() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("outer"), folder.path().join("inner"));
        fs::write(&inner, "#!/bin/sh\n").unwrap();
        fs::write(&outer, format!("#!{}\n", inner.display())).unwrap();
        let program = Program::inspect(outer.as_os_str()).unwrap();
        assert_eq!(program.scripts, [outer, inner.clone()]);
        assert_eq!(program.path, Path::new("/bin/sh"));
        fs::write(&inner, format!("#!{}\n", inner.display())).unwrap();
        let why = Program::inspect(inner.as_os_str()).unwrap_err().to_string();
        assert!(why.ends_with("a script is read by a script, and so on"), "{why}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let why = Program::inspect(OsStr::new("no-such-program")).unwrap_err().to_string();
        assert_eq!(why, "no-such-program: there is no such program");
        let why = Program::inspect(OsStr::new("/nowhere/x")).unwrap_err().to_string();
        assert_eq!(why, "/nowhere/x: there is no such program");
    }
}
