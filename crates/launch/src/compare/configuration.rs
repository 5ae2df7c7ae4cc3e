//! A configuration of a command: placement, threads, huge pages, environment and wrapper. It is
//! applied by arguments before the command and by variables in the command's environment.

use crate::extend::Dram;
use interleaf_console::Failure;
use interleaf_model::weights::Weights;
use std::{
    ffi::OsString,
    iter,
    path::{Path, PathBuf},
};

/// Environment variables that set the number of threads in common runtimes and libraries.
const THREAD_VARIABLES: [&str; 4] =
    ["OMP_NUM_THREADS", "RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

/// `TUNABLES` is the environment variable for the tunables of glibc. With the tunable
/// `HUGE_PAGES_OF_MALLOC`, `malloc` requests huge pages by madvise(2).
const TUNABLES: &str = "GLIBC_TUNABLES";
const HUGE_PAGES_OF_MALLOC: &str = "glibc.malloc.hugetlb=1";

/// A configuration under which a command is run. The default runs the command unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configuration {
    /// The name of the configuration in results; `None` to name it by a letter.
    pub name: Option<String>,
    /// The whole configuration as the user wrote it.
    pub setting: String,
    pub memory: MemoryChoice,
    /// The number of threads, for common runtimes and for workloads of `interleaf bench`.
    pub threads: Option<u32>,
    pub huge_pages: Option<HugePages>,
    /// Variables in the environment of the command.
    pub variables: Vec<(String, String)>,
    /// The program that starts the command, such as `taskset`, with its arguments; empty if there
    /// is none.
    pub wrapper: Vec<String>,
}

/// The environment variables and the arguments that a configuration puts before a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Prefix {
    /// Variables that are set in the environment of the started process. They are not set by `env`,
    /// because its run time and page faults would be counted as those of the command.
    pub(super) variables: Vec<(String, String)>,
    /// Arguments before the command.
    pub(super) words: Vec<OsString>,
}

impl Prefix {
    /// Returns the arguments with which a shell starts the command under the same configuration:
    /// here `env` sets the variables.
    pub(super) fn shell_words(&self) -> Vec<OsString> {
        if self.variables.is_empty() {
            return self.words.clone();
        }
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}").into());
        iter::once("env".into()).chain(variables).chain(self.words.iter().cloned()).collect()
    }
}

/// The placement of the memory of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum MemoryChoice {
    /// The placement is not changed.
    #[default]
    Unchanged,
    /// Pages are interleaved by weights, as by `interleaf run --weights`.
    Weights { weights: Weights, nodes: Option<String> },
    /// A policy steers the pages, as with `interleaf run --policy`.
    Policy(String),
    /// Large allocations are extended, as by `interleaf extend --dram`.
    Extended { dram: Dram, store: PathBuf },
}

/// The use of transparent huge pages by the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Huge pages as far as the machine's setting allows. With the setting `always`, all memory
    /// that can have huge pages has them. With the setting `madvise`, glibc's `malloc` requests
    /// huge pages for its memory.
    Always,
    /// No memory has huge pages.
    Never,
}

impl Configuration {
    /// Returns the environment variables of a command and the arguments before it. `interleaf` is
    /// the path of this program, and `huge_pages` the machine's setting of transparent huge pages.
    ///
    /// # Errors
    /// When huge pages are requested and the machine does not allow them.
    pub(super) fn prefix(
        &self,
        interleaf: &Path,
        huge_pages: Option<&str>,
    ) -> Result<Prefix, Failure> {
        let mut words: Vec<OsString> = vec![];
        let variables = self.all_variables(huge_pages)?;
        let own = |words: &mut Vec<OsString>, arguments: &[&str]| {
            words.push(interleaf.into());
            words.extend(arguments.iter().map(OsString::from));
        };
        match &self.memory {
            MemoryChoice::Unchanged => {}
            MemoryChoice::Weights { weights, nodes } => {
                own(&mut words, &["run", "--quiet", "--weights", &weights.to_string()]);
                let nodes = nodes.iter().flat_map(|nodes| ["--nodes", nodes]);
                words.extend(nodes.map(OsString::from));
                words.push("--".into());
            }
            MemoryChoice::Policy(policy) => {
                own(&mut words, &["run", "--quiet", "--policy", policy, "--"]);
            }
            MemoryChoice::Extended { dram, store } => {
                own(&mut words, &["extend", "--quiet", "--dram", &dram.to_string(), "--store"]);
                words.extend([store.into(), "--".into()]);
            }
        }
        words.extend(self.wrapper.iter().map(OsString::from));
        Ok(Prefix { variables, words })
    }

    fn all_variables(&self, huge_pages: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
        let threads = self.threads.map(|threads| threads.to_string());
        let of_threads = threads.iter().flat_map(|threads| {
            THREAD_VARIABLES.iter().map(|name| (name.to_string(), threads.clone()))
        });
        let mut variables: Vec<(String, String)> = of_threads.collect();
        if self.huge_pages == Some(HugePages::Always) {
            match huge_pages {
                Some("always") => {}
                Some("madvise") => {
                    let given = std::env::var(TUNABLES).unwrap_or_default();
                    let separator = if given.is_empty() { "" } else { ":" };
                    let value = format!("{given}{separator}{HUGE_PAGES_OF_MALLOC}");
                    variables.push((TUNABLES.into(), value));
                }
                setting => {
                    let setting = setting.unwrap_or("unknown");
                    return Err(Failure::new(
                        format!("huge-pages=always: the machine's setting is {setting}"),
                        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
                    ));
                }
            }
        }
        // A variable that the user sets has precedence over its value from `threads` or
        // `huge_pages`.
        variables.retain(|(name, _)| self.variables.iter().all(|(given, _)| given != name));
        variables.extend(self.variables.iter().cloned());
        Ok(variables)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_model::units::Bytes;

    fn prefix(configuration: &Configuration, huge_pages: &str) -> String {
        let prefix = configuration.prefix(Path::new("/i"), Some(huge_pages)).unwrap();
        let words = prefix.shell_words();
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn a_configuration_is_words_before_the_command() {
        let plain = Configuration::default();
        assert_eq!(prefix(&plain, "always"), "");
        let weights = MemoryChoice::Weights {
            weights: Weights::new(vec![3, 1]).unwrap(),
            nodes: Some("0,2".into()),
        };
        let wrapper = vec!["nice".to_string(), "-n1".into()];
        let placed = Configuration { memory: weights, wrapper, ..plain.clone() };
        assert_eq!(
            prefix(&placed, "always"),
            "/i run --quiet --weights 3:1 --nodes 0,2 -- nice -n1"
        );
        let dram = Dram::Size(Bytes::new(4096));
        let extended = MemoryChoice::Extended { dram, store: "/s".into() };
        let extended = Configuration { memory: extended, ..plain.clone() };
        assert_eq!(prefix(&extended, "always"), "/i extend --quiet --dram 4096B --store /s --");
        let variables = vec![("MKL_NUM_THREADS".to_string(), "1".to_string())];
        let threads = Configuration { threads: Some(4), variables, ..plain };
        assert_eq!(
            prefix(&threads, "always"),
            "env OMP_NUM_THREADS=4 RAYON_NUM_THREADS=4 OPENBLAS_NUM_THREADS=4 MKL_NUM_THREADS=1"
        );
    }

    #[test]
    fn huge_pages_depend_on_the_setting_of_the_machine() {
        let always =
            Configuration { huge_pages: Some(HugePages::Always), ..Configuration::default() };
        assert_eq!(prefix(&always, "always"), "");
        assert!(prefix(&always, "madvise").ends_with("glibc.malloc.hugetlb=1"));
        assert!(always.prefix(Path::new("/i"), Some("never")).is_err());
    }
}
