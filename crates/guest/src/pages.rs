//! Formats the number of pages on each node, as steps and programs of the guest print it.

use std::fmt;

use interleaf_linux::process::numa_maps::NodeBytes;

/// Pages of 4 KiB by node: `pages 0:12288 1:4096`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(pub NodeBytes);

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("pages")?;
        self.0.0.iter().try_for_each(|(node, bytes)| write!(f, " {node}:{}", bytes / 4096))
    }
}
