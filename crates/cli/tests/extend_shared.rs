//! Tests of `interleaf extend --shared`: several processes share memory, which a server process
//! pages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/common.rs"]
mod common;

use common::{MIB, TestFolders, compiled, started, text, until};
use serde_json::Value;
use std::{fs, io::Read, process::Command};

fn program() -> String {
    compiled("shared", "shared.c", &[]).to_str().unwrap().into()
}

#[test]
fn shared_memory_is_extended_on_request() {
    let folders = TestFolders::new();
    let served = |options: &[&str]| {
        let output = folders.extended(options, &[&program(), MIB, ""]).output().unwrap();
        assert_eq!(text(&output.stdout), "each sees it\n", "{}", text(&output.stderr));
        assert_eq!(folders.left(), 0, "nothing is left behind");
        let stats = folders.stats();
        let processes = stats["processes"].as_array().unwrap().iter();
        processes.filter(|it| it["name"] == "shared memory").cloned().collect::<Vec<_>>()
    };
    assert_eq!(served(&[]), [] as [Value; 0]);
    let found = served(&["--shared"]);
    let [server] = &found[..] else { panic!("{found:?}") };
    let count = |name: &str| server[name].as_u64().unwrap_or_else(|| panic!("{name}: {server}"));
    // All pages were written twice. Two thirds of them were evicted in each pass.
    assert!(count("written_bytes") >= 64 << 20 && count("read_bytes") >= 32 << 20, "{server}");
    assert!(count("dram_bytes") <= 16 << 20, "{server}");
}

/// A process that shares memory outlives the command and `interleaf extend`. The server must keep
/// running, and serve the process's pages until the process ends.
#[test]
fn remaining_processes_are_served_to_the_end() {
    let folders = TestFolders::new();
    let (file, said) = (folders.at("file"), folders.at("said"));
    let words = [&program(), MIB, file.to_str().unwrap(), "orphan"];
    let mut command = folders.extended(&["--shared"], &words);
    let status = command.stderr(fs::File::create(&said).unwrap()).status().unwrap();
    let said = fs::read_to_string(&said).unwrap();
    assert!(
        status.success() && said.contains("still run, on the pages that they have: "),
        "{said}"
    );
    assert!(said.contains("shared memory ("), "{said}");
    assert_eq!(folders.left(), 1, "its session");
    fs::write(&file, "").unwrap();
    until("it says so", || !fs::read_to_string(&file).unwrap().is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it was left");
    let clean = || text(&folders.interleaf(&["--clean"]).output().unwrap().stderr);
    until("the session is over", || clean().contains(": removed, all processes"));
}

/// If the server is killed, a process that shares memory must abort: otherwise it would read zeros
/// in place of its data.
#[test]
fn processes_without_a_server_end() {
    let folders = TestFolders::new();
    let mut command = folders.extended(&["--shared"], &[&program(), MIB, "", "stay"]);
    let (mut child, _lines) = started(&mut command);
    let mut processes = folders.watched().into_iter();
    let server = processes.find(|process| process["name"] == "shared memory").unwrap();
    let pid = server["pid"].as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 6), "SIGABRT");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the server of shared memory has ended"), "{said}");
}
