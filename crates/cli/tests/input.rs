//! The inputs of verbs, from regular files and from a shell's pipes. Their size is limited. An
//! input never blocks a verb forever. A verb reads no file outside the captured machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_interleaf");

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents/predict.json")
}

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn message(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_verb_refuses_input_that_is_no_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo.toml"), mode).unwrap();
    let _socket = UnixListener::bind(at("socket.toml")).unwrap();
    symlink("/dev/zero", at("zero.toml")).unwrap();
    fs::create_dir(at("folder.toml")).unwrap();
    for (name, kind) in [
        ("fifo.toml", "FIFO"),
        ("socket.toml", "socket"),
        ("zero.toml", "character device"),
        ("folder.toml", "directory"),
    ] {
        for args in [
            &["report", name, "-o", "-"][..],
            &["compare", name, name],
            &["show", "--platform", name],
            &["predict", "--platform", "xeon6-cz122", "--demand", name],
            &["simulate", "machine", "--scenario", name],
            &["simulate", "machine", "--sweep", name],
            &["simulate", "dimm", "--device", name],
            &["simulate", "dimm", "--device", "rdimm-6400-2r", "--trace", name],
            &["balance", "--config", name, "--dry-run"],
        ] {
            let message = message(&run(folder.path(), args));
            let expected = format!("{name}: it is a {kind}, not a regular file");
            assert!(message.contains(&expected), "{args:?}: {message}");
        }
    }
}

#[test]
fn an_exceeded_limit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::File::create(folder.path().join("large")).unwrap().set_len(1 << 40).unwrap();
    for (args, limit) in [
        (&["report", "large", "-o", "-"][..], "256 MiB"),
        (&["predict", "--platform", "xeon6-cz122", "--demand", "large"], "64 MiB"),
        (&["simulate", "dimm", "--device", "rdimm-6400-2r", "--trace", "large"], "2 GiB"),
    ] {
        let message = message(&run(folder.path(), args));
        let expected = format!("large: it is larger than {limit}, the limit for such a file");
        assert!(message.contains(&expected), "{args:?}: {message}");
    }
}

/// A document is read from a shell's pipes: `report -`, `report /dev/stdin`, `report <(...)`.
#[test]
fn pipes_of_a_shell_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (program, document) = (PROGRAM, document().display().to_string());
    let scripts = [
        format!("cat '{document}' | '{program}' report - --format csv"),
        format!("'{program}' report - --format csv < '{document}'"),
        format!("cat '{document}' | '{program}' report /dev/stdin --format csv"),
        format!("'{program}' report <(sleep 0.2; cat '{document}') --format csv"),
    ];
    for script in scripts {
        let mut shell = Command::new("bash");
        let output = shell.args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.starts_with("weights,"), "{script}: {message}");
    }
    let script = format!("head -c 300M /dev/zero | '{program}' report -");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(message(&output).contains("-: it is larger than 256 MiB"), "{}", message(&output));
}

/// A byte order mark at the beginning of a file is skipped: spreadsheets and some editors write it.
#[test]
fn a_byte_order_mark_is_no_part_of_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let read = |name: &str| fs::read_to_string(documents.join(name)).unwrap();
    let accesses: String = (0..1024).map(|block| format!("r {block}\n")).collect();
    for (name, text) in [
        ("sweep.csv", read("sweep.csv").replace('\n', "\r\n")),
        ("predict.json", read("predict.json")),
        ("blocks.txt", format!("interleaf.trace/1 block_bytes=65536\n{accesses}")),
        ("requests.txt", "12.5 R 0x1f40\n25 W 0x40\n".into()),
    ] {
        fs::write(folder.path().join(name), format!("\u{feff}{text}")).unwrap();
    }
    for args in [
        &["report", "sweep.csv", "-o", "sweep.html"][..],
        &["report", "predict.json", "-o", "predict.html"],
        &["extend", "--plan", "blocks.txt", "--drive", "p4800x-4"],
        &["simulate", "dimm", "--device", "rdimm-6400-2r", "--trace", "requests.txt"],
    ] {
        let output = run(folder.path(), args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    }
}

#[test]
fn a_link_out_of_a_captured_machine_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("root/proc")).unwrap();
    fs::write(folder.path().join("secret"), "MemTotal: secret words\n").unwrap();
    symlink(folder.path().join("secret"), folder.path().join("root/proc/meminfo")).unwrap();
    for verb in [&["show"][..], &["doctor"], &["balance", "--dry-run"]] {
        let message = message(&run(folder.path(), &[verb, &["--root", "root"]].concat()));
        let expected = "/proc/meminfo: cannot be read: a symlink leads out of the root";
        assert!(message.contains(expected) && !message.contains("words"), "{verb:?}: {message}");
    }
}

/// Implausible ratings of bandwidth and latency by the firmware are ignored, and a warning names
/// them.
#[test]
fn implausible_ratings_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
    let root = folder.path().join("root");
    let machine = machines.join("linux-newest-two-nodes-hmat");
    let copied = Command::new("cp").arg("-r").arg(machine).arg(&root).status().unwrap();
    assert!(copied.success());
    let rated = root.join("sys/devices/system/node/node1/access0/initiators");
    for (name, value, unit) in
        [("read_latency", "500000000", "ns"), ("read_bandwidth", "1000000000", "MiB/s")]
    {
        let before = fs::read(rated.join(name)).unwrap();
        fs::write(rated.join(name), value).unwrap();
        let expected = format!("node 1: {name} of {value} {unit}");
        for verb in [
            &["balance", "--dry-run", "--stop-rivals"][..],
            &["run", "--policy", "dmi", "--dry-run", "--stop-rivals"],
            &["doctor"],
        ] {
            let mut args = [verb, &["--root", "root"]].concat();
            if verb[0] == "run" {
                args.extend(["--", "true"]);
            }
            let output = run(folder.path(), &args);
            let all = [output.stdout, output.stderr].concat();
            let all = String::from_utf8_lossy(&all);
            assert!(output.status.success() && all.contains(&expected), "{verb:?}: {all}");
        }
        fs::write(rated.join(name), before).unwrap();
    }
}

/// A tier of a platform file can use the curves of a built-in platform's tier.
#[test]
fn a_tier_takes_the_curves_of_a_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let tier = |name: &str, curves: &str| {
        let keys = format!("name = \"{name}\"\nkind = \"{name}\"\ncurves = \"{curves}\"\n");
        format!("[[tier]]\n{keys}capacity = \"256GiB\"\n")
    };
    let head = "schema = \"interleaf.platform/1\"\nname = \"mine\"\nsource = \"made up\"\n[cpu]\n\
                cores = 64\noutstanding_lines_per_core = 48\nuncore_latency_ns = 60.0\n";
    let write = |cxl: &str| {
        let text = [head, &tier("dram", "xeon6-rdimm-6400:dram"), &tier("cxl", cxl)].concat();
        fs::write(folder.path().join("mine.toml"), text).unwrap();
        run(
            folder.path(),
            &["predict", "--platform", "mine.toml", "--mix", "R", "--weights", "3:1"],
        )
    };
    let output = write("xeon6-cz122:cxl");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("3:1: 1."), "{output:?}");
    let refused = message(&write("xeon6-cz122:hbm"));
    assert!(refused.contains("such as xeon6-cz122:cxl"), "{refused}");
}

/// A command does not overwrite its input, even if the output option names the file by another
/// path.
#[test]
fn an_input_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let platforms = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/hpcg.toml");
    fs::copy(platforms, at("in.toml")).unwrap();
    fs::copy(document(), at("in.json")).unwrap();
    symlink("in.toml", at("link.toml")).unwrap();
    let predict = ["predict", "--platform", "xeon6-cz122"];
    let dimm = ["simulate", "dimm", "--device", "ddr4-3200-2r", "--channels", "1"];
    for args in [
        &[&predict[..], &["--demand", "in.toml", "-o", "in.toml"]].concat()[..],
        &[&predict[..], &["--demand=in.toml", "--output=./in.toml"]].concat(),
        &[&predict[..], &["--demand", "link.toml", "-oin.toml"]].concat(),
        &["plan", "--demand", "hpcg=50%,in.toml=50%", "-o", "link.toml"],
        &[
            "simulate",
            "machine",
            "--platform",
            "in.toml:dram.count=4",
            "--workload",
            "hpcg",
            "-o",
            "in.toml",
        ],
        &["report", "in.json", "--format", "csv", "-o", "in.json"],
        &["simulate", "card", "--card", "in.toml", "--rw", "read", "--curves", "in.toml"],
        &[&dimm[..], &["--trace", "in.json", "--trace-out", "in.json"]].concat(),
        &[&dimm[..], &["--trace", "in.json", "--command-trace", "in.json"]].concat(),
    ] {
        let before = ["in.toml", "in.json"].map(|name| fs::read(at(name)).unwrap());
        let message = message(&run(folder.path(), args));
        assert!(message.contains(" is an input, and would be overwritten"), "{args:?}: {message}");
        assert_eq!(["in.toml", "in.json"].map(|name| fs::read(at(name)).unwrap()), before);
    }
}

/// A command with two outputs in the same file is rejected, even if the file does not exist.
#[test]
fn two_outputs_are_not_written_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let card = ["simulate", "card", "--card", "all-mram", "--rw", "read"];
    let dimm = ["simulate", "dimm", "--device", "ddr4-3200-2r", "--channels", "1"];
    for args in [
        &[&card[..], &["--curves", "a.html", "--report", "a.html"]].concat()[..],
        &[&dimm[..], &["--curves", "a.csv", "-o", "./a.csv"]].concat(),
        &["compare", "--a", "plain", "--b", "threads=2", "-o", "a", "--log", "a", "--", "true"],
        &["measure", "app", "--demand", "a.toml", "--record", "a.toml", "--", "true"],
    ] {
        let message = message(&run(folder.path(), args));
        assert!(message.contains(" is to be written twice"), "{args:?}: {message}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{args:?}");
    }
}

/// An option without effect is rejected, and the error names an alternative.
#[test]
fn options_without_effect_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dimm = ["simulate", "dimm", "--device", "ddr4-3200-2r", "--channels", "1"];
    for (args, problem) in [
        (&["reproduce", "cz122", "--quick"][..], "--quick is an option of imdt, not of cz122"),
        (
            &[&dimm[..], &["--requests", "40000", "--trace-out", "a"]].concat(),
            "--trace-out needs a trace",
        ),
        (
            &[&dimm[..], &["--mix", "R/random"]].concat(),
            "the order of the lines is that of the pattern",
        ),
        (&[&dimm[..], &["--mix", "R,0", "--curves", "a.csv"]].concat(), "mix 0 has no reads"),
        (
            &["show", "--platform", "xeon6-cz122:cxl.count=4,cxl.count=5"],
            "cxl.count is there twice",
        ),
    ] {
        let message = message(&run(folder.path(), args));
        assert!(message.contains(problem), "{args:?}: {message}");
    }
}
