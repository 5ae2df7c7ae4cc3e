//! Threads of the pager, in a program that knows nothing of them.
//!
//! The first large allocation of a program may come while the calling thread holds any lock of the
//! program or of its libraries: that of the dynamic loader, one of an allocator that calls
//! `mmap(2)`, or, in a handler of a signal or in a child of `_Fork(3)`, one that is never let go.
//! `pthread_create(3)` takes locks of the C library and allocates, so that it may wait for ever
//! there. These threads are made by `clone(2)`, with thread-local storage that is laid out here,
//! and need nothing of all that. The program does not see them: it remains single-threaded for its
//! C library if it was.
//!
//! The C library's record of the thread (`struct pthread`) is zeros, and in none of its lists. So
//! such a thread runs Rust and system calls only, never ends by `pthread_exit`, and takes no part
//! when a program changes its user ([`crate::credentials`] does that).
//!
//! Thread-local storage ("ELF Handling For Thread-Local Storage", U. Drepper): an address that a
//! register holds, the thread pointer, and around it a block for each object that was there when
//! the program began, at a distance that is the same in all threads. A table at the thread pointer
//! has the block of each object, for code that does not know the distance.

use crate::{next, start};
use interleaf_pager::kernel::thread::{Join, Work};
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

const PAGE: usize = 4096;

/// Bytes of a stack, as of the standard library. What is not used takes no memory.
const STACK: usize = 2 << 20;

/// Bytes around the thread pointer for what the C library knows of a thread: some 2300 with 2.36.
const CONTROL: usize = 8192;

/// Blocks farther from the thread pointer belong to objects that were loaded later.
const FARTHEST: usize = 64 << 20;

/// The table of blocks has two words for each entry: its address, and what to free.
const ENTRY: usize = 16;

/// An object that has thread-local storage.
struct Module {
    /// Its number, from 1 on.
    id: usize,
    /// Where its block is, from the thread pointer on.
    offset: isize,
    /// The initial contents of a block, and its size in bytes.
    image: usize,
    image_bytes: usize,
    bytes: usize,
}

static MODULES: OnceLock<Vec<Module>> = OnceLock::new();

/// Looks at the objects that are loaded, before the program loads more: those that come later have
/// their blocks elsewhere, and are not ours.
pub(crate) fn prepare() {
    MODULES.get_or_init(|| {
        let mut modules: Vec<Module> = vec![];
        // SAFETY: the function takes what is given to it, which lives longer.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut modules).cast()) };
        modules
    });
}

unsafe extern "C" fn look(info: *mut dl_phdr_info, bytes: size_t, data: *mut c_void) -> c_int {
    // SAFETY: the loader gives a structure, and `prepare` the list.
    let (info, modules) = unsafe { (&*info, &mut *data.cast::<Vec<Module>>()) };
    if bytes < size_of::<dl_phdr_info>() || info.dlpi_tls_data.is_null() {
        return 0;
    }
    // SAFETY: there are so many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let offset = info.dlpi_tls_data as isize - pointer() as isize;
    let header = headers.iter().find(|header| header.p_type == libc::PT_TLS);
    if let Some(header) = header.filter(|_| offset.unsigned_abs() < FARTHEST) {
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

/// The thread pointer.
fn pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the thread pointer is where it points at.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: it only reads a register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem));
    }
    pointer
}

/// The memory of a thread: a page that nobody may touch, its stack, and its thread-local storage.
struct Area {
    start: usize,
    bytes: usize,
    pointer: usize,
}

impl Area {
    fn new(modules: &[Module]) -> io::Result<Self> {
        let first = modules.iter().map(|module| -module.offset).max().unwrap_or(0).max(0);
        let end = |module: &Module| module.offset + module.bytes as isize;
        let last = modules.iter().map(end).max().unwrap_or(0).max(0);
        let before = (first as usize + CONTROL).next_multiple_of(PAGE);
        let behind = (last as usize + CONTROL).next_multiple_of(PAGE);
        let entries = modules.iter().map(|module| module.id).max().unwrap_or(0) + 2;
        let table = (entries * ENTRY).next_multiple_of(PAGE);
        let bytes = PAGE + STACK + before + behind + table;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping changes nothing that is there.
        let start =
            unsafe { libc::syscall(libc::SYS_mmap, 0_usize, bytes, protection, flags, -1, 0) };
        if start == -1 {
            return Err(io::Error::last_os_error());
        }
        let start = start as usize;
        let area = Self { start, bytes, pointer: start + PAGE + STACK + before };
        // SAFETY: all of it is in the new mapping: the guard page, and blocks, the control block
        // and the table, for which there is room around the pointer.
        unsafe {
            libc::syscall(libc::SYS_mprotect, start, PAGE, libc::PROT_NONE);
            area.lay_out(modules, area.pointer + behind, entries);
        }
        Ok(area)
    }

    /// # Safety
    /// The destination has the size of the block and is zeros.
    unsafe fn lay_out(&self, modules: &[Module], table: usize, entries: usize) {
        let words = |address: usize| address as *mut usize;
        // SAFETY: by the caller; images are mapped for as long as the program runs.
        unsafe {
            // The loader's own numbers: how many entries, and of which generation of objects. Where
            // that is behind, the loader would make the table longer, and allocate; so it never is.
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
                // Its second word says on which CPU the thread is: -1 as long as the kernel is not
                // asked to keep it.
                let rseq = self.pointer.wrapping_add_signed(*offset);
                *(rseq as *mut u32).add(1) = u32::MAX;
            }
        }
    }

    /// The block at the thread pointer: itself, the table, and the secrets that code compares with.
    ///
    /// # Safety
    /// The destination is large enough.
    #[cfg(target_arch = "x86_64")]
    unsafe fn control(&self, table: usize) {
        let (own, new) = (pointer() as *const usize, self.pointer as *mut usize);
        // SAFETY: by the caller; the calling thread has such a block too.
        unsafe {
            *new = self.pointer;
            *new.add(1) = table;
            *new.add(2) = self.pointer;
            *new.add(5) = *own.add(5);
            *new.add(6) = *own.add(6);
        }
    }

    /// The same, where it is the table alone.
    ///
    /// # Safety
    /// The destination is large enough.
    #[cfg(target_arch = "aarch64")]
    unsafe fn control(&self, table: usize) {
        // SAFETY: by the caller.
        unsafe { *(self.pointer as *mut usize) = table };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: no thread runs in it.
        unsafe { libc::syscall(libc::SYS_munmap, self.start, self.bytes) };
    }
}

/// The start function of a thread, and its argument.
struct Begin {
    name: CString,
    work: Work,
}

/// A thread that was started. The kernel makes its number 0 when it has ended, and wakes who waits.
pub(crate) struct Started {
    number: AtomicU32,
    _area: Area,
}

static STARTED: Mutex<Vec<Arc<Started>>> = Mutex::new(vec![]);

fn started() -> Hold {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The numbers of the threads that run.
pub(crate) fn running() -> Vec<u32> {
    let numbers = started().iter().map(|thread| thread.number.load(Acquire)).collect::<Vec<_>>();
    numbers.into_iter().filter(|number| *number != 0).collect()
}

/// Nobody else starts threads, or forgets them, as long as this is there.
pub(crate) type Hold = MutexGuard<'static, Vec<Arc<Started>>>;

/// Holds the list of threads while the process forks.
pub(crate) fn hold() -> Hold {
    started()
}

/// The process was forked: its child has none of the threads.
pub(crate) fn forget(mut hold: Hold) {
    // Their memory is left as it is: who holds parts of it is not there.
    std::mem::forget(std::mem::take(&mut *hold));
}

/// Starts a thread in which all signals are blocked but the one of [`crate::credentials`].
pub(crate) fn spawn(name: &str, work: Work) -> io::Result<Join> {
    prepare();
    let area = Area::new(MODULES.get().map_or(&[], Vec::as_slice))?;
    let (stack, pointer) = (area.start + PAGE + STACK, area.pointer);
    let thread = Arc::new(Started { number: AtomicU32::new(u32::MAX), _area: area });
    let number = thread.number.as_ptr();
    let begin = Box::into_raw(Box::new(Begin { name: CString::new(name)?, work }));
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
    let mask = start::block_all();
    // SAFETY: the stack and the thread-local storage are the thread's alone, and stay until it has
    // ended: the list has them. What it begins with is given to it.
    let outcome = unsafe {
        libc::clone(run, stack as *mut c_void, flags, begin.cast(), number, pointer, number)
    };
    let why = io::Error::last_os_error();
    start::set_mask(mask);
    if outcome == -1 {
        // SAFETY: there is no thread that would have it.
        drop(unsafe { Box::from_raw(begin) });
        return Err(why);
    }
    threads.push(Arc::clone(&thread));
    Ok(Box::new(move || join(&thread)))
}

extern "C" fn run(begin: *mut c_void) -> c_int {
    // SAFETY: `spawn` has given it to this thread.
    let begin = unsafe { Box::from_raw(begin.cast::<Begin>()) };
    // SAFETY: it reads a name that ends in a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, begin.name.as_ptr()) };
    start::set_mask(!crate::credentials::BIT);
    let Begin { name, work } = *begin;
    drop(name);
    work();
    start::block_all();
    0
}

fn join(thread: &Arc<Started>) {
    loop {
        match thread.number.load(Acquire) {
            0 => break,
            // The kernel wakes all processes that could share the word.
            number => drop(futex::wait(&thread.number, futex::Flags::empty(), number, None)),
        }
    }
    started().retain(|other| !Arc::ptr_eq(other, thread));
}
