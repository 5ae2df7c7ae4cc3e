//! Measures the cost of the running daemon. The control loop of `interleaf balance` runs for a
//! minute at its default intervals: a sample every 200 ms, and a decision every 6 s. Then it runs
//! for 20 s with a sample every 50 ms. No limit applies to this second run.
//!
//! The loop, the policy, the readings of the running kernel and the feed are those of the daemon.
//! The feed is a socket through which programs deliver their own counts of traffic. Here a separate
//! process writes to it, and the CPU time of that process does not count. No page is migrated,
//! because the cost of a migration depends on the number of pages. (`migrate.rs` measures the
//! planning of a migration.) Both tiers are on the first node, so a machine with one memory node
//! suffices. The benchmark also measures the time to start the command `interleaf`, if it is built.
//!
//! Then the benchmark steers processes with the actuator `vaddr`, which migrates pages through
//! DAMON: 1, 10, 300 and 3000 children with 1 MiB each, in the live `/proc`. Writes to DAMON go to
//! a folder, so that no page migrates and the kernel needs no DAMON. The target is node 0, where
//! all pages are, so this is the cost of a daemon that has nothing to migrate. The benchmark takes
//! up to 4 GiB of memory.
//!
//! The limits are 0.5 % of one core, 20 MB of memory, and 20 ms for a start of the command. If a
//! limit is exceeded, the benchmark exits with an error.

use interleaf_linux::{
    launch::unix_socket::Access,
    machine::damon::{ADMIN, probe::Probed},
    place::{
        actuator::{Actuator, ActuatorKind, Goal, Scope, Setting},
        journal::Journal,
        layout::HostLayout,
    },
    root::Root,
};
use interleaf_model::{
    control::{Controller, Settings},
    machine::{DomainLayout, Layout, Order, ScopeKind, ScopeLayout, TierLayout},
    policy::{PolicyContext, PolicyKind},
    rated,
    tier::TierKind,
};
use interleaf_observe::{
    feed::Feed,
    host::{Clock, Host},
};
use std::{
    cell::RefCell,
    env, fs, hint,
    io::{self, Read, Write},
    os::unix::{fs::symlink, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

const CORE_SHARE_MAX: f64 = 0.005;
const MEMORY_MAX_BYTES: u64 = 20_000_000;
const START_MAX: Duration = Duration::from_millis(20);

/// The number of starts of the command, of which the median time is taken.
const STARTS: usize = 51;

const FEEDS: &str = "feed";
const WAITS: &str = "wait";

/// Pairs of (number of steered processes, seconds of their measurement). With 3000 processes, the
/// daemon's actuator samples a process only every seven minutes (420 s), so the measurement takes
/// 430 s.
const STEERED: [(usize, u64); 4] = [(1, 20), (10, 20), (300, 60), (3000, 430)];

/// The time before the measurement. In it, the actuator learns that no page of the processes
/// migrates.
const WARM_UP: Duration = Duration::from_secs(20);

/// The memory of a steered process, bytes. The daemon ignores smaller processes.
const STEERED_BYTES: usize = 1 << 20;

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some(FEEDS), Some(path)) => return feed(Path::new(&path)),
        (Some(WAITS), _) => return wait(),
        // `cargo bench` passes `--bench`, and the name of a benchmark if one is requested. If it is
        // not this benchmark's name, end at once.
        (Some(name), _) if !name.starts_with('-') && !"daemon".contains(name) => {
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let spans = [("200 ms", 200, 60), ("50 ms", 50, 20)];
    let mut fits = true;
    for (name, sample_ms, seconds) in spans {
        let (share, peak) = run(Duration::from_millis(sample_ms), Duration::from_secs(seconds));
        tell(&format!(
            "samples of {name}, {seconds} s: {:.3} % of one core, peak memory {:.1} MB",
            100.0 * share,
            peak as f64 / 1e6
        ));
        // The limits apply only to the default interval of 200 ms.
        fits &= sample_ms != 200 || (share < CORE_SHARE_MAX && peak < MEMORY_MAX_BYTES);
    }
    for (count, seconds) in STEERED {
        let (share, reads) = steered(count, Duration::from_secs(seconds));
        tell(&format!(
            "{count} steered processes, {seconds} s: {:.3} % of one core, {reads:.0} files/s",
            100.0 * share
        ));
        fits &= share < CORE_SHARE_MAX;
    }
    fits &= starts();
    if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line. Ignores errors, such as that of a closed stdout.
fn tell(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// A clock for the control loop. It sleeps, and stops the loop at the time in its field.
struct Until(Instant);

impl Clock for Until {
    fn wait(&mut self, span: Duration) -> bool {
        thread::sleep(span);
        Instant::now() < self.0
    }
}

/// Runs the daemon's control loop for `span`, with a sample every `sample`. Returns the fraction of
/// a core that the loop took, and the peak memory of this process, bytes.
fn run(sample: Duration, span: Duration) -> (f64, u64) {
    let folder = env::temp_dir().join(format!("interleaf-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the socket");
    let path = folder.join("feed");
    let root = Root::live();
    let host = layout();
    let source = Feed::listen(&path, Access::default(), 1, 2).expect("a socket");
    let exe = env::current_exe().expect("this program");
    let mut feeder = Command::new(exe).arg(FEEDS).arg(&path).spawn().expect("it starts");
    let believed = rated::platform(&host.layout);
    let settings = Settings { sample, ..Settings::default() };
    let layout = host.layout.clone();
    let mut controller = Controller::new(&layout, settings, |domain, tiers| {
        let near = &layout.domains[domain].tiers;
        PolicyKind::Dmi.make(&PolicyContext {
            domain,
            near,
            tiers,
            believed: &believed,
            fixed: &[],
        })
    });
    let clock = Box::new(Until(Instant::now() + span));
    let mut host = Host::new(&root, host, Box::new(source), clock, vec![None]).expect("a machine");
    let (begun, before) = (Instant::now(), cpu_ns());
    let mut periods = 0;
    while controller.period(&mut host, span).is_ok() {
        periods += 1;
    }
    let share = (cpu_ns() - before) as f64 / begun.elapsed().as_nanos() as f64;
    assert!(periods > 0, "not one period in {span:?}");
    feeder.kill().and_then(|()| feeder.wait()).expect("the feeder ran");
    drop(host);
    let _ = fs::remove_dir_all(&folder);
    (share, peak_bytes())
}

/// Creates a folder with links to the files of this machine. In place of DAMON's files in sysfs, it
/// has ordinary files, which accept every write.
fn machine() -> PathBuf {
    let folder = env::temp_dir().join(format!("interleaf-bench-{}-root", std::process::id()));
    let damon = folder.join(&ADMIN[1..]);
    fs::create_dir_all(&damon).expect("a folder");
    fs::write(damon.join("nr_kdamonds"), "0\n").expect("a file");
    for path in ["proc", "sys/devices"] {
        symlink(Path::new("/").join(path), folder.join(path)).expect("a link");
    }
    folder
}

/// Steers `count` processes for `span`. Updates the actuator every second, as the daemon does.
/// Returns the fraction of a core that the updates took, and the number of files read per second.
fn steered(count: usize, span: Duration) -> (f64, f64) {
    let folder = machine();
    let files = folder.clone();
    let root = Root::live_simulated(&folder, move |path, text| {
        let at = files.join(path.trim_start_matches('/'));
        fs::create_dir_all(at.parent().unwrap_or(&files))?;
        if path.ends_with("nr_kdamonds") {
            fs::create_dir_all(at.with_file_name("0"))?;
            fs::write(at.with_file_name("0").join("state"), "off\n")?;
        }
        fs::write(at, text.replace("commit", "on"))
    });
    let mut children: Vec<Child> = (0..count).map(|_| waiting()).collect();
    let pids = children.iter().map(Child::id).collect();
    let (journal, _) = Journal::open(&root).expect("a journal");
    let setting = Setting::new(&root, Rc::new(RefCell::new(journal)), Scope::Processes(pids));
    let kernel = Probed { destinations: true, refresh: true, ..Probed::default() };
    let mut actuator = ActuatorKind::Vaddr.build(setting, &kernel);
    let goal = Goal {
        nodes: vec![(0, 100)],
        order: Order::Interleave,
        demotions: vec![],
        rate_limit_bytes_per_s: None,
    };
    actuator.set(&goal).expect("it is set up");
    let found = looks(&mut *actuator, WARM_UP);
    assert_eq!(found, count, "all of them are steered");
    let (begun, before, reads) = (Instant::now(), cpu_ns(), root.reads());
    looks(&mut *actuator, span);
    let took = begun.elapsed();
    let share = (cpu_ns() - before) as f64 / took.as_nanos() as f64;
    let reads = (root.reads() - reads) as f64 / took.as_secs_f64();
    drop(actuator);
    for child in &mut children {
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
    }
    let _ = fs::remove_dir_all(&folder);
    (share, reads)
}

/// Updates the actuator every second for `span`, as the daemon does. Returns the number of steered
/// processes at the end.
fn looks(actuator: &mut dyn Actuator, span: Duration) -> usize {
    let end = Instant::now() + span;
    let mut found = 0;
    while Instant::now() < end {
        thread::sleep(Duration::from_secs(1));
        found = actuator.update().expect("it goes on").processes.unwrap_or(0);
    }
    found
}

/// Starts a process that touches its memory, and then waits until its stdin is closed.
fn waiting() -> Child {
    let exe = env::current_exe().expect("this program");
    let mut child = Command::new(exe);
    let child = child.args([WAITS, "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    // The child writes a byte when it has touched its memory.
    let mut said = [0];
    child.stdout.take().expect("a pipe").read_exact(&mut said).expect("it has its memory");
    child
}

fn wait() -> ExitCode {
    let memory = vec![1_u8; STEERED_BYTES];
    hint::black_box(&memory);
    tell("");
    let _ = io::stdin().read(&mut [0]);
    hint::black_box(&memory);
    ExitCode::SUCCESS
}

/// Returns the layout of a machine with one socket and two tiers. Both tiers are on node 0, so that
/// any machine can run this benchmark.
fn layout() -> HostLayout {
    let tier = |name: &str, kind, rated_gbps, rated_latency_ns| TierLayout {
        name: name.into(),
        kind,
        capacity_bytes: 64 << 30,
        rated_gbps,
        rated_latency_ns,
    };
    let tiers =
        vec![tier("dram", TierKind::Dram, 400.0, 100.0), tier("cxl", TierKind::Cxl, 160.0, 250.0)];
    let domains = vec![DomainLayout { name: "socket0".into(), cores: 64, tiers: vec![0, 1] }];
    let scope =
        ScopeLayout { name: "machine".into(), kind: ScopeKind::Machine, domain: 0, steered: true };
    let layout = Layout { domains, tiers, scopes: vec![scope] };
    HostLayout { layout, nodes: vec![0, 0], unrated: [].into_iter().collect() }
}

/// The main function of the process that writes to the feed's socket. It writes the traffic of both
/// tiers twenty times a second. The traffic rises for two seconds, falls back to the first value,
/// and rises again.
fn feed(path: &Path) -> ExitCode {
    let Ok(mut socket) = UnixStream::connect(path) else { return ExitCode::FAILURE };
    for step in 0_u64.. {
        thread::sleep(Duration::from_millis(50));
        for tier in 0..2 {
            let bytes = (4 - 2 * tier) * (1_000_000_000 + 10_000_000 * (step % 40));
            let line = format!(
                "{{\"domain\":0,\"tier\":{tier},\"read_bytes\":{bytes},\"written_bytes\":0,\
                 \"inserts\":{bytes},\"occupancy_ns\":{}}}\n",
                200 * bytes
            );
            if socket.write_all(line.as_bytes()).is_err() {
                return ExitCode::SUCCESS;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Returns the CPU time of all threads of this process, ns: the first number of `schedstat`.
fn cpu_ns() -> u64 {
    let threads = fs::read_dir("/proc/self/task").expect("threads");
    let of_thread = |path: &Path| -> Option<u64> {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.flatten().filter_map(|thread| of_thread(&thread.path())).sum()
}

fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("a peak in kB") * 1024
}

/// True if the command `interleaf` starts within [`START_MAX`], or is not built.
fn starts() -> bool {
    let exe = env::current_exe().expect("this program");
    // The benchmark is `target/release/deps/daemon-0123`, and the command is
    // `target/release/interleaf`.
    let command = exe.ancestors().nth(2).map(|folder| folder.join("interleaf"));
    let Some(command) = command.filter(|command| command.exists()) else {
        tell("its start was not measured: `cargo build --release -p interleaf` comes first");
        return true;
    };
    let start = |_| {
        let begun = Instant::now();
        let ended = Command::new(&command)
            .args(["balance", "--example-config"])
            .stdout(Stdio::null())
            .status();
        assert!(ended.is_ok_and(|status| status.success()), "it does not start");
        begun.elapsed()
    };
    let mut took: Vec<Duration> = (0..STARTS).map(start).collect();
    took.sort();
    let median = took[STARTS / 2];
    tell(&format!("the command starts, prints its configuration and ends in {median:.2?}"));
    median < START_MAX
}
