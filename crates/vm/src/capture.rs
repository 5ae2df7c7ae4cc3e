//! Unpacks a captured machine from the output of a guest. `interleaf doctor --capture` saved the
//! captured machine as a folder in the guest, and the step `dump` printed the folder's files.
//! `interleaf --root` reads the unpacked folder.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Component, Path},
};

/// Placeholder file for an empty folder, because Git stores no empty folders. No kernel file has
/// this name.
const KEEP: &str = ".keep";

/// Creates the folder `target` from the output lines of the step `dump`.
///
/// # Errors
///
/// If `target` exists already or cannot be written, or a line does not have the format of a dump.
pub fn unpack(lines: &[String], target: &Path) -> io::Result<()> {
    fs::create_dir(target)?;
    for line in lines {
        let wrong = || io::Error::other(format!("no line of a dump: {line}"));
        let (path, text) = match line.split_once(": ") {
            Some((path, text)) => (path, Some(text)),
            None => (line.strip_suffix(':').ok_or_else(wrong)?, None),
        };
        if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(wrong());
        }
        let file = target.join(path);
        let file = if path.ends_with('/') { file.join(KEEP) } else { file };
        fs::create_dir_all(file.parent().unwrap_or(target))?;
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        if let Some(text) = text {
            writeln!(file, "{text}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_becomes_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("machine");
        let lines = ["a:", "b/none/:", "b/two: 1", "b/two: ", "b/two: x: y:", "c: "];
        let lines = lines.map(String::from);
        unpack(&lines, &target).unwrap();
        let read = |path: &str| fs::read_to_string(target.join(path)).unwrap();
        assert_eq!(
            (read("a"), read("b/two"), read("c")),
            ("".into(), "1\n\nx: y:\n".into(), "\n".into())
        );
        assert!(target.join("b/none").is_dir());
        assert!(unpack(&lines, &target).is_err(), "it is there");
        for wrong in ["a", "/a: 1", "../a: 1", "b/../../a:"] {
            let why = unpack(&[wrong.to_string()], &folder.path().join("other")).unwrap_err();
            assert_eq!(why.to_string(), format!("no line of a dump: {wrong}"));
            fs::remove_dir_all(folder.path().join("other")).unwrap();
        }
    }
}
