//! Writes the points of a simulated tier as a file of curves, which a platform file can name.

use super::table::Table;

/// The rows of a file of curves, curve by curve.
pub(crate) struct CurveFile {
    table: Table,
    /// Bytes in flight (bandwidth times latency) at the last added point of the curve.
    in_flight: f64,
}

impl CurveFile {
    pub(crate) fn new() -> Self {
        let header = ["mix", "bandwidth_gbps", "latency_ns", "provenance", "source"];
        Self { table: Table::new(&header), in_flight: 0.0 }
    }

    /// Begins another curve, to which the next calls of `add` add points.
    pub(crate) fn begin(&mut self) {
        self.in_flight = 0.0;
    }

    /// Adds a point to the curve if its bytes in flight exceed those of the last added point by
    /// more than 1 %. Otherwise both points are at the maximum of the curve, and differ only by
    /// noise, so the point is left out.
    pub(crate) fn add(&mut self, mix: String, gbps: f64, latency_ns: f64, source: String) {
        let in_flight = gbps * latency_ns;
        if in_flight <= 1.01 * self.in_flight {
            return;
        }
        self.in_flight = in_flight;
        let provenance = "simulated".to_string();
        self.table.row([mix, gbps.to_string(), latency_ns.to_string(), provenance, source]);
    }

    pub(crate) fn csv(&self) -> String {
        self.table.csv()
    }
}
