//! A plugin of QEMU that reports the guest's time to a card server, and raises interrupts when the
//! guest's time reaches the times that the server chooses.
//!
//! ```text
//! vCPU                     plugin                      card server (crates/card_server)
//!   doorbell write   ─────────── vfio-user ──────────▶ register
//!   blocked in the write   timer at once         ◀──── "doorbell" (1 byte)
//!                          ─────────────────────────▶  "armed" (1 byte)
//!   next instruction ◀────────── vfio-user ──────────  reply
//!   timer is due     ────▶ clock: "it is T" (8 bytes) ▶ fetches commands at T, completes those due
//!   MSI-X, goes on   ◀──── vectors; timer at N   ◀──── vectors, next completion N
//! ```
//!
//! With `-icount shift=S,sleep=off` the guest's time, QEMU's virtual clock, is the number of
//! executed instructions times 2^S ns, and skips idle time. The vCPU does not execute while the
//! server works, so the guest's times depend on neither the speed nor the load of the host.
//!
//! ```sh
//! qemu-system-x86_64 -plugin libinterleaf_qemu_clock.so,socket=card.sock.clock,device=card ...
//! ```
//!
//! - [`qemu`]: the functions of QEMU that the plugin calls.
//! - [`server`]: the messages to and from the card server.

#![warn(missing_docs)]
#![allow(unsafe_code, reason = "QEMU calls the plugin by C functions")]

mod qemu;
mod server;

use std::ffi::c_int;

use qemu::{DeviceId, Info, OnTimer, Timer};
use server::{Clock, Doorbells};

/// The version of the plugin interface (`qemu-plugin.h`) that this library was written for. QEMU
/// 11.1 has version 7. QEMU refuses a plugin whose version is above its own, or below the oldest
/// version that it supports.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU looks for this name")]
pub static qemu_plugin_version: c_int = 7;

/// The arguments of the plugin: `socket=PATH,device=ID`.
#[derive(Debug)]
struct Options {
    socket: String,
    device: String,
}

impl Options {
    fn of(arguments: &[String]) -> Result<Self, String> {
        let (mut socket, mut device) = (None, None);
        for argument in arguments {
            match argument.split_once('=') {
                Some(("socket", path)) => socket = Some(path.to_string()),
                Some(("device", id)) => device = Some(id.to_string()),
                _ => return Err(format!("{argument}: allowed are socket=PATH and device=ID")),
            }
        }
        Ok(Self {
            socket: socket
                .ok_or("socket=PATH is missing: the socket of the card server's clock")?,
            device: device.ok_or("device=ID is missing: the id of the vfio-user-pci device")?,
        })
    }
}

/// Installs the plugin. QEMU calls this function when it loads the plugin. A return value other
/// than 0 ends QEMU.
///
/// # Safety
///
/// `info` must point to QEMU's description of itself, and `argv` to `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    _id: u64,
    info: *const Info,
    argc: c_int,
    argv: *const *const std::ffi::c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid `info`, and `argc` strings in `argv`.
    let (is_system, arguments) = unsafe { (qemu::is_system(info), qemu::strings(argc, argv)) };
    let installed = if is_system {
        Options::of(&arguments).and_then(|options| install(&options))
    } else {
        Err("QEMU emulates a program: a machine is needed".to_string())
    };
    match installed {
        Ok(()) => 0,
        Err(why) => {
            qemu::report(&format!("interleaf-qemu-clock: {why}"));
            1
        }
    }
}

/// Connects to the card server, and starts the thread that sets QEMU's timer at each doorbell.
fn install(options: &Options) -> Result<(), String> {
    let failed = |why| format!("{}: {why}", options.socket);
    let doorbells = Doorbells::connect(&options.socket).map_err(failed)?;
    let mut clock = Clock::connect(&options.socket).map_err(failed)?;
    let device = DeviceId::new(&options.device)?;
    let on_timer: OnTimer = Box::new(move |now, locked| {
        let answer = clock.advance(now).inspect_err(|why| {
            qemu::report(&format!("interleaf-qemu-clock: the card server is gone: {why}"));
        });
        let answer = answer.ok()?;
        answer.vectors.iter().for_each(|vector| locked.raise(&device, *vector));
        answer.next
    });
    let hear = move || {
        let mut on_timer = Some(on_timer);
        let mut timer = None;
        doorbells.hear(|| {
            // A doorbell shows that the guest runs, so QEMU has created the clocks that a timer
            // needs.
            if let Some(on_timer) = on_timer.take() {
                timer = Some(Timer::new(on_timer));
            }
            timer.iter().for_each(|timer| timer.set(0));
        });
    };
    let thread = std::thread::Builder::new().name("card-doorbells".to_string());
    thread.spawn(hear).map_err(|why| format!("no thread: {why}"))?;
    Ok(())
}
