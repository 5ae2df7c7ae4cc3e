//! Runs a command under a memory policy, and passes signals on to the command.
//!
//! A wrapper has to outlive its command, in order to restore the settings that were changed for the
//! command. Signals that would end the wrapper are therefore passed on to the command, and the
//! wrapper ends when the command ends. On keys such as Ctrl-C, a terminal signals both the wrapper
//! and the command, so the wrapper does not pass these signals on. The wrapper cannot distinguish a
//! signal to its whole process group (`kill 0`, `timeout`) from a signal to itself alone, so the
//! command gets a signal to the group twice.
//!
//! A signal that was ignored when this process started stays ignored, as `nohup` and `trap '' INT`
//! request. The command starts with the dispositions and the mask that this process was started
//! with. SIGCHLD is the exception: the command starts with the default disposition, because wait(2)
//! does not report how a command ended while SIGCHLD is ignored.

use crate::{
    place::mempolicy::Policy,
    process::{
        self,
        table::{self, Process},
    },
    root::Root,
    stop_flag::StopFlag,
    syscall,
};
use rustix::{
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
    thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled},
};
use signal_hook::{
    consts::signal::{
        SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1,
        SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
    },
    flag,
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::siginfo::Cause,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// Signals that are passed on to the command: all signals whose default action ends a process,
/// except SIGKILL, SIGPIPE, real-time signals, and signals that report an error of the receiving
/// process (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP). Batch systems announce the
/// end of a job by some of the signals in this list. SIGSTKFLT is in the list although its name
/// means a stack fault: the kernel never sends SIGSTKFLT.
const SIGNALS: [i32; 14] = [
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGALRM,
    SIGTERM,
    SIGUSR1,
    SIGUSR2,
    SIGVTALRM,
    SIGPROF,
    SIGXCPU,
    SIGXFSZ,
    SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// The handlers of the signals in `SIGNALS`. While this value exists, such a signal is reported as
/// an [`Event`] and does not end the process.
#[derive(Debug)]
pub struct Signals {
    events: Receiver<Event>,
    sender: Sender<Event>,
    stop: StopFlag,
    arrived: Arc<Arrived>,
}

/// For each signal number, how many signals have arrived. All numbers in `SIGNALS` are below 32.
type Arrived = [AtomicU32; 32];

/// Maximum delay of the report that a signal has ended the command. The same signal may be on its
/// way to this process, because Ctrl-C signals the whole process group, and has to be reported
/// first. The kernel signals all processes of a group at once, but the thread of this process that
/// receives the signal may have to wait for a CPU.
const GROUP_SIGNAL_MAX: Duration = Duration::from_millis(500);

/// A signal to this process, or the end of the command that this process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A signal arrived at this process.
    Signal {
        number: i32,
        /// True when the signal has to be passed on to the command, because the command probably
        /// did not get it.
        is_for_us: bool,
    },
    /// A command ended: its process ID, and the time of its end. If the command was reaped before
    /// this event was received, the event stays in the channel, and may be received while the next
    /// command runs.
    Ended(Pid, Instant),
}

#[derive(Debug)]
pub struct Running<'a> {
    child: Child,
    signals: &'a Signals,
    started: Instant,
    elapsed: Duration,
    signal: Option<i32>,
    /// The processes of the command that were found when signals arrived; `None` if they are not
    /// recorded.
    processes: Option<Vec<Process>>,
}

/// The resources that a command and its descendants used. Descendants that no process waited for
/// are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Resources {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in kernel mode.
    pub system: Duration,
    /// Peak resident memory of the largest single process, bytes. The kernel's figure includes the
    /// time before exec, when the new process still has the peak of its parent (`exec_mmap` of
    /// Linux). `None` if the figure does not exceed the peak of this process: the command may have
    /// inherited it.
    pub resident_max: Option<u64>,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Bytes read from drives.
    pub read: u64,
    /// Bytes written to drives.
    pub written: u64,
}

/// Calls `start`, which starts a command, so that the command and its descendants get no
/// transparent huge pages.
///
/// # Errors
/// When the kernel refuses to disable transparent huge pages, or to restore the setting of this
/// process.
pub fn without_huge_pages<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    // Disable transparent huge pages for this process, because the command inherits this setting,
    // and restore the setting afterwards.
    let were_disabled = transparent_huge_pages_are_disabled()?;
    disable_transparent_huge_pages(true)?;
    let started = start();
    disable_transparent_huge_pages(were_disabled)?;
    Ok(started)
}

impl Signals {
    /// Registers handlers of the signals in `SIGNALS`, except signals that this process ignores.
    /// From now on the handled signals are reported as an [`Event`] and do not end the process.
    ///
    /// # Errors
    /// When a handler cannot be registered, or the thread that receives the signals cannot start.
    pub fn hold() -> io::Result<Self> {
        let (sender, events) = channel();
        // A signal that this process ignores gets no handler, so that it stays ignored in this
        // process and in the command, as nohup requests.
        let ignored = ignored(&Root::live());
        let is_ignored = |number: i32| ignored & (1 << (number - 1)) != 0;
        if is_ignored(SIGCHLD) {
            // SIGCHLD is the exception: while it is ignored, wait(2) does not report how a command
            // ended. Replace the disposition by a handler, which only sets a flag that nothing
            // reads.
            flag::register(SIGCHLD, Arc::default())?;
        }
        let held = SIGNALS.iter().filter(|number| !is_ignored(**number));
        let mut signals = SignalsInfo::<WithOrigin>::new(held)?;
        let to = sender.clone();
        let (stop, arrived) = (StopFlag::default(), Arc::<Arrived>::default());
        let (has_come, count) = (stop.clone(), arrived.clone());
        thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in signals.forever() {
                let number = origin.signal;
                let is_for_us = is_for_us(number, origin.cause);
                let event = Event::Signal { number, is_for_us };
                if to.send(event).is_err() {
                    return;
                }
                count[number as usize].fetch_add(1, SeqCst);
                has_come.set();
            }
        })?;
        Ok(Self { events, sender, stop, arrived })
    }

    /// Returns a flag that is set when a signal arrives. Long operations poll the flag and end
    /// early. Polling consumes no signal: functions such as [`Signals::wait`] still report the
    /// signal.
    pub fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// Returns the number of the oldest signal that has arrived and was not returned yet, if any.
    /// Discards reports of ended commands that precede this signal.
    pub fn arrived_signal(&self) -> Option<i32> {
        self.events.try_iter().find_map(|event| match event {
            Event::Signal { number, .. } => Some(number),
            Event::Ended(..) => None,
        })
    }

    /// Returns the number of the signal that has set the stop flag. If an earlier call has already
    /// returned this number, returns SIGTERM.
    pub fn stopping_signal(&self) -> i32 {
        self.arrived_signal().unwrap_or(SIGTERM)
    }

    /// Waits for a signal for at most `limit`, and returns its number. Returns `None` if no signal
    /// has arrived, or if the end of a command is reported first.
    pub fn wait(&self, limit: Duration) -> Option<i32> {
        match self.events.recv_timeout(limit) {
            Ok(Event::Signal { number, .. }) => Some(number),
            Ok(Event::Ended(..)) | Err(_) => None,
        }
    }

    /// Starts the command `program` with `arguments`. `policy` places the new pages of the command
    /// and of its descendants.
    ///
    /// # Errors
    /// When the kernel refuses the policy, or the command cannot be started.
    pub fn start(
        &self,
        policy: &Policy,
        program: &OsString,
        arguments: &[OsString],
    ) -> Result<Running<'_>, StartError> {
        self.start_into(None, &[], policy, program, arguments)
    }

    /// Does the same as [`Signals::start`], but redirects stdout and stderr to `output` if it is
    /// given, and adds `variables` to the environment of the command.
    ///
    /// # Errors
    /// The errors of [`Signals::start`].
    pub fn start_into(
        &self,
        output: Option<&File>,
        variables: &[(String, String)],
        policy: &Policy,
        program: &OsString,
        arguments: &[OsString],
    ) -> Result<Running<'_>, StartError> {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(output) = output {
            let copy = || output.try_clone().map_err(|why| StartError::command(program, why));
            command.stdout(copy()?).stderr(copy()?);
        }
        self.launch(&mut command, Some(policy))
    }

    /// Starts a command under the memory policy of this process, with `variables` added to its
    /// environment.
    ///
    /// # Errors
    /// When the command cannot be started.
    pub fn start_with(
        &self,
        variables: &[(&str, OsString)],
        program: &OsString,
        arguments: &[OsString],
    ) -> Result<Running<'_>, StartError> {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        self.launch(&mut command, None)
    }

    fn launch(
        &self,
        command: &mut Command,
        policy: Option<&Policy>,
    ) -> Result<Running<'_>, StartError> {
        let program = command.get_program().to_os_string();
        let failed = |why| StartError::command(&program, why);
        // Start the thread that waits for the end of the command before the command is started: if
        // the thread cannot be started, the command is not started either.
        let waiter = self.waiter().map_err(failed)?;
        let set = |policy: &Policy| {
            policy.set().map_err(|why| StartError::Policy { policy: policy.to_string(), why })
        };
        if syscall::inherited_ignored_sigpipe() {
            // Rust starts every child with the default disposition of SIGPIPE. This process was
            // started with SIGPIPE ignored, so the command has to ignore SIGPIPE too.
            syscall::with_ignored_signal(command, SIGPIPE);
        }
        policy.map_or(Ok(()), set)?;
        let begun = Instant::now();
        let started = command.spawn();
        // Reset the policy of this process, which was set only so that the command inherits it.
        policy.map_or(Ok(()), |_| set(&Policy::Default))?;
        let child = started.map_err(failed)?;
        // The send cannot fail: the waiter thread keeps the receiver until the process ID has
        // arrived.
        let _ = waiter.send(pid(&child));
        Ok(Running {
            child,
            signals: self,
            started: begun,
            elapsed: Duration::ZERO,
            signal: None,
            processes: None,
        })
    }

    /// Starts a thread that receives the process ID of a command and reports the end of that
    /// process. Returns the sender for the process ID.
    fn waiter(&self) -> io::Result<Sender<Pid>> {
        let (sender, pid_of_child) = channel();
        let (to, arrived) = (self.sender.clone(), self.arrived.clone());
        let before = arrived.each_ref().map(|count| count.load(SeqCst));
        thread::Builder::new().name("waiter".into()).spawn(move || {
            // `recv` fails if no command was started: the sender was then dropped.
            let Ok(pid) = pid_of_child.recv() else { return };
            // With `WNOWAIT`, the process is not reaped here; `Running::status` reaps it later.
            // Until then the process ID is not reused, so signals can still be sent to it.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let status = loop {
                match waitid(WaitId::Pid(pid), options) {
                    Err(rustix::io::Errno::INTR) => {}
                    found => break found.ok().flatten(),
                }
            };
            let at = Instant::now();
            if let Some(status) = status
                && let Some(signal) =
                    group_signal(status.terminating_signal(), status.exit_status())
            {
                // Wait until `signal` arrives at this process too. Signals that arrived before the
                // start of the command, and other signals, do not count.
                let (end, number) = (at + GROUP_SIGNAL_MAX, signal as usize);
                while arrived[number].load(SeqCst) == before[number] && Instant::now() < end {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            // The send fails when the `Signals` value was dropped: the event is then not needed.
            let _ = to.send(Event::Ended(pid, at));
        })?;
        Ok(sender)
    }
}

/// Returns the signal by which a command has ended, if it may be a signal to the whole process
/// group, and so to this process: from a key of the terminal, a hang-up, or the end of a service.
/// `signal` is the signal that ended the command, and `status` the exit status of a command that
/// ended by itself. Shells and handlers of signals report the signal number N as the status 128 +
/// N.
fn group_signal(signal: Option<i32>, status: Option<i32>) -> Option<i32> {
    let number = signal.or(status.map(|status| status - 128));
    number.filter(|number| [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(number))
}

/// Makes `command` start with the default disposition of every signal and with no blocked signals,
/// whatever the dispositions and the mask of this process are. Tests use this function, because
/// they may run under nohup, from Python or from a job runner that ignores signals.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    syscall::with_default_signals(command)
}

/// True when a signal has to be passed on to the command, because the command did not get it. A
/// signal from kill(2) is always passed on: this process cannot tell whether the sender named this
/// process or its whole process group.
fn is_for_us(number: i32, cause: Cause) -> bool {
    match number {
        _ if !matches!(cause, Cause::Kernel) => true,
        // Keys of a terminal send these signals to the whole foreground process group.
        SIGINT | SIGQUIT => false,
        // The terminal has hung up: the kernel sends SIGHUP to the session leader. The foreground
        // group, which the command is in, gets SIGHUP only when the leader has ended.
        SIGHUP => began_session(),
        // Other signals from the kernel (SIGALRM, SIGXCPU) come from a timer or a resource limit of
        // this process alone. The program that ran in this process before exec may have set the
        // timer or limit.
        _ => true,
    }
}

/// True when this process is the leader of its session. The session ID is read from `/proc`,
/// because getsid(2) returns 0 for a session of another PID namespace, which rustix does not
/// accept.
fn began_session() -> bool {
    let us = std::process::id();
    let found = process::process(&Root::live(), us);
    found.is_ok_and(|process| process.is_some_and(|process| process.session == us))
}

/// Returns the signals that this process ignores, as a mask in which bit 0 is signal 1.
fn ignored(root: &Root) -> u64 {
    let status = root.peek("/proc/self/status").ok().flatten().unwrap_or_default();
    interleaf_procfs::status::signals(status.as_bytes(), "SigIgn").unwrap_or(0)
}

/// The reason why a command does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the kernel refuses the policy \"{policy}\": {why}")]
    Policy { policy: String, why: io::Error },
    #[error("{program}: cannot be started: {why}")]
    Command { program: String, why: io::Error },
}

impl StartError {
    fn command(program: &OsStr, why: io::Error) -> Self {
        Self::Command { program: program.to_string_lossy().into_owned(), why }
    }
}

impl Running<'_> {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the command's end for at most `limit`, and passes signals on to the command
    /// meanwhile. Returns `None` if the command still runs.
    ///
    /// # Errors
    /// When wait(2) fails.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        match self.has_ended(limit) {
            true => self.status().map(Some),
            false => Ok(None),
        }
    }

    /// Does the same as [`Self::wait`], but returns only whether the command has ended, and does
    /// not reap its process. Therefore [`Running::resources`] can be read until [`Running::status`]
    /// reaps the process.
    pub fn has_ended(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.signals.events.recv_timeout(left) {
                Ok(Event::Ended(ended, at)) if ended == pid(&self.child) => {
                    self.elapsed = at.saturating_duration_since(self.started);
                    return true;
                }
                Ok(Event::Ended(..)) => {}
                Ok(Event::Signal { number, is_for_us }) => {
                    self.signal.get_or_insert(number);
                    self.add_processes();
                    if is_for_us {
                        self.signal(number);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return false,
                // This cannot happen: `self.signals` has a sender of this channel, so the channel
                // stays connected.
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    /// Returns the resources that the command used. Call it after the command's end
    /// ([`Running::has_ended`]), and before [`Running::status`] reaps the process.
    ///
    /// # Errors
    /// When waitid(2) fails.
    pub fn resources(&self) -> io::Result<Resources> {
        let usage = syscall::resources_of_ended(self.pid())?;
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
        let resident_max = Some(1024 * count(usage.ru_maxrss));
        let own = process::own_resident_max(&Root::live());
        Ok(Resources {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            resident_max: resident_max.filter(|_| resident_max > own),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            // On every file system, the kernel counts blocks of 512 bytes.
            read: 512 * count(usage.ru_inblock),
            written: 512 * count(usage.ru_oublock),
        })
    }

    /// Waits for the command's end and returns its exit status.
    ///
    /// # Errors
    /// When wait(2) fails.
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Returns the time since the start of the command.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time from the command's start to its end; zero until [`Self::wait`] or
    /// [`Self::has_ended`] has reported the end.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the first signal that this process received while it waited for the command; `None`
    /// if no signal has arrived.
    pub fn arrived_signal(&self) -> Option<i32> {
        self.signal
    }

    /// Makes this value record the processes of the command whenever a signal arrives, before the
    /// signal is passed on. Once the command has ended, its descendants have another parent and
    /// cannot be found any more.
    pub fn record_processes(&mut self) {
        self.processes.get_or_insert_default();
    }

    /// Returns the command and its descendants that were found when signals arrived, parents before
    /// children. Returns nothing if no signal has arrived, or if processes are not recorded
    /// ([`Self::record_processes`]).
    pub fn recorded_processes(&self) -> &[Process] {
        self.processes.as_deref().unwrap_or_default()
    }

    fn add_processes(&mut self) {
        let pid = self.pid();
        let Some(recorded) = &mut self.processes else { return };
        // If `/proc` cannot be read, no process is recorded; the command itself still gets the
        // signal.
        for found in table::tree(&Root::live(), pid).unwrap_or_default() {
            if recorded.iter().all(|known| known.identity() != found.identity()) {
                recorded.push(found);
            }
        }
    }

    pub fn signal(&self, number: i32) {
        send(self.pid(), number);
    }
}

/// Sends the signal `number` to the process `pid`, if the process still runs.
pub fn send(pid: u32, number: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some((pid, signal)) = pid.zip(Signal::from_named_raw(number)) {
        // The call fails if the process has just ended.
        let _ = kill_process(pid, signal);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[cfg(test)]
mod tests;
