//! The next definition of each function that this library replaces: the definition that the dynamic
//! loader finds after this library's definition. For `malloc(3)` and its family, the next
//! definition is that of the program's allocator (jemalloc, tcmalloc, mimalloc), linked or
//! preloaded; without such an allocator, it is the C library's. For all other functions, the next
//! definition is the C library's.
//!
//! If the program uses an allocator other than the C library's, all blocks are left to that
//! allocator. The program may allocate and free blocks by functions of the allocator (`mallocx`,
//! `sdallocx`), and these know only the allocator's own blocks. The allocator maps memory for its
//! blocks by `mmap(2)`, and its large mappings are extended.

use libc::{Dl_info, c_int, c_void, pid_t, size_t};
use std::{
    cell::UnsafeCell,
    ffi::CStr,
    mem::{self, MaybeUninit},
    ptr,
    sync::atomic::{AtomicU8, AtomicUsize, Ordering::*},
};

/// Declares `Next`, the table of next definitions, and `look_up_all`, the function that fills it,
/// from a list of the functions with their types.
macro_rules! definitions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// For each function, the definition that the loader finds after this library's definition.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Next {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// True if the next definitions are those of the C library. `malloc` may then return
            /// blocks of this library, mixed with blocks of the C library.
            pub(crate) is_of_libc: bool,
        }

        /// Looks up the next definitions of all functions in the table. The first allocation of a
        /// process calls `look_up_all`, before a second thread exists. The C library defines all
        /// functions in the table, so each look-up finds a definition.
        fn look_up_all() -> Next {
            let is_of_libc = is_of_libc();
            // SAFETY: the list that the macro gets has the type of each function (`malloc(3)`).
            unsafe {
                Next {
                    $($name: mem::transmute::<
                        usize,
                        unsafe extern "C" fn($($argument),*) $(-> $result)?,
                    >(after(name(concat!(stringify!($name), "\0").as_bytes()))),)*
                    is_of_libc,
                }
            }
        }
    };
}

definitions! {
    malloc: fn(size_t) -> *mut c_void;
    calloc: fn(size_t, size_t) -> *mut c_void;
    realloc: fn(*mut c_void, size_t) -> *mut c_void;
    memalign: fn(size_t, size_t) -> *mut c_void;
    aligned_alloc: fn(size_t, size_t) -> *mut c_void;
    posix_memalign: fn(*mut *mut c_void, size_t, size_t) -> c_int;
    valloc: fn(size_t) -> *mut c_void;
    pvalloc: fn(size_t) -> *mut c_void;
    free: fn(*mut c_void);
    malloc_usable_size: fn(*mut c_void) -> size_t;
}

pub(crate) const fn name(text: &[u8]) -> &CStr {
    match CStr::from_bytes_with_nul(text) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

type ForkFunction = unsafe extern "C" fn() -> pid_t;

/// States of the table of next definitions: not looked up yet (`NEW`), being looked up (`BUSY`),
/// complete (`READY`).
const NEW: u8 = 0;
const BUSY: u8 = 1;
const READY: u8 = 2;

struct Table {
    state: AtomicU8,
    next: UnsafeCell<MaybeUninit<Next>>,
}

// SAFETY: only the thread that changes the state from `NEW` to `BUSY` writes the table. Other
// threads read the table only after the state has become `READY`.
unsafe impl Sync for Table {}

static TABLE: Table =
    Table { state: AtomicU8::new(NEW), next: UnsafeCell::new(MaybeUninit::uninit()) };

/// Returns the table of next definitions. The first call looks them up. `None` for calls during the
/// look-up: the loader may then call this library's `malloc`.
pub(crate) fn next() -> Option<&'static Next> {
    if TABLE.state.load(Acquire) != READY && !look_up() {
        return None;
    }
    // SAFETY: the state is `READY`, so the table has been written and never changes again.
    Some(unsafe { (*TABLE.next.get()).assume_init_ref() })
}

#[cold]
fn look_up() -> bool {
    if TABLE.state.compare_exchange(NEW, BUSY, Acquire, Acquire).is_err() {
        return TABLE.state.load(Acquire) == READY;
    }
    // SAFETY: this thread changed the state to `BUSY`, so no other thread writes the table.
    unsafe { (*TABLE.next.get()).write(look_up_all()) };
    TABLE.state.store(READY, Release);
    true
}

/// True if the program calls this library's definitions of `malloc(3)` and its family, and the next
/// definitions of these functions are those of the C library.
fn is_of_libc() -> bool {
    // Only the C library defines `gnu_get_libc_version`, so the address of this function identifies
    // the C library. (`__libc_malloc` would not: other allocators define it too.)
    let libc = base(libc::gnu_get_libc_version as *const () as usize);
    let own = base(&raw const TABLE as usize);
    // If the program defines one of these functions itself, it never calls this library's
    // definition.
    let names = [c"malloc", c"calloc", c"realloc", c"memalign", c"free"];
    let is_own = |address: usize| base(address) == own || is_undefined(address);
    libc.is_some() && names.iter().all(|name| base(after(name)) == libc && is_own(first(name)))
}

/// True if `address` is an entry of the program's procedure linkage table, and not the start of a
/// function. A program with fixed addresses (not PIE) may take the address of a function that it
/// does not define. In all objects, the address of the function is then that of the program's entry
/// for it (System V ABI, AMD64 supplement, section 5.2.1).
fn is_undefined(address: usize) -> bool {
    // SAFETY: all zeros is a valid `Dl_info`.
    let mut found: Dl_info = unsafe { mem::zeroed() };
    let mut symbol: *const Symbol = ptr::null();
    // SAFETY: with `RTLD_DL_SYMENT`, the call writes only to `found` and `symbol`.
    let outcome = unsafe {
        dladdr1(address as *const c_void, &raw mut found, (&raw mut symbol).cast(), RTLD_DL_SYMENT)
    };
    // SAFETY: `symbol` points into the symbol table of a loaded object.
    outcome != 0 && !symbol.is_null() && unsafe { (*symbol).st_shndx } == SHN_UNDEF
}

#[cfg(target_pointer_width = "64")]
type Symbol = libc::Elf64_Sym;
#[cfg(target_pointer_width = "32")]
type Symbol = libc::Elf32_Sym;

/// The section index of a symbol that its object does not define (`elf.h`).
const SHN_UNDEF: u16 = 0;

/// A flag of [`dladdr1`]: the call stores a pointer to the symbol at `extra` (`dlfcn.h`).
const RTLD_DL_SYMENT: c_int = 1;

unsafe extern "C" {
    /// `dladdr1(3)` of the GNU C library.
    fn dladdr1(
        address: *const c_void,
        found: *mut Dl_info,
        extra: *mut *mut c_void,
        flags: c_int,
    ) -> c_int;
}

/// The address of the definition of the function `name` that the loader finds after this library's
/// definition; 0 if there is none.
pub(crate) fn after(name: &CStr) -> usize {
    // SAFETY: `dlsym` only reads `name`, which ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

/// The address of the definition of the function `name` that the program uses: the first in the
/// loader's search order.
fn first(name: &CStr) -> usize {
    // SAFETY: `dlsym` only reads `name`, which ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}

/// The start of the object (program or library) that contains `address`; `None` if no object does.
fn base(address: usize) -> Option<usize> {
    // SAFETY: all zeros is a valid `Dl_info`.
    let mut found: Dl_info = unsafe { mem::zeroed() };
    // SAFETY: the call writes only to `found`.
    let outcome = unsafe { libc::dladdr(address as *const c_void, &raw mut found) };
    (outcome != 0).then_some(found.dli_fbase as usize)
}

static FORK: AtomicUsize = AtomicUsize::new(0);

/// Looks up `_Fork` now, so that a call of `_Fork` in a signal handler needs no look-up.
pub(crate) fn find_fork() {
    FORK.store(after(c"_Fork"), Relaxed);
}

/// Calls `_Fork(3)` of the C library. In the child, `_Fork` also updates the thread ID that the C
/// library stores. Fails with `ENOSYS` before version 2.34 of the C library, which has no `_Fork`.
pub(crate) fn fork() -> pid_t {
    if FORK.load(Relaxed) == 0 {
        find_fork();
    }
    match FORK.load(Relaxed) {
        0 => crate::errno::failed(libc::ENOSYS),
        // SAFETY: `FORK` is the address of the C library's `_Fork`, which has the type
        // `ForkFunction`.
        fork => unsafe { mem::transmute::<usize, ForkFunction>(fork)() },
    }
}

/// Blocks that this library's `malloc` returns while the loader looks up the next definitions. Old
/// loaders allocate during the look-up: memory for the last error of each thread (`dlerror(3)`).
/// These blocks are never freed.
pub(crate) mod early {
    use super::*;

    const BYTES: usize = 16 << 10;
    const ALIGN: usize = 16;

    #[repr(align(16))]
    struct Blocks(UnsafeCell<[u8; BYTES]>);

    // SAFETY: `allocate` gives each byte of `BLOCKS` to one caller only.
    unsafe impl Sync for Blocks {}

    static BLOCKS: Blocks = Blocks(UnsafeCell::new([0; BYTES]));
    static USED: AtomicUsize = AtomicUsize::new(0);

    /// Returns a zeroed block of at least `bytes` bytes; null if too few of the `BYTES` bytes are
    /// left.
    pub(crate) fn allocate(bytes: usize) -> *mut c_void {
        // The 16 bytes (`ALIGN`) in front of the returned block hold its rounded-up length.
        let whole = bytes.checked_add(ALIGN).and_then(|it| it.checked_next_multiple_of(ALIGN));
        let Some(whole) = whole.filter(|whole| *whole <= BYTES) else { return ptr::null_mut() };
        let at = USED.fetch_add(whole, Relaxed);
        if at + whole > BYTES {
            return ptr::null_mut();
        }
        // SAFETY: `USED` was advanced by `whole`, so the bytes from `at` on belong to this caller
        // alone.
        unsafe {
            let block = BLOCKS.0.get().cast::<u8>().add(at);
            block.cast::<usize>().write(whole - ALIGN);
            block.add(ALIGN).cast()
        }
    }

    /// The size of `block`, bytes; `None` if `block` does not come from [`allocate`].
    pub(crate) fn length(block: *const c_void) -> Option<usize> {
        let start = BLOCKS.0.get() as usize;
        let is_one = (start..start + BYTES).contains(&(block as usize));
        // SAFETY: `block` comes from `allocate`, which stored the block's length in front of it.
        is_one.then(|| unsafe { block.cast::<usize>().byte_sub(ALIGN).read() })
    }
}
