//! The commands of a page of the documentation run.

use std::{fs, path::Path, process::Command};

/// Runs the commands of the page `name` in one folder and in their order, except blocks that have
/// `skipped` in them. Fails with fewer than `least` blocks.
#[allow(dead_code, reason = "each test program has its own copy of this module")]
pub(crate) fn run_commands(name: &str, skipped: Option<&str>, least: usize) {
    run(&text(name), skipped, least);
}

/// Runs the commands of the section `heading` of the page `name`, in one folder and in their order.
#[allow(dead_code, reason = "each test program has its own copy of this module")]
pub(crate) fn run_section(name: &str, heading: &str) {
    let page = text(name);
    let start = page.find(&format!("\n## {heading}\n")).unwrap() + 1;
    let end = page[start + 2..].find("\n## ").map_or(page.len(), |end| start + 2 + end);
    run(&page[start..end], None, 1);
}

fn text(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::read_to_string(page).unwrap()
}

fn run(page: &str, skipped: Option<&str>, least: usize) {
    let blocks: Vec<&str> =
        page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= least, "{} blocks", blocks.len());
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_interleaf")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let is_run = |block: &&&str| !skipped.is_some_and(|skipped| block.contains(skipped));
    for block in blocks.iter().filter(is_run) {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", block]).current_dir(folder.path());
        let output = shell.env("PATH", &path).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{block}\n{message}");
    }
}
