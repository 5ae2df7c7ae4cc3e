//! Tests the controller with guests that violate the NVMe specification.

use proptest::prelude::*;

use super::*;

const READ: u8 = 2;

#[test]
fn each_invalid_command_has_its_status() {
    let mut driver = Driver::new();
    let io = |opcode, dwords| command(opcode, dwords);
    let table = [
        ("opcode", io(0x42, [0; 3]), (0, 0x01)),
        ("SGL", SubmissionEntry { flags: 0x40, ..io(READ, [0; 3]) }, (0, 0x02)),
        ("fused", SubmissionEntry { flags: 1, ..io(READ, [0; 3]) }, (0, 0x02)),
        ("namespace", SubmissionEntry { namespace: 2, ..io(READ, [0; 3]) }, (0, 0x0b)),
        ("block", io(READ, [2048, 0, 0]), (0, 0x80)),
        ("last block", io(READ, [u32::MAX, u32::MAX, 0xffff]), (0, 0x80)),
        ("transfer", io(READ, [0, 0, 0x100]), (0, 0x02)),
        ("first PRP", SubmissionEntry { prp1: DATA_AT + 2, ..io(READ, [0; 3]) }, (0, 0x13)),
        ("second PRP", SubmissionEntry { prp2: 8, ..io(READ, [0, 0, 15]) }, (0, 0x13)),
        ("list offset", SubmissionEntry { prp2: 4, ..io(READ, [0, 0, 31]) }, (0, 0x13)),
        ("list outside", SubmissionEntry { prp2: 1 << 40, ..io(READ, [0, 0, 31]) }, (0, 0x04)),
        ("data outside", SubmissionEntry { prp1: 1 << 40, ..io(READ, [0; 3]) }, (0, 0x04)),
        ("data at the end", SubmissionEntry { prp1: u64::MAX - 3, ..io(READ, [0; 3]) }, (0, 0x04)),
        ("ranges outside", SubmissionEntry { prp1: 1 << 40, ..io(9, [0, 4, 0]) }, (0, 0x04)),
    ];
    for (name, entry, status) in table {
        assert_eq!(driver.execute(1, entry), Err(status), "{name}");
    }
    let table = [
        ("opcode", 0x7f, 0, 0, [0; 3], (0, 0x01)),
        ("structure", 6, 0, DATA_AT, [0x30, 0, 0], (0, 0x02)),
        ("namespace", 6, 2, DATA_AT, [0, 0, 0], (0, 0x0b)),
        ("data", 6, 0, 1 << 40, [1, 0, 0], (0, 0x04)),
        ("log page", 2, 0, DATA_AT, [0x70, 0, 0], (1, 0x09)),
        ("log offset", 2, 0, DATA_AT, [1, 0, 4], (0, 0x02)),
        ("feature", 0x0a, 0, 0, [0x70, 0, 0], (0, 0x02)),
        ("queue 0", 5, 0, DATA_AT, [7 << 16, 1, 0], (1, 0x01)),
        ("queue 3", 5, 0, DATA_AT, [7 << 16 | 3, 1, 0], (1, 0x01)),
        ("queue exists", 5, 0, DATA_AT, [7 << 16 | 1, 1, 0], (1, 0x01)),
        ("one entry", 5, 0, DATA_AT, [2, 1, 0], (1, 0x02)),
        ("65 entries", 5, 0, DATA_AT, [64 << 16 | 2, 1, 0], (1, 0x02)),
        ("scattered", 5, 0, DATA_AT, [7 << 16 | 2, 0, 0], (0, 0x02)),
        ("base", 5, 0, DATA_AT + 8, [7 << 16 | 2, 1, 0], (0, 0x13)),
        ("vector", 5, 0, DATA_AT, [7 << 16 | 2, 3 << 16 | 3, 0], (1, 0x08)),
        ("no completion queue", 1, 0, DATA_AT, [7 << 16 | 2, 2 << 16 | 1, 0], (1, 0x00)),
        ("completion queue 9", 1, 0, DATA_AT, [7 << 16 | 2, 9 << 16 | 1, 0], (1, 0x01)),
        ("delete in use", 4, 0, 0, [1, 0, 0], (1, 0x0c)),
        ("delete of none", 0, 0, 0, [2, 0, 0], (1, 0x01)),
        ("delete of admin", 4, 0, 0, [0, 0, 0], (1, 0x01)),
    ];
    for (name, opcode, namespace, prp1, dwords, status) in table {
        assert_eq!(driver.admin(opcode, namespace, prp1, dwords), Err(status), "{name}");
    }
    assert_eq!(driver.io(READ, 0, 1), Ok(0));
}

/// The controller refuses a read with an endless chain of PRP lists. The list of the read has one
/// slot, the last slot of its page, and this slot points to the list itself.
#[test]
fn a_chain_of_lists_without_end_is_refused() {
    let mut driver = Driver::new();
    let list = DATA_AT + 0x1ff8;
    driver.host.write(list, &list.to_le_bytes()).unwrap();
    let entry = SubmissionEntry { prp2: list, ..command(READ, [0, 0, 255]) };
    assert_eq!(driver.execute(1, entry), Err((0, 0x13)));
}

#[test]
fn invalid_doorbells_are_events() {
    let mut driver = Driver::new();
    // Queue 2 does not exist. The host has no Asynchronous Event Request outstanding yet, so the
    // event of this doorbell waits for a request. The event of the second doorbell is dropped.
    driver.register(registers::DOORBELLS + 8 * 2, 1);
    driver.register(registers::DOORBELLS + 8, ENTRIES);
    assert_eq!(driver.admin(0x0c, 0, 0, [0; 3]), Ok(1 << 16));
    // After a report, events are suppressed until the host reads the error log page.
    driver.put(0, &SubmissionEntry { identifier: 77, ..command(0x0c, [0; 3]) });
    driver.ring(0);
    driver.work();
    for offset in [8, 12, 0xff8, 0xffc] {
        driver.register(registers::DOORBELLS + offset, u32::MAX);
    }
    assert_eq!(driver.take(0), None);
    assert_eq!(driver.admin(2, 0, DATA_AT, [1, 0, 0]), Ok(0));
    // A doorbell may not move the head of completion queue 1 beyond its tail. The event request
    // with the identifier 77, which still waits, reports this invalid doorbell value.
    driver.register(registers::DOORBELLS + 12, 5);
    assert_eq!(driver.take(0), Some((77, Ok(1 << 8 | 1 << 16))));
    assert_eq!(driver.io(READ, 0, 1), Ok(0));
}

#[test]
fn too_many_requests_for_events_are_refused_and_aborted_ones_end() {
    let mut driver = Driver::new();
    for identifier in 100..105 {
        driver.put(0, &SubmissionEntry { identifier, ..command(0x0c, [0; 3]) });
    }
    driver.ring(0);
    driver.work();
    assert_eq!(driver.take(0), Some((104, Err((1, 5)))));
    driver.put(0, &SubmissionEntry { identifier: 9, ..command(8, [101 << 16, 0, 0]) });
    driver.ring(0);
    driver.work();
    assert_eq!(driver.take(0), Some((101, Err((0, 7)))));
    assert_eq!(driver.take(0), Some((9, Ok(0))));
    assert_eq!(driver.admin(8, 0, 0, [101 << 16, 0, 0]), Ok(1));
}

#[test]
fn an_abort_completes_the_command_once() {
    let mut driver = Driver::new();
    driver.put(1, &SubmissionEntry { identifier: 50, ..command(READ, [0; 3]) });
    driver.ring(1);
    let (controller, mut attached) = driver.attached();
    let tag = controller.fetch(&mut attached).unwrap().tag;
    assert_eq!(driver.admin(8, 0, 0, [50 << 16 | 1, 0, 0]), Ok(0));
    assert_eq!(driver.take(1), Some((50, Err((0, 7)))));
    let (controller, mut attached) = driver.attached();
    controller.complete(tag, &mut attached);
    assert_eq!(driver.take(1), None);
    assert_eq!(driver.admin(8, 0, 0, [50 << 16 | 1, 0, 0]), Ok(1));
}

#[test]
fn a_reset_or_deletion_loses_commands() {
    let mut driver = Driver::new();
    driver.put(1, &command(READ, [0; 3]));
    driver.ring(1);
    let (controller, mut attached) = driver.attached();
    let tag = controller.fetch(&mut attached).unwrap().tag;
    driver.register(registers::CC, 0);
    assert_eq!(driver.status(), 0);
    let resets = driver.controller.resets();
    driver.enable();
    driver.create_queue();
    let (controller, mut attached) = driver.attached();
    controller.complete(tag, &mut attached);
    assert_eq!((driver.take(1), resets), (None, 1));
    assert_eq!(driver.io(READ, 0, 1), Ok(0));

    driver.put(1, &command(READ, [0; 3]));
    driver.ring(1);
    let (controller, mut attached) = driver.attached();
    let tag = controller.fetch(&mut attached).unwrap().tag;
    assert_eq!(driver.admin(0, 0, 0, [1, 0, 0]), Ok(0));
    assert_eq!(driver.admin(4, 0, 0, [1, 0, 0]), Ok(0));
    let (controller, mut attached) = driver.attached();
    controller.complete(tag, &mut attached);
    assert_eq!(driver.take(1), None);
}

#[test]
fn queues_without_memory_stop_the_controller_until_a_reset() {
    let table: [fn(&mut Driver); 3] = [
        |driver| {
            assert_eq!(driver.admin(5, 0, 1 << 40, [7 << 16 | 2, 1, 0]), Ok(0));
            assert_eq!(driver.admin(1, 0, DATA_AT, [7 << 16 | 2, 2 << 16 | 1, 0]), Ok(0));
        },
        |driver| {
            assert_eq!(driver.admin(5, 0, DATA_AT, [7 << 16 | 2, 1, 0]), Ok(0));
            assert_eq!(driver.admin(1, 0, 1 << 40, [7 << 16 | 2, 2 << 16 | 1, 0]), Ok(0));
        },
        |driver| driver.host.0.truncate(QUEUES_AT as usize),
    ];
    for (at, vanish) in table.iter().enumerate() {
        let mut driver = Driver::new();
        vanish(&mut driver);
        driver.register(registers::DOORBELLS + if at == 2 { 0 } else { 16 }, 1);
        driver.work();
        assert_eq!(driver.status(), registers::READY | registers::FATAL, "{at}");
        assert!(driver.controller.has_failed());
        driver.host.0.resize(MEMORY, 0);
        driver.register(registers::CC, 0);
        driver.enable();
        driver.create_queue();
        assert_eq!(driver.io(READ, 0, 1), Ok(0));
    }
}

#[test]
fn wrong_configurations_never_become_ready() {
    for (attributes, configuration) in [(0, 1), (0x7_0000, 1), (0x7_0007, 0x81), (0x7_0007, 0x11)] {
        let mut driver = Driver::enabled(settings());
        driver.register(registers::CC, 0);
        driver.register(registers::AQA, attributes);
        driver.register(registers::CC, configuration);
        assert_eq!(driver.status(), registers::FATAL, "{attributes:#x} {configuration:#x}");
    }
}

/// An action of a hostile guest. `Register` has the offset of a register, a value and a flag. If
/// the flag is true, the guest reads 8 bytes and writes 8 bytes, otherwise it writes 4 bytes.
#[derive(Clone, Debug)]
enum Action {
    Register(u64, u64, bool),
    Doorbell(u8, u32),
    Memory(u64, Vec<u8>),
    Entry { queue: u8, entry: SubmissionEntry },
    Complete(u32),
    Unmap(usize),
}

/// Generates addresses inside host memory, at its end and outside, most of them page aligned.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0..256_u64).prop_map(|page| page * 4096),
        2 => 0..MEMORY as u64 + 8192,
        1 => any::<u64>(),
    ]
}

fn entry() -> impl Strategy<Value = SubmissionEntry> {
    let opcode = prop_oneof![4 => 0..0x0d_u8, 1 => any::<u8>()];
    let flags = prop_oneof![8 => Just(0_u8), 1 => any::<u8>()];
    let namespace = prop_oneof![6 => Just(1_u32), 2 => Just(0), 1 => any::<u32>()];
    let small = || prop_oneof![4 => 0..16_u32, 2 => 0..0x1_0000_u32, 1 => any::<u32>()];
    let sized =
        prop_oneof![3 => small(), 1 => (0..8_u32, 0..70_u32).prop_map(|(a, b)| b << 16 | a)];
    let dwords = (sized, small(), small());
    (opcode, flags, any::<u16>(), namespace, address(), address(), dwords).prop_map(
        |(opcode, flags, identifier, namespace, prp1, prp2, (ten, eleven, twelve))| {
            let dwords = [ten, eleven, twelve, 0, 0, 0];
            SubmissionEntry { opcode, flags, identifier, namespace, prp1, prp2, dwords }
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let register = prop_oneof![
        6 => (0..16_u64).prop_map(|at| at * 4),
        1 => any::<u64>(),
        1 => Just(u64::MAX - 3),
    ];
    let value = prop_oneof![
        2 => any::<u64>(),
        2 => address(),
        2 => Just(0x0046_0001_u64),
        1 => Just(0),
        1 => Just(0x0007_0007),
    ];
    let tail = prop_oneof![6 => 0..9_u32, 1 => any::<u32>()];
    prop_oneof![
        2 => (register, value, any::<bool>()).prop_map(|(at, value, long)| {
            Action::Register(at, value, long)
        }),
        6 => (0..8_u8, tail).prop_map(|(doorbell, value)| Action::Doorbell(doorbell, value)),
        2 => (address(), prop::collection::vec(any::<u8>(), 0..64))
            .prop_map(|(at, data)| Action::Memory(at, data)),
        8 => (0..2_u8, entry()).prop_map(|(queue, entry)| Action::Entry { queue, entry }),
        1 => any::<u32>().prop_map(Action::Complete),
        1 => (0..MEMORY).prop_map(Action::Unmap),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No sequence of actions makes the controller panic, and after a reset the controller works.
    #[test]
    fn no_guest_makes_the_controller_panic(actions in prop::collection::vec(action(), 1..80)) {
        let mut driver = Driver::new();
        for action in actions {
            match action {
                Action::Register(at, value, true) => {
                    driver.controller.register_read(at, &mut [0; 8]);
                    let (controller, mut attached) = driver.attached();
                    controller.register_write(at, &value.to_le_bytes(), &mut attached);
                }
                Action::Register(at, value, false) => driver.register(at, value as u32),
                Action::Doorbell(number, value) => {
                    driver.register(registers::DOORBELLS + 4 * u64::from(number), value);
                }
                // Ignore the result: a write outside host memory changes nothing.
                Action::Memory(at, data) => drop(driver.host.write(at, &data)),
                Action::Entry { queue, entry } => {
                    if driver.host.0.len() == MEMORY {
                        driver.put(queue.into(), &entry);
                        driver.ring(queue.into());
                    }
                }
                Action::Complete(tag) => {
                    let (controller, mut attached) = driver.attached();
                    controller.complete(tag, &mut attached);
                }
                Action::Unmap(end) => driver.host.0.truncate(end),
            }
            driver.work();
            let mut image = [0; 0x50];
            driver.controller.register_read(0, &mut image);
            driver.controller.take_interrupts(|vector| assert!(vector < 3));
        }
        driver.host.0.resize(MEMORY, 0);
        driver.controller.reset_function();
        driver.enable();
        driver.create_queue();
        prop_assert_eq!(driver.io(READ, 0, 1), Ok(0));
    }

    /// Each command of an I/O queue has exactly one completion, whatever its status.
    #[test]
    fn each_command_is_completed_once(entries in prop::collection::vec(entry(), 1..40)) {
        let mut driver = Driver::new();
        for (identifier, entry) in (0..).zip(entries) {
            driver.put(1, &SubmissionEntry { identifier, ..entry });
            // A command may transfer data into the memory of the queues, so the test restores the
            // queues afterwards.
            let queues = driver.host.0[..DATA_AT as usize].to_vec();
            driver.ring(1);
            driver.work();
            let entries = 4 * QUEUES_AT as usize..4 * QUEUES_AT as usize + ENTRIES as usize * 16;
            let completed = driver.host.0[entries.clone()].to_vec();
            driver.host.0[..DATA_AT as usize].copy_from_slice(&queues);
            if entry.prp1 >= DATA_AT && (entry.prp2 >= DATA_AT || entry.opcode > 9) {
                driver.host.0[entries].copy_from_slice(&completed);
                prop_assert_eq!(driver.take(1).map(|(found, _)| found), Some(identifier));
                prop_assert_eq!(driver.take(1), None);
            } else {
                driver = Driver::new();
            }
        }
    }
}
