//! Declares the functions of QEMU that the plugin calls. QEMU exports these functions to its
//! modules, so the dynamic loader resolves them. If a function is missing, the loader refuses the
//! plugin and names the function.
//!
//! QEMU's plugin interface has neither timers nor interrupts, so the plugin uses functions that are
//! internal to QEMU. The declarations here are those of `include/qemu/timer.h`,
//! `include/hw/pci/pci.h` and `include/hw/pci/msix.h`, which are the same from QEMU 5 to 11.1.

#![allow(unsafe_code, reason = "functions of QEMU, which is written in C")]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    io::{self, Write},
    ptr,
};

/// The first fields of `qemu_info_t` (`qemu-plugin.h`).
#[repr(C)]
pub struct Info {
    target_name: *const c_char,
    version_min: c_int,
    version_cur: c_int,
    system_emulation: bool,
}

/// Memory for a `QEMUTimer`, which has 48 bytes in QEMU 11.1. The remaining bytes are for a later
/// version with a larger timer.
#[repr(C, align(16))]
struct QemuTimer([u8; 256]);

type TimerCallback = extern "C" fn(*mut c_void);

/// The value `QEMU_CLOCK_VIRTUAL` of `QEMUClockType`: the clock that shows the guest's time.
const CLOCK_VIRTUAL: c_int = 1;

/// The unit of the times of a timer: 1 ns.
const SCALE_NS: c_int = 1;

unsafe extern "C" {
    fn qemu_plugin_outs(text: *const c_char);
    fn qemu_clock_get_ns(clock: c_int) -> i64;
    fn timer_init_full(
        timer: *mut QemuTimer,
        group: *mut c_void,
        clock: c_int,
        scale: c_int,
        attributes: c_int,
        callback: TimerCallback,
        opaque: *mut c_void,
    );
    fn timer_mod_ns(timer: *mut QemuTimer, expires: i64);
    fn pci_qdev_find_device(id: *const c_char, device: *mut *mut c_void) -> c_int;
    fn msix_notify(device: *mut c_void, vector: c_uint);
}

/// Returns true if QEMU emulates a machine, not a single program.
///
/// # Safety
///
/// `info` must be the argument of `qemu_plugin_install`.
pub(crate) unsafe fn is_system(info: *const Info) -> bool {
    // SAFETY: the caller passes the argument of `qemu_plugin_install`, which is valid.
    unsafe { (*info).system_emulation }
}

/// Copies the arguments of the plugin.
///
/// # Safety
///
/// `argv` must point to `argc` strings.
pub(crate) unsafe fn strings(argc: c_int, argv: *const *const c_char) -> Vec<String> {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller guarantees that `argv` has `argc` strings.
    let string = |at| unsafe { CStr::from_ptr(*argv.add(at)).to_string_lossy().into_owned() };
    (0..count).map(string).collect()
}

/// Prints a message on stderr and in QEMU's log. The log alone does not suffice, because QEMU
/// prints a plugin's output only with `-d plugin`.
pub(crate) fn report(message: &str) {
    // A failure to write to stderr cannot be reported.
    let _ = writeln!(io::stderr(), "{message}");
    if let Ok(text) = CString::new(format!("{message}\n")) {
        // SAFETY: the text ends with a zero and outlives the call.
        unsafe { qemu_plugin_outs(text.as_ptr()) };
    }
}

/// The identifier of a PCI device: `ID` in QEMU's option `-device DRIVER,id=ID`.
pub(crate) struct DeviceId(CString);

impl DeviceId {
    pub(crate) fn new(id: &str) -> Result<Self, String> {
        CString::new(id).map(Self).map_err(|_| format!("device={id:?}: zero bytes are not allowed"))
    }
}

/// A function that a timer calls while QEMU's lock is held. The function gets the guest's time, ns.
/// It returns the time at which the timer is due again, ns; `None` leaves the timer unset.
pub(crate) type OnTimer = Box<dyn FnMut(u64, &Locked) -> Option<u64> + Send>;

/// A proof that this thread holds QEMU's lock, which the functions of QEMU's devices require.
pub(crate) struct Locked(());

impl Locked {
    /// Raises the MSI-X vector `vector` of the device `id`. Does nothing if the device does not
    /// exist.
    pub(crate) fn raise(&self, id: &DeviceId, vector: u16) {
        let mut device = ptr::null_mut();
        // SAFETY: this thread holds QEMU's lock (`self` proves it), which protects the devices. The
        // identifier ends with a zero. `device` is set if the result is 0. The server has no vector
        // beyond those of the device (`msix_notify` asserts this).
        unsafe {
            if pci_qdev_find_device(id.0.as_ptr(), &raw mut device) == 0 && !device.is_null() {
                msix_notify(device, vector.into());
            }
        }
    }
}

/// A timer of QEMU that is due at a time of the guest's clock. The timer lives as long as QEMU.
#[derive(Clone, Copy)]
pub(crate) struct Timer(*mut QemuTimer);

/// The argument of [`expired`]: the timer that is due, and the function that it calls.
struct Expiry {
    timer: Timer,
    on_timer: OnTimer,
}

impl Timer {
    /// Creates a timer that is not set. When the timer is due, `on_timer` gets the guest's time in
    /// ns, and returns the time at which the timer is due again.
    ///
    /// Call this function only after QEMU has created its clocks, which it does after it loads
    /// plugins.
    pub(crate) fn new(on_timer: OnTimer) -> Self {
        let timer = Self(Box::into_raw(Box::new(QemuTimer([0; 256]))));
        let expiry = Box::into_raw(Box::new(Expiry { timer, on_timer }));
        // SAFETY: both allocations live forever, and QEMU calls `expired` in one thread at a time.
        unsafe {
            let (none, opaque) = (ptr::null_mut(), expiry.cast());
            timer_init_full(timer.0, none, CLOCK_VIRTUAL, SCALE_NS, 0, expired, opaque);
        }
        timer
    }

    /// Sets the timer to the guest's time `at`, ns. If `at` is in the past, the timer is due before
    /// the next translation block of the vCPU.
    pub(crate) fn set(self, at: u64) {
        // SAFETY: `Timer::new` has initialized the timer, and any thread may set it.
        unsafe { timer_mod_ns(self.0, i64::try_from(at).unwrap_or(i64::MAX)) };
    }
}

extern "C" fn expired(opaque: *mut c_void) {
    // SAFETY: `opaque` points to the `Expiry` that `Timer::new` gave to the timer, and which lives
    // forever. QEMU's lock is held, so no other thread uses the `Expiry`.
    let (expiry, now) =
        unsafe { (&mut *opaque.cast::<Expiry>(), qemu_clock_get_ns(CLOCK_VIRTUAL)) };
    let now = u64::try_from(now).unwrap_or(0);
    if let Some(next) = (expiry.on_timer)(now, &Locked(())) {
        expiry.timer.set(next);
    }
}
