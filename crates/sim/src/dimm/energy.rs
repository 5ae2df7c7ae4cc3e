//! Computes the energy of a run by the method of data sheets (Micron TN-40-07, TN-46-03).
//!
//! A data sheet gives the current of a device that repeats one command. The energy of one command
//! is the difference to standby, for the duration of the command in that measurement:
//!
//! | component | energy of one device |
//! | --- | --- |
//! | standby | IDD2N, plus (IDD3N - IDD2N) / (number of banks) for each open bank |
//! | activation and precharge | for tRC: IDD0 less standby, in which one bank is open for tRAS |
//! | read, write | IDD4R or IDD4W less IDD3N, for a burst |
//! | refresh | IDD5B less IDD2N, for tRFC; for a same-bank refresh the fraction tREFIsb / tREFI |
//!
//! The same holds for the currents of the word lines (IPP, at the voltage VPP). IDD3N is measured
//! with all banks open, so DDR5's IDD3N exceeds its IDD0. If IDD3N were used for one open row, the
//! energy of activations would be negative.
//!
//! Pins add to this energy. A low pin draws current from VDD through driver and termination. Data
//! pins are low half of the time, and one of the two pins of a strobe is always low. A module that
//! sends dissipates the power of the driver; a module that receives dissipates the power of the
//! termination. In both cases the module also dissipates the power of the terminations of its other
//! ranks. Between the devices and the data buffers of a module (MRDIMM), driver and terminations
//! are all on the module. The power of registers and buffers is added. All devices count, including
//! the devices for error correction; energy per bit is per bit that programs transfer.

use super::{
    command::{Command, Kind, Observer},
    device::{Currents, Device},
};

/// Counts the commands of one sub-channel. The energy is computed from the counts.
#[derive(Clone, Debug)]
pub struct CommandCounts {
    device: Device,
    /// The clock of the host since which commands are counted.
    start: u64,
    /// For each bank, the clock of the host at which its row was opened; `None` for a closed bank.
    opened: Vec<Option<u64>>,
    /// Clocks of the host during which banks were open, summed over all banks.
    open_clocks: u64,
    activations: u64,
    reads: u64,
    writes: u64,
    refreshes: u64,
    refreshes_same: u64,
}

/// The energy of a run of `seconds`, by cause, J.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// The simulated time, s.
    pub seconds: f64,
    /// Number of bits that programs read and wrote.
    pub bits: f64,
    /// Energy of standby and of open rows, J.
    pub background: f64,
    /// Energy of activations and their precharges, J.
    pub activate: f64,
    /// Energy of reads within the devices, J.
    pub read: f64,
    /// Energy of writes within the devices, J.
    pub write: f64,
    /// Energy of refreshes, J.
    pub refresh: f64,
    /// Energy of the pins for data and strobes, J.
    pub pins: f64,
    /// Energy of the registers and buffers of modules, J.
    pub buffers: f64,
}

impl Energy {
    /// Returns the energy of all causes together, J.
    pub fn total(&self) -> f64 {
        let Self { background, activate, read, write, refresh, pins, buffers, .. } = self;
        background + activate + read + write + refresh + pins + buffers
    }

    /// Returns the mean power over the simulated time, W.
    pub fn power_w(&self) -> f64 {
        if self.seconds > 0.0 { self.total() / self.seconds } else { 0.0 }
    }

    /// Returns the energy per bit that programs transferred, pJ; 0 if they transferred no bits.
    pub fn pj_per_bit(&self) -> f64 {
        if self.bits > 0.0 { self.total() / self.bits * 1e12 } else { 0.0 }
    }

    /// Scales energy and bits to a run of `seconds` with the same power and bandwidth.
    pub fn lasting(self, seconds: f64) -> Self {
        let factor = if self.seconds > 0.0 { seconds / self.seconds } else { 1.0 };
        Self {
            seconds: factor * self.seconds,
            bits: factor * self.bits,
            background: factor * self.background,
            activate: factor * self.activate,
            read: factor * self.read,
            write: factor * self.write,
            refresh: factor * self.refresh,
            pins: factor * self.pins,
            buffers: factor * self.buffers,
        }
    }

    /// Adds the energy of another sub-channel of the same run. The time of the sum is the longer of
    /// the two times.
    pub fn and(self, other: &Self) -> Self {
        Self {
            seconds: self.seconds.max(other.seconds),
            bits: self.bits + other.bits,
            background: self.background + other.background,
            activate: self.activate + other.activate,
            read: self.read + other.read,
            write: self.write + other.write,
            refresh: self.refresh + other.refresh,
            pins: self.pins + other.pins,
            buffers: self.buffers + other.buffers,
        }
    }
}

/// Power as a linear function of bandwidth, the form in which a platform states the power of a tier
/// ([`interleaf_model::tier::TierPower`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLine {
    /// Power without traffic, W.
    pub static_w: f64,
    /// Energy per bit read or written, pJ.
    pub energy_pj_per_bit: f64,
    /// The largest distance of a point from the line, as a fraction of the point's power.
    pub max_error: f64,
}

/// Factor that converts W per GB/s to pJ per bit.
const PJ_PER_BIT: f64 = 125.0;

impl PowerLine {
    /// Returns the least-squares line through `points`, which are pairs of GB/s and W. `None` if
    /// the highest bandwidth is less than twice the lowest: the points then have too little range
    /// for a slope.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean_gbps = points.iter().map(|(gbps, _)| gbps).sum::<f64>() / count;
        let mean_w = points.iter().map(|(_, watts)| watts).sum::<f64>() / count;
        let (mut square, mut product) = (0.0, 0.0);
        for (gbps, watts) in points {
            square += (gbps - mean_gbps) * (gbps - mean_gbps);
            product += (gbps - mean_gbps) * (watts - mean_w);
        }
        let lowest = points.iter().map(|(gbps, _)| *gbps).fold(f64::INFINITY, f64::min);
        let highest = points.iter().map(|(gbps, _)| *gbps).fold(0.0, f64::max);
        if highest < 2.0 * lowest {
            return None;
        }
        let slope = product / square;
        let static_w = mean_w - slope * mean_gbps;
        let error = |(gbps, watts): &(f64, f64)| ((static_w + slope * gbps) / watts - 1.0).abs();
        let max_error = points.iter().map(error).fold(0.0, f64::max);
        Some(Self { static_w, energy_pj_per_bit: PJ_PER_BIT * slope, max_error })
    }
}

impl CommandCounts {
    /// Creates the counters of a sub-channel of `device`, which has received no command yet.
    pub fn new(device: &Device) -> Self {
        let banks = device.pseudo_channels * device.ranks * device.banks_of_rank();
        Self {
            device: device.clone(),
            start: 0,
            opened: vec![None; banks as usize],
            open_clocks: 0,
            activations: 0,
            reads: 0,
            writes: 0,
            refreshes: 0,
            refreshes_same: 0,
        }
    }

    /// Returns the energy from the start of the count until clock `end` of the host; `None` for
    /// devices with unknown currents. The power of the module's register is divided among its
    /// sub-channels.
    pub fn energy(&self, end: u64) -> Option<Energy> {
        let device = &self.device;
        let currents = device.currents?;
        let per_device = PerDevice::new(device, &currents);
        let rate = device.kilotransfers as f64 * device.host_clocks as f64;
        let seconds_of = |clocks: u64| clocks as f64 * 2e-3 / rate;
        let seconds = seconds_of(end.saturating_sub(self.start));
        let still_open: u64 = self.opened.iter().flatten().map(|at| end.saturating_sub(*at)).sum();
        let open = seconds_of(self.open_clocks + still_open) / f64::from(device.banks_of_rank());
        let of_rank = f64::from((device.data_bits + device.ecc_bits) / device.width);
        let ranks = f64::from(device.pseudo_channels * device.ranks);
        let moved = |bursts: u64| bursts as f64 * f64::from(device.burst_bytes()) * 8.0;
        let bits = moved(self.reads + self.writes);
        let (send, receive) = pins(device, &currents);
        let share = 1.0 / f64::from(device.sub_channels);
        let buffers = if device.pseudo_channels > 1 {
            let bit = f64::from(currents.multiplexer_bit_fj) * 1e-15;
            f64::from(currents.multiplexer_mw) * 1e-3 * seconds * share + bit * bits
        } else {
            f64::from(currents.register_mw) * 1e-3 * seconds * share
        };
        Some(Energy {
            seconds,
            bits,
            background: of_rank * (ranks * per_device.closed * seconds + per_device.open * open),
            activate: of_rank * per_device.activate * self.activations as f64,
            read: of_rank * per_device.read * self.reads as f64,
            write: of_rank * per_device.write * self.writes as f64,
            refresh: of_rank
                * (per_device.refresh * self.refreshes as f64
                    + per_device.refresh_same * self.refreshes_same as f64),
            pins: send * moved(self.reads) + receive * moved(self.writes),
            buffers,
        })
    }

    /// Returns the indices in `opened` of the banks that a command opens or closes.
    fn closed_by(&self, command: &Command) -> core::ops::Range<usize> {
        let Device { ranks, bank_groups, banks, .. } = self.device;
        let rank = u32::from(command.pseudo) * ranks + u32::from(command.rank);
        if command.kind == Kind::PrechargeAll {
            let first = (rank * bank_groups * banks) as usize;
            return first..first + (bank_groups * banks) as usize;
        }
        let group = rank * bank_groups + u32::from(command.bank_group);
        let place = (group * banks + u32::from(command.bank)) as usize;
        place..place + 1
    }

    fn close(&mut self, command: &Command, at: u64) {
        for place in self.closed_by(command) {
            if let Some(opened) = self.opened.get_mut(place).and_then(Option::take) {
                self.open_clocks += at.saturating_sub(opened);
            }
        }
    }
}

impl Observer for CommandCounts {
    /// Starts the count again at `clock`, at the end of the warm-up: resets all counts. Banks that
    /// are open count as open from `clock`.
    fn start_counting(&mut self, clock: u64) {
        let mut opened = core::mem::take(&mut self.opened);
        opened.iter_mut().flatten().for_each(|at| *at = clock);
        *self = Self { start: clock, opened, ..Self::new(&self.device) };
    }

    fn command(&mut self, command: &Command) {
        let t = &self.device.timing;
        let host = |clocks: u32| u64::from(clocks) * self.device.host_clocks;
        let (read, written) = (host(t.t_rtp), host(t.cwl + t.burst + t.t_wr));
        match command.kind {
            Kind::Activate => {
                self.activations += 1;
                for place in self.closed_by(command) {
                    if let Some(opened) = self.opened.get_mut(place) {
                        *opened = Some(command.at);
                    }
                }
            }
            Kind::Read => self.reads += 1,
            Kind::ReadAuto => {
                self.reads += 1;
                self.close(command, command.at + read);
            }
            Kind::Write => self.writes += 1,
            Kind::WriteAuto => {
                self.writes += 1;
                self.close(command, command.at + written);
            }
            Kind::Precharge | Kind::PrechargeAll => self.close(command, command.at),
            Kind::RefreshAll => self.refreshes += 1,
            Kind::RefreshSame => self.refreshes_same += 1,
        }
    }
}

/// The power and the energies of one DRAM device. `closed` is the power with all banks closed, W.
/// The fields after `open` are the energy of one command of each kind beyond standby, J.
struct PerDevice {
    closed: f64,
    /// Power with all banks open, less the power with all banks closed, W.
    open: f64,
    activate: f64,
    read: f64,
    write: f64,
    refresh: f64,
    refresh_same: f64,
}

impl PerDevice {
    fn new(device: &Device, c: &Currents) -> Self {
        // A product of uA and mV is in nW, so it is multiplied by 1e-9.
        let watts = |idd_ua: f64, ipp_ua: f64| {
            (idd_ua * f64::from(c.vdd_mv) + ipp_ua * f64::from(c.vpp_mv)) * 1e-9
        };
        let power = |idd_ua: u32, ipp_ua: u32| watts(f64::from(idd_ua), f64::from(ipp_ua));
        let closed = power(c.idd2n_ua, c.ipp2n_ua);
        let all_open = power(c.idd3n_ua, c.ipp3n_ua);
        let seconds = |ps: u64| ps as f64 * 1e-12;
        let row = (all_open - closed) / f64::from(device.banks_of_rank());
        let cycle = seconds(c.t_rc_ps) * (power(c.idd0_ua, c.ipp0_ua) - closed);
        let burst = seconds(c.burst_ps);
        let refreshing = device.ns(device.timing.t_rfc.into()) * 1e-9;
        let refresh = refreshing * (power(c.idd5b_ua, c.ipp5b_ua) - closed);
        // The same-bank refreshes within one tREFI refresh the same rows as one all-bank refresh,
        // and are assumed to take as much energy together.
        let t = &device.timing;
        let share = f64::from(t.t_refi_sb) / f64::from(t.t_refi.max(1));
        Self {
            closed,
            open: all_open - closed,
            activate: (cycle - row * seconds(c.t_ras_ps)).max(0.0),
            read: burst * (power(c.idd4r_ua, c.ipp4r_ua) - all_open),
            write: burst * (power(c.idd4w_ua, c.ipp4w_ua) - all_open),
            refresh,
            refresh_same: refresh * share,
        }
    }
}

/// Returns the energy in J that a module dissipates for each data bit sent, and for each data bit
/// received: data pins and strobes together, including the pins for error correction.
///
/// Each device has a pair of strobes; on the host's side of buffers, each four bits have a pair.
fn pins(device: &Device, c: &Currents) -> (f64, f64) {
    if c.driver_mohm + c.termination_mohm == 0 {
        return (0.0, 0.0);
    }
    let width = f64::from(device.data_bits + device.ecc_bits);
    // The energy, in J, of a data bit for each watt that a low pin dissipates. `strobe_bits` data
    // bits share a pair of strobes; `rate` is the number of transfers per second.
    let a_bit = |strobe_bits: f64, rate: f64| {
        (width / 2.0 + width / strobe_bits) / (f64::from(device.data_bits) * rate)
    };
    let rate = device.kilotransfers as f64 * 1e3;
    let dram = a_bit(device.width.into(), rate);
    let link = LowPin::new(c, device.ranks - 1);
    if device.pseudo_channels == 1 {
        return (dram * (link.driver + link.others), dram * (link.termination + link.others));
    }
    // Between the devices and the data buffers both ends of a pin are on the module, so the power
    // of driver and terminations counts.
    let inside = dram * (link.driver + link.termination + link.others);
    let host = a_bit(4.0, rate * f64::from(device.pseudo_channels));
    let outside = LowPin::new(c, 0);
    (inside + host * outside.driver, inside + host * outside.termination)
}

/// Power that a low pin dissipates, W: in its `driver`, in the `termination` of the addressed rank,
/// and in the terminations of the `others`, the other ranks.
struct LowPin {
    driver: f64,
    termination: f64,
    others: f64,
}

impl LowPin {
    /// Computes the power of a low pin on a link with `others` ranks beside the addressed rank.
    fn new(c: &Currents, others: u32) -> Self {
        let siemens = |mohm: u32| if mohm == 0 { 0.0 } else { 1e3 / f64::from(mohm) };
        let own = siemens(c.termination_mohm);
        let other = f64::from(others) * siemens(c.termination_other_mohm);
        let driver = f64::from(c.driver_mohm) * 1e-3;
        let together = if own + other > 0.0 { 1.0 / (own + other) } else { 0.0 };
        let amperes = f64::from(c.vdd_mv) * 1e-3 / (driver + together);
        let volts = amperes * together;
        Self {
            driver: amperes * amperes * driver,
            termination: volts * volts * own,
            others: volts * volts * other,
        }
    }
}

#[cfg(test)]
mod tests;
