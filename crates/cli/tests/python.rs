//! Checks the Python package with the native module of this build: its tests (pytest), types (mypy)
//! and lints (ruff). The interpreter is `$PYTHON`, or else `python3`. The tools are Python modules,
//! in the versions of `python/requirements-test.txt`. If a tool is not installed, its check is
//! skipped with a note, or fails if `INTERLEAF_PYTHON` is `required`. The script
//! `tests/python-sweeps` tests sweeps on Dask, Ray and process pools, not this file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the folder with the built `interleaf`. Cargo also writes libraries to this folder.
fn built() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_interleaf")).parent().unwrap().to_path_buf()
}

/// The folder with the Python package: links to its sources and to the native module. The tests run
/// in parallel and share this folder. The test that uses it first creates the links.
static PACKAGE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let package = folder.join("interleaf");
    fs::create_dir_all(&package).unwrap();
    for entry in fs::read_dir(&package).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            fs::remove_file(path).unwrap();
        }
    }
    for entry in fs::read_dir(root().join("python/interleaf")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            symlink(entry.path(), package.join(entry.file_name())).unwrap();
        }
    }
    symlink(library("libinterleaf_python.so"), package.join("_core.abi3.so")).unwrap();
    folder
});

/// Returns the path of a shared library of this build, in the folder `deps`. Cargo writes the
/// library of a dev-dependency only to `deps`; a copy beside `interleaf` may be of an earlier
/// build.
fn library(name: &str) -> PathBuf {
    built().join("deps").join(name)
}

fn interpreter() -> OsString {
    env::var_os("PYTHON").unwrap_or_else(|| "python3".into())
}

/// Runs `python3 -m` with `arguments` in the root of the source tree, and asserts that it succeeds.
/// If a Python module in `needed` is not installed, prints a note instead, or panics if
/// `INTERLEAF_PYTHON` is `required`.
fn passes(needed: &[&str], arguments: &[&str]) {
    let imports = format!("import {}", needed.join(", "));
    let known = Command::new(interpreter()).args(["-c", &imports]).output();
    if !known.as_ref().is_ok_and(|output| output.status.success()) {
        let text = format!("not tested: python3 with {}: not installed\n", needed.join(", "));
        let is_required = env::var("INTERLEAF_PYTHON").is_ok_and(|it| it == "required");
        assert!(!is_required, "{text}");
        io::stderr().write_all(text.as_bytes()).unwrap();
        return;
    }
    let output = Command::new(interpreter())
        .arg("-m")
        .args(arguments)
        .current_dir(root())
        .env("PYTHONPATH", &*PACKAGE)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("MPLBACKEND", "agg")
        .env("INTERLEAF_COMMAND", env!("CARGO_BIN_EXE_interleaf"))
        .env("INTERLEAF_MEMORY", library("libinterleaf_memory.so"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "python3 -m {}:\n{said}", arguments.join(" "));
}

#[test]
fn the_package_and_the_command_agree() {
    passes(&["numpy", "pytest"], &["pytest", "-p", "no:cacheprovider", "python/tests"]);
}

#[test]
fn types_and_lints_hold() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy").display().to_string();
    passes(&["mypy", "numpy"], &["mypy", "--cache-dir", &cache]);
    passes(&["ruff"], &["ruff", "check", "--no-cache", "python", "packaging/build_wheel.py"]);
    let format = ["ruff", "format", "--no-cache", "--check", "python", "packaging/build_wheel.py"];
    passes(&["ruff"], &format);
}
