use super::*;
use crate::{card::Card, power::PowerSpec};
use interleaf_sim::dimm::device::{Device, Options};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

const TIMES: AccessTimes = AccessTimes { read_fs: 1, write_fs: 1, power_cycle_fs: 1 };
const CAPACITY: u64 = 1 << 30;

fn test(algorithm: Algorithm, start: u64, stop: u64) -> MemoryTest {
    let (cycles, pattern, init, debug, seed) = (1, 0xBADC_0FFE, true, false, 3);
    MemoryTest { algorithm, cycles, start, stop, pattern, init, debug, seed }
}

fn mismatches(algorithm: Algorithm, faults: &[InjectedFault]) -> u64 {
    let test = test(algorithm, 0x80, 0x80 + 4 * 63);
    let result = run(&test, CAPACITY, faults, PowerLoss::Kept, &TIMES);
    result.expect("the test is valid").mismatches
}

#[test]
fn badc0ffe_at_0x80_survives_a_power_cycle_where_the_medium_keeps_it() {
    let single = MemoryTest { init: false, debug: true, ..test(Algorithm::Pattern, 0x80, 0x80) };
    let kept = run(&single, CAPACITY, &[], PowerLoss::Kept, &TIMES).expect("valid");
    assert_eq!((kept.reads, kept.writes, kept.power_cycles, kept.mismatches), (1, 1, 1, 0));
    let value = 0xBADC_0FFE;
    let expected = [
        LogEntry::Write { address: 0x80, value },
        LogEntry::PowerCycle,
        LogEntry::Read { address: 0x80, value },
    ];
    assert_eq!(kept.log, expected);
    // DRAM without a save has lost the value after the power cycle.
    let lost = run(&single, CAPACITY, &[], PowerLoss::Lost, &TIMES).expect("valid");
    assert_eq!((lost.mismatches, lost.failed_words), (1, 1));
    assert_eq!((lost.first[0].address, lost.first[0].expected), (0x80, value));
    assert_ne!(lost.first[0].read, value);
}

#[test]
fn a_card_keeps_its_memory_by_its_medium() {
    let pattern = test(Algorithm::Pattern, 0x80, 0xFC);
    let on = |card: &Card, is_saved| {
        run_on(card, &pattern, &[], is_saved).map(|result| (result.mismatches > 0, result.seconds))
    };
    let mut dram = Card::by_name("flashtec-dram").expect("a card");
    let (is_lost, seconds) = on(&dram, true).expect("valid");
    assert!(!is_lost && (11.0..20.0).contains(&seconds), "save and restore take {seconds} s");
    // The test reads the memory as soon as the card accepts commands again, so the whole test takes
    // less than 1 ms longer than the power cycle.
    let (_, cycle_s) = power_cycle(&dram, pattern.seed);
    assert!(seconds > cycle_s && seconds < cycle_s + 1e-3, "{seconds} {cycle_s}");
    assert!(on(&dram, false).expect("valid").0, "DRAM without power loses its content");
    let mram = Card::by_name("all-mram").expect("a card");
    let (is_lost, seconds) = on(&mram, false).expect("valid");
    assert!(!is_lost && seconds < 1e-3);
    let PowerSpec::Save(save) = &mut dram.power else { panic!("the card saves") };
    save.capacitor = save.capacitor.scaled(0.5);
    assert!(on(&dram, true).expect("valid").0, "the save is not complete");
}

#[test]
fn a_good_memory_passes_every_test() {
    for algorithm in Algorithm::ALL {
        assert_eq!(mismatches(algorithm, &[]), 0, "{}", algorithm.name());
    }
}

/// Returns a fault of the given class, with cells at random bits of random words of the test.
fn random_fault(class: FaultClass, random: &mut Pcg64Mcg) -> InjectedFault {
    let mut below = |end: u64| random.next_u64() % end;
    let (first, step) = (below(64), 1 + below(63));
    let address = |word: u64| 0x80 + 4 * (word % 64);
    let mut cell = |word| MemoryCell { address: address(word), bit: below(32) as u32 };
    let (cell, other) = (cell(first), cell(first + step));
    let (up, value, kind) = (below(2) == 1, below(2) == 1, below(3));
    match class {
        FaultClass::StuckAt => InjectedFault::StuckAt { cell, value },
        FaultClass::Transition => InjectedFault::Transition { cell, up },
        FaultClass::CouplingInversion => {
            InjectedFault::CouplingInversion { aggressor: cell, victim: other, up }
        }
        FaultClass::CouplingIdempotent => {
            InjectedFault::CouplingIdempotent { aggressor: cell, victim: other, up, value }
        }
        FaultClass::CouplingState => {
            InjectedFault::CouplingState { aggressor: cell, victim: other, state: up, value }
        }
        FaultClass::AddressDecoder => match kind {
            0 => InjectedFault::AddressNone {
                address: cell.address,
                reads: if value { u32::MAX } else { 0 },
            },
            1 => InjectedFault::AddressOther { address: cell.address, other: other.address },
            _ => InjectedFault::AddressMany {
                address: cell.address,
                other: other.address,
                by_or: value,
            },
        },
        FaultClass::Retention => InjectedFault::Retention { cell, value },
    }
}

#[test]
fn each_algorithm_finds_the_faults_of_the_literature_and_no_others() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for algorithm in Algorithm::ALL {
        for class in FaultClass::ALL {
            let faults: Vec<_> = (0..300).map(|_| random_fault(class, &mut random)).collect();
            let is_found = |fault: &&InjectedFault| mismatches(algorithm, &[**fault]) > 0;
            let found = faults.iter().filter(is_found).count();
            let detected = match found {
                0 => Detection::None,
                300 => Detection::All,
                _ => Detection::Some,
            };
            let case = format!("{} and {class:?}: {found} of 300", algorithm.name());
            assert_eq!(detected, algorithm.detects(class), "{case}");
        }
    }
}

#[test]
fn march_c_misses_coupling_within_a_word_for_one_background() {
    let cell = |bit| MemoryCell { address: 0x80, bit };
    let (aggressor, victim) = (cell(3), cell(7));
    let fault = |up, value| InjectedFault::CouplingIdempotent { aggressor, victim, up, value };
    // Aggressor and victim are in one word, so one write changes both. If the aggressor forces the
    // victim to the value that the write stores anyway, no read shows the fault.
    assert_eq!(mismatches(Algorithm::MarchCMinus, &[fault(true, true)]), 0);
    assert!(mismatches(Algorithm::MarchCMinus, &[fault(true, false)]) > 0);
}

#[test]
fn a_mismatch_names_address_expected_and_read_value() {
    let cell = MemoryCell { address: 0x90, bit: 4 };
    let fault = InjectedFault::StuckAt { cell, value: true };
    let march = test(Algorithm::MarchCMinus, 0x80, 0x9C);
    let result = run(&march, CAPACITY, &[fault], PowerLoss::Kept, &TIMES).expect("valid");
    let first = ReadMismatch { cycle: 0, step: 1, address: 0x90, expected: 0, read: 0x10 };
    assert_eq!(result.first[0], first);
    // March C- reads 0 three times at each address; a cell stuck at 1 gives 3 mismatches.
    assert_eq!((result.mismatches, result.failed_words), (3, 1));
    // The range from 0x80 to 0x9C has 8 words. March C- reads each word 5 times and writes it 5
    // times, and the initialisation of the memory writes each word once.
    assert_eq!((result.reads, result.writes), (40, 48));
}

#[test]
fn random_tests_differ_by_cycle_and_find_more_with_more_cycles() {
    let cell = MemoryCell { address: 0x80, bit: 0 };
    let found = |cycles| {
        let test = MemoryTest { cycles, ..test(Algorithm::Random, 0x80, 0xFC) };
        [false, true].iter().all(|value| {
            let fault = InjectedFault::StuckAt { cell, value: *value };
            let result = run(&test, CAPACITY, &[fault], PowerLoss::Kept, &TIMES);
            result.expect("valid").mismatches > 0
        })
    };
    assert!(!found(1), "one cycle writes one value");
    assert!(found(64));
}

#[test]
fn times_are_those_of_the_medium() {
    let times = |name: &str| {
        let device = Device::by_name(name, &Options::default()).expect("a device");
        AccessTimes::of(&device, 0.0)
    };
    // A write to STT-MRAM: tRCD 47 + CWL 6 + burst 4 + tWR 8 + tRP 36 = 101 clocks of 1.875 ns.
    let mram = times("stt-mram-ddr3");
    let ps = |fs: u64| (fs + 500) / 1000;
    assert_eq!(ps(mram.write_fs), 101 * 1875);
    // A read takes tRCD 47 + CL 8 + burst 4 + tRP 36 = 95 clocks.
    assert_eq!(ps(mram.read_fs), 95 * 1875);
    let dram = times("ddr3-1333");
    assert!(dram.read_fs < mram.read_fs && dram.write_fs < mram.write_fs);
    let test = test(Algorithm::MarchCMinus, 0, 4 * 99);
    let result = run(&test, CAPACITY, &[], PowerLoss::Kept, &mram).expect("valid");
    let expected = (500.0 * mram.read_fs as f64 + 600.0 * mram.write_fs as f64) * 1e-15;
    assert!((result.seconds / expected - 1.0).abs() < 1e-12);
}

#[test]
fn the_log_has_a_limit() {
    let test = MemoryTest { debug: true, ..test(Algorithm::WalkingOnes, 0, 4 * 999) };
    let result = run(&test, CAPACITY, &[], PowerLoss::Kept, &TIMES).expect("valid");
    assert_eq!(result.log.len(), MemoryTest::LOG_MAX);
    let all = result.reads + result.writes;
    assert_eq!(result.log_dropped, all - MemoryTest::LOG_MAX as u64);
}

#[test]
fn wrong_fields_are_refused() {
    let error = |test: MemoryTest, faults: &[InjectedFault]| {
        let error = run(&test, CAPACITY, faults, PowerLoss::Kept, &TIMES).expect_err("wrong");
        (error.field, error.problem)
    };
    let good = test(Algorithm::MatsPlus, 0x80, 0xFC);
    let cases = [
        (MemoryTest { start: 0x81, ..good.clone() }, "start", "0x81 is not an address"),
        (MemoryTest { stop: 0xFE, ..good.clone() }, "stop", "0xfe is not an address"),
        (MemoryTest { stop: CAPACITY, ..good.clone() }, "stop", "beyond the memory"),
        (MemoryTest { start: 0x100, ..good.clone() }, "start", "above the stop"),
        (MemoryTest { cycles: 0, ..good.clone() }, "cycles", "0 cycles"),
        (MemoryTest { cycles: u64::MAX, ..good.clone() }, "cycles", "not between 1"),
        (MemoryTest { stop: CAPACITY - 4, ..good.clone() }, "stop", "words, at most"),
    ];
    for (test, field, part) in cases {
        let (found, problem) = error(test, &[]);
        assert_eq!(found, field);
        assert!(problem.contains(part), "{problem}");
    }
    let outside: InjectedFault = "stuck-at:0x100.3=1".parse().expect("a fault");
    let (field, problem) = error(good.clone(), &[outside]);
    assert_eq!(field, "fault");
    assert!(problem.contains("0x100 of stuck-at:0x100.3=1 is not a word"), "{problem}");
    let same: InjectedFault = "address-other:0x80/0x80".parse().expect("a fault");
    assert!(error(good, &[same]).1.contains("the same"));
}

#[test]
fn faults_are_read_as_they_are_written() {
    let good = [
        "stuck-at:0x80.3=1",
        "transition:0x80.3=up",
        "transition:0x84.0=down",
        "coupling-inversion:0x80.3/0x90.7=up",
        "coupling-idempotent:0x80.3/0x90.7=down,1",
        "coupling-state:0x80.3/0x90.31=1,0",
        "address-none:0x80=0xffffffff",
        "address-other:0x80/0x90",
        "address-many:0x80/0x90=and",
        "retention:0x80.3=0",
    ];
    for text in good {
        let fault: InjectedFault = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(fault.to_string(), text);
    }
    let bad = [
        ("", "there is no fault \"\""),
        ("stuck", "there is no fault \"stuck\""),
        ("stuck-at", "is not a valid stuck-at fault"),
        ("stuck-at:0x80.32=1", "is not a valid stuck-at fault"),
        ("stuck-at:0x80.3=2", "is not a valid stuck-at fault"),
        ("transition:0x80.3=1", "is not a valid transition fault"),
        ("coupling-state:0x80.3/0x90.7=1", "is not a valid coupling-state fault"),
        ("address-none:0x80=0x100000000", "is not a valid address-none fault"),
        ("address-other:0x80/0x90=or", "is not a valid address-other fault"),
        ("address-many:0x80/0x90", "is not a valid address-many fault"),
    ];
    for (text, part) in bad {
        let error = text.parse::<InjectedFault>().expect_err(text);
        assert!(error.problem.contains(part), "{text}: {}", error.problem);
    }
    assert_eq!("march-c-".parse(), Ok(Algorithm::MarchCMinus));
    assert!("march-d".parse::<Algorithm>().is_err_and(|why| why.contains("mats+")));
}
