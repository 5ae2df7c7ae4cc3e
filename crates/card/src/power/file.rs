//! Reads the sections `[save]`, `[capacitor]` and `[power]` of a card's file.

use super::spec::{EnergySpec, PowerError, PowerSpec, SaveDraw, SaveOrder, SaveSpec};
use crate::{capacitor::CapacitorSpec, nand::NandSpec};
use interleaf_model::format::FileError;
use interleaf_sim::{
    dimm::device::Device,
    figures::{FigureReader, Sourced},
};
use serde::Deserialize;
use toml::Spanned;

/// Section `[save]`: NAND, and the power of each component during a save.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveToml {
    order: Spanned<String>,
    channels: Sourced,
    dies: Sourced,
    planes: Sourced,
    blocks: Sourced,
    pages: Sourced,
    page: Sourced,
    program: Sourced,
    read: Sourced,
    erase: Sourced,
    rate: Sourced,
    endurance: Sourced,
    errors: ErrorsToml,
    power: DrawToml,
}

/// Section `[save.errors]`: the probabilities of NAND errors, and the ECC.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorsToml {
    factory_bad: Sourced,
    program: Sourced,
    erase: Sourced,
    bit: Sourced,
    corrected: Sourced,
    codeword: Sourced,
}

/// Section `[save.power]`: the power of each component during a save, and some of its times.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawToml {
    controller: Sourced,
    memory_active: Sourced,
    memory_self_refresh: Sourced,
    self_refresh_exit: Sourced,
    switch: Sourced,
    working: Sourced,
    die_program: Sourced,
    die_read: Sourced,
    die_idle: Sourced,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapacitorToml {
    capacitance: Sourced,
    esr: Sourced,
    charged: Sourced,
    cut_off: Sourced,
    efficiency: Sourced,
    life: Sourced,
    life_temperature: Sourced,
    temperature: Sourced,
    age: Sourced,
    leakage: Sourced,
}

/// Section `[power]`: power of link and controller in normal work, and the hold-up of STT-MRAM.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PowerToml {
    link: Sourced,
    link_bit: Sourced,
    controller: Sourced,
    core: Sourced,
    data_bit: Sourced,
    hold_up: Option<Sourced>,
}

/// The sections of one card's file that concern power.
pub(crate) struct PowerSections<'a> {
    pub(crate) save: Option<&'a SaveToml>,
    pub(crate) capacitor: Option<&'a CapacitorToml>,
    pub(crate) power: &'a PowerToml,
}

/// The memory of the card whose file is read.
pub(crate) struct PoweredMemory<'a> {
    pub(crate) device: &'a Device,
    /// True if the card saves the memory at a power failure; false if the memory keeps the data of
    /// precharged rows without power.
    pub(crate) is_saved: bool,
    pub(crate) capacity: u64,
    /// Bytes that an access transfers from or to one row.
    pub(crate) segment_bytes: u32,
}

const FS_PER_US: f64 = 1e9;

impl PowerSections<'_> {
    /// Reads the sections, and checks the card ([`PowerSpec::check`]).
    pub(crate) fn read(
        &self,
        reader: &FigureReader<'_>,
        memory: &PoweredMemory<'_>,
    ) -> Result<(PowerSpec, EnergySpec), FileError> {
        let energy = energy(reader, self.power)?;
        let missing = |section: &str| {
            let problem = format!("a card with memory.durable = \"save\" needs [{section}]");
            reader.text.file_error(section, &problem, "copy it from the card flashtec-dram")
        };
        let power = if memory.is_saved {
            let save = self.save.ok_or_else(|| missing("save"))?;
            let capacitor = self.capacitor.ok_or_else(|| missing("capacitor"))?;
            if let Some(hold_up) = &self.power.hold_up {
                let problem = "a card that is saved has its energy from the capacitor";
                let hint = "remove the line";
                return Err(reader.text.error("power.hold_up", hold_up, problem, hint));
            }
            PowerSpec::Save(Box::new(SaveSpec {
                nand: nand(reader, save)?,
                capacitor: read_capacitor(reader, capacitor)?,
                draw: draw(reader, &save.power, memory.device)?,
                order: order(reader, &save.order)?,
            }))
        } else {
            if self.save.is_some() || self.capacitor.is_some() {
                let section = if self.save.is_some() { "save" } else { "capacitor" };
                let problem = "a card with memory.durable = \"precharge\" saves nothing";
                return Err(reader.text.file_error(section, problem, "remove the section"));
            }
            let Some(hold_up) = &self.power.hold_up else {
                let problem = "a card with memory.durable = \"precharge\" needs power.hold_up";
                let hint = "write the time for which the controller works after a power failure";
                return Err(reader.text.file_error("power", problem, hint));
            };
            let hold_up = reader.time_fs("power.hold_up", hold_up, 1e9)?;
            PowerSpec::Precharge { hold_up, row_fs: row_fs(memory.device, memory.segment_bytes) }
        };
        power.check(memory.capacity).map_err(|why| self.at_field(reader, &why))?;
        Ok((power, energy))
    }

    /// Converts `why` to an error of the card's file, with the line of the field that `why` names.
    fn at_field(&self, reader: &FigureReader<'_>, why: &PowerError) -> FileError {
        let pair = match why.field.as_str() {
            "save.blocks" => self.save.map(|save| &save.blocks),
            "save.page" => self.save.map(|save| &save.page),
            "capacitor.age" => self.capacitor.map(|capacitor| &capacitor.age),
            "capacitor.capacitance" => self.capacitor.map(|capacitor| &capacitor.capacitance),
            "power.hold_up" => self.power.hold_up.as_ref(),
            _ => None,
        };
        match pair {
            Some(pair) => reader.text.error(&why.field, pair, &why.problem, &why.hint),
            None => reader.text.file_error(&why.field, &why.problem, &why.hint),
        }
    }
}

/// Returns the time from the first data written to a row to the end of its precharge, fs.
fn row_fs(device: &Device, segment_bytes: u32) -> u64 {
    let t = &device.timing;
    let bursts = segment_bytes.div_ceil(device.burst_bytes());
    let clocks = u64::from(bursts * t.burst.max(t.t_ccd_l) + t.t_wr + t.t_rp);
    (device.ns(clocks) * 1e6) as u64
}

fn order(reader: &FigureReader<'_>, order: &Spanned<String>) -> Result<SaveOrder, FileError> {
    match order.get_ref().as_str() {
        "address" => Ok(SaveOrder::Address),
        "dirty first" => Ok(SaveOrder::DirtyFirst),
        other => {
            let problem = format!("\"{other}\" is not an order of pages");
            let hint = "write \"address\" or \"dirty first\"";
            Err(reader.text.error("save.order", order, problem, hint))
        }
    }
}

fn nand(reader: &FigureReader<'_>, save: &SaveToml) -> Result<NandSpec, FileError> {
    let whole = |field: &str, pair: &Sourced, unit: &str, most: u32| {
        reader.whole(&format!("save.{field}"), pair, unit, 1..=most)
    };
    let time = |field: &str, pair: &Sourced| {
        let us = reader.number(&format!("save.{field}"), pair, "us", 0.1..=1e6)?;
        Ok::<u64, FileError>((us * FS_PER_US).round() as u64)
    };
    let part = |field: &str, pair: &Sourced| {
        reader.number(&format!("save.errors.{field}"), pair, "", 0.0..=1.0)
    };
    let watts = |field: &str, pair: &Sourced| {
        let mw = reader.number(&format!("save.power.{field}"), pair, "mW", 0.0..=1e5)?;
        Ok::<f64, FileError>(mw * 1e-3)
    };
    let (errors, power) = (&save.errors, &save.power);
    let page_bytes = whole("page", &save.page, "B", 1 << 20)?;
    if page_bytes < 512 || !page_bytes.is_power_of_two() {
        let problem = format!("there are no pages of {page_bytes} bytes");
        let hint = "write 512 B, 1024 B, 2048 B, ...";
        return Err(reader.text.error("save.page", &save.page, problem, hint));
    }
    Ok(NandSpec {
        channels: whole("channels", &save.channels, "channels", 64)?,
        dies: whole("dies", &save.dies, "dies", 64)?,
        planes: whole("planes", &save.planes, "planes", 8)?,
        blocks: whole("blocks", &save.blocks, "blocks", 1 << 20)?,
        pages: whole("pages", &save.pages, "pages", 1 << 16)?,
        page_bytes,
        program_fs: time("program", &save.program)?,
        read_fs: time("read", &save.read)?,
        erase_fs: time("erase", &save.erase)?,
        channel_bytes_per_s: 1e6 * reader.number("save.rate", &save.rate, "MB/s", 1.0..=1e5)?,
        factory_bad: part("factory_bad", &errors.factory_bad)?,
        program_failure: part("program", &errors.program)?,
        erase_failure: part("erase", &errors.erase)?,
        bit_error: part("bit", &errors.bit)?,
        ecc_bits: reader.whole("save.errors.corrected", &errors.corrected, "bits", 0..=1024)?,
        codeword_bytes: reader.whole("save.errors.codeword", &errors.codeword, "B", 1..=65_536)?,
        endurance: whole("endurance", &save.endurance, "cycles", 1 << 30)?,
        program_w: watts("die_program", &power.die_program)?,
        read_w: watts("die_read", &power.die_read)?,
        idle_w: watts("die_idle", &power.die_idle)?,
    })
}

fn draw(
    reader: &FigureReader<'_>,
    draw: &DrawToml,
    device: &Device,
) -> Result<SaveDraw, FileError> {
    let number = |field: &str, pair: &Sourced, unit: &str, most: f64| {
        reader.number(&format!("save.power.{field}"), pair, unit, 0.0..=most)
    };
    let watts = |field: &str, pair: &Sourced| number(field, pair, "W", 1000.0);
    Ok(SaveDraw {
        controller_w: watts("controller", &draw.controller)?,
        memory_active_w: watts("memory_active", &draw.memory_active)?,
        memory_self_refresh_w: watts("memory_self_refresh", &draw.memory_self_refresh)?,
        memory_bytes_per_s: device.peak_gbps() * 1e9,
        self_refresh_s: 1e-6 * number("self_refresh_exit", &draw.self_refresh_exit, "us", 1000.0)?,
        switch_s: 1e-6 * number("switch", &draw.switch, "us", 1e6)?,
        working_w: watts("working", &draw.working)?,
    })
}

fn read_capacitor(
    reader: &FigureReader<'_>,
    capacitor: &CapacitorToml,
) -> Result<CapacitorSpec, FileError> {
    let number = |field: &str, pair: &Sourced, unit: &str, least: f64, most: f64| {
        reader.number(&format!("capacitor.{field}"), pair, unit, least..=most)
    };
    let charged_v = number("charged", &capacitor.charged, "V", 0.1, 1000.0)?;
    let cut_off_v = number("cut_off", &capacitor.cut_off, "V", 0.1, 1000.0)?;
    if cut_off_v >= charged_v {
        let problem = format!("{cut_off_v} V are not below the {charged_v} V of the charge");
        let hint = "write a lower voltage";
        return Err(reader.text.error("capacitor.cut_off", &capacitor.cut_off, problem, hint));
    }
    Ok(CapacitorSpec {
        farads: number("capacitance", &capacitor.capacitance, "F", 1e-9, 1e5)?,
        esr_ohms: 1e-3 * number("esr", &capacitor.esr, "mOhm", 0.0, 1e6)?,
        charged_v,
        cut_off_v,
        efficiency: 1e-2 * number("efficiency", &capacitor.efficiency, "%", 1.0, 100.0)?,
        life_years: number("life", &capacitor.life, "years", 0.01, 1000.0)?,
        life_celsius: number("life_temperature", &capacitor.life_temperature, "C", -55.0, 150.0)?,
        celsius: number("temperature", &capacitor.temperature, "C", -55.0, 150.0)?,
        years: number("age", &capacitor.age, "years", 0.0, 100.0)?,
        leakage_a: 1e-3 * number("leakage", &capacitor.leakage, "mA", 0.0, 1000.0)?,
    })
}

fn energy(reader: &FigureReader<'_>, power: &PowerToml) -> Result<EnergySpec, FileError> {
    let number = |field: &str, pair: &Sourced, unit: &str| {
        reader.number(&format!("power.{field}"), pair, unit, 0.0..=1000.0)
    };
    Ok(EnergySpec {
        link_w: number("link", &power.link, "W")?,
        link_pj_per_bit: number("link_bit", &power.link_bit, "pJ")?,
        controller_w: number("controller", &power.controller, "W")?,
        core_w: number("core", &power.core, "W")?,
        data_pj_per_bit: number("data_bit", &power.data_bit, "pJ")?,
    })
}
