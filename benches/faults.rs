//! Measures the time of a minor fault (a fault on a page whose content is in memory), with
//! userfaultfd alone and with the pager.
//!
//! A sample touches 512 pieces of memory in order. A piece has one or 16 pages, and one fault maps
//! the whole piece. With userfaultfd alone, the handler needs no page table of its own, because the
//! content of a page is at the offset of the faulting address. A thread that waits in `poll`, a
//! thread that spins, or the faulting thread itself (in a handler of SIGBUS) handles the fault, and
//! maps the piece by `UFFDIO_COPY` or `UFFDIO_MOVE`.

#![expect(unsafe_code, reason = "the kernel's calls are timed by hand")]

use divan::{Bencher, counter::ItemsCount};
use interleaf_pager::{cache::Settings, kernel::uffd::FaultMode, nodes::Nodes, pager::Pager};
use interleaf_prefetch::{Limits, advice::Advice};
use interleaf_store::{FileStore, Options};
use std::{
    mem::zeroed,
    ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

fn main() {
    divan::main();
}

const PAGE: usize = 4096;
const PIECES: usize = 512;

/// The ioctls `UFFDIO_API`, `_REGISTER`, `_COPY` and `_MOVE`, and the feature bits
/// `UFFD_FEATURE_SIGBUS` and `UFFD_FEATURE_MOVE`, all from `linux/userfaultfd.h`.
const API: u64 = 0xc018_aa3f;
const REGISTER: u64 = 0xc020_aa00;
const COPY: u64 = 0xc028_aa03;
const MOVE: u64 = 0xc028_aa05;
const SIGBUS: u64 = 1 << 7;
const MOVES: u64 = 1 << 16;

/// The thread that handles a fault: one that waits in `poll`, one that spins, or the faulting
/// thread itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Poll,
    Spin,
    Itself,
}

/// The operation of userfaultfd that maps a piece: `UFFDIO_COPY` or `UFFDIO_MOVE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Copy,
    Move,
}

/// The state of the fault handlers. It is in statics, because no argument can be passed to a
/// handler of SIGBUS. `FD` is the userfaultfd. `MEMORY` is the address of the memory that is
/// touched, and `FRAMES` is the address of its content. `BYTES` is the size of a piece. `CALL` is
/// the number of the ioctl that maps a piece. `IS_OVER` ends the thread that handles faults.
static FD: AtomicI32 = AtomicI32::new(-1);
static MEMORY: AtomicUsize = AtomicUsize::new(0);
static FRAMES: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static CALL: AtomicUsize = AtomicUsize::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);

fn map(bytes: usize) -> usize {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping does not overlap any other mapping.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(address, libc::MAP_FAILED);
    // SAFETY: the range is the new mapping.
    unsafe { libc::madvise(address, bytes, libc::MADV_NOHUGEPAGE) };
    address as usize
}

/// Handles a fault at `address`: copies or moves the piece with this address from `FRAMES` to the
/// same offset in `MEMORY`.
fn serve(address: usize) {
    let (memory, bytes) = (MEMORY.load(SeqCst), BYTES.load(SeqCst));
    let start = (address - memory) / bytes * bytes;
    relay(memory + start, FRAMES.load(SeqCst) + start, bytes, CALL.load(SeqCst) as u64);
}

fn relay(to: usize, from: usize, bytes: usize, call: u64) {
    let mut argument = [to as u64, from as u64, bytes as u64, 0, 0];
    // SAFETY: the call reads and writes the five numbers of `argument`, and changes only mappings
    // of this benchmark.
    let outcome = unsafe { libc::ioctl(FD.load(SeqCst), call, &raw mut argument) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`.
    serve(unsafe { (*info).si_addr() } as usize);
}

/// Reads and handles faults until `IS_OVER` is true.
fn handle(by: By) {
    let fd = FD.load(SeqCst);
    while !IS_OVER.load(SeqCst) {
        if by == By::Poll {
            let mut waits = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: the pointer is to one valid `pollfd`.
            unsafe { libc::poll(&raw mut waits, 1, 100) };
        }
        let mut message = [0_u64; 4];
        // SAFETY: `message` has 32 bytes.
        let read = unsafe { libc::read(fd, message.as_mut_ptr().cast(), 32) };
        if read == 32 {
            serve(message[2] as usize);
        }
    }
}

fn call(number: u64, argument: &mut [u64]) {
    // SAFETY: the call reads and writes no more numbers than `argument` has.
    let outcome = unsafe { libc::ioctl(FD.load(SeqCst), number, argument.as_mut_ptr()) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

fn touch(memory: usize, bytes: usize) {
    for piece in 0..PIECES {
        // SAFETY: the address is in the mapping, and the handler resolves the fault.
        unsafe { ptr::read_volatile((memory + piece * bytes) as *const u64) };
    }
}

/// Faults that userfaultfd alone handles, without the pager.
#[divan::bench(
    args = [
        (By::Poll, How::Copy, 1), (By::Poll, How::Move, 1), (By::Spin, How::Copy, 1),
        (By::Spin, How::Move, 1), (By::Itself, How::Copy, 1), (By::Itself, How::Move, 1),
        (By::Spin, How::Move, 16), (By::Itself, How::Move, 16),
    ],
    sample_count = 30, sample_size = 1
)]
fn mechanism(bencher: Bencher, (by, how, pages): (By, How, usize)) {
    let bytes = pages * PAGE;
    let (memory, frames) = (map(PIECES * bytes), map(PIECES * bytes));
    // SAFETY: the range was just mapped. (The write makes all of its pages resident.)
    unsafe { ptr::write_bytes(frames as *mut u8, 1, PIECES * bytes) };
    // SAFETY: the call only creates a file descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK) };
    assert!(fd >= 0, "userfaultfd: {}", std::io::Error::last_os_error());
    FD.store(fd as i32, SeqCst);
    let number = if how == How::Copy { COPY } else { MOVE };
    for (place, value) in
        [(&MEMORY, memory), (&FRAMES, frames), (&BYTES, bytes), (&CALL, number as usize)]
    {
        place.store(value, SeqCst);
    }
    call(API, &mut [0xaa, MOVES | if by == By::Itself { SIGBUS } else { 0 }, 0]);
    for start in [memory, frames] {
        call(REGISTER, &mut [start as u64, (PIECES * bytes) as u64, 1, 0]);
    }
    IS_OVER.store(false, SeqCst);
    let handler = (by != By::Itself).then(|| thread::spawn(move || handle(by)));
    if by == By::Itself {
        // SAFETY: an all-zero sigaction is valid, and the handler touches only mapped memory.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    }
    let is_there = AtomicBool::new(false);
    let reset = || {
        if !is_there.swap(true, SeqCst) {
            return;
        }
        if how == How::Copy {
            // SAFETY: the content of the range is no longer needed.
            unsafe { libc::madvise(memory as *mut _, PIECES * bytes, libc::MADV_DONTNEED) };
        } else {
            relay(frames, memory, PIECES * bytes, MOVE);
        }
    };
    bencher
        .counter(ItemsCount::new(PIECES))
        .with_inputs(reset)
        .bench_local_values(|()| touch(memory, bytes));
    IS_OVER.store(true, SeqCst);
    handler.into_iter().for_each(|handler| handler.join().expect("it does not panic"));
    // SAFETY: nothing uses the mappings and the descriptor any more.
    unsafe {
        libc::munmap(memory as *mut _, PIECES * bytes);
        libc::munmap(frames as *mut _, PIECES * bytes);
        libc::close(fd as i32);
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

/// Minor faults that the pager handles, on pages that are resident and unmapped. The difference
/// from [`mechanism`] with the same kind of fault handler is the cost of the pager.
#[divan::bench(args = [FaultMode::Thread, FaultMode::Signal], sample_count = 30, sample_size = 1)]
fn pager(bencher: Bencher, mode: FaultMode) {
    let settings =
        Settings { frames: 16384, order: 0, prefetch: Limits { initial: 16, max: 2048 } };
    let store = FileStore::memory(1, Options::default()).expect("files in memory");
    let pager = Pager::with_slot(settings, 1 << 30, store, None, mode, Nodes::single())
        .expect("userfaultfd");
    let mut region = pager.region(PIECES * PAGE).expect("addresses");
    region.advise(0..PIECES * PAGE, Advice::Random);
    region.bytes_mut().fill(1);
    let memory = region.bytes().as_ptr() as usize;
    let cool = || {
        region.advise(0..PIECES * PAGE, Advice::Cold);
        // In this idle time, the pager writes back dirty pages.
        thread::sleep(Duration::from_millis(20));
    };
    cool();
    bencher
        .counter(ItemsCount::new(PIECES))
        .with_inputs(cool)
        .bench_local_values(|()| touch(memory, PAGE));
    let counts = pager.counts();
    assert!(counts.minor_faults >= 15 * PIECES as u64, "{counts:?}");
}
