//! The mounted file systems: parsers of `/proc/PID/mountinfo` and `/proc/mounts`
//! (proc_pid_mountinfo(5)).

/// A mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The type of the file system, such as `cgroup2`.
    pub kind: &'a str,
    /// The mount point. Special characters are escaped: see [`unescaped`].
    pub at: &'a str,
    /// The folder, inside the file system, that is mounted at `at`; `/` if the whole file system is
    /// mounted. Special characters are escaped, as in `at`.
    pub top: &'a str,
    /// The options of the file system, separated by commas. For control groups of version 1, they
    /// include the controllers.
    pub options: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line of `mountinfo`, which may have any number of optional fields before the `-`:
    /// `35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`.
    pub fn of_mountinfo(line: &'a str) -> Option<Self> {
        let (place, system) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (top, at) = (place.next()?, place.next()?);
        let mut system = system.split(' ');
        let kind = system.next()?;
        // A line that ends before the options is valid: its options are empty.
        Some(Self { kind, at, top, options: system.nth(1).unwrap_or_default() })
    }

    /// Parses a line of `/proc/mounts`: `cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0`. Such a
    /// line lacks the mounted folder, so `top` is `/`.
    pub fn of_mounts(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ').skip(1);
        Some(Self { at: words.next()?, kind: words.next()?, top: "/", options: words.next()? })
    }
}

/// Replaces the octal escapes in `path`, such as `\040` for a space, by their characters.
/// Allocates.
pub fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(code.into());
                plain += &part[3..];
            }
            None => plain = plain + "\\" + part,
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_and_mounts_agree() {
        let info = "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory";
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0";
        let (kind, at, top, options) = ("cgroup", "/sys/fs/cgroup/memory", "/", "rw,memory");
        assert_eq!(Mount::of_mountinfo(info), Some(Mount { kind, at, top, options }));
        assert_eq!(Mount::of_mounts(mounts), Some(Mount { kind, at, top, options }));
        assert_eq!((Mount::of_mountinfo(mounts), Mount::of_mounts("a b")), (None, None));
        let bare = Mount::of_mountinfo("1 2 0:1 / /a rw - tmpfs");
        assert_eq!(bare.map(|mount| mount.options), Some(""));
    }

    #[test]
    fn escapes_become_characters() {
        let table = [("/a\\040b", "/a b"), ("/a\\134b", "/a\\b"), ("\\9", "\\9"), ("/é", "/é")];
        for (escaped, plain) in table {
            assert_eq!(unescaped(escaped), plain);
        }
    }
}
