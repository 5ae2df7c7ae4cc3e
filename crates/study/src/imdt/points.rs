//! Defines the measured efficiencies of a workload on this machine, at several footprints.

/// The ratio of footprint to budget in the run to which the planner is fitted. The planner is
/// tested only at other ratios.
pub(super) const SEEN: f64 = 2.0;

/// A workload at a footprint: its rate in DRAM (`dram`), its efficiency (speed relative to DRAM)
/// with the pager, with swap and with mmap, and the efficiency that the planner predicts.
#[derive(Clone, Debug)]
pub(super) struct MeasuredPoint {
    /// The requested footprint in units of the budget.
    pub(super) ratio: f64,
    pub(super) footprint_bytes: u64,
    pub(super) dram: Option<f64>,
    pub(super) dram_unit: String,
    pub(super) pager: Option<f64>,
    pub(super) swap: Option<f64>,
    pub(super) mmap: Option<f64>,
    pub(super) planned: Option<f64>,
}

/// The measured points of a workload at all footprints.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) pattern: String,
    /// Operations per byte; `None` if the workload is not a polynomial.
    pub(super) intensity: Option<f64>,
    /// The points, sorted by footprint.
    pub(super) points: Vec<MeasuredPoint>,
}

impl MeasuredPoint {
    /// Returns the relative error of the planned efficiency of the pager. `None` at the footprint
    /// that the planner was fitted to, at footprints within the budget, and if one of the two
    /// efficiencies is unknown.
    pub(super) fn error(&self) -> Option<f64> {
        let is_seen = self.ratio == SEEN || self.ratio <= 1.0;
        let error = self.planned? / self.pager.filter(|_| !is_seen)? - 1.0;
        Some(error)
    }
}
