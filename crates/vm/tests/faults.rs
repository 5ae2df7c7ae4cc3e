//! `interleaf balance` under real kernels when things go wrong: whatever happens to it, to the
//! programs it steers or to the machine, pages are intact and the kernel's settings are as they
//! were.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, time::Duration};

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{said_by, shown, step},
    outcome::{Record, Taken},
};

/// The kernels: the first on which pages have destinations, and the newest.
const SERIES: [Series; 2] = [Series::Of(6, 17), Series::Newest];

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// What the daemon might change, and its journals.
const LOOKS: [&str; 5] = [
    "read /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "read /sys/module/damon_stat/parameters/enabled",
    "read /proc/sys/kernel/numa_balancing",
    "read /sys/kernel/mm/mempolicy/weighted_interleave/*",
    "read /sys/kernel/mm/numa/demotion_enabled",
];

/// Far more than the longest boot takes on two slow cores.
const LIMIT: Duration = Duration::from_secs(300);

/// Programs called `touch` are to have their pages 60:40, and what is in the way may be switched
/// off.
const CONFIG: &str = "schema = \"interleaf.balance/1\"\n\
    [scope]\nkind = \"processes\"\nprocesses = [\"touch\"]\n\
    [policy]\nname = \"static\"\nweights = \"60:40\"\n\
    [control]\nperiod = \"1s\"\n\
    [migration]\nstop_rivals = true\n";

/// The daemon, whose lines are documents then.
const BALANCE: &str = "interleaf balance --json --config /balance.toml";

/// A program that knows what is in its pages, all of them on node 0 at first.
const SWEEP: &str = "start sweep touch 48MiB --bind 0 --check --tell 60:40\nawait sweep touched\n";

/// Its end.
const INTACT: &str = "kill sweep TERM\nwait sweep\n";

fn looks() -> String {
    LOOKS.map(|look| format!("{look}\n")).concat() + "list /run/interleaf\n"
}

/// What a guest says of these steps between two looks.
fn said(series: Series, config: &str, steps: &str) -> Option<Record> {
    said_on(series, "two-nodes-hmat", config, steps)
}

fn said_on(series: Series, topology: &str, config: &str, steps: &str) -> Option<Record> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("balance.toml");
    fs::write(&file, config).unwrap();
    // Nobody but the daemon makes the pages of a test other ones.
    let huge = "write /sys/kernel/mm/transparent_hugepage/enabled never\n";
    let steps = format!("{huge}{}{steps}\n{}", looks(), looks());
    said_by(series, topology, &steps, &|boot| {
        boot.limit = LIMIT;
        boot.files.push(("/balance.toml".into(), file.clone()));
    })
}

/// All takings of a step, in order.
fn all<'a>(record: &'a Record, text: &str) -> Vec<&'a Taken> {
    record.steps.iter().filter(|taken| taken.step == text).collect()
}

/// Whenever it was looked, but for the looks that are named by their number from 0, all was as at
/// first, and no journal was there.
fn unchanged_but(record: &Record, but: &[usize]) {
    for look in LOOKS {
        let looks = all(record, look);
        assert!(looks.len() >= 2 && looks[0].succeeded(), "{look}\n{record}");
        for (at, later) in looks.iter().enumerate().filter(|(at, _)| !but.contains(at)) {
            assert_eq!(looks[0], *later, "at {at}\n{record}");
        }
    }
    for (at, look) in all(record, "list /run/interleaf").iter().enumerate() {
        let has_journal = look.output.iter().any(|name| name.ends_with(".json"));
        assert!(!has_journal || but.contains(&at), "at {at}\n{record}");
    }
}

/// The look of this number shows that something is changed: that it is put back means something.
fn changed_at(record: &Record, at: usize) {
    let now = |look| all(record, look)[at].output.join("");
    assert_eq!(now(LOOKS[0]), "1", "{record}");
    assert_eq!(now(LOOKS[1]), "N", "{record}");
    assert_eq!(now(LOOKS[2]), "0", "{record}");
    let journals = now("list /run/interleaf");
    assert!(journals.contains(".json"), "{record}");
}

/// The program has ended well, its pages being intact.
fn intact(record: &Record) {
    let text = shown(record, "wait sweep").join("\n");
    assert!(text.contains("intact after"), "{record}");
}

/// What ended so has said this.
fn told(record: &Record, step: &str, ending: Ending, words: &[&str]) {
    let taken = self::step(record, step);
    assert_eq!(taken.ending, Some(ending), "{step}\n{record}");
    let text = taken.output.join("\n");
    for word in words {
        assert!(text.contains(word), "{step} does not say {word}\n{record}");
    }
}

/// Whatever it is told to end by, it ends well and puts all back; it runs when that comes.
#[test]
fn signals_end_it_and_all_is_put_back() {
    let one = |signal: &str| {
        format!(
            "start {signal} {BALANCE}\nawait {signal} {{\"schema\"\nawait sweep reached\n{}\
             kill {signal} {signal}\nwait {signal}\n{}",
            looks(),
            looks()
        )
    };
    let steps = format!("{SWEEP}{}{INTACT}", ["TERM", "INT", "HUP"].map(one).concat());
    for series in SERIES {
        let Some(record) = said(series, CONFIG, &steps) else { return };
        for (at, signal) in ["TERM", "INT", "HUP"].into_iter().enumerate() {
            changed_at(&record, 1 + 2 * at);
            told(&record, &format!("wait {signal}"), Ending::Exit(0), &[]);
        }
        unchanged_but(&record, &[1, 3, 5]);
        intact(&record);
    }
}

/// One that is killed leaves all as it was while it ran. The next one puts it back and goes on; or
/// nobody follows, and it is put back when that is asked for.
#[test]
fn what_a_killed_one_left_is_put_back() {
    let state = format!("read {ADMIN}/0/state");
    let restore = "run interleaf balance --restore";
    let steps = format!(
        "{SWEEP}start killed {BALANCE}\nawait sweep reached\nkill killed KILL\nwait killed\n{}\
         {state}\nstart next {BALANCE}\nawait next {{\"schema\"\n{}\
         kill next KILL\nwait next\n{}{restore}\n{INTACT}",
        looks(),
        looks(),
        looks()
    );
    for series in SERIES {
        let Some(record) = said(series, CONFIG, &steps) else { return };
        (1..4).for_each(|at| changed_at(&record, at));
        assert_eq!(shown(&record, &state), ["on"], "{record}");
        let back = ["put back /sys/kernel/mm/damon", "put back /proc/sys/kernel/numa_balancing: 1"];
        told(&record, "wait next", Ending::Signal(9), &back);
        told(&record, restore, Ending::Exit(0), &back);
        unchanged_but(&record, &[1, 2, 3]);
        intact(&record);
    }
}
