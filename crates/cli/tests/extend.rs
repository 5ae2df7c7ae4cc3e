//! Tests of `interleaf extend` on this machine, with programs that are compiled from C.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/common.rs"]
mod common;
mod executable;
#[path = "terminal/screen.rs"]
mod screen;

use common::{
    DRAM, MIB, TestFolders, compiled, ends, is_oom_killed, library, refused, started, sweep, text,
    try_started, until,
};
use interleaf_linux::{
    process::{cgroup::Trees, memory_cgroup::MemoryCgroup},
    root::Root,
};
use screen::{Screen, ended};
use serde_json::Value;
use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::{Command, Output, Stdio},
};

/// The usual user ID of `nobody`, a user without rights.
const NOBODY: u32 = 65534;

#[test]
fn a_program_has_three_times_the_budget() {
    let folders = TestFolders::new();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let options = ["--report", page.to_str().unwrap()];
    let output = folders.extended(&options, &[sweep(), MIB, "3"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "as it was left\n".into()));
    assert!(fs::read_to_string(&page).unwrap().contains("<h1>"), "{stderr}");
    let stats = folders.stats();
    assert_eq!(stats["schema"], "interleaf.extend/1");
    assert_eq!((&stats["dram_bytes"], &stats["exit_code"]), (&(16 << 20).into(), &0.into()));
    let count = |name: &str| stats[name].as_u64().unwrap_or_else(|| panic!("{name}: {stats}"));
    // The program's memory is three times the budget. One third stays resident. The other two
    // thirds are written to the store at least once, and read back in each pass but the first.
    let third = 16 << 20;
    assert!(count("written_bytes") >= 2 * third, "{stats}");
    assert!(count("read_bytes") >= 2 * third, "{stats}");
    assert!(count("evicted_pages") * 4096 >= 2 * third, "{stats}");
    let footprint = count("footprint_bytes");
    assert!((3 * third..4 * third).contains(&footprint), "{stats}");
    assert!(count("faults") > 0 && count("prefetch_hits") <= count("prefetched_pages"), "{stats}");
    assert!(stats["stall_s"].as_f64().unwrap() > 0.0);
    let process = &stats["processes"][0];
    assert_eq!((&process["name"], &process["dram_bytes"]), (&"sweep".into(), &(16 << 20).into()));
    assert!(stderr.contains("interleaf: 16 MiB of DRAM for a footprint of "), "{stderr}");
    assert_eq!(folders.left(), 0, "nothing is left behind");
}

#[test]
fn faults_are_served_in_the_faulting_thread_on_request() {
    let folders = TestFolders::new();
    let output = folders.extended(&["--faults", "signal"], &[sweep(), MIB, "3"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "as it was left\n".into()));
    assert!(stderr.contains("(EFAULT)"), "what that costs is said: {stderr}");
    assert!(folders.stats()["read_bytes"].as_u64() >= Some(2 * (16 << 20)), "{}", folders.stats());
}

#[test]
fn the_exit_status_of_the_command_is_passed_on() {
    let folders = TestFolders::new();
    let output = folders.extended(&[], &["sh", "-c", "echo out; exit 42"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(42), "out\n".into()));
    assert!(text(&output.stderr).contains("nothing was extended: "), "{}", text(&output.stderr));
    let output = folders.extended(&["-q"], &["sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(128 + 9), String::new()));
    assert_eq!(folders.stats()["signal"], 9);
}

#[test]
fn a_signal_is_passed_on_and_all_files_are_removed() {
    for (signal, number) in [("-TERM", 15), ("-INT", 2)] {
        let folders = TestFolders::new();
        let mut command = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
        let (mut child, _lines) = started(&mut command);
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        assert_eq!(folders.stats()["signal"], number);
        assert_eq!(folders.left(), 0);
    }
}

#[test]
fn the_next_session_removes_leftovers_of_killed_ones() {
    let folders = TestFolders::new();
    let mut command = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
    let (mut child, mut lines) = started(&mut command);
    let stdin = child.stdin.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let clean = || text(&folders.interleaf(&["--clean"]).output().unwrap().stderr);
    assert_eq!(clean(), "interleaf: no session has left anything\n", "its command goes on");
    drop(stdin);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "as it was left\n", "and has its memory");
    until("the folder of the killed is removed", || clean().contains(": removed, all processes"));
    assert_eq!(folders.left(), 0);
}

/// Freeing the blocks of a store can take minutes, so a process of its own, the releaser, frees
/// them. A killed program exits before the blocks are free.
#[test]
fn the_file_of_a_store_is_released_in_the_background() {
    let folders = TestFolders::new();
    let mut command = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
    let (mut child, _lines) = started(&mut command);
    let store = folders.at("store").canonicalize().unwrap();
    let holds = |process: &str| {
        let fds = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut files = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
        files.any(|file| file.starts_with(&store))
    };
    let pid = child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children: Vec<&str> = children.split_whitespace().collect();
    let [releaser, program] = children[..] else { panic!("{children:?}") };
    until("both hold the file", || holds(releaser) && holds(program));
    let kill = |pid: &str| Command::new("kill").args(["-KILL", pid]).status().unwrap();
    assert!(kill(program).success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
    until("the file is released", || !holds(releaser));
    assert_eq!(folders.left(), 0);
}

#[test]
fn children_share_the_budget_have_one_of_their_own_or_none() {
    let two =
        format!("{0} {MIB} 2 & one=$!; {0} {MIB} 2 & two=$!; wait $one && wait $two", sweep());
    let names = |options: &[&str]| {
        let folders = TestFolders::new();
        let output = folders.extended(options, &["bash", "-c", &two]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let stats = folders.stats();
        let processes = stats["processes"].as_array().unwrap().iter();
        let all = processes.map(|it| (it["name"].clone(), it["dram_bytes"].as_u64().unwrap()));
        all.collect::<Vec<_>>()
    };
    let shared = names(&["--processes", "2"]);
    assert_eq!(shared.len(), 2, "{shared:?}");
    assert!(shared.iter().all(|(name, held)| name == "sweep" && *held >= 8 << 20), "{shared:?}");
    let own = names(&["--children", "own"]);
    assert_eq!(own, vec![("sweep".into(), 16 << 20), ("sweep".into(), 16 << 20)]);
    assert_eq!(names(&["--children", "none"]), vec![]);
}

#[test]
fn a_child_that_is_forked_has_a_part_of_its_own() {
    let folders = TestFolders::new();
    let program = compiled("fork", "fork.c", &[]);
    let output = folders.extended(&[], &[program.to_str().unwrap(), MIB]).output().unwrap();
    assert_eq!(text(&output.stdout), "each has its own\n", "{}", text(&output.stderr));
    let stats = folders.stats();
    let processes = stats["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "{stats}");
    // The statistics have the DRAM of each process at its exit. The process that exited first
    // shared the budget, so it had at most half. The other one had at most the whole budget.
    let held = processes.iter().map(|process| process["dram_bytes"].as_u64().unwrap());
    assert!(held.clone().min() <= Some(8 << 20) && held.max() <= Some(16 << 20), "{stats}");
    assert!(processes.iter().all(|process| process["read_bytes"].as_u64() > Some(0)), "{stats}");
}

/// A program forks children with low limits of open files. A child that cannot open its pager's
/// files has no pager. When it touches extended memory, SIGSEGV kills it: it must never read zeros
/// in place of its data.
#[test]
fn a_child_without_a_pager_never_reads_zeros() {
    let folders = TestFolders::new();
    let program = compiled("fork-limit", "fork-limit.c", &[]);
    let output = folders.extended(&[], &[program.to_str().unwrap(), MIB]).output().unwrap();
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("right") && said.contains("killed by signal 11"), "{said}{told}");
    assert!(!said.contains("wrong"), "{said}{told}");
}

/// Two commands share a session with a budget of 16 MiB, half of it for each process. When the
/// second command has ended, the first process has the whole budget again.
#[test]
fn parts_of_the_budget_move() {
    let folders = TestFolders::new();
    let mut first = folders.extended(&["--session", "job"], &[sweep(), MIB, "2", "stdin"]);
    let (mut first, _lines) = started(&mut first);
    let mut second = folders.extended(&["--session", "job"], &[sweep(), MIB, "2", "stdin"]);
    let (mut second, _lines) = started(&mut second);
    let held = || -> Vec<u64> {
        let processes = folders.watched().into_iter();
        processes.map(|process| process["dram_bytes"].as_u64().unwrap()).collect()
    };
    until("each has half", || held() == [8 << 20, 8 << 20]);
    ends(&mut second);
    until("the first has all", || held() == [16 << 20]);
    ends(&mut first);
}

#[test]
fn processes_in_sequence_each_have_the_whole_budget() {
    let folders = TestFolders::new();
    let three = format!("{0} 20 2 && {0} 20 2 && exec {0} 20 2", sweep());
    let output = folders.extended(&[], &["sh", "-c", &three]).output().unwrap();
    assert_eq!(text(&output.stdout), "as it was left\n".repeat(3), "{}", text(&output.stderr));
    let stats = folders.stats();
    let processes = stats["processes"].as_array().unwrap();
    assert!(!processes.is_empty(), "{stats}");
    assert!(processes.iter().all(|process| process["dram_bytes"] == 16 << 20), "{stats}");
    // Each of the three programs touches 20 MiB with a budget of 16 MiB, so it evicts 4 MiB or
    // more.
    assert!(stats["evicted_pages"].as_u64().unwrap() * 4096 >= 3 * (4 << 20), "{stats}");
    // The programs run one after the other. So the footprint of the session is at least that of one
    // program (20 MiB), and less than that of two programs (40 MiB).
    let footprint = stats["footprint_bytes"].as_u64().unwrap();
    assert!((20 << 20..40 << 20).contains(&footprint), "{stats}");
}

/// The first process of a new PID namespace has the process ID 1. It gets extended memory if
/// `/proc` is that of the parent namespace. With a `/proc` of the new namespace, it cannot see
/// whether other processes of the session still run, so it gets none.
#[test]
fn a_process_in_a_new_pid_namespace_leaves_no_session_behind() {
    for (options, is_extended) in [(vec!["--fork"], true), (vec!["--fork", "--mount-proc"], false)]
    {
        let folders = TestFolders::new();
        let words = [vec!["unshare", "--pid"], options, vec![sweep(), MIB, "2"]].concat();
        let output = folders.extended(&[], &words).output().unwrap();
        let stderr = text(&output.stderr);
        if stderr.contains("unshare failed") {
            writeln!(io::stderr(), "not tested: a new PID namespace needs root").unwrap();
            return;
        }
        assert_eq!(text(&output.stdout), "as it was left\n", "{stderr}");
        assert_eq!(folders.stats()["faults"].as_u64() > Some(0), is_extended, "{stderr}");
        let refusal = "not extended: /proc: it belongs to another PID namespace than the session";
        assert_eq!(stderr.contains(refusal), !is_extended, "{stderr}");
        assert_eq!(folders.left(), 0, "{stderr}");
    }
}

#[test]
fn commands_with_one_session_name_share_one_budget() {
    let folders = TestFolders::new();
    let options = ["--session", "job", "--processes", "2"];
    // The first command runs until `wait_with_output` closes its stdin.
    let mut first = folders.extended(&options, &[sweep(), MIB, "2", "stdin"]);
    let (first, _lines) = started(&mut first);
    let second = folders.extended(&options, &[sweep(), MIB, "2"]).output().unwrap();
    assert_eq!(text(&second.stdout), "as it was left\n");
    assert!(first.wait_with_output().unwrap().status.success());
    // The command that ends last writes the statistics, for the processes of both commands.
    let stats = folders.stats();
    assert_eq!((stats["processes"].as_array().unwrap().len(), folders.left()), (2, 0), "{stats}");
    // The ranks of an MPI job share a session too: the launcher names the job in their environment.
    let rank = |words: &[&str]| {
        let mut command = folders.extended(&[], words);
        command.env("PMIX_NAMESPACE", "job@1").env("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
        command
    };
    let (first, _lines) = started(&mut rank(&[sweep(), MIB, "2", "stdin"]));
    assert!(rank(&[sweep(), MIB, "2"]).status().unwrap().success());
    assert!(first.wait_with_output().unwrap().status.success());
    let stats = folders.stats();
    assert_eq!((stats["processes"].as_array().unwrap().len(), folders.left()), (2, 0), "{stats}");
    let mut third = folders.extended(&options, &[sweep(), MIB, "2", "stdin"]);
    let (mut third, _lines) = started(&mut third);
    let other = folders.extended(&["--session", "job"], &["true"]).output().unwrap();
    refused(&other, "a session with other settings is there", "give every part of the session");
    ends(&mut third);
}

#[test]
fn a_session_is_watched_from_outside() {
    let folders = TestFolders::new();
    let none = folders.interleaf(&["--monitor"]).output().unwrap();
    refused(&none, "no session runs that could be watched", "start one with interleaf extend");
    let mut command = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
    let (mut child, _lines) = started(&mut command);
    let strange = folders.interleaf(&["--monitor=1"]).output().unwrap();
    refused(&strange, "--monitor=1: no session has this process", "start one");
    let pid = format!("--monitor={}", child.id());
    let mut monitor = folders.interleaf(&[&pid, "--json"]);
    let mut monitor = monitor.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut documents = BufReader::new(monitor.stdout.take().unwrap());
    let mut first = String::new();
    documents.read_line(&mut first).unwrap();
    // `wait` closes the stdin of the program, which then ends.
    assert!(child.wait().unwrap().success());
    io::copy(&mut documents, &mut io::sink()).unwrap();
    let said = text(&monitor.wait_with_output().unwrap().stderr);
    assert!(said.contains("interleaf: the session has ended"), "{said}");
    let first: Value = serde_json::from_str(&first).unwrap_or_else(|why| panic!("{why}: {said}"));
    assert_eq!(
        (&first["schema"], &first["exit_code"]),
        (&"interleaf.extend/1".into(), &Value::Null)
    );
    assert_eq!(first["processes"][0]["name"], "sweep");
    assert!(first["written_bytes"].as_u64().unwrap() > 0, "{first}");
}

/// The monitor ends if its terminal hangs up while the session runs.
#[test]
fn a_hang_up_of_the_terminal_ends_the_monitor() {
    let folders = TestFolders::new();
    let mut command = folders.extended(&[], &[sweep(), MIB, "2", "stdin"]);
    let (mut child, _lines) = started(&mut command);
    let mut screen = Screen::open();
    let mut watching = screen.start(&mut folders.interleaf(&["--monitor"]));
    screen.until("quit");
    screen.hang_up();
    assert_eq!(ended(&mut watching).code(), Some(2));
    ends(&mut child);
}

#[test]
fn programs_that_cannot_be_extended_are_refused() {
    let folders = TestFolders::new();
    let refuses = |words: &[&str], problem: &str, hint: &str| {
        refused(&folders.extended(&[], words).output().unwrap(), problem, hint);
    };
    let fixed = compiled("fixed", "sweep.c", &["-static"]);
    refuses(&[fixed.to_str().unwrap(), "1", "1"], "it is linked statically", "link it dynamically");
    refuses(&["no-such-program"], "no-such-program: there is no such program", "name a program");
    let script = folders.at("script");
    executable::write(&script, format!("#!{}\n", fixed.display()));
    refuses(&[script.to_str().unwrap()], "a script, read by ", "link it dynamically");
    let other = folders.at("other-user");
    executable::copy(Path::new(sweep()), &other);
    if std::os::unix::fs::chown(&other, Some(65534), None).is_ok() {
        fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).unwrap();
        let words = [other.to_str().unwrap(), "1", "1"];
        refuses(&words, "takes no library from its caller", "run it as the user");
    }
    let file = folders.at("data");
    fs::write(&file, "precious").unwrap();
    let mut command = folders.interleaf(&["--dram", DRAM, "--store"]);
    let output = command.arg(&file).args(["--", "true"]).output().unwrap();
    refused(&output, "is neither a folder nor a block device", "name the folder");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

/// Programs for another C library, another processor, or an unknown loader are rejected.
#[test]
fn programs_for_other_libraries_and_processors_are_refused() {
    let folders = TestFolders::new();
    let refuses = |program: &Path, problem: &str, hint: &str| {
        let words = [program.to_str().unwrap(), "1", "1"];
        refused(&folders.extended(&[], &words).output().unwrap(), problem, hint);
    };
    let loader = |name: &str, path: &str| {
        compiled(name, "sweep.c", &[&format!("-Wl,--dynamic-linker={path}")])
    };
    let musl = loader("for-musl", "/lib/ld-musl-x86_64.so.1");
    refuses(&musl, "it is linked with musl", "run a build for the GNU C library");
    let strange = loader("for-nobody", "/lib/ld-strange.so");
    refuses(&strange, "its loader /lib/ld-strange.so is not known", "run it with --force");
    // Set the field `e_machine` of the ELF header to 64-bit SPARC (43).
    let other = folders.at("for-another");
    let mut bytes = fs::read(sweep()).unwrap();
    bytes[18..20].copy_from_slice(&43_u16.to_le_bytes());
    executable::write(&other, bytes);
    refuses(&other, "program, and the library is not", "run a build for this machine");
}

/// Memory that devices write to cannot be paged. So a program with a GPU library is rejected. A
/// program with an RDMA library, such as every MPI program, gets only a warning: often it does not
/// use RDMA. The check also finds programs behind launchers such as `env` and `nice`.
#[test]
fn programs_with_device_memory_are_refused() {
    let folders = TestFolders::new();
    let library = |name: &str, options: &[&str]| {
        let made = compiled("nothing", "nothing.c", &[&["-shared", "-fPIC"], options].concat());
        fs::rename(made, folders.at(name)).unwrap();
    };
    let here = format!("-L{}", folders.at("").display());
    let found = format!("-Wl,-rpath,{}", folders.at("").display());
    let all = "-Wl,--no-as-needed";
    library("libcuda.so", &["-Wl,-soname,libcuda.so"]);
    library("libibverbs.so", &["-Wl,-soname,libibverbs.so"]);
    library("libmpi.so", &["-Wl,-soname,libmpi.so", &here, &found, all, "-libverbs"]);
    let program = |name: &str, library: &str| {
        let made = compiled(name, "sweep.c", &[&here, &found, all, library]);
        made.to_str().unwrap().to_string()
    };
    let (gpu, mpi) = (program("gpu", "-lcuda"), program("mpi", "-lmpi"));
    let pins = "is linked with libcuda.so: memory that it pins for a GPU cannot be paged";
    let refuses = |words: &[&str]| {
        let output = folders.extended(&[], words).output().unwrap();
        refused(&output, pins, "run it without; or --force");
    };
    refuses(&[&gpu, MIB, "1"]);
    refuses(&["env", "-u", "NOTHING", "nice", "-n", "1", &gpu, MIB, "1"]);
    let runs: [(&[&str], &str, &str); 2] = [
        (&["--force"], &gpu, pins),
        (&[], &mpi, "brings libibverbs.so with it: memory that it pins for RDMA is not paged"),
    ];
    for (options, program, told) in runs {
        let output = folders.extended(options, &[program, MIB, "1"]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(text(&output.stdout), "as it was left\n", "{said}");
        assert!(said.contains(told), "{said}");
        assert!(folders.stats()["evicted_pages"].as_u64() > Some(0), "{said}");
    }
}

/// A limit of the address space (`ulimit -v`) and a store in memory (tmpfs) are rejected with a
/// remedy. If the program does not exist, `--estimate` names this problem, and still measures the
/// drive.
#[test]
fn refusals_of_the_system_are_reported() {
    let folders = TestFolders::new();
    let limited = |limits: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limits} && exec \"$@\""), "sh"]);
        let words = folders.extended(&[], &[sweep(), "1", "1"]);
        shell.arg(words.get_program()).args(words.get_args());
        shell.env("INTERLEAF_PRELOAD", library()).output().unwrap()
    };
    let output = limited("ulimit -v 8000000");
    refused(&output, "addresses are limited to ", "ulimit -v unlimited");
    let mut memory = folders.interleaf(&["--dram", DRAM, "--store", "/dev/shm", "--", "true"]);
    let output = memory.output().unwrap();
    refused(&output, "/dev/shm (tmpfs, ", "name a folder on a drive");
    let output = folders.extended_dry(&["--estimate"], &["no-such-program"]);
    assert_eq!(output.status.code(), Some(1), "the answer is no");
    let said = text(&output.stdout);
    assert!(said.contains("no-such-program: there is no such program"), "{said}");
    assert!(said.contains("What the drives allow") && said.contains("cannot run: "), "{said}");
}

/// A user without rights learns which right is missing and how to grant it. With this right, the
/// command runs. The test needs root, because only root can become another user.
#[test]
fn a_missing_right_is_named() {
    let folder = tempfile::Builder::new().prefix("interleaf-user-").tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["", "run", "store"] {
        fs::create_dir_all(at(name)).unwrap();
        if let Err(why) = std::os::unix::fs::chown(at(name), Some(NOBODY), Some(NOBODY)) {
            // Write to stderr directly: the harness hides the captured output of a test that
            // passes.
            writeln!(io::stderr(), "not tested: a user without rights: {why}").unwrap();
            return;
        }
    }
    // Copy the programs: the other user may have no access to the build folder.
    executable::copy(Path::new(env!("CARGO_BIN_EXE_interleaf")), &at("interleaf"));
    executable::copy(&library(), &at("libinterleaf_preload.so"));
    executable::copy(Path::new(sweep()), &at("sweep"));
    let nobody = NOBODY.to_string();
    let extended = |rights: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).args(rights);
        command.arg(at("interleaf")).args(["extend", "--dram", DRAM, "--min-alloc", "1MiB"]);
        command.arg("--store").arg(at("store")).arg("--").arg(at("sweep")).args([MIB, "2"]);
        command.env("XDG_RUNTIME_DIR", at("run")).current_dir(folder.path()).output().unwrap()
    };
    let output = extended(&[]);
    let all = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap();
    let is_open = fs::metadata("/dev/userfaultfd").is_ok_and(|it| it.mode() & 0o006 == 0o006);
    if all.trim() == "0" && !is_open {
        let hint = "as root either sysctl vm.unprivileged_userfaultfd=1, or give a group";
        refused(&output, "this user may not serve page faults of the kernel", hint);
        for word in ["/dev/userfaultfd", "CAP_SYS_PTRACE"] {
            assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
        }
    }
    let output = extended(&["--inh-caps", "+sys_ptrace", "--ambient-caps", "+sys_ptrace"]);
    assert_eq!(text(&output.stdout), "as it was left\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("16 MiB of DRAM"), "{}", text(&output.stderr));
}

#[test]
fn a_static_program_gets_swap_that_is_steered() {
    let folders = TestFolders::new();
    let fixed = compiled("fixed-swapped", "sweep.c", &["-static"]);
    // While all pages of a small control group are under write-back to a slow store, the OOM killer
    // may end the program. Then run it again.
    let run = || folders.extended_dry(&["--force"], &[fixed.to_str().unwrap(), MIB, "3"]);
    let is_whole = |output: &Output| !is_oom_killed(&text(&output.stderr));
    let output = (0..4).map(|_| run()).find(is_whole).unwrap();
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "as it was left\n")
    );
    assert!(said.contains("slower by far") && said.contains(" pages ahead"), "{said}");
    assert_eq!(folders.left(), 0, "its swap file is gone");
}

/// A static program has no pager, but swap with hints to the kernel (steered swap). While it runs,
/// `interleaf extend` is killed. `--restore` then moves the program out of the control group, and
/// its pages out of swap. The program continues.
#[test]
fn restore_undoes_the_swap_and_the_group_of_a_killed_tool() {
    let folders = TestFolders::new();
    let fixed = compiled("fixed-killed", "sweep.c", &["-static"]);
    let mut command = folders.interleaf(&["--dram", DRAM, "--force", "--store"]);
    command.arg(folders.at("store")).arg("--").arg(&fixed).args([MIB, "2", "stdin"]);
    // The program waits after its first pass, with most of its pages in swap. If the OOM killer
    // ends it before that, start it again.
    let (mut tool, mut lines) = (0..4).find_map(|_| try_started(&mut command)).unwrap();
    let stdin = tool.stdin.take().unwrap();
    let root = Root::live();
    let tree = Trees::read(&root).unwrap().unwrap().memory.unwrap();
    let group = tree.group(&format!("interleaf-extend-{}", tool.id()));
    let swap = format!(".interleaf-swap-{}-", tool.id());
    let has_swap = || fs::read_to_string("/proc/swaps").unwrap().contains(&swap);
    let mut processes = group.processes(&root).unwrap();
    processes.retain(|process| *process != tool.id());
    assert!(!processes.is_empty() && has_swap());
    tool.kill().unwrap();
    tool.wait().unwrap();
    assert!(has_swap() && group.exists(&root), "a killed tool undoes nothing");
    let restored =
        Command::new(env!("CARGO_BIN_EXE_interleaf")).args(["run", "--restore"]).output();
    let restored = restored.unwrap();
    drop(stdin);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "as it was left\n", "the program goes on");
    assert_eq!(restored.status.code(), Some(0), "{}", text(&restored.stderr));
    assert!(!has_swap() && !group.exists(&root), "{}", text(&restored.stdout));
    assert_eq!(folders.left(), 0, "its swap file is gone");
}

#[test]
fn a_dry_run_lists_its_checks_and_runs_nothing() {
    let folders = TestFolders::new();
    let output = folders.extended_dry(&["--dry-run", "--json"], &["sh", "-c", "echo ran"]);
    let plan: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!((output.status.code(), &plan["can_be_done"]), (Some(0), &true.into()), "{plan}");
    let checks = plan["checks"].as_array().unwrap().iter();
    let found: Vec<_> = checks.map(|check| check["what"].as_str().unwrap()).collect();
    for what in ["library", "command", "userfaultfd", "io_uring", "store", "memory"] {
        assert!(found.contains(&what), "{what}: {plan}");
    }
    let fixed = compiled("fixed-too", "sweep.c", &["-static"]);
    let output = folders.extended_dry(&["--dry-run"], &[fixed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "the answer is no");
    assert!(text(&output.stdout).contains("cannot run: "), "{}", text(&output.stdout));
}

#[test]
fn an_estimate_measures_the_store_and_leaves_nothing_there() {
    let folders = TestFolders::new();
    let output = folders.extended_dry(&["--estimate", "--footprint", "64MiB", "--json"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let plan: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let estimate = &plan["estimate"];
    assert!(estimate["read_gbps"].as_f64().unwrap() > 0.0, "{plan}");
    let depths = estimate["drives"][0]["random"].as_array().unwrap().iter();
    let depths: Vec<_> = depths.map(|random| random["depth"].as_u64().unwrap()).collect();
    assert_eq!(depths, [1, 16, 64]);
    let row = &estimate["rows"][0];
    assert_eq!(
        (&row["footprint_bytes"], &row["missing_share"]),
        (&(64 << 20).into(), &0.75.into())
    );
    assert!(row["read_gbps"].as_f64() > estimate["read_gbps"].as_f64(), "{plan}");
    assert_eq!(folders.left(), 0);
}

/// Only allocations of at least `--min-alloc` are extended. The report counts smaller ones as
/// memory outside the budget.
#[test]
fn memory_outside_the_budget_is_reported() {
    let folders = TestFolders::new();
    let pieces = compiled("pieces", "pieces.c", &[]);
    let run = |options: &[&str], count: &str, bytes: &str| {
        let mut command = folders.interleaf(&["--dram", "32MiB", "--store"]);
        command.arg(folders.at("store")).arg("--stats").arg(folders.at("stats.json"));
        command.args(options).arg("--").arg(&pieces).args([count, bytes]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (folders.stats(), text(&output.stderr))
    };
    // Each allocation has 60 MiB: more than `--min-alloc` in the first run (4 MiB, the default),
    // and less than `--min-alloc` in the second run (64 MiB).
    let (stats, said) = run(&[], "2", "62914560");
    assert_eq!(stats["min_alloc_bytes"], 4 << 20, "an eighth of the budget");
    assert!(stats["evicted_pages"].as_u64() >= Some(80 << 8), "{stats}");
    let outside = "memory outside the budget: up to ";
    assert!(said.contains(outside) && !said.contains("--min-alloc"), "{said}");
    let (stats, said) = run(&["--min-alloc", "64MiB"], "2", "62914560");
    let process = &stats["processes"][0];
    assert_eq!(stats["evicted_pages"], 0, "{stats}");
    // `left_bytes` counts the usable bytes of each block. The C library adds a header of 16 bytes
    // and maps whole pages, so the rest of a block's last page counts too.
    assert_eq!(process["left_bytes"], 2 * ((60 << 20) + 4096 - 16), "{stats}");
    let left = "120 MiB are in allocations of 128 KiB and more from before their sum reached 64 \
                MiB: a lower --min-alloc extends them";
    assert!(process["outside_bytes"].is_null() || said.contains(left), "{said}");
    let (stats, said) = run(&[], "204800", "1000");
    assert_eq!(stats["processes"].as_array().map(Vec::len), Some(0));
    assert!(stats["resident_max_bytes"].as_u64() >= Some(190 << 20), "{stats}");
    assert!(
        said.contains("no process allocated 4 MiB (--min-alloc) in pieces of 128 KiB"),
        "{said}"
    );
    assert!(said.contains("MiB resident, all of it outside the budget: objects smaller"), "{said}");
}

/// In a control group with a limit, each verb that allocates memory rejects a size above this
/// limit.
#[test]
fn a_budget_above_the_groups_limit_is_refused() {
    let root = Root::live();
    let group = match MemoryCgroup::new(&root, Some(96 << 20)) {
        Ok(group) => group,
        Err(why) => {
            writeln!(io::stderr(), "not tested: a control group of 96 MiB: {why}").unwrap();
            return;
        }
    };
    let folders = TestFolders::new();
    let within = |verb: &str, words: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(root.at(&group.procs_path()));
        command.arg(env!("CARGO_BIN_EXE_interleaf")).arg(verb).args(words);
        command.env("INTERLEAF_PRELOAD", library()).env("XDG_RUNTIME_DIR", folders.at("run"));
        command.output().unwrap()
    };
    let store = folders.at("store");
    let store = store.to_str().unwrap();
    let extended = |dram: &str, options: &[&str]| {
        let budget = [&["--dram", dram, "--store", store], options, &["--", sweep(), MIB, "2"]];
        within("extend", &budget.concat())
    };
    let name = format!("the control group /interleaf-bench-{}", std::process::id());
    let output = extended("256MiB", &["--dry-run"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
    assert!(said.contains(&name) && said.contains("such as --dram 50%; or raise "), "{said}");
    refused(&extended("256MiB", &[]), &name, "give at most --dram ");
    let output = extended("50%", &["--dry-run", "--json"]);
    let plan: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let dram = plan["dram_bytes"].as_u64().unwrap();
    assert!((16 << 20..=48 << 20).contains(&dram) && plan["can_be_done"] == true, "{plan}");
    let output = extended("25%", &[]);
    assert_eq!(text(&output.stdout), "as it was left\n", "{}", text(&output.stderr));
    refused(&within("bench", &["run", "seq", "--footprint", "64GiB"]), &name, "give at most ");
    let words = ["idle", "--quick", "--chase", "200MB"];
    refused(&within("measure", &words), &name, "give at most ");
}

/// A dry run rejects the same block devices as a run does, and does not change the device.
#[test]
fn a_dry_run_refuses_the_devices_that_a_run_refuses() {
    let folders = TestFolders::new();
    let file = folders.at("device");
    fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let losetup = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
    let device = match losetup {
        Ok(output) if output.status.success() => text(&output.stdout).trim().to_string(),
        other => {
            writeln!(io::stderr(), "not tested: a loop device: {other:?}").unwrap();
            return;
        }
    };
    let run = |options: &[&str], stores: &[&str]| {
        let mut command = folders.interleaf(&["--dram", DRAM]);
        for store in stores {
            command.args(["--store", store]);
        }
        command.args(options).args(["--", "true"]).output().unwrap()
    };
    let both = |stores: &[&str], why: &str| {
        let dry = run(&["--dry-run"], stores);
        assert_eq!(dry.status.code(), Some(1), "{}", text(&dry.stdout));
        assert!(text(&dry.stdout).contains(why), "{}", text(&dry.stdout));
        let real = text(&run(&[], stores).stderr);
        assert!(real.starts_with("error: ") && real.contains(why), "{real}");
    };
    both(&[&device, &device], "is mounted, or in use otherwise");
    let plan = run(&["--dry-run"], &[&device]);
    assert_eq!(plan.status.code(), Some(0), "{}", text(&plan.stdout));
    assert!(fs::read(&device).unwrap().iter().all(|byte| *byte == 0), "nothing is written to it");
    assert!(Command::new("mkfs.ext4").args(["-q", &device]).status().unwrap().success());
    both(&[&device], "the device is not empty");
    fs::create_dir(folders.at("mounted")).unwrap();
    let mount = Command::new("mount").arg(&device).arg(folders.at("mounted")).status().unwrap();
    assert!(mount.success());
    both(&[&device], "is mounted, or in use otherwise");
    let forced = run(&["--dry-run", "--force"], &[&device]);
    Command::new("umount").arg(folders.at("mounted")).status().unwrap();
    Command::new("losetup").args(["--detach", &device]).status().unwrap();
    assert_eq!(forced.status.code(), Some(1), "{}", text(&forced.stdout));
}
