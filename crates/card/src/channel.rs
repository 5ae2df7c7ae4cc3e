//! Simulates a card's memory channels. Converts addresses to row segments, and fs to clocks.

use crate::card::{Durable, MemorySpec, SEGMENT_BYTES};
use interleaf_sim::dimm::{
    command::Observer,
    device::Device,
    mapping::{Layout, Mapping},
    row_channel::{RowAccess, RowChannel, RowCounts},
};

/// Returns the layout of the addresses of one channel: neighbouring row segments are in different
/// banks of a rank, and the segment after the last bank of a rank is in the next rank.
const fn layout(burst_bytes: u32) -> Layout {
    Layout { neighbours_log2: (SEGMENT_BYTES / burst_bytes).trailing_zeros(), banks_first: true }
}

/// The times of a transfer between the controller and the memory, fs since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The time at which the data are at the controller (read), or in row buffers or cells (write).
    pub(crate) data: u64,
    /// The time at which the precharge of the row is complete.
    pub(crate) closed: u64,
}

impl Transfer {
    /// Returns the time from which the controller counts the data of a write as safe from a power
    /// failure, fs.
    #[inline]
    pub(crate) const fn safe(self, durable: Durable) -> u64 {
        match durable {
            Durable::Save => self.data,
            Durable::Precharge => self.closed,
        }
    }
}

/// Converts between femtoseconds and clocks of the memory by multiplication with a fixed-point
/// factor. For all times that fit in 64 bits of femtoseconds (5 hours), the error is less than one
/// clock.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Clocks per femtosecond, a fixed-point number with 80 fractional bits.
    clocks: u128,
    /// Femtoseconds per clock, a fixed-point number with 32 fractional bits.
    fs: u128,
}

impl Clock {
    fn new(device: &Device) -> Self {
        // Two transfers of DDR memory take one clock, so a clock takes 2e12 / `kilotransfers` fs.
        let rate = u128::from(device.kilotransfers);
        Self { clocks: (rate << 80) / 2_000_000_000_000, fs: (2_000_000_000_000 << 32) / rate }
    }

    /// Returns the number of the first clock edge after the time `fs`. If `fs` is exactly the time
    /// of an edge, the result may be this edge, because the factor `clocks` is rounded down.
    #[inline]
    fn clock_at(self, fs: u64) -> u64 {
        // `clocks >> 16` has 64 fractional bits, so the upper 64 bits of the product of `fs` and
        // this factor are whole clocks.
        ((u128::from(fs) * (self.clocks >> 16)) >> 64) as u64 + 1
    }

    #[inline]
    fn to_fs(self, clock: u64) -> u64 {
        ((u128::from(clock) * self.fs) >> 32) as u64
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    channels: Vec<RowChannel>,
    mapping: Mapping,
    clock: Clock,
    burst_bytes: u32,
    delay_fs: u64,
    ideal: bool,
}

impl Memory {
    pub(crate) fn new(memory: &MemorySpec, ideal: bool) -> Self {
        let device = &memory.device;
        Self {
            channels: vec![RowChannel::new(device); memory.channels as usize],
            mapping: Mapping::new(device, layout(device.burst_bytes())),
            clock: Clock::new(device),
            burst_bytes: device.burst_bytes(),
            delay_fs: device.delay_ps * 1000,
            ideal,
        }
    }

    /// Reads or writes the `bytes` bytes from `offset` on, which are in one row segment
    /// (`SEGMENT_BYTES`). The transfer begins at the time `at` (fs) or later: it waits until its
    /// bank and the data bus are free.
    #[inline]
    pub(crate) fn transfer<O: Observer>(
        &mut self,
        at: u64,
        offset: u64,
        bytes: u32,
        write: bool,
        observer: &mut O,
    ) -> Transfer {
        if self.ideal {
            return Transfer { data: at, closed: at };
        }
        let segment = offset / u64::from(SEGMENT_BYTES);
        let within = (offset % u64::from(SEGMENT_BYTES)) as u32;
        let (number, segment) = match self.channels.len() as u64 {
            1 => (0, segment),
            channels => ((segment % channels) as usize, segment / channels),
        };
        let burst = self.burst_bytes;
        let line = segment * u64::from(SEGMENT_BYTES / burst) + u64::from(within / burst);
        let location = self.mapping.location(line);
        let bursts = (within % burst + bytes).div_ceil(burst) as u16;
        let access = RowAccess {
            bank: location.bank,
            row: location.row,
            column: location.column,
            bursts,
            write,
        };
        let clock = self.clock.clock_at(at);
        let times = self.channels[number].serve(clock, access, observer);
        Transfer {
            data: self.clock.to_fs(times.data) + self.delay_fs,
            closed: self.clock.to_fs(times.closed) + self.delay_fs,
        }
    }

    /// Returns the numbers of bursts, commands and busy clocks, summed over all channels.
    pub(crate) fn counts(&self) -> RowCounts {
        let mut sum = RowCounts::default();
        for counts in self.channels.iter().map(RowChannel::counts) {
            sum.reads += counts.reads;
            sum.writes += counts.writes;
            sum.activates += counts.activates;
            sum.refreshes += counts.refreshes;
            sum.open_clocks += counts.open_clocks;
            sum.bus_clocks += counts.bus_clocks;
            sum.occupied_clocks += counts.occupied_clocks;
        }
        sum
    }

    /// Returns the time for which a memory channel was occupied, fs: the mean over all channels.
    pub(crate) fn busy(&self) -> u64 {
        self.clock.to_fs(self.counts().occupied_clocks) / self.channels.len() as u64
    }

    /// Ends a run: reports to `observer` the scheduled commands that are not yet reported.
    pub(crate) fn finish<O: Observer>(&mut self, observer: &mut O) {
        self.channels.iter_mut().for_each(|channel| channel.finish(observer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::Card;

    #[test]
    fn clocks_are_those_of_the_device() {
        for (name, fs) in [("flashtec-dram", 1_250_000.0), ("all-mram", 1_500_000.375)] {
            let clock = Clock::new(&Card::by_name(name).unwrap().memory.device);
            for clocks in [1_u64, 1000, 1 << 40] {
                let expected = clocks as f64 * fs;
                let found = clock.to_fs(clocks);
                assert!((found as f64 - expected).abs() <= expected * 1e-9 + 1.0, "{name}");
                let back = clock.clock_at(found);
                assert!(back == clocks || back == clocks + 1, "{name}: {clocks} {back}");
            }
        }
    }

    #[test]
    fn a_segment_is_one_access() {
        let mut memory = Memory::new(&Card::by_name("all-mram").unwrap().memory, false);
        let first = memory.transfer(0, 4096, 512, true, &mut ());
        assert!(0 < first.data && first.data < first.closed);
        let counts = memory.counts();
        assert_eq!((counts.writes, counts.activates), (8, 1));
        memory.transfer(first.closed, 5000, 64, false, &mut ());
        assert_eq!(memory.counts().reads, 2);
    }
}
