//! The daemon in a closed loop on real kernels: a load feeds the bandwidth that its pages would
//! have on a server where they really are, the daemon decides, and the kernel moves the pages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_vm::{
    Series,
    expected::Expected,
    harness::{in_workspace, said_within, shown, step},
    outcome::Record,
};
use serde_json::Value;
use std::time::Duration;

const LOAD: &str = "load --platform /platforms/gnr120-cz122.toml --demand /workloads/lbm.toml \
                    --threads 119 --hot 64MiB --feed /tmp/feed.sock";

/// Boots take as long as the daemon needs periods.
const LIMIT: Duration = Duration::from_secs(300);

/// The periods that the daemon told of.
fn periods(record: &Record, name: &str) -> Vec<Value> {
    let lines = step(record, &format!("wait {name}")).output.iter();
    lines
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn settles(series: Series, policy: &str) {
    let steps = format!(
        "write /proc/sys/kernel/numa_balancing 0\n\
         read /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds\n\
         start load {LOAD}\n\
         await load touched\n\
         start daemon interleaf balance --policy {policy} --process load --feed /tmp/feed.sock \
         --period 2s --stop-rivals --json\n\
         sleep 100s\n\
         pages load\n\
         kill daemon TERM\nwait daemon\n\
         read /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds\n\
         kill load TERM\nwait load\n"
    );
    let Some(record) = said_within(series, "two-nodes-hmat", &steps, LIMIT) else { return };
    panic!("{record}");
}

#[test]
fn dmi_settles_on_6_17() {
    settles(Series::Of(6, 17), "dmi");
}
