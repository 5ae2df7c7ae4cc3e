//! `interleaf run` under real kernels: where pages come to be, and that the kernel is left as it
//! was found, however the run ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{on_each, said, shown, step},
    outcome::Record,
};

const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

const WITH_WEIGHTS: [Series; 3] = [Series::Of(6, 12), Series::Of(6, 17), Series::Newest];

/// The steps between two looks at the weights, the balancer and the journals.
fn with_looks(steps: &str) -> String {
    let look =
        format!("read {WEIGHTS}/*\nread /proc/sys/kernel/numa_balancing\nlist /run/interleaf\n");
    format!("{look}{steps}\n{look}")
}

/// Nothing that `with_looks` looks at has changed, and no journal is left.
fn nothing_changed(record: &Record) {
    for look in [format!("read {WEIGHTS}/*"), "read /proc/sys/kernel/numa_balancing".into()] {
        let looks: Vec<_> = record.steps.iter().filter(|taken| taken.step == look).collect();
        let [before, after] = &looks[..] else { panic!("{record}") };
        assert_eq!(before, after, "{record}");
    }
    let journals = record.steps.iter().rfind(|taken| taken.step == "list /run/interleaf").unwrap();
    let left: Vec<&String> =
        journals.output.iter().filter(|name| name.ends_with(".json")).collect();
    assert!(left.is_empty(), "{left:?}\n{record}");
}

/// What `touch` printed of its pages under a step.
fn pages<'a>(record: &'a Record, text: &str) -> &'a str {
    let lines = shown(record, text);
    lines.iter().find(|line| line.starts_with("pages ")).unwrap_or_else(|| panic!("{record}"))
}

/// Pages go where the weights say, exactly: `touch` takes whole rounds.
fn weights_are_exact(series: Series) {
    let three = "run interleaf run --weights 3:1 -- touch 64MiB";
    // 64 rounds of 258 pages.
    let many = "run interleaf run --weights 3:255 -- touch 66048KiB";
    let turned = "run interleaf run --weights 3:1 --nodes 1,0 touch 64MiB";
    let even = "run interleaf run --weights 50:50 -- touch 64MiB";
    let first = "run interleaf run --weights 1:0 -- touch 32MiB";
    let steps = with_looks(&[three, many, turned, even, first].join("\n"));
    let Some(record) = said(series, "two-nodes-hmat", &steps) else { return };
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

/// Three tiers, 4:2:1.
#[test]
fn three_tiers_are_exact() {
    let step = "run interleaf run --weights 4:2:1 -- touch 56MiB";
    on_each(&WITH_WEIGHTS, |series| {
        let Some(record) = said(series, "three-tiers", &with_looks(step)) else { return };
        assert_eq!(pages(&record, step), "pages 0:8192 1:4096 2:2048", "{record}");
        nothing_changed(&record);
    });
}

/// On two sockets with an expander each, weights of two tiers are for both nodes of each.
#[test]
fn weights_of_tiers_are_for_all_their_nodes() {
    let step = "run interleaf run --weights 3:1 -- touch 64MiB";
    let Some(record) = said(Series::Of(6, 17), "four-nodes", &with_looks(step)) else { return };
    assert_eq!(pages(&record, step), "pages 0:6144 1:6144 2:2048 3:2048", "{record}");
    nothing_changed(&record);
}

/// A signal to the wrapper ends the command, and the kernel is as it was.
#[test]
fn signals_end_it_and_everything_is_put_back() {
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
        let Some(record) = said(series, "two-nodes-hmat", &with_looks(&steps)) else { return };
        for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
            let ending = step(&record, &format!("wait {signal}")).ending.clone();
            assert_eq!(ending, Some(Ending::Exit(128 + number)), "{record}");
        }
        let during = record.steps.iter().filter(|it| it.step == format!("read {WEIGHTS}/node0"));
        assert!(during.clone().count() == 3 && during.clone().all(|it| it.output == ["3"]));
        nothing_changed(&record);
    });
}

/// Nobody can put anything back when the wrapper is killed: the journal says what is left, and the
/// next one puts it back, or `--restore`.
#[test]
fn what_a_killed_run_left_is_put_back() {
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
        let Some(record) = said(series, "two-nodes-hmat", &with_looks(&steps)) else { return };
        let doctor = shown(&record, "run interleaf doctor").join("\n");
        assert!(doctor.contains(&format!("left {WEIGHTS}/node0 at 7")), "{record}");
        let would = shown(&record, "run interleaf run --restore --dry-run").join("\n");
        assert!(would.contains(&format!("left {WEIGHTS}/node0 at 7: ")), "{record}");
        let restored = shown(&record, "run interleaf run --restore").join("\n");
        assert!(restored.contains(&format!("put back {WEIGHTS}/node0")), "{record}");
        let next = shown(&record, "run interleaf run --weights 3:1 -- touch 64MiB").join("\n");
        assert!(next.contains("put back") && next.contains("pages 0:12288 1:4096"), "{record}");
        nothing_changed(&record);
    });
}

/// Two runs that want the same share it, and the last one puts it back; one that wants something
/// else is told who holds it.
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
        let Some(record) = said(series, "two-nodes-hmat", &with_looks(&steps)) else { return };
        let refused = step(&record, third);
        assert_eq!(refused.ending, Some(Ending::Exit(2)), "{record}");
        let text = refused.output.join("\n");
        assert!(text.contains("holds it at 3, and 5 is wanted"), "{record}");
        assert!(text.contains("hint: weights are the whole machine's"), "{record}");
        assert_eq!(shown(&record, &format!("read {WEIGHTS}/node0")), ["3"], "{record}");
        nothing_changed(&record);
    });
}

/// A launcher that sets another policy for what it starts, as mpirun does, is told, and how much
/// memory it took away. The next look at a program is as much later as the one before was after its
/// start, or twenty times what that took: a slow guest has none for long, and the program leaves it
/// the processor meanwhile.
#[test]
fn who_sets_another_policy_is_told() {
    let steps = "start outer interleaf run --weights 3:1 -- \
                 interleaf run -q --weights 1:1 -- touch 64MiB --stay\n\
                 await outer touched\nsleep 60s\nkill outer TERM\nwait outer\n";
    on_each(&[Series::Of(6, 1), Series::Of(6, 17)], |series| {
        let outer = match series {
            Series::Of(6, 1) => "1:0",
            _ => "3:1",
        };
        let steps = with_looks(&steps.replacen("3:1", outer, 1));
        let Some(record) = said(series, "two-nodes-hmat", &steps) else { return };
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

/// Pages of a program under a policy stay where they are, though the kernel balances.
#[test]
fn the_balancer_leaves_it_alone() {
    let start = "start sweep interleaf run --weights 3:1 -o /tmp/run.json -- touch 64MiB --sweep";
    let steps = format!("{start}\nawait sweep touched\nsleep 12s\nkill sweep TERM\nwait sweep");
    let steps = with_looks(&format!("{steps}\nread /tmp/run.json"));
    on_each(&[Series::Of(6, 12), Series::Newest], |series| {
        let Some(record) = said(series, "two-nodes-hmat", &steps) else { return };
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

/// A policy steers the command's pages while it runs, and nobody else's: by DAMON, and by
/// `move_pages` where that is asked for. What the balancer and DAMON's modules were is put back.
#[test]
fn a_policy_steers_a_command() {
    let damon = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
    for way in ["vaddr", "pages"] {
        let start = format!(
            "start sweep interleaf run --policy bandwidth --feed /tmp/feed.sock --way {way} \
             --period 1s --stop-rivals -o /tmp/run.json -- touch 64MiB --sweep --tell 71:29"
        );
        // What is told of a period may have been seen before they were there.
        let seen = "await sweep *node0 71 (7";
        let steps = format!(
            "start other touch 16MiB --bind 0 --sweep\nawait other touched\n{start}\n\
             await sweep reached\n{seen}\n{seen}\nread {damon}\nkill sweep TERM\nwait sweep\n\
             read /tmp/run.json\nread {damon}\nkill other KILL\nwait other"
        );
        let Some(record) = said(Series::Of(6, 17), "two-nodes-hmat", &with_looks(&steps)) else {
            return;
        };
        let text = shown(&record, "read /tmp/run.json").join("\n");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["balance"]["way"], way, "{record}");
        assert_eq!(document["signal"], 15, "{record}");
        let periods = document["balance"]["periods"].as_array().unwrap();
        let last = periods.last().unwrap_or_else(|| panic!("{record}"));
        // Rated at 512 and 204.8 GiB/s, for which the kernel's weights are 22:9.
        assert_eq!(last["target_weights"], serde_json::json!([71, 29]), "{record}");
        // A busy guest does not see in each period where pages are.
        let mut shares = periods.iter().filter_map(|it| it["reached_share"][0].as_f64());
        let share = shares.next_back().unwrap_or_else(|| panic!("{record}"));
        assert!((share - 0.71).abs() < 0.03, "{share}\n{record}");
        let looks: Vec<_> =
            record.steps.iter().filter(|taken| taken.step == format!("read {damon}")).collect();
        let set_up = if way == "vaddr" { "1" } else { "0" };
        assert_eq!(looks[0].output, [set_up], "{record}");
        assert_eq!(looks[1].output, ["0"], "{record}");
        nothing_changed(&record);
    }
}

/// A kernel without weighted interleaving spreads pages evenly; they are moved while the command
/// runs.
#[test]
fn without_weights_pages_are_moved() {
    let start = "start sweep interleaf run --weights 3:1 -- touch 64MiB --sweep --tell 3:1";
    let even = "run interleaf run --weights 1:1 -- touch 64MiB";
    let dry = "run interleaf run --weights 3:1 --dry-run -- touch 64MiB";
    let steps = format!(
        "{even}\n{dry}\n{start}\nawait sweep reached\nsleep 8s\n\
         read /proc/@sweep/task/@sweep/children\nkill sweep TERM\nwait sweep"
    );
    let Some(record) = said(Series::Of(6, 1), "two-nodes-hmat", &steps) else { return };
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

/// What does not start leaves nothing behind.
#[test]
fn a_command_that_is_not_there_changes_nothing() {
    let run = "run interleaf run --weights 3:1 -- /bin/nothing";
    let Some(record) = said(Series::Of(6, 17), "two-nodes-hmat", &with_looks(run)) else { return };
    let taken = step(&record, run);
    assert_eq!(taken.ending, Some(Ending::Exit(2)), "{record}");
    let text = taken.output.join("\n");
    assert!(text.contains("error: /bin/nothing: cannot be started: No such file"), "{record}");
    nothing_changed(&record);
}

/// The command's own status is ours.
#[test]
fn the_status_is_the_commands() {
    let fails = "run interleaf run --weights 3:1 -- touch nonsense";
    let Some(record) = said(Series::Of(6, 12), "two-nodes-hmat", &with_looks(fails)) else {
        return;
    };
    assert_eq!(step(&record, fails).ending, Some(Ending::Exit(1)), "{record}");
    nothing_changed(&record);
}
