//! Runs small programs that use memory in various ways, with extended memory and without: the
//! output must be the same.

mod library;

use interleaf_pager::{
    kernel::uffd::FaultMode,
    session::{Children, SCHEMA, SKIP_SBRK, STORE_FAULTS, Session, SessionSettings, VARIABLE},
    shared,
};
use library::library;
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Allocations of at least `LEAST` bytes are extended. The budget is `MEMORY` bytes.
const LEAST: u64 = 8 << 20;
const MEMORY: u64 = 16 << 20;

/// Limits numerical libraries to one thread, because with more threads they would add
/// floating-point numbers in another order.
const ONE_THREAD: [(&str, &str); 2] = [("OPENBLAS_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1")];

/// Compiles a program into a writable folder of its own.
fn compile(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("program");
    compile_to(&program, name, &[]);
    (folder, program)
}

/// Compiles a program with additional arguments: definitions and libraries.
fn compile_to(program: &Path, name: &str, more: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let mut compiler = Command::new(if name.ends_with(".c") { "cc" } else { "c++" });
    compiler
        .args(["-O1", "-Wall", "-pthread", "-o"])
        .arg(program)
        .arg(source)
        .arg("-lm")
        .args(more);
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a program with extended memory, in a session as `interleaf extend` creates it. `folder` is
/// the program's working folder, and also holds its store.
fn extended(program: &Path, folder: &Path, arguments: &[&str], faults: FaultMode) -> Output {
    extended_with(&[], program, folder, arguments, faults)
}

/// Runs a program as `extended` does, with more environment variables. A value of `LD_PRELOAD` is
/// one more preloaded library.
fn extended_with(
    variables: &[(&str, &str)],
    program: &Path,
    folder: &Path,
    arguments: &[&str],
    faults: FaultMode,
) -> Output {
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let settings = SessionSettings {
        schema: SCHEMA.into(),
        dram_bytes: MEMORY,
        nodes: vec![],
        stores: vec![folder.into()],
        min_alloc_bytes: LEAST,
        children: Children::Inherit,
        shared: true,
        faults,
        force: false,
        processes: 1,
        command: vec![program.display().to_string()],
        keeper: std::process::id(),
    };
    let session = Session::begin(base.path(), None, &settings).expect("a session");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "400", "env"]);
    let mut preloaded = library().display().to_string();
    for (name, value) in variables {
        match *name {
            "LD_PRELOAD" => preloaded.extend([":", value]),
            _ => _ = command.arg(format!("{name}={value}")),
        }
    }
    command.arg(format!("LD_PRELOAD={preloaded}"));
    command.arg(format!("{VARIABLE}={}", session.folder().display()));
    command.arg(format!("{}={}", SKIP_SBRK.0, SKIP_SBRK.1));
    command.arg(program).args(arguments).current_dir(folder).envs(ONE_THREAD);
    let (keeper, mut keeps) = UnixStream::pair().expect("a connection");
    let output = std::thread::scope(|scope| {
        let server = scope.spawn(|| shared::serve(&session, keeper, || ()));
        keeps.read_exact(&mut [0]).expect("somebody who serves");
        let output = command.output().expect("a program that is there");
        drop(keeps);
        server.join().expect("no panic").expect("served to the end");
        output
    });
    assert!(session.end().is_empty(), "all its processes have ended");
    assert_eq!(std::fs::read_dir(base.path()).expect("the folder").count(), 0, "it is removed");
    output
}

/// Exit status and output of a program as text. The report of thrashing is left out, because it
/// depends on the speed of the drive.
fn text(output: &Output) -> String {
    let of = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let errors: String = of(&output.stderr)
        .split_inclusive('\n')
        .filter(|line| !THRASHING.iter().any(|start| line.starts_with(start)))
        .collect();
    format!("{}\n{}\n{}", output.status, of(&output.stdout), errors)
}

/// The beginnings of the lines that report thrashing.
const THRASHING: [&str; 2] = ["interleaf: the program waits for the drive ", "hint: a budget of "];

/// Asserts that a program succeeds with the same output with and without extended memory, and
/// leaves no file.
fn same(name: &str, arguments: &[&str]) {
    same_by(name, arguments, FaultMode::Thread);
}

/// Asserts the same as `same`, in the fault handling mode `faults`.
fn same_by(name: &str, arguments: &[&str], faults: FaultMode) {
    let (folder, program) = compile(name);
    same_program(&[], &program, folder.path(), arguments, faults);
}

/// Asserts the same as `same_by` for a compiled program. Both runs have the environment variables
/// `variables`; a value of `LD_PRELOAD` is one more preloaded library.
fn same_program(
    variables: &[(&str, &str)],
    program: &Path,
    folder: &Path,
    arguments: &[&str],
    faults: FaultMode,
) {
    let mut plain = Command::new(program);
    plain.args(arguments).current_dir(folder).envs(variables.iter().copied());
    let plain = plain.output().expect("a program that was just compiled");
    assert!(plain.status.success(), "not extended: {}", text(&plain));
    let files = || std::fs::read_dir(folder).expect("the folder").count();
    let before = files();
    let output = extended_with(variables, program, folder, arguments, faults);
    assert_eq!(text(&output), text(&plain), "extended, and not");
    assert_eq!(files(), before, "files in the folder");
}

#[test]
fn blocks() {
    same("malloc.c", &[]);
}

/// Asserts that extended memory does not change the output of a program whose allocations are each
/// too small to be extended, but together large enough.
#[test]
fn pieces() {
    same("pieces.c", &[]);
}

/// Asserts that extended memory does not change the output of a program with `new` and `delete` of
/// C++, and with containers that grow.
#[test]
fn containers() {
    same("containers.cc", &[]);
}

#[test]
fn mappings() {
    same("mapping.c", &["file"]);
}

#[test]
fn advice() {
    same("advice.c", &[]);
}

#[test]
fn descriptors_that_the_program_closes_and_replaces() {
    same("descriptors.c", &["file"]);
}

/// Asserts that a program may lower its limit of descriptors (`RLIMIT_NOFILE`) to 0, as sandboxes
/// do.
#[test]
fn a_low_limit_of_descriptors() {
    for faults in BOTH {
        same_by("limit.c", &[], faults);
    }
}

#[test]
fn kernel_and_threads() {
    same("access.c", &["file"]);
}

/// Asserts that a thread keeps its affinity mask although it waits for pages most of the time.
#[test]
fn the_affinity_of_a_thread_that_waits() {
    same("affinity.c", &[]);
}

/// Asserts that extended memory does not change the output of a program whose ring of io_uring has
/// kernel threads and registered buffers. The buffers are pinned: the pager retries their eviction,
/// and evicts all other pages.
#[test]
fn a_ring_of_io_uring() {
    same("ring.c", &["file"]);
}

#[test]
fn a_transform_and_a_factorisation() {
    same("numeric.c", &[]);
}

/// Asserts that extended memory does not change the output in the mode in which a handler of SIGBUS
/// handles faults. In this mode, system calls may access only mapped pages.
#[test]
fn blocks_in_signals() {
    same_by("malloc.c", &[], FaultMode::Signal);
}

#[test]
fn pieces_in_signals() {
    same_by("pieces.c", &[], FaultMode::Signal);
}

#[test]
fn containers_in_signals() {
    same_by("containers.cc", &[], FaultMode::Signal);
}

#[test]
fn numbers_in_signals() {
    same_by("numeric.c", &[], FaultMode::Signal);
}

/// The program has threads, children, and handlers of SIGBUS and of other signals, which may block
/// any signals. It makes system calls on pages that are not mapped: these succeed if the pager's
/// thread handles faults, and fail with `EFAULT` if the faulting thread handles them.
#[test]
fn signals() {
    same_by("signals.c", &["file"], FaultMode::Thread);
    same_by("signals.c", &["file", "EFAULT"], FaultMode::Signal);
}

/// Reports a test as skipped because a package is not installed; fails if `INTERLEAF_PROGRAMS` is
/// `required`.
fn not_tested(what: &str, package: &str) {
    let is_required = std::env::var_os("INTERLEAF_PROGRAMS").is_some_and(|it| it == "required");
    assert!(!is_required, "{package} is not installed");
    say(&format!("{what} is not tested: {package} is not installed\n"));
}

/// Writes to stderr directly, because the test harness captures `eprintln`.
fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).expect("the standard error");
}

const BOTH: [FaultMode; 2] = [FaultMode::Thread, FaultMode::Signal];

/// Asserts that extended memory does not change the output of a program that has its own allocator,
/// based on `mmap(2)`.
#[test]
fn an_allocator_of_the_program() {
    for faults in BOTH {
        same_by("allocator.c", &[], faults);
    }
}

/// Asserts that extended memory does not change the output of a program whose code has fixed
/// addresses, like Debian's Python interpreter.
#[test]
fn a_program_with_fixed_addresses() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("program");
    compile_to(&program, "fixed.c", &["-no-pie", "-fno-pic"]);
    for faults in BOTH {
        same_program(&[], &program, folder.path(), &[], faults);
    }
}

/// An allocator in a library: the library's file, the linker flags for it, and its package.
struct Allocator {
    file: &'static str,
    link: &'static [&'static str],
    package: &'static str,
}

/// Asserts that programs with the allocator, linked or preloaded, give the same output with
/// extended memory and without. Skips the test if the allocator is not installed.
fn same_with(allocator: &Allocator) {
    let Allocator { file, link, package } = allocator;
    let mut libraries = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]
        .map(|folder| Path::new(folder).join(file))
        .into_iter();
    let Some(library) = libraries.find(|library| library.exists()) else {
        not_tested(file, package);
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let preloaded = [("LD_PRELOAD", library.to_str().expect("a path of letters"))];
    compile_to(&path("linked"), "allocators.c", link);
    compile_to(&path("preloaded"), "allocators.c", &["-DPRELOADED"]);
    compile_to(&path("containers"), "containers.cc", &["-fsized-deallocation"]);
    for faults in BOTH {
        same_program(&[], &path("linked"), folder.path(), &[], faults);
        same_program(&preloaded, &path("preloaded"), folder.path(), &[], faults);
    }
    // This program is run only in the mode in which the pager's thread handles faults. With a
    // handler of SIGBUS, a system call on an unmapped output buffer would fail (`EFAULT`).
    same_program(&preloaded, &path("containers"), folder.path(), &[], FaultMode::Thread);
}

#[test]
fn blocks_of_all_sizes() {
    for faults in BOTH {
        same_by("allocators.c", &[], faults);
    }
}

#[test]
fn jemalloc() {
    let link = &["-DJEMALLOC", "-ljemalloc"];
    same_with(&Allocator { file: "libjemalloc.so", link, package: "libjemalloc-dev" });
}

/// The allocator is linked statically, so the program itself defines `malloc`. The program's output
/// must be the same with extended memory and without.
#[test]
fn jemalloc_in_the_program() {
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.a";
    if !Path::new(library).exists() {
        not_tested("libjemalloc.a", "libjemalloc-dev");
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("program");
    compile_to(&program, "allocators.c", &["-DJEMALLOC", library, "-lm", "-ldl"]);
    for faults in BOTH {
        same_program(&[], &program, folder.path(), &[], faults);
    }
}

#[test]
fn tcmalloc() {
    let link = &["-DTCMALLOC", "-ltcmalloc_minimal"];
    same_with(&Allocator {
        file: "libtcmalloc_minimal.so",
        link,
        package: "libgoogle-perftools-dev",
    });
}

#[test]
fn mimalloc() {
    let link = &["-DMIMALLOC", "-lmimalloc"];
    same_with(&Allocator { file: "libmimalloc.so", link, package: "libmimalloc-dev" });
}

/// Asserts that a program may make its first large allocation while threads hold locks or are
/// interrupted: in a plugin, a signal handler, a child or a constructor.
#[test]
fn first_allocations() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (program, plugin, early) = (path("program"), path("plugin.so"), path("early"));
    compile_to(&program, "first.c", &[]);
    compile_to(&plugin, "first.c", &["-DPLUGIN", "-shared", "-fPIC"]);
    compile_to(&early, "first.c", &["-DCONSTRUCTOR"]);
    let plugin = plugin.to_str().expect("a path of letters");
    for faults in BOTH {
        for arguments in [
            &["plugin", plugin][..],
            &["thread", plugin],
            &["handler"],
            &["fork"],
            &["vfork"],
            &["exit"],
        ] {
            same_program(&[], &program, folder.path(), arguments, faults);
        }
        same_program(&[], &early, folder.path(), &["constructor"], faults);
    }
}

/// Asserts that a change of user applies to all threads of a program, including the pager's
/// threads.
#[test]
fn a_change_of_user() {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::metadata("/proc/self").expect("this process").uid() {
        0 => same("user.c", &[]),
        // Printed by `say`, because `not_tested` is for missing packages.
        _ => say("a change of the user is not tested: this is not root\n"),
    }
}

/// Asserts that a Python script gives the same output with extended memory and without. Skips the
/// test if the command `needed` fails: then `package` is not installed.
fn same_script(name: &str, needed: (&str, &[&str]), package: &str) {
    let python = "/usr/bin/python3";
    let has = Command::new(needed.0).args(needed.1).output();
    if !has.is_ok_and(|output| output.status.success()) {
        not_tested(name, package);
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name);
    let mut plain = Command::new(python);
    let plain = plain.arg(&script).envs(ONE_THREAD).output().expect("Python");
    assert!(plain.status.success(), "{}", text(&plain));
    let script = script.to_str().expect("a path of letters");
    // Scripts are tested only in the mode in which the pager's thread handles faults. With a
    // handler of SIGBUS, Python's reads of modules into unmapped memory would fail (EFAULT).
    let output = extended(Path::new(python), folder.path(), &[script], FaultMode::Thread);
    assert_eq!(text(&output), text(&plain));
}

const NUMPY: (&str, &[&str]) = ("/usr/bin/python3", &["-c", "import numpy"]);

/// Asserts that Redis, a server with its own allocator, gives the same output with extended memory
/// and without.
#[test]
fn redis() {
    same_script("server.py", ("redis-server", &["--version"]), "redis-server");
}

/// Asserts that products, transforms, sorting and solving by NumPy give identical results with a
/// budget that is smaller than the sum of the arrays.
#[test]
fn numpy() {
    same_script("arrays.py", NUMPY, "python3-numpy");
}

#[test]
fn children() {
    same("fork.c", &["1000", "file"]);
}

/// Asserts that handlers which a library registers by `pthread_atfork(3)` in its constructor can
/// use extended memory before and after the fork.
#[test]
fn handlers_of_forks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = |name: &str| folder.path().join(name);
    compile_to(&path("libhandlers.so"), "atfork.c", &["-DLIBRARY", "-shared", "-fPIC"]);
    let folder_text = folder.path().to_str().expect("a path of letters");
    let run_path = format!("-Wl,-rpath,{folder_text}");
    compile_to(&path("program"), "atfork.c", &["-L", folder_text, "-lhandlers", &run_path]);
    for faults in BOTH {
        same_program(&[], &path("program"), folder.path(), &[], faults);
    }
}

/// Asserts that single pages are zeros in a forked child (`MADV_WIPEONFORK`) or absent from it
/// (`MADV_DONTFORK`), also after pages were freed, replaced or moved.
#[test]
fn pages_that_children_do_not_inherit() {
    for faults in BOTH {
        same_by("inherit.c", &[], faults);
    }
}

/// Asserts that the program may fork children by the raw system call while other threads hold
/// locks.
#[test]
fn forks_by_a_system_call() {
    for kind in ["private", "shared"] {
        same("raw_fork.c", &[kind]);
    }
}

/// Asserts that a program may fork more often than the 255 layers that a store can number.
#[test]
fn three_hundred_forks() {
    same("forks.c", &[]);
}

/// Asserts that no word is wrong while eight threads read, write, release, protect, move and fork
/// at random for some seconds. CONTRIBUTING.md has the command of a long run.
#[test]
fn a_storm() {
    same("storm.c", &["3"]);
}

/// Asserts that no word is wrong in a storm on a drive whose transfers fail, are incomplete, finish
/// late or in another order. Each failed transfer succeeds at a retry.
#[test]
fn a_storm_on_a_failing_drive() {
    let faults = "seed=1,eio=500,again=20,short=200,torn=500,delayed=500,delay_ms=20,reordered=1";
    let (folder, program) = compile("storm.c");
    let variables = [(STORE_FAULTS, faults)];
    same_program(&variables, &program, folder.path(), &["3"], FaultMode::Thread);
}

#[test]
fn a_storm_in_signals() {
    same_by("storm.c", &["3", "memory-only"], FaultMode::Signal);
}

#[test]
fn calls_that_fail() {
    for faults in BOTH {
        same_by("failures.c", &[], faults);
    }
}

#[test]
fn second_mappings_in_place_of_extended_memory() {
    for faults in BOTH {
        same_by("aliases.c", &[], faults);
    }
}

/// Asserts that mappings of files do not count as unextended memory, and that counted memory stays
/// counted if a new private mapping replaces it, or if `mremap(2)` leaves it mapped.
#[test]
fn pieces_that_stay_counted() {
    for faults in BOTH {
        same_by("counted.c", &["file"], faults);
    }
}

#[test]
fn locked_memory() {
    for faults in BOTH {
        for order in ["before", "after", "freed", "replaced", "child"] {
            same_by("locked.c", &[order], faults);
        }
    }
}

/// Asserts that signals interrupt a system call if the program asked for it (`siginterrupt(3)`).
#[test]
fn interrupted_calls() {
    for faults in BOTH {
        same_by("interrupted.c", &[], faults);
    }
}

/// Asserts that processes can share memory, also after the first process has exited.
#[test]
fn sharing() {
    same("shared.c", &["file"]);
}

/// Asserts that Python workers can together fill one array of 40 MiB, two and a half times the
/// budget.
#[test]
fn workers() {
    same_script("workers.py", NUMPY, "python3-numpy");
}
