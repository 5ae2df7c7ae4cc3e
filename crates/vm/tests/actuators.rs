//! Tests actuators, the mechanisms that migrate pages to target weights, under real kernels. The
//! actuators of each kernel reach the target, keep pages at the target, follow new targets and
//! processes, and restore all settings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{self, on_each, shown, step},
    outcome::Record,
};

const DAMON_STAT: &str = "/sys/module/damon_stat/parameters/enabled";
const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

const SWEEP: &str = "start sweep touch 100MiB --bind 0 --sweep\nawait sweep touched\n";

/// Runs `steps` in a guest and returns its report. NUMA balancing is off, because it would migrate
/// pages back.
fn guest_record(series: Series, steps: &str) -> Option<Record> {
    let first = "write /proc/sys/kernel/numa_balancing 0\n\
                 write /sys/kernel/mm/transparent_hugepage/enabled madvise\n";
    let reading = format!("read {KDAMONDS}\nread {DAMON_STAT}\nlist /run/interleaf\n");
    harness::guest_record(series, "two-nodes-hmat", &format!("{first}{reading}{steps}\n{reading}"))
}

/// Checks that the first and the last reading of the settings are equal, and that no journal
/// remains.
fn nothing_changed(record: &Record) {
    for reading in [format!("read {KDAMONDS}"), format!("read {DAMON_STAT}")] {
        let readings: Vec<_> = record.steps.iter().filter(|taken| taken.step == reading).collect();
        let [before, .., after] = &readings[..] else { panic!("{record}") };
        assert_eq!(before, after, "{record}");
    }
    let journals = record.steps.iter().rfind(|taken| taken.step == "list /run/interleaf").unwrap();
    assert!(!journals.output.iter().any(|name| name.ends_with(".json")), "{record}");
}

/// Returns the percentage of pages on node 0 in a line such as `pages 0:12288 1:4096`.
fn points(line: &str) -> Option<f64> {
    let words = line.strip_prefix("pages ")?.split(' ');
    let count = |word: &str| {
        let (node, count) = word.split_once(':')?;
        Some((node.to_string(), count.parse::<f64>().ok()?))
    };
    let counts: Vec<(String, f64)> = words.map_while(count).collect();
    let sum: f64 = counts.iter().map(|(_, count)| count).sum();
    let on_0 = counts.iter().find(|(node, _)| node == "0").map_or(0.0, |(_, count)| *count);
    (sum > 0.0).then(|| 100.0 * on_0 / sum)
}

/// Returns the percentage of pages on node 0 in the last output of the step `reading`.
fn on_node_0(record: &Record, reading: &str) -> f64 {
    let taken = record.steps.iter().rfind(|taken| taken.step == reading).unwrap();
    taken.output.iter().find_map(|line| points(line)).unwrap_or_else(|| panic!("{record}"))
}

/// Returns the largest distance of the placement from the target, in percentage points, that
/// `actuate` printed at its end. `actuate` measures this distance after the placement has reached
/// the last target.
fn stayed(record: &Record, step: &str) -> f64 {
    let lines = shown(record, step).iter();
    let mut found = lines.filter_map(|line| line.strip_prefix("stayed within ")?.parse().ok());
    found.next_back().unwrap_or_else(|| panic!("{record}"))
}

/// The pages of the steered programs are on node 0 at first. A first run of the actuator `vaddr`
/// (DAMON on virtual addresses) migrates the pages to 60:40, even those of a program that starts
/// during the run. A second run migrates the pages from 60:40 to 20:80. All settings are restored.
#[test]
fn vaddr_reaches_and_keeps() {
    // The argument 1 is the process ID of the guest's init. Init starts all programs, so the
    // actuator steers all of them.
    let actuate = "run actuate 1 --way vaddr --weights 60:40 --then 20:80 --leave";
    let first = "start first actuate 1 --way vaddr --weights 60:40 --leave --stay 999\n\
                 await first reached\n\
                 start other touch 30MiB --bind 0 --sweep --tell 60:40\n\
                 await other reached\n\
                 kill first TERM\nwait first\npages other\npages sweep\n";
    let steps = format!("{SWEEP}{first}{actuate}\npages sweep");
    on_each(&[Series::Of(6, 17), Series::Newest], |series| {
        let Some(record) = guest_record(series, &steps) else { return };
        let readings: Vec<f64> = record
            .steps
            .iter()
            .filter(|taken| taken.step == "pages sweep")
            .filter_map(|taken| points(&taken.output[0]))
            .collect();
        let [at_60, at_20] = readings[..] else { panic!("{record}") };
        assert!((at_60 - 60.0).abs() <= 3.0, "{record}");
        assert!((on_node_0(&record, "pages other") - 60.0).abs() <= 3.0, "{record}");
        assert!((at_20 - 20.0).abs() <= 3.0 && stayed(&record, actuate) <= 3.0, "{record}");
        nothing_changed(&record);
    });
}

/// The actuator `paddr` (DAMON on physical addresses) migrates pages of the whole machine. The
/// placement reaches each target, and stays near the last target for 15 s.
#[test]
fn paddr_reaches_and_keeps() {
    let actuate = "run actuate --way paddr --weights 60:40 --then 30:70 --within 4 --leave \
                   --stay 15";
    let steps = format!("{SWEEP}{actuate}\npages sweep");
    let Some(record) = guest_record(Series::Newest, &steps) else { return };
    assert!(stayed(&record, actuate) <= 6.0, "{record}");
    assert!((on_node_0(&record, "pages sweep") - 30.0).abs() <= 6.0, "{record}");
    nothing_changed(&record);
}

/// The actuator `paddr` needs the DAMOS quota goal `node_eligible_mem_bp` (the share of a node in
/// the steered memory), which Linux has since 7.2. On older kernels, the actuator `quota`, which
/// sets the quotas of DAMON itself, migrates pages of the whole machine. The placement reaches the
/// target, and stays near the target for 15 s.
#[test]
fn quotas_reach_and_keep() {
    let actuate = "run actuate --way quota --weights 60:40 --within 4 --leave --stay 15";
    let steps = format!("{SWEEP}{actuate}\npages sweep");
    on_each(&[Series::Of(6, 12), Series::Of(6, 17)], |series| {
        let Some(record) = guest_record(series, &steps) else { return };
        assert!(stayed(&record, actuate) <= 6.0, "{record}");
        assert!((on_node_0(&record, "pages sweep") - 60.0).abs() <= 6.0, "{record}");
        nothing_changed(&record);
    });
}

/// On a kernel without DAMON, the actuator is `move_pages`. The placement reaches both targets, and
/// stays near the last target.
#[test]
fn pages_reach_and_keep() {
    let actuate = "run actuate @sweep --weights 60:40 --then 20:80 --rate 20MiB";
    let steps = format!("{SWEEP}{actuate}\npages sweep");
    let Some(record) = guest_record(Series::Of(6, 1), &steps) else { return };
    assert!(stayed(&record, actuate) <= 3.0, "{record}");
    assert!((on_node_0(&record, "pages sweep") - 20.0).abs() <= 3.0, "{record}");
    assert!(shown(&record, actuate).iter().any(|line| line.starts_with("pages: ")), "{record}");
}

/// The kernel's module `damon_stat` uses DAMON. Without `--leave`, `actuate` therefore fails with
/// an error that names `damon_stat`. With `--leave`, `actuate` switches `damon_stat` off. A killed
/// `actuate` leaves a running kdamond. `interleaf run --restore` removes this kdamond, and switches
/// `damon_stat` on again.
#[test]
fn settings_of_a_killed_actuator_are_restored() {
    let refused = "run actuate @sweep --way vaddr --weights 60:40";
    let restore = "run interleaf run --restore";
    let state = "read /sys/kernel/mm/damon/admin/kdamonds/0/state";
    let steps = format!(
        "{SWEEP}{refused}\n\
         start killed actuate @sweep --way vaddr --weights 60:40 --leave --stay 999\n\
         await killed reached\n{state}\nread {DAMON_STAT}\n\
         kill killed KILL\nwait killed\n{restore}"
    );
    on_each(&[Series::Of(6, 17), Series::Newest], |series| {
        let Some(record) = guest_record(series, &steps) else { return };
        assert_eq!(step(&record, refused).ending, Some(Ending::Exit(1)), "{record}");
        let message = step(&record, refused).output.join("\n");
        assert!(
            message.contains("damon_stat holds DAMON") && message.contains("hint: "),
            "{record}"
        );
        assert_eq!(shown(&record, state), ["on"], "{record}");
        assert!(shown(&record, restore).join("\n").contains("nr_kdamonds"), "{record}");
        nothing_changed(&record);
    });
}

/// Cold pages are demoted to the second node while the first node is nearly full.
#[test]
fn cold_pages_are_demoted() {
    // The program fills node 0, and its remaining pages are on node 1. The program is stopped so
    // that its pages become cold. The actuator runs until node 0 has free memory again.
    let steps = "start cold touch 480MiB --sweep\nawait cold touched\nkill cold STOP\n\
                 pages cold\nstart actuate actuate @cold --way vaddr --weights 1:0 --leave \
                 --within 100 --stay 999 --until room\nawait actuate reached\n\
                 wait actuate\npages cold";
    on_each(&[Series::Of(6, 17), Series::Newest], |series| {
        let Some(record) = guest_record(series, steps) else { return };
        let printed = shown(&record, "wait actuate").join("\n");
        assert!(printed.contains("demotes true"), "{record}");
        let readings = record.steps.iter().filter(|taken| taken.step == "pages cold");
        let readings: Vec<f64> = readings.filter_map(|taken| points(&taken.output[0])).collect();
        let [before, after] = readings[..] else { panic!("{record}") };
        assert!(after < before - 2.0, "{record}");
        nothing_changed(&record);
    });
}

/// Two programs have pages on node 0: `sweep` writes to its pages, and `cold` is stopped. With
/// `--hottest`, the pages of `sweep` stay on node 0 and the pages of `cold` migrate.
#[test]
fn the_hottest_stay_on_the_first_node() {
    let actuate = "run actuate @sweep @cold --way vaddr --weights 50:50 --hottest --leave";
    let steps = format!(
        "start cold touch 100MiB --bind 0 --sweep\nawait cold touched\nkill cold STOP\n\
         start sweep touch 100MiB --bind 0 --sweep\nawait sweep touched\n\
         {actuate}\npages sweep\npages cold"
    );
    let Some(record) = guest_record(Series::Newest, &steps) else { return };
    assert!(stayed(&record, actuate) <= 6.0, "{record}");
    let [hot, cold] = ["pages sweep", "pages cold"].map(|reading| on_node_0(&record, reading));
    assert!(hot > 80.0 && cold < 20.0, "{record}");
    nothing_changed(&record);
}

/// A program has 128 MiB in 64 huge pages, each of which migrates as one page. Even with 64 pages,
/// the placement reaches the ratio of the weights within 6 percentage points.
#[test]
fn huge_pages_reach_the_ratio() {
    let actuate = "run actuate @sweep --way vaddr --weights 60:40 --then 38:62 --within 6 --leave";
    let steps = format!(
        "start sweep touch 128MiB --bind 0 --huge --sweep\nawait sweep touched\n\
         read /proc/vmstat\n{actuate}\npages sweep"
    );
    on_each(&[Series::Of(6, 17), Series::Newest], |series| {
        let Some(record) = guest_record(series, &steps) else { return };
        let huge = shown(&record, "read /proc/vmstat");
        assert!(huge.iter().any(|line| line == "nr_anon_transparent_hugepages 64"), "{record}");
        assert!(stayed(&record, actuate) <= 6.0, "{record}");
        assert!((on_node_0(&record, "pages sweep") - 38.0).abs() <= 6.0, "{record}");
        nothing_changed(&record);
    });
}
