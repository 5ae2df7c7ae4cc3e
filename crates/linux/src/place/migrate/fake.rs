//! A simulated machine for tests. It migrates pages as the kernel does in `mm/migrate.c`: in
//! groups, up to the first group that does not migrate as a whole.

use super::{area::Area, memory::Memory};
use crate::{machine::id_list::IdList, process::Process, root::RootError};
use interleaf_procfs::pagemap::ResidentPage;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    time::Duration,
};

pub(super) const PAGE: u64 = 4096;

/// The behaviour of a page under migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The page migrates at the first attempt.
    Free,
    /// The page cannot be isolated from its LRU list at this number of attempts, then migrates.
    Busy(u32),
    /// The page is isolated and then fails to migrate.
    Pinned,
    /// Another process maps the page, according to the kernel.
    Shared,
    /// The kernel reports the page as migrated, but the page stays on its node.
    Lies,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FakePage {
    pub(super) node: u32,
    pub(super) hold: Hold,
}

#[derive(Debug, Default)]
pub(super) struct Fake {
    pub(super) processes: Vec<Process>,
    pub(super) areas: BTreeMap<u32, Vec<Area>>,
    pub(super) pages: BTreeMap<(u32, u64), FakePage>,
    /// The size of a folio in pages. The pages of an aligned block of this size migrate together.
    /// The value 0 means single pages, as 1 does.
    pub(super) folio: u64,
    /// The number of free pages on each node.
    pub(super) free: BTreeMap<u32, u64>,
    /// True when only the named processes migrate, without their descendants and each independently
    /// of the others.
    pub(super) alone: bool,
    /// The IDs of other users' processes, whose pages must not be migrated.
    pub(super) foreign: BTreeSet<u32>,
    pub(super) allowed: Option<IdList>,
    /// The ID of a process that ends, and the number of calls of [`Memory::move_to`] before that.
    pub(super) ends: Option<(u32, u32)>,
    /// True when the process in `ends` still exists, without memory, after its end.
    pub(super) ends_slowly: bool,
    /// The ID of a process that releases its memory as soon as its areas (mappings) are read.
    pub(super) ends_when_read: Option<u32>,
    pub(super) clock: Duration,
    pub(super) paused: Duration,
    /// The number of calls that migrate pages ([`Memory::move_to`]).
    pub(super) calls: u32,
    /// The number of addresses in all calls of [`Memory::move_to`].
    pub(super) requests: u64,
}

impl Fake {
    /// Makes a machine whose node N has `free[N]` free pages.
    pub(super) fn new(free: &[u64]) -> Self {
        Self { free: (0..).zip(free.iter().copied()).collect(), ..Self::default() }
    }

    pub(super) fn start(&mut self, pid: u32, parent: u32) {
        let name = format!("program-{pid}");
        let process =
            Process { pid, parent, session: parent, name, start_ticks: 7, is_zombie: false };
        self.processes.push(process);
        self.areas.entry(pid).or_default();
    }

    /// Maps pages of a process from the address `start` on. `nodes` has the node of each page. As
    /// `smaps` would show it, `unit_pages` adjacent pages migrate together.
    pub(super) fn map(&mut self, pid: u32, start: u64, unit_pages: u32, nodes: &[u32]) {
        let end = start + nodes.len() as u64 * PAGE;
        let area = Area {
            addresses: start..end,
            resident_bytes: end - start,
            page_bytes: PAGE,
            unit_pages,
            is_shared: false,
        };
        self.areas.get_mut(&pid).expect("the process was started").push(area);
        for (at, node) in (0..).zip(nodes) {
            let page = FakePage { node: *node, hold: Hold::Free };
            self.pages.insert((pid, start + at * PAGE), page);
        }
    }

    pub(super) fn hold(&mut self, hold: Hold, wanted: impl Fn(u64) -> bool) {
        for (_, page) in self.pages.iter_mut().filter(|((_, address), _)| wanted(address / PAGE)) {
            page.hold = hold;
        }
    }

    pub(super) fn counts(&self) -> Vec<usize> {
        let on = |node: &u32| self.pages.values().filter(|page| page.node == *node).count();
        self.free.keys().map(on).collect()
    }

    fn folio(&self, pid: u32, address: u64) -> Vec<u64> {
        let bytes = self.folio.max(1) * PAGE;
        let first = address / bytes * bytes;
        let near = self.pages.range((pid, first)..(pid, first + bytes));
        near.map(|((_, address), _)| *address).collect()
    }

    /// Returns the error of `move_pages` for a process that has ended: `EINVAL` if the process
    /// still exists without memory, otherwise `ESRCH`.
    fn gone(&self, pid: u32) -> io::Error {
        let is_there = self.processes.iter().any(|process| process.pid == pid);
        io::Error::from_raw_os_error(if is_there { libc::EINVAL } else { libc::ESRCH })
    }

    /// Migrates isolated pages, whose addresses are in `group`, to `node`. Returns how many failed.
    fn flush(&mut self, pid: u32, group: &BTreeSet<u64>, node: u32) -> io::Result<u64> {
        let mut failed = 0;
        for address in group {
            let parts = self.folio(pid, *address);
            let from = self.pages[&(pid, *address)].node;
            let hold = self.pages[&(pid, *address)].hold;
            if hold == Hold::Pinned {
                failed += 1;
            } else if self.free[&node] < parts.len() as u64 {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            } else if hold != Hold::Lies {
                *self.free.get_mut(&node).expect("the node is there") -= parts.len() as u64;
                *self.free.entry(from).or_default() += parts.len() as u64;
                for part in parts {
                    self.pages.get_mut(&(pid, part)).expect("it was found").node = node;
                }
            }
        }
        Ok(failed)
    }

    /// Isolates the page at `address` from its LRU list, so that it can migrate to `node`. `group`
    /// has the addresses of the pages that are isolated already. If the page is not isolated,
    /// returns as the error the status that `move_pages` reports: a negative error number, or the
    /// page's node if the page is on `node` already.
    fn isolate(
        &mut self,
        pid: u32,
        address: u64,
        node: u32,
        group: &BTreeSet<u64>,
    ) -> Result<(), i32> {
        let Some(page) = self.pages.get_mut(&(pid, address)) else { return Err(-libc::ENOENT) };
        match &mut page.hold {
            _ if page.node == node => return Err(node as i32),
            Hold::Shared => return Err(-libc::EACCES),
            Hold::Busy(times @ 1..) => {
                *times -= 1;
                return Err(-libc::EBUSY);
            }
            _ => {}
        }
        let taken = self.folio(pid, address).iter().any(|part| group.contains(part));
        if taken { Err(-libc::EBUSY) } else { Ok(()) }
    }
}

impl Memory for Fake {
    fn page_sizes(&self) -> (u64, u64) {
        (PAGE, 2 << 20)
    }

    fn nodes(&mut self) -> Result<Vec<(u32, u64)>, RootError> {
        Ok(self.free.iter().map(|(node, pages)| (*node, pages * PAGE)).collect())
    }

    fn trees(&mut self, pids: &[u32]) -> Result<Vec<Vec<Process>>, RootError> {
        let tree = |pid: &u32| {
            let is_child = |process: &Process| !self.alone && process.parent == *pid;
            let of = |process: &&Process| process.pid == *pid || is_child(process);
            self.processes.iter().filter(of).cloned().collect()
        };
        Ok(pids.iter().map(tree).collect())
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn process(&mut self, pid: u32) -> Result<Option<Process>, RootError> {
        Ok(self.processes.iter().find(|process| process.pid == pid).cloned())
    }

    fn allowed(&mut self, _: u32) -> Result<Option<IdList>, RootError> {
        Ok(self.allowed.clone())
    }

    fn areas(&mut self, pid: u32) -> Result<Option<Vec<Area>>, RootError> {
        if self.foreign.contains(&pid) {
            let why = io::ErrorKind::PermissionDenied.into();
            return Err(RootError::Read { path: format!("/proc/{pid}/numa_maps"), why });
        }
        let areas = self.areas.get(&pid).cloned();
        if self.ends_when_read == Some(pid) {
            self.areas.remove(&pid);
            self.pages.retain(|(of, _), _| *of != pid);
        }
        Ok(areas)
    }

    fn has_memory(&mut self, pid: u32) -> Result<bool, RootError> {
        Ok(self.areas.contains_key(&pid))
    }

    fn resident(&mut self, pid: u32, area: &Area, range: Range<u64>, to: &mut Vec<ResidentPage>) {
        let all = self.pages.range((pid, range.start)..(pid, range.end));
        let first = all.filter(|((_, address), _)| address.is_multiple_of(area.page_bytes));
        to.extend(
            first.map(|((_, address), _)| ResidentPage { address: *address, is_shared: false }),
        );
    }

    fn locate(&mut self, pid: u32, addresses: &[u64], status: &mut [i32]) -> io::Result<()> {
        if self.areas.contains_key(&pid) {
            for (address, status) in addresses.iter().zip(status) {
                let page = self.pages.get(&(pid, *address));
                *status = page.map_or(-libc::ENOENT, |page| page.node as i32);
            }
            return Ok(());
        }
        Err(self.gone(pid))
    }

    fn move_to(
        &mut self,
        pid: u32,
        addresses: &[u64],
        node: u32,
        status: &mut [i32],
    ) -> io::Result<u64> {
        self.calls += 1;
        self.requests += addresses.len() as u64;
        if self.ends.is_some_and(|(_, calls)| self.calls > calls)
            && let Some((pid, _)) = self.ends.take()
        {
            // With `ends_slowly` the process stays in `processes` without memory, so the call fails
            // with `EINVAL` and not with `ESRCH`.
            if !self.ends_slowly {
                self.processes.retain(|process| process.pid != pid);
            }
            self.areas.remove(&pid);
        }
        if !self.areas.contains_key(&pid) {
            return Err(self.gone(pid));
        }
        let (mut group, mut first) = (BTreeSet::new(), 0);
        for at in 0..=addresses.len() {
            let taken = addresses.get(at).map(|it| self.isolate(pid, *it, node, &group));
            if let Some(Ok(())) = taken {
                group.insert(addresses[at]);
                continue;
            }
            if let Some(Err(status_of_page)) = taken {
                status[at] = status_of_page;
            }
            let failed = self.flush(pid, &group, node)?;
            if failed > 0 {
                return Ok(failed + (addresses.len() - at) as u64);
            }
            status[first..at].fill(node as i32);
            group.clear();
            first = at + 1;
        }
        Ok(0)
    }

    fn now(&self) -> Duration {
        self.clock
    }

    fn pause(&mut self, span: Duration) {
        self.clock += span;
        self.paused += span;
    }
}
