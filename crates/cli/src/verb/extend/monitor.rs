//! `interleaf extend --monitor` without a command: shows the statistics of a running session (a
//! command with extended memory, and the processes that it started).
//!
//! The processes of a session keep their statistics in a file of shared memory, the ledger. The
//! monitor reads this file, and sends the processes no request. On a terminal it draws the
//! statistics. Otherwise it prints a line each second.

mod view;

use crate::verb::terminal;
use interleaf_console::{Failure, output, system};
use interleaf_launch::extend::session_failure;
use interleaf_linux::launch::command::Signals;
use interleaf_pager::session::Session;
use interleaf_record::extend::{ExtendDocument, SessionProcesses};
use ratatui::Frame;
use std::time::{Duration, Instant};
use view::StatisticsView;

/// Interval between reads of the ledger.
const TICK: Duration = Duration::from_millis(500);

/// Number of ticks between two printed lines. Lines are printed if stdout is not a terminal.
const LINE: u32 = 2;

/// Watches the session of process `pid`, or without `pid` the user's only session, until it ends.
pub(super) fn monitor(pid: Option<u32>, json: bool) -> Result<(), Failure> {
    let session = find(pid)?;
    let watch = SessionSampler::new(&session);
    if json || !terminal::is_there() {
        return plain(watch, json);
    }
    let mut live = LiveStatistics { watch, view: StatisticsView::default() };
    terminal::show(&mut live, TICK, "interleaf extend --monitor")
}

/// Finds the running session of process `pid`, or without `pid` the only running session.
fn find(pid: Option<u32>) -> Result<Session, Failure> {
    let base = Session::base().map_err(session_failure)?;
    let mut sessions = Session::all(&base).map_err(session_failure)?;
    sessions.retain(Session::is_running);
    let hint = "start one with interleaf extend --dram SIZE --store PATH -- COMMAND; only who runs \
                it may watch it";
    if let Some(pid) = pid {
        let has = |session: &Session| {
            let processes = session.ledger.processes();
            session.settings.keeper == pid
                || session.ledger.first_process() == Some(pid)
                || processes.iter().any(|process| process.identity.pid == pid)
        };
        let found = sessions.into_iter().find(has);
        return found.ok_or_else(|| {
            Failure::new(format!("--monitor={pid}: no session has this process"), hint)
        });
    }
    match sessions.len() {
        1 => Ok(sessions.remove(0)),
        0 => Err(Failure::new("no session runs that could be watched", hint)),
        _ => {
            let name = |session: &Session| {
                format!(
                    "--monitor={} ({})",
                    session.settings.keeper,
                    session.settings.command.join(" ")
                )
            };
            let names: Vec<String> = sessions.iter().map(name).collect();
            Err(Failure::new(
                format!("{} sessions run", sessions.len()),
                format!("name one: {}", names.join(", ")),
            ))
        }
    }
}

struct SessionSampler<'a> {
    session: &'a Session,
    seen: SessionProcesses,
    since: Instant,
}

impl<'a> SessionSampler<'a> {
    fn new(session: &'a Session) -> Self {
        Self { session, seen: SessionProcesses::default(), since: Instant::now() }
    }

    /// Reads the statistics of the session. Returns `None` if the session has ended.
    fn poll(&mut self) -> Option<ExtendDocument> {
        if !self.session.is_running() {
            return None;
        }
        // Keep the list of processes: when a process has ended, the session's `interleaf extend`
        // removes it from the ledger.
        self.seen.update(&self.session.ledger);
        let (settings, ledger) = (&self.session.settings, &self.session.ledger);
        let mut document = ExtendDocument::new(settings, ledger, &self.seen);
        document.elapsed_s = self.since.elapsed().as_secs_f64();
        Some(document)
    }
}

/// Prints a line of statistics each second, until the session ends or a signal arrives.
fn plain(mut watch: SessionSampler<'_>, json: bool) -> Result<(), Failure> {
    let signals = Signals::hold().map_err(system::signal_failure)?;
    while let Some(document) = watch.poll() {
        if json {
            let line = interleaf_record::json_line(&document);
            output::data(&(line + "\n"))?;
        } else {
            output::data(&(interleaf_report::extend::line(&document) + "\n"))?;
        }
        if signals.wait(TICK * LINE).is_some() {
            return Ok(());
        }
    }
    output::message("interleaf: the session has ended");
    Ok(())
}

/// The view on a terminal, and the sampler that reads the statistics for the view.
struct LiveStatistics<'a> {
    watch: SessionSampler<'a>,
    view: StatisticsView,
}

impl terminal::View for LiveStatistics<'_> {
    fn update(&mut self) -> bool {
        let document = self.watch.poll();
        let runs = document.is_some();
        document.into_iter().for_each(|document| self.view.add(document));
        runs
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        self.view.draw(frame);
    }
}
