//! What the daemon tells others while it runs.

use super::{
    config::Config,
    metrics::Metrics,
    notify::Manager,
    watchers::{self, Watchers},
};
use crate::{
    args::BalanceArgs, document::balance::PeriodDocument, failure::Failure, output, render,
};
use interleaf_linux::{root::Root, socket::SocketError};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Where a period is told: on stdout, in a record, and to other programs.
pub(super) struct Publisher<'a> {
    json: bool,
    record: Option<(PathBuf, File)>,
    target: Option<PathBuf>,
    metrics: Option<Metrics>,
    watchers: Option<Watchers>,
    manager: &'a Manager,
}

impl<'a> Publisher<'a> {
    /// Tells who reads what we print, and who asked for a record.
    pub(super) fn here(args: &BalanceArgs, manager: &'a Manager) -> Result<Self, Failure> {
        let record = match &args.output {
            None => None,
            Some(path) => {
                let opened = OpenOptions::new().create(true).append(true).open(path);
                Some((path.clone(), opened.map_err(|why| unwritten(path, &why))?))
            }
        };
        let json = args.json;
        Ok(Self { json, record, target: None, metrics: None, watchers: None, manager })
    }

    /// Tells other programs too, as a daemon does.
    pub(super) fn daemon(
        config: &Config,
        args: &BalanceArgs,
        manager: &'a Manager,
    ) -> Result<Self, Failure> {
        let here = Self::here(args, manager)?;
        let metrics = match config.metrics {
            None => None,
            Some(address) => {
                let metrics = Metrics::serve(address, Root::live())?;
                let address = metrics.address();
                output::message(&format!("interleaf: metrics at http://{address}/metrics"));
                Some(metrics)
            }
        };
        let watchers = watchers(config.monitor.as_deref())?;
        Ok(Self { target: config.target.clone(), metrics, watchers, ..here })
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
        if let Some(metrics) = &mut self.metrics {
            metrics.count(period);
        }
        if let Some(watchers) = &mut self.watchers {
            watchers.tell(&(line.clone() + "\n"));
        }
        self.manager.status(period);
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

/// The socket at which others watch. Where nobody named one and it cannot be had, the daemon does
/// its work unwatched: a second one, for other processes, finds the first one's there.
fn watchers(path: Option<&Path>) -> Result<Option<Watchers>, Failure> {
    let unheard = |why: &SocketError| {
        let hint = "name another path, or stop who listens there";
        Failure::new(format!("nobody can watch: {why}"), hint)
    };
    match path {
        Some(path) => Watchers::listen(path).map(Some).map_err(|why| unheard(&why)),
        None => Ok(match Watchers::listen(Path::new(watchers::SOCKET)) {
            Ok(watchers) => Some(watchers),
            Err(why) => {
                let way = "`[publish] monitor` names another socket";
                output::message(&format!("interleaf: nobody can watch: {why}; {way}"));
                None
            }
        }),
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
