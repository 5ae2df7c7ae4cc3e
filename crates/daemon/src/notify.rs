//! Messages to a service manager (sd_notify(3)): readiness, status, watchdog and stop. If there is
//! no service manager, no message is sent.

use interleaf_record::balance::BalancePeriod;
use sd_notify::NotifyState;
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// Number of watchdog notifications that are sent in one watchdog timeout.
const BEATS: u32 = 4;

/// The service manager that started this process, if any.
pub(super) struct Manager {
    /// The interval between watchdog notifications; `None` if the service has no watchdog.
    every: Option<Duration>,
    beaten: Cell<Instant>,
}

impl Manager {
    pub(super) fn new() -> Self {
        let every = sd_notify::watchdog_enabled().map(|span| span / BEATS);
        Self { every, beaten: Cell::new(Instant::now()) }
    }

    /// Reports that the setup is complete. `status` is the line that `systemctl status` shows.
    pub(super) fn ready(&self, status: &str) {
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Notifies the watchdog if a notification is due. The control loop calls this function at each
    /// sample.
    pub(super) fn alive(&self) {
        self.alive_at(Instant::now());
    }

    fn alive_at(&self, now: Instant) {
        if self.every.is_some_and(|every| now.duration_since(self.beaten.get()) >= every) {
            send(&[NotifyState::Watchdog]);
            self.beaten.set(now);
        }
    }

    /// Sets the line that `systemctl status` shows to the decision of `period`.
    pub(super) fn status(&self, period: &BalancePeriod) {
        let weights = period.target_weights.iter().map(u16::to_string).collect::<Vec<_>>();
        let (decision, reason) = (&period.decision, &period.reason);
        let line = format!("{}: {} {decision}: {reason}", period.domain, weights.join(":"));
        // Replace newlines, because text after a newline would begin another variable of the
        // message.
        send(&[NotifyState::Status(&line.replace(['\n', '\r'], " "))]);
    }

    /// Reports that the daemon is stopping. After that it restores settings.
    pub(super) fn stopping(&self) {
        send(&[NotifyState::Stopping]);
    }
}

fn send(state: &[NotifyState<'_>]) {
    // A failed notification does not stop the daemon.
    let _ = sd_notify::notify(state);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::publish::tests::document;
    use std::{env, os::unix::net::UnixDatagram, process::Command};

    /// The interval between watchdog notifications in `a_service_manager_is_notified`. It is so
    /// long that no notification becomes due while the test waits for a CPU.
    const EVERY: Duration = Duration::from_secs(24 * 3600);

    /// Sends each kind of message. `a_service_manager_is_notified` runs this test in a child
    /// process and checks the messages. In an ordinary run there is no service manager, and no
    /// message is sent.
    #[test]
    fn states_are_sent() {
        let manager = Manager::new();
        manager.ready("set up");
        manager.alive();
        let due = manager.beaten.get() + EVERY;
        manager.alive_at(due - Duration::from_nanos(1));
        manager.alive_at(due);
        manager.alive_at(due);
        manager.status(&BalancePeriod {
            reason: "two\nlines".into(),
            ..document("node0", [0, 1], [65, 35])
        });
        manager.stopping();
    }

    /// The socket that takes the place of a service manager receives each message that
    /// `states_are_sent` sends. That test runs in a child process, because environment variables
    /// apply to a whole process.
    #[test]
    fn a_service_manager_is_notified() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let test = module_path!().split_once("::").unwrap().1.to_owned() + "::states_are_sent";
        let done = Command::new(env::current_exe().unwrap())
            .args(["--exact", &test])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", (EVERY * BEATS).as_micros().to_string())
            .env_remove("WATCHDOG_PID")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        let received: Vec<String> = (0..4)
            .map(|_| {
                let mut bytes = [0; 200];
                let count = socket.recv(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes[..count]).trim_end().into()
            })
            .collect();
        let status = "STATUS=node0: 65:35 wait: two lines";
        assert_eq!(received, ["READY=1\nSTATUS=set up", "WATCHDOG=1", status, "STOPPING=1"]);
    }
}
