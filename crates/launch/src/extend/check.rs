//! Checks that a command can be extended on this machine: the program, the user's rights, the
//! stores, the limits and the memory.

use super::{ExtendOptions, session_failure::session_hint, steered_swap};
use interleaf_linux::{
    launch::storage::{Storage, StorageKind},
    process::{
        available::available,
        program::{Linked, Program},
    },
    root::Root,
};
use interleaf_model::units::Bytes;
use interleaf_pager::{
    rights::{self, MissingRight},
    session::{PAGE_BYTES, Session, SessionSettings},
};
use interleaf_record::extend::CheckDocument;
use interleaf_store::{self as store, FileStore, Options, backing};
use rustix::{
    fs::Access,
    process::{Resource, getrlimit},
};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Libraries that pin memory: pages that a device accesses directly must stay in DRAM. Each entry
/// has the beginning of the library's file name, the device for which the library pins memory, and
/// a flag. The flag is true if every program that is linked with the library pins memory. It is
/// false for RDMA, because QEMU and every MPI program are linked with RDMA libraries and often
/// never use them.
const PINNING: [(&str, &str, bool); 9] = [
    ("libcuda.so", "a GPU", true),
    ("libcudart.so", "a GPU", true),
    ("libamdhip64.so", "a GPU", true),
    ("libhsa-runtime64.so", "a GPU", true),
    ("libze_loader.so", "a GPU", true),
    ("libdpdk.so", "a network card", true),
    ("librte_eal.so", "a network card", true),
    ("libibverbs.so", "RDMA", false),
    ("librdmacm.so", "RDMA", false),
];

/// Commands that start another program. This other program allocates the memory.
const LAUNCHERS: [&str; 19] = [
    "chrt",
    "env",
    "ionice",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun",
    "nice",
    "nohup",
    "numactl",
    "orterun",
    "prterun",
    "prun",
    "setpriv",
    "setsid",
    "srun",
    "stdbuf",
    "taskset",
    "time",
    "timeout",
];

/// The hint for a program in Go: what the user can do instead.
const GO_HINT: &str = "a build without cgo (CGO_ENABLED=0) with --force: its pages go to swap that \
                       is steered, which is slower by far and takes root; GOGC=20 lets the \
                       program need less memory";

/// The value of `vm.overcommit_memory` with which the kernel counts reserved addresses as memory
/// (proc_sys_vm(5)).
const STRICT: u64 = 2;

/// Returns the results of all checks. `name` is the name of the session; `library` is the path of
/// the preloaded library.
pub(super) fn checks(
    options: &ExtendOptions,
    settings: &SessionSettings,
    name: Option<&str>,
    library: &Path,
) -> Vec<CheckDocument> {
    let mut found = vec![preloaded(library)];
    for name in options
        .command
        .first()
        .map(OsString::as_os_str)
        .into_iter()
        .chain(launched(&options.command))
    {
        found.extend(program(name));
    }
    found.push(tried("userfaultfd", rights::userfaultfd()));
    found.push(match rights::io_uring() {
        // Without io_uring the command still runs: threads transfer the pages, more slowly.
        Err(MissingRight { why, hint: remedy }) => {
            CheckDocument::warning("io_uring", format!("{why}: transfers are slower"), &remedy)
        }
        works => tried("io_uring", works),
    });
    found.extend(stores(options));
    found.extend(steered_swap::check(options));
    found.extend(limits());
    let session = joined(name, settings).unwrap_or_else(|why| {
        found.push(why);
        None
    });
    if options.dram.is_some() {
        // The session's other processes hold some frames of the budget already. These frames are
        // part of the memory in use, so the command needs no further memory for them.
        let held = session.map_or(0, |session| session.ledger.held());
        found.extend(memory(&Root::live(), settings.dram_bytes, held * PAGE_BYTES));
    }
    found
}

fn preloaded(library: &Path) -> CheckDocument {
    let check = "library";
    let shown = library.display().to_string();
    if library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        return CheckDocument::refused(
            check,
            format!("{shown}: the loader takes no path with a space or a colon in it"),
            "install it in a folder without, or name a link to it in INTERLEAF_PRELOAD",
        );
    }
    CheckDocument::fine(check, shown)
}

/// Returns the program that the launcher in `command`, such as `mpirun`, starts: the first argument
/// that names a program. If this program is a launcher too, returns the program that it starts.
/// Returns `None` if `command` is not a launcher, or no argument names a program.
fn launched(command: &[OsString]) -> Option<&OsStr> {
    let (first, rest) = command.split_first()?;
    let name = Path::new(first).file_name()?;
    LAUNCHERS.iter().find(|launcher| name == **launcher)?;
    let at = rest.iter().position(|word| !word.as_bytes().starts_with(b"-") && is_run(word))?;
    launched(&rest[at..]).or(Some(&rest[at]))
}

/// Returns true if the argument `word` names an executable program.
fn is_run(word: &OsStr) -> bool {
    let found = Program::inspect(word).ok();
    let file = found.map(|program| program.scripts.into_iter().next().unwrap_or(program.path));
    file.is_some_and(|file| rustix::fs::access(file, Access::EXEC_OK).is_ok())
}

/// Checks that a program can load the preloaded library (its C library, processor and rights), and
/// that it does not pin memory.
fn program(name: &OsStr) -> Vec<CheckDocument> {
    let check = "command";
    let program = match Program::inspect(name) {
        Ok(program) => program,
        Err(why) => {
            let remedy = "name a program that is there; options of `interleaf` stand before it";
            return vec![CheckDocument::refused(check, why.to_string(), remedy)];
        }
    };
    let path = program.path.display();
    let shown = match program.scripts.first() {
        Some(script) => format!("{}: a script, read by {path}", script.display()),
        None => path.to_string(),
    };
    let linked = match &program.linked {
        Linked::Gnu if program.is_privileged => CheckDocument::refused(
            check,
            format!("{shown}: it gets rights of its own, and takes no library from its caller"),
            "run it as the user whose rights it gets, from a copy without set-user-ID and \
             capabilities",
        ),
        Linked::Gnu if program.is_go => CheckDocument::warning(
            check,
            format!(
                "{shown}: it is a Go program, whose runtime takes memory from the kernel by \
                 itself: only its C code is extended"
            ),
            GO_HINT,
        ),
        Linked::Gnu => CheckDocument::fine(check, shown),
        Linked::Static if program.is_go => CheckDocument::waivable(
            check,
            format!(
                "{shown}: it is a Go program, whose runtime takes memory from the kernel by \
                 itself, and no library can go between"
            ),
            GO_HINT,
        ),
        Linked::Static => CheckDocument::waivable(
            check,
            format!("{shown}: it is linked statically, and takes no library in between"),
            "link it dynamically (without -static), if you can build it; or --force: its pages \
             go to swap that is steered, which is slower by far and takes root",
        ),
        Linked::Musl => CheckDocument::refused(
            check,
            format!("{shown}: it is linked with musl, and the library needs the GNU C library"),
            "run a build for the GNU C library",
        ),
        Linked::Foreign(kind) => CheckDocument::refused(
            check,
            format!("{shown}: it is a {kind} program, and the library is not"),
            "run a build for this machine, of 64 bits",
        ),
        Linked::Other(loader) => CheckDocument::waivable(
            check,
            format!("{shown}: its loader {} is not known", loader.display()),
            "run it with --force; the report at the end has the extended memory",
        ),
    };
    [linked].into_iter().chain(pinned(&program)).collect()
}

/// Returns a warning or a refusal if a program uses a library that pins memory: pinned memory
/// cannot be paged.
fn pinned(program: &Program) -> Option<CheckDocument> {
    let check = "pinned memory";
    let path = program.path.display();
    let pins = |name: &String| PINNING.iter().find(|(library, ..)| name.starts_with(library));
    let own = program.needs.iter().filter_map(pins).find(|(.., is_used)| *is_used);
    if let Some((library, device, _)) = own {
        return Some(CheckDocument::waivable(
            check,
            format!(
                "{path} is linked with {library}: memory that it pins for {device} cannot be \
                 paged"
            ),
            "run it without; or --force, if its large allocations are others than those it pins",
        ));
    }
    let (library, device, _) = program.libraries().iter().find_map(pins)?;
    Some(CheckDocument::warning(
        check,
        format!("{path} brings {library} with it: memory that it pins for {device} is not paged"),
        "extend it if its large allocations are not pinned",
    ))
}

fn tried(check: &str, outcome: Result<(), MissingRight>) -> CheckDocument {
    match outcome {
        Ok(()) => CheckDocument::fine(check, "works".into()),
        Err(MissingRight { why, hint: remedy }) => CheckDocument::refused(check, why, &remedy),
    }
}

/// Checks that all stores can be opened together as one store of pages. Changes no data in them.
fn stores(options: &ExtendOptions) -> Vec<CheckDocument> {
    let paths: Vec<&Path> = options.stores.iter().map(PathBuf::as_path).collect();
    let open = Options { force: options.force, ..Options::default() };
    let refused = match paths.is_empty() {
        true => None,
        false => FileStore::check(&paths, open).err(),
    };
    paths.into_iter().map(|path| store(path, refused.as_ref())).collect()
}

/// Checks the store `path`. `refused` is the error of opening all stores together; it is reported
/// if it concerns this store.
fn store(path: &Path, refused: Option<&store::StoreRefused>) -> CheckDocument {
    let check = "store";
    let place = path.display();
    if path.to_str().is_none() {
        let remedy = "name a folder by a path that is UTF-8 text";
        return CheckDocument::refused(check, format!("{place}: this path is not UTF-8"), remedy);
    }
    let storage = match Storage::probe(&Root::live(), path) {
        Ok(storage) => storage,
        Err(why) => {
            let remedy = "name a folder on a fast drive that is there, or a block device";
            return CheckDocument::refused(check, why.to_string(), remedy);
        }
    };
    if let Some(refused) = refused.filter(|refused| refused.store == place.to_string()) {
        return CheckDocument::refused(check, format!("{place}: {}", refused.why), &refused.hint);
    }
    let free = backing::free(path).map_or("?".into(), |free| Bytes::new(free).to_string());
    let place = match storage.file_system {
        Some(system) => format!("{place} ({system}, {free} free)"),
        None => format!("{place} ({free})"),
    };
    match storage.kind {
        StorageKind::Memory => CheckDocument::waivable(
            check,
            format!("{place}: it is in memory itself, so that nothing is gained"),
            "name a folder on a drive; for a trial add --force",
        ),
        StorageKind::Network => CheckDocument::warning(
            check,
            format!("{place}: it is reached through other programs or a network, which is slow"),
            "name a folder on a drive of this machine",
        ),
        StorageKind::Drive if storage.is_rotational == Some(true) => CheckDocument::warning(
            check,
            format!("{place}: it is a hard disk: random access is slow"),
            "name a folder on a solid-state drive; --estimate measures this one",
        ),
        StorageKind::Drive => CheckDocument::fine(check, place),
    }
}

/// Returns the running session with the name `name`, which the command would join; `None` if the
/// command would begin a new session. Fails if the running session has other settings, or if the
/// folder of sessions cannot be used.
fn joined(
    name: Option<&str>,
    settings: &SessionSettings,
) -> Result<Option<Session>, CheckDocument> {
    let joined = Session::base().and_then(|base| match name {
        Some(name) => Session::joined(&base, name, settings),
        None => Ok(None),
    });
    joined.map_err(|why| CheckDocument::refused("session", why.to_string(), session_hint(&why)))
}

/// Checks limits of the user and of the system that prevent paging.
fn limits() -> Vec<CheckDocument> {
    let check = "limits";
    let mut found = vec![];
    if let Some(most) = getrlimit(Resource::As).current {
        found.push(CheckDocument::refused(
            check,
            format!("addresses are limited to {} (ulimit -v)", Bytes::new(most)),
            "ulimit -v unlimited: addresses cost nothing",
        ));
    }
    let mode = Root::live().number("/proc/sys/vm/overcommit_memory");
    if mode.ok().flatten() == Some(STRICT) {
        found.push(CheckDocument::refused(
            check,
            "the kernel counts every address as memory (vm.overcommit_memory=2)".into(),
            "as root: sysctl vm.overcommit_memory=0",
        ));
    }
    if let Some(most) = getrlimit(Resource::Fsize).current {
        found.push(CheckDocument::warning(
            check,
            format!("files are limited to {} (ulimit -f)", Bytes::new(most)),
            "ulimit -f unlimited, unless the store is a block device",
        ));
    }
    found
}

/// Checks that the budget fits into the available memory of the machine, and into the limits of
/// control groups, beyond which the kernel kills or throttles processes. Running processes of the
/// session already use `held_bytes` of the budget.
fn memory(root: &Root, dram_bytes: u64, held_bytes: u64) -> Option<CheckDocument> {
    let check = "memory";
    let dram = Bytes::new(dram_bytes);
    let needed = Bytes::new(dram_bytes.saturating_sub(held_bytes));
    let found = match available(root, None) {
        Ok(found) => found?,
        Err(why) => {
            let remedy = "see that /proc and /sys/fs/cgroup can be read";
            return Some(CheckDocument::warning(check, why.to_string(), remedy));
        }
    };
    let free = Bytes::new(found.bytes);
    let Some(limit) = &found.limit else {
        return Some(if needed > free {
            CheckDocument::warning(
                check,
                format!("{free} of DRAM are free, fewer than the budget of {dram}"),
                "give a smaller --dram, so that the rest of the system is not driven out",
            )
        } else {
            CheckDocument::fine(check, format!("{free} of DRAM are free"))
        });
    };
    let (most, used) = (Bytes::new(limit.limit_bytes), Bytes::new(limit.used_bytes));
    let group = format!(
        "the control group {} has {free} left ({} is {most}, {used} are in use)",
        limit.group.name, limit.file
    );
    let usable = Bytes::new(found.usable_bytes());
    Some(if needed > usable {
        CheckDocument::refused(
            check,
            format!(
                "{group}, too little for the budget of {dram}: the kernel would end the command"
            ),
            &format!(
                "give at most --dram {}KiB, such as --dram 50%; or raise {}",
                usable.get() >> 10,
                limit.path()
            ),
        )
    } else {
        CheckDocument::fine(check, group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_record::extend::CheckStatus;

    fn status(checks: &[CheckDocument], what: &str) -> Vec<(CheckStatus, String)> {
        let of = checks.iter().filter(|check| check.what == what);
        of.map(|check| (check.status, check.detail.clone())).collect()
    }

    /// Returns the check `memory` for a budget of 256 MiB on a machine with 22 GiB of available
    /// memory. `files` are pairs of a path and a text: they put this process into the control group
    /// `/jobs/one`.
    fn limited(files: &[(&str, &str)]) -> Option<CheckDocument> {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", "MemAvailable: 23068672 kB\n");
        files.iter().for_each(|(path, text)| write(path, text));
        memory(&Root::captured(folder.path()), 256 << 20, 0)
    }

    #[test]
    fn a_budget_beyond_the_limit_of_a_control_group_is_refused() {
        let two = [
            ("proc/self/mountinfo", "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/jobs/one\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/jobs/one/memory.max", "max\n"),
            ("sys/fs/cgroup/jobs/memory.max", "100663296\n"),
            ("sys/fs/cgroup/jobs/memory.current", "33554432\n"),
        ];
        let one = [
            ("proc/self/mountinfo", "35 31 0:32 / /cg rw - cgroup cgroup rw,memory\n"),
            ("proc/self/cgroup", "4:memory:/jobs/one\n"),
            ("cg/jobs/memory.limit_in_bytes", "100663296\n"),
            ("cg/jobs/memory.usage_in_bytes", "33554432\n"),
        ];
        for (files, path) in
            [(&two[..], "/sys/fs/cgroup/jobs/memory.max"), (&one, "/cg/jobs/memory.limit_in_bytes")]
        {
            let found = limited(files).unwrap();
            let file = path.rsplit('/').next().unwrap();
            let message =
                format!("the control group /jobs has 64 MiB left ({file} is 96 MiB, 32 MiB");
            assert_eq!(found.status, CheckStatus::No, "{found:?}");
            assert!(found.detail.starts_with(&message), "{found:?}");
            let remedy =
                format!("give at most --dram 61440KiB, such as --dram 50%; or raise {path}");
            assert_eq!(found.remedy, Some(remedy));
        }
        let mut wide = two;
        wide[4].1 = "1073741824\n";
        assert_eq!(limited(&wide).unwrap().status, CheckStatus::Yes);
        assert_eq!(limited(&[]).unwrap().detail, "22 GiB of DRAM are free");
    }

    #[test]
    fn a_shell_can_be_extended_and_nothing_else_is_made_of_it() {
        let found = program(OsStr::new("sh"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].status, CheckStatus::Yes, "{found:?}");
    }

    #[test]
    fn the_program_behind_a_launcher_is_found() {
        let launched_by = |words: &str| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            launched(&words).map(|name| name.to_string_lossy().into_owned())
        };
        let table = [
            ("mpirun -n 4 --bind-to core sh -c true", Some("sh")),
            ("/usr/bin/env A=1 nice -n 5 timeout -s KILL 400 sh", Some("sh")),
            ("sh -c true", None),
            ("mpirun -n 4 ./no-such-program", None),
            ("mpirun --hostfile /etc/passwd cat", Some("cat")),
            ("env", None),
        ];
        for (words, found) in table {
            assert_eq!(launched_by(words).as_deref(), found, "{words}");
        }
    }

    #[test]
    fn a_gpu_library_is_found_after_an_rdma_library() {
        let mut program = Program::inspect(OsStr::new("sh")).unwrap();
        assert!(pinned(&program).is_none());
        program.needs = vec!["libibverbs.so.1".into(), "libcuda.so.1".into()];
        let found = pinned(&program).unwrap();
        assert!(format!("{found:?}").contains("libcuda.so"), "{found:?}");
    }

    #[test]
    fn a_path_that_the_loader_would_cut_is_refused() {
        let spaced = preloaded(Path::new("/my programs/x.so"));
        let found = status(&[spaced], "library");
        assert_eq!(found[0].0, CheckStatus::No);
    }
}
