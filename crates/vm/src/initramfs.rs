//! Builds the root file system of a guest: a cpio archive in the format `newc`. It is uncompressed,
//! because an emulated processor decompresses more slowly than QEMU copies.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Cursor},
    path::Path,
};

use cpio::newc::{Builder, ModeFileType};

/// The contents of the archive, by absolute path in the guest.
#[derive(Clone, Debug, Default)]
pub struct Initramfs {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    path: String,
    kind: Kind,
    content: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    Text,
    Program,
    Link,
}

impl Initramfs {
    /// Adds the text file `path`, with the content `text`.
    pub fn text(&mut self, path: &str, text: &str) {
        self.add_entry(path, Kind::Text, text.as_bytes().to_vec());
    }

    /// Adds a copy of the host's file `file`, as the executable file `path`.
    ///
    /// # Errors
    ///
    /// If `file` cannot be read.
    pub fn program(&mut self, path: &str, file: &Path) -> io::Result<()> {
        let why = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", file.display()));
        self.add_entry(path, Kind::Program, fs::read(file).map_err(why)?);
        Ok(())
    }

    /// Adds the files below the host's folder `folder`, as executable files below the guest's
    /// folder `path`.
    ///
    /// # Errors
    ///
    /// If a file or folder cannot be read.
    pub fn tree(&mut self, path: &str, folder: &Path) -> io::Result<()> {
        let why =
            |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", folder.display()));
        let mut files: Vec<_> =
            fs::read_dir(folder).map_err(why)?.collect::<io::Result<_>>().map_err(why)?;
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files {
            let path = format!("{path}/{}", file.file_name().to_string_lossy());
            if file.path().is_dir() {
                self.tree(&path, &file.path())?;
            } else {
                self.program(&path, &file.path())?;
            }
        }
        Ok(())
    }

    /// Adds the symbolic link `path`, which points to `target`.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add_entry(path, Kind::Link, target.as_bytes().to_vec());
    }

    fn add_entry(&mut self, path: &str, kind: Kind, content: Vec<u8>) {
        assert!(path.starts_with('/'), "{path} is not absolute");
        self.entries.push(Entry { path: path.to_string(), kind, content });
    }

    /// Returns the archive, including all parent folders of the entries.
    ///
    /// # Errors
    ///
    /// The errors of [`cpio::write_cpio`], which here writes to memory.
    pub fn archive(&self) -> io::Result<Vec<u8>> {
        let folders: BTreeSet<&str> = self
            .entries
            .iter()
            .flat_map(|entry| entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]))
            .filter(|folder| !folder.is_empty())
            .collect();
        // The set is sorted, so each folder comes after its parent.
        let folders = folders.iter().map(|folder| Entry {
            path: (*folder).to_string(),
            kind: Kind::Folder,
            content: vec![],
        });
        let all = folders.chain(self.entries.iter().cloned());
        let inputs = all.zip(1..).map(|(entry, inode)| {
            let (kind, mode) = match entry.kind {
                Kind::Folder => (ModeFileType::Directory, 0o755),
                Kind::Text => (ModeFileType::Regular, 0o644),
                Kind::Program => (ModeFileType::Regular, 0o755),
                Kind::Link => (ModeFileType::Symlink, 0o777),
            };
            let name = entry.path.trim_start_matches('/');
            let builder = Builder::new(name).ino(inode).mode(mode).set_mode_file_type(kind);
            (builder, Cursor::new(entry.content))
        });
        cpio::write_cpio(inputs, vec![])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_first() {
        let mut initramfs = Initramfs::default();
        initramfs.text("/a/b/steps", "sleep 1s\n");
        initramfs.link("/bin/touch", "/init");
        let mut rest = Cursor::new(initramfs.archive().unwrap());
        let mut seen = vec![];
        loop {
            let reader = cpio::NewcReader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            seen.push(format!("{:o} {} {}", entry.mode(), entry.name(), entry.file_size()));
            rest = reader.finish().unwrap();
        }
        let expected =
            ["40755 a 0", "40755 a/b 0", "40755 bin 0", "100644 a/b/steps 9", "120777 bin/touch 5"];
        assert_eq!(seen, expected);
    }
}
