//! The commands of a page of the documentation run.

use std::{fs, path::Path, process::Command};

/// Runs the commands of the page `name` in one folder and in their order, except blocks that have
/// `skipped` in them. Fails with fewer than `least` blocks.
pub(crate) fn run_commands(name: &str, skipped: Option<&str>, least: usize) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    let page = fs::read_to_string(page).unwrap();
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
