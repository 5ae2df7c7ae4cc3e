//! Programs for the guest, which has no shared libraries.
//!
//! Cargo builds them with the C library inside, into a folder of their own, since the flags are
//! not those of the tests. The second time there is nothing to do.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The only target that guests are of.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds a static program of this workspace, and says where it is.
///
/// # Errors
///
/// Cargo cannot be started or does not build it.
pub fn build(package: &str, program: &str, folder: &Path) -> io::Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--package", package, "--bin", program])
        // With a target, flags are not for build scripts and procedural macros, which cannot be
        // static.
        .args(["--target", TARGET, "--target-dir"])
        .arg(folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("cargo build of {program}: {said}")));
    }
    Ok(folder.join(TARGET).join("debug").join(program))
}
