//! Published studies, reproduced: each row has the published figure, our figure, and the error.
//!
//! Each module is one study, except `coverage` and `published`, which several studies use. A study
//! reads the published tables in `reproduce/`, which are built into the program. It computes each
//! published figure with the model or the simulator, and returns a [`StudyDocument`].
//! [`reproduce`] runs a study by name.

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

use indicatif::ProgressBar;
use interleaf_console::Failure;
use interleaf_record::reproduce::StudyDocument;

type Reproduce = fn(&ProgressBar) -> Result<StudyDocument, Failure>;

/// A study: its name, the number of steps of its progress bar, and the function that computes it.
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

/// The names of the studies.
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

/// Reproduces the study with this name, or all studies for "all".
pub fn reproduce(name: &str) -> Result<Vec<StudyDocument>, Failure> {
    let chosen = STUDIES.iter().filter(|study| name == "all" || study.name == name);
    chosen
        .map(|study| {
            let progress = interleaf_console::output::progress(study.steps, study.name);
            let done = (study.reproduce)(&progress);
            progress.finish_and_clear();
            done
        })
        .collect()
}
