//! The interface to the kernel through which the memory of processes is read and migrated. Tests
//! simulate a machine behind it, because a machine with one node cannot migrate pages.

use super::area::{self, Area};
use crate::{
    machine::{id_list::IdList, node},
    process::{self, Process, Snapshot, numa_maps},
    root::{Root, RootError},
    stop_flag::StopFlag,
    syscall,
};
use interleaf_procfs::{
    page::HUGE_BYTES,
    pagemap::{self, ResidentPage},
};
use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt as _,
    thread,
    time::{Duration, Instant},
};

/// The file with the size of a transparent huge page.
const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// The kernel's functions that read and migrate the memory of processes.
pub(super) trait Memory {
    /// Returns the sizes of a base page and of a transparent huge page, bytes.
    fn page_sizes(&self) -> (u64, u64);

    /// Returns the nodes with memory, and the free bytes of each.
    fn nodes(&mut self) -> Result<Vec<(u32, u64)>, RootError>;

    /// Returns, for each process of `pids`, the process and its descendants, all from one reading
    /// of `/proc`; nothing for a missing process. Descendants are left out if [`Self::is_alone`] is
    /// true.
    fn trees(&mut self, pids: &[u32]) -> Result<Vec<Vec<Process>>, RootError>;

    /// True when only the processes that the caller names migrate, without their descendants. If
    /// one of the named processes has ended or is refused, the other named processes still migrate.
    fn is_alone(&self) -> bool;

    /// Returns the process `pid`; `None` if it does not exist.
    fn process(&mut self, pid: u32) -> Result<Option<Process>, RootError>;

    /// Returns the nodes on which a process may allocate; `None` if there is no limit.
    fn allowed(&mut self, pid: u32) -> Result<Option<IdList>, RootError>;

    /// Returns those mappings of a process that can be migrated; `None` if the process has ended.
    fn areas(&mut self, pid: u32) -> Result<Option<Vec<Area>>, RootError>;

    /// False if the process has released its memory, because it has ended or is about to end.
    fn has_memory(&mut self, pid: u32) -> Result<bool, RootError>;

    /// Appends to `to` the pages of an area (a mapping) that are resident in the range `addresses`.
    fn resident(
        &mut self,
        pid: u32,
        area: &Area,
        addresses: Range<u64>,
        to: &mut Vec<ResidentPage>,
    );

    /// Writes the node of each page into `status`; a negative number if it is not resident.
    fn locate(&mut self, pid: u32, addresses: &[u64], status: &mut [i32]) -> io::Result<()>;

    /// Moves pages to one node by `move_pages(2)`. The kernel stops at the first group of pages
    /// that does not migrate as a whole. Returns how many pages did not migrate, counted from this
    /// group on; 0 if the kernel did not stop. Writes into `status`, for each page before this
    /// group, its node or a negative error number.
    fn move_to(
        &mut self,
        pid: u32,
        addresses: &[u64],
        node: u32,
        status: &mut [i32],
    ) -> io::Result<u64>;

    /// Returns the time on a monotonic clock.
    fn now(&self) -> Duration;

    fn pause(&mut self, span: Duration);
}

#[derive(Debug)]
pub(super) struct Live {
    root: Root,
    page_bytes: u64,
    huge_bytes: u64,
    start: Instant,
    /// The pagemap opened last, with the process ID; no file if the pagemap cannot be opened.
    pagemap: Option<(u32, Option<File>)>,
    /// True when only the processes that the caller names migrate, without their descendants and
    /// each independently of the others.
    pub(super) alone: bool,
}

impl Live {
    pub(super) fn new() -> Result<Self, RootError> {
        let root = Root::live();
        let huge_bytes = root.number(HUGE)?.unwrap_or(HUGE_BYTES as u64);
        let page_bytes = rustix::param::page_size() as u64;
        Ok(Self {
            root,
            page_bytes,
            huge_bytes,
            start: Instant::now(),
            pagemap: None,
            alone: false,
        })
    }

    /// True when the kernel reports the nodes of pages.
    pub(super) fn has_numa(&self) -> bool {
        self.root.has("/proc/self/numa_maps")
    }

    /// Reads the entries of a process's pagemap for the range `addresses`. Returns fewer entries if
    /// the process ends meanwhile, and `None` if the pagemap cannot be opened.
    fn entries(&mut self, pid: u32, addresses: &Range<u64>) -> Option<Vec<u8>> {
        if self.pagemap.as_ref().is_none_or(|(of, _)| *of != pid) {
            let path = self.root.at(&format!("/proc/{pid}/pagemap"));
            self.pagemap = Some((pid, File::open(path).ok()));
        }
        let file = self.pagemap.as_ref()?.1.as_ref()?;
        let offset = pagemap::entry_offset(addresses.start, self.page_bytes);
        let end = pagemap::entry_offset(addresses.end, self.page_bytes);
        let mut bytes = vec![0; (end - offset) as usize];
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], offset + read as u64) {
                // The file or the process has ended. Pages without an entry count as not resident.
                Ok(0) | Err(_) => break,
                Ok(count) => read += count,
            }
        }
        bytes.truncate(read);
        Some(bytes)
    }
}

impl Memory for Live {
    fn page_sizes(&self) -> (u64, u64) {
        (self.page_bytes, self.huge_bytes)
    }

    fn nodes(&mut self) -> Result<Vec<(u32, u64)>, RootError> {
        let all = node::nodes(&self.root)?.into_iter().filter(|node| node.total_bytes > 0);
        Ok(all.map(|node| (node.id, node.free_bytes)).collect())
    }

    fn trees(&mut self, pids: &[u32]) -> Result<Vec<Vec<Process>>, RootError> {
        let stop = StopFlag::default();
        let snapshot = Snapshot::new(&self.root, &stop);
        let tree = |pid: &u32| match self.alone {
            true => Ok(snapshot.process(*pid)?.into_iter().collect()),
            false => Ok(snapshot.table()?.tree(*pid)),
        };
        pids.iter().map(tree).collect()
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn process(&mut self, pid: u32) -> Result<Option<Process>, RootError> {
        process::process(&self.root, pid)
    }

    fn allowed(&mut self, pid: u32) -> Result<Option<IdList>, RootError> {
        process::allowed_nodes(&self.root, &pid.to_string())
    }

    fn areas(&mut self, pid: u32) -> Result<Option<Vec<Area>>, RootError> {
        // Close the open pagemap, because another process may have the ID `pid` by now.
        self.pagemap = None;
        let Some(mappings) = numa_maps::mappings(&self.root, pid)? else { return Ok(None) };
        let Some(smaps) = self.root.peek(&format!("/proc/{pid}/smaps"))? else { return Ok(None) };
        Ok(Some(area::areas(&smaps, &mappings, self.page_bytes, self.huge_bytes)))
    }

    fn has_memory(&mut self, pid: u32) -> Result<bool, RootError> {
        // The first number of `statm` is the size of the address space. It is 0 once an exiting
        // process has released its memory (`exit_mm`).
        let statm = self.root.peek(&format!("/proc/{pid}/statm"))?.unwrap_or_default();
        Ok(statm.split_whitespace().next().is_some_and(|pages| pages != "0"))
    }

    fn resident(
        &mut self,
        pid: u32,
        area: &Area,
        addresses: Range<u64>,
        to: &mut Vec<ResidentPage>,
    ) {
        let step = self.page_bytes;
        let entries = self.entries(pid, &addresses);
        // `pagemap` has an entry for each base page, so it has several entries for a page of
        // hugetlbfs. Keep only the first of them.
        let is_first = |page: &ResidentPage| page.address.is_multiple_of(area.page_bytes);
        match entries {
            Some(entries) => {
                let found = pagemap::resident(&entries, addresses.start, step, area.is_shared);
                to.extend(found.filter(is_first));
            }
            // `pagemap` is missing or hidden. Add all pages, because any could be resident.
            None => {
                let page = |address| ResidentPage { address, is_shared: false };
                to.extend(addresses.step_by(step as usize).map(page).filter(is_first));
            }
        }
    }

    fn locate(&mut self, pid: u32, addresses: &[u64], status: &mut [i32]) -> io::Result<()> {
        syscall::move_pages(pid, addresses, None, status).map(drop)
    }

    fn move_to(
        &mut self,
        pid: u32,
        addresses: &[u64],
        node: u32,
        status: &mut [i32],
    ) -> io::Result<u64> {
        // No node has an ID above `i32::MAX`. Such an ID becomes -1, which the kernel refuses.
        let node = i32::try_from(node).unwrap_or(-1);
        syscall::move_pages(pid, addresses, Some(&vec![node; addresses.len()]), status)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&mut self, span: Duration) {
        thread::sleep(span);
    }
}
