//! Snapshots of booted guests: most of the time of a short test is the boot of its kernel, so tests
//! with the same kernel, machine and programs share one boot.
//!
//! ```text
//! first test:  boot without steps ─▶ the guest waits for files ─▶ QEMU saves it, and ends
//! every test:  QEMU loads the snapshot ─▶ files and steps go to the guest's port ─▶ steps
//! ```
//!
//! A snapshot is a file without a name, which ends with the process of the tests.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
    process::{self, Child},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A saved guest.
#[derive(Debug)]
pub(crate) struct Snapshot {
    file: File,
    /// The release of its kernel.
    pub(crate) release: String,
}

/// The snapshot of a key, or `None` if a guest cannot be saved.
type Slot = Arc<Mutex<Option<Option<Arc<Snapshot>>>>>;

/// The snapshot of the guests with this key, which `boot` creates for the first of them; others
/// wait for it.
///
/// # Errors
///
/// The error of `boot`, which is tried again for the next guest.
pub(crate) fn of_key(
    key: &str,
    boot: impl FnOnce() -> io::Result<Option<Snapshot>>,
) -> io::Result<Option<Arc<Snapshot>>> {
    static ALL: Mutex<Option<HashMap<String, Slot>>> = Mutex::new(None);
    let slot = {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_or_insert_default().entry(key.to_string()).or_default().clone()
    };
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        *slot = Some(boot()?.map(Arc::new));
    }
    Ok(slot.clone().flatten())
}

impl Snapshot {
    /// Saves the guest of `monitor`.
    ///
    /// # Errors
    ///
    /// A file cannot be created, or QEMU refuses to save the guest.
    pub(crate) fn save(monitor: &mut Monitor, release: String) -> io::Result<Self> {
        let snapshot = Self { file: tempfile::tempfile()?, release };
        // The default limit is that of a network.
        monitor.ask("migrate-set-parameters", json!({ "max-bandwidth": 16_u64 << 30 }))?;
        monitor.ask("migrate", json!({ "uri": format!("exec:cat > {}", snapshot.path()) }))?;
        monitor.wait("query-migrate", "completed")?;
        monitor.ask("quit", json!({}))?;
        Ok(snapshot)
    }

    /// QEMU's arguments that load the snapshot.
    pub(crate) fn arguments(&self) -> [String; 2] {
        ["-incoming".into(), format!("exec:cat {}", self.path())]
    }

    /// The path of the file in this process.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd())
    }
}

/// A connection to QEMU's monitor (QMP).
#[derive(Debug)]
pub(crate) struct Monitor(BufReader<UnixStream>);

/// Time limit of loading and saving, and of a connection to the monitor.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

impl Monitor {
    /// QEMU's arguments for a monitor at `socket`.
    pub(crate) fn arguments(socket: &Path) -> [String; 2] {
        ["-qmp".into(), format!("unix:{},server=on,wait=off", socket.display())]
    }

    /// Connects to the monitor of a QEMU that starts.
    ///
    /// # Errors
    ///
    /// QEMU ended, or has no monitor within the time limit.
    pub(crate) fn connect(socket: &Path, qemu: &mut Child) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            let why = match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(why) => why,
            };
            if Instant::now() > deadline {
                return Err(why);
            }
            if let Some(status) = qemu.try_wait()? {
                let mut said = String::new();
                if let Some(stderr) = &mut qemu.stderr {
                    stderr.read_to_string(&mut said)?;
                }
                return Err(io::Error::other(format!("{status}: {}", said.trim())));
            }
            thread::sleep(POLL);
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut monitor = Self(BufReader::new(stream));
        monitor.line()?;
        monitor.ask("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Waits until the status in the answer to a command is `wanted`.
    ///
    /// # Errors
    ///
    /// The status is a failure, or is not reached within the time limit.
    pub(crate) fn wait(&mut self, command: &str, wanted: &str) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(command, json!({}))?;
            let status = answer["status"].as_str().unwrap_or_default();
            if status == wanted {
                return Ok(());
            }
            if status == "failed" || Instant::now() > deadline {
                return Err(io::Error::other(format!("{command}: {answer}")));
            }
            thread::sleep(POLL);
        }
    }

    /// Executes a command, and returns its result.
    fn ask(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.0.get_mut(), "{request}")?;
        loop {
            let mut answer = self.line()?;
            if let Some(why) = answer.get("error") {
                return Err(io::Error::other(format!("{command}: {why}")));
            }
            // Lines between are events.
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}
