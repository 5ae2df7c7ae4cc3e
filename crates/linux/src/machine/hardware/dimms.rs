//! The memory modules of a machine. The firmware describes the modules (SMBIOS, structure 17), but
//! only root may read this description. Without it, the modules are those that the driver of the
//! memory controller lists (EDAC).

use super::Known;
use crate::root::{Root, RootError};

const ENTRIES: &str = "/sys/firmware/dmi/entries";
const EDAC: &str = "/sys/devices/system/edac/mc";

/// A memory module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimm {
    /// The name of the slot, such as `CPU0_DIMM_A1`.
    pub slot: String,
    pub bytes: u64,
    /// The kind of memory, such as `DDR5`.
    pub kind: String,
    /// The configured speed, mega-transfers per second; `None` if it is not known.
    pub mtps: Option<u32>,
    /// The manufacturer and the part number.
    pub part: String,
}

/// The codes of the kinds of memory in SMBIOS 3.7, 7.18.2, with their names.
const KINDS: [(u8, &str); 9] = [
    (0x18, "DDR3"),
    (0x1A, "DDR4"),
    (0x1B, "LPDDR"),
    (0x1E, "LPDDR4"),
    (0x1F, "non-volatile"),
    (0x20, "HBM"),
    (0x21, "HBM2"),
    (0x22, "DDR5"),
    (0x23, "LPDDR5"),
];

/// Returns the installed modules, or the reason why they are not known.
pub(super) fn dimms(root: &Root) -> Result<Known<Vec<Dimm>>, RootError> {
    let (mut found, mut refused) = (vec![], false);
    for name in root.names(ENTRIES)?.iter().filter(|name| name.starts_with("17-")) {
        match root.bytes(&format!("{ENTRIES}/{name}/raw")) {
            Ok(bytes) => found.extend(bytes.as_deref().and_then(dimm)),
            Err(why) if why.is_permission() => refused = true,
            Err(why) => return Err(why),
        }
    }
    if found.is_empty() {
        found = counted(root)?;
    }
    Ok(match (found.is_empty(), refused) {
        (false, _) => Ok(found),
        (true, true) => Err("only root may read what the firmware says (SMBIOS)".into()),
        (true, false) => {
            Err("the firmware describes none (SMBIOS), and no driver counts them (EDAC)".into())
        }
    })
}

/// Parses an SMBIOS structure of type 17, which describes a memory slot and is followed by its
/// strings. Returns `None` for an empty slot, an unknown size or a malformed structure.
fn dimm(bytes: &[u8]) -> Option<Dimm> {
    let length = usize::from(*bytes.get(1)?);
    let fields = bytes.get(..length).filter(|fields| fields.first() == Some(&17))?;
    let word = |at: usize| Some(u16::from_le_bytes(fields.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_le_bytes(fields.get(at..at + 4)?.try_into().ok()?));
    let text = |at: usize| {
        let number = usize::from(*fields.get(at).unwrap_or(&0));
        let mut strings = bytes[length..].split(|byte| *byte == 0);
        let found = number.checked_sub(1).and_then(|at| strings.nth(at)).unwrap_or_default();
        String::from_utf8_lossy(found).trim().to_string()
    };
    let bytes = match word(0x0C)? {
        // The size 0 means an empty slot, 0xFFFF an unknown size.
        0 | 0xFFFF => return None,
        0x7FFF => u64::from(long(0x1C)? & 0x7FFF_FFFF) << 20,
        kib if kib & 0x8000 != 0 => u64::from(kib & 0x7FFF) << 10,
        mib => u64::from(mib) << 20,
    };
    let number = *fields.get(0x12)?;
    let kind = KINDS.iter().find(|(known, _)| *known == number);
    let speed = word(0x20).filter(|mtps| *mtps > 0).or_else(|| word(0x15));
    Some(Dimm {
        slot: text(0x10),
        bytes,
        kind: kind.map_or_else(|| format!("kind {number:#x}"), |(_, name)| (*name).into()),
        mtps: speed.filter(|mtps| (1..0xFFFF).contains(mtps)).map(u32::from),
        part: format!("{} {}", text(0x17), text(0x1A)).trim().into(),
    })
}

/// Returns the modules that the driver of the memory controller counts.
fn counted(root: &Root) -> Result<Vec<Dimm>, RootError> {
    let mut found = vec![];
    for controller in root.names(EDAC)?.iter().filter(|name| name.starts_with("mc")) {
        let folder = format!("{EDAC}/{controller}");
        for name in root.names(&folder)?.iter().filter(|name| name.starts_with("dimm")) {
            let text = |file: &str| -> Result<String, RootError> {
                let text = root.text_if_allowed(&format!("{folder}/{name}/{file}"))?;
                Ok(text.unwrap_or_default().trim().to_string())
            };
            let Some(mib) = text("size")?.parse::<u64>().ok().filter(|mib| *mib > 0) else {
                continue;
            };
            let (label, kind) = (text("dimm_label")?, text("dimm_mem_type")?);
            let slot = if label.is_empty() { format!("{controller} {name}") } else { label };
            found.push(Dimm { slot, bytes: mib << 20, kind, mtps: None, part: String::new() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    /// Returns the SMBIOS structure (type 17) of a 64 GiB DDR5-6400 module that runs at 5200 MT/s.
    fn structure() -> Vec<u8> {
        let mut bytes = vec![0; 0x28];
        (bytes[0], bytes[1]) = (17, 0x28);
        bytes[0x0C..0x0E].copy_from_slice(&0x7FFF_u16.to_le_bytes());
        bytes[0x1C..0x20].copy_from_slice(&65536_u32.to_le_bytes());
        (bytes[0x10], bytes[0x17], bytes[0x1A], bytes[0x12]) = (1, 2, 3, 0x22);
        bytes[0x15..0x17].copy_from_slice(&6400_u16.to_le_bytes());
        bytes[0x20..0x22].copy_from_slice(&5200_u16.to_le_bytes());
        bytes.extend(b"CPU0_DIMM_A1\0Micron\0MTC40F2046S1RC64\0\0");
        bytes
    }

    #[test]
    fn a_module_is_read() {
        let dimm = dimm(&structure()).unwrap();
        assert_eq!((dimm.slot.as_str(), dimm.bytes), ("CPU0_DIMM_A1", 64 << 30));
        assert_eq!((dimm.kind.as_str(), dimm.mtps), ("DDR5", Some(5200)));
        assert_eq!(dimm.part, "Micron MTC40F2046S1RC64");
    }

    #[test]
    fn an_empty_slot_has_no_dimm() {
        let mut empty = structure();
        empty[0x0C..0x0E].copy_from_slice(&[0, 0]);
        assert_eq!(dimm(&empty), None);
        assert_eq!(dimm(&[]), None);
        assert_eq!(dimm(&structure()[..0x10]), None);
    }

    #[test]
    fn drivers_count_them_where_firmware_is_silent() {
        let folder = tempfile::tempdir().unwrap();
        let dimm = folder.path().join("sys/devices/system/edac/mc/mc0/dimm3");
        fs::create_dir_all(&dimm).unwrap();
        fs::write(dimm.join("size"), "32768\n").unwrap();
        fs::write(dimm.join("dimm_mem_type"), "Registered-DDR4\n").unwrap();
        let found = dimms(&Root::captured(folder.path())).unwrap().unwrap();
        assert_eq!((found.len(), found[0].bytes), (1, 32 << 30));
        assert_eq!(
            (found[0].slot.as_str(), found[0].kind.as_str()),
            ("mc0 dimm3", "Registered-DDR4")
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = dimm(&bytes);
            let mut begun = vec![17, 0x28];
            begun.extend(bytes);
            let _ = dimm(&begun);
        }
    }
}
