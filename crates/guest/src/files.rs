//! Lists folders, and reads the files whose paths match a pattern.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Returns true if a path contains `*`.
pub(crate) fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains('*')
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = fs::read_dir(folder)?.map(name).collect::<io::Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

/// Returns the lines of all files that match a pattern. Each line is preceded by the path of its
/// file and a colon.
pub(crate) fn read_all(pattern: &Path) -> io::Result<String> {
    let mut lines = vec![];
    for path in expand(pattern) {
        let text = fs::read(&path)?;
        let text = String::from_utf8_lossy(&text);
        lines.extend(text.lines().map(|line| format!("{}: {line}", path.display())));
    }
    if lines.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no file fits"));
    }
    Ok(lines.join("\n"))
}

/// Returns the lines of all regular files below a folder. Each line is preceded by the file's path
/// relative to the folder. An empty file is listed as `path:`, an empty folder as `path/:`, so the
/// output suffices to recreate the folder.
pub(crate) fn dump(folder: &Path) -> io::Result<String> {
    let mut lines = vec![];
    dump_below(folder, "", &mut lines)?;
    Ok(lines.join("\n"))
}

fn dump_below(folder: &Path, prefix: &str, lines: &mut Vec<String>) -> io::Result<()> {
    let named = |path: &Path, why: io::Error| {
        io::Error::new(why.kind(), format!("{}: {why}", path.display()))
    };
    let names = names(folder).map_err(|why| named(folder, why))?;
    if names.is_empty() && !prefix.is_empty() {
        lines.push(format!("{prefix}:"));
    }
    for name in names {
        let (path, short) = (folder.join(&name), format!("{prefix}{name}"));
        // `symlink_metadata` does not follow symbolic links, so links are skipped. Their targets
        // may be outside the folder, or a parent of the folder.
        let kind = path.symlink_metadata().map_err(|why| named(&path, why))?;
        if kind.is_dir() {
            dump_below(&path, &format!("{short}/"), lines)?;
        } else if kind.is_file() {
            let text = fs::read(&path).map_err(|why| named(&path, why))?;
            let text = String::from_utf8_lossy(&text);
            if text.is_empty() {
                lines.push(format!("{short}:"));
            }
            lines.extend(text.lines().map(|line| format!("{short}: {line}")));
        }
    }
    Ok(())
}

/// Returns the existing paths that match a pattern.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for part in pattern.components() {
        paths = paths.iter().flat_map(|path| matches(path, part)).collect();
    }
    paths.retain(|path| path.exists());
    paths
}

/// Returns the paths in a folder that match one component of a pattern.
fn matches(folder: &Path, part: Component<'_>) -> Vec<PathBuf> {
    let part = part.as_os_str();
    match part.to_string_lossy().split_once('*') {
        None => vec![folder.join(part)],
        Some((before, after)) => {
            let fits =
                |name: &String| name.strip_prefix(before).is_some_and(|rest| rest.ends_with(after));
            let names = names(folder).unwrap_or_default().into_iter().filter(fits);
            names.map(|name| folder.join(OsStr::new(&name))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_dumped() {
        let folder = std::env::temp_dir().join(format!("interleaf-dump-{}", std::process::id()));
        fs::create_dir_all(folder.join("b/none")).unwrap();
        fs::write(folder.join("b/two"), "1\n\n2").unwrap();
        fs::write(folder.join("a"), "").unwrap();
        fs::write(folder.join("c"), "\n").unwrap();
        std::os::unix::fs::symlink(&folder, folder.join("d")).unwrap();
        let dumped = dump(&folder);
        let missing = dump(&folder.join("none")).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        let lines = ["a:", "b/none/:", "b/two: 1", "b/two: ", "b/two: 2", "c: "];
        assert_eq!(dumped.unwrap(), lines.join("\n"));
        assert!(missing.contains("/none: No such file"), "{missing}");
    }

    #[test]
    fn a_pattern_expands_to_existing_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = read_all(&root.join("s*c/l*.rs")).unwrap();
        let lib = root.join("src/lib.rs");
        assert!(text.starts_with(&format!("{}: //! ", lib.display())), "{text}");
        assert_eq!(expand(&root.join("src/ma*n.rs")), [root.join("src/main.rs")]);
        assert_eq!(read_all(&root.join("*/none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
