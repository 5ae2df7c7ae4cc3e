//! Finds the kernels that the script `crates/vm/kernels` downloaded: one folder per release in the
//! user's cache.

use std::{fmt, fs, io, path::PathBuf, str::FromStr};

use crate::qemu;

/// A selection of kernel releases. The latest installed release of the selection is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// The latest installed release with this major and minor number.
    Of(u32, u32),
    /// The latest of all installed releases. Its version must be at least 7.0, so that the kernel
    /// differs from every other tested series.
    Newest,
}

/// An installed kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The release, which is the name of the kernel's folder.
    pub release: String,
    /// The kernel image. It is uncompressed if `crates/vm/kernels` could extract it, because such
    /// an image boots faster.
    pub image: PathBuf,
}

impl Kernel {
    /// Returns the module of XFS and the modules that it depends on, in the order in which a kernel
    /// loads them.
    ///
    /// # Errors
    ///
    /// If the modules cannot be listed.
    pub fn xfs_modules(&self) -> io::Result<Vec<PathBuf>> {
        let folder = self.image.with_file_name("modules");
        let named = |why: io::Error| {
            io::Error::new(
                why.kind(),
                format!("{}: {why}; run crates/vm/kernels", folder.display()),
            )
        };
        let entries = fs::read_dir(&folder).map_err(named)?;
        let mut modules: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        modules.sort();
        Ok(modules)
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(major, minor) => write!(f, "{major}.{minor}"),
            Self::Newest => f.write_str("newest"),
        }
    }
}

/// The text is not a valid series.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no series of kernels `{0}`: write two numbers such as 6.12, or newest")]
pub struct SeriesError(String);

impl FromStr for Series {
    type Err = SeriesError;

    fn from_str(text: &str) -> Result<Self, SeriesError> {
        let of =
            |(major, minor): (&str, &str)| Some(Self::Of(major.parse().ok()?, minor.parse().ok()?));
        match text {
            "newest" => Some(Self::Newest),
            _ => text.split_once('.').and_then(of),
        }
        .ok_or_else(|| SeriesError(text.to_string()))
    }
}

impl Series {
    fn has(self, release: &str) -> bool {
        let numbers = numbers(release);
        let (major, minor) = (numbers[0], numbers[1]);
        match self {
            Self::Of(of_major, of_minor) => (major, minor) == (of_major, of_minor),
            Self::Newest => major >= 7,
        }
    }

    /// Returns the latest installed kernel of this series.
    ///
    /// # Errors
    ///
    /// The reason why no kernel was found, and a remedy.
    pub fn find(self) -> Result<Kernel, String> {
        let how = format!("run `crates/vm/kernels {self}`");
        let folder = qemu::cache()
            .map(|cache| cache.join("kernels"))
            .ok_or_else(|| format!("neither XDG_CACHE_HOME nor HOME is set; {how}"))?;
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let kernels = names.map(|release| {
            let images = ["vmlinux", "vmlinuz"].map(|name| folder.join(&release).join(name));
            let image = images.iter().find(|image| image.is_file()).unwrap_or(&images[1]).clone();
            Kernel { release, image }
        });
        kernels
            .filter(|kernel| self.has(&kernel.release) && kernel.image.is_file())
            .max_by_key(|kernel| numbers(&kernel.release))
            .ok_or_else(|| format!("none in {}; {how}", folder.display()))
    }
}

/// Returns the leading numbers of a release, such as 6, 1, 0 and 50 of `6.1.0-50-cloud-amd64`.
fn numbers(release: &str) -> [u32; 4] {
    let mut numbers = [0; 4];
    for (number, text) in numbers.iter_mut().zip(release.split(|c: char| !c.is_ascii_digit())) {
        *number = text.parse().unwrap_or(0);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_parsed_as_printed() {
        for text in ["6.1", "6.12", "newest"] {
            assert_eq!(text.parse::<Series>().unwrap().to_string(), text);
        }
        for text in ["", "6", "6.12.1", "6.", "latest", "v6.1"] {
            assert_eq!(text.parse::<Series>(), Err(SeriesError(text.to_string())));
        }
    }

    #[test]
    fn releases_have_a_series_and_an_order() {
        let releases = ["6.1.0-50-cloud-amd64", "6.12.107+deb13-cloud-amd64", "7.2.13+deb14"];
        assert!(Series::Of(6, 1).has(releases[0]) && !Series::Of(6, 1).has(releases[1]));
        assert!(Series::Of(6, 12).has(releases[1]) && !Series::Newest.has(releases[1]));
        assert!(Series::Newest.has(releases[2]) && !Series::Newest.has("notes"));
        assert!(numbers(releases[0]) < numbers("6.1.0-100-cloud-amd64"));
        assert!(numbers("7.2.9+deb13-amd64") < numbers(releases[2]));
    }
}
