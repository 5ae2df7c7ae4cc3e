//! What the daemon costs while it runs: the loop of `interleaf balance` at its own rhythm, a sample
//! each 200 ms and a decision each 6 s, for a minute.
//!
//! The loop, the policy, the readings of this kernel and the socket that is fed are the daemon's; a
//! process of its own feeds that socket, and is not counted. No page is moved: what that costs is
//! up to how many there are (`migrate.rs`). This machine need not have two tiers: its first node
//! stands for both. It also starts the command, if that was built before.
//!
//! The bars: less than 0.5 % of one core, less than 20 MB, a start in less than 20 ms. Beyond one,
//! it ends with an error.

use interleaf_linux::{
    feed::Feed,
    host::{Clock, Host},
    layout::HostLayout,
    root::Root,
};
use interleaf_model::{
    control::{Controller, Settings},
    machine::{DomainLayout, Layout, ScopeKind, ScopeLayout, TierLayout},
    policy::{Place, PolicyKind},
    rated,
    tier::TierKind,
};
use std::{
    env, fs,
    io::{self, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

const CORE_SHARE_MAX: f64 = 0.005;
const MEMORY_MAX_BYTES: u64 = 20_000_000;
const START_MAX: Duration = Duration::from_millis(20);

/// Starts of the command, of which the one in the middle counts.
const STARTS: usize = 51;

const FEEDS: &str = "feed";

fn main() -> ExitCode {
    let mut args = env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some(FEEDS), Some(path)) => return feed(Path::new(&path)),
        // `cargo bench` passes `--bench`; a name that is not ours asks for another benchmark.
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
        // The bars are for the rhythm it has by itself.
        fits &= sample_ms != 200 || (share < CORE_SHARE_MAX && peak < MEMORY_MAX_BYTES);
    }
    fits &= starts();
    if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whoever reads the output may have gone.
fn tell(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Waits, and says stop when the time is over.
struct Until(Instant);

impl Clock for Until {
    fn wait(&mut self, span: Duration) -> bool {
        thread::sleep(span);
        Instant::now() < self.0
    }
}

/// The part of a core that the loop took, and the most memory of this process, bytes.
fn run(sample: Duration, span: Duration) -> (f64, u64) {
    let folder = env::temp_dir().join(format!("interleaf-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the socket");
    let path = folder.join("feed");
    let root = Root::live();
    let host = layout();
    let source = Feed::listen(&path, 1, 2).expect("a socket");
    let exe = env::current_exe().expect("this program");
    let mut feeder = Command::new(exe).arg(FEEDS).arg(&path).spawn().expect("it starts");
    let believed = rated::platform(&host.layout);
    let settings = Settings { sample, ..Settings::default() };
    let layout = host.layout.clone();
    let mut controller = Controller::new(&layout, settings, |domain, tiers| {
        let near = &layout.domains[domain].tiers;
        PolicyKind::Dmi.make(&Place { domain, near, tiers, believed: &believed, fixed: &[] })
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

/// Two tiers, both of them node 0.
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

/// Feeds both tiers twenty times a second, with a load that comes and goes.
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

/// The time that all threads of this process had a CPU, ns (schedstat: the first number).
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

/// Whether the command starts soon enough; where it was not built there is nothing to be said.
fn starts() -> bool {
    let exe = env::current_exe().expect("this program");
    // target/release/deps/daemon-0123
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
