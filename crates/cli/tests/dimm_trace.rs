//! Tests of `simulate dimm` with the requests of a trace, and with a drawing of the DRAM commands.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn simulate(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.current_dir(folder).args(["simulate", "dimm", "--channels", "1"]).args(args);
    command.output().unwrap()
}

fn point(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["points"][0].clone()
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("\nhint: "), "{message}");
    message
}

#[test]
fn a_trace_gives_the_same_in_each_of_its_forms() {
    let folder = tempfile::tempdir().unwrap();
    let device = ["--device", "ddr4-3200-2r", "--json"];
    // The times in a trace of DRAMSim3 are in clocks of the DRAM. Two clocks of DDR4-3200 are 1.25
    // ns, so 20 clocks are the 12.5 ns of the text trace.
    let lines = |line: &dyn Fn(u64) -> String| (0..500).map(line).collect::<String>();
    let kind = |n: u64| if n.is_multiple_of(3) { "W" } else { "R" };
    let text = lines(&|n| format!("{} {} {:#x}\n", n as f64 * 12.5, kind(n), n * 4096));
    let dramsim3 = lines(&|n| {
        let kind = if kind(n) == "W" { "WRITE" } else { "READ" };
        format!("{:#x} {kind} {}\n", n * 4096, n * 20)
    });
    for (name, text) in [("a.txt", text), ("b.trc", dramsim3)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let run = |args: &[&str]| point(&simulate(folder.path(), &[&device, args].concat()));
    let first = run(&["--trace", "a.txt", "--trace-out", "c.bin"]);
    assert_eq!(run(&["--trace", "b.trc"]), first);
    assert_eq!(run(&["--trace", "b.trc", "--trace-format", "dramsim3"]), first);
    assert_eq!(run(&["--trace", "c.bin"]), first);
    let count = |name: &str| first["commands"][name].as_u64().unwrap();
    assert_eq!((count("reads"), count("writes")), (333, 167));
    assert!(first["energy_pj_per_bit"].as_f64().unwrap() > 10.0);
    assert_eq!(first["mix"], "trace");
}

#[test]
fn a_trace_that_is_wrong_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let message = |text: &str, args: &[&str]| {
        fs::write(folder.path().join("t"), text).unwrap();
        let args = [&["--device", "ddr3-1600", "--trace", "t"], args].concat();
        refused(&simulate(folder.path(), &args))
    };
    assert!(
        message("1 R 0x40\n2 R 0xg0\n", &[]).starts_with("error: t:2: address: \"0xg0\" is not")
    );
    assert!(message("", &[]).contains("t: the trace has no request"));
    assert!(message("1 R 0xffffffffff\n", &[]).contains("t:1: address: 0xffffffffff is beyond"));
    assert!(message("1 R 0\n", &["--trace-format", "csv"]).contains("dramsim3"));
    assert!(message("1 R 0\n", &["--mix", "W2"]).contains("--mix"));
    let output = simulate(folder.path(), &["--device", "ddr3-1600", "--trace", "none"]);
    assert!(refused(&output).contains("none: No such file"));
}

#[test]
fn commands_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--device", "mrdimm-8800-2r", "--requests", "8000", "--mix", "W2", "--json"];
    let plain = point(&simulate(folder.path(), &args));
    let drawn = simulate(folder.path(), &[&args[..], &["--command-trace", "c.json"]].concat());
    assert_eq!(point(&drawn), plain);
    let message = String::from_utf8_lossy(&drawn.stderr).into_owned();
    assert!(message.contains("commands of a channel are in c.json"), "{message}");
    let text = fs::read_to_string(folder.path().join("c.json")).unwrap();
    let picture: Value = serde_json::from_str(&text).unwrap();
    let events = picture["traceEvents"].as_array().unwrap();
    let of = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(of("read") > 1000 && of("write") > 500, "{} {}", of("read"), of("write"));
    assert_eq!(of("process_name"), 2);
    let args = ["--device", "ddr3-1600", "--command-trace", "no/folder.json"];
    assert!(refused(&simulate(folder.path(), &args)).contains("cannot be written"));
}
