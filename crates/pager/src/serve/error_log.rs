//! Messages on standard error about drives that fail.

use crate::store::Lost;
use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

/// Minimum time between two messages: a failed drive fails often.
const PAUSE: Duration = Duration::from_secs(1);

/// A log whose rate is limited.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    said: Option<Instant>,
    /// Failures since the last message: their number, and the last one.
    unsaid: Option<(u64, String)>,
}

impl Teller {
    /// Logs a failed transfer.
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

    /// Logs that an access to a page will raise SIGBUS because of the last failure.
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
    // Without standard error the message is lost.
    let text = format!("interleaf: {text}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
