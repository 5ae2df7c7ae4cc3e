//! Replaces the functions that change the user or groups of a program (`setuid(2)`). In the kernel
//! each thread has its own credentials, and the C library changes the credentials of all threads
//! that it knows. The C library does not know the pager's threads ([`crate::thread`]), which would
//! keep rights that the program has given up. Therefore the functions here also change the
//! credentials of the pager's threads, in a handler of the signal that the C library uses for the
//! same purpose (`SIGSETXID`).

use crate::{
    next,
    state::{self, inside},
    thread,
};
use interleaf_thread::scheduling::keep_normal_policy;
use libc::{c_char, c_int, gid_t, size_t, uid_t};
use rustix::thread::futex;
use std::{
    mem, ptr,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*},
};

/// The user and the groups of a thread.
struct Credentials {
    groups: Vec<gid_t>,
    /// The real, effective and saved user ID. `group` has the three group IDs in the same order.
    user: [uid_t; 3],
    group: [gid_t; 3],
}

impl Credentials {
    fn own() -> Self {
        let (mut user, mut group) = ([0; 3], [0; 3]);
        let mut groups = vec![];
        // SAFETY: the kernel writes at most as many numbers as the buffer holds.
        unsafe {
            let [real, effective, saved] = user.each_mut().map(ptr::from_mut);
            libc::syscall(libc::SYS_getresuid, real, effective, saved);
            let [real, effective, saved] = group.each_mut().map(ptr::from_mut);
            libc::syscall(libc::SYS_getresgid, real, effective, saved);
            let count = libc::syscall(libc::SYS_getgroups, 0, ptr::null_mut::<gid_t>());
            groups.resize(usize::try_from(count).unwrap_or(0), 0);
            libc::syscall(libc::SYS_getgroups, groups.len(), groups.as_mut_ptr());
        }
        Self { groups, user, group }
    }

    /// Changes the credentials of the calling thread, without allocation. Returns true on success.
    fn set(&self) -> bool {
        let ([real, effective, saved], [group, effective_group, saved_group]) =
            (self.user, self.group);
        // SAFETY: the calls only read `self.groups`. They give this thread the credentials that the
        // program has chosen.
        unsafe {
            // The result of `setgroups` is ignored: if this process may not change its groups,
            // the thread still has the same groups as the program.
            libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr());
            libc::syscall(libc::SYS_setresgid, group, effective_group, saved_group) == 0
                && libc::syscall(libc::SYS_setresuid, real, effective, saved) == 0
        }
    }
}

static WANTED: AtomicPtr<Credentials> = AtomicPtr::new(ptr::null_mut());

/// The state of the request to change the credentials of one thread of the pager. The threads get
/// the request one after the other.
static STATE: AtomicU32 = AtomicU32::new(0);
const REQUESTED: u32 = 0;
const SET: u32 = 1;
const REFUSED: u32 = 2;

extern "C" fn on_signal(_: c_int) {
    let before = crate::errno::get();
    keep_normal_policy();
    // SAFETY: `follow` keeps the credentials that `WANTED` points to until this handler has stored
    // its outcome.
    let outcome = match unsafe { WANTED.load(Acquire).as_ref() } {
        Some(wanted) if wanted.set() => SET,
        _ => REFUSED,
    };
    STATE.store(outcome, Release);
    let _ = futex::wake(&STATE, futex::Flags::PRIVATE, 1);
    crate::errno::set(before);
}

/// The kernel's `struct sigaction`. `rt_sigaction(2)` is called directly, because `sigaction` of
/// the C library refuses `SIGSETXID`.
#[repr(C)]
struct Action {
    handler: usize,
    flags: usize,
    restorer: usize,
    mask: u64,
}

impl Action {
    fn new(handler: extern "C" fn(c_int)) -> Self {
        let (handler, flags) = (handler as usize, libc::SA_RESTART as usize);
        #[cfg(target_arch = "x86_64")]
        // The flag 0x0400_0000 is `SA_RESTORER` of `asm/signal.h`: the field `restorer` is valid.
        return Self {
            handler,
            flags: flags | 0x0400_0000,
            restorer: sigreturn as *const () as usize,
            mask: !0,
        };
        #[cfg(not(target_arch = "x86_64"))]
        Self { handler, flags, restorer: 0, mask: !0 }
    }
}

/// The code that runs after the signal handler returns: it calls `rt_sigreturn(2)`, system call 15.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn sigreturn() {
    std::arch::naked_asm!("mov eax, 15", "syscall")
}

/// Sets the action of `SIGSETXID`, and returns the former action.
fn set_action(action: &Action) -> Action {
    let mut before = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
    // SAFETY: the call reads and writes one action. The size of its signal set is the kernel's.
    unsafe {
        let (new, old) = (ptr::from_ref(action), &raw mut before);
        libc::syscall(libc::SYS_rt_sigaction, state::SIGSETXID, new, old, size_of::<u64>());
    }
    before
}

/// Gives the pager's threads the credentials of the calling thread. Ends the process if this fails,
/// because a thread of the pager would keep rights that the program has given up.
fn follow() {
    if state::is_inside() || state::shares_memory() {
        return;
    }
    inside(|| {
        // The lock is held so that only one thread changes credentials at a time, and none during a
        // fork.
        let _start = state::hold_start();
        let threads = thread::running();
        if threads.is_empty() {
            return;
        }
        let mut wanted = Credentials::own();
        WANTED.store(&raw mut wanted, Release);
        let before = set_action(&Action::new(on_signal));
        for number in threads {
            STATE.store(REQUESTED, Release);
            if !is_sent(number, state::SIGSETXID) {
                continue;
            }
            while STATE.load(Acquire) == REQUESTED && is_sent(number, 0) {
                let pause = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                let _ = futex::wait(&STATE, futex::Flags::PRIVATE, REQUESTED, Some(&pause));
            }
            if STATE.load(Acquire) == REFUSED {
                state::print(format_args!("the pager cannot change to the program's user"));
                std::process::abort();
            }
        }
        set_action(&before);
    });
}

/// Sends `signal` to the thread of this process with the ID `number`. Returns true on success; with
/// signal 0, true if the thread exists.
fn is_sent(number: u32, signal: c_int) -> bool {
    // SAFETY: threads of other processes do not receive the signal.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, signal) == 0 }
}

/// Defines replacements for functions of the C library that change the user or the groups: each
/// calls the C library's function, and then `follow`, which changes the pager's threads too.
macro_rules! followed {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the C library.")]
            ///
            /// # Safety
            /// The caller must meet the conditions of the function in the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
                let next = lookup::$name();
                // SAFETY: `next` is the C library's function of this name, which has this type. The
                // caller meets the conditions of that function.
                let outcome = unsafe {
                    mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> c_int>(next)(
                        $($argument),*
                    )
                };
                if outcome == 0 {
                    follow();
                }
                outcome
            }
        )*

        /// Looks up the C library's definitions of these functions now, so that a call in a signal
        /// handler needs no look-up.
        pub(crate) fn find() {
            $(lookup::$name();)*
        }

        mod lookup {
            use super::*;
            $(
                pub(super) fn $name() -> usize {
                    static NEXT: AtomicUsize = AtomicUsize::new(0);
                    if NEXT.load(Relaxed) == 0 {
                        NEXT.store(next::after(next::name(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )), Relaxed);
                    }
                    NEXT.load(Relaxed)
                }
            )*
        }
    };
}

followed! {
    setuid(user: uid_t);
    seteuid(user: uid_t);
    setreuid(real: uid_t, effective: uid_t);
    setresuid(real: uid_t, effective: uid_t, saved: uid_t);
    setgid(group: gid_t);
    setegid(group: gid_t);
    setregid(real: gid_t, effective: gid_t);
    setresgid(real: gid_t, effective: gid_t, saved: gid_t);
    setgroups(count: size_t, groups: *const gid_t);
    initgroups(name: *const c_char, group: gid_t);
}
