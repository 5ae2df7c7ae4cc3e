//! Measures memory bandwidth with the hardware's counters. The record then has the bandwidth by the
//! counters in addition to the bandwidth that the measuring threads count themselves.
//!
//! The counters cover the whole machine. They therefore include the traffic of other programs, and
//! the lines that the memory controller reads for prefetches, or for ownership before a store.

use interleaf_console::Failure;
use interleaf_linux::{machine::topology::Machine, root::Root};
use interleaf_observe::{
    counters::{Counters, plan, rough_layout},
    replay::Replay,
    source::{Reading, Source},
};
use interleaf_record::rounded;
use std::{cell::RefCell, path::Path};

/// The source of the counted traffic: the machine's counters, or a recording of counters. `None` if
/// the machine's counters are not available.
pub(crate) struct TrafficCounters(RefCell<Option<Box<dyn Source>>>);

impl TrafficCounters {
    /// Opens the recording `replay`, or, if it is `None`, the machine's counters. The returned note
    /// names the source, or the reason why the machine's counters are not available.
    ///
    /// # Errors
    /// When the recording cannot be read.
    pub(crate) fn find(
        replay: Option<&Path>,
        root: &Root,
        machine: &Machine,
    ) -> Result<(Self, String), Failure> {
        if let Some(path) = replay {
            let replay = Replay::open(path).map_err(|why| {
                Failure::new(why.to_string(), "docs/counters.md has the format of a recording")
            })?;
            let note = format!("bandwidth is counted by {}", replay.describe());
            return Ok((Self(RefCell::new(Some(Box::new(replay)))), note));
        }
        let none = |why: String| {
            (Self(RefCell::new(None)), format!("bandwidth is not counted by the machine: {why}"))
        };
        let planned = match plan(root, machine, &rough_layout(machine)) {
            Ok(planned) => planned,
            Err(why) => return Ok(none(why.to_string())),
        };
        Ok(match Counters::open(planned, root) {
            Err(why) => none(why.to_string()),
            Ok(counters) => {
                let note = format!("bandwidth is counted by {}", counters.describe());
                (Self(RefCell::new(Some(Box::new(counters)))), note)
            }
        })
    }

    /// Runs `work`. Returns its result, and the mean bandwidth of all memory during `work` by the
    /// counters, GB/s. The bandwidth is `None` if there are no counters, if a reading failed, or if
    /// a counter that counted before did not count during `work`.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<f64>) {
        let mut source = self.0.borrow_mut();
        let mut read = || source.as_mut().and_then(|source| source.read().ok());
        // A reading of the counters has the traffic since the previous reading, so the counters are
        // read right before `work` and right after it.
        let before = read();
        let done = work();
        let gbps = before.zip(read()).and_then(|(before, now)| gbps(&before, &now));
        (done, gbps)
    }
}

/// Returns the bandwidth of all memory in the reading `now`, GB/s. Returns `None` if a counter that
/// counted in the reading `before` has no count in `now`, if `now` has no counts, or if `now`
/// covers no time.
fn gbps(before: &Reading, now: &Reading) -> Option<f64> {
    let counts = |reading: &Reading| -> Vec<Option<f64>> {
        let tiers = reading.traffic.iter().flatten();
        tiers.flat_map(|tier| [tier.read_bytes, tier.written_bytes]).collect()
    };
    let now_counts = counts(now);
    let has_lost = counts(before).iter().zip(&now_counts).any(|(a, b)| a.is_some() && b.is_none());
    let bytes: Vec<f64> = now_counts.into_iter().flatten().collect();
    let seconds = now.span.as_secs_f64();
    let is_known = !has_lost && !bytes.is_empty() && seconds > 0.0;
    is_known.then(|| rounded(bytes.iter().sum::<f64>() / seconds / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_model::machine::Traffic;
    use std::time::Duration;

    #[test]
    fn traffic_that_was_not_counted_is_not_left_out() {
        let reading = |counts: [Option<f64>; 2]| {
            let tier = |read_bytes| Traffic { read_bytes, ..Traffic::default() };
            let traffic = vec![counts.map(tier).to_vec()];
            Reading { span: Duration::from_secs(2), traffic, ..Reading::default() }
        };
        let before = reading([Some(1.0), None]);
        assert_eq!(gbps(&before, &reading([Some(4e9), None])), Some(2.0));
        assert_eq!(gbps(&before, &reading([None, None])), None);
        assert_eq!(gbps(&reading([Some(1.0); 2]), &reading([Some(4e9), None])), None);
    }
}
