//! Reads a card from a card file (TOML, schema `interleaf.card/1`).

use super::{
    BarSpec, Card, ControllerSpec, Durable, HostSpec, LinkSpec, MemorySpec, NvmeSpec, SEGMENT_BYTES,
};
use crate::power::{CapacitorToml, PowerSections, PowerToml, PoweredMemory, SaveToml};
use interleaf_model::format::{FileError, names::suggestion, toml_text::TomlText};
use interleaf_sim::{
    dimm::{
        device::{DeviceError, NamedModule},
        row_channel::RowChannel,
    },
    figures::{FigureReader, Sourced},
};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

const SCHEMA: &str = "interleaf.card/1";

/// The file name and the text of the file of each built-in card.
const FILES: [(&str, &str); 3] = [
    ("flashtec-dram.toml", include_str!("../../../../devices/cards/flashtec-dram.toml")),
    ("all-mram.toml", include_str!("../../../../devices/cards/all-mram.toml")),
    ("all-mram-1gb.toml", include_str!("../../../../devices/cards/all-mram-1gb.toml")),
];

/// Maximum time that a card's file may state for the link, the controller or the host, ns: 1 s, far
/// above any real value.
const NS_MAX: f64 = 1e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardToml {
    schema: Spanned<String>,
    name: Spanned<String>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    link: LinkToml,
    nvme: NvmeToml,
    controller: ControllerToml,
    memory: MemoryToml,
    bar: Option<BarToml>,
    host: HostToml,
    save: Option<SaveToml>,
    capacitor: Option<CapacitorToml>,
    power: PowerToml,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkToml {
    generation: Sourced,
    lanes: Sourced,
    max_payload: Sourced,
    max_read_request: Sourced,
    read_completion_boundary: Sourced,
    delay: Sourced,
    acknowledgements: Sourced,
    credit_updates: Sourced,
    read_tags: Sourced,
    posted_headers: Sourced,
    posted_data: Sourced,
    non_posted_headers: Sourced,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NvmeToml {
    version: Sourced,
    queues: Sourced,
    entries: Sourced,
    vectors: Sourced,
    arbitration_burst: Sourced,
    coalescing_threshold: Sourced,
    coalescing_time: Sourced,
    atomic_write: Sourced,
    max_transfer: Sourced,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerToml {
    cores: Sourced,
    command: Sourced,
    completion: Sourced,
    commands: Sourced,
    fetches: Sourced,
    dma_engines: Sourced,
    buffers: Sourced,
    ecc: Sourced,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryToml {
    module: Spanned<String>,
    density: Option<Spanned<String>>,
    width: Option<Spanned<String>>,
    channels: Sourced,
    ranks: Sourced,
    capacity: Sourced,
    durable: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BarToml {
    size: Sourced,
    page: Sourced,
    posted_headers: Sourced,
    posted_data: Sourced,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostToml {
    submit: Sourced,
    completion: Sourced,
    interrupt: Sourced,
    memory_read: Sourced,
    memory_write: Sourced,
}

/// Returns the names of the built-in cards.
pub fn names() -> Vec<&'static str> {
    FILES.iter().filter_map(|(file, _)| file.strip_suffix(".toml")).collect()
}

/// Returns the file name and the text of the built-in card `name`; `None` for any other name.
pub fn text_of(name: &str) -> Option<(&'static str, &'static str)> {
    FILES.into_iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name))
}

/// Returns the built-in card with the name `name`.
///
/// # Errors
/// If no built-in card has the name.
pub fn by_name(name: &str) -> Result<Card, DeviceError> {
    let Some((file, text)) = text_of(name) else {
        return Err(DeviceError::Choice {
            problem: format!("there is no card \"{name}\""),
            hint: format!(
                "{}name a file, or one of {}",
                suggestion(name, &names()),
                names().join(", ")
            ),
        });
    };
    in_file(file, text)
}

/// Reads a card from `text`, the content of the file `file`.
///
/// # Errors
/// If the text is invalid, or describes a card that cannot work.
pub fn in_file(file: &str, text: &str) -> Result<Card, DeviceError> {
    let text = TomlText::new(file, text);
    let parsed: CardToml = text.read_as(SCHEMA)?;
    text.schema(&parsed.schema, SCHEMA)?;
    let reader = Reader(FigureReader { text: &text, sources: &parsed.sources });
    let name = text.said("name", &parsed.name)?;
    let link = reader.link(&parsed.link)?;
    let nvme = reader.nvme(&parsed.nvme)?;
    let controller = reader.controller(&parsed.controller, &parsed.link)?;
    // The buffers must hold one atomic write unit for each DMA engine, because an engine keeps the
    // chunks of a unit in the buffers until the last chunk of the unit has arrived.
    let least = u64::from(controller.dma_engines) * u64::from(nvme.atomic_write);
    if u64::from(controller.buffer_bytes) < least {
        let problem = format!(
            "{} bytes do not hold an atomic write of each DMA engine, {least} bytes",
            controller.buffer_bytes
        );
        let hint = "write larger buffers, fewer DMA engines or a smaller nvme.atomic_write";
        let pair = &parsed.controller.buffers;
        return Err(text.error("controller.buffers", pair, problem, hint).into());
    }
    let memory = reader.memory(&parsed.memory)?;
    let bar = parsed.bar.as_ref().map(|bar| reader.bar(bar, &memory)).transpose()?;
    let host = reader.host(&parsed.host)?;
    let CardToml { save, capacitor, power, .. } = &parsed;
    let sections = PowerSections { save: save.as_ref(), capacitor: capacitor.as_ref(), power };
    let powered = PoweredMemory {
        device: &memory.device,
        is_saved: memory.durable == Durable::Save,
        capacity: memory.capacity,
        segment_bytes: SEGMENT_BYTES,
    };
    let (power, energy) = sections.read(&reader.0, &powered)?;
    Ok(Card { name, link, nvme, controller, memory, bar, host, power, energy })
}

struct Reader<'a>(FigureReader<'a>);

impl Reader<'_> {
    fn link(&self, link: &LinkToml) -> Result<LinkSpec, FileError> {
        let Self(reader) = self;
        let power_of_2 = |field: &str, pair: &Sourced, range: core::ops::RangeInclusive<u32>| {
            let bytes = reader.whole(field, pair, "B", range)?;
            if bytes.is_power_of_two() {
                return Ok(bytes);
            }
            let problem = format!("{bytes} is not a power of two");
            Err(reader.text.error(field, pair, problem, "write 128 B, 256 B, 512 B, ..."))
        };
        let max_payload = power_of_2("link.max_payload", &link.max_payload, 128..=4096)?;
        let max_read_request =
            power_of_2("link.max_read_request", &link.max_read_request, 128..=4096)?;
        let boundary = &link.read_completion_boundary;
        let lanes = reader.whole("link.lanes", &link.lanes, "", 1..=16)?;
        if !lanes.is_power_of_two() {
            let problem = format!("there are no links of {lanes} lanes");
            let hint = "write 1, 2, 4, 8 or 16";
            return Err(reader.text.error("link.lanes", &link.lanes, problem, hint));
        }
        let ratio = |field: &str, pair: &Sourced| reader.number(field, pair, "DLLPs", 0.0..=4.0);
        let credits = |field: &str, pair: &Sourced, least: u32| {
            let credits = reader.whole(field, pair, "credits", 1..=2048)?;
            if credits >= least {
                return Ok(credits);
            }
            let problem = format!("{credits} credits are fewer than a transfer needs, {least}");
            Err(reader.text.error(field, pair, problem, "write a larger number of credits"))
        };
        let chunk = max_read_request.min(SEGMENT_BYTES);
        Ok(LinkSpec {
            generation: reader.whole("link.generation", &link.generation, "", 1..=5)?,
            lanes,
            max_payload,
            max_read_request,
            read_completion_boundary: power_of_2(
                "link.read_completion_boundary",
                boundary,
                64..=128,
            )?,
            delay_fs: reader.time_fs("link.delay", &link.delay, NS_MAX)?,
            acknowledgements: ratio("link.acknowledgements", &link.acknowledgements)?,
            credit_updates: ratio("link.credit_updates", &link.credit_updates)?,
            read_tags: reader.whole("link.read_tags", &link.read_tags, "tags", 1..=1024)?,
            posted_headers: credits(
                "link.posted_headers",
                &link.posted_headers,
                chunk.div_ceil(max_payload),
            )?,
            posted_data: credits("link.posted_data", &link.posted_data, chunk.div_ceil(16))?,
            non_posted_headers: credits("link.non_posted_headers", &link.non_posted_headers, 1)?,
        })
    }

    fn nvme(&self, nvme: &NvmeToml) -> Result<NvmeSpec, FileError> {
        let Self(reader) = self;
        let queues = reader.whole("nvme.queues", &nvme.queues, "queues", 1..=65_535)?;
        let vectors = reader.whole("nvme.vectors", &nvme.vectors, "vectors", 1..=2048)?;
        if vectors < queues + 1 {
            let problem = format!("{queues} I/O queues and the admin queue need more vectors");
            let hint = format!("write at least {} vectors, or fewer queues", queues + 1);
            return Err(reader.text.error("nvme.vectors", &nvme.vectors, problem, hint));
        }
        let blocks = |field: &str, pair: &Sourced, most: u32| {
            let bytes = reader.whole(field, pair, "B", 512..=most)?;
            if bytes % 512 == 0 {
                return Ok(bytes);
            }
            let problem = format!("{bytes} bytes are no whole number of blocks");
            Err(reader.text.error(field, pair, problem, "write a multiple of 512 B"))
        };
        let max_transfer = blocks("nvme.max_transfer", &nvme.max_transfer, 1 << 30)?;
        let atomic_write = blocks("nvme.atomic_write", &nvme.atomic_write, max_transfer)?;
        if !atomic_write.is_power_of_two() {
            let problem = format!("{atomic_write} is not a power of two");
            let hint = "write 512 B, 1024 B, 2048 B, 4096 B, ...";
            return Err(reader.text.error("nvme.atomic_write", &nvme.atomic_write, problem, hint));
        }
        let threshold = &nvme.coalescing_threshold;
        let versions = [("1.1", (1, 1)), ("1.2", (1, 2)), ("1.3", (1, 3)), ("1.4", (1, 4))];
        let [version, _] = nvme.version.get_ref();
        reader.number("nvme.version", &nvme.version, "", 1.0..=1.4)?;
        let Some((_, version)) = versions.into_iter().find(|(text, _)| text == version) else {
            let problem = format!("there is no NVMe {version}");
            let hint = "write 1.1, 1.2, 1.3 or 1.4";
            return Err(reader.text.error("nvme.version", &nvme.version, problem, hint));
        };
        Ok(NvmeSpec {
            version,
            queues,
            entries: reader.whole("nvme.entries", &nvme.entries, "entries", 2..=65_536)?,
            vectors,
            arbitration_burst: reader.whole(
                "nvme.arbitration_burst",
                &nvme.arbitration_burst,
                "commands",
                1..=64,
            )?,
            coalescing_threshold: reader.whole(
                "nvme.coalescing_threshold",
                threshold,
                "completions",
                1..=256,
            )?,
            coalescing_time_fs: reader.time_fs(
                "nvme.coalescing_time",
                &nvme.coalescing_time,
                25_500_000.0,
            )?,
            atomic_write,
            max_transfer,
        })
    }

    fn controller(
        &self,
        controller: &ControllerToml,
        link: &LinkToml,
    ) -> Result<ControllerSpec, FileError> {
        let Self(reader) = self;
        let whole = |name: &str, pair: &Sourced, unit: &str, most: u32| {
            reader.whole(&format!("controller.{name}"), pair, unit, 1..=most)
        };
        let time = |name: &str, pair: &Sourced| {
            reader.time_fs(&format!("controller.{name}"), pair, NS_MAX)
        };
        let buffer_bytes = whole("buffers", &controller.buffers, "B", 1 << 30)?;
        let chunk = self.link(link)?.max_read_request.min(SEGMENT_BYTES);
        if buffer_bytes < chunk {
            let problem = format!("{buffer_bytes} bytes hold no transfer of {chunk} bytes");
            let hint = "write a larger size";
            return Err(reader.text.error(
                "controller.buffers",
                &controller.buffers,
                problem,
                hint,
            ));
        }
        Ok(ControllerSpec {
            cores: whole("cores", &controller.cores, "cores", 256)?,
            command_fs: time("command", &controller.command)?,
            completion_fs: time("completion", &controller.completion)?,
            commands: whole("commands", &controller.commands, "commands", 65_536)?,
            fetches: whole("fetches", &controller.fetches, "fetches", 1024)?,
            dma_engines: whole("dma_engines", &controller.dma_engines, "engines", 65_536)?,
            buffer_bytes,
            ecc_fs: time("ecc", &controller.ecc)?,
        })
    }

    fn memory(&self, memory: &MemoryToml) -> Result<MemorySpec, FileError> {
        let Self(reader) = self;
        let module = |problem: String, hint: &str| {
            reader.text.error("memory.module", &memory.module, problem, hint)
        };
        let mut device = NamedModule {
            table: "memory.",
            module: &memory.module,
            density: memory.density.as_ref(),
            width: memory.width.as_ref(),
        }
        .device(reader.text)?;
        if !RowChannel::supports(&device) || device.sub_channels != 1 {
            let problem = format!("\"{}\" has several sub-channels", device.name);
            return Err(module(problem, "name a module of DDR3, DDR4 or STT-MRAM"));
        }
        if u64::from(device.columns) * u64::from(device.burst_bytes()) < SEGMENT_BYTES.into() {
            let problem = format!("a row of \"{}\" is below {SEGMENT_BYTES} bytes", device.name);
            return Err(module(problem, "name a module with longer rows"));
        }
        let channels = reader.whole("memory.channels", &memory.channels, "channels", 1..=16)?;
        device.ranks = reader.whole("memory.ranks", &memory.ranks, "ranks", 1..=4)?;
        if !device.ranks.is_power_of_two() {
            let problem = format!("{} ranks cannot be addressed evenly", device.ranks);
            return Err(reader.text.error(
                "memory.ranks",
                &memory.ranks,
                problem,
                "write 1, 2 or 4",
            ));
        }
        let installed =
            (device.bursts() * u64::from(device.burst_bytes()) * u64::from(channels)) >> 20;
        let mib = reader.whole("memory.capacity", &memory.capacity, "MiB", 1..=1 << 24)?;
        if u64::from(mib) > installed {
            let problem = format!("{mib} MiB are more than the memory has, {installed} MiB");
            let hint = "write a smaller capacity, or more ranks, channels or density";
            return Err(reader.text.error("memory.capacity", &memory.capacity, problem, hint));
        }
        let durable = match memory.durable.get_ref().as_str() {
            "save" => Durable::Save,
            "precharge" if device.timing.t_refi == 0 => Durable::Precharge,
            "precharge" => {
                let problem = format!("\"{}\" needs refresh and loses its data", device.name);
                let hint = "write \"save\", or name a module of STT-MRAM";
                return Err(reader.text.error("memory.durable", &memory.durable, problem, hint));
            }
            other => {
                let problem = format!("\"{other}\" is not a way of being durable");
                let hint = "write \"save\" or \"precharge\"";
                return Err(reader.text.error("memory.durable", &memory.durable, problem, hint));
            }
        };
        Ok(MemorySpec { device, channels, capacity: u64::from(mib) << 20, durable })
    }

    fn bar(&self, bar: &BarToml, memory: &MemorySpec) -> Result<BarSpec, FileError> {
        let Self(reader) = self;
        let mib = reader.whole("bar.size", &bar.size, "MiB", 1..=1 << 24)?;
        let bytes = u64::from(mib) << 20;
        if !mib.is_power_of_two() || bytes > memory.capacity {
            let problem = format!("no BAR of {mib} MiB maps {} MiB", memory.capacity >> 20);
            let hint = "write a power of two, up to the capacity";
            return Err(reader.text.error("bar.size", &bar.size, problem, hint));
        }
        let page = reader.whole("bar.page", &bar.page, "B", 4096..=1 << 30)?;
        if !page.is_power_of_two() || u64::from(page) > bytes {
            let problem = format!("a page of {page} bytes does not fit a BAR of {mib} MiB");
            let hint = "write a power of two, up to the size of the BAR";
            return Err(reader.text.error("bar.page", &bar.page, problem, hint));
        }
        let credits = |name: &str, pair: &Sourced| {
            reader.whole(&format!("bar.{name}"), pair, "credits", 8..=2048)
        };
        let posted_data = credits("posted_data", &bar.posted_data)?;
        if posted_data * 16 < SEGMENT_BYTES {
            let problem = format!("{posted_data} credits hold no write of {SEGMENT_BYTES} bytes");
            let hint = format!("write at least {}", SEGMENT_BYTES / 16);
            return Err(reader.text.error("bar.posted_data", &bar.posted_data, problem, hint));
        }
        let posted_headers = credits("posted_headers", &bar.posted_headers)?;
        Ok(BarSpec { bytes, page, posted_headers, posted_data })
    }

    fn host(&self, host: &HostToml) -> Result<HostSpec, FileError> {
        let time =
            |name: &str, pair: &Sourced| self.0.time_fs(&format!("host.{name}"), pair, NS_MAX);
        Ok(HostSpec {
            submit_fs: time("submit", &host.submit)?,
            completion_fs: time("completion", &host.completion)?,
            interrupt_fs: time("interrupt", &host.interrupt)?,
            memory_read_fs: time("memory_read", &host.memory_read)?,
            memory_write_fs: time("memory_write", &host.memory_write)?,
        })
    }
}
