//! Computes the energy of an I/O by component, and the power of a card without I/O.

use crate::power::EnergySpec;
use interleaf_sim::dimm::{
    command::{Command, Kind, Observer},
    device::{Currents, Device},
    energy::CommandCounts,
};

/// Energy that one I/O adds to the idle energy of the same span of time, J.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoEnergy {
    /// Energy of the link for data, command, completion and interrupt.
    pub link: f64,
    /// Energy of the controller: cores, DMA engine, buffers.
    pub controller: f64,
    /// Energy of the memory: activation, bursts, precharge.
    pub memory: f64,
}

impl IoEnergy {
    /// Returns the energy of link, controller and memory together, J.
    pub fn total(&self) -> f64 {
        self.link + self.controller + self.memory
    }
}

/// Computes the energy of an I/O and the power without I/O of one card.
#[derive(Clone, Debug, PartialEq)]
pub struct CardEnergy {
    spec: EnergySpec,
    /// Time that a core works on a command, including its completion, s.
    command_s: f64,
    segment_bytes: u32,
    /// Energy of the memory to read `segment_bytes` bytes of a row, beyond its standby energy, J.
    read_j: f64,
    /// Energy of the memory to write `segment_bytes` bytes of a row, beyond its standby energy, J.
    write_j: f64,
    /// Power of the memory without accesses and without refresh, W.
    standby_w: f64,
    /// Mean power that refresh adds to the standby power of the memory, W.
    refresh_w: f64,
}

/// Bytes that each TLP takes on the link in addition to its data: 16 for the header, 4 for framing
/// and sequence number, 4 for the LCRC. All TLPs are assumed to have the same overhead.
const TLP_OVERHEAD: f64 = 24.0;

/// Data bytes of a full TLP: the maximum payload size of the built-in cards.
const TLP_PAYLOAD: f64 = 256.0;

/// Bytes that an I/O takes on the link in addition to its data. They are in six TLPs: the read
/// request for the command, the command (64 B), its completion entry (16 B), and the interrupt and
/// two doorbells (4 B each). The read requests for the data of a write, and DLLPs, are neglected.
const COMMAND_BYTES: f64 = 64.0 + 16.0 + 3.0 * 4.0 + 6.0 * TLP_OVERHEAD;

/// Returns the currents of an x8 STT-MRAM device at 1.5 V (the supply of EMD3D256M, data sheet
/// revision 1.3, table 8).
///
/// The maker does not publish the currents of this device, so they are assumed. The standby current
/// is that of DDR3 (`ddr3.toml`). The current that a transfer draws in addition to IDD3N is that of
/// DDR3 times 1066 / 1600, the ratio of the transfer rates in MT/s. Switching a cell takes 5 pJ,
/// which adds 28 mA to writes of 8 bytes in 7.5 ns. Sensing a cell takes 2 pJ, which adds 4 mA to
/// the cycle (165 ns) of a row of 64 bytes.
pub const fn stt_mram_currents() -> Currents {
    Currents {
        vdd_mv: 1500,
        vpp_mv: 0,
        idd0_ua: 36_000,
        idd2n_ua: 32_000,
        idd2p_ua: 18_000,
        idd3n_ua: 38_000,
        idd4r_ua: 111_000,
        idd4w_ua: 119_000,
        idd5b_ua: 0,
        ipp0_ua: 0,
        ipp2n_ua: 0,
        ipp3n_ua: 0,
        ipp4r_ua: 0,
        ipp4w_ua: 0,
        ipp5b_ua: 0,
        t_ras_ps: 97_500,
        t_rc_ps: 165_000,
        burst_ps: 7_500,
        driver_mohm: 0,
        termination_mohm: 0,
        termination_other_mohm: 0,
        register_mw: 0,
        multiplexer_mw: 0,
        multiplexer_bit_fj: 0,
    }
}

impl CardEnergy {
    /// Computes the energies of a card with `channels` channels, each with one module `device`. If
    /// `device` has no currents, [`stt_mram_currents`] are used. `command_fs` is the time for which
    /// a core works on a command and its completion, fs. Each access of `segment_bytes` bytes
    /// activates one row.
    pub fn new(
        spec: &EnergySpec,
        device: &Device,
        channels: u32,
        command_fs: u64,
        segment_bytes: u32,
    ) -> Self {
        let currents = device.currents.unwrap_or(stt_mram_currents());
        let device = Device { currents: Some(currents), ..device.clone() };
        let standby = energy_of(&device, &[]);
        let beyond = |commands: &[Command]| (energy_of(&device, commands) - standby).max(0.0);
        let bursts = (segment_bytes / device.burst_bytes()).max(1);
        let refresh = beyond(&[command(Kind::RefreshAll, 0)]);
        let period = device.ns(device.timing.t_refi.into()) * 1e-9;
        let all_ranks = f64::from(channels * device.sub_channels);
        let refreshed = all_ranks * f64::from(device.ranks * device.pseudo_channels);
        Self {
            spec: *spec,
            command_s: command_fs as f64 * 1e-15,
            segment_bytes,
            read_j: beyond(&row(Kind::Read, Kind::ReadAuto, bursts)),
            write_j: beyond(&row(Kind::Write, Kind::WriteAuto, bursts)),
            standby_w: all_ranks * standby / seconds(&device),
            refresh_w: if period > 0.0 { refreshed * refresh / period } else { 0.0 },
        }
    }

    /// Returns the energy of a read or a write of `bytes` bytes, by component.
    pub fn of_io(&self, bytes: u32, is_write: bool) -> IoEnergy {
        let Self { spec, .. } = self;
        let data = f64::from(bytes);
        let tlps = (data / TLP_PAYLOAD).ceil();
        let wire = data + tlps * TLP_OVERHEAD + COMMAND_BYTES;
        let segments = f64::from(bytes.div_ceil(self.segment_bytes));
        let segment = if is_write { self.write_j } else { self.read_j };
        IoEnergy {
            link: wire * 8.0 * spec.link_pj_per_bit * 1e-12,
            controller: self.command_s * spec.core_w + data * 8.0 * spec.data_pj_per_bit * 1e-12,
            memory: segments * segment,
        }
    }

    /// Returns the power of link, controller and memory, without I/O and without refresh, W.
    pub fn idle_w(&self) -> f64 {
        self.spec.link_w + self.spec.controller_w + self.standby_w
    }

    /// Returns the power of the memory without accesses and without refresh, W.
    pub fn standby_w(&self) -> f64 {
        self.standby_w
    }

    /// Returns the mean power that refresh adds to the standby power of the memory, W.
    pub fn refresh_w(&self) -> f64 {
        self.refresh_w
    }
}

/// Length of the span of time for which [`energy_of`] computes an energy, in host clocks
/// (`Device::host_clocks` host clocks are one DRAM clock). The span is longer than any row cycle.
const CLOCKS: u64 = 1 << 16;

fn seconds(device: &Device) -> f64 {
    device.ns(CLOCKS) / device.host_clocks as f64 * 1e-9
}

/// Returns the energy of one sub-channel that gets `commands` in a span of `CLOCKS` clocks, J.
fn energy_of(device: &Device, commands: &[Command]) -> f64 {
    let mut counts = CommandCounts::new(device);
    commands.iter().for_each(|command| counts.command(command));
    counts.energy(CLOCKS).map_or(0.0, |energy| energy.total())
}

const fn command(kind: Kind, at: u64) -> Command {
    Command { at, kind, pseudo: 0, rank: 0, bank_group: 0, bank: 0, row: 0, column: 0 }
}

/// Returns the commands of an access to one row: an activation, then `bursts` column commands. The
/// last column command is `last`, which has auto-precharge; the others are `access`.
fn row(access: Kind, last: Kind, bursts: u32) -> Vec<Command> {
    let mut commands = vec![command(Kind::Activate, 0)];
    commands.extend((1..bursts).map(|_| command(access, 100)));
    commands.push(command(last, 100));
    commands
}
