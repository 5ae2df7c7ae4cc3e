//! A team is a set of threads that load and store memory until they are stopped. Each thread has
//! its own CPU and its own memory.

use crate::{
    availability,
    backing::Backing,
    clock::{Clock, ticks},
    isa::{Isa, IsaError},
    kernel::{Checksums, Fault, Kernel, TooSmall, Walk},
    region::{Pages, Region, RegionError},
    traffic::{LINE_BYTES, Pattern, Traffic},
};
use interleaf_linux::{
    place::mempolicy::Policy,
    root::{Root, RootError},
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The number of lines in a group. A thread pauses for [`Load::delay`] for each group. If a thread
/// accesses n groups before a pause, the pause is n times [`Load::delay`].
pub const GROUP_LINES: u64 = 32;

/// The approximate length of a pause that replaces several shorter pauses. Shorter pauses are
/// merged, because each pause costs about 50 ns to stop the kernel and to read the clock.
const PAUSE: Duration = Duration::from_micros(1);

/// Maximum number of groups that a thread accesses before a pause: 256 KiB. A thread without pauses
/// accesses the same amount between two checks of the stop flag.
const GROUPS_MAX: u64 = 128;

/// The work of the threads of a [`Team`], and the memory on which they work.
#[derive(Clone, Debug)]
pub struct Load {
    /// The mix of loads and stores that each thread makes.
    pub traffic: Traffic,
    /// The order in which each thread accesses its lines.
    pub pattern: Pattern,
    /// The instruction set of the traffic kernel. Ignored if `kernel` is given.
    pub isa: Isa,
    /// The traffic kernel, such as the result of [`Kernel::best_here`]; `None` for the fastest
    /// known kernel of `isa`.
    pub kernel: Option<Kernel>,
    /// The CPU of each thread.
    pub cpus: Vec<u32>,
    /// The size of each thread's memory, bytes.
    pub bytes: usize,
    pub pages: Pages,
    pub policy: Policy,
    /// The seed of random orders and of the contents of memory.
    pub seed: u64,
    /// The pause of each thread after each group of [`GROUP_LINES`] lines.
    pub delay: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum TeamError {
    /// The load names no CPU.
    #[error("a load without CPUs")]
    NoCpus,
    /// The machine does not have the instruction set.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// The traffic kernel ([`Kernel`]) cannot issue the traffic of the load.
    #[error("the kernel \"{kernel}\" is not for {traffic}")]
    Kernel {
        /// The name of the requested traffic kernel.
        kernel: String,
        /// The traffic that this traffic kernel cannot issue.
        traffic: Traffic,
    },
    /// The process may not run on the CPU, or the CPU does not exist.
    #[error("CPU {cpu}: {why}")]
    Cpu {
        cpu: u32,
        /// The error of Linux.
        why: io::Error,
    },
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The memory is too small for the traffic kernel.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// A thread cannot be started.
    #[error("a thread: {0}")]
    Thread(io::Error),
    /// A thread found a wrong sum of its loads, or a wrong word in its memory.
    #[error("CPU {cpu}: {fault}")]
    Fault {
        /// The CPU of the thread that found the fault.
        cpu: u32,
        fault: Fault,
    },
}

impl TeamError {
    pub fn hint(&self) -> String {
        match self {
            Self::NoCpus => "name a CPU, or a node that has some".into(),
            Self::Isa(_) => IsaError::hint(),
            Self::Kernel { .. } => "leave the kernel out: then the best known is taken".into(),
            Self::Cpu { .. } => "choose CPUs that are online and that this process may use".into(),
            Self::Region(why) => why.hint(),
            Self::TooSmall(why) => format!("give each thread at least {} MiB", why.mebibytes()),
            Self::Thread(_) => "ask for fewer threads, or raise ulimit -u".into(),
            Self::Fault { .. } => {
                "memory or processor are faulty, or the kernel of ours: run it with another --isa \
                 and run a memory test"
                    .into()
            }
        }
    }
}

/// Threads that load memory until they are stopped.
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    clock: Clock,
    members: Vec<(u32, JoinHandle<Result<Walk, Fault>>)>,
    memory: Vec<Range<u64>>,
}

/// State that all threads share. Each thread often writes its counter in `done`, so each counter
/// has cache lines of its own.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    delay_ticks: AtomicU64,
    /// [`PAUSE`] in ticks.
    pause_ticks: u64,
    done: Vec<Count>,
}

impl Shared {
    fn new(clock: Clock, load: &Load) -> Self {
        Self {
            stop: AtomicBool::new(false),
            delay_ticks: AtomicU64::new(clock.ticks(load.delay)),
            pause_ticks: clock.ticks(PAUSE),
            done: load.cpus.iter().map(|_| Count::default()).collect(),
        }
    }
}

/// A counter in two cache lines of its own, because some processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// The first message of a thread to its team: the address range of the thread's memory, or the
/// reason why the thread cannot start.
type Ready = Result<Range<u64>, TeamError>;

impl Team {
    /// Starts the threads of a team: they all begin their accesses at the same time, after the
    /// memory of all threads is filled.
    ///
    /// # Errors
    /// When a thread cannot start. No thread runs in this case.
    pub fn start(load: &Load) -> Result<Self, TeamError> {
        Self::start_in(load, vec![])
    }

    /// Like [`Team::start`], but the threads use `regions`, memory that [`Team::release`] returned.
    /// This memory must have the length, the pages and the policy that `load` requests. The method
    /// does not check this.
    ///
    /// # Errors
    ///
    /// Under the conditions of [`Team::start`].
    pub fn start_in(load: &Load, regions: Vec<Region>) -> Result<Self, TeamError> {
        load.isa.here()?;
        if load.cpus.is_empty() {
            return Err(TeamError::NoCpus);
        }
        let kernel = load.kernel()?;
        let new = load.cpus.len().saturating_sub(regions.len()) as u64;
        let needed = new.saturating_mul(load.bytes as u64);
        availability::check(&Root::live(), needed, load.pages, &load.policy)
            .map_err(RegionError::from)?;
        let clock = Clock::here();
        let shared = Arc::new(Shared::new(clock, load));
        let mut team = Self { shared, clock, members: vec![], memory: vec![] };
        let mut gates = vec![];
        let (ready, all_ready) = mpsc::channel();
        let mut regions = regions.into_iter();
        for (index, &cpu) in load.cpus.iter().enumerate() {
            let (gate, open) = mpsc::channel();
            let region = regions.next();
            let member = Member { index, cpu, kernel, region, load: load.clone() };
            let (shared, ready) = (Arc::clone(&team.shared), ready.clone());
            let thread = thread::Builder::new().name(format!("load-{cpu}"));
            let work = move || member.work(&shared, &ready, &open);
            let thread = thread.spawn(work).map_err(TeamError::Thread)?;
            team.members.push((cpu, thread));
            gates.push(gate);
        }
        drop(ready);
        // Each thread waits for a message on its channel (`gate`), so that all threads begin
        // together. If a thread reports an error, the gates are dropped, and the waiting threads
        // end.
        team.memory = all_ready.iter().take(gates.len()).collect::<Result<_, _>>()?;
        for gate in gates {
            let _ = gate.send(());
        }
        Ok(team)
    }

    /// Returns the number of lines that all threads have loaded and stored so far.
    pub fn lines(&self) -> u64 {
        self.shared.done.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Returns the number of bytes that all threads have loaded and stored so far.
    pub fn program_bytes(&self) -> u64 {
        self.lines() * LINE_BYTES
    }

    /// Sets the pause of each thread after each group of [`GROUP_LINES`] lines. The length of the
    /// pause does not depend on the frequency of the core.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.delay_ticks.store(self.clock.ticks(delay), Ordering::Relaxed);
    }

    /// Reads the page sizes and the nodes of the threads' memory.
    ///
    /// # Errors
    ///
    /// When the kernel's files cannot be read.
    pub fn backing(&self, root: &Root) -> Result<Backing, RootError> {
        Backing::of(root, &self.memory)
    }

    /// True if all threads are still running. A thread that finds a wrong word or sum ends early.
    #[cfg(test)]
    fn is_at_work(&self) -> bool {
        self.members.iter().all(|(_, thread)| !thread.is_finished())
    }

    /// Stops the threads, and verifies the memory of each thread.
    ///
    /// # Errors
    /// When a wrong word or a wrong sum is found; the error gives its position.
    pub fn stop(self) -> Result<Vec<Checksums>, TeamError> {
        Ok(self.release()?.0)
    }

    /// Like [`Team::stop`], but also returns the memory, so that the next team can use it: touching
    /// new memory takes longer than a measurement.
    ///
    /// # Errors
    ///
    /// Under the conditions of [`Team::stop`].
    pub fn release(mut self) -> Result<(Vec<Checksums>, Vec<Region>), TeamError> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let (mut sums, mut regions) = (vec![], vec![]);
        for (cpu, thread) in self.members.drain(..) {
            let verified = joined(thread).and_then(|mut walk| Ok((walk.verify()?, walk)));
            let (of_thread, walk) = verified.map_err(|fault| TeamError::Fault { cpu, fault })?;
            sums.push(of_thread);
            regions.push(walk.into_region());
        }
        Ok((sums, regions))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for (_, thread) in self.members.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Waits for the end of a thread, and returns its result. If the thread panicked, the panic
/// continues in the caller.
fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Load {
    fn kernel(&self) -> Result<Kernel, TeamError> {
        match self.kernel {
            Some(kernel) if !kernel.serves(&self.traffic) => {
                Err(TeamError::Kernel { kernel: kernel.to_string(), traffic: self.traffic })
            }
            Some(kernel) => Ok(kernel),
            None => Ok(Kernel::best(self.isa, &self.traffic).ok_or(IsaError::Absent(self.isa))?),
        }
    }
}

struct Member {
    index: usize,
    cpu: u32,
    kernel: Kernel,
    region: Option<Region>,
    load: Load,
}

impl Member {
    fn work(
        mut self,
        shared: &Shared,
        ready: &mpsc::Sender<Ready>,
        open: &mpsc::Receiver<()>,
    ) -> Result<Walk, Fault> {
        // The result of a thread that cannot start is not used, because the error was already sent
        // to the team.
        let never = || Err(Fault::Unused);
        let mut walk = match self.prepare() {
            Ok(walk) => walk,
            Err(why) => {
                let _ = ready.send(Err(why));
                return never();
            }
        };
        let _ = ready.send(Ok(walk.region().addresses()));
        if open.recv().is_err() {
            return never();
        }
        let done = &shared.done[self.index].0;
        let mut lines = 0;
        while !shared.stop.load(Ordering::Relaxed) {
            let delay = shared.delay_ticks.load(Ordering::Relaxed);
            lines += if delay == 0 { walk.chunk()? } else { delayed(&mut walk, delay, shared)? };
            done.store(lines, Ordering::Relaxed);
        }
        Ok(walk)
    }

    fn prepare(&mut self) -> Result<Walk, TeamError> {
        let cpu = self.cpu;
        pin(cpu).map_err(|why| TeamError::Cpu { cpu, why })?;
        let load = &self.load;
        let region = match self.region.take() {
            Some(region) => region,
            None => Region::new(load.bytes, load.pages, &load.policy)?,
        };
        let seed = load.seed.wrapping_add(self.index as u64);
        Ok(Walk::new(region, &load.traffic, load.pattern, self.kernel, seed)?)
    }
}

/// Accesses some groups of lines, then pauses for `delay` ticks for each group. Returns the number
/// of lines. Stopping the traffic kernel and reading the clock after every group would cost a third
/// of the bandwidth at the shortest pauses, so several short pauses are merged into one.
fn delayed(walk: &mut Walk, delay: u64, shared: &Shared) -> Result<u64, Fault> {
    let groups = (shared.pause_ticks / delay).clamp(1, GROUPS_MAX);
    let lines = walk.advance((groups * GROUP_LINES) as usize)?;
    let until = ticks().saturating_add(delay * lines / GROUP_LINES);
    while ticks() < until && !shared.stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(lines)
}

/// Returns the CPUs that the calling thread may run on, in ascending order.
///
/// # Errors
/// When the kernel does not report the allowed CPUs.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

/// Binds the calling thread to a CPU.
///
/// # Errors
/// When the CPU does not exist, or this process may not use it.
pub fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use rustix::time::{ClockId, clock_gettime};
    use std::time::Instant;

    fn load(cpus: &[u32]) -> Load {
        Load {
            traffic: Traffic::READ,
            pattern: Pattern::Sequential,
            isa: *Isa::available().last().unwrap(),
            kernel: None,
            cpus: cpus.to_vec(),
            bytes: 2 << 20,
            pages: Pages::Small,
            policy: Policy::Default,
            seed: 1,
            delay: Duration::ZERO,
        }
    }

    /// Waits until a team has accessed `lines` more lines.
    fn lines_later(team: &Team, lines: u64) {
        let (from, began) = (team.lines(), Instant::now());
        while team.lines() - from < lines {
            assert!(began.elapsed() < Duration::from_secs(60), "it stands still");
            thread::yield_now();
        }
    }

    #[test]
    fn every_traffic_is_verified_on_one_cpu_and_on_more() {
        for traffic in Traffic::all() {
            for pattern in [Pattern::Sequential, Pattern::Random] {
                let team = Team::start(&Load { traffic, pattern, ..load(&[0, 0]) }).unwrap();
                lines_later(&team, 100_000);
                assert!(team.is_at_work());
                assert_eq!(team.backing(&Root::live()).unwrap().bytes, 4 << 20);
                let sums = team.stop().unwrap();
                assert_eq!(sums.len(), 2);
                let done: u64 = sums.iter().map(|sums| sums.loaded + sums.stored).sum();
                assert!(done >= 100_000, "{traffic}");
                let per = |lines: u32| u64::from(lines) * done / u64::from(traffic.program_lines());
                let loaded: u64 = sums.iter().map(|sums| sums.loaded).sum();
                assert_eq!(loaded, per(traffic.loads), "{traffic}");
            }
        }
    }

    #[test]
    fn a_pinned_thread_may_run_only_on_its_cpu() {
        let pinned = thread::spawn(|| {
            let cpu = *allowed_cpus().unwrap().last().unwrap();
            pin(cpu).unwrap();
            (vec![cpu], allowed_cpus().unwrap())
        });
        let (expected, found) = pinned.join().unwrap();
        assert_eq!(found, expected);
    }

    /// Measures the rates at which a thread of a team accesses lines with the pause `delay`, over
    /// `lines` lines or more: lines per second of wall time, and lines per second of the thread's
    /// CPU time. Other programs reduce only the first rate.
    fn rates(delay: Duration, lines: u64) -> (f64, f64) {
        let load = Load { delay, ..load(&[0]) };
        let shared = &Shared::new(Clock::here(), &load);
        let kernel = load.kernel().unwrap();
        let member = Member { index: 0, cpu: 0, kernel, region: None, load };
        let (ready, is_ready) = mpsc::channel();
        let (gate, open) = mpsc::channel();
        let done = || shared.done[0].0.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                member.work(shared, &ready, &open).unwrap();
                Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
            });
            is_ready.recv().unwrap().unwrap();
            let began = Instant::now();
            gate.send(()).unwrap();
            let mut count = 0;
            while count < lines {
                assert!(!thread.is_finished(), "it stops early");
                thread::sleep(Duration::from_millis(1));
                count = done();
            }
            let passed = count as f64 / began.elapsed().as_secs_f64();
            shared.stop.store(true, Ordering::Relaxed);
            let cpu_time = thread.join().unwrap();
            (passed, done() as f64 / cpu_time.as_secs_f64())
        })
    }

    /// Measures threads with pauses of 0, 20 and 400 us after each group of lines. In wall time, no
    /// thread may be faster than its pauses permit, because an interruption does not shorten a
    /// pause. Per second of CPU time, a thread without pauses must access more lines than pauses of
    /// 20 us permit, and a thread with pauses of 20 us more lines than pauses of 400 us permit.
    #[test]
    fn a_delay_reduces_the_rate() {
        let most = |us: f64| GROUP_LINES as f64 / (us * 1e-6);
        let (_, undelayed) = rates(Duration::ZERO, 10_000_000);
        let (short, of_short) = rates(Duration::from_micros(20), 5000 * GROUP_LINES);
        let (long, _) = rates(Duration::from_micros(400), 500 * GROUP_LINES);
        assert!(undelayed > most(20.0) && of_short > most(400.0), "{undelayed}, {of_short}");
        // Pauses are measured in ticks of the time-stamp counter, whose calibrated rate has a small
        // error.
        assert!(short < 1.002 * most(20.0), "{short}");
        assert!(long < 1.002 * most(400.0), "{long}");
    }

    #[test]
    fn invalid_loads_are_refused() {
        let refused = |load: &Load| Team::start(load).unwrap_err().to_string();
        assert_eq!(refused(&load(&[])), "a load without CPUs");
        assert!(refused(&load(&[0, 100_000])).starts_with("CPU 100000: "));
        let elsewhere = Policy::Bind([1000].into_iter().collect());
        assert!(refused(&Load { policy: elsewhere, ..load(&[0]) }).contains("bind:1000"));
        let foreign = if cfg!(target_arch = "x86_64") { Isa::Neon } else { Isa::Sse2 };
        assert!(refused(&Load { isa: foreign, ..load(&[0]) }).contains("has no"));
        let reader = Kernel::best(load(&[]).isa, &Traffic::READ);
        let stores = "W5".parse().unwrap();
        let much = Load { bytes: 1 << 50, ..load(&[0]) };
        assert!(refused(&much).contains("MiB can be had"), "{}", refused(&much));
        let wrong = Load { kernel: reader, traffic: stores, ..load(&[0]) };
        assert!(refused(&wrong).contains("is not for W5"), "{}", refused(&wrong));
    }
}
