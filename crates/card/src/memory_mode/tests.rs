use super::*;
use crate::settings::{Component, Ideal};

const ACCESSES: u64 = 5000;

fn card(name: &str) -> Card {
    Card::by_name(name).unwrap()
}

fn run(name: &str, load: &MemoryLoad) -> MemoryOutcome {
    let found = load.run(&card(name), &Settings::default()).unwrap();
    assert_eq!(found.loads.lat.count() + found.stores.lat.count(), ACCESSES);
    found
}

fn load(read_percent: u32, outstanding: u32) -> MemoryLoad {
    MemoryLoad { read_percent, outstanding, stop: Stop::Ios(ACCESSES), ..MemoryLoad::default() }
}

#[test]
fn a_load_costs_a_round_trip_and_a_row() {
    let byte = 1.0 / 7.8557;
    for (name, row) in [("flashtec-dram", 33.75), ("all-mram", 88.5 + 15.0 + 6.0)] {
        // The latency of a load has these parts, ns: the time between processor and link in both
        // directions (100), the delay of the link in both directions (250), the request of 24
        // bytes, the row, ECC (20), and the completion of 84 bytes.
        let expected = 100.0 + 250.0 + 24.0 * byte + row + 20.0 + 84.0 * byte;
        let found = run(name, &load(100, 1)).loads.lat;
        assert!((found.percentile_ns(50.0) as f64 - expected).abs() < 5.0, "{name}: {expected}");
    }
}

#[test]
fn stores_are_posted_and_no_faster_than_the_link() {
    for name in ["flashtec-dram", "all-mram"] {
        let one = load(0, 1);
        // Unlike a load, a store waits for no answer of the card, only for the way to the link.
        assert!(run(name, &one).stores.lat.percentile_ns(50.0) < 120);
        let many = load(0, 64);
        let found = run(name, &many).bytes_per_s() / 1e9;
        // The link carries 7.8557 GB/s. Of each packet of 88 bytes, 64 bytes are data.
        let most = 7.8557 * 64.0 / 88.0;
        assert!(found <= most, "{name}: {found}");
        assert!(found > 1.0, "{name}: {found}");
    }
}

#[test]
fn stores_are_persistent_after_a_read_that_follows_them() {
    let persist = MemoryLoad { persist_every: 1, ..load(0, 1) };
    let [dram, mram] = ["flashtec-dram", "all-mram"].map(|name| run(name, &persist));
    assert_eq!(dram.persists.count(), ACCESSES - 1);
    let read = run("all-mram", &load(100, 1)).loads.lat.mean_ns();
    // In STT-MRAM, the read that makes a store persistent also waits for the precharge of the
    // stored row.
    assert!(mram.persists.mean_ns() > read + 20.0);
    assert!(dram.persists.mean_ns() < mram.persists.mean_ns());
    assert_eq!(run("all-mram", &load(0, 1)).persists.count(), 0);
}

#[test]
fn a_peer_reads_in_larger_packets_at_the_speed_of_the_link() {
    let peer =
        MemoryLoad { initiator: Initiator::Peer, bytes: 256, outstanding: 64, ..load(100, 64) };
    for name in ["flashtec-dram", "all-mram"] {
        let found = run(name, &peer).bytes_per_s() / 1e9;
        let most = 7.8557 * 256.0 / 276.0;
        assert!(found <= most && found > 0.85 * most, "{name}: {found} of {most}");
    }
}

#[test]
fn a_larger_access_has_a_row_for_each_segment() {
    for name in ["flashtec-dram", "all-mram"] {
        let of = |bytes, percent| MemoryLoad { bytes, ..load(percent, 1) };
        let mean = |bytes| run(name, &of(bytes, 100)).loads.lat.mean_ns();
        let (line, segment, page) = (mean(64), mean(512), mean(4096));
        // An access of one segment (512 bytes) has 8 requests and 8 completions; an access of one
        // line (64 bytes) has one of each. The segment also has 7 more bursts in its row.
        assert!(
            segment - line > 448.0 / 7.8557 && segment < 1.6 * line,
            "{name}: {line} {segment}"
        );
        // A page takes at least the time of its completions on the link, and less than 8 segments
        // that are read one after the other.
        assert!(page > 4096.0 * 84.0 / 64.0 / 7.8557 && page < 8.0 * segment, "{name}: {page}");
        // A store of a page sends 64 packets of 88 bytes on the link, each with 64 bytes of data.
        let found = run(name, &of(4096, 0)).bytes_per_s() / 1e9;
        assert!(found <= 7.8557 * 64.0 / 88.0 && found > 3.0, "{name}: {found}");
    }
}

#[test]
fn threads_are_outstanding_accesses_of_their_own() {
    for percent in [0, 50, 100] {
        let threads = MemoryLoad { threads: 4, ..load(percent, 2) };
        let [four, one] = [threads, load(percent, 8)].map(|load| run("all-mram", &load));
        let ratio = four.bytes_per_s() / one.bytes_per_s();
        assert!((ratio - 1.0).abs() < 0.05, "{percent}: {ratio}");
        // Little's law: rate times latency is the outstanding accesses, 4 threads of 2 each.
        let outstanding = (four.loads.iops + four.stores.iops) * four.mean_ns() * 1e-9;
        assert!((outstanding / 8.0 - 1.0).abs() < 0.03, "{percent}: {outstanding}");
    }
}

#[test]
fn accesses_of_the_ramp_are_not_counted() {
    let span = 100_000_000_000;
    let ramped = MemoryLoad { ramp_fs: span, stop: Stop::Time(span), ..load(100, 4) };
    let found = ramped.run(&card("flashtec-dram"), &Settings::default()).unwrap();
    assert_eq!(found.span_fs, span);
    let counted = found.loads.ios as f64;
    assert!((found.completed as f64 / counted - 2.0).abs() < 0.02, "{counted}");
}

/// The test proves the bottleneck by ablation: the throughput rises if the component `expected` is
/// made infinitely fast, and does not rise if another component is made infinitely fast.
#[test]
fn the_bound_is_proved_by_an_ablation() {
    let table = [
        (load(100, 256), Initiator::Peer, 256, Component::LinkUp),
        (load(0, 64), Initiator::Processor, 4096, Component::LinkDown),
    ];
    for (load, initiator, bytes, expected) in table {
        let load = MemoryLoad { initiator, bytes, ..load };
        let with = |ideal| {
            let settings = Settings { ideal, ..Settings::default() };
            load.run(&card("flashtec-dram"), &settings).unwrap()
        };
        let found = with(Ideal::default());
        assert_eq!(found.bound_by, Bound::Component(expected), "{:?}", found.utilisation);
        for component in [Component::LinkUp, Component::LinkDown, Component::Memory] {
            let ratio = with(Ideal::of(component)).bytes_per_s() / found.bytes_per_s();
            assert_eq!(ratio > 1.02, component == expected, "{component:?}: {ratio}");
        }
    }
    assert_eq!(run("flashtec-dram", &load(100, 1)).bound_by, Bound::Depth);
}

#[test]
fn what_the_card_does_not_allow_is_refused() {
    let table = [
        (MemoryLoad { bytes: 48, ..load(0, 1) }, "an access has 48 bytes"),
        (MemoryLoad { bytes: 8192, ..load(0, 1) }, "an access has 8192 bytes"),
        (MemoryLoad { size: Some(1 << 40), ..load(0, 1) }, "are no part of the BAR"),
        (MemoryLoad { outstanding: 0, ..load(0, 1) }, "0 accesses cannot be outstanding"),
        (load(101, 1), "101 % are no part"),
        (MemoryLoad { stop: Stop::Ios(0), ..load(0, 1) }, "there are no accesses"),
    ];
    for (load, expected) in table {
        let why = load.run(&card("all-mram"), &Settings::default()).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    let none = Card { bar: None, ..card("all-mram") };
    let why = load(0, 1).run(&none, &Settings::default()).unwrap_err().to_string();
    assert!(why.contains("has no BAR"), "{why}");
}
