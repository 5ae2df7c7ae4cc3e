//! Tests `interleaf run` under real kernels: pages are placed by the weights, and the kernel's
//! settings are restored, however the run ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{guest_record, on_each, shown, step},
    outcome::Record,
};

const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

const WITH_WEIGHTS: [Series; 3] = [Series::Of(6, 12), Series::Of(6, 17), Series::Newest];

/// Returns steps that read the weights, NUMA balancing and the journals before and after `steps`.
fn with_readings(steps: &str) -> String {
    let reading =
        format!("read {WEIGHTS}/*\nread /proc/sys/kernel/numa_balancing\nlist /run/interleaf\n");
    format!("{reading}{steps}\n{reading}")
}

/// Checks that the weights and the setting of NUMA balancing are equal before and after the steps,
/// and that no journal remains.
fn nothing_changed(record: &Record) {
    for reading in [format!("read {WEIGHTS}/*"), "read /proc/sys/kernel/numa_balancing".into()] {
        let readings: Vec<_> = record.steps.iter().filter(|taken| taken.step == reading).collect();
        let [before, after] = &readings[..] else { panic!("{record}") };
        assert_eq!(before, after, "{record}");
    }
    let journals = record.steps.iter().rfind(|taken| taken.step == "list /run/interleaf").unwrap();
    let left: Vec<&String> =
        journals.output.iter().filter(|name| name.ends_with(".json")).collect();
    assert!(left.is_empty(), "{left:?}\n{record}");
}

/// Returns the counts of pages that `touch` printed in a step.
fn pages<'a>(record: &'a Record, text: &str) -> &'a str {
    let lines = shown(record, text);
    lines.iter().find(|line| line.starts_with("pages ")).unwrap_or_else(|| panic!("{record}"))
}

/// With each choice of weights the pages on each node have the ratio of the weights. The counts are
/// exact, because `touch` maps whole rounds of interleaving.
fn weights_are_exact(series: Series) {
    let three = "run interleaf run --weights 3:1 -- touch 64MiB";
    // 66048 KiB are 64 rounds of 258 pages.
    let many = "run interleaf run --weights 3:255 -- touch 66048KiB";
    let turned = "run interleaf run --weights 3:1 --nodes 1,0 touch 64MiB";
    let even = "run interleaf run --weights 50:50 -- touch 64MiB";
    let first = "run interleaf run --weights 1:0 -- touch 32MiB";
    let steps = with_readings(&[three, many, turned, even, first].join("\n"));
    let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
    assert_eq!(pages(&record, three), "pages 0:12288 1:4096", "{record}");
    assert_eq!(pages(&record, many), "pages 0:192 1:16320", "{record}");
    assert_eq!(pages(&record, turned), "pages 0:4096 1:12288", "{record}");
    assert_eq!(pages(&record, even), "pages 0:8192 1:8192", "{record}");
    assert_eq!(pages(&record, first), "pages 0:8192", "{record}");
    nothing_changed(&record);
}

#[test]
fn weights_are_exact_on_6_12() {
    weights_are_exact(Series::Of(6, 12));
}

#[test]
fn weights_are_exact_on_6_17() {
    weights_are_exact(Series::Of(6, 17));
}

#[test]
fn weights_are_exact_on_the_newest() {
    weights_are_exact(Series::Newest);
}

#[test]
fn three_tiers_are_exact() {
    let step = "run interleaf run --weights 4:2:1 -- touch 56MiB";
    on_each(&WITH_WEIGHTS, |series| {
        let Some(record) = guest_record(series, "three-tiers", &with_readings(step)) else {
            return;
        };
        assert_eq!(pages(&record, step), "pages 0:8192 1:4096 2:2048", "{record}");
        nothing_changed(&record);
    });
}

/// On two sockets with an expander each, the weight of a tier applies to both nodes of the tier.
#[test]
fn weights_of_tiers_are_for_all_their_nodes() {
    let step = "run interleaf run --weights 3:1 -- touch 64MiB";
    let Some(record) = guest_record(Series::Of(6, 17), "four-nodes", &with_readings(step)) else {
        return;
    };
    assert_eq!(pages(&record, step), "pages 0:6144 1:6144 2:2048 3:2048", "{record}");
    nothing_changed(&record);
}

/// A signal to `interleaf run` ends the command, and the settings are restored.
#[test]
fn signals_end_the_run_and_settings_are_restored() {
    let mut steps = String::new();
    for signal in ["TERM", "INT", "HUP"] {
        steps += &format!(
            "start {signal} interleaf run --weights 3:1 -- touch 16MiB --sweep\n\
             await {signal} touched\n\
             read {WEIGHTS}/node0\n\
             kill {signal} {signal}\n\
             wait {signal}\n"
        );
    }
    on_each(&[Series::Of(6, 12), Series::Newest], |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &with_readings(&steps)) else {
            return;
        };
        for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
            let ending = step(&record, &format!("wait {signal}")).ending.clone();
            assert_eq!(ending, Some(Ending::Exit(128 + number)), "{record}");
        }
        let during = record.steps.iter().filter(|it| it.step == format!("read {WEIGHTS}/node0"));
        assert!(during.clone().count() == 3 && during.clone().all(|it| it.output == ["3"]));
        nothing_changed(&record);
    });
}

/// A killed `interleaf run` cannot restore the settings that it changed. The journal has the old
/// values of these settings, which the next run or `--restore` restores.
#[test]
fn settings_of_a_killed_run_are_restored() {
    let start = "interleaf run --weights 7:2 -- touch 16MiB --sweep";
    let steps = format!(
        "start first {start}\nawait first touched\nkill first KILL\nwait first\n\
         run interleaf doctor\n\
         run interleaf run --restore --dry-run\n\
         run interleaf run --restore\n\
         read {WEIGHTS}/node0\n\
         start second {start}\nawait second touched\nkill second KILL\nwait second\n\
         run interleaf run --weights 3:1 -- touch 64MiB\n\
         run interleaf run --restore\n"
    );
    on_each(&[Series::Of(6, 12), Series::Of(6, 17)], |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &with_readings(&steps)) else {
            return;
        };
        let doctor = shown(&record, "run interleaf doctor").join("\n");
        assert!(doctor.contains(&format!("left {WEIGHTS}/node0 at 7")), "{record}");
        let would = shown(&record, "run interleaf run --restore --dry-run").join("\n");
        assert!(would.contains(&format!("left {WEIGHTS}/node0 at 7: ")), "{record}");
        let restored = shown(&record, "run interleaf run --restore").join("\n");
        assert!(restored.contains(&format!("restored {WEIGHTS}/node0")), "{record}");
        let next = shown(&record, "run interleaf run --weights 3:1 -- touch 64MiB").join("\n");
        assert!(next.contains("restored") && next.contains("pages 0:12288 1:4096"), "{record}");
        nothing_changed(&record);
    });
}

/// Two runs with equal weights share these weights, and the last run restores the old values. A run
/// with other weights is refused; the message names the run that holds the weights.
#[test]
fn two_runs_share_the_weights() {
    let third = "run interleaf run --weights 5:1 -- touch 16MiB";
    let steps = format!(
        "start first interleaf run --weights 3:1 -- touch 16MiB --sweep\n\
         await first touched\n\
         start second interleaf run --weights 3:1 -- touch 16MiB --sweep\n\
         await second touched\n\
         {third}\n\
         kill first TERM\nwait first\n\
         read {WEIGHTS}/node0\n\
         kill second TERM\nwait second\n"
    );
    on_each(&[Series::Of(6, 12), Series::Of(6, 17)], |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &with_readings(&steps)) else {
            return;
        };
        let refused = step(&record, third);
        assert_eq!(refused.ending, Some(Ending::Exit(2)), "{record}");
        let text = refused.output.join("\n");
        assert!(text.contains("holds it at 3, and 5 is wanted"), "{record}");
        assert!(text.contains("hint: weights are the whole machine's"), "{record}");
        assert_eq!(shown(&record, &format!("read {WEIGHTS}/node0")), ["3"], "{record}");
        nothing_changed(&record);
    });
}

/// A launcher may set another policy for its children, as mpirun does. The other policy is
/// reported, with the amount of memory that bypassed the requested policy. The pause between two
/// placement audits doubles up to a minute, and is at least twenty times as long as the last audit
/// took. The program idles (`--stay`), so that audits are short and a second audit runs within the
/// 60 s of the test.
#[test]
fn a_launcher_with_another_policy_is_reported() {
    let steps = "start outer interleaf run --weights 3:1 -- \
                 interleaf run -q --weights 1:1 -- touch 64MiB --stay\n\
                 await outer touched\nsleep 60s\nkill outer TERM\nwait outer\n";
    let steps = with_readings(steps);
    on_each(&[Series::Of(6, 12), Series::Of(6, 17)], |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
        let text = step(&record, "wait outer").output.join("\n");
        assert!(
            text.contains("bypassed the policy: the process has the policy \"interleave:0-1\""),
            "{record}"
        );
        assert!(
            text.contains("(touch)") && text.contains("mpirun -np N interleaf run"),
            "{record}"
        );
        nothing_changed(&record);
    });
}

/// NUMA balancing does not migrate the pages of a program that has a memory policy.
#[test]
fn the_balancer_leaves_it_alone() {
    let start = "start sweep interleaf run --weights 3:1 -o /tmp/run.json -- touch 64MiB --sweep";
    let steps = format!("{start}\nawait sweep touched\nsleep 12s\nkill sweep TERM\nwait sweep");
    let steps = with_readings(&format!("{steps}\nread /tmp/run.json"));
    on_each(&[Series::Of(6, 12), Series::Newest], |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
        assert_eq!(shown(&record, "read /proc/sys/kernel/numa_balancing"), ["1"], "{record}");
        let text = shown(&record, "read /tmp/run.json").join("\n");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let placed = |node: &str| document["memory"]["placed_bytes"][node].as_f64().unwrap();
        let share = placed("0") / (placed("0") + placed("1"));
        assert!((share - 0.75).abs() < 0.01, "{share}\n{record}");
        assert_eq!(document["signal"], 15, "{record}");
        nothing_changed(&record);
    });
}

/// With `--policy`, `interleaf run` migrates the pages of its command only: with DAMON or, with
/// `--way pages`, with `move_pages`. The settings of NUMA balancing and of DAMON's modules are
/// restored.
#[test]
fn a_policy_steers_a_command() {
    let damon = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
    for actuator in ["vaddr", "pages"] {
        let start = format!(
            "start sweep interleaf run --policy bandwidth --feed /tmp/feed.sock --way {actuator} \
             --period 1s --stop-rivals -o /tmp/run.json -- touch 64MiB --sweep --tell 71:29"
        );
        // Waits for two periods, because the first may report a sample from before the migration.
        let seen = "await sweep *node0 71 (7";
        let steps = format!(
            "start other touch 16MiB --bind 0 --sweep\nawait other touched\n{start}\n\
             await sweep reached\n{seen}\n{seen}\nread {damon}\nkill sweep TERM\nwait sweep\n\
             read /tmp/run.json\nread {damon}\nkill other KILL\nwait other"
        );
        let Some(record) =
            guest_record(Series::Of(6, 17), "two-nodes-hmat", &with_readings(&steps))
        else {
            return;
        };
        let text = shown(&record, "read /tmp/run.json").join("\n");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["balance"]["way"], actuator, "{record}");
        assert_eq!(document["signal"], 15, "{record}");
        let periods = document["balance"]["periods"].as_array().unwrap();
        let last = periods.last().unwrap_or_else(|| panic!("{record}"));
        // The nodes are rated at 500 and 200 GiB/s, which is 71:29. The kernel's weights for these
        // bandwidths are 22:9.
        assert_eq!(last["target_weights"], serde_json::json!([71, 29]), "{record}");
        // In a slow guest, some periods have no sample of the placement.
        let mut shares = periods.iter().filter_map(|it| it["reached_share"][0].as_f64());
        let share = shares.next_back().unwrap_or_else(|| panic!("{record}"));
        assert!((share - 0.71).abs() < 0.03, "{share}\n{record}");
        let readings: Vec<_> =
            record.steps.iter().filter(|taken| taken.step == format!("read {damon}")).collect();
        let set_up = if actuator == "vaddr" { "1" } else { "0" };
        assert_eq!(readings[0].output, [set_up], "{record}");
        assert_eq!(readings[1].output, ["0"], "{record}");
        nothing_changed(&record);
    }
}

/// A kernel without weighted interleaving interleaves pages evenly. `interleaf run` then migrates
/// pages while the command runs, and writes a placement audit to the record after each migration.
/// The test ends the command when the record has a migration of 0 bytes: all pages are then on the
/// nodes that the weights require.
#[test]
fn without_weights_pages_are_moved() {
    let start =
        "start sweep interleaf run -o /run.json --weights 3:1 -- touch 64MiB --sweep --tell 3:1";
    let even = "run interleaf run --weights 1:1 -- touch 64MiB";
    let dry = "run interleaf run --weights 3:1 --dry-run -- touch 64MiB";
    let steps = format!(
        "{even}\n{dry}\n{start}\nawait sweep reached\nwrite /run.json none\n\
         until /run.json \"moved_bytes\": 0,\n\
         read /proc/@sweep/task/@sweep/children\nkill sweep TERM\nwait sweep"
    );
    let Some(record) = guest_record(Series::Of(6, 1), "two-nodes-hmat", &steps) else { return };
    assert_eq!(pages(&record, even), "pages 0:8192 1:8192", "{record}");
    let would = shown(&record, dry).join("\n");
    assert!(would.contains("this kernel has no weighted interleaving"), "{record}");
    let text = step(&record, "wait sweep").output.join("\n");
    let row = |node: &str| {
        let mut row = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let found = row.rfind(|row| row.len() == 5 && row[1] == node);
        found.unwrap_or_else(|| panic!("{record}"))[4].parse::<f64>().unwrap()
    };
    assert!((row("0") - 75.0).abs() < 1.0 && (row("1") - 25.0).abs() < 1.0, "{record}");
}

/// A command that cannot be started leaves all settings unchanged.
#[test]
fn a_command_that_is_not_there_changes_nothing() {
    let run = "run interleaf run --weights 3:1 -- /bin/nothing";
    let Some(record) = guest_record(Series::Of(6, 17), "two-nodes-hmat", &with_readings(run))
    else {
        return;
    };
    let taken = step(&record, run);
    assert_eq!(taken.ending, Some(Ending::Exit(2)), "{record}");
    let text = taken.output.join("\n");
    assert!(text.contains("error: /bin/nothing: cannot be started: No such file"), "{record}");
    nothing_changed(&record);
}

/// `interleaf run` exits with the status of the command.
#[test]
fn the_status_is_the_commands() {
    let fails = "run interleaf run --weights 3:1 -- touch nonsense";
    let Some(record) = guest_record(Series::Of(6, 12), "two-nodes-hmat", &with_readings(fails))
    else {
        return;
    };
    assert_eq!(step(&record, fails).ending, Some(Ending::Exit(1)), "{record}");
    nothing_changed(&record);
}
