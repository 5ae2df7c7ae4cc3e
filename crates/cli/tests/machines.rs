//! The output of several verbs for each machine in `tests/machines/`, compared with a golden file
//! per machine and verb in the same folder. `TRYCMD=overwrite` writes the golden files again, and
//! `tests/machines/README.md` says when to do so.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The verbs with golden files, each with its arguments after `--root`. `balance` lists the writes
/// of the daemon, `run` lists the writes that a placement needs, and `measure app` lists the
/// quantities that can be counted for a program.
const VERBS: [(&str, &str); 5] = [
    ("balance", " --dry-run"),
    ("doctor", ""),
    ("measure app", " --dry-run -- ./solver"),
    ("run", " --weights 3:1 --dry-run -- ./solver"),
    ("show", ""),
];

/// Returns the two command lines that a golden file of `verb` must have: without and with `--json`.
fn commands(verb: &str, name: &str, rest: &str) -> [String; 2] {
    ["", " --json"].map(|json| format!("{verb} --root {name}{json}{rest}"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").canonicalize().unwrap()
}

/// Returns the names of the machines: the names of their folders.
fn machines() -> BTreeSet<String> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().into_string().unwrap());
    // A folder whose name begins with a dot is an incomplete capture.
    names.filter(|name| !name.starts_with('.')).collect()
}

#[test]
fn output_for_each_captured_machine_matches() {
    // The working directory is global to the process, but no other test of this file depends on it.
    env::set_current_dir(folder()).unwrap();
    trycmd::TestCases::new().case("*.trycmd");
}

/// Runs `interleaf` on the machine below `root`, and returns its stdout and its stderr.
fn printed(words: &[&str], root: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    let output = command.arg("--root").arg(root).args(words).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn a_capture_of_each_machine_is_as_good_as_the_machine() {
    let folder = folder();
    for name in machines() {
        let machine = folder.join(&name);
        let captures = tempfile::tempdir().unwrap();
        let capture = captures.path().join("capture");
        printed(&["doctor", "--capture", capture.to_str().unwrap()], &machine);
        assert!(capture.is_dir(), "{name}");
        for (verb, rest) in VERBS {
            let words: Vec<&str> =
                verb.split(' ').chain(["--json"]).chain(rest.split_whitespace()).collect();
            assert_eq!(printed(&words, &capture), printed(&words, &machine), "{name}");
        }
    }
}

#[test]
fn each_machine_has_its_goldens_and_is_explained() {
    let machines = machines();
    assert!(machines.len() >= 10, "{machines:?}");
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for name in &machines {
        for (verb, rest) in VERBS {
            let file = verb.replace(' ', "-");
            let golden = folder().join(format!("{name}.{file}.trycmd"));
            assert!(golden.is_file(), "no {}: write one like the others", golden.display());
            let text = fs::read_to_string(&golden).unwrap();
            for command in commands(verb, name, rest) {
                let line = format!("$ interleaf {command}\n");
                assert!(text.contains(&line), "{}: {command}", golden.display());
            }
        }
        assert!(readme.contains(&format!("`{name}`")), "README.md does not say what {name} is");
    }
    // A golden file without a machine is left from a machine that was removed.
    for entry in fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".trycmd") else { continue };
        let (machine, _) = name.rsplit_once('.').unwrap();
        assert!(machines.contains(machine), "{file}: there is no machine {machine}");
    }
}

/// The message of `doctor --capture` names the verbs that read a captured machine. The test asserts
/// that each of them succeeds.
#[test]
fn the_named_verbs_read_a_captured_machine() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("capture");
    let run = |words: &[&str], root: &Path, rest: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let output = command.args(words).arg("--root").arg(root).args(rest).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    };
    let rest = ["--capture", capture.to_str().unwrap()];
    let said = run(&["doctor"], &self::folder().join("epyc-cxl"), &rest);
    run(&["show"], &capture, &[]);
    run(&["doctor"], &capture, &[]);
    let (_, named) =
        said.split_once(" by show and doctor, and with --dry-run by ").expect("no verb is named");
    let named = named.trim().replace(" and ", ", ");
    for name in named.split(", ") {
        let rest: &[&str] = match name {
            "balance" | "measure" => &[],
            "compare" => &["--a", "plain", "--b", "threads=2", "--", "true"],
            "run" => &["--weights", "3:1", "--", "true"],
            _ => &["--", "true"],
        };
        let words: Vec<&str> = name.split(' ').chain(["--dry-run"]).collect();
        run(&words, &capture, rest);
    }
    assert_eq!(named.split(", ").count(), 6, "{named}");
}
