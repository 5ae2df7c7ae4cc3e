//! Tests `interleaf balance` in operation under a real kernel: its monitor, and its memory
//! consumption.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_vm::{
    Series,
    harness::{guest_record, shown},
};
use serde_json::Value;

/// Upper limit of the daemon's peak resident memory without mapped files, kB. Mapped files
/// (`RssShmem`) are left out, because all files of the guest are in memory: with each fault, the
/// kernel maps more pages of the program text than it would with files on a drive. The allocator of
/// the static program keeps free pages for each thread: with this allocator the peak is 7500 kB,
/// with the allocator of the GNU C library below 4000 kB.
const MEMORY_MAX_KB: u64 = 10_000;

/// A monitor that starts after the daemon's first period receives all periods that the daemon
/// printed, from the first period on. The socket is removed when the daemon exits.
#[test]
fn a_daemon_is_watched() {
    let steps = "start sweep touch 16MiB --bind 0 --sweep\n\
                 await sweep touched\n\
                 start daemon interleaf balance --policy local --process touch --stop-rivals \
                 --feed /tmp/feed --period 1s --metrics 127.0.0.1:9464 --json\n\
                 await daemon {\n\
                 start watch interleaf balance --monitor --json\n\
                 await watch {\n\
                 run interleaf balance --monitor=/tmp/none\n\
                 list /run/interleaf\n\
                 await watch {\n\
                 await watch {\n\
                 read /proc/@daemon/status\n\
                 kill watch TERM\n\
                 wait watch\n\
                 kill daemon TERM\n\
                 wait daemon\n\
                 list /run/interleaf/\n";
    let Some(record) = guest_record(Series::Of(6, 17), "two-nodes-hmat", steps) else { return };
    let periods = |step: &str| -> Vec<Value> {
        let taken = record.steps.iter().find(|taken| taken.step == step).unwrap();
        let lines = taken.output.iter().filter(|line| line.starts_with('{'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (printed, watched) = (periods("wait daemon"), periods("wait watch"));
    assert!(watched.len() > 2, "{record}");
    assert_eq!(watched[..], printed[..watched.len()], "{record}");
    assert_eq!(watched[0]["schema"], "interleaf.balance/1", "{record}");
    let none = record.steps.iter().find(|it| it.step.ends_with("--monitor=/tmp/none")).unwrap();
    let none = none.output.join("\n");
    assert!(none.contains("error: /tmp/none: no daemon is there to be watched"), "{record}");
    assert!(none.contains("hint: start it with `interleaf balance`"), "{record}");
    let has_socket = |step: &str| shown(&record, step).contains(&"balance.sock".to_string());
    assert!(has_socket("list /run/interleaf"), "{record}");
    assert!(!has_socket("list /run/interleaf/"), "{record}");
    let status = shown(&record, "read /proc/@daemon/status");
    let kb = |name: &str| -> u64 {
        let line = status.iter().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let own = kb("VmHWM:") - kb("RssShmem:");
    assert!(own < MEMORY_MAX_KB, "{own} kB\n{record}");
}
