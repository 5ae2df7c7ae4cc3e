//! Times single loads: the time-stamp counter is read before and after each load.

#![expect(unsafe_code, reason = "the counter is read around a load, in a fixed order")]

use crate::ring::Cursor;
use std::arch::asm;

/// A delay that is injected into some of the loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spin {
    /// One of `every` loads is delayed.
    pub(super) every: u64,
    pub(super) ticks: u64,
}

/// The measurement of one load. The lower 30 bits have its duration in ticks, and the upper two
/// bits are flags of events since the load before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp(u32);

/// The flag of a stamp that is set if the thread was interrupted since the previous load.
const INTERRUPTED: u32 = 1 << 31;

/// The flag of a stamp that is set if the thread was on another CPU after this load than after the
/// previous load.
const MOVED: u32 = 1 << 30;

impl Stamp {
    pub(super) fn new(ticks: u64, interrupted: bool, moved: bool) -> Self {
        // Times of 2^30 ticks (a third of a second at 3 GHz) and more need no precision, so they
        // are stored as the largest time.
        let ticks = ticks.min(u64::from(MOVED - 1)) as u32;
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        Self(ticks | flag(interrupted, INTERRUPTED) | flag(moved, MOVED))
    }

    /// Returns the ticks between the two readings of the time-stamp counter.
    pub(super) const fn ticks(self) -> u32 {
        self.0 & (MOVED - 1)
    }

    /// True if an interrupt came since the previous load; false if interrupts cannot be detected.
    pub(super) const fn interrupted(self) -> bool {
        self.0 & INTERRUPTED != 0
    }

    /// True if the thread moved to another CPU since the previous load; false if moves cannot be
    /// detected.
    pub(super) const fn moved(self) -> bool {
        self.0 & MOVED != 0
    }
}

/// Follows the ring by one timed load for each element of `stamps`; each load depends on the load
/// before. `number` is the index of the first of these loads, counted from the beginning of the
/// measurement: `spin` delays the loads whose index is a multiple of `every`.
pub(super) fn stamp<'r>(
    from: Cursor<'r>,
    spin: Option<Spin>,
    number: u64,
    stamps: &mut [Stamp],
) -> Cursor<'r> {
    let mut at = from;
    let mut cpu = None;
    watch(true);
    for (number, stamp) in (number..).zip(stamps) {
        let of_this = |spin: &Spin| number % spin.every == 0;
        let spin_ticks = spin.filter(of_this).map_or(0, |spin| spin.ticks);
        let timed = timed_load(at, spin_ticks);
        at = timed.at;
        let moved = cpu.is_some_and(|before| before != timed.cpu);
        cpu = Some(timed.cpu);
        *stamp = Stamp::new(timed.ticks, timed.interrupted, moved);
        if timed.interrupted {
            watch(true);
        }
    }
    watch(false);
    at
}

/// The result of a timed load: the position after the load, its duration in ticks, the CPU and the
/// interrupt flag.
struct Timed<'r> {
    at: Cursor<'r>,
    ticks: u64,
    cpu: u32,
    interrupted: bool,
}

/// A null segment selector that is not zero, by which interrupts are detected in the register `es`.
/// 64-bit code does not use `es`. On return from an interrupt to user mode, the processor writes
/// zero into a segment register with a null selector (`IRET` in Intel's SDM, vol. 2), so a zero in
/// `es` shows an interrupt: Zhang et al., "SegScope", HPCA 2024. With FRED, the processor keeps the
/// selector, and interrupts cannot be detected.
#[cfg(target_arch = "x86_64")]
const NO_SEGMENT: u16 = 3;

/// Begins or ends the detection of interrupts: writes [`NO_SEGMENT`] or 0 to the segment register
/// `es`.
#[cfg(target_arch = "x86_64")]
fn watch(on: bool) {
    let selector = if on { NO_SEGMENT } else { 0 };
    // SAFETY: a selector from 0 to 3 names no segment and may be loaded into `es`, which 64-bit
    // code does not use.
    unsafe { asm!("mov es, {0:x}", in(reg) selector, options(nomem, nostack, preserves_flags)) };
}

/// Times one load. The order of the instructions is that of Intel's "How to Benchmark Code
/// Execution Times" (2010), with `lfence` in place of `cpuid`. Instructions after `lfence` do not
/// begin early, and `rdtscp` waits for all instructions before it, which include the load.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn timed_load(from: Cursor<'_>, spin_ticks: u64) -> Timed<'_> {
    let mut at = from.address();
    let (began, ended, cpu, segment): (u64, u64, u32, u16);
    // SAFETY: a cursor is on a linked slot of a ring that is alive, and the assembly reads only the
    // word of this slot; every x86-64 server processor since 2009 has `rdtscp`.
    unsafe {
        asm!(
            "lfence",
            "rdtsc",
            "lfence",
            "shl rdx, 32",
            "or rax, rdx",
            "mov {began}, rax",
            "mov {at}, qword ptr [{at}]",
            "test {spin}, {spin}",
            "jz 3f",
            // The load must complete before the delay begins.
            "lfence",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "add {spin}, rax",
            "2:",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "cmp rax, {spin}",
            "jb 2b",
            "3:",
            "rdtscp",
            "lfence",
            "shl rdx, 32",
            "or rax, rdx",
            "mov {segment:x}, es",
            began = out(reg) began,
            at = inout(reg) at,
            spin = inout(reg) spin_ticks => _,
            segment = out(reg) segment,
            out("rax") ended,
            out("rdx") _,
            out("ecx") cpu,
            options(nostack, readonly),
        );
    }
    // SAFETY: `at` was just loaded from the word under `from`, as `Cursor::moved` requires.
    let at = unsafe { from.moved(at) };
    // The difference may be negative after a move to another socket, because the counters of two
    // sockets may differ slightly.
    let ticks = ended.saturating_sub(began);
    Timed { at, ticks, cpu, interrupted: segment != NO_SEGMENT }
}

/// Does nothing: interrupts cannot be detected on this architecture.
#[cfg(target_arch = "aarch64")]
fn watch(_on: bool) {}

/// Times one load. `isb` prevents an early reading of the counter (Arm ARM, D12.2.1), and
/// `dsb ishld` waits for the load.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn timed_load(from: Cursor<'_>, spin_ticks: u64) -> Timed<'_> {
    let mut at = from.address();
    let (began, ended): (u64, u64);
    // SAFETY: a cursor is on a linked slot of a ring that is alive, and the assembly reads only the
    // word of this slot; Linux lets programs read the counter.
    unsafe {
        asm!(
            "isb",
            "mrs {began}, cntvct_el0",
            "isb",
            "ldr {at}, [{at}]",
            "dsb ishld",
            "isb",
            "mrs {ended}, cntvct_el0",
            "cbz {spin}, 3f",
            "add {spin}, {spin}, {ended}",
            "2:",
            "isb",
            "mrs {ended}, cntvct_el0",
            "cmp {ended}, {spin}",
            "b.lo 2b",
            "3:",
            began = out(reg) began,
            ended = out(reg) ended,
            at = inout(reg) at,
            spin = inout(reg) spin_ticks => _,
            options(nostack, readonly),
        );
    }
    // SAFETY: `at` was just loaded from the word under `from`, as `Cursor::moved` requires.
    let at = unsafe { from.moved(at) };
    Timed { at, ticks: ended.saturating_sub(began), cpu: 0, interrupted: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_keeps_ticks_and_flags() {
        for (interrupted, moved) in [(false, false), (true, false), (false, true), (true, true)] {
            let stamp = Stamp::new(123_456, interrupted, moved);
            assert_eq!(stamp.ticks(), 123_456);
            assert_eq!((stamp.interrupted(), stamp.moved()), (interrupted, moved));
        }
        assert_eq!(Stamp::new(u64::MAX, false, false).ticks(), (1 << 30) - 1);
    }
}
