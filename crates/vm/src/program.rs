//! Programs for the guest, which has no shared libraries.
//!
//! Cargo builds them with the C library inside, into a folder of their own, since the flags are
//! not those of the tests. The second time there is nothing to do.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The targets of guests, the preferred one first: what runs in a guest is then the static program
/// that users build. It needs a C compiler of its own.
const TARGETS: [(&str, &str); 2] =
    [("x86_64-unknown-linux-musl", "musl-gcc"), ("x86_64-unknown-linux-gnu", "cc")];

/// A profile of the workspace's manifest in which a build is soon done: what takes time in a guest
/// is the boot, not the program.
const PROFILE: &str = "guest";

/// Where programs for guests are built by default: in the folder `tmp/static` of Cargo's target
/// folder, which the running program is in, too. Integration tests have the same one.
///
/// # Errors
///
/// The running program does not know where it is, or is not in a target folder.
pub fn folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let none = || io::Error::other(format!("{} is in no target folder", program.display()));
    Ok(target.ok_or_else(none)?.join("tmp/static"))
}

/// The first of the targets that can be built for here; the last one in any case.
fn target() -> io::Result<&'static str> {
    for (target, compiler) in TARGETS {
        let printed = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--print", "target-libdir", "--target", target])
            .output()?;
        let library = PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim());
        let compiles = Command::new(compiler).arg("--version").output().is_ok();
        if printed.status.success() && library.is_dir() && compiles {
            return Ok(target);
        }
    }
    Ok(TARGETS[TARGETS.len() - 1].0)
}

/// Builds a static program of this workspace, and says where it is.
///
/// # Errors
///
/// Cargo cannot be started or does not build it.
pub fn build(package: &str, program: &str, folder: &Path) -> io::Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = target()?;
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--package", package, "--bin", program])
        .args(["--profile", PROFILE])
        // With a target, flags are not for build scripts and procedural macros, which cannot be
        // static.
        .args(["--target", target, "--target-dir"])
        .arg(folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("cargo build of {program}: {said}")));
    }
    Ok(folder.join(target).join(PROFILE).join(program))
}
