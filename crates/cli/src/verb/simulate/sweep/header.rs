//! The header of a sweep's CSV file.

/// The columns of a row. The last two are fingerprints: of the sweep's input, by which a continued
/// sweep recognizes its rows, and of the row itself, by which it finds altered ones.
pub(super) const HEADER: [&str; 25] = [
    "case",
    "platform",
    "scenario",
    "workload",
    "threads",
    "footprint_bytes",
    "policy",
    "weights",
    "counter_noise",
    "curve_error",
    "migration_rate_gbps",
    "seed",
    "runtime_s",
    "speedup",
    "best_static_weights",
    "best_static_runtime_s",
    "regret",
    "regret_over_duration",
    "converged_after_s",
    "final_weights",
    "unsettled_share",
    "migrated_bytes",
    "energy_per_run_j",
    "sweep",
    "row",
];
