//! `userfaultfd(2)`: a thread that touches a missing page waits, and the kernel sends a message to
//! the pager.
//!
//! The structures and numbers are from `linux/userfaultfd.h`. They are defined here because no
//! crate wraps `UFFDIO_MOVE` (Linux 6.8), which moves page table entries and copies no content.

#![expect(unsafe_code, reason = "page tables are changed under the program")]

use crate::kernel::memory::has_page;
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::descriptor;
use rustix::{
    fs::{Mode, OFlags},
    io::{self, Errno},
    ioctl::{Ioctl, IoctlOutput, Opcode, Updater, ioctl, opcode},
    mm::{UserfaultfdFlags, userfaultfd},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::c_void,
    mem,
    ops::Range,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// The type byte of the ioctls (`UFFDIO`). The version of the protocol (`UFFD_API`) is the same
/// number.
const GROUP: u8 = 0xaa;

/// `UFFD_FEATURE_SIGBUS`: a fault raises SIGBUS in the faulting thread, instead of sending a
/// message.
const SIGBUS: u64 = 1 << 7;

/// The features that each userfaultfd needs: `UFFD_FEATURE_THREAD_ID`, `UFFD_FEATURE_EXACT_ADDRESS`
/// (Linux 5.18), `UFFD_FEATURE_POISON` (Linux 6.6) and `UFFD_FEATURE_MOVE` (Linux 6.8).
const FEATURES: u64 = 1 << 8 | 1 << 11 | 1 << 14 | 1 << 16;

/// The features that a userfaultfd for memory of several processes needs: those of [`FEATURES`],
/// `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, `UFFD_FEATURE_MISSING_SHMEM`, `UFFD_FEATURE_MINOR_SHMEM`
/// (Linux 5.14) and `UFFD_FEATURE_WP_HUGETLBFS_SHMEM` (Linux 5.19).
const SHARED_FEATURES: u64 = FEATURES | 1 | 1 << 5 | 1 << 10 | 1 << 12;

/// `UFFDIO_REGISTER_MODE_MISSING`: report faults on missing pages.
const MISSING: u64 = 1;

/// `MISSING`, `UFFDIO_REGISTER_MODE_WP` and `UFFDIO_REGISTER_MODE_MINOR`: report also writes to
/// write-protected pages, and minor faults.
const ALL_MODES: u64 = MISSING | 1 << 1 | 1 << 2;

/// `UFFDIO_WRITEPROTECT_MODE_WP`: write-protect the pages. Without this flag, the ioctl removes the
/// write protection.
const PROTECTED: u64 = 1;

/// The device that opens a userfaultfd for users who may not call `userfaultfd(2)`.
const DEVICE: &str = "/dev/userfaultfd";

/// `UFFD_EVENT_PAGEFAULT`: the event of a message about a page fault.
const PAGEFAULT: u8 = 0x12;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct AddressRange {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Register {
    range: AddressRange,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Move {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    moved: i64,
}

#[repr(C)]
struct Copy {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

#[repr(C)]
struct Poison {
    range: AddressRange,
    mode: u64,
    updated: i64,
}

#[repr(C)]
struct Protect {
    range: AddressRange,
    mode: u64,
}

#[repr(C)]
struct Continue {
    range: AddressRange,
    mode: u64,
    mapped: i64,
}

/// `struct uffd_msg` of a page fault. Messages about other events differ in layout after the first
/// byte, the event.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct FaultMessage {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u32,
    padding: u32,
}

const API: Opcode = opcode::read_write::<Api>(GROUP, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(GROUP, 0x00);
const UNREGISTER: Opcode = opcode::read::<AddressRange>(GROUP, 0x01);
const WAKE: Opcode = opcode::read::<AddressRange>(GROUP, 0x02);
const COPY: Opcode = opcode::read_write::<Copy>(GROUP, 0x03);
const MOVE: Opcode = opcode::read_write::<Move>(GROUP, 0x05);
const PROTECT: Opcode = opcode::read_write::<Protect>(GROUP, 0x06);
const CONTINUE: Opcode = opcode::read_write::<Continue>(GROUP, 0x07);
const POISON: Opcode = opcode::read_write::<Poison>(GROUP, 0x08);

/// Maximum number of messages that one `read(2)` of the pager returns.
const MESSAGES: usize = 64;

/// A buffer for the messages that one `read(2)` returns. The caller keeps the buffer for further
/// calls.
#[derive(Clone, Debug)]
pub struct Messages([FaultMessage; MESSAGES]);

impl Default for Messages {
    fn default() -> Self {
        Self([FaultMessage::default(); MESSAGES])
    }
}

/// The fault handling mode: the thread that handles faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultMode {
    /// The pager's thread handles the faults of all threads and of the kernel.
    #[default]
    Thread,
    /// The faulting thread handles its fault in a handler of SIGBUS. A system call that accesses a
    /// missing page fails with `EFAULT`.
    Signal,
}

/// A fault on a missing page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address of the page.
    pub address: usize,
    /// Offset of the access within the page, bytes.
    pub offset: u16,
    pub thread: u32,
}

impl Fault {
    /// The fault of an access to the byte at the address `byte`.
    pub(crate) const fn at(byte: usize, thread: u32) -> Self {
        let offset = (byte % PAGE_BYTES) as u16;
        Self { address: byte - byte % PAGE_BYTES, offset, thread }
    }
}

/// A userfaultfd of one process: reports faults on registered memory, and maps the missing pages.
#[derive(Debug)]
pub struct Userfault {
    fd: OwnedFd,
}

impl Userfault {
    /// Opens a userfaultfd. In thread mode, it also reports faults of system calls, so that system
    /// calls may access the registered memory.
    ///
    /// # Errors
    /// `EPERM` if this user has no right to handle faults of the kernel (`CAP_SYS_PTRACE`, or
    /// `vm.unprivileged_userfaultfd`), and `EINVAL` before Linux 6.8.
    pub fn open(mode: FaultMode) -> io::Result<Self> {
        Self::with(FEATURES | if mode == FaultMode::Signal { SIGBUS } else { 0 })
    }

    /// Opens a userfaultfd for memory that several processes map.
    ///
    /// # Errors
    /// The errors of [`Userfault::open`].
    pub(crate) fn of_shared() -> io::Result<Self> {
        Self::with(SHARED_FEATURES)
    }

    fn with(features: u64) -> io::Result<Self> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: the call makes a descriptor. No memory is registered with it yet.
        let fd = match unsafe { userfaultfd(flags) } {
            // Without the right to call `userfaultfd(2)`, this user may still be allowed to open
            // the device (Linux 6.1).
            Err(Errno::PERM) => open_device(flags).map_err(|_| Errno::PERM)?,
            made => made?,
        };
        let userfault = Self { fd: descriptor::protected(fd) };
        let mut api = Api { api: GROUP.into(), features, ioctls: 0 };
        userfault.call::<API, _>(&mut api)?;
        Ok(userfault)
    }

    /// Registers `addresses` for faults on missing pages.
    ///
    /// # Errors
    /// When the addresses are not anonymous memory of this process.
    pub fn register(&self, addresses: &Range<usize>) -> io::Result<()> {
        let mut register = Register { range: to_range(addresses), mode: MISSING, ioctls: 0 };
        self.call::<REGISTER, _>(&mut register)
    }

    /// Registers addresses of a memory file for faults on missing pages, for minor faults, and for
    /// writes to protected pages. A minor fault is a fault on a page that is in the file and not
    /// mapped.
    ///
    /// # Errors
    /// When the addresses are not a mapping of a memory file in this process.
    pub(crate) fn register_shared(&self, addresses: &Range<usize>) -> io::Result<()> {
        let mut register = Register { range: to_range(addresses), mode: ALL_MODES, ioctls: 0 };
        self.call::<REGISTER, _>(&mut register)
    }

    /// Maps pages that are already in their memory file, and wakes the threads that wait for these
    /// pages.
    ///
    /// # Errors
    /// When a page is mapped already (`EXIST`), when a page is missing in the file (`FAULT`), or
    /// when the addresses are not within one registered mapping.
    pub(crate) fn continue_pages(&self, addresses: &Range<usize>) -> io::Result<()> {
        let mut start = addresses.start;
        while start < addresses.end {
            let range = to_range(&(start..addresses.end));
            let mut mapping = Continue { range, mode: 0, mapped: 0 };
            match self.call::<CONTINUE, _>(&mut mapping) {
                Ok(()) => return Ok(()),
                // The kernel has interrupted the call after `mapped` bytes: retry the rest.
                Err(Errno::AGAIN) => start += usize::try_from(mapping.mapped).unwrap_or(0),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Write-protects all pages at `addresses`, also absent pages, if `on` is true. Otherwise
    /// removes the write protection, and wakes the threads that wait to write.
    ///
    /// # Errors
    /// When the addresses are not registered (some pages may be protected then), or when the
    /// process that owns the userfaultfd has ended (`SRCH`).
    pub(crate) fn write_protect(&self, addresses: &Range<usize>, on: bool) -> io::Result<()> {
        let mode = if on { PROTECTED } else { 0 };
        loop {
            match self.call::<PROTECT, _>(&mut Protect { range: to_range(addresses), mode }) {
                Err(Errno::AGAIN) => std::thread::yield_now(),
                done => return done,
            }
        }
    }

    /// Unregisters `addresses`, and wakes the threads that wait for pages at these addresses.
    ///
    /// # Errors
    /// When the addresses were not registered.
    pub fn unregister(&self, addresses: &Range<usize>) -> io::Result<()> {
        self.call::<UNREGISTER, _>(&mut to_range(addresses))
    }

    /// Wakes the threads that wait for pages at `addresses`. These threads repeat their accesses.
    ///
    /// # Errors
    /// When the addresses are not registered.
    pub fn wake(&self, addresses: &Range<usize>) -> io::Result<()> {
        self.call::<WAKE, _>(&mut to_range(addresses))
    }

    /// Moves the pages of `len` bytes from `src` to `dst`, and wakes the threads that wait for
    /// pages at `dst`. No page may be mapped at `dst`. The move of a pinned page (`EBUSY`) is
    /// retried up to `tries_max` times.
    ///
    /// # Safety
    /// Both ranges are memory of this process that only the pager manages. No Rust object lies at
    /// `src`. The pages at `src` have the content that the program expects at `dst`.
    ///
    /// # Errors
    /// The number of bytes that were moved before the error, and the error.
    pub unsafe fn uffdio_move(
        &self,
        dst: usize,
        src: usize,
        len: usize,
        tries_max: u32,
    ) -> Result<(), (usize, Errno)> {
        let bytes = |moved: i64| usize::try_from(moved).unwrap_or(0);
        let (mut done, mut tries) = (0, 0);
        while done < len {
            let at = |start: usize| (start + done) as u64;
            let (dst, src, rest) = (at(dst), at(src), (len - done) as u64);
            let mut moving = Move { dst, src, len: rest, mode: 0, moved: 0 };
            match self.call::<MOVE, _>(&mut moving) {
                Ok(()) => return Ok(()),
                // The kernel has interrupted the call after `moved` bytes: retry the rest.
                Err(Errno::AGAIN) => (done, tries) = (done + bytes(moving.moved), 0),
                // The first page of the rest is pinned. A transfer that has just ended may still
                // pin its pages for a moment.
                Err(Errno::BUSY) if tries < tries_max => {
                    tries += 1;
                    std::thread::yield_now();
                }
                // Linux 6.18 moves some pages without counting them, so the retry finds the page at
                // `dst` already. One kind is the shared zero page, which the kernel maps when it
                // splits a huge page of zeros. The other kind occurs under memory pressure: pages
                // that were in swap by the time of the retry.
                Err(Errno::EXIST) if !has_page(src as usize) && has_page(dst as usize) => {
                    let _ = self.wake(&(dst as usize..dst as usize + PAGE_BYTES));
                    done += PAGE_BYTES;
                }
                Err(why) => return Err((done, why)),
            }
        }
        Ok(())
    }

    /// Copies `len` bytes from `src` to new pages at `dst`, and wakes the threads that wait for
    /// these pages. Works even if `dst` is not writable. No page may be mapped at `dst`.
    ///
    /// # Errors
    /// When a page is mapped at `dst`, or the addresses are not registered.
    pub(crate) fn copy_pages(&self, dst: usize, src: usize, len: usize) -> io::Result<()> {
        let at = |start: usize, done: usize| (start + done) as u64;
        let mut done = 0;
        while done < len {
            let (dst, src, rest) = (at(dst, done), at(src, done), (len - done) as u64);
            let mut copy = Copy { dst, src, len: rest, mode: 0, copied: 0 };
            match self.call::<COPY, _>(&mut copy) {
                Ok(()) => return Ok(()),
                // The kernel has interrupted the call after `copied` bytes: retry the rest.
                Err(Errno::AGAIN) => done += usize::try_from(copy.copied).unwrap_or(0),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Poisons the pages at `addresses`: each access to them raises SIGBUS, also in threads that
    /// already wait for them.
    ///
    /// # Errors
    /// When the addresses are not registered, or a page is mapped.
    pub fn poison(&self, addresses: &Range<usize>) -> io::Result<()> {
        self.call::<POISON, _>(&mut Poison { range: to_range(addresses), mode: 0, updated: 0 })
    }

    /// Reads up to `MESSAGES` pending faults into `messages`, by one `read(2)`.
    ///
    /// # Errors
    /// The error of `read(2)`. An empty queue is not an error.
    pub fn faults<'a>(
        &self,
        messages: &'a mut Messages,
    ) -> io::Result<impl Iterator<Item = Fault> + use<'a>> {
        let read = {
            // SAFETY: messages consist of numbers without padding, so all their bytes are
            // initialized, and any bytes are a valid message.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(
                    messages.0.as_mut_ptr().cast::<u8>(),
                    mem::size_of_val(&messages.0),
                )
            };
            match io::read(&self.fd, bytes) {
                Ok(read) => read,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(why) => return Err(why),
            }
        };
        let count = read / mem::size_of::<FaultMessage>();
        let faults = messages.0[..count].iter().filter(|it| it.event == PAGEFAULT);
        Ok(faults.map(|message| Fault::at(message.address as usize, message.thread)))
    }

    fn call<const OPCODE: Opcode, T>(&self, argument: &mut T) -> io::Result<()> {
        // SAFETY: the kernel reads and writes only the structure whose size is encoded in `OPCODE`.
        // Only `UFFDIO_MOVE` can take pages away from memory in use, and `uffdio_move`, which calls
        // it, is unsafe.
        unsafe { ioctl(&self.fd, Updater::<OPCODE, T>::new(argument)) }
    }
}

impl From<OwnedFd> for Userfault {
    /// Takes over a userfaultfd that another process has made for its own memory and has passed to
    /// this process.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a userfaultfd through [`DEVICE`]. The file permissions of the device decide whether this
/// user may do so.
fn open_device(flags: UserfaultfdFlags) -> io::Result<OwnedFd> {
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the call takes flags by value and makes a descriptor.
    unsafe { ioctl(&device, NewDescriptor(flags)) }
}

/// `USERFAULTFD_IOC_NEW`: the ioctl of [`DEVICE`] that opens a userfaultfd. The field holds the
/// flags of the new descriptor.
struct NewDescriptor(UserfaultfdFlags);

// SAFETY: `USERFAULTFD_IOC_NEW` takes its flags by value, and returns a new descriptor.
unsafe impl Ioctl for NewDescriptor {
    type Output = OwnedFd;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        opcode::none(GROUP, 0)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.bits() as usize as *mut c_void
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> io::Result<OwnedFd> {
        // SAFETY: the ioctl has succeeded, so `out` is a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(out) })
    }
}

const fn to_range(addresses: &Range<usize>) -> AddressRange {
    AddressRange { start: addresses.start as u64, len: (addresses.end - addresses.start) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::memory::{self, Memory, is_resident};
    use interleaf_procfs::page::HUGE_BYTES;
    use rustix::mm::Advice;
    use std::io::Write as _;

    /// Returns a userfaultfd and the memory of two huge pages, which are not registered.
    fn opened() -> (Userfault, [Memory; 2]) {
        let faults = match Userfault::open(FaultMode::Thread) {
            Ok(faults) => faults,
            Err(why) => panic!("not tested: {why}"),
        };
        (faults, [0; 2].map(|_| Memory::frames(HUGE_BYTES).expect("memory")))
    }

    /// Moves a huge page, which is zeros except for its last byte, in four parts. The first move
    /// splits the huge page, and the kernel then maps the shared zero page in place of pages that
    /// are all zeros. The shared zero page must move like other pages.
    #[test]
    fn shared_pages_of_zeros_move_too() {
        let (faults, [from, to]) = opened();
        // SAFETY: the memory is this test's own.
        unsafe {
            from.zero(0..HUGE_BYTES);
            from.put(HUGE_BYTES - 1, &[7]);
        }
        faults.register(&from.addresses()).expect("registered");
        faults.register(&to.addresses()).expect("registered");
        let (half, page) = (HUGE_BYTES / 2, PAGE_BYTES);
        for part in [0..page, page..2 * page, 2 * page..half, half..HUGE_BYTES] {
            let (dst, src) = (to.start() + part.start, from.start() + part.start);
            // SAFETY: the memory is this test's own.
            let moved = unsafe { faults.uffdio_move(dst, src, part.len(), 1000) };
            assert_eq!(moved, Ok(()), "{part:?}");
        }
        for address in from.addresses().step_by(PAGE_BYTES) {
            assert!(!has_page(address), "{address:#x} stayed");
        }
        // SAFETY: all pages of `to` are mapped.
        let moved = unsafe { to.part(0..HUGE_BYTES) };
        assert!(moved.iter().rev().skip(1).all(|byte| *byte == 0));
        assert_eq!(moved.last(), Some(&7));
    }

    /// Moves eight pages that the kernel has swapped out, and reads them. Not tested on a machine
    /// without swap.
    #[test]
    fn pages_in_swap_move_too() {
        let (faults, [from, to]) = opened();
        faults.register(&to.addresses()).expect("registered");
        let pages = from.start()..from.start() + 8 * PAGE_BYTES;
        // SAFETY: the memory is this test's own, and paging out keeps its content.
        unsafe {
            memory::advise(&from.addresses(), Advice::LinuxNoHugepage).expect("advice");
            from.put(0, &(0..8 * PAGE_BYTES).map(|at| (at / PAGE_BYTES) as u8).collect::<Vec<_>>());
            memory::advise(&pages, Advice::LinuxPageOut).expect("advice");
        }
        if is_resident(pages.start) {
            let text = b"pages in swap are not tested: this machine has no swap\n";
            std::io::stderr().write_all(text).expect("the standard error");
            return;
        }
        assert!(has_page(pages.start));
        // SAFETY: the memory is this test's own.
        let moved = unsafe { faults.uffdio_move(to.start(), pages.start, pages.len(), 1000) };
        assert_eq!(moved, Ok(()));
        // SAFETY: these pages of `to` are mapped.
        let moved = unsafe { to.part(0..pages.len()) };
        assert!(moved.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at / PAGE_BYTES));
    }
}
