//! Provides programs for the guest. Programs of this workspace are built as static programs: Cargo
//! links the C library into them. They have a separate target folder, because their flags differ
//! from those of the tests. Later builds find the programs up to date. Other programs are copied
//! from the host, with the shared libraries that they are linked with.

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Targets for guests and the C compiler that each needs, the preferred target first. With musl a
/// guest runs the same static program that users build.
const TARGETS: [(&str, &str); 2] =
    [("x86_64-unknown-linux-musl", "musl-gcc"), ("x86_64-unknown-linux-gnu", "cc")];

/// The profile of static programs in the workspace's manifest.
const PROFILE: &str = "static";

/// Static programs of this workspace.
#[derive(Clone, Debug)]
pub struct StaticPrograms {
    /// The program that executes the steps in a guest.
    pub guest: PathBuf,
    /// The program `interleaf`.
    pub interleaf: PathBuf,
}

/// Returns the default folder for guest programs: `tmp/static` in Cargo's target folder, found from
/// the path of the running program. All integration tests share the folder.
///
/// # Errors
///
/// If the path of the running program is unknown, or is not in a target folder.
pub fn folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let none = || io::Error::other(format!("{} is in no target folder", program.display()));
    Ok(target.ok_or_else(none)?.join("tmp/static"))
}

/// Returns the first of `TARGETS` whose standard library and C compiler are installed; the last of
/// `TARGETS` if no target has both.
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

/// Builds the static programs, which share most crates, into `folder`.
///
/// # Errors
///
/// If Cargo cannot be started, or the build fails.
pub fn build(folder: &Path) -> io::Result<StaticPrograms> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = target()?;
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--package", "interleaf-guest"])
        .args(["--package", "interleaf", "--bins", "--profile", PROFILE])
        // With `--target`, Cargo does not apply `RUSTFLAGS` to build scripts and procedural macros,
        // which cannot be static.
        .args(["--target", target, "--target-dir"])
        .arg(folder)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // The profile's `strip` does not apply to packages that have their own `opt-level`.
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
        .output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("cargo build of static programs: {message}")));
    }
    let programs = folder.join(target).join(PROFILE);
    Ok(StaticPrograms { guest: programs.join("guest"), interleaf: programs.join("interleaf") })
}

/// Returns the paths of the shared libraries, including the loader, that a program of this host is
/// linked with; none if the program is static.
///
/// # Errors
///
/// If `ldd` cannot be started.
pub fn libraries(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(Into::into).collect())
}
