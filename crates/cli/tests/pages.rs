//! Tests of the commands in the documentation. The commands of short pages are run. The arguments
//! of all commands are checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/common.rs"]
mod common;
mod executable;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// A script that replaces `interleaf` in the commands of a page. It only lets the real `interleaf`
/// check the arguments before `--`.
const CHECKS_ARGUMENTS: &str = r#"#!/usr/bin/env bash
own=()
for argument in "$@"; do
    [ "$argument" = -- ] && break
    own+=("$argument")
done
exec "$INTERLEAF" "${own[@]}" --help > help.txt
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the commands of `interleaf` in the code blocks of a page. Removes the words before
/// `interleaf`, such as `sudo` or `mpirun -n 4`.
fn commands(text: &str) -> Vec<String> {
    let mut commands = vec![];
    for block in text.split("\n```").skip(1).step_by(2) {
        let Some((language, block)) = block.split_once('\n') else { continue };
        if language != "sh" && language != "console" {
            continue;
        }
        let joined = block.replace("\\\n", " ");
        let lines = joined.lines().filter(|line| language == "sh" || line.starts_with("$ "));
        let lines = lines.filter(|line| !line.contains("cargo test "));
        let own = lines.filter_map(|line| {
            let line = format!(" {}", line.trim_start_matches("$ "));
            let at = line.find(" interleaf ").or_else(|| line.find(" cargo run --release -- "))?;
            Some(line[at..].replacen("cargo run --release --", "interleaf", 1).trim().to_string())
        });
        commands.extend(own);
    }
    commands
}

#[test]
fn commands_are_found_in_the_blocks_of_a_page() {
    let text = "# A\n\n```sh\nsudo interleaf doctor   # all\ncargo test -p interleaf x\n\
                interleaf a \\\n  b\n```\ntext interleaf c\n```console\n\
                $ cargo run --release -- d\ninterleaf: no command\n```\n\
                ```text\ninterleaf e\n```\n";
    assert_eq!(commands(text), ["interleaf doctor   # all", "interleaf a    b", "interleaf d"]);
}

#[test]
fn the_tool_has_the_options_of_each_command_of_the_documentation() {
    let folder = tempfile::tempdir().unwrap();
    let tool = folder.path().join("interleaf");
    executable::write(&tool, CHECKS_ARGUMENTS);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());

    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    pages.extend(root().join("docs").read_dir().unwrap().map(|entry| entry.unwrap().path()));
    let (mut checked, mut refused) = (0, vec![]);
    for page in pages.iter().filter(|page| page.extension().is_some_and(|it| it == "md")) {
        for command in commands(&fs::read_to_string(page).unwrap()) {
            let mut shell = Command::new("bash");
            shell.args(["-c", &command]).current_dir(folder.path()).env("PATH", &path);
            let output = shell.env("INTERLEAF", env!("CARGO_BIN_EXE_interleaf")).output().unwrap();
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                refused.push(format!("{}: {command}\n{said}", page.display()));
            }
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked} commands");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Runs the code blocks with commands of the page `name`, one after the other in one folder, which
/// has a link to the repository's `tests`. With `heading`, runs only the blocks of this section.
/// Skips blocks that contain `skipped`. Fails if there are fewer than `least` blocks.
fn run(name: &str, heading: Option<&str>, skipped: Option<&str>, least: usize) {
    let page = fs::read_to_string(root().join("docs").join(name)).unwrap();
    let section = match heading {
        None => page.as_str(),
        Some(heading) => {
            let rest = page.split_once(&format!("\n## {heading}\n")).unwrap().1;
            rest.split("\n## ").next().unwrap()
        }
    };
    let blocks: Vec<&str> =
        section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= least, "{} blocks", blocks.len());
    let folder = tempfile::tempdir().unwrap();
    // The pages name captured machines by their path in the repository.
    symlink(root().join("tests"), folder.path().join("tests")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_interleaf")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let is_run = |block: &&&str| !skipped.is_some_and(|skipped| block.contains(skipped));
    for block in blocks.iter().filter(is_run) {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", block]).current_dir(folder.path());
        shell.env("PATH", &path).env("INTERLEAF_PRELOAD", common::library());
        let output = shell.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{message}");
    }
}

#[test]
fn the_quick_starts_end_in_an_answer() {
    run("start.md", None, None, 5);
}

#[test]
fn commands_about_cards_run() {
    run("cards.md", None, Some("--serve"), 5);
}

#[test]
fn commands_of_plan_run() {
    run("plan.md", None, None, 3);
}

#[test]
fn commands_of_compare_run() {
    run("compare.md", None, None, 2);
}

#[test]
fn weights_are_proposed_for_a_captured_machine() {
    run("tune.md", Some("Try it on a captured machine"), None, 1);
}

#[test]
fn commands_about_policies_run() {
    run("policies.md", None, None, 1);
}

#[test]
fn a_module_of_the_user_inherits_from_another() {
    run("simulate-dimm.md", Some("Modules of your own"), None, 1);
}

#[test]
fn commands_about_files_run() {
    run("files.md", None, None, 2);
}
