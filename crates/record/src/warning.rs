//! Warnings about runs and measurements, each with its remedy: an option of the command, or a
//! setting of the machine.
//!
//! [`Warning`] has the warnings of `run`, `tune`, `measure` and `balance`. The text of a warning
//! names the effect on the result, and then the remedy if the user can avoid the effect. An option
//! is named as the remedy only if the command has this option.
//!
//! ```text
//! numa_balancing is on and may pull pages back: --stop-rivals switches it off for the time
//! '------------------- effect ----------------'  '--------------- remedy -------------'
//! ```

use crate::measure::size_text;
use std::fmt;

/// A warning about a run or a measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The measured memory is less than `factor` times the last-level cache, so that the cache
    /// affects the result.
    CacheIsMeasured {
        /// The option that sets the size of the measured memory.
        option: &'static str,
        /// The size of the measured memory, bytes.
        bytes: u64,
        /// The part of the last-level cache that a thread can use, bytes.
        cache_bytes: u64,
        /// The measured memory should be at least this multiple of `cache_bytes`.
        factor: u64,
    },
    /// A default size was reduced, because little memory is free.
    SizeReduced {
        /// The option that sets the size.
        option: &'static str,
        /// The node or the control group that has little free memory.
        place: String,
        /// The reduced size, bytes.
        bytes: u64,
        /// The default size, bytes.
        default_bytes: u64,
    },
    /// The kernel has no transparent huge pages, or they are switched off.
    NoHugePages,
    /// Pages are placed one by one: the kernel has no weighted interleaving.
    NoWeightedInterleaving,
    /// Pages are placed one by one: this user may not set the kernel's weights.
    WeightsNotPermitted,
    /// Histograms are measured without load: no CPU is left for threads that make traffic.
    NoLoadForHistograms,
    /// The threads that make traffic did not reach a requested bandwidth, although the measured
    /// maximum is higher.
    RateNotReached {
        /// The requested bandwidth, GB/s.
        target_gbps: f64,
        /// The bandwidth of the measured point that is nearest to `target_gbps`, GB/s.
        nearest_gbps: f64,
    },
    /// Other programs used CPUs during the run.
    OtherPrograms {
        /// Mean number of CPUs that other programs used.
        cpus: f64,
        /// True if the result has figures of the whole machine, which include the other programs.
        are_counted: bool,
    },
    /// The hypervisor took CPUs from the machine during the run.
    HypervisorTook {
        /// Mean number of CPUs that the hypervisor took.
        cpus: f64,
    },
    /// The counters of pipeline slots were multiplexed with other events, so their counts are
    /// scaled up.
    SlotsScaled {
        /// The fraction of the run time in which pipeline slots were counted.
        share: f64,
    },
    /// Processes of other users could not be sampled.
    HiddenProcesses {
        /// The number of processes that could not be sampled.
        count: usize,
    },
    /// A source of counts failed during the run.
    SourceFailed {
        /// The source that failed, or the quantity that is no longer counted.
        subject: &'static str,
        /// The error text of the source.
        error: String,
    },
    /// A replayed recording ended before the command.
    RecordingEnded {
        /// The error text of the recording.
        error: String,
    },
    /// Allocations of a command under `tune` bypassed the placement.
    Bypassed {
        /// The fraction of the memory that bypassed the placement.
        share: f64,
        /// The weights with which the command ran.
        weights: String,
    },
    /// NUMA balancing may migrate pages back.
    NumaBalancing {
        /// True if the command has the option `--stop-rivals`.
        has_stop_rivals: bool,
    },
    /// The firmware rates no bandwidth of these nodes.
    UnratedNodes {
        /// The nodes, as a list of their numbers.
        nodes: String,
    },
    /// The firmware has ratings that no memory can have. They count as missing.
    ImplausibleRatings {
        /// The implausible ratings of each node, as a text.
        figures: String,
    },
}

impl Warning {
    /// Returns the effect of the warning on the result, in words.
    fn effect(&self) -> String {
        match self {
            Self::CacheIsMeasured { option, bytes, cache_bytes, factor } => format!(
                "{option} {} is less than {factor} times the last-level cache that a thread \
                 reaches, {}; the cache is measured too",
                size_text(*bytes),
                size_text(*cache_bytes)
            ),
            Self::SizeReduced { option, place, bytes, default_bytes } => format!(
                "{place} has little memory free: {} in place of {} ({option})",
                size_text(*bytes),
                size_text(*default_bytes)
            ),
            Self::NoHugePages => "there are no transparent huge pages: small ones are used, and \
                                  latency in random order has the walks through page tables in it"
                .into(),
            Self::NoWeightedInterleaving => {
                "this kernel has no weighted interleaving: pages are placed one by one".into()
            }
            Self::WeightsNotPermitted => {
                "only root may set weights: pages are placed one by one".into()
            }
            Self::NoLoadForHistograms => {
                "histograms under load need two CPUs: only that without load was measured".into()
            }
            Self::RateNotReached { target_gbps, nearest_gbps } => format!(
                "--rate {target_gbps}GB/s was not reached: the nearest point has {nearest_gbps:.2} \
                 GB/s"
            ),
            Self::OtherPrograms { cpus, are_counted } => {
                let theirs =
                    if *are_counted { ": figures of the machine include theirs" } else { "" };
                format!("other programs used {cpus:.2} CPUs meanwhile{theirs}")
            }
            Self::HypervisorTook { cpus } => {
                format!("the host of this virtual machine took {cpus:.2} CPUs meanwhile")
            }
            Self::SlotsScaled { share } => {
                format!("slots were counted {:.0} % of the time, and scaled up", 100.0 * share)
            }
            Self::HiddenProcesses { count } => {
                format!("{count} processes could not be sampled: they belong to other users")
            }
            Self::SourceFailed { subject, error } => format!("{subject}: {error}"),
            Self::RecordingEnded { error } => format!("{error}, before the command was"),
            Self::Bypassed { share, weights } => {
                format!("{:.0} % of its memory bypassed {weights}", 100.0 * share)
            }
            Self::NumaBalancing { has_stop_rivals: true } => {
                "numa_balancing is on and may pull pages back".into()
            }
            Self::NumaBalancing { has_stop_rivals: false } => {
                "numa_balancing is on and may pull the pages back to the CPUs that use them".into()
            }
            Self::UnratedNodes { nodes } => format!(
                "the firmware does not rate the bandwidth of nodes {nodes}: all count as alike"
            ),
            Self::ImplausibleRatings { figures } => format!(
                "ratings of the firmware (HMAT or CDAT) that no memory has count as \
                 unrated: {figures}"
            ),
        }
    }

    /// Returns the option or setting that avoids the effect, or `None` if the user cannot avoid it.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::CacheIsMeasured { option, cache_bytes, factor, .. } => {
                let enough = cache_bytes.saturating_mul(*factor);
                Some(format!("{option} {} would be enough", size_text(enough)))
            }
            Self::NoHugePages => {
                Some("as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled".into())
            }
            Self::WeightsNotPermitted => Some("run it as root to use the kernel's weights".into()),
            Self::NoLoadForHistograms => Some("name more CPUs with --cpus".into()),
            Self::HiddenProcesses { .. } => Some("run it as root".into()),
            Self::Bypassed { weights, .. } => {
                Some(format!("`interleaf run --weights {weights}` reports the cause"))
            }
            Self::NumaBalancing { has_stop_rivals: true } => {
                Some("--stop-rivals switches it off for the time".into())
            }
            Self::NumaBalancing { has_stop_rivals: false } => {
                Some("sysctl kernel.numa_balancing=0".into())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.effect())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, ": {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_ends_in_its_remedy() {
        let small = Warning::CacheIsMeasured {
            option: "--chase",
            bytes: 8 << 20,
            cache_bytes: 32 << 20,
            factor: 4,
        };
        let expected = "--chase 8 MiB is less than 4 times the last-level cache that a thread \
                        reaches, 32 MiB; the cache is measured too: --chase 128 MiB would be \
                        enough";
        assert_eq!(small.to_string(), expected);
        let bypassed = Warning::Bypassed { share: 0.25, weights: "3:1".into() };
        let expected = "25 % of its memory bypassed 3:1: `interleaf run --weights 3:1` reports the \
                        cause";
        assert_eq!(bypassed.to_string(), expected);
    }

    #[test]
    fn an_option_is_proposed_only_to_commands_that_have_it() {
        let remedy = |has_stop_rivals| Warning::NumaBalancing { has_stop_rivals }.remedy().unwrap();
        assert!(remedy(true).starts_with("--stop-rivals"));
        assert_eq!(remedy(false), "sysctl kernel.numa_balancing=0");
    }

    #[test]
    fn a_warning_without_a_remedy_is_its_effect() {
        let warning = Warning::HypervisorTook { cpus: 0.5 };
        assert_eq!(warning.remedy(), None);
        assert_eq!(
            warning.to_string(),
            "the host of this virtual machine took 0.50 CPUs meanwhile"
        );
    }
}
