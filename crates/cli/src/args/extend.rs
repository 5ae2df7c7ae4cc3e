//! The command line of `interleaf extend`.

use super::{percent, pid, quantity};
use clap::{ArgGroup, Args, ValueEnum};
use interleaf_launch::extend::{ALLOC_MIN, Dram};
use interleaf_model::units::{Bytes, Percent, Time};
use interleaf_pager::{kernel::uffd::FaultMode, session::Children};
use std::{ffi::OsString, path::PathBuf};

/// The hint of error messages about missing options.
pub(crate) const EXAMPLE: &str =
    "write for example interleaf extend --dram 8GiB --store /mnt/nvme -- ./solver input.dat";

/// Runs a command that needs more memory than the machine has: its large allocations live on a
/// drive, and DRAM is a cache over them. Pages are prefetched as far as the accesses of the program
/// can be predicted. The program is unchanged; it has to be linked with the C library of the system
/// (most are). Exits with the status of the command, or with 128 plus the number of its signal.
///
/// Extended memory pays for programs that go through their data in some order, or that compute more
/// than they load. If each access is to another page, a drive is a thousand times slower than DRAM.
/// --estimate measures the drive and predicts the speed (docs/extend.md).
///
/// A store is a folder, in which an unnamed file is made, or a block device, whose content is
/// overwritten. The command and all processes that it starts share the budget.
///
/// Examples:
///   interleaf extend --dram 8GiB --store /mnt/nvme -- ./solver input.dat
///   interleaf extend --dram 50% --store /mnt/nvme -- ./solver     half of a container's memory
///   interleaf extend --dram 8GiB --store /mnt/a --store /mnt/b --stats run.json -- python3 fit.py
///   interleaf extend --dram 8GiB --store /mnt/nvme --estimate --footprint 24GiB
///   interleaf extend --dram 8GiB --store /mnt/nvme --dry-run -- ./solver     check only
///   interleaf extend --dram 32GiB --store /mnt/nvme -- mpirun -n 4 ./solver
///   interleaf extend --monitor                                    watch a running session
///   interleaf extend --plan run.json --store /mnt/nvme            other budgets and drives
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("forecast").args(["estimate", "plan"]))]
pub(crate) struct ExtendArgs {
    /// The budget: the part of the large allocations that is in DRAM at a time; 8GiB, or 50% of the
    /// memory available to this process (of the machine, within its control groups), or the parts
    /// of NUMA nodes: node0=4GiB,node1=4GiB
    #[arg(long, value_name = "SIZE", value_parser = str::parse::<Dram>,
        required_unless_present_any = ["clean", "monitor", "serve", "release", "plan"])]
    pub(crate) dram: Option<Dram>,
    /// Store: a folder on a fast drive, or a block device; several are striped
    #[arg(long, value_name = "PATH",
        required_unless_present_any = ["clean", "monitor", "serve", "release", "plan"])]
    pub(crate) store: Vec<PathBuf>,
    /// Allocations of this size and larger are extended, and smaller ones (from 128 KiB) once their
    /// total reaches this size; other allocations stay in ordinary memory, outside the budget
    /// [default: an eighth of --dram, at most 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = min_alloc)]
    pub(crate) min_alloc: Option<Bytes>,
    /// Budget of processes that the command starts: a share of the same budget, a separate budget
    /// of the same size, or none
    #[arg(long, value_name = "WHICH", value_enum, default_value = "inherit")]
    pub(crate) children: ChildrenChoice,
    /// Extend shared anonymous memory too (mmap of MAP_SHARED | MAP_ANONYMOUS), which a process
    /// shares with its children. Do not use it if devices or other processes write into this memory
    /// (O_DIRECT reads, process_vm_writev, RDMA): such writes can be lost
    #[arg(long)]
    pub(crate) shared: bool,
    /// Serve the shared memory of the session in this folder
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) serve: Option<PathBuf>,
    /// Release the store files of the session in this folder
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) release: Option<PathBuf>,
    /// Fault handler: a thread of the pager, or a signal handler in the faulting thread, which
    /// halves the cost of a fault on a page in DRAM. With the signal handler, system calls that
    /// access an unmapped page fail with EFAULT, such as read(2) into a large array
    #[arg(long, value_name = "WHERE", value_enum, default_value = "thread")]
    pub(crate) faults: FaultsChoice,
    /// Number of processes that share the budget evenly from the start [default: the ranks of an
    /// MPI job on this node, else 1]
    #[arg(long, value_name = "N", value_parser = processes)]
    pub(crate) processes: Option<u32>,
    /// Share the budget with all commands that are started with this name; ranks of an MPI job do
    /// so by default
    #[arg(long, value_name = "NAME", value_parser = session)]
    pub(crate) session: Option<String>,
    /// Write statistics as JSON (interleaf.extend/1) to FILE when the command has ended
    #[arg(long, value_name = "FILE")]
    pub(crate) stats: Option<PathBuf>,
    /// Also write the statistics, the plan or the forecast as one HTML page
    #[arg(long, value_name = "FILE.html", conflicts_with = "clean")]
    pub(crate) report: Option<PathBuf>,
    /// With a command, print statistics on stderr every second; without a command, watch the
    /// running session, or the session of the process PID
    #[arg(long, value_name = "PID", require_equals = true, value_parser = pid)]
    pub(crate) monitor: Option<Option<u32>>,
    /// Measure the stores for some seconds and predict the speed; does not run the command
    #[arg(long, conflicts_with_all = ["dry_run", "clean", "monitor", "stats"])]
    pub(crate) estimate: bool,
    #[command(flatten)]
    pub(crate) planning: PlanArgs,
    /// Change nothing; check the requirements, and print the plan
    #[arg(long, conflicts_with_all = ["clean", "monitor", "stats"])]
    pub(crate) dry_run: bool,
    /// Remove files and settings of killed sessions, and do nothing else
    #[arg(long, conflicts_with_all = ["dram", "store", "monitor", "stats", "command"])]
    pub(crate) clean: bool,
    /// Run the command despite failed checks that may not matter
    #[arg(long)]
    pub(crate) force: bool,
    /// Print only errors
    #[arg(long, short = 'q', conflicts_with = "monitor")]
    pub(crate) quiet: bool,
    /// Print a JSON document; for a run of the command use --stats, as stdout is the command's
    #[arg(long)]
    pub(crate) json: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true,
        required_unless_present_any = ["clean", "monitor", "estimate", "serve", "release", "plan"])]
    pub(crate) command: Vec<OsString>,
}

/// The inputs of a forecast without a run.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// With --estimate or --plan, the memory that the program touches [default of --plan: as the
    /// pager counted it]
    #[arg(long, value_name = "SIZE", value_parser = super::size, requires = "forecast")]
    pub(crate) footprint: Option<Bytes>,
    /// Predict efficiency at other budgets and on other drives from a run, without running the
    /// command: the file of --stats, a record of `bench compare`, a trace, or several of them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dram", "dry_run", "clean", "monitor",
        "stats", "command"])]
    pub(crate) plan: Vec<PathBuf>,
    /// With --plan, another drive to predict the efficiency on, by name or file [default: all of
    /// devices/drives and the NVRAM cards]; for the drive of the run, give its folder by --store
    #[arg(long, value_name = "NAME|FILE", requires = "plan")]
    pub(crate) drive: Vec<String>,
    /// With --plan, the time of the program with all data in DRAM, if you know it [default: an
    /// estimate from the run]
    #[arg(long, value_name = "TIME", value_parser = time_in_dram, requires = "plan")]
    pub(crate) time_in_dram: Option<Time>,
    /// With --plan, find the budgets for this part of the speed in DRAM [default: 90%]
    #[arg(long, value_name = "PERCENT", value_parser = efficiency, requires = "plan")]
    pub(crate) efficiency: Option<Percent>,
    /// With --plan, draw the traffic by budget in FILE, an SVG picture
    #[arg(long, value_name = "FILE", requires = "plan")]
    pub(crate) plot: Option<PathBuf>,
}

impl PlanArgs {
    /// Returns the first option that needs `--plan` and is given without it. clap does not check
    /// `requires` here, because the command that is given conflicts with `--plan`.
    pub(crate) fn option_without_plan(&self) -> Option<&'static str> {
        let given = [
            ("--drive", !self.drive.is_empty()),
            ("--time-in-dram", self.time_in_dram.is_some()),
            ("--efficiency", self.efficiency.is_some()),
            ("--plot", self.plot.is_some()),
        ];
        let first = given.into_iter().find(|(_, is_given)| *is_given && self.plan.is_empty());
        first.map(|(name, _)| name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildrenChoice {
    /// A part of the same budget
    Inherit,
    /// A separate budget
    Own,
    /// No budget: not extended
    None,
}

impl From<ChildrenChoice> for Children {
    fn from(choice: ChildrenChoice) -> Self {
        match choice {
            ChildrenChoice::Inherit => Self::Inherit,
            ChildrenChoice::Own => Self::Own,
            ChildrenChoice::None => Self::None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultsChoice {
    /// A thread of the pager
    Thread,
    /// The faulting thread
    Signal,
}

impl From<FaultsChoice> for FaultMode {
    fn from(choice: FaultsChoice) -> Self {
        match choice {
            FaultsChoice::Thread => Self::Thread,
            FaultsChoice::Signal => Self::Signal,
        }
    }
}

fn time_in_dram(text: &str) -> Result<Time, String> {
    let time: Time = quantity(text, "12.5s")?;
    match time.seconds() > 0.0 {
        true => Ok(time),
        false => Err(format!("{text} is not above 0: write the measured time, such as 12.5s")),
    }
}

fn efficiency(text: &str) -> Result<Percent, String> {
    percent(text, [1.0, 99.0], "67%")
}

fn min_alloc(text: &str) -> Result<Bytes, String> {
    let size: Bytes = quantity(text, "64MiB")?;
    if size.get() >= ALLOC_MIN {
        return Ok(size);
    }
    Err(format!("{text} is less than 128KiB: write a size such as 64MiB"))
}

fn processes(text: &str) -> Result<u32, String> {
    let most = interleaf_pager::session::ledger::SLOTS as u32;
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("it is not a whole number from 1 to {most}: write one such as 4"))
}

fn session(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=64).contains(&text.len()) && text.chars().all(fits) && !text.starts_with('.') {
        return Ok(text.into());
    }
    Err("it is not a name of at most 64 letters, digits, - and _: write one such as solver-1"
        .into())
}
