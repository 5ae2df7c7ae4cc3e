//! Reads the energy that RAPL meters, from the zones in `/sys/class/powercap`.
//!
//! The zone of a package meters the energy of the cores and caches, and its child zone `dram`
//! meters the energy of the DIMMs; the energy of memory behind CXL is in neither zone. Counters are
//! in µJ and wrap at the zone's range (Documentation/power/powercap/powercap.rst of Linux). On
//! Intel's servers the range is 262 kJ, so at 350 W the counter of a package wraps after 12
//! minutes.

use crate::source::{Reading, Source, SourceError};
use interleaf_linux::root::{Root, RootError};

const ZONES: &str = "/sys/class/powercap";

/// The energy meters of a machine.
#[derive(Debug)]
pub struct Meter {
    root: Root,
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    /// The name of the zone: `package-0` for a package, or `package-0 dram` for a part of a
    /// package.
    name: String,
    path: String,
    /// The value at which the counter wraps, µJ.
    range_uj: u64,
    /// The counter at the last reading, µJ.
    last_uj: u64,
}

impl Meter {
    /// Opens the meters below `root` that this user may read; `None` if this user may read no
    /// meter. (Since Linux 5.10 only root may read the meters, because they are a side channel,
    /// CVE-2020-8694.)
    ///
    /// # Errors
    /// When an existing meter cannot be read for a reason other than permission, or is not a
    /// number.
    pub fn open(root: Root) -> Result<Option<Self>, RootError> {
        let mut zones = vec![];
        for (name, path) in metered(&root)? {
            let range = root.number(&format!("{path}/max_energy_range_uj"))?;
            if let (Some(range_uj), Some(last_uj)) = (range, energy(&root, &path)?) {
                zones.push(Zone { name, path, range_uj, last_uj });
            }
        }
        Ok((!zones.is_empty()).then_some(Self { root, zones }))
    }

    /// Returns the names of all zones below `root`, readable or not, in the form of
    /// [`Meter::names`].
    ///
    /// # Errors
    /// When a folder cannot be listed.
    pub fn zones(root: &Root) -> Result<Vec<String>, RootError> {
        Ok(metered(root)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Reads the energy of all meters since the last reading, J. The first reading covers the time
    /// since the meters were opened. The time between two readings must be shorter than the time in
    /// which a counter wraps, about 10 minutes at full load. If the time is longer, a wrap is
    /// missed, and the energy is too small by the range of the counter. A meter that is gone, or
    /// that this user may not read any more, is left out.
    ///
    /// # Errors
    /// When a counter cannot be read for another reason, or is not a number.
    pub fn read(&mut self) -> Result<f64, RootError> {
        Ok(self.read_each()?.into_iter().flatten().sum())
    }

    /// Reads the energy of each meter since the last reading, J, in the order of [`Meter::names`];
    /// `None` for a meter that is gone, or that this user may not read any more.
    ///
    /// # Errors
    /// Under the conditions of [`Meter::read`].
    pub fn read_each(&mut self) -> Result<Vec<Option<f64>>, RootError> {
        let mut joules = vec![];
        for zone in &mut self.zones {
            let now = energy(&self.root, &zone.path)?;
            joules.push(now.map(|now| {
                let last_uj = std::mem::replace(&mut zone.last_uj, now);
                let grown = now.checked_sub(last_uj);
                grown.unwrap_or_else(|| zone.range_uj.saturating_sub(last_uj) + now) as f64 / 1e6
            }));
        }
        Ok(joules)
    }

    /// Returns the names of the zones: `package-0` for a package, `package-0 dram` for a part of a
    /// package.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.zones.iter().map(|zone| zone.name.as_str())
    }
}

/// Returns the names and the folders of the zones that are metered: packages and their DIMMs.
fn metered(root: &Root) -> Result<Vec<(String, String)>, RootError> {
    let mut found = vec![];
    for name in root.names(ZONES)? {
        let path = format!("{ZONES}/{name}");
        // The zones of `intel-rapl-mmio` are skipped, because they meter the same packages.
        if !name.starts_with("intel-rapl:") {
            continue;
        }
        let kind = root.text(&format!("{path}/name"))?.unwrap_or_default();
        let kind = kind.trim();
        if kind.starts_with("package") || kind == "dram" {
            // The zone `intel-rapl:0:1` is a part of the zone `intel-rapl:0`. The returned name has
            // the names of both zones: `package-0 dram`.
            let package = path.rsplit_once(':').map_or("", |(package, _)| package);
            let package = root.text(&format!("{package}/name"))?.unwrap_or_default();
            found.push((format!("{} {kind}", package.trim()).trim().to_string(), path));
        }
    }
    Ok(found)
}

fn energy(root: &Root, zone: &str) -> Result<Option<u64>, RootError> {
    let path = format!("{zone}/energy_uj");
    // `peek` leaves the file out of a capture (`doctor --capture` copies the machine's files), in
    // which a single reading of a counter is useless.
    match root.peek(&path) {
        Err(why) if why.is_permission() => Ok(None),
        Err(why) => Err(why),
        Ok(None) => Ok(None),
        Ok(Some(text)) => text.trim().parse().map(Some).map_err(|_| RootError::Content {
            path,
            text,
            expected: "energy in µJ",
        }),
    }
}

/// A source of traffic whose readings also have the energy of a [`Meter`].
#[derive(Debug)]
pub struct Metered<S> {
    source: S,
    meter: Meter,
}

impl<S: Source> Metered<S> {
    /// Makes a source whose readings are those of `source` with the energy of `meter` added.
    pub fn new(source: S, meter: Meter) -> Self {
        Self { source, meter }
    }
}

impl<S: Source> Source for Metered<S> {
    fn describe(&self) -> String {
        format!("{}; energy of {} RAPL zones", self.source.describe(), self.meter.zones.len())
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        let mut reading = self.source.read()?;
        // The traffic is reported even if the energy cannot be read.
        reading.domain_counts.energy_j = self.meter.read().ok();
        Ok(reading)
    }
}
