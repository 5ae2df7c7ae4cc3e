//! Tests that a program with `interleaf.h` compiles as C and as C++ without a warning, and runs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the path of the shared library, which is in the folder of this test program or in the
/// folder above it.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folders = test.ancestors().skip(1).take(2);
    let mut found = folders.map(|folder| folder.join("libinterleaf_memory.so"));
    found.find(|library| library.exists()).expect("the library beside the tests")
}

fn works(compiler: &str, language: &[&str]) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, library) = (folder.path().join("program"), library());
    let mut command = Command::new(compiler);
    command.args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]).args(language);
    command.arg("-I").arg(here.join("include")).arg("-o").arg(&program);
    command.arg(here.join("tests/programs/use.c"));
    command.args(["-x", "none"]).arg(&library);
    let output = command.output().expect("a compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120"]).arg(&program).arg(folder.path());
    command.env("LD_LIBRARY_PATH", library.parent().expect("its folder"));
    let output = command.output().expect("a program that was just compiled");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert_eq!(said, "all is as the header says\n");
    let left = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 1, "only the program is left of it");
}

#[test]
fn as_c() {
    works("cc", &["-std=c99", "-x", "c"]);
}

#[test]
fn as_cpp() {
    works("c++", &["-std=c++17", "-x", "c++"]);
}
