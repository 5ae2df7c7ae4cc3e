//! What the daemon tells others while it runs.

use super::config::Config;
use crate::{
    args::BalanceArgs, document::balance::PeriodDocument, failure::Failure, output, render,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Where a period is told: on stdout, in a record, and to other programs.
pub(super) struct Publisher {
    json: bool,
    record: Option<(PathBuf, File)>,
    target: Option<PathBuf>,
}

impl Publisher {
    pub(super) fn new(config: &Config, args: &BalanceArgs) -> Result<Self, Failure> {
        let record = match &args.output {
            None => None,
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                Some((path.clone(), opened.map_err(|why| unwritten(path, &why))?))
            }
        };
        Ok(Self { json: args.json, record, target: config.target.clone() })
    }

    /// Tells what happened in a period.
    pub(super) fn publish(&mut self, period: &PeriodDocument) -> Result<(), Failure> {
        let line = serde_json::to_string(period)
            .map_err(|why| Failure::new(why.to_string(), "report it"))?;
        if let Some((path, file)) = &mut self.record {
            writeln!(file, "{line}").map_err(|why| unwritten(path, &why))?;
        }
        if let Some(path) = &self.target {
            replace(path, &target(period)).map_err(|why| unwritten(path, &why))?;
        }
        output::data(&match self.json {
            true => line + "\n",
            false => render::balance::line(period) + "\n",
        })
    }

    /// Nobody is to go by a target that nobody looks after.
    pub(super) fn close(&mut self) {
        if let Some(path) = self.target.take() {
            // It is not there when there was no period.
            let _ = fs::remove_file(path);
        }
    }
}

/// The weights that are wanted, as other programs read them: `0:65,1:35`.
fn target(period: &PeriodDocument) -> String {
    let nodes = period.nodes.iter().zip(&period.target_weights);
    let weights: Vec<String> = nodes.map(|(node, weight)| format!("{node}:{weight}")).collect();
    weights.join(",") + "\n"
}

/// Writes a file in one step: whoever reads it sees the old one or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}

fn unwritten(path: &Path, why: &io::Error) -> Failure {
    let problem = format!("{}: cannot be written: {why}", path.display());
    Failure::new(problem, "name a file in a folder that is there and that you may write to")
}
