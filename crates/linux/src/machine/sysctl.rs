//! Settings of the kernel that affect the placement of pages: NUMA balancing, demotion, reclaim on
//! a full node, and transparent huge pages.

use crate::root::{Root, RootError};

/// The file `numa_balancing`. Bit 0 of its value enables the migration of pages to the node of
/// their threads, bit 1 the promotion of hot pages from slow tiers.
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// If this file is true, reclaim demotes pages to a slower tier instead of swapping them out.
pub const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";

/// If this file is above 0, the kernel reclaims on a full node before it allocates on another.
const ZONE_RECLAIM: &str = "/proc/sys/vm/zone_reclaim_mode";

/// The file with the mode of transparent huge pages (`always`, `madvise` or `never`).
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sysctls {
    /// The value of [`NUMA_BALANCING`]; `None` on kernels without NUMA balancing.
    pub numa_balancing: Option<u64>,
    /// True when reclaim demotes pages to a slower tier; `None` on kernels without demotion.
    pub demotion: Option<bool>,
    /// The value of `zone_reclaim_mode`: above 0, the kernel reclaims on a full node before it
    /// allocates on another node. `None` on kernels without this setting.
    pub zone_reclaim: Option<u64>,
    /// The mode of transparent huge pages (`always`, `madvise` or `never`); `None` without them.
    pub huge_pages: Option<String>,
}

/// Reads the present values of the settings.
///
/// # Errors
/// When an existing file cannot be read or parsed.
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
