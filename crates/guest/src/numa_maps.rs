//! Where the pages of a process are: `/proc/PID/numa_maps`.
//!
//! A line a mapping: its first address, its policy, and words as `anon=3 N0=2 N1=1
//! kernelpagesize_kB=4`, where `N1=1` is one page on node 1. A transparent huge page counts as the
//! small ones that it is made of, a page of hugetlbfs as one of its own size.

use std::{collections::BTreeMap, fmt};

/// Pages of 4 KiB by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(pub BTreeMap<u32, u64>);

impl Pages {
    /// Of all anonymous memory.
    #[must_use]
    pub fn anonymous(numa_maps: &str) -> Self {
        Self::of(numa_maps, |words| words.iter().any(|word| word.starts_with("anon=")))
    }

    /// Of the mapping that begins at an address.
    #[must_use]
    pub fn at(numa_maps: &str, address: usize) -> Self {
        let first = format!("{address:x}");
        Self::of(numa_maps, |words| {
            words.first().is_some_and(|word| word.trim_start_matches('0') == first)
        })
    }

    /// Of all nodes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    fn of(numa_maps: &str, wanted: impl Fn(&[&str]) -> bool) -> Self {
        let mut pages = BTreeMap::new();
        for line in numa_maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if !wanted(&words) {
                continue;
            }
            let number = |word: &&str, name| word.strip_prefix(name)?.parse::<u64>().ok();
            let size = words.iter().find_map(|word| number(word, "kernelpagesize_kB="));
            for word in &words {
                let Some((node, count)) = word.strip_prefix('N').and_then(|w| w.split_once('='))
                else {
                    continue;
                };
                if let (Ok(node), Ok(count)) = (node.parse::<u32>(), count.parse::<u64>()) {
                    *pages.entry(node).or_default() += count * size.unwrap_or(4) / 4;
                }
            }
        }
        Self(pages)
    }
}

/// `pages 0:12288 1:4096`
impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pages")?;
        self.0.iter().try_for_each(|(node, count)| write!(f, " {node}:{count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted() {
        let text = "00400000 default file=/init mapped=3 N0=3 kernelpagesize_kB=4\n\
                    7f00 default anon=5 dirty=5 active=0 N0=4 N1=1 kernelpagesize_kB=4\n\
                    7f80 default\n\
                    8000 default anon=1 huge dirty=1 N2=1 kernelpagesize_kB=2048\n";
        assert_eq!(Pages::anonymous(text).to_string(), "pages 0:4 1:1 2:512");
        assert_eq!(Pages::at(text, 0x40_0000).to_string(), "pages 0:3");
        assert_eq!(Pages::at(text, 0x7f00).total(), 5);
        assert_eq!(Pages::at(text, 0x7f80).to_string(), "pages");
    }
}
