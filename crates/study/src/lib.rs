//! Reproduces published studies: each row has the published value, our value, and the error.
//!
//! Each module is one study, except `coverage` and `published`, which several studies use. A study
//! reads the published tables in `reproduce/`, which are built into the program. It computes each
//! published value with the model or the simulator, and returns a [`StudyDocument`]. [`reproduce`]
//! runs a study by name.

#![forbid(unsafe_code)]

mod coverage;
mod cxl_interleaving;
mod cz122;
mod dmi;
mod gnr120_interleaving;
pub mod imdt;
mod mrdimm;
mod nvram;
mod published;
mod servers;

use interleaf_console::Failure;
use interleaf_job::{Progress, check};
use interleaf_record::reproduce::StudyDocument;

type Reproduce = fn(&dyn Progress) -> Result<StudyDocument, Failure>;

/// A study: its name, the number of its progress steps, and the function that computes it.
struct Study {
    name: &'static str,
    steps: u64,
    reproduce: Reproduce,
}

const STUDIES: [Study; 8] = [
    Study {
        name: cxl_interleaving::NAME,
        steps: cxl_interleaving::STEPS,
        reproduce: cxl_interleaving::reproduce,
    },
    Study {
        name: gnr120_interleaving::NAME,
        steps: gnr120_interleaving::STEPS,
        reproduce: gnr120_interleaving::reproduce,
    },
    Study { name: dmi::NAME, steps: dmi::STEPS, reproduce: dmi::reproduce },
    Study { name: cz122::NAME, steps: cz122::STEPS, reproduce: cz122::reproduce },
    Study { name: mrdimm::NAME, steps: mrdimm::STEPS, reproduce: mrdimm::reproduce },
    Study { name: servers::NAME, steps: servers::STEPS, reproduce: servers::reproduce },
    Study { name: nvram::NAME, steps: nvram::STEPS, reproduce: nvram::reproduce },
    Study { name: imdt::NAME, steps: imdt::STEPS, reproduce: imdt::reproduce },
];

/// The names of all studies, in the order in which [`reproduce`] runs them.
pub const NAMES: [&str; STUDIES.len()] = [
    STUDIES[0].name,
    STUDIES[1].name,
    STUDIES[2].name,
    STUDIES[3].name,
    STUDIES[4].name,
    STUDIES[5].name,
    STUDIES[6].name,
    STUDIES[7].name,
];

/// Reproduces the study `name`, or all studies if `name` is "all".
///
/// # Errors
/// When a value cannot be computed, or when `progress` stops the study.
pub fn reproduce(name: &str, progress: &dyn Progress) -> Result<Vec<StudyDocument>, Failure> {
    let chosen = STUDIES.iter().filter(|study| name == "all" || study.name == name);
    let studies = chosen.map(|study| {
        progress.begin(study.steps, study.name);
        (study.reproduce)(progress)
    });
    let studies = studies.collect();
    progress.end();
    studies
}

/// Reports that `steps` more steps of a study are done. Fails if `progress` stopped the study.
fn advance(progress: &dyn Progress, steps: u64) -> Result<(), Failure> {
    progress.advance(steps);
    check(progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A `Progress` that counts steps, and stops the computation after the first step.
    #[derive(Default)]
    struct First(AtomicU64);

    impl Progress for First {
        fn begin(&self, _steps: u64, _task: &str) {}

        fn describe(&self, _task: &str) {}

        fn advance(&self, steps: u64) {
            self.0.fetch_add(steps, Ordering::Relaxed);
        }

        fn end(&self) {}

        fn is_stopped(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
    }

    #[test]
    fn a_stopped_study_ends_at_its_next_step() {
        let first = First::default();
        let why = reproduce(gnr120_interleaving::NAME, &first).expect_err("it was stopped");
        assert_eq!(why.to_string(), interleaf_job::stopped().to_string());
        assert_eq!(first.0.into_inner(), 1);
    }
}
