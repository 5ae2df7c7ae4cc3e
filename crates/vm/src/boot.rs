//! One boot of one kernel on one topology.

use std::{
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use interleaf_guest::{report::Line, step};

use crate::{
    initramfs::Initramfs,
    kernel::{Kernel, Series},
    outcome::{Outcome, Record},
    topology::Topology,
};

const QEMU: &str = "qemu-system-x86_64";

/// Far more than the longest boot takes on a machine that is several times slower than two idle
/// cores, so that only a guest that hangs meets it: it is no measure of anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(1800);

/// Emulation, all processors in one thread: with a thread for each, 2 of some 330 boots crashed
/// under QEMU 7.2, in one none of 250; and a boot is no faster for them.
const ACCELERATOR: &str = "tcg,thread=single";

/// QEMU's processor without the instruction `cmpxchg16b`, for which kernels have another way: QEMU
/// 7.2 now and then leaves wrong flags behind it. With it 15 of 70 boots of a 6.12 kernel crashed,
/// most in `kmalloc`.
const PROCESSOR: &str = "qemu64,-cx16";

/// A nanosecond of the guest is half an instruction, so that it is as fast as those that are not
/// steady on two idle cores; and its clock is not this machine's.
const STEADY: &[&str] = &["-icount", "shift=1,sleep=off", "-rtc", "clock=vm"];

/// The kernel speaks on the first serial port; `panic=-1` resets the machine at once when it
/// panics, and QEMU ends instead of resetting. Without `no_timer_check` it tries whether the timer
/// ticks by counting loops, and panics where a busy machine lets QEMU wait so long ("IO-APIC +
/// timer doesn't work"); kernels that know their hypervisor leave that out by themselves.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 oops=panic no_timer_check";

/// What the guest's program is by other names.
const PROGRAMS: [&str; 5] = ["actuate", "drain", "load", "touch", "work"];

/// A boot to be.
#[derive(Clone, Debug)]
pub struct Boot<'a> {
    /// The kernel.
    pub series: Series,
    /// The machine.
    pub topology: &'a Topology,
    /// The guest, as [`crate::program::build`] makes it of `interleaf-guest`.
    pub guest: &'a Path,
    /// Other static programs, by their names in the guest's `/bin`. Default: none.
    pub programs: Vec<(&'a str, &'a Path)>,
    /// Other files, of text, by their paths in the guest. Default: none.
    pub files: Vec<(String, PathBuf)>,
    /// What the guest does, in the language of [`interleaf_guest::step`].
    pub steps: &'a str,
    /// What the kernel's command line has more. Default: nothing.
    pub command_line: &'a str,
    /// How long it may take. Default: half an hour.
    pub limit: Duration,
    /// Whether the guest's clock counts the instructions that it runs, and leaves out what it
    /// sleeps: then nothing takes longer there because this machine is busy, but all that it
    /// computes is slower here. Default: no.
    pub steady: bool,
    /// What starts QEMU, which is its last argument but for those of QEMU. Default: nothing does.
    pub under: Vec<OsString>,
}

impl<'a> Boot<'a> {
    /// With defaults.
    #[must_use]
    pub fn new(series: Series, topology: &'a Topology, guest: &'a Path, steps: &'a str) -> Self {
        let (programs, files, under) = (vec![], vec![], vec![]);
        let (command_line, limit, steady) = ("", LIMIT, false);
        Self { series, topology, guest, programs, files, steps, command_line, limit, steady, under }
    }

    /// Boots, and waits for the end.
    ///
    /// # Errors
    ///
    /// The steps are none, or this machine's files cannot be read or written.
    pub fn run(&self) -> io::Result<Outcome> {
        step::parse(self.steps).map_err(io::Error::other)?;
        let series = self.series;
        let kernel = match series.find() {
            Ok(kernel) => kernel,
            Err(why) => return Ok(Outcome::KernelMissing { series, why }),
        };
        let folder = tempfile::tempdir()?;
        let start = Instant::now();
        let mut qemu = match self.command(&kernel, folder.path())?.spawn() {
            Ok(child) => Machine(child),
            Err(why) => return Ok(no_qemu(&why)),
        };
        let stdout = qemu.0.stdout.take().expect("its output is a pipe");
        let mut record = Record::default();
        let in_time = listen(stdout, start, self.limit, &mut record);
        if !in_time {
            qemu.0.kill()?;
        }
        let status = qemu.0.wait()?;
        record.took = start.elapsed();
        // What is not there is nothing said: QEMU did not come as far as to create the file.
        let console = fs::read(folder.path().join("console")).unwrap_or_default();
        record.console = String::from_utf8_lossy(&console).replace('\r', "");
        let panic = record.console.lines().find(|line| line.contains("Kernel panic - "));
        Ok(if let Some(why) = panic {
            Outcome::Panicked { why: why.to_string(), record }
        } else if !in_time {
            Outcome::TimedOut { limit: self.limit, record }
        } else if !status.success() {
            let mut why = String::new();
            if let Some(mut stderr) = qemu.0.stderr.take() {
                stderr.read_to_string(&mut why)?;
            }
            Outcome::QemuFailed { why: format!("{status}: {}", why.trim()) }
        } else if record.complete {
            Outcome::Said(record)
        } else {
            Outcome::Stopped(record)
        })
    }

    /// The command, with its files in a folder.
    fn command(&self, kernel: &Kernel, folder: &Path) -> io::Result<Command> {
        let mut initramfs = Initramfs::default();
        initramfs.program("/init", self.guest)?;
        for name in PROGRAMS {
            initramfs.link(&format!("/bin/{name}"), "/init");
        }
        for (name, file) in &self.programs {
            initramfs.program(&format!("/bin/{name}"), file)?;
        }
        for (path, file) in &self.files {
            initramfs.text(path, &fs::read_to_string(file)?);
        }
        initramfs.text("/steps", self.steps);
        let initrd = folder.join("initramfs");
        fs::write(&initrd, initramfs.archive()?)?;

        let mut words = self.under.iter().cloned().chain([QEMU.into()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .args(self.topology.flags())
            .args([
                "-accel",
                ACCELERATOR,
                "-cpu",
                PROCESSOR,
                "-nodefaults",
                "-display",
                "none",
                "-no-reboot",
            ])
            .arg("-kernel")
            .arg(&kernel.image)
            .arg("-initrd")
            .arg(&initrd)
            .args(["-append", format!("{COMMAND_LINE} {}", self.command_line).trim()])
            .arg("-serial")
            .arg(format!("file:{}", folder.join("console").display()))
            .args(["-chardev", "stdio,id=guest,signal=off", "-serial", "chardev:guest"])
            .args(if self.steady { STEADY } else { &[] })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }
}

/// What a boot of a kernel of this series needs and is not there, if anything: to be asked before
/// a guest is built for it.
#[must_use]
pub fn missing(series: Series) -> Option<Outcome> {
    if let Err(why) = series.find() {
        return Some(Outcome::KernelMissing { series, why });
    }
    let mut version = Command::new(QEMU);
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null());
    version.status().err().map(|why| no_qemu(&why))
}

fn no_qemu(why: &io::Error) -> Outcome {
    Outcome::QemuMissing { why: format!("{QEMU}: {why}; apt-get install qemu-system-x86") }
}

/// A QEMU that does not outlive the one who waits for it.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // It fails when QEMU has ended, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes in what the guest says until the port is closed; whether that was in time.
fn listen(port: ChildStdout, start: Instant, limit: Duration, record: &mut Record) -> bool {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(port).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    while start.elapsed() < limit {
        match lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
            // The firmware may say something of its own on the port; the guest's lines are known
            // by their marks.
            Ok(text) => {
                if let Ok(line) = text.parse::<Line>() {
                    record.booted.get_or_insert_with(|| start.elapsed());
                    record.hear(line);
                }
            }
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    }
    false
}
