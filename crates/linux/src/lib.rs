//! Linux: what a machine says of its memory tiers, and what it can be told.
//!
//! Everything is read below a [`root::Root`], which is `/` on a live machine and a folder with the
//! same files for one that was captured. Nothing else in the tool talks to the kernel.
//!
//! What is not there is a value, not an error: an old kernel, a machine with one node, a file that
//! only root may read.

pub mod input;

pub mod replace;
pub mod root;

pub mod list;

pub mod node;

pub mod weights;

pub mod switches;

pub mod vmstat;

pub mod source;

pub mod counters;

pub mod rapl;

pub mod resctrl;

pub mod replay;

pub mod socket;

pub mod feed;

pub mod cgroup;

pub mod available;

pub mod bounded;

pub mod swapfile;

pub mod damon;

pub mod topology;

pub mod hardware;

pub mod busy;

pub mod capability;

pub mod stop;

pub mod process;

pub mod usage;

pub mod numa_maps;

pub mod sampled;

pub mod mempolicy;

pub mod journal;

pub mod layout;

pub mod host;

pub mod placement;

pub mod survey;

pub mod program;

pub mod storage;

pub mod command;

pub mod migrate;

pub mod actuator;

mod syscall;
