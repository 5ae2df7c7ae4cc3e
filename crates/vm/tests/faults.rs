//! Tests `interleaf balance` under real kernels when the daemon, the steered programs or the
//! machine fail: pages stay intact and the kernel's settings are restored.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{guest_record_with_files, on_each, shown, step},
    outcome::{Record, StepRecord},
};

/// The first kernel with DAMON destinations, and the newest kernel.
const SERIES: [Series; 2] = [Series::Of(6, 17), Series::Newest];

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// Steps that read the settings that the daemon may change.
const READINGS: [&str; 5] = [
    "read /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "read /sys/module/damon_stat/parameters/enabled",
    "read /proc/sys/kernel/numa_balancing",
    "read /sys/kernel/mm/mempolicy/weighted_interleave/*",
    "read /sys/kernel/mm/numa/demotion_enabled",
];

/// A configuration that steers programs with the name `touch` to 60:40.
const CONFIG: &str = "schema = \"interleaf.balance/1\"\n\
    [scope]\nkind = \"processes\"\nprocesses = [\"touch\"]\n\
    [policy]\nname = \"static\"\nweights = \"60:40\"\n\
    [control]\nperiod = \"1s\"\n";

/// The daemon's command line, with JSON output.
const BALANCE: &str = "interleaf balance --json --stop-rivals --config /balance.toml";

/// Steps that start a program that verifies the content of its pages, all on node 0 at first.
const SWEEP: &str = "start sweep touch 48MiB --bind 0 --check --tell 60:40\nawait sweep touched\n";

/// Steps that end the program `sweep`, which then reports whether its pages are intact.
const INTACT: &str = "kill sweep TERM\nwait sweep\n";

fn readings() -> String {
    READINGS.map(|reading| format!("{reading}\n")).concat() + "list /run/interleaf\n"
}

/// Runs `steps` in a guest and returns its report. The settings are read before and after the
/// steps.
fn guest_record(series: Series, config: &str, steps: &str) -> Option<Record> {
    guest_record_on(series, "two-nodes-hmat", &[("/balance.toml", config)], steps)
}

/// Like `guest_record`, on the topology `on`. `files` are text files, each with its path in the
/// guest.
fn guest_record_on(
    series: Series,
    on: &str,
    files: &[(&str, &str)],
    steps: &str,
) -> Option<Record> {
    // Keeps pages small, except in programs that request huge pages.
    let huge = "write /sys/kernel/mm/transparent_hugepage/enabled madvise\n";
    let steps = format!("{huge}{}{steps}\n{}", readings(), readings());
    let texts: Vec<_> = files.iter().map(|(path, text)| (*path, text.to_string())).collect();
    guest_record_with_files(series, on, &steps, &texts, &|boot| {
        // Makes pluggable memory movable, because only movable memory can be set offline.
        boot.command_line = "memhp_default_state=online_movable";
    })
}

/// Returns all executions of a step, in order.
fn all<'a>(record: &'a Record, text: &str) -> Vec<&'a StepRecord> {
    record.steps.iter().filter(|taken| taken.step == text).collect()
}

/// Checks that the settings equal those of the first reading and that no journal exists. The
/// readings at the 0-based positions in `but` are not checked.
fn unchanged_but(record: &Record, but: &[usize]) {
    for reading in READINGS {
        let readings = all(record, reading);
        assert!(readings.len() >= 2 && readings[0].succeeded(), "{reading}\n{record}");
        for (at, later) in readings.iter().enumerate().filter(|(at, _)| !but.contains(at)) {
            assert_eq!(readings[0], *later, "at {at}\n{record}");
        }
    }
    for (at, reading) in all(record, "list /run/interleaf").iter().enumerate() {
        let has_journal = reading.output.iter().any(|name| name.ends_with(".json"));
        assert!(!has_journal || but.contains(&at), "at {at}\n{record}");
    }
}

/// Checks that the settings are changed in the reading at the 0-based position `at`. Otherwise the
/// check of restored settings would be meaningless.
fn changed_at(record: &Record, at: usize) {
    let now = |reading| all(record, reading)[at].output.join("");
    assert_eq!(now(READINGS[0]), "1", "{record}");
    assert_eq!(now(READINGS[1]), "N", "{record}");
    assert_eq!(now(READINGS[2]), "0", "{record}");
    let journals = now("list /run/interleaf");
    assert!(journals.contains(".json"), "{record}");
}

/// Checks that the program `sweep` found its pages intact.
fn intact(record: &Record) {
    let text = shown(record, "wait sweep").join("\n");
    assert!(text.contains("intact after"), "{record}");
}

/// Checks the ending of a step, and that its output contains each text in `words`.
fn check_report(record: &Record, step: &str, ending: Ending, words: &[&str]) {
    let taken = self::step(record, step);
    assert_eq!(taken.ending, Some(ending), "{step}\n{record}");
    let text = taken.output.join("\n");
    for word in words {
        assert!(text.contains(word), "{step} does not say {word}\n{record}");
    }
}

/// Returns the number of pages on node 0 in the output of a step `pages`.
fn on_node_0(taken: &StepRecord) -> u32 {
    let mut words = taken.output[0].split_whitespace();
    words.find_map(|word| word.strip_prefix("0:")?.parse().ok()).unwrap_or(0)
}

/// Each of three signals ends the daemon with status 0 and restored settings. A second daemon is
/// refused while the first runs.
#[test]
fn signals_end_the_daemon_and_settings_are_restored() {
    let second = format!("run {BALANCE} --way vaddr");
    let one = |signal: &str| {
        // Only the first of the three daemons finds pages that are not at the target. Therefore
        // only the steps of the first daemon wait until the target is reached.
        let reached = if signal == "TERM" { "await sweep reached\n" } else { "" };
        format!(
            "start {signal} {BALANCE}\nawait {signal} {{\"schema\"\n{reached}\
             {}{second}\nkill {signal} {signal}\nwait {signal}\n{}",
            readings(),
            readings()
        )
    };
    let steps = format!("{SWEEP}{}{INTACT}", ["TERM", "INT", "HUP"].map(one).concat());
    on_each(&SERIES, |series| {
        let Some(record) = guest_record(series, CONFIG, &steps) else { return };
        for (at, signal) in ["TERM", "INT", "HUP"].into_iter().enumerate() {
            changed_at(&record, 1 + 2 * at);
            let refused = all(&record, &second)[at];
            assert_eq!(refused.ending, Some(Ending::Exit(2)), "{record}");
            assert!(refused.output.join("\n").contains("of interleaf has DAMON"), "{record}");
            check_report(&record, &format!("wait {signal}"), Ending::Exit(0), &[]);
        }
        unchanged_but(&record, &[1, 3, 5]);
        intact(&record);
    });
}

/// A daemon that is killed by SIGKILL does not restore the settings that it changed. The next
/// daemon restores the settings before it steers. If no other daemon is started, `balance
/// --restore` restores the settings.
#[test]
fn settings_of_a_killed_daemon_are_restored() {
    let state = format!("read {ADMIN}/0/state");
    let restore = "run interleaf balance --restore";
    let steps = format!(
        "{SWEEP}start killed {BALANCE}\nawait sweep reached\nkill killed KILL\nwait killed\n{}\
         {state}\nstart next {BALANCE}\nawait next {{\"schema\"\n{}\
         kill next KILL\nwait next\n{}{restore}\n{INTACT}",
        readings(),
        readings(),
        readings()
    );
    on_each(&SERIES, |series| {
        let Some(record) = guest_record(series, CONFIG, &steps) else { return };
        (1..4).for_each(|at| changed_at(&record, at));
        assert_eq!(shown(&record, &state), ["on"], "{record}");
        let back = ["restored /sys/kernel/mm/damon", "restored /proc/sys/kernel/numa_balancing: 1"];
        check_report(&record, "wait next", Ending::Signal(9), &back);
        check_report(&record, restore, Ending::Exit(0), &back);
        unchanged_but(&record, &[1, 2, 3]);
        intact(&record);
    });
}

/// An actuator whose program panics restores the settings while unwinding.
#[test]
fn a_panic_restores_all_settings() {
    let actuate = "run actuate @sweep --way vaddr --weights 60:40 --leave --panic";
    on_each(&SERIES, |series| {
        let Some(record) = guest_record(series, CONFIG, &format!("{SWEEP}{actuate}\n{INTACT}"))
        else {
            return;
        };
        check_report(&record, actuate, Ending::Exit(101), &["reached 60:40", "as it was told"]);
        unchanged_but(&record, &[]);
        intact(&record);
    });
}

/// The daemon stops no other user of DAMON without permission. While `damon_stat` runs, a daemon
/// without `--stop-rivals` exits with a hint. While another program runs a kdamond, a daemon with
/// `--way vaddr` exits with a hint, and a daemon without `--way` uses the actuator `pages`. The
/// other kdamond keeps running.
#[test]
fn other_users_of_damon_are_reported() {
    let careful = "run interleaf balance --config /balance.toml --duration 3s";
    let wants_damon = "run interleaf balance --config /balance.toml --stop-rivals --way vaddr";
    let goes_on = "run interleaf balance --config /balance.toml --duration 5s";
    let state = format!("read {ADMIN}/0/state");
    let context = format!("{ADMIN}/0/contexts");
    let steps = format!(
        "{SWEEP}{careful}\n{}\
         write /sys/module/damon_stat/parameters/enabled N\n\
         write {ADMIN}/nr_kdamonds 1\nwrite {context}/nr_contexts 1\n\
         write {context}/0/operations paddr\nwrite {context}/0/targets/nr_targets 1\n\
         write {ADMIN}/0/state on\n{wants_damon}\n{goes_on} \n{state}\n\
         write {ADMIN}/0/state off\nwrite {ADMIN}/nr_kdamonds 0\n\
         write /sys/module/damon_stat/parameters/enabled Y\n{INTACT}",
        readings()
    );
    on_each(&SERIES, |series| {
        let Some(record) = guest_record(series, CONFIG, &steps) else { return };
        let module = ["damon_stat holds DAMON", "hint: give leave", "--stop-rivals", "echo N"];
        check_report(&record, careful, Ending::Exit(2), &module);
        let thread = ["another program has set up 1 DAMON thread", "hint: ", "damo stop"];
        check_report(&record, wants_damon, Ending::Exit(2), &thread);
        let actuator = [
            "another program has set up 1 DAMON thread",
            "pages move by pages",
            "numa_balancing=1",
        ];
        check_report(&record, goes_on, Ending::Exit(0), &actuator);
        assert_eq!(shown(&record, &state), ["on"], "{record}");
        unchanged_but(&record, &[]);
        intact(&record);
    });
}

/// New programs with the name `touch` join the daemon's scope, the set of programs whose pages it
/// migrates. Programs that exit or are OOM-killed leave the scope. After all programs have exited,
/// the next program is steered. The daemon reports which programs joined and left, even for a
/// period that is cut short. The control group `hog` has its own memory limit, because without a
/// limit the kernel may kill other programs too.
#[test]
fn programs_come_and_go() {
    let config = CONFIG.replace("\"1s\"", "\"15s\"\nsample = \"1s\"");
    let touch = "touch 32MiB --bind 0 --tell 60:40";
    let steps = format!(
        "{SWEEP}start balance {BALANCE}\nawait sweep reached\n\
         start second {touch} --sweep\nawait second reached\n\
         start seat touch 4KiB --group hog\nawait seat touched\n\
         write /sys/fs/cgroup/hog/memory.max 64M\n\
         start hog touch 192MiB --group hog\nwait hog\nkill seat KILL\nwait seat\n\
         kill second KILL\nwait second\n{INTACT}until {ADMIN}/0/state off\n\
         start third {touch} --sweep\nawait third reached\n\
         kill balance TERM\nwait balance\n"
    );
    on_each(&SERIES, |series| {
        let Some(record) = guest_record(series, &config, &steps) else { return };
        assert_eq!(step(&record, "wait hog").ending, Some(Ending::Signal(9)), "{record}");
        for await_ in ["await second reached", "await third reached"] {
            shown(&record, await_);
        }
        let words = ["has joined", "ended or left", "was started again"];
        check_report(&record, "wait balance", Ending::Exit(0), &words);
        unchanged_but(&record, &[]);
        intact(&record);
    });
}

/// Another program starts five children per second, and kills each after 1.5 s. The daemon drops
/// the exited processes, and the pages of `sweep` reach the target.
#[test]
fn children_that_exit_all_the_time_are_dropped() {
    let steps = format!(
        "{SWEEP}start beside touch 2MiB --spawn 5\nawait beside spawned\n\
         start balance {BALANCE} --way vaddr\nawait balance {{\"schema\"\n\
         await sweep reached\nawait beside spawned\nawait beside spawned\n\
         kill balance TERM\nwait balance\nkill beside KILL\nwait beside\n{INTACT}"
    );
    on_each(&SERIES, |series| {
        let Some(record) = guest_record(series, CONFIG, &steps) else { return };
        check_report(&record, "wait balance", Ending::Exit(0), &["by vaddr"]);
        shown(&record, "await sweep reached");
        unchanged_but(&record, &[]);
        intact(&record);
    });
}

/// Pages of a protected control group and of its child groups are not migrated, whether the daemon
/// steers some processes or the whole machine. The daemon can also steer a single control group.
#[test]
fn the_protected_are_left_alone() {
    let config = |scope: &str, weights: &str| {
        format!(
            "schema = \"interleaf.balance/1\"\n[scope]\n{scope}\n\
             [policy]\nname = \"static\"\nweights = \"{weights}\"\n[control]\nperiod = \"1s\"\n"
        )
    };
    let kept = "protected = [\"/kept\"]";
    let named = config(&format!("kind = \"processes\"\nprocesses = [\"touch\"]\n{kept}"), "60:40");
    let machine = config(kept, "20:80");
    let group = config("kind = \"cgroup\"\ncgroup = \"/kept\"", "20:80");
    let of_all = "interleaf balance --stop-rivals --config /machine.toml";
    // The program `sweep` prints `reached` twice: at 60:40, and at 40:60, which the pages pass on
    // their way from 60:40 to 20:80.
    let start_sweep = SWEEP.replace("--tell 60:40", "--tell 60:40 --tell 40:60");
    let of_group = "interleaf balance --stop-rivals --config /group.toml --way paddr";
    let steps = format!(
        "start kept touch 32MiB --bind 0 --sweep --tell 20:80 --group kept/inner\n\
         await kept touched\n{start_sweep}start balance {BALANCE}\n\
         await sweep reached\nkill balance TERM\nwait balance\n\
         start all {of_all}\nawait sweep reached\nkill all TERM\nwait all\n\
         pages kept\npages sweep\n\
         start group {of_group}\nawait kept reached\nkill group TERM\nwait group\n\
         pages sweep\n{INTACT}"
    );
    let files = [
        ("/balance.toml", named.as_str()),
        ("/machine.toml", machine.as_str()),
        ("/group.toml", group.as_str()),
    ];
    let Some(record) = guest_record_on(Series::Newest, "two-nodes-hmat", &files, &steps) else {
        return;
    };
    check_report(&record, "wait balance", Ending::Exit(0), &["left alone: /kept", "by vaddr"]);
    check_report(&record, "wait all", Ending::Exit(0), &["left alone: /kept", "by paddr"]);
    let on_0 =
        |reading| self::all(&record, reading).into_iter().map(on_node_0).collect::<Vec<u32>>();
    let [kept] = on_0("pages kept")[..] else { panic!("{record}") };
    let [swept, then_swept] = on_0("pages sweep")[..] else { panic!("{record}") };
    // All 32 MiB (8192 pages) of the protected program are still on node 0. Its other pages may
    // have migrated: it allocated them before it joined the group, so they are charged to another
    // group.
    assert!(kept >= 8192, "{record}");
    assert!(swept < 12288 / 2, "60 of 100 are there before all memory is steered\n{record}");
    shown(&record, "await kept reached");
    check_report(&record, "wait group", Ending::Exit(0), &["by paddr"]);
    assert!(then_swept.abs_diff(swept) < 64, "it is in no group\n{record}");
    unchanged_but(&record, &[]);
    intact(&record);
}

/// A node with too little free memory for the target is reported, and the daemon continues until it
/// is stopped.
#[test]
fn a_full_node_is_reported() {
    let config = CONFIG.replace("60:40", "20:80");
    let steps = format!(
        "start sweep touch 160MiB --bind 0 --check\nawait sweep touched\n\
         start balance {BALANCE}\nawait balance *node 1 is full: \n\
         kill balance TERM\nwait balance\n{INTACT}"
    );
    let files = [("/balance.toml", config.as_str())];
    on_each(&SERIES, |series| {
        let Some(record) = guest_record_on(series, "nearly-full-node", &files, &steps) else {
            return;
        };
        check_report(&record, "wait balance", Ending::Exit(0), &["node 1 is full: "]);
        unchanged_but(&record, &[]);
        intact(&record);
    });
}

/// The pages of a stopped program are cold and leave node 0 nearly full. The daemon reports that
/// the node is nearly full, demotes cold pages to node 1, and reports when node 0 has free memory
/// again.
#[test]
fn a_full_first_node_is_emptied_of_cold_pages() {
    let steps = format!(
        "{SWEEP}start cold touch 380MiB --sweep\nawait cold touched\nkill cold STOP\npages cold\n\
         start balance {BALANCE}\nawait balance interleaf: node 0 is nearly full\n\
         await sweep reached\nawait balance *node 0 has room again\n\
         kill balance TERM\nwait balance\npages cold\n{INTACT}"
    );
    let Some(record) = guest_record(Series::Newest, CONFIG, &steps) else { return };
    let words = ["node 0 is nearly full, and cold pages go to node 1"];
    check_report(&record, "wait balance", Ending::Exit(0), &words);
    let readings: Vec<u32> = all(&record, "pages cold").into_iter().map(on_node_0).collect();
    assert!(readings[1] + 1024 < readings[0], "{readings:?}\n{record}");
    unchanged_but(&record, &[]);
    intact(&record);
}

/// The memory of a node of the target weights is set offline while the daemon steers. The kernel
/// migrates the node's pages to node 0, and the daemon exits with an error that names the reason.
/// When the memory is online again, the daemon can be restarted.
#[test]
fn a_node_whose_memory_goes_offline_ends_the_daemon() {
    // A memory block has 128 MiB. Pluggable memory begins at 4 GiB, which is memory block 32.
    let blocks = |state: &str| {
        let block =
            |block| format!("write /sys/devices/system/memory/memory{block}/state {state}\n");
        [33, 32].map(block).concat()
    };
    let again = format!("run {BALANCE} --duration 3s");
    let steps = format!(
        "{SWEEP}start balance {BALANCE}\nawait sweep reached\npages sweep\n{}\
         read /sys/devices/system/node/has_memory\nwait balance\n{}{again}\n{INTACT}",
        blocks("offline"),
        blocks("online_movable")
    );
    on_each(&SERIES, |series| {
        let files = [("/balance.toml", CONFIG)];
        let Some(record) = guest_record_on(series, "plugged-node", &files, &steps) else { return };
        assert_eq!(shown(&record, "read /sys/devices/system/node/has_memory"), ["0"], "{record}");
        let words = [
            "error: node 1 is online, but has no memory any more",
            "hint: set the memory of node 1 online",
        ];
        check_report(&record, "wait balance", Ending::Exit(2), &words);
        check_report(&record, &again, Ending::Exit(0), &[]);
        unchanged_but(&record, &[]);
        intact(&record);
    });
}
