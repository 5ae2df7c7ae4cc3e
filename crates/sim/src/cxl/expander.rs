//! Reads the description of an expander: a file with the schema `interleaf.cxl/1`, such as
//! `devices/cz122.toml`.

use crate::{
    dimm::device::{Device, DeviceError, NamedModule},
    figures::{FigureReader, Sourced},
};
use interleaf_model::format::{FileError, names::suggestion, toml_text::TomlText};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

const SCHEMA: &str = "interleaf.cxl/1";

const FILES: [(&str, &str); 1] = [("cz122.toml", include_str!("../../../../devices/cz122.toml"))];

/// A CXL expander, and the limits of the host in which the expander was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Expander {
    /// The name of the expander in its file, such as `cz122`.
    pub name: String,
    /// The memory module of each channel behind the controller.
    pub memory: Device,
    /// The number of memory channels behind the controller.
    pub channels: u32,
    /// Time that a slot of a flit (16 bytes) takes in one direction of the link, fs.
    pub slot_fs: u64,
    /// Length of a read request on the link, in hundredths of a slot.
    pub read_request: u64,
    /// Length of a write request with its data, in hundredths of a slot.
    pub write_request: u64,
    /// Length of a read response with its data on the link, in hundredths of a slot.
    pub read_response: u64,
    /// Length of a write response, in hundredths of a slot.
    pub write_response: u64,
    /// Overhead for each line in each direction (credits, acknowledgements, unused slots), in
    /// hundredths of a slot.
    pub overhead: u64,
    /// Delay of a message from one end of the link to the other, fs. The time for which the message
    /// occupies the link is not included.
    pub delay_fs: u64,
    /// Delay of an access in the controller, fs: half on the way to the DRAM, half on the way back.
    pub controller_fs: u64,
    /// Maximum number of read requests in the controller.
    pub read_credits: u32,
    /// Maximum number of write requests in the controller.
    pub write_credits: u32,
    /// Bandwidth limit of the host over all expanders, bytes/s.
    pub host_bytes: u64,
    /// Maximum number of outstanding lines of the host over all expanders.
    pub host_lines: u32,
    /// Maximum number of outstanding non-temporal stores of the host over all expanders. Each
    /// non-temporal store also counts as one of the outstanding lines that `host_lines` limits.
    pub host_nontemporal: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpanderToml {
    schema: Spanned<String>,
    name: Spanned<String>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    link: Link,
    controller: ControllerOf,
    memory: Memory,
    host: Host,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    lanes: Spanned<i64>,
    rate: Sourced,
    flit: Sourced,
    read_request: Sourced,
    write_request: Sourced,
    read_response: Sourced,
    write_response: Sourced,
    overhead: Sourced,
    delay: Sourced,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerOf {
    delay: Sourced,
    read_credits: Spanned<i64>,
    write_credits: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    module: Spanned<String>,
    density: Option<Spanned<String>>,
    width: Option<Spanned<String>>,
    channels: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    bandwidth: Sourced,
    lines: Sourced,
    nontemporal_writes: Sourced,
}

impl Expander {
    /// Returns the number of sub-channels behind the controller, over all memory channels.
    pub fn parts(&self) -> u32 {
        self.channels * self.memory.sub_channels
    }
}

/// Returns the built-in expander `name`, such as `cz122`.
///
/// # Errors
/// If no built-in expander is called `name`.
pub fn by_name(name: &str) -> Result<Expander, DeviceError> {
    let named = |(file, _): &&(&str, &str)| file.strip_suffix(".toml") == Some(name);
    let Some((file, text)) = FILES.iter().find(named) else {
        let names: Vec<&str> = FILES.iter().filter_map(|(f, _)| f.strip_suffix(".toml")).collect();
        return Err(DeviceError::Choice {
            problem: format!("there is no expander \"{name}\""),
            hint: format!(
                "{}name a file, or one of {}",
                suggestion(name, &names),
                names.join(", ")
            ),
        });
    };
    in_file(file, text)
}

/// Reads an expander from `text`, the content of the file `file`.
///
/// # Errors
/// If the text is invalid.
pub fn in_file(file: &str, text: &str) -> Result<Expander, DeviceError> {
    let text = TomlText::new(file, text);
    let parsed: ExpanderToml = text.read_as(SCHEMA)?;
    text.schema(&parsed.schema, SCHEMA)?;
    let ExpanderToml { link, controller, memory, host, .. } = &parsed;
    let reader = FigureReader { text: &text, sources: &parsed.sources };
    let hundredths = |field: &str, pair: &Sourced| {
        let slots = reader.number(field, pair, "slots", 0.0..=100.0)?;
        Ok::<u64, FileError>((slots * 100.0).round() as u64)
    };
    let fs = |field: &str, pair: &Sourced| {
        Ok::<u64, FileError>((reader.number(field, pair, "ns", 0.0..=1e5)? * 1e6) as u64)
    };
    let lanes: u32 = text.whole("link.lanes", &link.lanes, 1..=16)?;
    let gigatransfers = reader.number("link.rate", &link.rate, "GT/s", 1.0..=128.0)?;
    let flit = reader.number("link.flit", &link.flit, "B", 1.0..=1024.0)?;
    // `slot` is the number of bytes of a slot on the wire. `part` is the fraction of the wire's
    // bandwidth that flits can use. With 68-byte flits, the 128b/130b encoding of PCIe 5.0 adds two
    // bits to each 128 bits; 256-byte flits have no such encoding.
    let (slot, part) = match flit {
        68.0 => (17.0, 128.0 / 130.0),
        256.0 => (256.0 / 15.0, 1.0),
        _ => {
            let problem = format!("there are no flits of {flit} bytes");
            let hint = "write 68 B or 256 B";
            return Err(text.error("link.flit", &link.flit, problem, hint).into());
        }
    };
    let bytes_per_ns = gigatransfers * f64::from(lanes) / 8.0 * part;
    let lines = |field: &str, pair: &Sourced| reader.whole(field, pair, "lines", 1..=65_536);
    let module = NamedModule {
        table: "memory.",
        module: &memory.module,
        density: memory.density.as_ref(),
        width: memory.width.as_ref(),
    };
    let gbps = reader.number("host.bandwidth", &host.bandwidth, "GB/s", 0.1..=1e5)?;
    Ok(Expander {
        name: text.said("name", &parsed.name)?,
        memory: module.device(&text)?,
        channels: text.whole("memory.channels", &memory.channels, 1..=8)?,
        slot_fs: (slot / bytes_per_ns * 1e6) as u64,
        read_request: hundredths("link.read_request", &link.read_request)?,
        write_request: hundredths("link.write_request", &link.write_request)?,
        read_response: hundredths("link.read_response", &link.read_response)?,
        write_response: hundredths("link.write_response", &link.write_response)?,
        overhead: hundredths("link.overhead", &link.overhead)?,
        delay_fs: fs("link.delay", &link.delay)?,
        controller_fs: fs("controller.delay", &controller.delay)?,
        read_credits: text.whole("controller.read_credits", &controller.read_credits, 1..=4096)?,
        write_credits: text.whole(
            "controller.write_credits",
            &controller.write_credits,
            1..=4096,
        )?,
        host_bytes: (gbps * 1e9) as u64,
        host_lines: lines("host.lines", &host.lines)?,
        host_nontemporal: lines("host.nontemporal_writes", &host.nontemporal_writes)?,
    })
}
