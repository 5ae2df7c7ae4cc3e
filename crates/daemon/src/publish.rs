//! Publishes the periods of the daemon while it runs.

use crate::{
    config::Config,
    metrics::Metrics,
    notify::Manager,
    options::Options,
    outlet::{LineFile, Outlet},
    watchers::{self, Watchers},
};
use interleaf_console::{Failure, output};
use interleaf_linux::{
    launch::unix_socket::SocketError,
    replace::{self, Existing, FileId},
    root::Root,
};
use interleaf_record::balance::BalancePeriod;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The mode of the file with the wanted weights: it is for others, and no secret.
const TARGET_MODE: u32 = 0o644;

/// The readers of a period: stdout, a record, and other programs.
pub(super) struct Publisher<'a> {
    json: bool,
    stdout: output::Lines,
    printed: Outlet,
    record: Option<LineFile>,
    target: Option<Target>,
    metrics: Option<Metrics>,
    watchers: Option<Watchers>,
    manager: &'a Manager,
}

/// A file with the wanted weights.
struct Target {
    path: PathBuf,
    outlet: Outlet,
    /// The file that was written last.
    id: Option<FileId>,
}

impl<'a> Publisher<'a> {
    /// Tells who reads what we print, and who asked for a record.
    pub(super) fn here(options: &Options, manager: &'a Manager) -> Result<Self, Failure> {
        let record = match &options.output {
            None => None,
            Some(path) => {
                let file = output::growing(path, Existing::Append)?;
                Some(LineFile::new(path.clone(), file))
            }
        };
        Ok(Self {
            json: options.json,
            stdout: output::Lines::default(),
            printed: Outlet::new("stdout"),
            record,
            target: None,
            metrics: None,
            watchers: None,
            manager,
        })
    }

    /// Tells other programs too, as a daemon does.
    pub(super) fn daemon(
        config: &Config,
        options: &Options,
        manager: &'a Manager,
    ) -> Result<Self, Failure> {
        let here = Self::here(options, manager)?;
        let metrics = match config.metrics {
            None => None,
            Some(address) => {
                let metrics = Metrics::serve(address, config.period, Root::live())?;
                let address = metrics.address();
                output::message(&format!("interleaf: metrics at http://{address}/metrics"));
                Some(metrics)
            }
        };
        let target = config.target.as_deref().map(Target::new).transpose()?;
        let watchers = watchers(config.monitor.as_deref())?;
        Ok(Self { target, metrics, watchers, ..here })
    }

    /// Tells what happened in a period, in each domain. What cannot be written is told once and
    /// left out.
    ///
    /// # Errors
    /// When whoever read stdout has gone.
    pub(super) fn publish(&mut self, period: &[BalancePeriod]) -> Result<(), Failure> {
        if let Some(target) = &mut self.target {
            target.publish(period);
        }
        for document in period {
            let line = interleaf_record::json_line(document);
            if let Some(record) = &mut self.record {
                record.add(&line);
            }
            if let Some(metrics) = &mut self.metrics {
                metrics.count(document);
            }
            if let Some(watchers) = &mut self.watchers {
                watchers.tell(&(line.clone() + "\n"));
            }
            self.manager.status(document);
            let text = if self.json { line } else { interleaf_report::balance::line(document) };
            let printed = self.stdout.write(&text);
            if printed.as_ref().is_err_and(|why| why.kind() == ErrorKind::BrokenPipe) {
                return Err(Failure::BrokenPipe);
            }
            self.printed.tell(printed);
        }
        Ok(())
    }

    /// Removes what nobody looks after from now on.
    ///
    /// # Errors
    /// When periods are missing in the record or on stdout.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        if let Some(Target { path, id: Some(id), .. }) = self.target.take() {
            // Another daemon may have written its own there since.
            let _ = replace::remove_kept(&path, id);
        }
        self.record.as_ref().map_or(Ok(()), LineFile::missing)?;
        self.printed.missing()
    }
}

impl Target {
    fn new(path: &Path) -> Result<Self, Failure> {
        let outlet = Outlet::new(path.display().to_string());
        match replace::check_kept(path) {
            // The disk may have space later.
            Err(why) if why.kind() != ErrorKind::StorageFull => {
                Err(output::file_failure(path, &why))
            }
            _ => Ok(Self { path: path.into(), outlet, id: None }),
        }
    }

    fn publish(&mut self, period: &[BalancePeriod]) {
        let kept = replace::kept(&self.path, weights(period).as_bytes(), TARGET_MODE);
        self.outlet.tell(kept.map(|id| self.id = Some(id)));
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

/// The weights that are wanted, as other programs read them, a line for each socket: `0:65,2:35`.
fn weights(period: &[BalancePeriod]) -> String {
    let line = |document: &BalancePeriod| {
        let nodes = document.nodes.iter().zip(&document.target_weights);
        let weights: Vec<String> = nodes.map(|(node, weight)| format!("{node}:{weight}")).collect();
        weights.join(",") + "\n"
    };
    period.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_record::balance::SCHEMA;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    fn document(domain: &str, nodes: [u32; 2], weights: [u16; 2]) -> BalancePeriod {
        BalancePeriod {
            schema: SCHEMA.into(),
            time_s: 6.0,
            domain: domain.into(),
            nodes: nodes.into(),
            target_weights: weights.into(),
            reached_share: None,
            reached_bytes: None,
            bandwidth_gbps: None,
            tier_bandwidth_gbps: vec![],
            tier_latency_ns: vec![],
            migrated_bytes: 0,
            decision: "wait".into(),
            reason: String::new(),
            advice: None,
        }
    }

    #[test]
    fn the_target_has_a_line_for_each_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target");
        let mut target = Target::new(&path).unwrap();
        assert!(!path.exists(), "nobody is to go by it yet");
        let sockets =
            [document("socket0", [0, 2], [65, 35]), document("socket1", [1, 3], [70, 30])];
        target.publish(&sockets);
        assert_eq!(fs::read_to_string(&path).unwrap(), "0:65,2:35\n1:70,3:30\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }

    #[test]
    fn two_targets_are_apart_and_bystanders_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "root's").unwrap();
        // Files that another user of the folder could plant for root to follow or to remove.
        symlink("secret", at("x.new")).unwrap();
        symlink("secret", at("x.a.new")).unwrap();
        let one = [document("socket0", [0, 1], [65, 35])];
        let other = [document("socket0", [0, 1], [50, 50])];
        let (mut a, mut b) = (Target::new(&at("x.a")).unwrap(), Target::new(&at("x.b")).unwrap());
        a.publish(&one);
        b.publish(&other);
        assert_eq!(fs::read_to_string(at("x.a")).unwrap(), "0:65,1:35\n");
        assert_eq!(fs::read_to_string(at("x.b")).unwrap(), "0:50,1:50\n");
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "root's");
        assert_eq!(fs::read_link(at("x.new")).unwrap(), Path::new("secret"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_target_that_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        symlink("elsewhere", folder.path().join("link")).unwrap();
        for path in [folder.path().join("link"), folder.path().into(), "/nowhere/target".into()] {
            assert!(Target::new(&path).is_err(), "{}", path.display());
        }
    }
}
