//! Defines the structs into which a device file is read. Each family of DRAM devices has one such
//! file.

use crate::figures::Sourced;
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceToml {
    /// The schema and its version: `interleaf.devices/1`.
    pub(super) schema: Spanned<String>,
    /// The module that this file changes: "rdimm-6400-2r", or "FILE:MODULE", relative to this file.
    /// All keys but the schema may then be left out.
    #[serde(rename = "inherits")]
    pub(super) _inherits: Option<String>,
    /// The name of the family of DRAM devices: "ddr5".
    pub(super) family: Spanned<String>,
    /// Sources of figures. The key is a short name, which the figures cite.
    #[serde(default)]
    pub(super) sources: std::collections::BTreeMap<String, String>,
    /// The channel of the modules.
    pub(super) channel: Channel,
    /// Banks and widths of a DRAM device.
    pub(super) geometry: GeometryTable,
    /// Timing parameters; each is a pair of a value with the unit ns or nCK, and the source of the
    /// value.
    pub(super) timing: TimingTable,
    /// Widths of DRAM devices that have their own geometry or timing.
    #[serde(default)]
    pub(super) width: Vec<WidthTable>,
    /// Densities of the DRAM devices, the default first.
    pub(super) density: Vec<Density>,
    /// Speed bins.
    pub(super) speed: Vec<Speed>,
    /// Supply currents and voltages of the DRAM devices, for the energy.
    pub(super) currents: Option<CurrentsTable>,
    /// Modules that are made of the DRAM devices of this file.
    pub(super) module: Vec<Module>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Channel {
    /// Number of sub-channels of a channel, 1 or 2.
    pub(super) sub_channels: Spanned<i64>,
    /// Data bits of a sub-channel, 8 to 64, without the bits for error correction.
    pub(super) data_bits: Spanned<i64>,
    /// Bits of a sub-channel for error correction.
    pub(super) ecc_bits: Spanned<i64>,
    /// Length of a burst, with its source.
    pub(super) burst: Sourced,
    pub(super) activate_slots: Sourced,
    pub(super) access_slots: Sourced,
    pub(super) refresh_postponed: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometryTable {
    /// Bank groups of a DRAM: 1, 2, 4 or 8.
    pub(super) bank_groups: Spanned<i64>,
    /// Banks of a bank group: 1, 2, 4 or 8.
    pub(super) banks: Spanned<i64>,
    /// Bytes of a row of a DRAM: a power of two from 8 to 65536.
    pub(super) page_bytes: Spanned<i64>,
    /// Widths of the DRAM devices, the default first: "x4".
    pub(super) widths: Spanned<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimingTable {
    pub(super) write_latency: Sourced,
    pub(super) t_ras: Sourced,
    pub(super) t_ccd_s: Sourced,
    pub(super) t_ccd_l: Sourced,
    pub(super) t_ccd_l_wr: Sourced,
    pub(super) t_ccd_l_wr2: Sourced,
    pub(super) t_rrd_s: Sourced,
    pub(super) t_rrd_l: Sourced,
    pub(super) t_faw: Sourced,
    pub(super) t_wtr_s: Sourced,
    pub(super) t_wtr_l: Sourced,
    pub(super) t_rtp: Sourced,
    pub(super) t_wr: Sourced,
    pub(super) t_ppd: Sourced,
    pub(super) t_turn: Sourced,
    pub(super) t_rank: Sourced,
    pub(super) t_refi: Option<Sourced>,
    pub(super) t_refi_sb: Option<Sourced>,
    pub(super) t_refsbrd: Option<Sourced>,
}

/// Values for DRAM devices of one width, in place of the family's values. At any width, a device
/// has the capacity of its density, so the number of rows follows from the other values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WidthTable {
    /// The width: "x16".
    pub(super) name: Spanned<String>,
    /// Bank groups of a DRAM: 1, 2, 4 or 8.
    pub(super) bank_groups: Option<Spanned<i64>>,
    /// Bytes of a row of a DRAM: a power of two from 8 to 65536.
    pub(super) page_bytes: Option<Spanned<i64>>,
    pub(super) t_rrd_s: Option<Sourced>,
    pub(super) t_rrd_l: Option<Sourced>,
    pub(super) t_faw: Option<Sourced>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Density {
    /// The name of the density: "16Gb".
    pub(super) name: Spanned<String>,
    /// Rows of a bank.
    pub(super) rows: Spanned<i64>,
    pub(super) t_rfc: Option<Sourced>,
    pub(super) t_rfc_sb: Option<Sourced>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Speed {
    /// The data rate of the DRAM: "6400 MT/s".
    pub(super) rate: Spanned<String>,
    /// CAS latency at `rate`, with its source.
    pub(super) cl: Sourced,
    pub(super) t_rcd: Sourced,
    pub(super) t_rp: Sourced,
    /// `t_ras` at `rate`; default: `t_ras` of the family.
    pub(super) t_ras: Option<Sourced>,
    /// `write_latency` at `rate`; default: `write_latency` of the family.
    pub(super) write_latency: Option<Sourced>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentsTable {
    /// The rate at which the currents were measured: one of the file's speeds.
    pub(super) rate: Spanned<String>,
    pub(super) vdd: Sourced,
    pub(super) vpp: Option<Sourced>,
    pub(super) driver: Option<Sourced>,
    pub(super) termination: Option<Sourced>,
    pub(super) termination_other: Option<Sourced>,
    pub(super) register: Option<Sourced>,
    pub(super) multiplexer: Option<Sourced>,
    pub(super) multiplexer_bit: Option<Sourced>,
    pub(super) width: Vec<CurrentsOfWidth>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentsOfWidth {
    pub(super) name: Spanned<String>,
    pub(super) idd0: Sourced,
    pub(super) idd2n: Sourced,
    pub(super) idd2p: Sourced,
    pub(super) idd3n: Sourced,
    pub(super) idd4r: Sourced,
    pub(super) idd4w: Sourced,
    pub(super) idd5b: Sourced,
    pub(super) ipp0: Option<Sourced>,
    pub(super) ipp2n: Option<Sourced>,
    pub(super) ipp3n: Option<Sourced>,
    pub(super) ipp4r: Option<Sourced>,
    pub(super) ipp4w: Option<Sourced>,
    pub(super) ipp5b: Option<Sourced>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Module {
    /// The name of the module.
    pub(super) name: Spanned<String>,
    /// The data rate of the module's DRAM: one of the file's speeds. The bus of a multiplexed
    /// module has twice this rate.
    pub(super) speed: Spanned<String>,
    /// Number of ranks of the module: 1, 2 or 4 for each pseudo-channel.
    pub(super) ranks: Spanned<i64>,
    /// True if two ranks transfer together at twice the rate (MRDIMM).
    #[serde(default)]
    pub(super) multiplexed: bool,
    /// The default density of the module; default: the first density of the file.
    pub(super) density: Option<Spanned<String>>,
    pub(super) delay: Option<Sourced>,
}
