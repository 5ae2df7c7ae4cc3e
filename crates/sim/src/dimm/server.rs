//! Describes servers: their memory modules, their cores, and the fabric between cores and memory
//! controllers.
//!
//! The bandwidth of DRAM follows from its timing and from the controller, whose constants are the
//! same for all servers of one vendor. The bandwidth of a server can be lower: cores have a limit
//! of outstanding lines, and the fabric between cores and controllers has a limit of bandwidth.
//! Both limits are properties of the platform, as is the uncore latency. Example: EPYC 7742 with 8
//! x DDR4-3200 has a peak of 205 GB/s, and its fabric carries about 140 GB/s in any mix of reads
//! and writes.
//!
//! ```
//! use interleaf_sim::dimm::server::Server;
//! let setup = Server::by_name("sapphire-rapids-2r")?.setup();
//! assert_eq!((setup.channels, setup.device.ranks), (8, 2));
//! # Ok::<(), interleaf_sim::dimm::device::DeviceError>(())
//! ```

use super::{
    closed_loop::SLOTS_MAX,
    config::{Controller, QUEUE_MAX},
    device::{Device, DeviceError, NamedModule, quantity},
    run::Setup,
};
use crate::figures::{Sourced, has_reason};
use interleaf_model::format::{FileError, toml_text::TomlText};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

const SCHEMA: &str = "interleaf.servers/1";
const FILE: &str = "servers.toml";
const TEXT: &str = include_str!("../../../../devices/servers/servers.toml");

/// A server. Its fields are read from the file in `devices/servers`.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The name of the server, such as `sapphire-rapids-2r`.
    pub name: String,
    /// The processor and its number of cores, as text.
    pub processor: String,
    /// The memory module in each channel.
    pub device: Device,
    /// Number of memory channels of a socket.
    pub channels: u32,
    /// Number of cores of a socket.
    pub cores: u32,
    /// Number of read streams of a socket, and of write streams.
    pub streams: u32,
    /// Maximum number of outstanding lines of a core.
    pub lines_per_core: u32,
    /// Uncore latency, round trip, ps.
    pub uncore_ps: u64,
    /// The bandwidth of the fabric between cores and controllers, GB/s; `None` without a limit.
    pub fabric_gbps: Option<f64>,
    /// The configuration of the memory controllers.
    pub controller: Controller,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServersToml {
    schema: Spanned<String>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    server: Vec<ServerToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerToml {
    name: Spanned<String>,
    processor: String,
    module: Spanned<String>,
    width: Option<Spanned<String>>,
    density: Option<Spanned<String>>,
    channels: Spanned<i64>,
    cores: Spanned<i64>,
    streams: Sourced,
    lines_per_core: Sourced,
    uncore: Sourced,
    fabric: Option<Sourced>,
    controller: Option<ControllerToml>,
}

/// Choices of a controller that differ from [`Controller::default`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerToml {
    write_queue: Sourced,
    write_low: Sourced,
    write_batch: Sourced,
    read_slice: Sourced,
}

impl Server {
    /// Returns the built-in server `name`.
    ///
    /// # Errors
    ///
    /// If no built-in server is called `name`.
    pub fn by_name(name: &str) -> Result<Self, DeviceError> {
        in_file(FILE, TEXT, name)
    }

    /// Returns the configuration of a simulation of this server with read-only traffic.
    pub fn setup(&self) -> Setup {
        let mut setup = Setup::new(self.device.clone(), self.channels);
        let lines = self.cores * self.lines_per_core;
        setup.outstanding = (lines.div_ceil(setup.parts()) as usize).min(SLOTS_MAX);
        setup.streams = self.streams as usize;
        setup.uncore_ps = self.uncore_ps;
        setup.fabric_gbps = self.fabric_gbps;
        setup.controller = self.controller.clone();
        setup
    }
}

/// Returns the names of the built-in servers.
pub fn names() -> Vec<String> {
    let servers = TomlText::new(FILE, TEXT).read::<ServersToml>().map(|file| file.server);
    servers.unwrap_or_default().into_iter().map(|server| server.name.into_inner()).collect()
}

fn in_file(file: &str, text: &str, name: &str) -> Result<Server, DeviceError> {
    let text = TomlText::new(file, text);
    let parsed: ServersToml = text.read()?;
    text.schema(&parsed.schema, SCHEMA)?;
    let Some(own) = parsed.server.iter().find(|server| server.name.get_ref() == name) else {
        let known: Vec<_> = parsed.server.iter().map(|own| own.name.get_ref().as_str()).collect();
        return Err(DeviceError::Choice {
            problem: format!("there is no server \"{name}\""),
            hint: format!("name one of {}", known.join(", ")),
        });
    };
    let fields = Fields { text: &text, sources: &parsed.sources };
    let (density, width) = (own.density.as_ref(), own.width.as_ref());
    let named = NamedModule { table: "", module: &own.module, density, width };
    let device = named.device(&text)?;
    let fabric = own.fabric.as_ref();
    let fabric = fabric.map(|pair| fields.quantity("fabric", pair, "GB/s", 1000..=10_000_000));
    Ok(Server {
        name: name.into(),
        processor: own.processor.clone(),
        device,
        channels: text.whole("channels", &own.channels, 1..=64)?,
        cores: text.whole("cores", &own.cores, 1..=1024)?,
        streams: fields.count("streams", &own.streams, 4096)? as u32,
        lines_per_core: fields.count("lines_per_core", &own.lines_per_core, 256)? as u32,
        uncore_ps: fields.quantity("uncore", &own.uncore, "ns", 0..=10_000_000)?,
        fabric_gbps: fabric.transpose()?.map(|thousandths| thousandths as f64 / 1e3),
        controller: match &own.controller {
            Some(controller) => fields.controller(controller)?,
            None => Controller::default(),
        },
    })
}

/// Reads the fields of a file, each a pair of a value and its source.
struct Fields<'a> {
    text: &'a TomlText<'a>,
    sources: &'a BTreeMap<String, String>,
}

impl Fields<'_> {
    fn controller(&self, own: &ControllerToml) -> Result<Controller, FileError> {
        let writes = self.count("write_queue", &own.write_queue, QUEUE_MAX as u64)?;
        let read_slice = self.quantity("read_slice", &own.read_slice, "ns", 1000..=10_000_000)?;
        Ok(Controller {
            write_queue: writes as usize,
            write_high: writes as usize,
            write_low: self.count("write_low", &own.write_low, writes)? as usize,
            write_batch: self.count("write_batch", &own.write_batch, writes)? as usize,
            read_slice_ps: read_slice,
            ..Controller::default()
        })
    }

    /// Reads a pair whose value is a whole number from 1 to `most`, without a unit.
    fn count(&self, field: &str, pair: &Sourced, most: u64) -> Result<u64, FileError> {
        let thousandths = self.quantity(field, pair, "", 1000..=1000 * most)?;
        if thousandths.is_multiple_of(1000) {
            return Ok(thousandths / 1000);
        }
        let problem = format!("{} is not a whole number", pair.get_ref()[0]);
        Err(self.text.error(field, pair, problem, format!("write 1 to {most}")))
    }

    /// Reads a pair `[value, source]`: the value in thousandths of `unit`, within `range`. The
    /// source is one of the file's sources, or begins with `derived: ` or `assumed: `.
    fn quantity(
        &self,
        field: &str,
        pair: &Sourced,
        unit: &str,
        range: core::ops::RangeInclusive<u64>,
    ) -> Result<u64, FileError> {
        let [value, source] = pair.get_ref();
        if !has_reason(source) && !self.sources.contains_key(source) {
            let problem = format!("\"{source}\" is none of the file's sources");
            let hint = "name a source, or write \"assumed: why\"";
            return Err(self.text.error(field, pair, problem, hint));
        }
        let hint = format!("write {} to {} {unit}", range.start() / 1000, range.end() / 1000);
        let number =
            quantity(value, unit).map_err(|why| self.text.error(field, pair, why, &hint))?;
        if range.contains(&number) {
            return Ok(number);
        }
        Err(self.text.error(field, pair, format!("{value} is out of range"), hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_has_modules_and_lines() {
        for name in names() {
            let server = Server::by_name(&name).unwrap();
            let setup = server.setup();
            assert!(setup.streams >= setup.channels as usize, "{name}");
            assert!((40..=160).contains(&setup.outstanding), "{name}: {}", setup.outstanding);
            let peak = setup.peak_gbps();
            assert!(setup.fabric_gbps.is_none_or(|gbps| gbps < peak), "{name}: {peak} GB/s");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            ("name = \"zen2\"", "name = \"zen3\"", "there is no server \"zen2\""),
            ("147 GB/s", "147 ns", "\"ns\" is not GB/s"),
            ("147 GB/s", "0.5 GB/s", "0.5 GB/s is out of range"),
            ("write_low = [\"96\"", "write_low = [\"129\"", "129 is out of range"),
            ("write_low = [\"96\"", "write_low = [\"96.5\"", "96.5 is not a whole number"),
            ("cores = 64", "cores = 0", "0 is not between 1 and 1024"),
            ("\"ddr4-3200-2r\"", "\"ddr4-9999\"", "there is no device \"ddr4-9999\""),
            ("[\"75 ns\", \"mess\"]", "[\"75 ns\", \"x\"]", "\"x\" is none of the file's sources"),
        ];
        for (from, to, problem) in table {
            assert!(TEXT.contains(from), "{from}");
            let why = in_file(FILE, &TEXT.replace(from, to), "zen2").unwrap_err().to_string();
            assert!(why.contains(problem), "{why}");
        }
    }
}
