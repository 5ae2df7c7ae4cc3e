//! `interleaf balance --monitor`: shows the decision of a running daemon in each control period.
//!
//! A thread connects to the daemon's socket, and connects again after the daemon restarts. It sends
//! the daemon's messages to the monitor. On a terminal the monitor draws the periods. Otherwise it
//! prints a line for each period.

mod history;
mod view;

use crate::verb::terminal;
use history::History;
use interleaf_console::{Failure, output};
use interleaf_daemon::SOCKET;
use interleaf_record::balance::BalancePeriod;
use ratatui::Frame;
use std::{
    io::{self, BufRead as _, BufReader, ErrorKind, Read as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};
use view::{BalanceView, Link};

/// Interval between attempts to connect again to a daemon that has ended.
const RETRY: Duration = Duration::from_millis(500);

/// Maximum wait for a key. After the wait, the view handles new periods and signals.
const TICK: Duration = Duration::from_millis(200);

/// Maximum length of a line from the daemon, bytes. A line has one period, and takes about 1000
/// bytes on a machine with eight tiers.
const LINE_MAX: u64 = 1 << 16;

/// A message from the thread that reads the daemon's socket.
enum Message {
    /// The connection is open. The daemon first sends its last periods again, and then new periods.
    Connected,
    Period(Box<BalancePeriod>),
    /// The daemon sent a line that is not a valid period.
    Unreadable,
    Disconnected,
}

/// Watches the daemon until a key or a signal ends the monitor.
pub(super) fn monitor(socket: Option<&Path>, json: bool) -> Result<(), Failure> {
    let socket = socket.unwrap_or(Path::new(SOCKET));
    let first = UnixStream::connect(socket).map_err(|why| connect_failure(socket, &why))?;
    let (to, messages) = channel();
    let path = PathBuf::from(socket);
    thread::Builder::new()
        .name("watch".into())
        .spawn(move || watch(first, &path, &to))
        .map_err(|why| connect_failure(socket, &why))?;
    if json || !terminal::is_there() {
        return plain(&messages, json);
    }
    let mut live = LiveBalance { view: BalanceView::new(socket.display().to_string()), messages };
    terminal::show(&mut live, TICK, "interleaf balance --monitor")
}

fn connect_failure(socket: &Path, why: &io::Error) -> Failure {
    let path = socket.display();
    match why.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            let other = match socket == Path::new(SOCKET) {
                true => "if it has another socket, name that: --monitor=SOCKET",
                false => "leave =SOCKET out for the usual one",
            };
            let hint = format!("start it with `interleaf balance`; {other}");
            Failure::new(format!("{path}: no daemon is there to be watched"), hint)
        }
        ErrorKind::PermissionDenied => Failure::new(
            format!("{path}: only the user who runs the daemon may watch it"),
            "watch as that user: sudo interleaf balance --monitor",
        ),
        _ => Failure::new(format!("{path}: {why}"), "name the socket of a daemon that runs"),
    }
}

/// Reads the daemon's messages, at first from the connection `first`, later from new connections to
/// `socket`. Sends them to `to`. Returns when the receiver of `to` is dropped.
fn watch(first: UnixStream, socket: &Path, to: &Sender<Message>) {
    let mut stream = Some(first);
    loop {
        match stream.take().map_or_else(|| UnixStream::connect(socket), Ok) {
            Ok(stream) => {
                if pass_on(stream, to).and_then(|()| to.send(Message::Disconnected).ok()).is_none()
                {
                    return;
                }
            }
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// Sends the messages of the connection `stream` to `to` until the connection ends. Returns `None`
/// if the receiver of `to` was dropped.
fn pass_on(stream: UnixStream, to: &Sender<Message>) -> Option<()> {
    to.send(Message::Connected).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = vec![];
        match (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(_) if line.last() == Some(&b'\n') => {}
            // Skip the rest of a line that is too long. Its beginning is reported as unreadable.
            Ok(read) if read as u64 == LINE_MAX => drop(reader.skip_until(b'\n')),
            // The connection has ended. If the daemon was killed, its last line has no line feed.
            Ok(_) | Err(_) => return Some(()),
        }
        let period = serde_json::from_slice(&line);
        to.send(period.map_or(Message::Unreadable, |period| Message::Period(Box::new(period))))
            .ok()?;
    }
}

/// Prints a line for each period: JSON or text.
fn plain(messages: &Receiver<Message>, json: bool) -> Result<(), Failure> {
    for message in messages {
        match message {
            Message::Connected => {}
            Message::Period(period) if json => {
                let line = interleaf_record::json_line(&period);
                output::data(&(line + "\n"))?;
            }
            Message::Period(period) => {
                output::data(&(interleaf_report::balance::line(&period) + "\n"))?
            }
            Message::Unreadable => output::message(&format!("interleaf: {}", view::STRANGE)),
            Message::Disconnected => output::message(&format!("interleaf: {}", view::GONE)),
        }
    }
    Ok(())
}

/// The view on a terminal, and the channel with the daemon's messages.
struct LiveBalance {
    view: BalanceView,
    messages: Receiver<Message>,
}

impl terminal::View for LiveBalance {
    fn update(&mut self) -> bool {
        self.messages.try_iter().for_each(|message| self.view.receive(message));
        true
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        self.view.draw(frame);
    }

    fn next(&mut self) {
        self.view.next_domain();
    }
}

impl BalanceView {
    fn receive(&mut self, message: Message) {
        match message {
            Message::Connected => {
                // Drop the kept periods: on each new connection, the daemon sends them again.
                self.history = History::default();
                self.link = Link::Connected;
            }
            Message::Period(period) => self.history.add(*period),
            Message::Unreadable => self.link = Link::Unreadable,
            Message::Disconnected => self.link = Link::Disconnected,
        }
    }
}
