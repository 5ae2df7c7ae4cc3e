//! Block devices as stores, tested with loop devices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_pager::{cache::Settings, pager::Pager};
use interleaf_prefetch::Limits;
use interleaf_store::{FileStore, Options, backing};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

/// A loop device over a new file that is full of zeros. The device is detached when the value is
/// dropped.
struct Device {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Device {
    fn new(mib: u64) -> Self {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = folder.path().join("device");
        File::create(&file).unwrap().set_len(mib << 20).unwrap();
        let path = run(Command::new("losetup").args(["--find", "--show"]).arg(&file));
        Self { path: path.trim().into(), _folder: folder }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        run(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said} (these tests need root)");
    String::from_utf8(output.stdout).unwrap()
}

fn why(path: &Path) -> String {
    FileStore::open(path).unwrap_err().to_string()
}

#[test]
fn a_device_with_content_is_refused() {
    let device = Device::new(64);
    let path = device.path.as_path();
    run(Command::new("mkfs.ext4").arg("-q").arg(path));
    assert!(why(path).ends_with("is not empty: it may hold a file system, or parts of one"));
    let folder = tempfile::tempdir_in(".").unwrap();
    run(Command::new("mount").arg(path).arg(folder.path()));
    let mounted = why(path);
    let forced = FileStore::open_all(&[path], Options { force: true, ..Options::default() });
    run(Command::new("umount").arg(folder.path()));
    assert!(mounted.ends_with("is mounted, or in use otherwise"), "{mounted}");
    assert!(forced.unwrap_err().to_string().ends_with("is mounted, or in use otherwise"));
    FileStore::open_all(&[path], Options { force: true, ..Options::default() }).unwrap();
    // The forced open has written the mark of a store to the device. Therefore the device is now
    // accepted without `force`.
    let store = FileStore::open(path).unwrap();
    assert_eq!(backing::free(path).unwrap(), 63 << 20);
    assert!(why(path).ends_with("is mounted, or in use otherwise"), "another store has it");
    assert_eq!(store.capacity(), 63 << 20);
}

#[test]
fn former_content_of_a_device_is_not_seen() {
    let devices = [Device::new(64), Device::new(64)];
    for device in &devices {
        fs::write(&device.path, vec![0xaa; 64 << 20]).unwrap();
    }
    let paths = [devices[0].path.as_path(), devices[1].path.as_path()];
    let options = Options { force: true, ..Options::default() };
    let store = FileStore::open_all(&paths, options).unwrap();
    let prefetch = Limits { initial: 16, max: 256 };
    let pager = Pager::new(Settings { frames: 2048, order: 4, prefetch }, 1 << 30, store).unwrap();
    let mut region = pager.region(40 << 20).unwrap();
    for lap in 0..2 {
        for (at, page) in region.bytes_mut().chunks_mut(4096).enumerate() {
            // Only every third page was written. The two pages in between are in the same extents
            // as written pages, and must stay zeros.
            let expected = if lap > 0 && at % 3 == 0 { 1 } else { 0 };
            assert!(page.iter().all(|byte| *byte == expected), "page {at} in lap {lap}");
            if at % 3 == 0 {
                page.fill(1);
            }
        }
    }
    assert!(pager.counts().read > 0, "{:?}", pager.counts());
}
