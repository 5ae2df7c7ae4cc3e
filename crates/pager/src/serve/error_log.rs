//! What the user is told of drives that fail, on standard error.

use crate::store::Lost;
use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

/// The least time between two messages of the same kind: a drive that has failed fails often.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells the user, and not too often.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    said: Option<Instant>,
    /// What was not said yet: how often, and what it was last.
    unsaid: Option<(u64, String)>,
}

impl Teller {
    /// Something could not be read or written.
    pub(crate) fn lost(&mut self, lost: &Lost) {
        let mut text = lost.to_string();
        if matches!(lost.why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            text += "\nhint: free space there, or name one more --store: it is tried again until \
                     the budget is full too";
        }
        let count = self.unsaid.take().map_or(1, |(count, _)| count + 1);
        self.unsaid = Some((count, text));
        if self.said.is_none_or(|said| said.elapsed() >= PAUSE) {
            self.say();
        }
    }

    /// Who touches the page at an address gets a signal, for what was lost last.
    pub(crate) fn signal(&mut self, address: usize) {
        self.say();
        line(&format!("the page at {address:#x} cannot be had: who touches it gets SIGBUS"));
    }

    fn say(&mut self) {
        let Some((count, text)) = self.unsaid.take() else { return };
        self.said = Some(Instant::now());
        line(&match count {
            1 => text,
            _ => format!("{text} ({count} times since it was said last)"),
        });
    }
}

fn line(text: &str) {
    // Without standard error there is nobody to tell.
    let text = format!("interleaf: {text}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
