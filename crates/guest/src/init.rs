//! `/init` is process 1, the only process that the kernel starts. It mounts the file systems,
//! executes the steps, reports their results on the second serial port, and powers off.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    mount::{MountFlags, mount},
    process::{Pid, kill_process},
    system::{RebootCommand, reboot, uname},
};

use interleaf_linux::{process::numa_maps, root::Root};

use crate::{
    blocks, files,
    pages::Pages,
    report::{Ending, Line},
    step::{self, Signal, Step},
};

/// The serial port to which the report is written.
const PORT: &str = "/dev/ttyS1";

/// The file of the steps, in the language of [`step`].
const STEPS: &str = "/steps";

/// Time limit of a wait for a program or a file. It is long, because emulated processors are slow.
/// The host has a longer limit for the whole guest.
const PATIENCE: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);

/// File systems to mount: type and mount point.
const MOUNTS: [(&str, &str); 5] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/tmp"),
    ("cgroup2", "/sys/fs/cgroup"),
];

/// Executes all steps and powers off. Returns only on failure. The kernel then panics, because init
/// exits.
pub fn main() -> ExitCode {
    let done = serve();
    // Power off after `serve` has returned: `serve` closes the port on return, and closing sends
    // the remaining output.
    if let Err(why) = done.and_then(|()| Ok(reboot(RebootCommand::PowerOff)?)) {
        let _ = writeln!(io::stderr(), "init: {why}");
    }
    ExitCode::FAILURE
}

fn serve() -> io::Result<()> {
    for (kind, folder) in MOUNTS {
        fs::create_dir_all(folder)?;
        mount(kind, folder, kind, MountFlags::empty(), None).map_err(|why| {
            io::Error::new(io::Error::from(why).kind(), format!("{kind} on {folder}: {why}"))
        })?;
    }
    let mut port = OpenOptions::new().read(true).write(true).open(PORT)?;
    // A guest whose snapshot is taken boots without the file of the steps. Each guest that starts
    // from the snapshot receives its own steps from the host.
    if !fs::exists(STEPS)? {
        blocks::receive(&port)?;
    }
    let mut report = |line: Line| writeln!(port, "{line}");
    report(Line::Release(uname().release().to_string_lossy().into_owned()))?;
    let steps = step::parse(&fs::read_to_string(STEPS)?).map_err(io::Error::other)?;
    let mut started = Started(BTreeMap::new());
    for (at, step) in steps.iter().enumerate() {
        report(Line::Step(at + 1, step.to_string()))?;
        let (shown, ending) = started.take(step);
        for line in shown.lines() {
            report(Line::Output(line.to_string()))?;
        }
        report(Line::End(at + 1, ending))?;
    }
    report(Line::Off)
}

/// The programs that steps started, by name.
struct Started(BTreeMap<String, Program>);

struct Program {
    child: Child,
    /// Number of output lines up to the last line that a step awaited.
    lines_seen: usize,
}

impl Started {
    /// Executes a step; returns its output and its ending.
    fn take(&mut self, step: &Step) -> (String, Ending) {
        let mut shown = String::new();
        let ending = match self.try_take(step, &mut shown) {
            Ok(Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => Ending::Exit(code),
                (None, signal) => Ending::Signal(signal.unwrap_or(0)),
            },
            Ok(None) => Ending::Done,
            // The report has the ending on a single line, so newlines in the message become spaces.
            Err(why) => Ending::Failed(why.to_string().replace('\n', " ")),
        };
        (shown, ending)
    }

    fn try_take(&mut self, step: &Step, shown: &mut String) -> io::Result<Option<ExitStatus>> {
        let pid = |name: &str| self.0.get(name).map(|program| program.child.id());
        match &step.with_pids(&pid).map_err(io::Error::other)? {
            Step::Run { command } => {
                let output = self::command(command).output()?;
                shown.push_str(&String::from_utf8_lossy(&output.stdout));
                shown.push_str(&String::from_utf8_lossy(&output.stderr));
                return Ok(Some(output.status));
            }
            Step::Start { name, command } => self.start(name, command)?,
            Step::Await { name, text } => self.await_line(name, text)?,
            Step::Until { path, text } => until(path, text)?,
            Step::Kill { name, signal } => {
                kill_process(Pid::from_child(&self.find(name)?.child), number(*signal))?;
            }
            Step::Wait { name } => {
                let status = self.wait(name)?;
                shown.push_str(&printed(name)?);
                return Ok(Some(status));
            }
            Step::Pages { name } => {
                let found = numa_maps::mappings(&Root::live(), self.find(name)?.child.id());
                let mappings = found.map_err(io::Error::other)?.unwrap_or_default();
                *shown = Pages(numa_maps::anonymous(&mappings)).to_string();
            }
            Step::Sleep(millis) => thread::sleep(millis.duration()),
            Step::Read(path) if files::is_pattern(path) => *shown = files::read_all(path)?,
            Step::Read(path) => *shown = String::from_utf8_lossy(&fs::read(path)?).into_owned(),
            Step::List(path) => *shown = files::names(path)?.join("\n"),
            Step::Dump(folder) => *shown = files::dump(folder)?,
            Step::Write { path, text } => {
                let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
                file.write_all(format!("{text}\n").as_bytes())?;
            }
        }
        Ok(None)
    }

    fn find(&mut self, name: &str) -> io::Result<&mut Program> {
        let none = || io::Error::other(format!("no program was started as {name}"));
        self.0.get_mut(name).ok_or_else(none)
    }

    fn start(&mut self, name: &str, words: &[String]) -> io::Result<()> {
        let out = File::create(output(name))?;
        let mut command = command(words);
        let child = command.stdout(out.try_clone()?).stderr(out).spawn()?;
        self.0.insert(name.to_string(), Program { child, lines_seen: 0 });
        Ok(())
    }

    fn await_line(&mut self, name: &str, text: &str) -> io::Result<()> {
        let program = self.find(name)?;
        let is_awaited = |line: &str| match text.strip_prefix('*') {
            Some(part) => line.contains(part),
            None => line.starts_with(text),
        };
        let deadline = Instant::now() + PATIENCE;
        let mut bytes_seen = None;
        while Instant::now() < deadline {
            let ended = program.child.try_wait()?;
            // The output is read after `try_wait`, because the awaited line may be the last line
            // before the exit. Output that has not grown is not read again.
            let bytes = fs::metadata(output(name))?.len();
            let has_grown = bytes_seen.replace(bytes) != Some(bytes);
            if !has_grown && ended.is_none() {
                thread::sleep(POLL);
                continue;
            }
            let printed = printed(name)?;
            if let Some(at) = printed.lines().skip(program.lines_seen).position(is_awaited) {
                program.lines_seen += at + 1;
                return Ok(());
            }
            if let Some(status) = ended {
                return Err(io::Error::other(format!(
                    "{name} ended ({status}), saying: {printed}"
                )));
            }
            thread::sleep(POLL);
        }
        Err(io::Error::other(format!("{name} did not print {text} within {PATIENCE:?}")))
    }

    fn wait(&mut self, name: &str) -> io::Result<ExitStatus> {
        let child = &mut self.find(name)?.child;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        Err(io::Error::other(format!("{name} did not end within {PATIENCE:?}")))
    }
}

fn until(path: &Path, text: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match fs::read_to_string(path) {
            Ok(all) if all.contains(text) => return Ok(()),
            Ok(_) => {}
            // A file of the kernel may be busy for a moment, as files of DAMON are. The file of a
            // device may be missing until the kernel finds the device.
            Err(why) if why.kind() == io::ErrorKind::ResourceBusy => {}
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(why),
        }
        thread::sleep(POLL);
    }
    let path = path.display();
    Err(io::Error::other(format!("{path} did not have {text} within {PATIENCE:?}")))
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("PATH", "/bin").stdin(Stdio::null());
    command
}

fn output(name: &str) -> PathBuf {
    Path::new("/tmp").join(format!("{name}.out"))
}

fn printed(name: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(output(name))?).into_owned())
}

fn number(signal: Signal) -> rustix::process::Signal {
    use rustix::process::Signal as Posix;
    match signal {
        Signal::Hup => Posix::HUP,
        Signal::Int => Posix::INT,
        Signal::Kill => Posix::KILL,
        Signal::Usr1 => Posix::USR1,
        Signal::Usr2 => Posix::USR2,
        Signal::Term => Posix::TERM,
        Signal::Cont => Posix::CONT,
        Signal::Stop => Posix::STOP,
    }
}
