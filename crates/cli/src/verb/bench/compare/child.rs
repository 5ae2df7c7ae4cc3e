//! Runs a pattern of `interleaf bench compare` once, in a child process.

use crate::{
    args::BenchCompareArgs,
    comparison::{memory_kind::MemoryKind, pattern::Pattern},
};
use interleaf_console::Failure;
use interleaf_launch::tree_end::end_tree;
use interleaf_linux::{
    launch::{
        command::{Running, Signals},
        swapfile::{SwapError, SwapFile},
    },
    place::{
        journal::{Journal, JournalError, Undone},
        mempolicy::Policy,
    },
    process::memory_cgroup::{MemoryCgroup, MemoryCgroupError},
    root::Root,
};
use interleaf_record::{bench::BenchDocument, bench_compare::PagerDocument, run::PutBackDocument};
use std::{
    cell::Cell,
    ffi::OsString,
    fs,
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
    process::ExitStatus,
    time::{Duration, Instant},
};

/// The shell script that starts a run in a control group: it enters the group and then executes the
/// command `$@`. `$0` is the path of the group's file `cgroup.procs`.
const ENTER: &str = "echo $$ > \"$0\" && exec \"$@\"";

/// The value of `extend --min-alloc` for a run on the pager. Each array of a pattern is at least
/// this large, so all arrays are in extended memory.
const MIN_ALLOC: &str = "2MiB";

/// Interval at which a run is checked for its start and its end.
const LOOK: Duration = Duration::from_millis(100);

/// All footprints are multiples of this size, bytes.
const UNIT: u64 = 1 << 20;

pub(super) struct Comparison<'a> {
    root: &'a Root,
    signals: &'a Signals,
    args: &'a BenchCompareArgs,
    program: PathBuf,
    /// The time at which a run is ended even if it has not reached its own time limit.
    deadline: Option<Instant>,
    /// The signal that arrived during a run, if any.
    signal: Cell<Option<i32>>,
}

#[derive(Debug)]
pub(crate) enum RunOutcome {
    /// The run finished and wrote its document.
    Done(Box<Done>),
    /// The run exceeded its time limit, or the deadline of all runs passed.
    TooLong,
    /// The run failed. The text is its error message.
    Failed(String),
    /// The OOM killer ended the run. If all pages of a small control group are under write-back to
    /// swap, the kernel finds no page to evict, and may kill the run although swap has room.
    OomKilled,
    /// The run was stopped because this signal arrived.
    Signal(i32),
}

/// The result of a finished run.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) document: BenchDocument,
    /// Peak memory of the control group, bytes.
    pub(super) used_max: Option<u64>,
    /// Memory limit of the control group, bytes.
    pub(super) limit: Option<u64>,
    /// Statistics of the pager over the whole run, including the initialization of the arrays.
    pub(super) pager: Option<PagerDocument>,
}

#[derive(Clone, Copy, Debug)]
struct PlannedRun<'a> {
    pattern: &'a Pattern,
    footprint: u64,
    way: MemoryKind,
    hint: Option<&'a str>,
    limit: Option<u64>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(
        root: &'a Root,
        signals: &'a Signals,
        args: &'a BenchCompareArgs,
    ) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|why| {
            Failure::new(format!("this program does not know where it is: {why}"), "report it")
        })?;
        Ok(Self { root, signals, args, program, deadline: None, signal: Cell::new(None) })
    }

    /// Sets the deadline of all runs, which may end a run before the run's own time limit.
    pub(super) fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    pub(super) fn args(&self) -> &'a BenchCompareArgs {
        self.args
    }

    /// Returns the signal that arrived during a run, if any.
    pub(super) fn signal(&self) -> Option<i32> {
        self.signal.get()
    }

    /// Returns a footprint of `ratio` times the budget, bytes, as a multiple of `UNIT`.
    fn footprint(&self, ratio: f64) -> u64 {
        let bytes = (self.args.dram.get() as f64 * ratio) as u64;
        (bytes / UNIT * UNIT).max(UNIT)
    }

    /// Runs a pattern once on the kind of memory `way`. The footprint is `ratio` times the budget.
    /// `hint` is the advice (`madvise`) for a mapped file. `memory` is the peak memory of the
    /// pager's last run. If `way` has a memory limit, the limit is `memory` if that is known and
    /// the footprint exceeds the budget, and otherwise the budget plus `--slack`.
    pub(super) fn run(
        &self,
        pattern: &Pattern,
        ratio: f64,
        way: MemoryKind,
        hint: Option<&str>,
        memory: Option<u64>,
    ) -> Result<RunOutcome, Failure> {
        let footprint = self.footprint(ratio);
        let budget = self.args.dram.get();
        // A footprint within the budget does not fill the budget, so the peak memory of the pager's
        // run may be below the budget. It would be too low as a limit for swap and mapped files.
        let memory = memory.filter(|_| footprint > budget);
        let limit = memory.unwrap_or(budget + self.args.slack.get());
        let limit = way.is_bounded().then_some(limit);
        let group = match MemoryCgroup::new(self.root, limit) {
            Ok(group) => Some(group),
            // A run without a limit needs no control group. Without a group, the run's peak memory
            // is unknown, and a run that exceeds its time limit is ended by killing its processes
            // one by one.
            Err(_) if limit.is_none() => None,
            Err(why) => return Err(no_group(&why)),
        };
        let run = PlannedRun { pattern, footprint, way, hint, limit };
        if !way.is_swapping() {
            // A run without swap changes no kernel setting, so it needs no journal. (Only root can
            // write a journal.)
            return self.in_group(&run, group.as_ref());
        }
        let (mut journal, undone) = Journal::open(self.root).map_err(|why| no_setting(&why))?;
        tell(false, &undone);
        let ended = self.with_swap(&run, &mut journal, group.as_ref());
        // Remove the group before swapoff: otherwise swapoff reads the group's pages from the swap
        // file into DRAM.
        drop(group);
        let closed = journal.close();
        if let Ok(undone) = &closed {
            tell(true, undone);
        }
        let ended = ended?;
        closed.map_err(|why| no_setting(&why))?;
        Ok(ended)
    }

    /// Runs a pattern with a swap file, and with the kernel settings for its kind of memory.
    /// `journal` records the swap file and the settings.
    fn with_swap(
        &self,
        run: &PlannedRun<'_>,
        journal: &mut Journal<'_>,
        group: Option<&MemoryCgroup<'_>>,
    ) -> Result<RunOutcome, Failure> {
        // The swap file is an eighth larger than the footprint, because the kernel allocates swap
        // slots in clusters.
        let bytes = run.footprint + run.footprint / 8 + UNIT;
        let _swap = match SwapFile::new(self.root, journal, &self.args.store, bytes) {
            Ok(swap) => swap,
            // swapoff failed for the swap file of an earlier run. Only runs on swap fail then: the
            // other kinds of memory can still be measured.
            Err(why @ SwapError::Leftover { .. }) => {
                return Ok(RunOutcome::Failed(why.to_string()));
            }
            Err(why) => {
                let store = self.args.store.display();
                return Err(Failure::new(format!("{store}: no swap file: {why}"), NOT_ROOT));
            }
        };
        for (path, text) in run.way.settings() {
            journal.set(path, text).map_err(|why| no_setting(&why))?;
        }
        self.in_group(run, group)
    }

    /// Tries again to restore the swap settings of earlier runs that are still in the journal.
    ///
    /// # Errors
    /// When a setting cannot be restored. It stays in the journal.
    pub(super) fn check_restored(&self) -> Result<(), Failure> {
        // A user who cannot open the journal has changed no setting.
        let Ok((journal, undone)) = Journal::open(self.root) else { return Ok(()) };
        if journal.changes().is_empty() {
            tell(false, &undone);
        }
        let left = journal.close().map_err(|why| no_setting(&why))?;
        let left: Vec<String> = left
            .iter()
            .filter_map(|undone| match undone {
                Undone::Failed(change, why) => {
                    Some(format!("{} is still {}: {why}", change.path, change.set))
                }
                _ => None,
            })
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(
                left.join("; "),
                "the results are whole; `interleaf run --restore` tries it again, and so does \
                 whatever of interleaf is started next",
            )),
        }
    }

    fn in_group(
        &self,
        run: &PlannedRun<'_>,
        group: Option<&MemoryCgroup<'_>>,
    ) -> Result<RunOutcome, Failure> {
        let failed = |what: &str, why: io::Error| {
            Failure::new(format!("{what}: {why}"), "see that there is room in the folder for it")
        };
        let record = tempfile::NamedTempFile::new().map_err(|why| failed("a record", why))?;
        let stats = tempfile::NamedTempFile::new().map_err(|why| failed("a record", why))?;
        let mut said = tempfile::tempfile().map_err(|why| failed("its output", why))?;
        let mut words: Vec<OsString> = vec![];
        words.extend(self.args.by.iter().flat_map(|by| by.split_whitespace()).map(OsString::from));
        if let Some(group) = group {
            words.extend(["sh", "-c", ENTER].map(OsString::from));
            words.push(group.procs_path().into());
        }
        words.extend(self.command(run, stats.path()));
        words.push("-o".into());
        words.push(record.path().into());
        let program = words.remove(0);
        let running = self.signals.start_into(Some(&said), &[], &Policy::Default, &program, &words);
        let mut running = running.map_err(|why| {
            Failure::new(why.to_string(), "see that --by names a command that is there")
        })?;
        let status = self.waited(&mut running, group).map_err(|why| failed("the run", why))?;
        let used_max = group.and_then(MemoryCgroup::used_max);
        let Some(status) = status else {
            match group {
                Some(group) => group.kill_all(),
                None => end_tree(self.root, &mut running),
            }
            let _ = running.status();
            let outcome = self.interrupted(running.arrived_signal());
            return Ok(outcome.unwrap_or(RunOutcome::TooLong));
        };
        if let Some(signal) = self.interrupted(running.arrived_signal()) {
            return Ok(signal);
        }
        let text = fs::read_to_string(record.path()).unwrap_or_default();
        match serde_json::from_str::<BenchDocument>(&text) {
            Ok(document) => {
                let stats = fs::read_to_string(stats.path()).unwrap_or_default();
                let pager = serde_json::from_str(&stats).ok();
                let limit = run.limit;
                Ok(RunOutcome::Done(Box::new(Done { document, used_max, limit, pager })))
            }
            Err(_) if group.is_some_and(MemoryCgroup::has_oom_killed) => Ok(RunOutcome::OomKilled),
            Err(_) => {
                let mut text = String::new();
                let _ = said.rewind().and_then(|()| said.read_to_string(&mut text));
                let last = text.trim().lines().next().unwrap_or("it said nothing");
                Ok(RunOutcome::Failed(format!("{last} ({status})")))
            }
        }
    }

    /// Runs the command `words`, whose output goes to the file `output`, until it ends. Returns
    /// `None` if a signal has arrived, which also ends the command.
    ///
    /// # Errors
    /// When the command cannot be started, or wait(2) fails.
    pub(super) fn run_tool(
        &self,
        words: &[OsString],
        output: &fs::File,
    ) -> io::Result<Option<ExitStatus>> {
        if self.interrupted(self.signals.arrived_signal()).is_some() {
            return Ok(None);
        }
        let (program, arguments) = words.split_first().unwrap_or_else(|| unreachable!());
        let started =
            self.signals.start_into(Some(output), &[], &Policy::Default, program, arguments);
        let mut running = started.map_err(|why| io::Error::other(why.to_string()))?;
        loop {
            if let Some(status) = running.wait(LOOK)? {
                return Ok(self.interrupted(running.arrived_signal()).is_none().then_some(status));
            }
        }
    }

    /// If a signal has `arrived`, stores it in `self.signal`, and returns it as the outcome of the
    /// run; otherwise returns `None`.
    fn interrupted(&self, arrived: Option<i32>) -> Option<RunOutcome> {
        let signal = arrived?;
        self.signal.set(Some(signal));
        Some(RunOutcome::Signal(signal))
    }

    /// Waits for the end of a run. Returns `None` if the run exceeded its time limit, or if the
    /// deadline of all runs passed. A launcher (`--by`) may queue the run before it starts. So the
    /// time limit counts from the run's entry in its control group, and the deadline is checked
    /// only after this entry.
    fn waited(
        &self,
        running: &mut Running<'_>,
        group: Option<&MemoryCgroup<'_>>,
    ) -> io::Result<Option<ExitStatus>> {
        let limit = Duration::from_secs_f64(self.args.limit.seconds());
        let mut entered = group.is_none().then(Instant::now);
        let is_late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        while entered.is_none_or(|entered| entered.elapsed() < limit && !is_late()) {
            if let Some(status) = running.wait(LOOK)? {
                return Ok(Some(status));
            }
            if entered.is_none() && group.is_some_and(MemoryCgroup::is_in_use) {
                entered = Some(Instant::now());
            }
        }
        Ok(None)
    }

    /// Returns the command line of the run without `-o`. The file `stats` receives the statistics
    /// of a run on the pager.
    fn command(&self, run: &PlannedRun<'_>, stats: &Path) -> Vec<OsString> {
        let PlannedRun { pattern, footprint, way, hint, .. } = *run;
        let mut words: Vec<OsString> = vec![];
        if way == MemoryKind::Pager {
            words.push(self.program.clone().into());
            words.extend(
                ["extend", "--quiet", "--min-alloc", MIN_ALLOC, "--dram"].map(OsString::from),
            );
            words.push(format!("{}B", self.args.dram.get()).into());
            words.extend(["--store".into(), self.args.store.clone().into(), "--stats".into()]);
            words.extend([stats.into(), "--".into()]);
        }
        words.push(self.program.clone().into());
        words.extend(["bench", "run", pattern.kind.name()].map(OsString::from));
        words.extend(pattern.arguments.iter().map(OsString::from));
        words.extend(["--footprint".into(), format!("{}MiB", footprint / UNIT).into()]);
        words.extend(["--threads".into(), self.args.threads.to_string().into()]);
        words.push("--drive".into());
        words.push(self.args.store.clone().into());
        if way == MemoryKind::Mmap {
            words.push("--memory".into());
            let mut place = OsString::from("file:");
            place.push(&self.args.store);
            words.push(place);
            words.extend(hint.iter().flat_map(|hint| ["--advice".into(), (*hint).into()]));
        }
        words
    }
}

const NOT_ROOT: &str = "run it as root where there is room; with `bench compare --ways dram,pager` \
                        neither swap nor a group is needed";

fn no_group(why: &MemoryCgroupError) -> Failure {
    Failure::new(format!("the budget cannot be enforced: {why}"), NOT_ROOT)
}

fn no_setting(why: &JournalError) -> Failure {
    Failure::new(why.to_string(), NOT_ROOT)
}

/// Reports the settings of `undone`: those that could not be restored, and unless `quiet` also
/// those that were restored.
fn tell(quiet: bool, undone: &[Undone]) {
    let undone: Vec<PutBackDocument> = undone.iter().map(PutBackDocument::from).collect();
    interleaf_launch::restore::report_restored(quiet, &undone);
}
