//! Takes snapshots of booted guests. Most guests of the tests have one of a few kernels, topologies
//! and command lines. The test process boots one guest for each combination of kernel, topology and
//! command line. While this guest waits for its steps, the process saves the memory and the devices
//! of the guest. The other guests start from this snapshot, in a twentieth of the time of a boot.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::Path,
    process::{self, Command},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    machine::{Machine, console},
    outcome::Record,
    program,
    running_guests::GuestClock,
};

/// Limit of the rate at which QEMU saves a guest, bytes/s. The default of QEMU would slow the save
/// down; no save reaches this limit.
const RATE_MAX: u64 = 1 << 40;
/// Interval at which QEMU is asked whether it has saved the guest.
const POLL: Duration = Duration::from_millis(10);
/// Time limit of a reply of QEMU.
const REPLY_MAX: Duration = Duration::from_secs(300);

/// A saved guest, in an unlinked temporary file: the kernel frees the file when this process ends.
#[derive(Debug)]
pub(crate) struct Snapshot {
    file: File,
}

type Taken = Arc<OnceLock<Result<Arc<Snapshot>, String>>>;

/// The snapshots of this process, by the description of the guest (`Boot::kind`).
static SNAPSHOTS: Mutex<BTreeMap<String, Taken>> = Mutex::new(BTreeMap::new());

impl Snapshot {
    /// Returns the snapshot of a guest with the description `kind`. The first caller boots a guest
    /// within `limit`, and callers with the same `kind` wait for its snapshot. `command` gets a
    /// folder for files and the path of the socket of QEMU's monitor, and returns the QEMU command
    /// of a guest without steps.
    ///
    /// # Errors
    ///
    /// If the guest did not boot, or QEMU could not save it.
    pub(crate) fn of(
        kind: String,
        limit: Duration,
        clock: GuestClock,
        command: impl FnOnce(&Path, &Path) -> io::Result<Command>,
    ) -> io::Result<Arc<Self>> {
        let mut snapshots = SNAPSHOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = Arc::clone(snapshots.entry(kind).or_default());
        drop(snapshots);
        let taken = taken.get_or_init(|| {
            Self::take(limit, clock, command)
                .map(Arc::new)
                .map_err(|why| format!("no snapshot: {why}"))
        });
        taken.clone().map_err(io::Error::other)
    }

    fn take(
        limit: Duration,
        clock: GuestClock,
        command: impl FnOnce(&Path, &Path) -> io::Result<Command>,
    ) -> io::Result<Self> {
        let tmp = program::folder()?;
        let file = tempfile::tempfile_in(tmp.parent().unwrap_or(&tmp))?;
        let snapshot = Self { file };
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("qmp");
        let mut waiting = Machine::start(&mut command(folder.path(), &socket)?, clock)?;
        waiting.wait_until_ready(limit).map_err(|why| {
            let record = Record { console: console(folder.path()), ..Record::default() };
            io::Error::other(format!("{why}\n{record}"))
        })?;
        let mut monitor = Monitor::connect(&socket)?;
        monitor.execute("qmp_capabilities", json!({}))?;
        monitor.execute("migrate-set-parameters", json!({ "max-bandwidth": RATE_MAX }))?;
        // Stop the guest first. QEMU can save a running guest, but of about 80 snapshots of running
        // guests one was inconsistent: its kernel crashed at the first interrupt.
        monitor.execute("stop", json!({}))?;
        let uri = format!("exec:cat > {}", snapshot.path());
        monitor.execute("migrate", json!({ "uri": uri }))?;
        loop {
            let reply = monitor.execute("query-migrate", json!({}))?;
            match reply["status"].as_str() {
                Some("completed") => break,
                Some("failed" | "cancelled") => return Err(io::Error::other(reply.to_string())),
                _ => thread::sleep(POLL),
            }
        }
        Ok(snapshot)
    }

    /// Returns the argument of QEMU's option `-incoming`.
    pub(crate) fn incoming(&self) -> String {
        format!("exec:cat {}", self.path())
    }

    /// Returns a path under which other processes can open the unlinked file.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd())
    }
}

/// A connection to QEMU's monitor, in its protocol QMP.
struct Monitor {
    replies: BufReader<UnixStream>,
}

impl Monitor {
    fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        Ok(Self { replies: BufReader::new(stream) })
    }

    /// Executes a command and returns the result.
    fn execute(&mut self, name: &str, arguments: Value) -> io::Result<Value> {
        let command = json!({ "execute": name, "arguments": arguments });
        writeln!(self.replies.get_mut(), "{command}")?;
        loop {
            let mut line = String::new();
            if self.replies.read_line(&mut line)? == 0 {
                return Err(io::Error::other(format!("QEMU closed its monitor during {name}")));
            }
            let mut reply: Value = serde_json::from_str(&line)?;
            // Other lines are QEMU's greeting and events.
            if let Some(result) = reply.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = reply.get("error") {
                return Err(io::Error::other(format!("{name}: {error}")));
            }
        }
    }
}
