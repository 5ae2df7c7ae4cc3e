//! Tests the commands of a driver that obeys the NVMe specification.

use super::*;

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const COMPARE: u8 = 5;
const ZEROES: u8 = 8;
const DATASET: u8 = 9;

#[test]
fn entries_are_read_as_they_are_written() {
    let entry = SubmissionEntry {
        opcode: 0x11,
        flags: 0x22,
        identifier: 0x3344,
        namespace: 0x5566_7788,
        prp1: 0x1122_3344_5566_7788,
        prp2: 0x8877_6655_4433_2211,
        dwords: [1, 2, 3, 4, 5, 6],
    };
    assert_eq!(SubmissionEntry::parse(&entry.bytes()), entry);
}

#[test]
fn data_return_by_all_forms_of_prps() {
    let mut driver = Driver::new();
    let data: Vec<u8> =
        (0..128 << 10).map(|at: u32| (at.wrapping_mul(40_503) >> 7) as u8).collect();
    // The pages of a transfer, except the first, are those below 0x8_0000 in descending order. The
    // PRP list at 0x2_0ff0 begins two slots before the end of its page. If it has more than two
    // addresses, another list (0x3_0000) continues it. The stored data must be those of the pages.
    let pages: Vec<u64> = (0..32).map(|at| 0x8_0000 - 0x1000 * (at + 1)).collect();
    for (bytes, within) in
        [(512, 0), (512, 3584), (4096, 0), (8192, 0), (8192, 512), (128 << 10, 0)]
    {
        for list in [0x2_0000, 0x2_0ff0_u64] {
            let mut entry = command(WRITE, [3, 0, bytes / 512 - 1]);
            entry.prp1 = 0xf_0000 + within;
            let first = (4096 - within as usize).min(bytes as usize);
            let mut segments = vec![(entry.prp1, first)];
            let left = bytes as usize - first;
            let count = left.div_ceil(4096);
            let last = if left.is_multiple_of(4096) { 4096 } else { left % 4096 };
            for (at, page) in pages.iter().take(count).enumerate() {
                segments.push((*page, if at + 1 == count { last } else { 4096 }));
            }
            let slots = pages[..count].to_vec();
            entry.prp2 = if count <= 1 { slots.first().copied().unwrap_or(0) } else { list };
            if count > 1 {
                let here = ((4096 - list % 4096) / 8) as usize;
                let mut put = |at: u64, value: u64| {
                    driver.host.write(at, &value.to_le_bytes()).unwrap();
                };
                let direct = if count > here { here - 1 } else { count };
                for (at, page) in (list..).step_by(8).zip(&slots[..direct]) {
                    put(at, *page);
                }
                if count > here {
                    put(list + 8 * direct as u64, 0x3_0000);
                    for (at, page) in (0x3_0000..).step_by(8).zip(&slots[direct..]) {
                        put(at, *page);
                    }
                }
            }
            let mut done = 0;
            for (address, length) in &segments {
                driver.host.write(*address, &data[done..done + length]).unwrap();
                done += length;
            }
            assert_eq!(driver.execute(1, entry), Ok(0), "{bytes} {within} {list:#x}");
            let mut stored = vec![0; bytes as usize];
            driver.contents.read(3 * 512, &mut stored).unwrap();
            assert!(stored == data[..bytes as usize], "{bytes} {within} {list:#x}");
            for (address, length) in &segments {
                driver.host.write(*address, &vec![0; *length]).unwrap();
            }
            assert_eq!(driver.execute(1, SubmissionEntry { opcode: READ, ..entry }), Ok(0));
            let mut read = vec![];
            for (address, length) in &segments {
                let mut part = vec![0; *length];
                driver.host.read(*address, &mut part).unwrap();
                read.extend(part);
            }
            assert!(read == data[..bytes as usize], "{bytes} {within} {list:#x}");
        }
    }
}

#[test]
fn zeroes_deallocation_and_compare_act_on_their_blocks() {
    let mut driver = Driver::new();
    driver.host.0[DATA_AT as usize..DATA_AT as usize + 8192].fill(0xaa);
    assert_eq!(driver.io(WRITE, 0, 16), Ok(0));
    assert_eq!(driver.io(COMPARE, 0, 16), Ok(0));
    assert_eq!(driver.io(ZEROES, 2, 3), Ok(0));
    assert_eq!(driver.io(COMPARE, 0, 16), Err((2, 0x85)));
    let mut ranges = vec![];
    for (blocks, first) in [(1_u32, 7_u64), (0, 0), (2, 10)] {
        ranges.extend([0; 4]);
        ranges.extend(blocks.to_le_bytes());
        ranges.extend(first.to_le_bytes());
    }
    driver.host.write(DATA_AT, &ranges).unwrap();
    // The first command does not have the attribute "deallocate" (bit 2), so its ranges have no
    // effect. The second command has the attribute.
    assert_eq!(driver.execute(1, command(DATASET, [2, 0, 0])), Ok(0));
    assert_eq!(driver.execute(1, command(DATASET, [2, 4, 0])), Ok(0));
    let mut stored = vec![0; 16 * 512];
    driver.contents.read(0, &mut stored).unwrap();
    let zero: Vec<usize> = (0..16).filter(|at| stored[at * 512] == 0).collect();
    assert_eq!(zero, [2, 3, 4, 7, 10, 11]);
}

#[test]
fn writes_are_durable_as_the_write_cache_says() {
    let mut driver = Driver::new();
    assert_eq!(driver.io(WRITE, 0, 1), Ok(0));
    assert_eq!((driver.contents.durable, driver.contents.flushes), (0, 0));
    assert_eq!(driver.execute(1, command(WRITE, [0, 0, 1 << 30])), Ok(0));
    assert_eq!(driver.contents.durable, 1);
    assert_eq!(driver.execute(1, command(FLUSH, [0; 3])), Ok(0));
    let all = SubmissionEntry { namespace: u32::MAX, ..command(FLUSH, [0; 3]) };
    assert_eq!(driver.execute(1, all), Ok(0));
    assert_eq!(driver.contents.flushes, 2);
    // Set Features switches the write cache off, so the next write is durable at once.
    assert_eq!(driver.admin(9, 0, 0, [6, 0, 0]), Ok(0));
    assert_eq!(driver.io(WRITE, 0, 1), Ok(0));
    assert_eq!(driver.contents.durable, 2);
    // A shutdown notice flushes the contents, and the status reports the shutdown as complete.
    driver.register(registers::CC, 0x0046_4001);
    assert_eq!(driver.status(), registers::READY | registers::SHUTDOWN_COMPLETE);
    assert_eq!(driver.contents.flushes, 3);
}

#[test]
fn a_full_completion_queue_delays_completions_and_no_phase_is_lost() {
    let mut driver = Driver::new();
    for _ in 0..20 {
        for first in [0, 6] {
            for identifier in first..first + 6 {
                driver.put(1, &SubmissionEntry { identifier, ..command(READ, [0; 3]) });
            }
            driver.ring(1);
            assert_eq!(driver.work().len(), 6);
        }
        // Twelve commands are completed. Only seven completions fit into the completion queue of
        // eight entries at once, because one entry stays free.
        for identifier in 0..12 {
            assert_eq!(driver.take(1), Some((identifier, Ok(0))));
        }
        assert_eq!(driver.take(1), None);
    }
}

#[test]
fn outstanding_commands_of_a_queue_are_bounded() {
    let mut driver = Driver::new();
    let mut tags = vec![];
    // The driver submits 20 commands, and no command is completed. The controller fetches only
    // eight commands, the number of entries of the queue.
    for _ in 0..4 {
        for _ in 0..5 {
            driver.put(1, &command(READ, [0; 3]));
        }
        driver.ring(1);
        let (controller, mut attached) = driver.attached();
        while let Some(command) = controller.fetch(&mut attached) {
            tags.push(command.tag);
        }
    }
    assert_eq!(tags.len(), 8);
    let mut signalled = vec![];
    driver.controller.take_interrupts(|vector| signalled.push(vector));
    signalled.clear();
    let (controller, mut attached) = driver.attached();
    controller.complete(tags[0], &mut attached);
    controller.complete(tags[0], &mut attached);
    controller.take_interrupts(|vector| signalled.push(vector));
    assert_eq!(signalled, [1]);
    assert!(driver.take(1).is_some() && driver.take(1).is_none());
}

#[test]
fn identify_has_the_settings() {
    let mut driver = Driver::new();
    assert_eq!(driver.admin(6, 0, DATA_AT, [1, 0, 0]), Ok(0));
    let page = driver.host.0[DATA_AT as usize..][..4096].to_vec();
    assert_eq!(&page[4..24], format!("{:20}", "7").as_bytes());
    assert_eq!(&page[24..64], format!("{:40}", "Card").as_bytes());
    assert_eq!((page[77], page[525] & 1, page[526]), (5, 1, 7));
    let name = String::from_utf8_lossy(&page[768..833]).to_string();
    assert!(name.starts_with("nqn.2014-08.org.nvmexpress:uuid:"), "{name}");
    assert_eq!(driver.admin(6, 1, DATA_AT, [0, 0, 0]), Ok(0));
    let blocks = &driver.host.0[DATA_AT as usize..][..8];
    assert_eq!(blocks, 2048_u64.to_le_bytes());
    assert_eq!(driver.admin(6, 0, DATA_AT, [2, 0, 0]), Ok(0));
    assert_eq!(driver.host.0[DATA_AT as usize..][..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    // An identify structure is written to host memory that crosses a page boundary.
    let entry = SubmissionEntry { prp1: DATA_AT + 2048, ..command(6, [1, 0, 0]) };
    assert_eq!(driver.execute(0, SubmissionEntry { prp2: DATA_AT + 0x2000, ..entry }), Ok(0));
    assert_eq!(driver.host.0[DATA_AT as usize + 2048..][..2048], page[..2048]);
    assert_eq!(driver.host.0[DATA_AT as usize + 0x2000..][..2048], page[2048..]);
}

#[test]
fn features_have_defaults_values_and_capabilities() {
    let mut driver = Driver::new();
    let mut get = |feature: u32, value| driver.admin(0x0a, 0, 0, [feature, value, 0]);
    assert_eq!(get(7, 0), Ok(1 << 16 | 1));
    assert_eq!((get(6, 0), get(6 | 3 << 8, 0)), (Ok(1), Ok(4)));
    assert_eq!((get(9, 2), get(9, 3)), (Ok(2), Err((0, 2))));
    let mut set = |feature: u32, value| driver.admin(9, 0, 0, [feature, value, 0]);
    assert_eq!(set(9, 1 << 16 | 2), Ok(0));
    assert_eq!(set(8, 0x0503), Ok(0));
    assert_eq!(set(6 | 1 << 31, 0), Err((1, 0x0d)));
    // The number of queues cannot be set while I/O queues exist.
    assert_eq!(set(7, 0), Err((0, 0x0c)));
    let mut get = |feature: u32, value| driver.admin(0x0a, 0, 0, [feature, value, 0]);
    assert_eq!((get(9, 2), get(8, 0)), (Ok(1 << 16 | 2), Ok(0x0503)));
    assert_eq!((get(8 | 1 << 8, 0), get(8 | 4 << 8, 0)), (Ok(0), Err((0, 2))));
}

#[test]
fn log_pages_count_errors_and_use() {
    let mut driver = Driver::new();
    driver.io(WRITE, 0, 4).unwrap();
    driver.io(READ, 0, 2).unwrap();
    assert_eq!(driver.io(READ, 2048, 1), Err((0, 0x80)));
    driver.contents.fails = true;
    assert_eq!(driver.io(READ, 0, 1), Err((2, 0x81)));
    assert_eq!(driver.io(WRITE, 0, 1), Err((2, 0x80)));
    let dwords = |page: u32| [127 << 16 | page, 0, 0];
    assert_eq!(driver.admin(2, u32::MAX, DATA_AT, dwords(2)), Ok(0));
    let page = driver.host.0[DATA_AT as usize..][..512].to_vec();
    let number = |at: usize| u64::from(page[at]);
    assert_eq!([number(64), number(80), number(160), number(176)], [1, 2, 2, 3]);
    assert_eq!(driver.admin(2, u32::MAX, DATA_AT, dwords(1)), Ok(0));
    // The newest entry of the error log is for the third error, a write fault in queue 1.
    let entry = &driver.host.0[DATA_AT as usize..][..64];
    assert_eq!((entry[0], entry[8], entry[13] >> 1 & 7, entry[12] >> 1), (3, 1, 2, 0));
    assert_eq!(driver.admin(2, 0, DATA_AT, dwords(3)), Ok(0));
    assert_eq!(driver.host.0[DATA_AT as usize], 1);
}

/// The length of a fetched discard has 32 bits, is a whole number of blocks, and stays within the
/// namespace, however many bytes its ranges have together.
#[test]
fn the_length_of_a_discard_is_saturated() {
    let capacity = 6 << 30;
    let blocks = (capacity / 512) as u32;
    for (ranges, bytes) in [
        (vec![(1, blocks - 1)], u32::MAX - 511),
        (vec![(0, 8), (4, 8)], 16 * 512),
        (vec![(blocks - 8, 8), (blocks - 8, 8)], 8 * 512),
    ] {
        let mut driver = Driver::enabled(NvmeSettings { capacity, ..settings() });
        driver.create_queue();
        for (at, (first, count)) in ranges.iter().enumerate() {
            let mut range = [0; 16];
            range[4..8].copy_from_slice(&u32::to_le_bytes(*count));
            range[8..12].copy_from_slice(&u32::to_le_bytes(*first));
            driver.host.write(DATA_AT + 16 * at as u64, &range).unwrap();
        }
        driver.put(1, &command(DATASET, [ranges.len() as u32 - 1, 4, 0]));
        driver.ring(1);
        let (controller, mut attached) = driver.attached();
        let found = controller.fetch(&mut attached).expect("a valid command");
        assert_eq!(found.bytes, bytes, "{ranges:?}");
        assert!(found.offset + u64::from(found.bytes) <= capacity);
    }
}
