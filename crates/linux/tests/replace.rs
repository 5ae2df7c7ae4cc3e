//! Tests that a replaced file always has complete contents, old or new, for any existing file and
//! any owner.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use interleaf_linux::replace::{Durability, check_kept, check_named, kept, named, remove_kept};
use rustix::process::geteuid;
use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::Path,
};

const OTHER: u32 = 65534;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Makes another user the owner of a file. Returns false if this process may not do so, because it
/// is not root.
fn change_owner(path: &Path) -> bool {
    let changed = std::os::unix::fs::lchown(path, Some(OTHER), Some(OTHER));
    if changed.is_err() {
        let text = "NOT TESTED: files of another user: run as root\n";
        io::stderr().write_all(text.as_bytes()).unwrap();
    }
    changed.is_ok()
}

#[test]
fn an_output_is_replaced_and_keeps_mode_and_links() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("real"), "old").unwrap();
    fs::set_permissions(at("real"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", at("link")).unwrap();
    symlink("later", at("dangling")).unwrap();
    // These files must not change. They have names that an implementation might use for temporary
    // files.
    for name in ["real.new", ".real.new", "link.new"] {
        fs::write(at(name), "bystander").unwrap();
    }
    let inode = fs::metadata(at("real")).unwrap().ino();
    named(&at("link"), b"new", Durability::Synced).unwrap();
    assert_eq!(fs::read(at("real")).unwrap(), b"new");
    assert_ne!(fs::metadata(at("real")).unwrap().ino(), inode, "it is another file");
    assert_eq!(mode(&at("real")), 0o640);
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("real"));
    named(&at("dangling"), b"first", Durability::Cached).unwrap();
    assert_eq!(fs::read(at("later")).unwrap(), b"first");
    for name in ["real.new", ".real.new", "link.new"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"bystander");
    }
    assert_eq!(names(folder.path()).len(), 7, "{:?}", names(folder.path()));
}

#[test]
fn a_read_only_output_and_a_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if !geteuid().is_root() {
        assert!(check_named(&path).is_err());
        assert!(named(&path, b"new", Durability::Cached).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
    for path in [folder.path().to_path_buf(), folder.path().join("new/")] {
        let why = named(&path, b"x", Durability::Cached).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::IsADirectory, "{}", path.display());
        assert!(check_named(&path).is_err());
    }
    let why = named(&folder.path().join("no/file"), b"x", Durability::Cached).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::NotFound);
    symlink("round", folder.path().join("round")).unwrap();
    assert!(named(&folder.path().join("round"), b"x", Durability::Cached).is_err());
}

#[test]
fn devices_and_inherited_descriptors_are_written_in_place() {
    named(Path::new("/dev/null"), b"x", Durability::Synced).unwrap();
    let why = named(Path::new("/dev/full"), b"x", Durability::Synced).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::StorageFull);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redirected");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"before ").unwrap();
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    named(Path::new(&descriptor), b"after", Durability::Cached).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before after");
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("victim"), "root's").unwrap();
    symlink("victim", at("link")).unwrap();
    if !change_owner(&at("link")) {
        return;
    }
    let why = named(&at("link"), b"x", Durability::Cached).unwrap_err().to_string();
    assert!(why.contains("symbolic link of user 65534"), "{why}");
    let why = kept(&at("link"), b"x", 0o644).unwrap_err().to_string();
    assert!(why.contains("symbolic link"), "{why}");
    // Give the folder the mode of `/tmp`: another user may then have planted the file, so it is
    // refused.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(at("theirs"), "old").unwrap();
    change_owner(&at("theirs"));
    assert!(named(&at("theirs"), b"x", Durability::Cached).is_err());
    assert_eq!(fs::read(at("victim")).unwrap(), b"root's");
    // In a folder to which only its owner can write, the file is replaced and keeps its owner.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    named(&at("theirs"), b"new", Durability::Cached).unwrap();
    assert_eq!(fs::metadata(at("theirs")).unwrap().uid(), OTHER);
    assert_eq!(fs::read(at("theirs")).unwrap(), b"new");
}

#[test]
fn a_kept_file_replaces_regular_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let id = kept(&at("target"), b"a", 0o644).unwrap();
    assert_eq!(mode(&at("target")), 0o644);
    let again = kept(&at("target"), b"b", 0o644).unwrap();
    assert_ne!(id, again);
    remove_kept(&at("target"), id).unwrap();
    assert_eq!(fs::read(at("target")).unwrap(), b"b", "it is another file by now");
    remove_kept(&at("target"), again).unwrap();
    assert!(names(folder.path()).is_empty());
    fs::create_dir(at("folder")).unwrap();
    symlink("elsewhere", at("link")).unwrap();
    for name in ["folder", "link"] {
        assert!(check_kept(&at(name)).is_err(), "{name}");
        assert!(kept(&at(name), b"x", 0o644).is_err(), "{name}");
    }
    assert!(!at("elsewhere").exists());
    check_kept(&at("new")).unwrap();
    assert_eq!(names(folder.path()), ["folder", "link"]);
}

#[test]
fn links_on_the_way_to_a_kept_file_are_of_root_or_this_user() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("real/below")).unwrap();
    symlink("real/below/..", at("relative")).unwrap();
    symlink(at("real"), at("absolute")).unwrap();
    for way in ["relative", "absolute", "real/../relative/below/.."] {
        kept(&at(way).join("file"), way.as_bytes(), 0o600).unwrap();
        assert_eq!(fs::read(at("real/file")).unwrap(), way.as_bytes());
    }
    symlink("round", at("round")).unwrap();
    assert!(kept(&at("round/file"), b"x", 0o600).is_err());
    assert!(kept(&at("real/file/below"), b"x", 0o600).is_err());
    if change_owner(&at("absolute")) {
        let why = kept(&at("absolute/file"), b"x", 0o600).unwrap_err().to_string();
        assert!(why.contains("\"absolute\" on the way to it"), "{why}");
    }
}
