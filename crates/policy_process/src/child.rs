//! The process of a policy: its messages, the time limit of its answers, and its end.

use crate::{PolicyProcessError, message::Answer};
use interleaf_linux::{process::is_exiting, root::Root, stop_flag::StopFlag};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid},
};
use serde::Serialize;
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// Maximum length of an answer including its line feed, bytes.
const LINE_MAX: u64 = 64 << 10;

/// The interval at which the stop flag is checked during the wait for an answer.
const LOOK: Duration = Duration::from_millis(50);

/// The time within which a process must begin to exit after its stdin was closed.
const END_LIMIT: Duration = Duration::from_millis(500);

/// The running process of a policy. It has its own process group. Therefore it can be killed
/// together with its children, and Ctrl-C in a terminal reaches Interleaf but not the policy.
pub(crate) struct Child {
    program: String,
    process: process::Child,
    /// The stdin of the process; `None` once it was closed.
    stdin: Option<ChildStdin>,
    lines: Receiver<io::Result<Vec<u8>>>,
    /// Number of valid answers so far. An error states the number of the line after these answers.
    answers: u64,
    is_failed: bool,
}

impl Child {
    pub(crate) fn start(program: &str, arguments: &[String]) -> Result<Self, PolicyProcessError> {
        let failed = |why| PolicyProcessError::Start { program: program.into(), why };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().map_err(failed)?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (sender, lines) = sync_channel(1);
        let child =
            Self { program: program.into(), process, stdin, lines, answers: 0, is_failed: false };
        if let Some(stdin) = &child.stdin {
            // A process that never reads fills the pipe of its stdin. With `NONBLOCK`, a write to
            // the full pipe fails and does not block.
            fcntl_setfl(stdin, OFlags::NONBLOCK).map_err(|why| failed(why.into()))?;
        }
        if let Some(stdout) = stdout {
            let reader = thread::Builder::new().name("policy".into());
            reader.spawn(move || read(stdout, &sender)).map_err(failed)?;
        }
        Ok(child)
    }

    /// Writes `message` to the process, and waits at most `limit` for the answer, which has a
    /// weight for each of `tiers` tiers. Returns `None` if `stop` is set before the answer arrives;
    /// the message has been written even then.
    pub(crate) fn ask(
        &mut self,
        message: &impl Serialize,
        tiers: usize,
        limit: Duration,
        stop: &StopFlag,
    ) -> Result<Option<Answer>, PolicyProcessError> {
        let answer = self.exchange(message, tiers, limit, stop);
        self.is_failed |= answer.is_err();
        answer
    }

    fn exchange(
        &mut self,
        message: &impl Serialize,
        tiers: usize,
        limit: Duration,
        stop: &StopFlag,
    ) -> Result<Option<Answer>, PolicyProcessError> {
        if let Ok(Ok(_)) = self.lines.try_recv() {
            return Err(self.invalid("it is more than one line for a line of stdin".into()));
        }
        let until = Instant::now() + limit;
        let line = serde_json::to_string(message).unwrap_or_default() + "\n";
        if let Some(stdin) = &mut self.stdin
            && let Err(why) = stdin.write_all(line.as_bytes())
        {
            return Err(match why.kind() {
                io::ErrorKind::WouldBlock => self.late(limit),
                _ => self.ended(),
            });
        }
        loop {
            if stop.is_set() {
                return Ok(None);
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(LOOK)) {
                Ok(Ok(line)) => return self.answer(&line, tiers).map(Some),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(self.late(limit)),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            }
        }
    }

    fn answer(&mut self, line: &[u8], tiers: usize) -> Result<Answer, PolicyProcessError> {
        if line.len() as u64 >= LINE_MAX {
            return Err(self.invalid(format!("it is longer than {} KiB", LINE_MAX >> 10)));
        }
        let text = String::from_utf8_lossy(line);
        let answer = Answer::parse(&text, tiers).map_err(|problem| self.invalid(problem))?;
        self.answers += 1;
        Ok(answer)
    }

    fn invalid(&self, problem: String) -> PolicyProcessError {
        PolicyProcessError::Answer {
            program: self.program.clone(),
            line: self.answers + 1,
            problem,
        }
    }

    fn late(&self, limit: Duration) -> PolicyProcessError {
        PolicyProcessError::Late {
            program: self.program.clone(),
            line: self.answers + 1,
            seconds: limit.as_secs_f64(),
        }
    }

    /// Returns the failure of a process that has closed its stdin or stdout.
    fn ended(&mut self) -> PolicyProcessError {
        self.stdin = None;
        let status = match self.wait(END_LIMIT) {
            Some(end) => match (end.exit_status(), end.terminating_signal()) {
                (Some(status), _) => format!("exit status {status}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "unknown status".into(),
            },
            None => "it closed stdin or stdout".into(),
        };
        PolicyProcessError::Ended { program: self.program.clone(), status, line: self.answers + 1 }
    }

    /// Waits for the end of the process without reaping it. Returns `None` if the process still
    /// runs after `limit`. If the process has begun to exit by then, waits longer, without a limit:
    /// its program no longer runs, but on a busy machine the kernel may take long to end it.
    fn wait(&self, limit: Duration) -> Option<WaitIdStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let (until, pid) = (Instant::now() + limit, self.process.id());
        loop {
            match waitid(WaitId::Pid(self.pid()), options) {
                Ok(None) | Err(Errno::INTR) => {}
                Ok(Some(end)) => return Some(end),
                Err(_) => return None,
            }
            if Instant::now() >= until && !is_exiting(&Root::live(), pid).unwrap_or(false) {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Child {
    /// Ends the process and its children. Closes the stdin of the process and, unless it has
    /// failed, waits for its end, for at most [`END_LIMIT`] until it begins to exit. Then sends
    /// SIGKILL to the process group.
    fn drop(&mut self) {
        self.stdin = None;
        if !self.is_failed {
            self.wait(END_LIMIT);
        }
        // Kill the group before the process is reaped, because afterwards another group may get the
        // same ID. A failure is ignored: no process of the group could be killed.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Sends each line of `stdout`, without its line feed, to `lines`, until `stdout` is closed or the
/// receiver is dropped. A line of more than [`LINE_MAX`] bytes is sent in pieces, the first of
/// which [`Child`] refuses.
fn read(stdout: ChildStdout, lines: &SyncSender<io::Result<Vec<u8>>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = vec![];
        match stdout.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                if lines.send(Ok(line)).is_err() {
                    return;
                }
            }
            Err(why) => {
                // The error of `send` is ignored: it means that the receiver was dropped.
                let _ = lines.send(Err(why));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// A shell answers the first message, but not the second. The error names line 2 of the shell's
    /// stdout. The time limit of the first answer is long, because it includes the start of the
    /// shell.
    #[test]
    fn a_late_answer_has_its_line() {
        let script = "read -r line; echo '{\"weights\": [1, 1]}'; read -r line; exec sleep 100";
        let mut child = Child::start("sh", &["-c".into(), script.into()]).unwrap();
        let stop = StopFlag::default();
        let first = child.ask(&"start", 2, Duration::from_secs(60), &stop).unwrap();
        assert_eq!(first.unwrap().shares, [0.5, 0.5]);
        let late = child.ask(&"period", 2, Duration::from_millis(500), &stop).unwrap_err();
        let said = "sh: the policy has not written line 2 of its stdout after 0.5 s";
        assert_eq!(late.to_string(), said);
    }

    /// If a shell exits without an answer, the error has its exit status. If a shell closes its
    /// stdout and keeps running, the error says so.
    #[test]
    fn a_process_without_stdout_has_ended_or_closed_it() {
        let mut seen = vec![];
        for script in ["read -r line; exit 3", "read -r line; exec >&-; exec sleep 100"] {
            let mut child = Child::start("sh", &["-c".into(), script.into()]).unwrap();
            let asked = child.ask(&"start", 2, Duration::from_secs(60), &StopFlag::default());
            seen.push(asked.unwrap_err().to_string());
        }
        let said = |why: &str| format!("sh: the policy ended ({why}) before line 1 of its stdout");
        assert_eq!(seen, ["exit status 3", "it closed stdin or stdout"].map(said));
    }
}
