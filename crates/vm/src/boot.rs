//! Boots a Linux kernel in QEMU on a memory topology, and runs the steps of the guest.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use interleaf_card_server::guest_clock::QEMU_LIMIT_MS;
use interleaf_guest::{blocks, step};

use crate::{
    initramfs::Initramfs,
    kernel::{Kernel, Series},
    machine::{self, CONSOLE, ListenEnd, Machine, Watch},
    outcome::{Outcome, Record},
    program,
    qemu::Unpacked,
    running_guests::GuestClock,
    snapshot::Snapshot,
    topology::Topology,
};

const QEMU: &str = "qemu-system-x86_64";

/// Default time limit of a guest: its boot and all its steps. Every guest of the tests takes far
/// less, even on a machine several times slower than two idle cores. Only a hanging guest reaches
/// the limit.
pub(crate) const LIMIT: Duration = Duration::from_secs(1800);

/// QEMU's accelerator: emulation (TCG) of all processors of the guest in one thread. With one
/// thread per processor, 2 of about 330 boots crashed under QEMU 7.2. With a single thread, none of
/// 250 boots crashed, and boots took no longer.
const ACCELERATOR: &str = "tcg,thread=single";

/// QEMU's processor without the instruction `cmpxchg16b`, for which kernels have a fallback. QEMU
/// 7.2 sometimes leaves wrong flags after the instruction: with this instruction, 15 of 70 boots of
/// a 6.12 kernel crashed, most in `kmalloc`.
const PROCESSOR: &str = "qemu64,-cx16";

/// Returns the QEMU arguments for a clock of the guest that counts executed instructions and skips
/// idle time. Load on the host therefore changes no duration in the guest, and a sleeping guest
/// takes no time of the host. On the guest's clock, each instruction takes 2^`shift` ns.
fn virtual_clock(shift: u32) -> [String; 4] {
    ["-icount".into(), format!("shift={shift},sleep=off"), "-rtc".into(), "clock=vm".into()]
}

/// The series whose guests always have the host's clock. With a clock that counts instructions,
/// Linux 6.1 waits for ever for its second processor.
const HOST_CLOCK: Series = Series::Of(6, 1);

/// The kernel logs to the first serial port. `panic=-1` resets the machine at once after a panic,
/// and QEMU exits instead of resetting. Without `no_timer_check` the kernel tests the timer by
/// counting loops, and panics if a busy host delays QEMU too long ("IO-APIC + timer doesn't work");
/// kernels that recognize their hypervisor skip the test even without the parameter.
const COMMAND_LINE: &str = "console=ttyS0 panic=-1 oops=panic no_timer_check";

/// Kernel parameters that skip initialisation which no test uses: the self-tests of ciphers and of
/// the random number generator, the kernel's certificates, the registration of BPF types, and the
/// names of constants in the formats of trace events. Without these parameters, a boot executes
/// twice as many instructions. A kernel ignores names of functions that it does not have.
const LEFT_OUT: &str = "cryptomgr.notests initcall_blacklist=load_system_certificate_list,\
    jent_mod_init,scx_init,bpf_tcp_ca_kfunc_init,trace_eval_init,\
    bpf_dummy_struct_ops_init,bpf_qdisc_kfunc_init,bpf_prog_test_run_init";

/// Names in `/bin` that link to the guest's program.
const PROGRAMS: [&str; 7] = ["actuate", "drain", "drive", "extend", "load", "touch", "work"];

#[derive(Clone)]
pub struct Boot<'a> {
    pub series: Series,
    pub topology: &'a Topology,
    /// True if each node with processors has a single processor, instead of the topology's number.
    /// The setting saves time: QEMU emulates all processors in one thread, and interrupts from
    /// one processor to another take up to a third of a guest's time. Default: false.
    pub has_single_processors: bool,
    /// The guest program ([`crate::program::build`]).
    pub guest: &'a Path,
    /// Other programs, by their name in the guest's `/bin`. The guest also gets the shared
    /// libraries that these programs are linked with. Default: none.
    pub programs: Vec<(&'a str, &'a Path)>,
    /// Other text files: their path in the guest, and the file on the host that is copied to it.
    /// Default: none.
    pub files: Vec<(String, PathBuf)>,
    /// Text files of this guest alone: their path in the guest, and their text. Default: none.
    pub texts: Vec<(String, String)>,
    /// True if the guest starts from the snapshot of a booted guest with the same kernel, topology,
    /// command line, clock, programs and files. Ignored if `device` or `under` is given. Default:
    /// false.
    pub is_resumed: bool,
    /// The guest's steps, in the language of [`interleaf_guest::step`].
    pub steps: &'a str,
    /// Additional parameters for the kernel's command line. Default: none.
    pub command_line: &'a str,
    /// Time limit of the boot and all steps. Default: half an hour.
    pub limit: Duration,
    /// The socket of a vfio-user device that QEMU presents to the guest. With a device, the guest's
    /// memory is shared, and QEMU comes from [`Unpacked`]. If `clock` is not given, the guest then
    /// has the host's clock, because the device follows that clock. Default: no device.
    pub device: Option<&'a Path>,
    /// Path of QEMU's plugin `interleaf-qemu-clock`, with which the device follows the guest's
    /// clock. The guest's clock then counts instructions. Default: none.
    pub clock: Option<&'a Path>,
    /// An instruction takes 2^`clock_shift` ns of the guest's clock. Calibrations and timed loops
    /// in the guest run for fixed times of this clock. With a larger shift, these times take fewer
    /// instructions, and therefore less time of the host. Default: 2. Tests in which the
    /// processor's speed matters use 1: 0.5 GIPS.
    pub clock_shift: u32,
    /// A folder whose files are copied into the guest, each to its path below the folder, as
    /// executable files. Default: none.
    pub root: Option<PathBuf>,
    /// Kernel modules, by their name in the guest's `/modules`. Default: none.
    pub modules: Vec<(String, PathBuf)>,
    /// Kills the machine when the watch returns true. Default: never.
    pub until: Option<&'a Watch<'a>>,
    /// Command line of a wrapper. QEMU and its arguments are appended to it. Default: none.
    pub under: Vec<OsString>,
}

impl<'a> Boot<'a> {
    /// Creates a boot with default parameters.
    #[must_use]
    pub fn new(series: Series, topology: &'a Topology, guest: &'a Path, steps: &'a str) -> Self {
        let (programs, files, texts, under) = (vec![], vec![], vec![], vec![]);
        Self {
            series,
            topology,
            has_single_processors: false,
            guest,
            programs,
            files,
            texts,
            is_resumed: false,
            steps,
            command_line: "",
            limit: LIMIT,
            device: None,
            clock: None,
            clock_shift: 2,
            root: None,
            modules: vec![],
            until: None,
            under,
        }
    }

    /// Boots the guest and waits for its end.
    ///
    /// # Errors
    ///
    /// If the steps cannot be parsed, files on the host cannot be read or written, no snapshot can
    /// be taken, or the unpacked QEMU for a guest with a device is missing.
    pub fn run(&self) -> io::Result<Outcome> {
        step::parse(self.steps).map_err(io::Error::other)?;
        let series = self.series;
        let kernel = match series.find() {
            Ok(kernel) => kernel,
            Err(why) => return Ok(Outcome::KernelMissing { series, why }),
        };
        let clock = self.guest_clock();
        let is_resumed = self.is_resumed && self.device.is_none() && self.under.is_empty();
        let waiting =
            |folder: &Path, socket: &Path| self.command(&kernel, folder, &Start::Waiting(socket));
        let snapshot = is_resumed
            .then(|| Snapshot::of(self.kind(&kernel), self.limit, clock, waiting))
            .transpose()?;
        let start = snapshot.as_deref().map_or(Start::Boot, Start::Resumed);
        let folder = tempfile::tempdir()?;
        let mut command = self.command(&kernel, folder.path(), &start)?;
        let mut qemu = match Machine::start(&mut command, clock) {
            Ok(machine) => machine,
            Err(why) => return Ok(no_qemu(&why)),
        };
        let blocks = blocks::pack(&self.texts());
        let mut record = Record::default();
        let end = qemu.listen(self.limit, self.until, &blocks, &mut record);
        if end != ListenEnd::All {
            qemu.child.kill()?;
        }
        let status = qemu.child.wait()?;
        record.took = qemu.started.elapsed();
        record.console = machine::console(folder.path());
        let panic = record.console.lines().find(|line| line.contains("Kernel panic - "));
        Ok(if let Some(why) = panic {
            Outcome::Panicked { why: why.to_string(), record }
        } else if end == ListenEnd::Cut {
            Outcome::Cut(record)
        } else if end == ListenEnd::Late {
            Outcome::TimedOut { limit: self.limit, record }
        } else if !status.success() {
            let mut why = String::new();
            if let Some(mut stderr) = qemu.child.stderr.take() {
                stderr.read_to_string(&mut why)?;
            }
            Outcome::QemuFailed { why: format!("{status}: {}", why.trim()) }
        } else if record.complete {
            Outcome::Completed(record)
        } else {
            Outcome::Stopped(record)
        })
    }

    fn guest_clock(&self) -> GuestClock {
        match self.series == HOST_CLOCK || (self.device.is_some() && self.clock.is_none()) {
            true => GuestClock::Host,
            false => GuestClock::Virtual,
        }
    }

    /// Returns the topology, with a single processor per node if `has_single_processors` is true.
    fn machine(&self) -> Topology {
        let mut machine = self.topology.clone();
        if self.has_single_processors {
            for node in &mut machine.nodes {
                node.cpus = node.cpus.min(1);
            }
        }
        machine
    }

    /// Describes everything that a snapshot of this guest contains. Two guests with the same
    /// description start from the same snapshot.
    fn kind(&self, kernel: &Kernel) -> String {
        let machine = (&kernel.image, self.machine(), self.command_line, self.clock_shift);
        let contents = (self.guest, &self.programs, &self.files, &self.modules, &self.root);
        format!("{machine:?} {contents:?}")
    }

    /// Returns the text files of this guest alone, and the file of its steps.
    fn texts(&self) -> Vec<(String, String)> {
        let steps = ("/steps".to_string(), self.steps.to_string());
        self.texts.iter().cloned().chain([steps]).collect()
    }

    /// Builds the QEMU command line and writes the initramfs to `folder`.
    fn command(&self, kernel: &Kernel, folder: &Path, start: &Start<'_>) -> io::Result<Command> {
        let unpacked =
            self.device.map(|_| Unpacked::find()).transpose().map_err(io::Error::other)?;
        let program = unpacked.as_ref().map_or_else(|| vec![QEMU.into()], Unpacked::command);
        let mut words = self.under.iter().cloned().chain(program);
        let mut command = Command::new(words.next().unwrap_or_default());
        if let Some(unpacked) = &unpacked {
            command.env("QEMU_MODULE_DIR", unpacked.modules());
        }
        command
            .args(words)
            .args(self.machine().flags(self.device.is_some()))
            .args(self.device.iter().flat_map(|socket| self.vfio_user(socket)))
            .args([
                "-accel",
                ACCELERATOR,
                "-cpu",
                PROCESSOR,
                "-nodefaults",
                "-display",
                "none",
                "-no-reboot",
                "-name",
                // The process has the name of the test, so that `ps` shows the test of each guest.
                thread::current().name().unwrap_or("guest"),
            ])
            .args(self.start(kernel, folder, start)?)
            .arg("-serial")
            .arg(format!("file:{}", folder.join(CONSOLE).display()))
            .args(["-chardev", "stdio,id=guest,signal=off", "-serial", "chardev:guest"])
            .args(
                (self.guest_clock() == GuestClock::Virtual)
                    .then(|| virtual_clock(self.clock_shift))
                    .into_iter()
                    .flatten(),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }

    /// Returns the QEMU arguments for the start of the guest: from a kernel and an initramfs, or
    /// from a snapshot.
    fn start(
        &self,
        kernel: &Kernel,
        folder: &Path,
        start: &Start<'_>,
    ) -> io::Result<Vec<OsString>> {
        let (texts, monitor) = match start {
            Start::Resumed(snapshot) => {
                return Ok(vec!["-incoming".into(), snapshot.incoming().into()]);
            }
            Start::Boot => (self.texts(), None),
            Start::Waiting(socket) => (vec![], Some(socket)),
        };
        let initrd = folder.join("initramfs");
        fs::write(&initrd, self.initramfs(&texts)?)?;
        let line = format!("{COMMAND_LINE} {LEFT_OUT} {}", self.command_line);
        let mut words: Vec<OsString> = vec!["-kernel".into(), kernel.image.clone().into()];
        words.extend(["-initrd".into(), initrd.into(), "-append".into(), line.trim().into()]);
        if let Some(socket) = monitor {
            let at = format!("unix:{},server=on,wait=off", socket.display());
            // The guest is stopped while QEMU saves its snapshot. By default, QEMU stores this
            // state in the snapshot, and a guest that starts from the snapshot stays stopped. With
            // this setting, the guest runs at once.
            let state = "migration.store-global-state=off";
            words.extend(["-qmp", &*at, "-global", state].map(OsString::from));
        }
        Ok(words)
    }

    /// Returns the guest's root file system, with the text files `texts`: the path of each in the
    /// guest, and its text.
    fn initramfs(&self, texts: &[(String, String)]) -> io::Result<Vec<u8>> {
        let mut initramfs = Initramfs::default();
        initramfs.program("/init", self.guest)?;
        for name in PROGRAMS {
            initramfs.link(&format!("/bin/{name}"), "/init");
        }
        for (name, file) in &self.programs {
            initramfs.program(&format!("/bin/{name}"), file)?;
            for library in program::libraries(file)? {
                initramfs.program(&library, Path::new(&library))?;
            }
        }
        for (path, file) in &self.files {
            initramfs.text(path, &fs::read_to_string(file)?);
        }
        for (name, file) in &self.modules {
            initramfs.program(&format!("/modules/{name}"), file)?;
        }
        for (path, text) in texts {
            initramfs.text(path, text);
        }
        if let Some(folder) = &self.root {
            initramfs.tree("", folder)?;
        }
        initramfs.archive()
    }

    /// Returns the QEMU arguments for the device that is served on `socket`, and for the plugin
    /// that reports the guest's clock. QEMU closes the connection if a reply takes longer than
    /// `x-msg-timeout`. If the device follows the guest's clock, writes are not posted: the vCPU
    /// waits for the device's reply to each write.
    fn vfio_user(&self, socket: &Path) -> Vec<String> {
        let path = socket.display();
        let is_waiting = self.clock.is_some();
        let device = format!(
            "{{\"driver\":\"vfio-user-pci\",\"id\":\"card\",\"x-msg-timeout\":{QEMU_LIMIT_MS},\
             \"x-no-posted-writes\":{is_waiting},\
             \"socket\":{{\"type\":\"unix\",\"path\":\"{path}\"}}}}"
        );
        let plugin = self.clock.map(|plugin| {
            let plugin = plugin.display();
            ["-plugin".to_string(), format!("{plugin},socket={path}.clock,device=card")]
        });
        ["-device".to_string(), device].into_iter().chain(plugin.into_iter().flatten()).collect()
    }
}

/// Returns the missing prerequisite for a boot of this series, kernel or QEMU; `None` if both are
/// installed. Tests call this before they build a guest.
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

/// The state in which QEMU starts a guest.
enum Start<'a> {
    /// The guest boots, with its steps in the initramfs.
    Boot,
    /// The guest boots and waits for its steps. QEMU's monitor listens at this socket.
    Waiting(&'a Path),
    /// The guest continues from the snapshot, and waits for its steps.
    Resumed(&'a Snapshot),
}
