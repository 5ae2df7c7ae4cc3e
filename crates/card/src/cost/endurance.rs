//! Computes the lifetime of a memory whose cells withstand a limited number of writes.

const YEAR_S: f64 = 365.25 * 86_400.0;

/// The distribution of writes over the addresses of a memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Locality {
    /// Writes are spread evenly over the capacity.
    Uniform,
    /// The fraction `part` of the writes is spread evenly over a range of `bytes` bytes. The other
    /// writes are spread evenly over the capacity.
    Hot {
        /// The fraction of the writes that go to the hot range, 0 to 1.
        part: f64,
        /// The size of the hot range, bytes, above 0.
        bytes: u64,
    },
}

/// The properties of a memory that decide its lifetime under writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    /// The number of writes that a cell withstands.
    pub cycles: f64,
    /// The capacity of the memory, bytes.
    pub capacity: u64,
    /// Size of a row, bytes. A write wears at least one whole row.
    pub row_bytes: u32,
    /// The lifetime with wear levelling, divided by the lifetime with perfectly even writes.
    pub levelling_efficiency: f64,
}

impl Wear {
    /// Returns the properties of an STT-MRAM whose cells withstand 10^9 writes (Zuolo et al., FMS
    /// 2017, page 7). The levelling efficiency is that of randomised Start-Gap, 97 % (Qureshi et
    /// al., MICRO 2009; the figure is not checked against the paper).
    pub fn stt_mram(capacity: u64, row_bytes: u32) -> Self {
        Self { cycles: 1e9, capacity, row_bytes, levelling_efficiency: 0.97 }
    }

    /// Returns the years until the first cell fails with wear levelling, if the host writes `rate`
    /// bytes per second.
    pub fn levelled_years(&self, rate: f64) -> f64 {
        self.cycles * self.capacity as f64 * self.levelling_efficiency / rate / YEAR_S
    }

    /// Returns the years until the first cell fails without wear levelling, if the host writes
    /// `rate` bytes per second.
    pub fn unlevelled_years(&self, rate: f64, locality: Locality) -> f64 {
        let even = 1.0 / self.capacity as f64;
        let density = match locality {
            Locality::Uniform => even,
            // A write of less than a row wears the whole row, so a hot range counts as at least one
            // row. Some of the other writes go to the hot range too.
            Locality::Hot { part, bytes } => {
                part / bytes.max(u64::from(self.row_bytes)) as f64 + (1.0 - part) * even
            }
        };
        self.cycles / (rate * density) / YEAR_S
    }
}
