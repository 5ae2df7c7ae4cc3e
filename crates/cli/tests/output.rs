//! Tests of output files on a full disk, and of outputs that are special files, links or mounted
//! files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "terminal/screen.rs"]
mod screen;

use screen::Screen;
use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Output},
};

/// The arguments of a short simulation that writes 7 KB.
const SIMULATE: [&str; 7] =
    ["simulate", "dimm", "--device", "rdimm-6400-2r", "--requests", "40000", "--json"];

fn interleaf() -> Command {
    Command::new(env!("CARGO_BIN_EXE_interleaf"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a shell script in a new mount namespace. Its current folder is `/mnt`, a file system of 64
/// KiB, and `$B` is the path of `interleaf`. If new namespaces are not permitted, prints that this
/// was not tested, and returns `None`.
fn on_a_small_disk(script: &str) -> Option<Output> {
    let mount = "mount -t tmpfs -o size=64k small /mnt && cd /mnt";
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.env("B", env!("CARGO_BIN_EXE_interleaf")).output()
    };
    if !shell(mount).is_ok_and(|output| output.status.success()) {
        let text = "NOT TESTED: a full disk: no mount namespace can be had here (unshare)\n";
        io::stderr().write_all(text.as_bytes()).unwrap();
        return None;
    }
    Some(shell(&format!("{mount} && {script}")).unwrap())
}

#[test]
fn a_full_disk_leaves_the_old_record() {
    let simulate = SIMULATE.join(" ");
    // Only 4 KiB of the file system are free, so a part of the record can be written, but not all.
    let script = format!(
        "echo old > record.json; head -c 52k /dev/zero > fill; head -c 4k /dev/zero > more; \
         $B {simulate} -o record.json > /dev/null 2> /dev/shm/interleaf-$$; echo $?; \
         cat record.json; ls -A; cat /dev/shm/interleaf-$$; rm /dev/shm/interleaf-$$"
    );
    let Some(output) = on_a_small_disk(&script) else { return };
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected =
        "2\nold\nfill\nmore\nrecord.json\nerror: record.json: cannot be written: No space";
    assert!(printed.starts_with(expected), "{printed}{}", stderr(&output));
    assert!(printed.contains("hint: make room there"), "{printed}");
}

/// If the record or stdout of `balance` cannot be written, its control loop continues. It reports
/// that lines are missing.
#[test]
fn a_full_disk_does_not_end_the_loop() {
    let balance = "$B balance --platform gnr120-cz122 --duration 600s --json";
    let script = format!(
        "head -c 60k /dev/zero > fill; {balance} -o record.jsonl | wc -l; \
         rm fill; tail -n 1 record.jsonl | head -c 10; echo; {balance} > /dev/full; echo $?"
    );
    let Some(output) = on_a_small_disk(&script) else { return };
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert_eq!(printed, "100\n{\"schema\":\n2\n", "{errors}");
    for name in ["record.jsonl", "stdout"] {
        let message = format!("interleaf: {name}: cannot be written: No space left on device");
        assert_eq!(errors.matches(&message).count(), 1, "{errors}");
    }
    assert!(errors.contains("error: record.jsonl: ") && errors.contains("periods are missing"));
    assert!(errors.contains("error: stdout: 100 periods are missing"), "{errors}");
}

/// A record has only complete lines, even if the disk was full during a write.
#[test]
fn a_record_has_whole_lines() {
    let balance = "$B balance --platform gnr120-cz122 --duration 600s --json";
    let script =
        format!("head -c 40k /dev/zero > fill; {balance} -o r.jsonl > /dev/null; cat r.jsonl");
    let Some(output) = on_a_small_disk(&script) else { return };
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.ends_with('\n') && printed.lines().count() < 100, "{printed}");
    for line in printed.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn streams_are_written_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let printed = interleaf().args(SIMULATE).output().unwrap();
    assert!(printed.status.success(), "{}", stderr(&printed));
    let document = String::from_utf8(printed.stdout).unwrap();
    // Each `target` in the loop is a name of stdout. Stdout is a pipe, or a file that has content.
    // After the loop, the target is a FIFO.
    let words = SIMULATE[..6].join(" ");
    for target in ["-", "/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        for redirect in ["", "> file; cat file", "| cat"] {
            let script = match redirect {
                "> file; cat file" => {
                    format!("(echo before; $B {words} -o {target}; echo after) > file; cat file")
                }
                _ => format!("echo before; $B {words} -o {target} {redirect}; echo after"),
            };
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(folder.path());
            let output = command.env("B", env!("CARGO_BIN_EXE_interleaf")).output().unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            assert!(
                printed.starts_with("before\n") && printed.ends_with("after\n"),
                "{target}: {printed}"
            );
            assert!(printed.contains(&document), "{target} {redirect}: {printed}");
        }
    }
    let script = format!("mkfifo fifo; cat fifo & $B {words} -o fifo > /dev/null; wait; ls");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder.path());
    let output = command.env("B", env!("CARGO_BIN_EXE_interleaf")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, format!("{document}fifo\nfile\n"));
}

#[test]
fn a_link_is_followed_and_modes_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("real.json"), "old").unwrap();
    fs::set_permissions(at("real.json"), fs::Permissions::from_mode(0o604)).unwrap();
    symlink("real.json", at("link.json")).unwrap();
    let output = interleaf().args(SIMULATE).arg("-o").arg(at("link.json")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read_link(at("link.json")).unwrap(), Path::new("real.json"));
    let found = fs::metadata(at("real.json")).unwrap();
    assert!(found.len() > 100 && found.mode() & 0o777 == 0o604);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn verbs_that_measure_or_run_write_their_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let machine =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/linux-newest-two-nodes-hmat");
    let stream = ["--footprint", "8MiB", "--threads", "1", "--rounds", "1"];
    let table: [(&[&str], &[&str], &[&str]); 4] = [
        (&["bench", "run", "stream"], &stream, &[]),
        (&["measure"], &["--dry-run"], &[]),
        (&["tune"], &["--dry-run", "--root", machine], &["--", "true"]),
        (&["run"], &["--weights", "3:1", "--dry-run", "--root", machine], &["--", "true"]),
    ];
    for (verb, options, rest) in table {
        let mut command = interleaf();
        command.args(verb).args(options).arg("--report").arg(&page).args(rest);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{verb:?}: {}", stderr(&output));
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"), "{verb:?}");
        assert!(stderr(&output).contains("the report is in "), "{}", stderr(&output));
        fs::remove_file(&page).unwrap();
    }
    // --quiet prints errors only.
    for (verb, options, rest) in [table[1], table[2], table[3]] {
        let mut command = interleaf();
        command.args(verb).args(options).arg("--quiet").arg("--report").arg(&page).args(rest);
        let output = command.output().unwrap();
        assert!(output.status.success() && page.exists(), "{verb:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("the report is in "), "{}", stderr(&output));
        fs::remove_file(&page).unwrap();
    }
}

/// A file that cannot be replaced by renaming is overwritten, such as a file that is mounted into a
/// container.
#[test]
fn a_mounted_file_is_overwritten() {
    let words = SIMULATE[..6].join(" ");
    let script = format!(
        "echo old > a; echo other > b; mount --bind b a && $B {words} -o a > /dev/null && \
         umount a && cat a && head -c 1 b"
    );
    let Some(output) = on_a_small_disk(&script) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "old\n{", "{}", stderr(&output));
}

/// Counts the characters of a line, without the escape sequences of colours and without the
/// carriage return that the terminal adds.
fn columns(line: &str) -> usize {
    let parts: Vec<&str> = line.trim_end_matches('\r').split("\u{1b}[").collect();
    let colours = parts[1..].iter().map(|part| part.split_once('m').unwrap().1.chars().count());
    parts[0].chars().count() + colours.sum::<usize>()
}

#[test]
fn texts_fit_the_terminal() {
    const BOLD: &str = "\u{1b}[1m";
    let drawn = |columns: u16, variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        command.args(["predict", "--platform", "xeon6-cz122", "--workload", "hpcg"]);
        command.env_remove("NO_COLOR").env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        command.envs(variables.iter().copied());
        let text = Screen::of_width(columns).all_of(&mut command);
        // Skip the progress bar, which is drawn and cleared before the text.
        let answer = text.find("5:2 is best: ").unwrap();
        let bold = if text[..answer].ends_with(BOLD) { BOLD.len() } else { 0 };
        text[answer - bold..].to_string()
    };
    let braille = |text: &str| text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    let header = |text: &str| text.lines().find(|line| line.contains("weights")).unwrap().len();
    let wide = drawn(160, &[]);
    assert!(wide.starts_with(BOLD) && wide.contains(" is best: ") && braille(&wide), "{wide}");
    for width in [160_u16, 80, 60] {
        let text = drawn(width, &[]);
        let fits = |line: &str| columns(line) <= usize::from(width);
        assert!(text.lines().all(fits), "{width}:\n{text}");
    }
    let narrow = drawn(60, &[]);
    assert!(
        narrow.contains("not shown at this width: ") && !wide.contains("not shown"),
        "{narrow}"
    );
    assert!(header(&narrow) < header(&wide), "{narrow}");
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = drawn(80, &[variable]);
        assert!(!text.contains('\u{1b}') && braille(&text), "{text}");
    }
    let ascii = drawn(80, &[("LC_ALL", "C")]);
    assert!(!braille(&ascii) && ascii.contains("***"), "{ascii}");
}

/// On a pipe, `predict` draws no charts, and the width is that of the environment variable
/// `COLUMNS`, which `watch` sets. At each width, each column of a table is either shown whole or
/// named below the table. Without a width, all columns are shown.
#[test]
fn tables_of_predictions_fit_the_width_of_columns() {
    let one = "--platform xeon6-cz122 --workload hpcg --weights 5:2";
    let all = "--platform xeon6-cz122 --workload hpcg";
    let warned = "--platform xeon6-cz122 --workload bwaves";
    let sweep = "--platform xeon6-cz122 --mix R --load sweep";
    let sockets = "--platform two-sockets --workload hpcg --weights 1:0:0:0,3:1:1:1";
    for words in [one, all, warned, sweep, sockets] {
        let printed = |width: Option<&str>| {
            let mut command = interleaf();
            command.arg("predict").args(words.split(' ')).env("LC_ALL", "C").env_remove("COLUMNS");
            command.envs(width.map(|width| ("COLUMNS", width)));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let names = |text: &str| {
            let header = text.lines().find(|line| line.contains(" weights ")).unwrap();
            let columns = header.split("  ").map(|name| name.trim().to_string());
            columns.filter(|name| !name.is_empty()).collect::<Vec<_>>()
        };
        let whole = printed(None);
        assert!(!whole.contains("not shown"), "{whole}");
        let mut shown = 0;
        for width in ["60", "80", "120", "160"] {
            let text = printed(Some(width));
            let fits = |line: &str| line.chars().count() <= width.parse().unwrap();
            assert!(text.lines().all(fits), "{width}:\n{text}");
            assert!(!text.contains("***"), "a pipe has no chart:\n{text}");
            let left_out = text.split("(not shown at this width: ").nth(1);
            let left_out = left_out.map_or("", |rest| rest.split(')').next().unwrap());
            let left_out = left_out.split_whitespace().collect::<Vec<_>>().join(" ");
            let left_out: Vec<&str> =
                left_out.split(", ").filter(|name| !name.is_empty()).collect();
            let kept = names(&text);
            assert!(kept.len() >= shown, "{width}:\n{text}");
            shown = kept.len();
            let known = |name: &&String| kept.contains(name) || left_out.contains(&name.as_str());
            assert_eq!(names(&whole).iter().filter(known).count(), names(&whole).len(), "{text}");
        }
        assert_eq!(shown, names(&whole).len(), "160 columns show all: {words}");
    }
}

/// If `--weights` has only one choice of weights, `predict` does not call it the best. Without
/// `--weights`, `predict` leaves out rows of the table, but keeps the row that a warning names.
#[test]
fn predictions_speak_of_their_rows() {
    let predict = |words: &[&str]| {
        let args = [&["predict", "--platform", "xeon6-cz122", "--workload"], words].concat();
        String::from_utf8(interleaf().args(args).output().unwrap().stdout).unwrap()
    };
    let one = predict(&["hpcg", "--weights", "5:2"]);
    assert!(one.starts_with("5:2: 1.") && !one.contains("best"), "{one}");
    let text = predict(&["bwaves"]);
    let (_, after) = text.split_once("so that ").unwrap();
    let weights = after.split(' ').next().unwrap();
    let is_row = |line: &str| line.split_whitespace().next() == Some(weights);
    assert!(text.lines().any(is_row), "{text}");
}

#[test]
fn help_names_a_verb_in_either_order() {
    let help = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_interleaf")).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(help(&["help", "simulate", "card"]), help(&["simulate", "card", "--help"]));
    assert_eq!(help(&["help"]), help(&["--help"]));
    let (short, long) = (help(&["predict", "-h"]), help(&["help", "predict"]));
    assert!(long.contains("Examples:") && !short.contains("Examples:"), "{short}");
    let first = help(&["-h"]);
    let verbs = first.split("--root").next().unwrap();
    let mut verbs = verbs.lines().filter(|line| line.starts_with("  "));
    assert!(verbs.all(|line| line.chars().count() < 80), "{first}");
}

#[test]
fn csv_of_a_prediction_has_the_sweep_of_loads_and_stderr_the_warnings() {
    let predict = ["predict", "--platform", "xeon6-cz122"];
    let sweep = ["--mix", "R", "--load", "sweep", "--csv"];
    let output = interleaf().args(predict).args(sweep).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let at = |name: &str| rows[0].iter().position(|column| *column == name).unwrap();
    let loads: Vec<&Vec<&str>> =
        rows[1..].iter().filter(|row| !row[at("first_tier_latency_ns")].is_empty()).collect();
    assert!(loads.len() >= 20 && loads.len() < rows.len() - 60, "{text}");
    let of = |row: &Vec<&str>, name: &str| row[at(name)].parse::<f64>().unwrap();
    for row in &loads {
        assert!(
            of(row, "bandwidth_gbps") >= 0.99 * of(row, "first_tier_bandwidth_gbps"),
            "{row:?}"
        );
        assert!(row[at("weights")].contains(':') && row[at("speedup")].is_empty(), "{row:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let demand = folder.path().join("demand.toml");
    let text = "name = \"job\"\nmix = { read_share = 0.7 }\n[[local]]\nthreads = 8\n\
                runtime_s = 10.0\n";
    fs::write(&demand, text).unwrap();
    let output =
        interleaf().args(predict).arg("--demand").arg(&demand).arg("--csv").output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("warning: "), "{output:?}");
}
