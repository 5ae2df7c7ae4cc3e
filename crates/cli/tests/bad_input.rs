//! Wrong input is rejected with exit status 2 and never causes a panic. The message has the
//! position of the error, the reason and the remedy. Each case in `bad-input/` has one error. With
//! `TRYCMD=overwrite`, the outputs of this build become the expectations.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path, process::Command};

#[test]
fn bad_input() {
    trycmd::TestCases::new().case("tests/bad-input/*.trycmd");
}

/// Each wrong command line in `mistakes.txt` must end with exit status 2 and a suggestion.
#[test]
fn a_plausible_mistake_has_a_suggestion() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let table = include_str!("mistakes.txt").lines();
    let cases = table.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut count, mut wrong) = (0, vec![]);
    for line in cases {
        let (words, expected) = line.split_once(" | ").unwrap();
        let words = words.split_whitespace().map(|word| edited(word, &root, folder.path(), count));
        let words: Vec<String> = words.collect();
        let output = Command::new(env!("CARGO_BIN_EXE_interleaf")).args(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let hint = said.split("hint: ").nth(1).unwrap_or_default();
        if output.status.code() != Some(2) || !hint.starts_with(expected) {
            wrong.push(format!("{line}\n{said}"));
        }
        count += 1;
    }
    assert!(count >= 60, "{count} mistakes");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the argument that a word of `mistakes.txt` stands for. `EDIT:path:old:new` stands for a
/// copy of the file `path` in which `new` replaces `old`; `count` is the name of the copy. Any
/// other word stands for itself.
fn edited(word: &str, root: &Path, folder: &Path, count: usize) -> String {
    let parts: Vec<&str> = word.split(':').collect();
    let ["EDIT", path, old, new] = parts[..] else { return word.to_string() };
    let text = fs::read_to_string(root.join(path)).unwrap();
    assert!(text.contains(old), "{path} has no {old}");
    let copy = folder.join(format!("{count}.toml"));
    fs::write(&copy, text.replace(old, new)).unwrap();
    copy.display().to_string()
}
