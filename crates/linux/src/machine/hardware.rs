//! The properties of a machine's hardware that can be read: caches, DIMMs, frequency settings,
//! prefetchers, and the hypervisor of a guest. The record of each measurement contains them,
//! because measured figures depend on the machine and its settings.

mod dimms;

pub use dimms::Dimm;

use crate::{
    machine::id_list::IdList,
    root::{Root, RootError},
};

const CPUS: &str = "/sys/devices/system/cpu";

/// The number of the MSR (model-specific register) in which each of the bits 0 to 3 disables one
/// prefetcher of Intel's cores (SDM vol. 4; "Disclosure of Hardware Prefetcher Control on Some
/// Intel Processors").
const MISC_FEATURE_CONTROL: u64 = 0x1A4;

/// The prefetcher that each bit of [`MISC_FEATURE_CONTROL`] disables, from bit 0 on.
const PREFETCHERS: [&str; 4] = ["L2 stream", "L2 adjacent line", "L1 next line", "L1 stride"];

/// A value, or the reason why the value is not known.
pub type Known<T> = Result<T, String>;

#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// The caches of the first CPU.
    pub caches: Vec<Cache>,
    /// The last-level caches, each with the CPUs that share it: one for each socket or chiplet.
    pub last_level: Vec<Cache>,
    /// The installed memory modules.
    pub dimms: Known<Vec<Dimm>>,
    /// The frequency governor of the first CPU.
    pub governor: Known<String>,
    /// True when cores may exceed their base frequency.
    pub turbo: Known<bool>,
    pub prefetchers: Known<Vec<Prefetcher>>,
    /// The hypervisor of a guest; `None` on a machine that reports no hypervisor.
    pub guest_of: Option<String>,
    /// The vendor and the product name of the machine, as the firmware states them.
    pub product: Option<String>,
}

/// A cache as the kernel lists it. In a guest, the hypervisor chooses the listed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The level of the cache; level 1 is nearest to the core.
    pub level: u32,
    /// The kind of cache: `Data`, `Instruction` or `Unified`.
    pub kind: String,
    pub bytes: u64,
    /// The CPUs that share the cache.
    pub cpus: IdList,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetcher {
    pub name: &'static str,
    pub is_on: bool,
}

impl Hardware {
    /// Reads the hardware of the machine below `root`.
    ///
    /// # Errors
    /// When an existing file cannot be read or is malformed.
    pub fn read(root: &Root) -> Result<Self, RootError> {
        let info = root.text("/proc/cpuinfo")?.unwrap_or_default();
        Ok(Self {
            caches: caches(root, 0)?,
            last_level: last_level(root)?,
            dimms: dimms::dimms(root)?,
            governor: governor(root)?,
            turbo: turbo(root)?,
            prefetchers: prefetchers(root, &info),
            guest_of: guest_of(root, &info)?,
            product: product(root)?,
        })
    }
}

impl Hardware {
    /// Returns the last-level cache of a CPU; `None` if the kernel lists no such cache.
    pub fn last_level_of(&self, cpu: u32) -> Option<&Cache> {
        self.last_level.iter().find(|cache| cache.cpus.has(cpu))
    }

    /// Returns the bytes of last-level cache that one thread has, if one thread runs on each CPU of
    /// `cpus` and threads that share a cache divide it evenly. If threads have different amounts,
    /// returns the largest. Returns `None` if the kernel lists no last-level cache of `cpus`.
    pub fn last_level_share(&self, cpus: &[u32]) -> Option<u64> {
        let share = |cache: &Cache| {
            let sharing = cpus.iter().filter(|cpu| cache.cpus.has(**cpu)).count() as u64;
            cache.bytes.checked_div(sharing)
        };
        self.last_level.iter().filter_map(share).max()
    }
}

fn last_level(root: &Root) -> Result<Vec<Cache>, RootError> {
    let number = |name: &String| name.strip_prefix("cpu")?.parse().ok();
    let mut cpus: Vec<u32> = root.names(CPUS)?.iter().filter_map(number).collect();
    cpus.sort_unstable();
    let mut found: Vec<Cache> = vec![];
    for cpu in cpus {
        if found.iter().any(|cache| cache.cpus.has(cpu)) {
            continue;
        }
        let last = caches(root, cpu)?.into_iter().filter(|cache| cache.kind != "Instruction");
        found.extend(last.max_by_key(|cache| cache.level).map(
            |cache| match cache.cpus.is_empty() {
                true => Cache { cpus: [cpu].into_iter().collect(), ..cache },
                false => cache,
            },
        ));
    }
    Ok(found)
}

fn caches(root: &Root, cpu: u32) -> Result<Vec<Cache>, RootError> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let mut found = vec![];
    for name in root.names(&folder)?.iter().filter(|name| name.starts_with("index")) {
        let at = |file: &str| format!("{folder}/{name}/{file}");
        let level = root.number(&at("level"))?;
        let size = root.value(&at("size"), "a size such as 32K", size)?;
        let cpus = root
            .value(&at("shared_cpu_list"), "a list of CPUs", |text| IdList::of_kernel(text).ok())?;
        let (Some(level), Some(bytes)) = (level, size) else { continue };
        let kind = root.text(&at("type"))?.unwrap_or_default();
        let cpus = cpus.unwrap_or_default();
        found.push(Cache { level: level as u32, kind: kind.trim().into(), bytes, cpus });
    }
    found.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    Ok(found)
}

/// Parses a cache size as the kernel writes it, such as `32K`; returns bytes.
fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix('K') {
        Some(number) => (number, 1024),
        None => (text.strip_suffix('M')?, 1 << 20),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn governor(root: &Root) -> Result<Known<String>, RootError> {
    let found = root.text(&format!("{CPUS}/cpu0/cpufreq/scaling_governor"))?;
    let why = || "the kernel does not set the frequency (no cpufreq): firmware or host does";
    Ok(found.map(|text| text.trim().to_string()).ok_or_else(|| why().into()))
}

fn turbo(root: &Root) -> Result<Known<bool>, RootError> {
    if let Some(off) = root.number(&format!("{CPUS}/intel_pstate/no_turbo"))? {
        return Ok(Ok(off == 0));
    }
    let boost = root.number(&format!("{CPUS}/cpufreq/boost"))?;
    Ok(boost.map(|on| on != 0).ok_or_else(|| "neither no_turbo nor boost is there".into()))
}

fn prefetchers(root: &Root, info: &str) -> Known<Vec<Prefetcher>> {
    if !info.contains("GenuineIntel") {
        return Err("only of Intel's cores is it known how to ask".into());
    }
    let path = "/dev/cpu/0/msr";
    let hint = match root.has(path) {
        true => "only root may read MSRs",
        false => "no /dev/cpu/0/msr: modprobe msr",
    };
    let mut bytes = [0; 8];
    root.read_at(path, MISC_FEATURE_CONTROL, &mut bytes).map_err(|why| format!("{why}: {hint}"))?;
    let off = u64::from_le_bytes(bytes);
    let prefetcher =
        |(bit, name): (usize, &&'static str)| Prefetcher { name, is_on: off & (1 << bit) == 0 };
    Ok(PREFETCHERS.iter().enumerate().map(prefetcher).collect())
}

/// Returns the hypervisor of a guest, from `/sys/hypervisor/type`. Without that file, a machine
/// whose CPUs have the flag `hypervisor` (CPUID leaf 1, ECX bit 31) is a guest, and the vendor in
/// the firmware's tables usually names the hypervisor.
fn guest_of(root: &Root, info: &str) -> Result<Option<String>, RootError> {
    let has_flag = |line: &str| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    };
    let kind = root.text_if_allowed("/sys/hypervisor/type")?;
    if let Some(kind) = kind.map(|kind| kind.trim().to_string()).filter(|kind| !kind.is_empty()) {
        return Ok(Some(kind));
    }
    if !info.lines().any(has_flag) {
        return Ok(None);
    }
    let vendor = root.text_if_allowed("/sys/class/dmi/id/sys_vendor")?.unwrap_or_default();
    let vendor = vendor.trim();
    Ok(Some(if vendor.is_empty() { "a hypervisor without a name".into() } else { vendor.into() }))
}

fn product(root: &Root) -> Result<Option<String>, RootError> {
    let of = |name: &str| root.text_if_allowed(&format!("/sys/class/dmi/id/{name}"));
    let words = [of("sys_vendor")?, of("product_name")?];
    let words: Vec<String> =
        words.into_iter().flatten().map(|word| word.trim().to_string()).collect();
    Ok(Some(words.join(" ")).filter(|text| !text.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{fs, path::Path};

    fn write_file(folder: &Path, path: &str, bytes: &[u8]) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn sizes_are_those_of_the_kernel() {
        assert_eq!(
            (size("32K"), size("36608K"), size("2M")),
            (Some(32768), Some(37486592), Some(2 << 20))
        );
        assert_eq!((size("32"), size("K"), size("")), (None, None, None));
    }

    #[test]
    fn missing_hardware_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let found = Hardware::read(&Root::captured(folder.path())).unwrap();
        assert_eq!((&found.caches, &found.last_level), (&vec![], &vec![]));
        assert_eq!((found.last_level_of(0), found.last_level_share(&[0])), (None, None));
        assert_eq!((found.guest_of, found.product), (None, None));
        assert!(found.governor.unwrap_err().contains("cpufreq"));
        assert!(found.turbo.is_err() && found.dimms.is_err());
        assert!(found.prefetchers.unwrap_err().contains("Intel"));
    }

    #[test]
    fn last_level_caches_are_those_that_cpus_share() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        // Four last-level caches: two of 96 MiB, each shared by three CPUs, and one of 32 MiB each
        // for CPUs 6 and 7. CPU 6 has an empty list of sharing CPUs, so it has its cache alone.
        for (cpu, size, shared) in [
            (0, "98304K", "0-2"),
            (1, "98304K", "0-2"),
            (3, "98304K", "3-5"),
            (6, "32768K", ""),
            (7, "32768K", "7"),
        ] {
            for (index, level, size, kind, shared) in [
                (0, 1, "32K", "Data", String::new()),
                (2, 2, "1024K", "Unified", cpu.to_string()),
                (3, 3, size, "Unified", shared.to_string()),
            ] {
                let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
                write_file(at, &format!("{cache}/level"), format!("{level}\n").as_bytes());
                write_file(at, &format!("{cache}/size"), format!("{size}\n").as_bytes());
                write_file(at, &format!("{cache}/type"), format!("{kind}\n").as_bytes());
                write_file(
                    at,
                    &format!("{cache}/shared_cpu_list"),
                    format!("{shared}\n").as_bytes(),
                );
            }
        }
        write_file(at, "sys/devices/system/cpu/cpufreq/boost", b"1\n");
        let found = Hardware::read(&Root::captured(at)).unwrap();
        let lists: Vec<String> = found.last_level.iter().map(|it| it.cpus.to_string()).collect();
        assert_eq!(lists, ["0-2", "3-5", "6", "7"]);
        assert_eq!(found.last_level_of(5).map(|it| it.bytes), Some(96 << 20));
        // If three threads share 96 MiB, each has 32 MiB. A thread alone has all 96 MiB.
        assert_eq!(found.last_level_share(&[0, 1, 2]), Some(32 << 20));
        assert_eq!(found.last_level_share(&[0, 1, 2, 5]), Some(96 << 20));
        assert_eq!(found.last_level_share(&[6, 7]), Some(32 << 20));
    }

    #[test]
    fn hardware_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let cache = "sys/devices/system/cpu/cpu0/cache/index3";
        write_file(at, &format!("{cache}/level"), b"3\n");
        write_file(at, &format!("{cache}/size"), b"36608K\n");
        write_file(at, &format!("{cache}/type"), b"Unified\n");
        write_file(at, &format!("{cache}/shared_cpu_list"), b"0-1\n");
        write_file(at, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", b"powersave\n");
        write_file(at, "sys/devices/system/cpu/intel_pstate/no_turbo", b"1\n");
        write_file(at, "proc/cpuinfo", b"vendor_id : GenuineIntel\nflags : fpu hypervisor sse2\n");
        write_file(at, "sys/class/dmi/id/sys_vendor", b"QEMU\n");
        let mut msr = vec![0; 0x1A4 + 8];
        msr[0x1A4] = 0b0101;
        write_file(at, "dev/cpu/0/msr", &msr);
        let found = Hardware::read(&Root::captured(at)).unwrap();
        assert_eq!((found.caches[0].level, found.caches[0].bytes), (3, 36608 << 10));
        assert_eq!(found.caches[0].cpus.to_string(), "0-1");
        assert_eq!((found.governor, found.turbo), (Ok("powersave".into()), Ok(false)));
        assert_eq!(found.guest_of.as_deref(), Some("QEMU"));
        let on: Vec<bool> = found.prefetchers.unwrap().iter().map(|it| it.is_on).collect();
        assert_eq!(on, [false, true, false, true]);
    }
}
