//! Threads of the pager, hidden from the program.
//!
//! A program may make its first large allocation while the calling thread holds a lock of the
//! program or of its libraries: for example the lock of the dynamic loader, or of an allocator that
//! calls `mmap(2)`. In a signal handler or in a child of `_Fork(3)`, a lock may even be held for
//! ever.
//!
//! `pthread_create(3)` takes locks of the C library and allocates, so it could wait for ever.
//! Therefore the pager's threads are made by `clone(2)`, which needs no lock, with thread-local
//! storage that this module lays out. The C library does not know these threads, so it still treats
//! a single-threaded program as single-threaded.
//!
//! The C library has a record of each thread (`struct pthread`). The record of a pager's thread is
//! zeros, and is in none of the C library's lists. Therefore a thread of the pager runs only Rust
//! code and system calls, and never ends by `pthread_exit`. The C library also skips the pager's
//! threads when it changes the user of a program's threads; [`crate::credentials`] changes their
//! user instead.
//!
//! Thread-local storage ("ELF Handling For Thread-Local Storage", U. Drepper): a register holds an
//! address, the thread pointer. Around the thread pointer is a block for each object that was
//! loaded when the program began. The distance of a block from the thread pointer is the same in
//! all threads. Code that does not know the distance looks the block up in a table, whose address
//! is stored at the thread pointer.

use crate::{next, state};
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_thread::{Join, Work};
use libc::{c_int, c_void, dl_phdr_info, size_t};
use rustix::thread::futex;
use std::{
    ffi::CString,
    io, ptr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering::*},
    },
};

/// Size of the stack of a pager's thread, bytes. It is the same as for threads of the Rust standard
/// library. Unused pages take no memory.
const STACK: usize = 2 << 20;

/// Bytes reserved on each side of the thread pointer for the C library's record of the thread,
/// `struct pthread`. The record takes about 2300 bytes in version 2.36 of the GNU C library.
const CONTROL: usize = 8192;

/// The largest distance of a block of thread-local storage from the thread pointer, bytes. A block
/// at a larger distance belongs to an object that was loaded later, and is ignored.
const OFFSET_MAX: usize = 64 << 20;

/// Size of an entry in a thread's table of blocks of thread-local storage, bytes: the block's
/// address, and the pointer that the loader passes to `free`.
const ENTRY: usize = 16;

/// A loaded object (program or library) that has thread-local storage.
struct Module {
    /// The loader's ID of the object's thread-local storage, counted from 1.
    id: usize,
    /// The distance of the object's block of thread-local storage from the thread pointer, bytes.
    offset: isize,
    /// `image` is the address of the block's initial content, and `image_bytes` is the length of
    /// this content. `bytes` is the length of the whole block.
    image: usize,
    image_bytes: usize,
    bytes: usize,
}

static MODULES: OnceLock<Vec<Module>> = OnceLock::new();

/// Records the objects (program and libraries) with thread-local storage that are loaded now.
/// Objects that the program loads later have their blocks elsewhere, and the pager's threads do not
/// use such objects.
pub(crate) fn prepare() {
    MODULES.get_or_init(|| {
        let mut modules: Vec<Module> = vec![];
        // SAFETY: `record_module` gets a pointer to `modules`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(record_module), (&raw mut modules).cast()) };
        modules
    });
}

unsafe extern "C" fn record_module(
    info: *mut dl_phdr_info,
    bytes: size_t,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid structure as `info`, and `prepare` passes the list as
    // `data`.
    let (info, modules) = unsafe { (&*info, &mut *data.cast::<Vec<Module>>()) };
    if bytes < size_of::<dl_phdr_info>() || info.dlpi_tls_data.is_null() {
        return 0;
    }
    // SAFETY: `dlpi_phnum` is the number of headers at `dlpi_phdr`.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let offset = info.dlpi_tls_data as isize - thread_pointer() as isize;
    let header = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(header) = header.filter(|_| offset.unsigned_abs() < OFFSET_MAX) {
        modules.push(Module {
            id: info.dlpi_tls_modid,
            offset,
            image: info.dlpi_addr as usize + header.p_vaddr as usize,
            image_bytes: header.p_filesz as usize,
            bytes: header.p_memsz as usize,
        });
    }
    0
}

/// The thread pointer of the calling thread.
fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the thread pointer is stored at its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction only reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem));
    }
    pointer
}

/// The memory of a thread: a guard page, its stack, and its thread-local storage. `start` is the
/// address of the guard page, and `pointer` the thread pointer.
struct ThreadMemory {
    start: usize,
    bytes: usize,
    pointer: usize,
}

impl ThreadMemory {
    fn new(modules: &[Module]) -> io::Result<Self> {
        let first = modules.iter().map(|module| -module.offset).max().unwrap_or(0).max(0);
        let end = |module: &Module| module.offset + module.bytes as isize;
        let last = modules.iter().map(end).max().unwrap_or(0).max(0);
        let before = (first as usize + CONTROL).next_multiple_of(PAGE_BYTES);
        let behind = (last as usize + CONTROL).next_multiple_of(PAGE_BYTES);
        let entries = modules.iter().map(|module| module.id).max().unwrap_or(0) + 2;
        let table = (entries * ENTRY).next_multiple_of(PAGE_BYTES);
        let bytes = PAGE_BYTES + STACK + before + behind + table;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping changes no other memory.
        let start =
            unsafe { libc::syscall(libc::SYS_mmap, 0_usize, bytes, protection, flags, -1, 0) };
        if start == -1 {
            return Err(io::Error::last_os_error());
        }
        let start = start as usize;
        let area = Self { start, bytes, pointer: start + PAGE_BYTES + STACK + before };
        // SAFETY: only the new mapping is protected and written. From its start on, it has the
        // guard page; the stack; the blocks of thread-local storage and the control block, on both
        // sides of the thread pointer; and the table of these blocks.
        unsafe {
            libc::syscall(libc::SYS_mprotect, start, PAGE_BYTES, libc::PROT_NONE);
            area.lay_out(modules, area.pointer + behind, entries);
        }
        Ok(area)
    }

    /// Fills the new thread's blocks of thread-local storage, their table, and the control block.
    ///
    /// # Safety
    /// The area around `self.pointer` has space for the block of each module, and the area at
    /// `table` has space for `entries` entries. Both areas contain zeros.
    unsafe fn lay_out(&self, modules: &[Module], table: usize, entries: usize) {
        let words = |address: usize| address as *mut usize;
        // SAFETY: the caller guarantees the space around `self.pointer` and at `table`. The images
        // stay mapped for as long as the program runs.
        unsafe {
            // The first two entries are for the loader. The first is the number of entries after
            // these two. The second is the generation, a counter that the loader increments when it
            // loads or unloads an object. For a table with an outdated generation, the loader would
            // allocate a new table by `malloc`. A very large generation is never outdated.
            *words(table) = entries - 2;
            *words(table + ENTRY) = usize::MAX / 2;
            for module in modules {
                let block = self.pointer.wrapping_add_signed(module.offset);
                let image = module.image as *const u8;
                ptr::copy_nonoverlapping(image, block as *mut u8, module.image_bytes);
                *words(table + ENTRY * (module.id + 1)) = block;
            }
            self.control(table + ENTRY);
            let rseq = next::after(c"__rseq_offset") as *const isize;
            if let Some(offset) = rseq.as_ref() {
                // `rseq` is the thread's area for restartable sequences. The second word of the
                // area is the CPU of the thread: -1 until the thread asks the kernel to maintain
                // it.
                let rseq = self.pointer.wrapping_add_signed(*offset);
                *(rseq as *mut u32).add(1) = u32::MAX;
            }
        }
    }

    /// Fills the control block at the thread pointer (`tcbhead_t` of the GNU C library): its own
    /// address in two fields, the address of the table of blocks of thread-local storage, and the
    /// calling thread's stack guard and pointer guard.
    ///
    /// # Safety
    /// The area at `self.pointer` has space for the control block.
    #[cfg(target_arch = "x86_64")]
    unsafe fn control(&self, table: usize) {
        let (own, new) = (thread_pointer() as *const usize, self.pointer as *mut usize);
        // SAFETY: the caller guarantees the space, and the calling thread has a control block too.
        unsafe {
            *new = self.pointer;
            *new.add(1) = table;
            *new.add(2) = self.pointer;
            *new.add(5) = *own.add(5);
            *new.add(6) = *own.add(6);
        }
    }

    /// Fills the control block at the thread pointer: on this architecture, only the address of the
    /// table of blocks of thread-local storage.
    ///
    /// # Safety
    /// The area at `self.pointer` has space for the control block.
    #[cfg(target_arch = "aarch64")]
    unsafe fn control(&self, table: usize) {
        // SAFETY: the caller guarantees the space.
        unsafe { *(self.pointer as *mut usize) = table };
    }
}

impl Drop for ThreadMemory {
    fn drop(&mut self) {
        // SAFETY: no thread runs in this memory.
        unsafe { libc::syscall(libc::SYS_munmap, self.start, self.bytes) };
    }
}

/// The name of a new thread, and the work that it does.
struct ThreadStart {
    name: CString,
    work: Work,
}

/// A started thread. `number` is its thread ID. When the thread has ended, the kernel sets `number`
/// to 0 and wakes the threads that wait in [`join`].
pub(crate) struct StartedThread {
    number: AtomicU32,
    _memory: ThreadMemory,
}

static STARTED: Mutex<Vec<Arc<StartedThread>>> = Mutex::new(vec![]);

fn started() -> ThreadList {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread IDs of the pager's running threads.
pub(crate) fn running() -> Vec<u32> {
    let numbers = started().iter().map(|thread| thread.number.load(Acquire)).collect::<Vec<_>>();
    numbers.into_iter().filter(|number| *number != 0).collect()
}

/// The locked list of threads: no thread is started or removed while the list is locked.
pub(crate) type ThreadList = MutexGuard<'static, Vec<Arc<StartedThread>>>;

/// Locks the list of threads, so that a fork can hold the lock.
pub(crate) fn lock_list() -> ThreadList {
    started()
}

/// Empties the list in a forked child, in which none of these threads exists.
pub(crate) fn forget(mut hold: ThreadList) {
    // The entries of the list are leaked. Threads of the parent hold references to the entries, and
    // these references are never dropped in the child.
    std::mem::forget(std::mem::take(&mut *hold));
}

/// Starts a thread in which all signals are blocked except `SIGSETXID`, which changes the thread's
/// user ([`crate::credentials`]).
pub(crate) fn spawn(name: &str, work: Work) -> io::Result<Join> {
    prepare();
    let area = ThreadMemory::new(MODULES.get().map_or(&[], Vec::as_slice))?;
    let (stack, pointer) = (area.start + PAGE_BYTES + STACK, area.pointer);
    let thread = Arc::new(StartedThread { number: AtomicU32::new(u32::MAX), _memory: area });
    let number = thread.number.as_ptr();
    let begin = Box::into_raw(Box::new(ThreadStart { name: CString::new(name)?, work }));
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    let mut threads = started();
    threads.retain(|thread| thread.number.load(Acquire) != 0);
    let mask = state::block_all();
    // SAFETY: the stack and the thread-local storage belong to the new thread alone, and stay until
    // it has ended, because the list of threads holds them. The new thread owns `begin`.
    let outcome = unsafe {
        libc::clone(run, stack as *mut c_void, flags, begin.cast(), number, pointer, number)
    };
    let why = io::Error::last_os_error();
    state::set_mask(mask);
    if outcome == -1 {
        // SAFETY: no thread was started, so this function still owns `begin`.
        drop(unsafe { Box::from_raw(begin) });
        return Err(why);
    }
    threads.push(Arc::clone(&thread));
    Ok(Box::new(move || join(&thread)))
}

extern "C" fn run(begin: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes the ownership of `begin` to this thread.
    let begin = unsafe { Box::from_raw(begin.cast::<ThreadStart>()) };
    // SAFETY: the call reads `begin.name`, a string that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, begin.name.as_ptr()) };
    state::begin_thread(!state::SIGSETXID_BIT);
    let ThreadStart { name, work } = *begin;
    drop(name);
    work();
    state::block_all();
    0
}

fn join(thread: &Arc<StartedThread>) {
    loop {
        match thread.number.load(Acquire) {
            0 => break,
            // When a thread ends, the kernel wakes the waiting threads by a wake for shared
            // futexes. It would not wake a wait with the flag `PRIVATE`.
            number => drop(futex::wait(&thread.number, futex::Flags::empty(), number, None)),
        }
    }
    started().retain(|other| !Arc::ptr_eq(other, thread));
}
