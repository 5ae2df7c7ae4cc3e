//! Builds a device from the file of its family.

use super::{
    BANKS_MAX, Device, DeviceError, RANKS_MAX, Timing, TimingOrigins,
    chain::{Chain, Read},
    families::{FILES, SCHEMA, names},
    file::{Density, DeviceToml, Module, Speed, WidthTable},
    rule::{RULE_HINT, Rule, quantity, rule},
};
use crate::figures::{Sourced, has_reason};
use core::{cell::RefCell, ops::RangeInclusive};
use interleaf_model::format::{FileError, names::suggestion, toml_text::TomlText};
use toml::Spanned;

/// The options with which a module is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Density of the devices, such as `24Gb`. Default: the first density of the file, `16Gb` for
    /// DDR5.
    pub density: Option<String>,
    /// Width of the devices, such as `x8`. Default: the first width of the file, `x4` for DDR5.
    pub width: Option<String>,
}

/// A built-in module that an input file names, with its options.
pub struct NamedModule<'a> {
    /// The name of the table that has the fields `module`, `density` and `width` in the input file,
    /// followed by a dot, such as `memory.`; empty if the fields are outside a table.
    pub table: &'a str,
    /// The name of the built-in module.
    pub module: &'a Spanned<String>,
    /// The density of the devices; `None` for the default of [`Options::density`].
    pub density: Option<&'a Spanned<String>>,
    /// The width of the devices; `None` for the default of [`Options::width`].
    pub width: Option<&'a Spanned<String>>,
}

impl NamedModule<'_> {
    /// Returns the named module. `text` is the input file that names the module.
    ///
    /// # Errors
    /// If [`by_name`] fails. The error points at the field with the wrong value.
    pub fn device(&self, text: &TomlText<'_>) -> Result<Device, FileError> {
        let own = |value: Option<&Spanned<String>>| value.map(|value| value.get_ref().clone());
        let options = Options { density: own(self.density), width: own(self.width) };
        by_name(self.module.get_ref(), &options).map_err(|why| {
            let wrong = match &why {
                DeviceError::ModuleOption { field, .. } => *field,
                _ => "module",
            };
            let (field, value) = match (wrong, self.density, self.width) {
                ("density", Some(density), _) => (wrong, density),
                ("width", _, Some(width)) => (wrong, width),
                _ => ("module", self.module),
            };
            text.error(&format!("{}{field}", self.table), value, &why, why.hint())
        })
    }
}

/// Returns the built-in module `name` with the density and width of `options`.
///
/// # Errors
/// If no built-in module is called `name`, or the module does not exist with the density and width
/// of `options`.
pub fn by_name(name: &str, options: &Options) -> Result<Device, DeviceError> {
    for (file, text) in FILES {
        let text = TomlText::new(file, text);
        let parsed: DeviceToml = text.read().map_err(with_timing_hint)?;
        if let Some(module) = parsed.module.iter().find(|module| module.name.get_ref() == name) {
            let device = device(&text, &parsed, module, options)?;
            return Ok(Device { timing_origins: TimingOrigins::default(), ..device });
        }
    }
    Err(DeviceError::Choice {
        problem: format!("there is no device \"{name}\""),
        hint: format!(
            "{}name a file, or one of {}",
            suggestion(name, &names()),
            names().join(", ")
        ),
    })
}

/// Builds a module from `text`, the content of the file `file`: the module `name`, or the only
/// module of the file. `read` reads the files that this file inherits from.
///
/// # Errors
/// If the text or an inherited file is invalid, or if the text has no module `name`. If `name` is
/// `None`: if the text does not have exactly one module.
pub fn in_file(
    file: &str,
    text: &str,
    name: Option<&str>,
    options: &Options,
    read: Read<'_>,
) -> Result<Device, DeviceError> {
    let chain = Chain::read(file, text, read)?;
    let text = TomlText::with_inherited(file, text, &chain.inherited);
    let parsed: DeviceToml = text.read_merged(chain.merged(&text)?).map_err(with_timing_hint)?;
    let found = match (name, parsed.module.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(name), modules) => modules.iter().find(|module| module.name.get_ref() == name),
    };
    let Some(module) = found else {
        let names: Vec<_> = parsed
            .module
            .iter()
            .map(|module| format!("{file}:{}", module.name.get_ref()))
            .collect();
        return Err(DeviceError::Choice {
            problem: match name {
                Some(name) => format!("{file}: it has no module \"{name}\""),
                None => format!("{file}: it has {} modules", names.len()),
            },
            hint: format!("say which is meant: {}", names.join(", ")),
        });
    };
    device(&text, &parsed, module, options)
}

/// Adds a hint to an error about a missing timing parameter: where a data sheet has the parameter.
/// Returns other errors unchanged.
fn with_timing_hint(why: FileError) -> FileError {
    let hint = match why.missing_key() {
        Some(key @ ("cl" | "t_rcd" | "t_rp")) => format!(
            "add {key} = [\"16.25 ns\", \"SOURCE\"], or in clocks (\"52 nCK\"): the speed bins of \
             the DRAM's data sheet have it, or JEDEC's standard (JESD79-5 of DDR5); DRAM of \
             servers has 13 to 17 ns at any rate"
        ),
        Some(key) if key.starts_with("t_") => format!(
            "add {key} = [\"VALUE\", \"SOURCE\"] in ns or nCK, from the timing table of the DRAM's \
             data sheet; or leave it to a built-in module: inherits = \"rdimm-6400-2r\""
        ),
        _ => return why,
    };
    FileError { hint, ..why }
}

fn device(
    text: &TomlText<'_>,
    file: &DeviceToml,
    module: &Module,
    options: &Options,
) -> Result<Device, DeviceError> {
    text.schema(&file.schema, SCHEMA)?;
    let mut tables = Tables { text, file, width: None, origins: RefCell::default() };
    let speed = tables.speed(module)?;
    let rate = tables.rate("speed.rate", &speed.rate)?;
    let default = module.density.as_ref().map(Spanned::get_ref);
    let density = tables.density(options.density.as_ref().or(default))?;
    let width_name = tables.width(options.width.as_ref())?;
    tables.width = tables.of_width(&width_name)?;
    let width: u32 = width_name.trim_start_matches('x').parse().unwrap_or(4);
    let channel = &file.channel;
    let data_bits: u32 = text.whole("channel.data_bits", &channel.data_bits, 8..=64)?;
    if !data_bits.is_multiple_of(width) {
        let problem = format!("{data_bits} bits are no whole number of {width_name} devices");
        let hint = "write a multiple of the width of each device";
        return Err(text.error("channel.data_bits", &channel.data_bits, problem, hint).into());
    }
    let geometry = tables.geometry(density)?;
    let pseudo_channels = if module.multiplexed { 2 } else { 1 };
    let ranks_max = RANKS_MAX as u32 * pseudo_channels;
    let ranks = power_of_two(text, "module.ranks", &module.ranks, 1..=ranks_max)?;
    if !ranks.is_multiple_of(pseudo_channels) {
        let problem = format!("{ranks} ranks cannot be divided among two pseudo-channels");
        return Err(text.error("module.ranks", &module.ranks, problem, "write 2 or 4").into());
    }
    let banks = power_of_two(text, "geometry.banks", &file.geometry.banks, 1..=8)?;
    let all_banks = ranks / pseudo_channels * geometry.bank_groups * banks;
    if all_banks > BANKS_MAX as u32 {
        let problem =
            format!("a channel with {all_banks} banks: at most {BANKS_MAX} are simulated");
        let hint = "write fewer ranks, or fewer banks and bank groups in [geometry]";
        return Err(text.error("module.ranks", &module.ranks, problem, hint).into());
    }
    let timing = tables.timing(speed, density, rate)?;
    // Reading a timing parameter also records the parameter's origin. The origins of the module's
    // own timing are taken here, before `tables.currents` below reads the timing of another speed
    // bin, at which the currents were measured.
    let timing_origins = tables.origins.take();
    let row_bytes = geometry.page_bytes * (data_bits / width);
    let columns = tables.columns(&geometry, row_bytes, timing.burst * 2 * data_bits / 8)?;
    Ok(Device {
        name: module.name.get_ref().clone(),
        family: text.said("family", &file.family)?,
        density: density.name.get_ref().clone(),
        width,
        sub_channels: text.whole("channel.sub_channels", &channel.sub_channels, 1..=2)?,
        data_bits,
        ecc_bits: text.whole("channel.ecc_bits", &channel.ecc_bits, 0..=16)?,
        pseudo_channels,
        ranks: ranks / pseudo_channels,
        bank_groups: geometry.bank_groups,
        banks,
        rows: geometry.rows,
        columns,
        kilotransfers: rate,
        host_clocks: u64::from(pseudo_channels),
        delay_ps: module.delay.as_ref().map_or(Ok(0), |delay| tables.ps("module.delay", delay))?,
        activate_slots: tables.at("channel.activate_slots", &channel.activate_slots, rate, 1)?,
        access_slots: tables.at("channel.access_slots", &channel.access_slots, rate, 1)?,
        refresh_postponed: text.whole(
            "channel.refresh_postponed",
            &channel.refresh_postponed,
            0..=8,
        )?,
        timing,
        timing_origins,
        currents: tables.currents(&width_name, density)?,
    })
}

/// Returns the value of `field` if it is a power of two in `range`. Other numbers are refused,
/// because each component of an address is a range of its bits.
fn power_of_two(
    text: &TomlText<'_>,
    field: &str,
    value: &Spanned<i64>,
    range: RangeInclusive<u32>,
) -> Result<u32, FileError> {
    let (low, high) = (*range.start(), *range.end());
    let number: u32 = text.whole(field, value, range)?;
    if number.is_power_of_two() {
        return Ok(number);
    }
    let problem = format!("{number} is no power of two");
    let hint = format!("write a power of two from {low} to {high}: addresses are mapped by bits");
    Err(text.error(field, value, problem, hint))
}

/// The valid lengths of a row of one device, bytes.
const PAGE_BYTES: RangeInclusive<u32> = 8..=65_536;

const WIDTHS: [&str; 5] = ["x4", "x8", "x16", "x32", "x64"];

/// The parsed file of a DRAM family, from which one module is built.
pub(super) struct Tables<'a> {
    pub(super) text: &'a TomlText<'a>,
    pub(super) file: &'a DeviceToml,
    /// The table of the file for the width of the module, if the file has one: its values replace
    /// the values of the family.
    pub(super) width: Option<&'a WidthTable>,
    /// The assumed and the inherited ones among the timing parameters that were read so far.
    origins: RefCell<TimingOrigins>,
}

struct DeviceGeometry<'a> {
    bank_groups: u32,
    page_bytes: u32,
    rows: u32,
    page: &'a Spanned<i64>,
    page_field: &'static str,
}

impl<'a> Tables<'a> {
    fn speed(&self, module: &Module) -> Result<&'a Speed, FileError> {
        let wanted = module.speed.get_ref();
        self.file.speed.iter().find(|speed| speed.rate.get_ref() == wanted).ok_or_else(|| {
            let rates: Vec<_> =
                self.file.speed.iter().map(|speed| speed.rate.get_ref().as_str()).collect();
            let problem = format!("there is no speed \"{wanted}\"");
            let hint = format!("add a [[speed]] with this rate, or {}", one_of(&rates));
            self.text.error("module.speed", &module.speed, problem, hint)
        })
    }

    fn density(&self, wanted: Option<&String>) -> Result<&'a Density, DeviceError> {
        let all = &self.file.density;
        let names: Vec<_> = all.iter().map(|density| density.name.get_ref().as_str()).collect();
        let found = match wanted {
            None => all.first(),
            Some(wanted) => all.iter().find(|density| density.name.get_ref() == wanted),
        };
        found.ok_or_else(|| self.no_choice("density", wanted, &names))
    }

    fn width(&self, wanted: Option<&String>) -> Result<String, DeviceError> {
        let all = &self.file.geometry.widths;
        if let Some(wrong) = all.get_ref().iter().find(|width| !WIDTHS.contains(&width.as_str())) {
            let problem = format!("\"{wrong}\" is not a width");
            let hint = format!("write a list of some of {}", WIDTHS.join(", "));
            return Err(self.text.error("geometry.widths", all, problem, hint).into());
        }
        let names: Vec<_> = all.get_ref().iter().map(String::as_str).collect();
        let found = match wanted {
            None => names.first(),
            Some(wanted) => names.iter().find(|name| *name == wanted),
        };
        let found = found.map(ToString::to_string);
        found.ok_or_else(|| self.no_choice("width", wanted, &names))
    }

    /// Returns the table of the file for the width `name`; `None` if the file has no table for this
    /// width. Fails if any width table of the file has a name that is not in `geometry.widths`.
    fn of_width(&self, name: &str) -> Result<Option<&'a WidthTable>, FileError> {
        let (all, widths) = (&self.file.width, self.file.geometry.widths.get_ref());
        if let Some(wrong) = all.iter().find(|it| !widths.contains(it.name.get_ref())) {
            let problem = format!("\"{}\" is not in geometry.widths", wrong.name.get_ref());
            let names: Vec<&str> = widths.iter().map(String::as_str).collect();
            return Err(self.text.error("width.name", &wrong.name, problem, one_of(&names)));
        }
        Ok(all.iter().find(|it| it.name.get_ref() == name))
    }

    fn geometry(&self, density: &Density) -> Result<DeviceGeometry<'a>, FileError> {
        let (own, text) = (&self.file.geometry, self.text);
        let groups = power_of_two(text, "geometry.bank_groups", &own.bank_groups, 1..=8)?;
        let page = power_of_two(text, "geometry.page_bytes", &own.page_bytes, PAGE_BYTES)?;
        let rows: u32 = text.whole("density.rows", &density.rows, 1..=1 << 24)?;
        let own_groups = self.width.and_then(|width| width.bank_groups.as_ref());
        let bank_groups = own_groups
            .map_or(Ok(groups), |own| power_of_two(text, "width.bank_groups", own, 1..=8))?;
        let own_page = self.width.and_then(|width| width.page_bytes.as_ref());
        let page_bytes = own_page
            .map_or(Ok(page), |own| power_of_two(text, "width.page_bytes", own, PAGE_BYTES))?;
        let (bytes, of_a_row) = (
            u64::from(rows) * u64::from(groups) * u64::from(page),
            u64::from(bank_groups) * u64::from(page_bytes),
        );
        let (page_field, page) = match own_page {
            Some(page) => ("width.page_bytes", page),
            None => ("geometry.page_bytes", &own.page_bytes),
        };
        let rows = u32::try_from(bytes / of_a_row).ok().filter(|_| bytes.is_multiple_of(of_a_row));
        let rows = rows.filter(|rows| (1..=1 << 24).contains(rows)).ok_or_else(|| {
            let problem = format!(
                "a {} device has no whole number of rows with {bank_groups} bank groups and pages \
                 of {page_bytes} bytes",
                density.name.get_ref()
            );
            text.error(page_field, page, problem, "write the bytes of a row in one device")
        })?;
        Ok(DeviceGeometry { bank_groups, page_bytes, rows, page, page_field })
    }

    /// Returns the number of bursts of `burst_bytes` bytes in a row; `row_bytes` are the bytes of a
    /// row in all devices of a rank together.
    fn columns(
        &self,
        geometry: &DeviceGeometry<'_>,
        row_bytes: u32,
        burst_bytes: u32,
    ) -> Result<u32, FileError> {
        let columns = row_bytes / burst_bytes.max(1);
        if columns == 0 {
            let problem = format!("a row is shorter than a burst of {burst_bytes} bytes");
            let hint = "write the bytes that one device has in a row";
            return Err(self.text.error(geometry.page_field, geometry.page, problem, hint));
        }
        if !columns.is_power_of_two() || !row_bytes.is_multiple_of(burst_bytes) {
            let burst = &self.file.channel.burst;
            let problem = format!(
                "{burst_bytes} bytes in a burst do not divide a row of {row_bytes} bytes into a \
                 power of two"
            );
            let hint =
                "write a power of two of clocks, such as 8 nCK: addresses are mapped by bits";
            return Err(self.text.error("channel.burst", burst, problem, hint));
        }
        Ok(columns)
    }

    /// Returns the module's value of one parameter: the value that `of` finds in the table of the
    /// module's width, or the family's value `own` if this table has none.
    fn by_width<'p>(
        &'p self,
        own: &'p Sourced,
        of: fn(&WidthTable) -> &Option<Sourced>,
    ) -> &'p Sourced {
        self.width.and_then(|width| of(width).as_ref()).unwrap_or(own)
    }

    fn no_choice(
        &self,
        field: &'static str,
        wanted: Option<&String>,
        names: &[&str],
    ) -> DeviceError {
        let family = self.file.family.get_ref();
        let wanted = wanted.map_or("", String::as_str);
        DeviceError::ModuleOption {
            field,
            problem: format!("there is no {family} with a {field} of \"{wanted}\""),
            hint: one_of(names),
        }
    }

    pub(super) fn rate(&self, field: &str, value: &Spanned<String>) -> Result<u64, FileError> {
        let hint = "write a rate such as 6400 MT/s";
        let rate = quantity(value.get_ref(), "MT/s")
            .map_err(|why| self.text.error(field, value, why, hint))?;
        if !(100_000..=100_000_000).contains(&rate) {
            let problem = format!("{} is not between 100 and 100000 MT/s", value.get_ref());
            return Err(self.text.error(field, value, problem, hint));
        }
        Ok(rate)
    }

    /// Returns the value of a pair `[value, source]`. Fails unless the source is a key of
    /// `sources`, or is "derived: " or "assumed: " with an explanation.
    pub(super) fn value<'p>(&self, field: &str, pair: &'p Sourced) -> Result<&'p str, FileError> {
        let [value, source] = pair.get_ref();
        if has_reason(source) || self.file.sources.contains_key(source) {
            return Ok(value);
        }
        let problem = format!("\"{source}\" is not a source of this file");
        let names: Vec<_> = self.file.sources.keys().map(String::as_str).collect();
        let hint = format!("{}, or say \"derived: how\" or \"assumed: why\"", one_of(&names));
        Err(self.text.error(field, pair, problem, hint))
    }

    fn rule(&self, field: &str, pair: &Sourced) -> Result<Rule, FileError> {
        let value = self.value(field, pair)?;
        self.note_origin(field, pair);
        rule(value).map_err(|why| self.text.error(field, pair, why, RULE_HINT))
    }

    /// Adds the timing parameter `field` to the origins of the module's timing, if the parameter is
    /// assumed or inherited.
    fn note_origin(&self, field: &str, pair: &Sourced) {
        let timing = field.strip_prefix("timing.").or_else(|| field.strip_prefix("speed."));
        let Some(name) = timing else { return };
        let mut origins = self.origins.borrow_mut();
        let [value, source] = pair.get_ref();
        if let Some(why) = source.strip_prefix("assumed: ") {
            origins.assumed.push(format!("{name} {value} ({why})"));
        }
        if let Some(file) = self.text.inherited_from(pair) {
            origins.inherited.entry(file.into()).or_default().push(name.into());
        }
    }

    /// Returns the time of `pair` in clocks at the data rate `rate`. Fails if the time has fewer
    /// than `least` clocks.
    fn at(&self, field: &str, pair: &Sourced, rate: u64, least: i64) -> Result<u32, FileError> {
        let clocks = self.rule(field, pair)?.at(rate);
        u32::try_from(clocks).ok().filter(|_| clocks >= least).ok_or_else(|| {
            let problem = format!("it comes to {clocks} clocks, fewer than {least}");
            self.text.error(field, pair, problem, RULE_HINT)
        })
    }

    fn ps(&self, field: &str, pair: &Sourced) -> Result<u64, FileError> {
        let value = self.value(field, pair)?;
        let hint = "write a time such as 2 ns";
        quantity(value, "ns").map_err(|why| self.text.error(field, pair, why, hint))
    }

    pub(super) fn timing(
        &self,
        speed: &Speed,
        density: &Density,
        rate: u64,
    ) -> Result<Timing, FileError> {
        let own = &self.file.timing;
        let t_rrd_s = self.by_width(&own.t_rrd_s, |width| &width.t_rrd_s);
        let t_rrd_l = self.by_width(&own.t_rrd_l, |width| &width.t_rrd_l);
        let t_faw = self.by_width(&own.t_faw, |width| &width.t_faw);
        let at = |name: &str, pair: &Sourced| self.at(&format!("timing.{name}"), pair, rate, 0);
        let some =
            |name: &str, pair: &Option<Sourced>| pair.as_ref().map_or(Ok(0), |pair| at(name, pair));
        let cl = self.at("speed.cl", &speed.cl, rate, 1)?;
        let latency = speed.write_latency.as_ref().unwrap_or(&own.write_latency);
        let cwl = i64::from(cl) + self.rule("timing.write_latency", latency)?.at(rate);
        let cwl = u32::try_from(cwl).ok().filter(|cwl| *cwl > 0).ok_or_else(|| {
            let problem = format!("a write would have its data {cwl} clocks behind it");
            self.text.error("timing.write_latency", latency, problem, RULE_HINT)
        })?;
        let ras = speed.t_ras.as_ref().unwrap_or(&own.t_ras);
        let (t_ras, t_rp) = (at("t_ras", ras)?, at("t_rp", &speed.t_rp)?);
        let timing = Timing {
            cl,
            cwl,
            burst: self.at("channel.burst", &self.file.channel.burst, rate, 1)?,
            t_rcd: at("t_rcd", &speed.t_rcd)?,
            t_rp,
            t_ras,
            t_rc: t_ras + t_rp,
            t_ccd_s: at("t_ccd_s", &own.t_ccd_s)?,
            t_ccd_l: at("t_ccd_l", &own.t_ccd_l)?,
            t_ccd_l_wr: at("t_ccd_l_wr", &own.t_ccd_l_wr)?,
            t_ccd_l_wr2: at("t_ccd_l_wr2", &own.t_ccd_l_wr2)?,
            t_rrd_s: at("t_rrd_s", t_rrd_s)?,
            t_rrd_l: at("t_rrd_l", t_rrd_l)?,
            t_faw: at("t_faw", t_faw)?,
            t_wtr_s: at("t_wtr_s", &own.t_wtr_s)?,
            t_wtr_l: at("t_wtr_l", &own.t_wtr_l)?,
            t_rtp: at("t_rtp", &own.t_rtp)?,
            t_wr: at("t_wr", &own.t_wr)?,
            t_ppd: at("t_ppd", &own.t_ppd)?,
            t_turn: at("t_turn", &own.t_turn)?,
            t_rank: at("t_rank", &own.t_rank)?,
            t_refi: some("t_refi", &own.t_refi)?,
            t_rfc: some("t_rfc", &density.t_rfc)?,
            t_refi_sb: some("t_refi_sb", &own.t_refi_sb)?,
            t_rfc_sb: some("t_rfc_sb", &density.t_rfc_sb)?,
            t_refsbrd: some("t_refsbrd", &own.t_refsbrd)?,
        };
        self.possible(&timing, ras)?;
        Ok(timing)
    }

    /// Checks that the timing parameters `t` of a module are consistent with each other. `ras` is
    /// the file's pair of value and source for `t_ras`.
    fn possible(&self, t: &Timing, ras: &Sourced) -> Result<(), FileError> {
        let own = &self.file.timing;
        let refi = own.t_refi.as_ref().unwrap_or(ras);
        let same = own.t_refi_sb.as_ref().unwrap_or(refi);
        let rules: [(bool, &str, &Sourced, String); 9] = [
            (t.t_ras >= t.t_rcd, "t_ras", ras, format!("below t_rcd, {}", t.t_rcd)),
            (t.t_ccd_s >= t.burst, "t_ccd_s", &own.t_ccd_s, format!("below burst, {}", t.burst)),
            (
                t.t_ccd_l >= t.t_ccd_s,
                "t_ccd_l",
                &own.t_ccd_l,
                format!("below t_ccd_s, {}", t.t_ccd_s),
            ),
            (
                t.t_ccd_l_wr2 >= t.t_ccd_l,
                "t_ccd_l_wr2",
                &own.t_ccd_l_wr2,
                format!("below t_ccd_l, {}", t.t_ccd_l),
            ),
            (
                t.t_ccd_l_wr >= t.t_ccd_l_wr2,
                "t_ccd_l_wr",
                &own.t_ccd_l_wr,
                format!("below t_ccd_l_wr2, {}", t.t_ccd_l_wr2),
            ),
            (
                t.t_rrd_l >= t.t_rrd_s,
                "t_rrd_l",
                self.by_width(&own.t_rrd_l, |width| &width.t_rrd_l),
                format!("below t_rrd_s, {}", t.t_rrd_s),
            ),
            (
                t.t_wtr_l >= t.t_wtr_s,
                "t_wtr_l",
                &own.t_wtr_l,
                format!("below t_wtr_s, {}", t.t_wtr_s),
            ),
            (
                t.t_refi == 0 || (t.t_rfc > 0 && t.t_refi > t.t_rfc + t.t_rc),
                "t_refi",
                refi,
                format!("too short for a refresh of {} clocks (t_rfc)", t.t_rfc),
            ),
            (
                t.t_refi_sb == 0 || (t.t_rfc_sb > 0 && t.t_refi_sb > t.t_rfc_sb + t.t_rp),
                "t_refi_sb",
                same,
                format!("too short for a refresh of {} clocks (t_rfc_sb)", t.t_rfc_sb),
            ),
        ];
        for (holds, name, pair, problem) in rules {
            if !holds {
                let problem = format!("{} is {problem}", pair.get_ref()[0]);
                let hint = "look the value up again: no DRAM can be like that";
                return Err(self.text.error(&format!("timing.{name}"), pair, problem, hint));
            }
        }
        Ok(())
    }
}

pub(super) fn one_of(names: &[&str]) -> String {
    format!("write one of {}", names.join(", "))
}
