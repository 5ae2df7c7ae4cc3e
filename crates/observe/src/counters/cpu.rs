//! Reads the CPU model of a machine from `/proc/cpuinfo`.

use interleaf_linux::root::{Root, RootError};
use std::fmt;

/// The numbers of a CPU model, by which the table of events is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The manufacturer, such as `GenuineIntel`.
    pub vendor: String,
    /// The CPU family, such as 6 for Intel's servers and 26 for Zen 5.
    pub family: u32,
    /// The model number, such as 0xad for Granite Rapids.
    pub model: u32,
    /// The stepping (revision of the model); `None` if `/proc/cpuinfo` has no stepping.
    pub stepping: Option<u32>,
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} family {} model {} ({:#x})", self.vendor, self.family, self.model, self.model)
    }
}

/// Reads the CPU model of a machine; `None` if `/proc/cpuinfo` lacks the vendor, the family or the
/// model, as on AArch64.
///
/// # Errors
/// When `/proc/cpuinfo` exists and cannot be read.
pub fn cpu(root: &Root) -> Result<Option<Cpu>, RootError> {
    let text = root.text("/proc/cpuinfo")?.unwrap_or_default();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    let number = |key: &str| value(key).and_then(|value| value.parse::<u32>().ok());
    let (Some(vendor), Some(family), Some(model)) =
        (value("vendor_id"), number("cpu family"), number("model"))
    else {
        return Ok(None);
    };
    Ok(Some(Cpu { vendor: vendor.into(), family, model, stepping: number("stepping") }))
}
