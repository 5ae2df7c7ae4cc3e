//! `interleaf extend --monitor` without a command: watches a session that runs, from outside.
//!
//! What its processes do is on its board, so that nobody need be asked. On a terminal it is drawn;
//! elsewhere it is a line a second.

mod view;

use super::unbegun;
use crate::{
    document::extend::{ExtendDocument, Seen},
    failure::Failure,
    output, render,
    verb::{keys::ends, placed},
};
use interleaf_linux::command::Signals;
use interleaf_pager::session::Session;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};
use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};
use view::View;

/// How often it is looked at.
const TICK: Duration = Duration::from_millis(500);

/// Every so many looks are a line, where there is no terminal.
const LINE: u32 = 2;

/// Watches the session of a process, or the only one there is, until it ends.
pub(super) fn monitor(pid: Option<u32>, json: bool) -> Result<(), Failure> {
    let session = find(pid)?;
    let signals = Signals::hold().map_err(placed::unheld)?;
    if json || !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return plain(&session, &signals, json);
    }
    let unseen = |why: io::Error| {
        let hint = "pipe it elsewhere for a line a second: interleaf extend --monitor | cat";
        Failure::new(format!("the terminal cannot be drawn on: {why}"), hint)
    };
    // This also has it put back by whoever panics.
    let mut terminal = ratatui::try_init().map_err(unseen)?;
    let watched = live(&mut terminal, &session, &signals);
    let restored = ratatui::try_restore();
    watched.and(restored).map_err(unseen)
}

/// The session of a process, which is who began it, or one that is extended.
fn find(pid: Option<u32>) -> Result<Session, Failure> {
    let base = Session::base().map_err(unbegun)?;
    let mut sessions = Session::all(&base).map_err(unbegun)?;
    sessions.retain(Session::runs);
    let hint = "start one with interleaf extend --dram SIZE --store PATH -- COMMAND; only who runs \
                it may watch it";
    if let Some(pid) = pid {
        let has = |session: &Session| {
            let processes = session.board.processes();
            session.settings.keeper == pid
                || session.board.first() == Some(pid)
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

/// What a session did since it was first looked at.
struct Watch<'a> {
    session: &'a Session,
    seen: Seen,
    since: Instant,
}

impl<'a> Watch<'a> {
    fn new(session: &'a Session) -> Self {
        Self { session, seen: Seen::default(), since: Instant::now() }
    }

    /// How it is now; `None` when it has ended.
    fn look(&mut self) -> Option<ExtendDocument> {
        if !self.session.runs() {
            return None;
        }
        // Those who have gone are the keeper's affair.
        self.seen.watch(&self.session.board);
        let (settings, board) = (&self.session.settings, &self.session.board);
        let mut document = ExtendDocument::new(settings, board, &self.seen);
        document.elapsed_s = self.since.elapsed().as_secs_f64();
        Some(document)
    }
}

/// A line a second.
fn plain(session: &Session, signals: &Signals, json: bool) -> Result<(), Failure> {
    let mut watch = Watch::new(session);
    while let Some(document) = watch.look() {
        if json {
            let line = serde_json::to_string(&document)
                .map_err(|why| Failure::new(why.to_string(), "report it"))?;
            output::data(&(line + "\n"))?;
        } else {
            output::data(&(render::extend::line(&document) + "\n"))?;
        }
        if signals.wait(TICK * LINE).is_some() {
            return Ok(());
        }
    }
    output::message("interleaf: the session has ended");
    Ok(())
}

/// Draws it until it ends, or a key or a signal says to stop.
fn live(terminal: &mut DefaultTerminal, session: &Session, signals: &Signals) -> io::Result<()> {
    let mut watch = Watch::new(session);
    let mut view = View::default();
    while signals.come().is_none() {
        let Some(document) = watch.look() else { return Ok(()) };
        view.add(document);
        terminal.draw(|frame| view.draw(frame))?;
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && ends(key)
        {
            break;
        }
    }
    Ok(())
}
