//! The file of a family, as structs of its fields.

use serde::Deserialize;
use toml::Spanned;

/// A value with its unit, and its source.
pub(super) type Pair = Spanned<[String; 2]>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceToml {
    /// The schema and its version: `interleaf.devices/1`.
    pub(super) schema: Spanned<String>,
    /// The module that this file changes: "rdimm-6400-2r", or "FILE:MODULE", relative to this file.
    /// All keys but the schema may then be left out.
    #[serde(rename = "inherits")]
    pub(super) _inherits: Option<String>,
    /// The name of the family: "ddr5".
    pub(super) family: Spanned<String>,
    /// Sources of figures by a short name.
    #[serde(default)]
    pub(super) sources: std::collections::BTreeMap<String, String>,
    /// The channel of a module.
    pub(super) channel: Channel,
    /// Banks of a DRAM, and its widths.
    pub(super) geometry: GeometryTable,
    /// Timing parameters, each a pair of its value with a unit (ns, nCK) and its source.
    pub(super) timing: TimingTable,
    /// Widths with a geometry or timing of their own.
    #[serde(default)]
    pub(super) width: Vec<WidthTable>,
    /// Densities of a DRAM, the default first.
    pub(super) density: Vec<Density>,
    /// Speed bins.
    pub(super) speed: Vec<Speed>,
    /// Supply currents and voltages, for the energy.
    pub(super) currents: Option<CurrentsTable>,
    /// Modules made of these DRAMs.
    pub(super) module: Vec<Module>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Channel {
    /// Sub-channels of a channel.
    pub(super) sub_channels: Spanned<i64>,
    /// Data bits of a sub-channel, without those for error correction.
    pub(super) data_bits: Spanned<i64>,
    /// Bits of a sub-channel for error correction.
    pub(super) ecc_bits: Spanned<i64>,
    /// Length of a burst.
    pub(super) burst: Pair,
    pub(super) activate_slots: Pair,
    pub(super) access_slots: Pair,
    pub(super) refresh_postponed: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometryTable {
    /// Bank groups of a DRAM.
    pub(super) bank_groups: Spanned<i64>,
    /// Banks of a bank group.
    pub(super) banks: Spanned<i64>,
    /// Bytes of a row of a DRAM.
    pub(super) page_bytes: Spanned<i64>,
    /// Widths, the default first: "x4".
    pub(super) widths: Spanned<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimingTable {
    pub(super) write_latency: Pair,
    pub(super) t_ras: Pair,
    pub(super) t_ccd_s: Pair,
    pub(super) t_ccd_l: Pair,
    pub(super) t_ccd_l_wr: Pair,
    pub(super) t_ccd_l_wr2: Pair,
    pub(super) t_rrd_s: Pair,
    pub(super) t_rrd_l: Pair,
    pub(super) t_faw: Pair,
    pub(super) t_wtr_s: Pair,
    pub(super) t_wtr_l: Pair,
    pub(super) t_rtp: Pair,
    pub(super) t_wr: Pair,
    pub(super) t_ppd: Pair,
    pub(super) t_turn: Pair,
    pub(super) t_rank: Pair,
    pub(super) t_refi: Option<Pair>,
    pub(super) t_refi_sb: Option<Pair>,
    pub(super) t_refsbrd: Option<Pair>,
}

/// Values of the devices of a width, in place of those of the family. The capacity of a device is
/// that of its density at any width: the number of rows follows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WidthTable {
    /// The width: "x16".
    pub(super) name: Spanned<String>,
    /// Bank groups of a DRAM.
    pub(super) bank_groups: Option<Spanned<i64>>,
    /// Bytes of a row of a DRAM.
    pub(super) page_bytes: Option<Spanned<i64>>,
    pub(super) t_rrd_s: Option<Pair>,
    pub(super) t_rrd_l: Option<Pair>,
    pub(super) t_faw: Option<Pair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Density {
    /// The name: "16Gb".
    pub(super) name: Spanned<String>,
    /// Rows of a bank.
    pub(super) rows: Spanned<i64>,
    pub(super) t_rfc: Option<Pair>,
    pub(super) t_rfc_sb: Option<Pair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Speed {
    /// The rate of the bus: "6400 MT/s".
    pub(super) rate: Spanned<String>,
    /// CAS latency.
    pub(super) cl: Pair,
    pub(super) t_rcd: Pair,
    pub(super) t_rp: Pair,
    /// Replaces the value of the family.
    pub(super) t_ras: Option<Pair>,
    /// Replaces the value of the family.
    pub(super) write_latency: Option<Pair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentsTable {
    /// The speed of the measurement: one of the file's speeds.
    pub(super) rate: Spanned<String>,
    pub(super) vdd: Pair,
    pub(super) vpp: Option<Pair>,
    pub(super) driver: Option<Pair>,
    pub(super) termination: Option<Pair>,
    pub(super) termination_other: Option<Pair>,
    pub(super) register: Option<Pair>,
    pub(super) multiplexer: Option<Pair>,
    pub(super) multiplexer_bit: Option<Pair>,
    pub(super) width: Vec<CurrentsOfWidth>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentsOfWidth {
    pub(super) name: Spanned<String>,
    pub(super) idd0: Pair,
    pub(super) idd2n: Pair,
    pub(super) idd2p: Pair,
    pub(super) idd3n: Pair,
    pub(super) idd4r: Pair,
    pub(super) idd4w: Pair,
    pub(super) idd5b: Pair,
    pub(super) ipp0: Option<Pair>,
    pub(super) ipp2n: Option<Pair>,
    pub(super) ipp3n: Option<Pair>,
    pub(super) ipp4r: Option<Pair>,
    pub(super) ipp4w: Option<Pair>,
    pub(super) ipp5b: Option<Pair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Module {
    /// The name of the module.
    pub(super) name: Spanned<String>,
    /// The rate of its bus, one of the speeds.
    pub(super) speed: Spanned<String>,
    /// Its ranks.
    pub(super) ranks: Spanned<i64>,
    /// True if two ranks transfer together at twice the rate (MRDIMM).
    #[serde(default)]
    pub(super) multiplexed: bool,
    /// The default density, if not the file's first.
    pub(super) density: Option<Spanned<String>>,
    pub(super) delay: Option<Pair>,
}
