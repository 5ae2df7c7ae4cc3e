//! The header of a sweep's CSV file.

/// The columns of a row. The last one is a fingerprint of the sweep's input, by which a continued
/// sweep recognizes its rows.
pub(super) const HEADER: [&str; 23] = [
    "case",
    "platform",
    "scenario",
    "workload",
    "threads",
    "footprint_bytes",
    "policy",
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
];
