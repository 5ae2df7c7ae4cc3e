//! Sysctls of the kernel that move pages by themselves.

use crate::root::{Root, RootError};

/// `numa_balancing`: bit 0 moves pages to where their threads run, bit 1 promotes hot pages of slow
/// tiers.
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Whether reclaim demotes pages to a slower tier in place of writing them out.
pub const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";

/// Whether a node that is full is emptied before another one is used.
const ZONE_RECLAIM: &str = "/proc/sys/vm/zone_reclaim_mode";

/// Transparent huge pages.
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// What the kernel does with pages by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    /// The value of `numa_balancing`; `None` where there is none.
    pub numa_balancing: Option<u64>,
    /// Whether reclaim demotes; `None` where it cannot.
    pub demotion: Option<bool>,
    /// The value of `zone_reclaim_mode`: above 0, a node that is full is emptied before another one
    /// is used; `None` where there is none.
    pub zone_reclaim: Option<u64>,
    /// `always`, `madvise` or `never`; `None` without transparent huge pages.
    pub huge_pages: Option<String>,
}

/// The switches as they stand.
///
/// # Errors
/// When a file that is there cannot be read or holds nonsense.
pub fn sysctls(root: &Root) -> Result<Sysctls, RootError> {
    let demotion = root.value(DEMOTION, "true or false", |text| match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    })?;
    let chosen = |text: &str| {
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_string())
    };
    let huge_pages = root.value(THP, "one choice in brackets", chosen)?;
    Ok(Sysctls {
        numa_balancing: root.number(NUMA_BALANCING)?,
        demotion,
        zone_reclaim: root.number(ZONE_RECLAIM)?,
        huge_pages,
    })
}
