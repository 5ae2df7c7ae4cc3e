//! Publishes the periods of the daemon: on stdout, in a record, as a file of target weights, as
//! metrics, and to monitor clients and the service manager.

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

/// The mode of the file of target weights, which other users may read.
const TARGET_MODE: u32 = 0o644;

/// The outputs to which each period is written.
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

/// The file to which the target weights of each period are written.
struct Target {
    path: PathBuf,
    outlet: Outlet,
    /// The identity of the file that was written last. When the daemon ends, it removes the target
    /// file only if the file still has this identity.
    id: Option<FileId>,
}

impl<'a> Publisher<'a> {
    /// Returns a publisher that writes to stdout and to the record of `options`, if any.
    pub(super) fn to_stdout(options: &Options, manager: &'a Manager) -> Result<Self, Failure> {
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

    /// Returns a publisher that also writes to the outputs of the configuration: target file,
    /// metrics and monitor socket.
    pub(super) fn daemon(
        config: &Config,
        options: &Options,
        manager: &'a Manager,
    ) -> Result<Self, Failure> {
        let outputs = Self::to_stdout(options, manager)?;
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
        Ok(Self { target, metrics, watchers, ..outputs })
    }

    /// Publishes the JSON documents of a period, one for each domain (socket). An output to which
    /// the write fails lacks the period. Of consecutive failed writes to an output, only the first
    /// is reported.
    ///
    /// # Errors
    /// When the reader of stdout has closed the pipe.
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
                watchers.send(&(line.clone() + "\n"));
            }
            self.manager.status(document);
            let text = if self.json { line } else { interleaf_report::balance::line(document) };
            let printed = self.stdout.write(&text);
            if printed.as_ref().is_err_and(|why| why.kind() == ErrorKind::BrokenPipe) {
                return Err(Failure::BrokenPipe);
            }
            self.printed.report(printed);
        }
        Ok(())
    }

    /// Removes the target file, which is no longer updated.
    ///
    /// # Errors
    /// When the record or stdout lacks periods.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        if let Some(Target { path, id: Some(id), .. }) = self.target.take() {
            // Another daemon may have replaced the target file since. Then `remove_kept` keeps the
            // new file.
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
            // A full disk is no error now, because space may be free when the file is written.
            Err(why) if why.kind() != ErrorKind::StorageFull => {
                Err(output::file_failure(path, &why))
            }
            _ => Ok(Self { path: path.into(), outlet, id: None }),
        }
    }

    fn publish(&mut self, period: &[BalancePeriod]) {
        let kept = replace::kept(&self.path, weights(period).as_bytes(), TARGET_MODE);
        self.outlet.report(kept.map(|id| self.id = Some(id)));
    }
}

/// Opens the monitor socket at `path`, or at the default path. Another daemon, which steers other
/// processes, may listen at the default path. Therefore a failure at the default path is printed
/// and is no error.
fn watchers(path: Option<&Path>) -> Result<Option<Watchers>, Failure> {
    let unheard = |why: &SocketError| {
        let hint = "name another path, or stop the program that listens there";
        Failure::new(format!("there is no monitor socket: {why}"), hint)
    };
    match path {
        Some(path) => Watchers::listen(path).map(Some).map_err(|why| unheard(&why)),
        None => Ok(match Watchers::listen(Path::new(watchers::SOCKET)) {
            Ok(watchers) => Some(watchers),
            Err(why) => {
                let hint = "`[publish] monitor` names another path";
                output::message(&format!("interleaf: there is no monitor socket: {why}; {hint}"));
                None
            }
        }),
    }
}

/// Formats the target weights, with one line for each domain (socket), such as `0:65,2:35`. A line
/// has each node of the domain and its weight.
fn weights(period: &[BalancePeriod]) -> String {
    let line = |document: &BalancePeriod| {
        let nodes = document.nodes.iter().zip(&document.target_weights);
        let weights: Vec<String> = nodes.map(|(node, weight)| format!("{node}:{weight}")).collect();
        weights.join(",") + "\n"
    };
    period.iter().map(line).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_record::balance::SCHEMA;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    /// Returns the JSON document of a period of a domain (socket), without counter readings.
    pub(crate) fn document(domain: &str, nodes: [u32; 2], weights: [u16; 2]) -> BalancePeriod {
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
        assert!(!path.exists(), "it is not to be relied on yet");
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
        // An implementation might use these names for temporary files. Another user of the folder
        // could plant symlinks with these names for root to follow or to remove.
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
        let Err(Failure::Error { hint, .. }) = Target::new(&folder.path().join("link")) else {
            panic!("the target is a symbolic link")
        };
        assert!(hint.ends_with("or remove the symbolic link"), "{hint}");
    }
}
