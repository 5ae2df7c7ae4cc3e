//! Parses the command-line arguments of the guest's program `load`.

use std::{path::PathBuf, time::Duration};

use interleaf_linux::machine::id_list::IdList;
use interleaf_model::predict::ActivePhase;

use crate::{
    step::Millis,
    words::{list, nodes, number, size},
};

#[derive(Debug, PartialEq)]
pub(super) struct LoadArgs {
    pub(super) platform: PathBuf,
    pub(super) demand: PathBuf,
    pub(super) threads: u32,
    /// Bytes of hot memory.
    pub(super) hot: usize,
    /// Bytes of cold memory; 0 for none.
    pub(super) cold: usize,
    /// Nodes to allocate from; `None` for the inherited memory policy.
    pub(super) bind: Option<IdList>,
    /// The node of each tier; `None` for tier `i` on node `i`.
    pub(super) nodes: Option<Vec<u32>>,
    pub(super) feed: Option<PathBuf>,
    pub(super) report: Option<PathBuf>,
    /// Emulated time divided by real time.
    pub(super) speed: f64,
    pub(super) phases: Vec<ActivePhase>,
    /// The file that selects the phase; `None` for phases in sequence.
    pub(super) phase_file: Option<PathBuf>,
    /// Real time after which the program exits; `None` if it runs until it is killed.
    pub(super) duration: Option<Duration>,
}

impl LoadArgs {
    pub(super) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut found = Self {
            platform: PathBuf::new(),
            demand: PathBuf::new(),
            threads: 0,
            hot: 0,
            cold: 0,
            bind: None,
            nodes: None,
            feed: None,
            report: None,
            speed: 1.0,
            phases: vec![],
            phase_file: None,
            duration: None,
        };
        while let Some(arg) = args.next() {
            let value = args.next().ok_or_else(|| format!("{arg} wants a value"))?;
            match arg.as_str() {
                "--platform" => found.platform = value.into(),
                "--demand" => found.demand = value.into(),
                "--threads" => found.threads = number(&value)?,
                "--hot" => found.hot = size(&value)?,
                "--cold" => found.cold = size(&value)?,
                "--bind" => found.bind = Some(nodes(&value)?),
                "--nodes" => found.nodes = Some(list(&value, &number)?),
                "--feed" => found.feed = Some(value.into()),
                "--report" => found.report = Some(value.into()),
                "--speed" => found.speed = above_zero(&value)?,
                "--phase" => found.phases.push(phase(&value)?),
                "--phase-file" => found.phase_file = Some(value.into()),
                "--for" => found.duration = Some(millis(&value)?.duration()),
                _ => return Err(format!("no argument: {arg}")),
            }
        }
        let wanted = [
            ("--platform FILE", found.platform.as_os_str().is_empty()),
            ("--demand FILE", found.demand.as_os_str().is_empty()),
            ("--threads N", found.threads == 0),
            ("--hot 128MiB", found.hot == 0),
        ];
        match wanted.iter().find(|(_, missing)| *missing) {
            Some((expected, _)) => Err(format!("it wants {expected}")),
            None => Ok(found),
        }
    }
}

/// Parses `60s:0.1`: the duration in emulated time with all pages on the first tier, and the
/// fraction of the threads that is active.
fn phase(text: &str) -> Result<ActivePhase, String> {
    let wrong = || format!("no phase, as 60s:0.1 is one: {text}");
    let (duration, active) = text.split_once(':').ok_or_else(wrong)?;
    let (local_s, active) = (millis(duration)?.duration().as_secs_f64(), above_zero(active)?);
    if local_s > 0.0 && active <= 1.0 { Ok(ActivePhase { local_s, active }) } else { Err(wrong()) }
}

fn millis(text: &str) -> Result<Millis, String> {
    text.parse::<Millis>().map_err(|why| why.to_string())
}

fn above_zero(text: &str) -> Result<f64, String> {
    let found: f64 = number(text)?;
    if found > 0.0 && found.is_finite() { Ok(found) } else { Err(format!("not above 0: {text}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LoadArgs, String> {
        LoadArgs::parse(text.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments_are_read() {
        let plain = "--platform /p.toml --demand /d.toml --threads 3 --hot 2MiB";
        let read = parse(plain).unwrap();
        let expected = (PathBuf::from("/p.toml"), PathBuf::from("/d.toml"), 3, 2 << 20, 0);
        assert_eq!((read.platform, read.demand, read.threads, read.hot, read.cold), expected);
        assert_eq!((read.speed, read.phases.len(), read.duration), (1.0, 0, None));
        let more = "--cold 1MiB --bind 1 --nodes 1,0 --feed /f --report /r --speed 2.5 \
                    --phase 60s:1.0 --phase 500ms:0.1 --phase-file /p --for 2s";
        let read = parse(&format!("{plain} {more}")).unwrap();
        assert_eq!((read.cold, read.speed), (1 << 20, 2.5));
        assert_eq!((read.bind, read.nodes), (Some([1].into_iter().collect()), Some(vec![1, 0])));
        let phases = [(60.0, 1.0), (0.5, 0.1)];
        assert_eq!(read.phases, phases.map(|(local_s, active)| ActivePhase { local_s, active }));
        assert_eq!(read.duration, Some(Duration::from_secs(2)));
        assert_eq!(read.phase_file, Some("/p".into()));
        for wrong in [
            "--speed 0",
            "--speed x",
            "--phase 60s",
            "--phase 60:1",
            "--phase 60s:1.1",
            "--phase 0s:1",
            "--nodes",
            "--hot 0MiB",
            "--threads 0",
            "--loud yes",
        ] {
            assert!(parse(&format!("{plain} {wrong}")).is_err(), "{wrong}");
        }
        assert_eq!(parse("--hot 1MiB").unwrap_err(), "it wants --platform FILE");
    }
}
