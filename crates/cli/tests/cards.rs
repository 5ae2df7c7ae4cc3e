//! Tests of `simulate card`: documents and pages, fio job files, power failures, the memory test,
//! and a card as a tier of a platform.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn interleaf(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaf")).args(args).output().unwrap()
}

fn card(args: &[&str]) -> Output {
    interleaf(&[&["simulate", "card"], args].concat())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn document(args: &[&str]) -> Value {
    serde_json::from_str(&text(&card(&[args, &["--json"]].concat()))).unwrap()
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("no {field} in {value}"))
}

const BOTH: [&str; 2] = ["--card", "flashtec-dram,all-mram"];

#[test]
fn the_documented_fields_are_there() {
    let load = ["--rw", "randwrite", "--iodepth", "1,32", "--runtime", "2ms"];
    let document = document(&[&BOTH[..], &load, &["--power-fail-sweep", "50"]].concat());
    assert_eq!(document["schema"], "interleaf.simulate.card/1");
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for point in points {
        let clat = &point["clat_us"];
        let names = ["min", "p50", "p99", "p99_99", "p99_9999", "max"];
        let rising: Vec<f64> = names.iter().map(|name| number(clat, name)).collect();
        assert!(rising.is_sorted(), "{clat}");
        // Little's law: the I/Os per second, multiplied by their mean latency, give the number of
        // outstanding I/Os. The tolerance is for I/Os that begin before the measurement, or end
        // after it.
        let outstanding = number(point, "iops") * 1e-6 * number(&point["lat_us"], "mean");
        let depth = number(point, "iodepth");
        assert!((outstanding / depth - 1.0).abs() < 0.02, "{outstanding} of {depth}");
        let bandwidth = number(point, "iops") * 4096.0 * 1e-9;
        assert!((number(point, "bandwidth_gbps") / bandwidth - 1.0).abs() < 1e-4, "{point}");
        let counts = point["clat_histogram"]["counts"].as_array().unwrap().iter();
        assert_eq!(counts.map(|count| count.as_u64().unwrap()).sum::<u64>(), point["ios"]);
    }
    assert_eq!(
        (&points[0]["bound_by"], &points[1]["bound_by"]),
        (&"depth".into(), &"link down".into())
    );
    let power = &document["power_failure"];
    assert_eq!((&power["failures"], &power["lost_writes"]), (&200.into(), &0.into()));
    assert!(number(power, "flush_energy_j") > 1.0, "the DRAM card saves its memory: {power}");
    assert!(document["timing"].is_null());
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |threads: &str, seed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let load = ["--rw", "randrw", "--iodepth", "1..16", "--runtime", "2ms", "--seed", seed];
        command.args([&["simulate", "card"], &BOTH[..], &load, &["--json"]].concat());
        text(&command.env("RAYON_NUM_THREADS", threads).output().unwrap())
    };
    assert_eq!(run("1", "7"), run("4", "7"));
    assert_ne!(run("1", "7"), run("1", "8"));
}

/// The record of a mix of reads and writes has latencies for each direction. `report` renders the
/// record in every format.
#[test]
fn a_record_is_rendered() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (record, page) = (path("cards.json"), path("cards.html"));
    let load = ["--rw", "randrw", "--rwmixread", "70", "--iodepth", "1..64", "--runtime", "2ms"];
    let shown = text(&card(&[&BOTH[..], &load, &["-o", &record, "--report", &page]].concat()));
    let first = shown.lines().next().unwrap();
    assert!(first.contains("all-mram has") && first.contains("against flashtec-dram"), "{first}");
    assert!(!shown.contains(", against "), "a pipe has no chart: {shown}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains(&format!("<p class=\"answer\">{}</p>", first)),
        "the page begins with the result"
    );
    for figure in ["-iops", "-latency", "-distribution"] {
        assert!(html.contains(&format!("<figure id=\"{figure}\"")), "no figure {figure}");
    }
    let powers = ["0.1", "0.01", "0.001"].map(|label| format!(">{label}</text>"));
    assert!(powers.iter().all(|label| html.contains(label)), "a logarithmic axis");
    for (format, part) in [("md", "| card"), ("csv", "card,job,rw"), ("svg", "<svg")] {
        let target = path(&format!("cards.{format}"));
        text(&interleaf(&["report", &record, "-o", &target]));
        assert!(fs::read_to_string(&target).unwrap().contains(part), "{format}");
    }
    let document: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    let directions = document["points"][0]["directions"].as_array().unwrap();
    let ios = |at: usize| number(&directions[at], "ios");
    assert!((ios(0) / (ios(0) + ios(1)) - 0.7).abs() < 0.05, "{directions:?}");
}

/// The document has a point for each job of a fio job file, in groups that `stonewall` separates.
/// The text has the latencies in fio's form.
#[test]
fn a_job_file_is_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.fio");
    let file = "[global]\nruntime=2ms\n[log]\nrw=write\nbs=512\n[database]\nrw=randread\n\
                iodepth=8\n[scan]\nstonewall\nrw=read\nbs=128k\n";
    fs::write(&path, file).unwrap();
    let path = path.to_str().unwrap();
    let document = document(&["--card", "all-mram", path]);
    let points = document["points"].as_array().unwrap();
    let named: Vec<String> =
        points.iter().map(|point| format!("{} {}", point["job"], point["group"])).collect();
    assert_eq!(named, ["\"log\" 1", "\"database\" 1", "\"scan\" 2"]);
    assert!(points.iter().all(|point| number(point, "ios") > 50.0), "{named:?}");
    let shown = text(&card(&["--card", "all-mram", "--job", path, "--runtime", "1ms"]));
    for part in ["database: randread, 4 KiB, depth 8", "slat (usec): min=", "99.9999th=["] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

/// A card with half of its capacitance (6.25 F) cannot save its whole DRAM after a power failure.
/// The document reports lost blocks, and the exit status is 1.
#[test]
fn a_capacitor_that_is_too_small_loses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices/cards");
    let whole = fs::read_to_string(source.join("flashtec-dram.toml")).unwrap();
    let half = whole.replace("\"12.5 F\"", "\"6.25 F\"");
    assert_ne!(whole, half);
    let file = folder.path().join("half.toml");
    fs::write(&file, half).unwrap();
    let load = ["--rw", "randwrite", "--iodepth", "32", "--runtime", "2ms"];
    let args = ["--card", file.to_str().unwrap(), "--power-fail-at", "1ms"];
    let output = card(&[&args[..], &load, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let failure = &document["power_failures"][0];
    let lost = number(failure, "lost_writes");
    let acknowledged = number(failure, "acknowledged_writes");
    assert!(lost > 0.1 * acknowledged && lost < 0.9 * acknowledged, "{lost} of {acknowledged}");
    assert_eq!((&failure["torn_writes"], &failure["unreported_blocks"]), (&0.into(), &0.into()));
    let cause = failure["blocks"][0]["cause"].as_str().unwrap();
    assert!(cause.contains("capacitor was empty"), "{failure}");
    let shown = card(&[&args[..], &load].concat());
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("acknowledged writes were lost"), "{shown}");
    let csv = String::from_utf8(card(&[&args[..], &load, &["--csv"]].concat()).stdout).unwrap();
    let [header, row] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
    assert!(
        header.ends_with(",power_failures,acknowledged_writes,lost_writes,torn_writes"),
        "{header}"
    );
    assert!(row.ends_with(&format!(",1,{acknowledged},{lost},0")), "{row}");
    let csv = String::from_utf8(card(&[&args[..2], &load, &["--csv"]].concat()).stdout).unwrap();
    assert!(csv.trim_end().ends_with(",,,,"), "no power failure: {csv}");
}

#[test]
fn the_test_of_the_board() {
    let pattern = ["--start", "0x80", "--pattern", "BADC0FFE"];
    let shown = text(&card(&[&["test"], &BOTH[..], &pattern, &["--debug"]].concat()));
    assert_eq!(shown.matches("read 0x80 0xBADC0FFE").count(), 2, "{shown}");
    assert_eq!(shown.matches("power cycle\n").count(), 2, "{shown}");
    // The algorithm march-c- detects an inversion coupling fault; walking-ones does not.
    let fault = ["--stop", "0xfffc", "--fault", "coupling-inversion:0x80.3/0x100.3=up", "--json"];
    for (algorithm, status) in [("march-c-", 1), ("walking-ones", 0)] {
        let args = ["test", "--card", "all-mram", "--algorithm", algorithm];
        let output = card(&[&args[..], &fault].concat());
        assert_eq!(output.status.code(), Some(status), "{algorithm}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "interleaf.simulate.card.test/1");
        assert_eq!(document["cards"][0]["passed"], status == 0);
        if status == 1 {
            assert_eq!(document["cards"][0]["first"][0]["address"], "0x100");
        }
    }
}

#[test]
fn the_cost_is_one_table() {
    let prices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices/prices/example.toml");
    let example = text(&card(&["cost", "--example-prices"]));
    assert_eq!(example, fs::read_to_string(&prices).unwrap());
    let args = [&["cost"], &BOTH[..], &["--prices", prices.to_str().unwrap()]].concat();
    let document = document(&args);
    let values = |quantity: &str| {
        let rows = document["rows"].as_array().unwrap();
        rows.iter().find(|row| row["quantity"] == quantity).unwrap()["values"].clone()
    };
    assert!(values("energy of a save")[1].is_null(), "STT-MRAM needs no save");
    assert!(values("life with wear levelling")[0].is_null(), "DRAM does not wear out");
    let per_gb = values("price of a GB");
    assert!(per_gb[1].as_f64() > per_gb[0].as_f64(), "{per_gb}");
    let with_refresh = values("power without I/O")[0].as_f64().unwrap();
    assert!(with_refresh > values("the same without refresh")[0].as_f64().unwrap());
}

/// Creates a platform in `folder` with a card as a tier, and returns the path of the platform file.
/// The tier has the card's curves for the access `storage` or `memory`.
fn platform_with(folder: &Path, access: &str) -> String {
    let path = |name: &str| folder.join(name);
    let curves = path("card.csv");
    let options = ["--card", "all-mram", "--access", access, "--runtime", "2ms", "--ramp-time"];
    text(&card(&[&options[..], &["100us", "--curves", curves.to_str().unwrap()]].concat()));
    let written = fs::read_to_string(&curves).unwrap();
    for mix in ["1/random,", "0.5/random,", "0/random,"] {
        assert!(written.lines().filter(|line| line.starts_with(mix)).count() >= 4, "{written}");
    }
    let platforms = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms");
    fs::copy(platforms.join("xeon6-rdimm-6400/dram.csv"), path("dram.csv")).unwrap();
    let platform = fs::read_to_string(platforms.join("xeon6-rdimm-6400.toml")).unwrap();
    let tier = "[[tier]]\nname = \"card\"\nkind = \"nvram\"\ncapacity = \"1GiB\"\n\
                curves = \"card.csv\"\n";
    let platform = platform.replace("xeon6-rdimm-6400/dram.csv", "dram.csv") + "\n" + tier;
    fs::write(path("platform.toml"), platform).unwrap();
    path("platform.toml").to_str().unwrap().into()
}

/// Returns the predictions for three choices of weights: all pages in DRAM, one page in 65 on the
/// card, and all pages on the card.
fn predicted(platform: &str) -> Vec<Value> {
    let weights = ["--weights", "1:0,64:1,0:1", "--json"];
    let args = [&["predict", "--platform", platform, "--mix", "R"], &weights[..]].concat();
    let document: Value = serde_json::from_str(&text(&interleaf(&args))).unwrap();
    document["rows"].as_array().unwrap().clone()
}

/// `predict` and `simulate machine` accept a platform with a tier that has the curves of a card.
#[test]
fn a_card_is_a_tier() {
    let folder = tempfile::tempdir().unwrap();
    let file = &platform_with(folder.path(), "storage");
    let rows = predicted(file);
    let bandwidth = |row: usize| number(&rows[row], "bandwidth_gbps");
    // With all pages on the card, the card's link limits the bandwidth to 7.88 GB/s.
    assert!(bandwidth(2) > 6.5 && bandwidth(2) < 7.88, "{rows:?}");
    assert!(bandwidth(0) > 50.0 * bandwidth(2) && bandwidth(1) > bandwidth(2), "{rows:?}");
    let machine = [
        "simulate",
        "machine",
        "--platform",
        file,
        "--workload",
        "hpcg",
        "--policy",
        "static",
        "--duration",
        "20s",
        "--footprint",
        "512MiB",
        "--json",
    ];
    let document: Value = serde_json::from_str(&text(&interleaf(&machine))).unwrap();
    assert_eq!(document["schema"], "interleaf.simulate.machine/1");
}

/// A platform has a tier that is the BAR of a card, which the processor accesses by loads and
/// stores. The tier's idle latency is that of a load, which makes a round trip on the link.
#[test]
fn the_bar_of_a_card_is_a_tier() {
    let folder = tempfile::tempdir().unwrap();
    let rows = predicted(&platform_with(folder.path(), "memory"));
    let bandwidth = |row: usize| number(&rows[row], "bandwidth_gbps");
    // On the link, a completion with 64 bytes of data is a packet of 84 bytes.
    assert!(bandwidth(2) > 1.0 && bandwidth(2) < 7.88 * 64.0 / 84.0, "{rows:?}");
    assert!(bandwidth(0) > 50.0 * bandwidth(2) && bandwidth(1) > bandwidth(2), "{rows:?}");
    let curves = fs::read_to_string(folder.path().join("card.csv")).unwrap();
    let idle = curves.lines().find(|line| line.starts_with("1/random,")).unwrap();
    let latency: f64 = idle.split(',').nth(2).unwrap().parse().unwrap();
    assert!((400.0..600.0).contains(&latency), "{idle}");
    assert!(idle.contains("--access memory"), "{idle}");
}

/// The command that a row of a curve file names gives the same bandwidth and latency as the row.
#[test]
fn the_source_of_a_point_gives_the_point() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("curves.csv").display().to_string();
    let load = ["--rw", "randrw", "--rwmixread", "70", "--numjobs", "2", "--iodepth", "4"];
    let times = ["--runtime", "2ms", "--ramp-time", "100us", "--seed", "3", "--curves", &file];
    text(&card(&[&["--card", "all-mram"], &load[..], &times].concat()));
    let curves = fs::read_to_string(&file).unwrap();
    let row: Vec<&str> = curves.lines().nth(1).unwrap().split(',').collect();
    let words: Vec<&str> = row[4].split(' ').skip(1).collect();
    let output = interleaf(&[&words[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&text(&output)).unwrap();
    let point = &document["points"][0];
    assert_eq!(row[1], number(point, "bandwidth_gbps").to_string(), "{curves}");
    let latency_ns: f64 = row[2].parse().unwrap();
    let error = latency_ns - 1e3 * number(&point["lat_us"], "mean");
    assert!(error.abs() < 1e-3 && row[2].len() < 10, "{curves}");
}

/// `--curves` writes a curve for each mix, for both cards. With NVMe commands (`storage`), a card
/// reaches more than 6 GB/s and an idle latency of 3 to 6 us. With loads and stores (`memory`), it
/// reaches more than 1 GB/s and an idle latency of less than 600 ns.
#[test]
fn storage_and_memory_have_curves_for_each_mix() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("curves.csv").display().to_string();
    for card in ["flashtec-dram", "all-mram"] {
        for access in ["storage", "memory"] {
            let words = ["simulate", "card", "--card", card, "--access", access];
            text(&interleaf(&[&words[..], &["--runtime", "2ms", "--curves", &file]].concat()));
            let curves = fs::read_to_string(&file).unwrap();
            for mix in ["0/random,", "0.5/random,", "1/random,"] {
                let rows = curves.lines().filter(|line| line.starts_with(mix));
                let numbers = rows.map(|row| {
                    let mut cells = row.split(',').skip(1).map(|cell| cell.parse::<f64>());
                    [cells.next().unwrap().unwrap(), cells.next().unwrap().unwrap()]
                });
                let points: Vec<[f64; 2]> = numbers.collect();
                let most = points.iter().map(|point| point[0]).fold(0.0, f64::max);
                let idle_ns = points[0][1];
                let name = format!("{card} {access} {mix} {points:?}");
                if access == "storage" {
                    assert!(most > 6.0 && (3000.0..6000.0).contains(&idle_ns), "{name}");
                } else {
                    assert!(most > 1.0 && idle_ns < 600.0, "{name}");
                }
            }
        }
    }
}

/// Simulations of loads and stores have a document, a text and a page, as those of I/Os do. With
/// `--fsync 1`, the document has the latency of the read-back that makes a store durable
/// (`sync_us`).
#[test]
fn loads_and_stores_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let times = ["--runtime", "200us", "--ramp-time", "20us"];
    let of = |access: &str, more: &[&str]| {
        let all = [&BOTH[..], &["--access", access], &times, more].concat();
        document(&all)["points"].as_array().unwrap().clone()
    };
    let stores = of("memory", &["--rw", "randwrite"]);
    let durable = of("memory", &["--rw", "randwrite", "--fsync", "1"]);
    for (store, durable) in stores.iter().zip(&durable) {
        assert_eq!((&store["access"], &store["bs_bytes"]), (&"memory".into(), &64.into()));
        assert!(store["sync_us"].is_null() && durable["fsync"] == 1, "{durable}");
        // A posted store waits only for its own packet; a read-back waits for a round trip.
        assert!(number(&store["clat_us"], "mean") < 0.12, "{store}");
        let sync = number(&durable["sync_us"], "mean");
        assert!(sync > 0.4, "{durable}");
        // The next store begins after the read-back, so the two latencies add up.
        let both = sync + number(&durable["clat_us"], "mean");
        let rate = 1e-6 * number(durable, "iops");
        assert!((rate * both - 1.0).abs() < 0.05, "{rate} {both}");
        assert!(number(store, "iops") > 3.0 * number(durable, "iops"), "{store}");
    }
    // A store to STT-MRAM is durable after the precharge; a store to DRAM is durable when it is
    // written. So the read-back takes more than 20 ns longer on the card with STT-MRAM.
    let syncs = [0, 1].map(|card| number(&durable[card]["sync_us"], "mean"));
    assert!(syncs[1] > syncs[0] + 0.02, "{syncs:?}");
    let peer = of("peer", &["--rw", "randread", "--iodepth", "16"]);
    for point in &peer {
        assert_eq!((&point["access"], &point["bs_bytes"]), (&"peer".into(), &4096.into()));
        let gbps = number(point, "bandwidth_gbps");
        assert!(gbps > 6.0 && gbps < 7.88 * 256.0 / 276.0, "{point}");
        assert_eq!(point["bound_by"], "link up");
    }
    let (record, page) = (path("bar.json"), path("bar.html"));
    let load = ["--access", "memory", "--rw", "randwrite", "--fsync", "4"];
    let outputs = ["-o", &record, "--report", &page];
    let shown = text(&card(&[&BOTH[..], &load, &times, &outputs].concat()));
    for part in ["randwrite, 64 B, memory access, fsync 4", "sync us", "sync (usec): min="] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("slat (usec)"), "{shown}");
    assert!(fs::read_to_string(&page).unwrap().contains(">sync us"), "no read-backs");
    let rendered = path("bar.csv");
    text(&interleaf(&["report", &record, "-o", &rendered]));
    assert!(fs::read_to_string(&rendered).unwrap().contains(",memory,4,"));
}
