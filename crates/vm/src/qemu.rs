//! Finds the QEMU that the script `crates/vm/kernels` unpacked. This QEMU can present a vfio-user
//! device to the guest. The folder of this QEMU also has programs for guests.

use std::{env, ffi::OsString, fs, path::PathBuf};

/// The folder of an unpacked QEMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    folder: PathBuf,
}

impl Unpacked {
    /// Finds the unpacked QEMU.
    ///
    /// # Errors
    ///
    /// The reason why QEMU was not found, and a remedy.
    pub fn find() -> Result<Self, String> {
        let cache = cache().ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("qemu");
        let entries = fs::read_dir(&cache).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path());
        let complete = folders.filter(|folder| folder.extension().is_none_or(|end| end != "new"));
        let folder = complete.max().ok_or_else(|| {
            format!("no QEMU in {}; run `crates/vm/kernels qemu`", cache.display())
        })?;
        Ok(Self { folder })
    }

    /// Returns the command that starts QEMU. The command runs the folder's dynamic loader, so that
    /// QEMU gets the libraries of the folder, not those of the host.
    #[must_use]
    pub fn command(&self) -> Vec<OsString> {
        let library = self.folder.join("lib");
        vec![
            library.join("ld-linux-x86-64.so.2").into(),
            "--library-path".into(),
            library.into(),
            self.folder.join("bin/qemu-system-x86_64").into(),
            "-L".into(),
            self.folder.join("share").into(),
        ]
    }

    /// Returns the folder in which the unpacked QEMU looks for modules (`QEMU_MODULE_DIR`). The
    /// folder has no modules. Without the variable, QEMU would look in the folder of an installed
    /// QEMU, whose modules have another version.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.folder.join("modules")
    }

    /// Returns the root folder of the programs for guests: `fio`, and the programs of e2fsprogs and
    /// xfsprogs.
    #[must_use]
    pub fn guest_root(&self) -> PathBuf {
        self.folder.join("guest")
    }
}

/// Returns the user's cache folder, which has the kernels and QEMU.
pub(crate) fn cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Some(cache.or_else(home)?.join("interleaf"))
}
