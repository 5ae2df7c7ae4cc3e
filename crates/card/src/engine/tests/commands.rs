//! Tests commands other than plain reads and writes, arbitration, interrupts, and the order in
//! which writes become safe.

use super::*;
use crate::{
    card::Durable,
    engine::{Engine, SubmitError, WriteObserver, WrittenSegment},
    io::{IoCommand, IoCompletion, Operation},
    settings::{Arbitration, HostMode, Priority},
};
use interleaf_sim::dimm::{check::Checker, command::Command};
use std::collections::BTreeMap;

fn io(tag: u32, operation: Operation, offset: u64, bytes: u32) -> IoCommand {
    IoCommand { tag, queue: 0, operation, offset, bytes, force_unit_access: false }
}

fn all(engine: &mut Engine) -> Vec<IoCompletion> {
    std::iter::from_fn(|| engine.next_completion(u64::MAX - 1, &mut ())).collect()
}

/// Returns the latency of one command on an idle card, ns.
fn alone(card: &Card, settings: &Settings, command: IoCommand) -> u64 {
    let mut engine = Engine::new(card, settings);
    engine.submit(0, command).unwrap();
    let completions = all(&mut engine);
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].tag, command.tag);
    completions[0].completed / 1_000_000
}

#[test]
fn commands_without_data_cost_no_transfer() {
    let settings = Settings::default();
    for name in ["flashtec-dram", "all-mram"] {
        let card = card(name);
        let of = |operation, bytes| alone(&card, &settings, io(7, operation, 0, bytes));
        let flush = of(Operation::Flush, 0);
        let zeroes = of(Operation::WriteZeroes, 65_536);
        let write = of(Operation::Write, 65_536);
        let deallocate = of(Operation::Deallocate, 1 << 30);
        assert!(flush < deallocate && deallocate < flush + 700, "{flush} {deallocate}");
        assert!(flush < zeroes && zeroes < write, "{flush} {zeroes} {write}");
    }
}

#[test]
fn a_list_of_pages_costs_a_round_trip() {
    let card = card("flashtec-dram");
    let of = |bytes| alone(&card, &Settings::default(), io(1, Operation::Read, 0, bytes));
    let (two, three) = (of(8192), of(12_288));
    // A PRP list is needed from the third page on. The third page therefore adds the read of the
    // list (2 x 125 ns on the link, 297 ns in host memory), and the time of 4 KiB on the link.
    let added = three - two;
    assert!((547 + 500..547 + 700).contains(&added), "{added} ns");
}

#[test]
fn a_mode_without_host_costs_is_faster_by_them() {
    let card = card("all-mram");
    let write = io(1, Operation::Write, 4096, 4096);
    let of = |host| alone(&card, &Settings { host, ..Settings::default() }, write);
    let (interrupts, polling) = (of(HostMode::Interrupts), of(HostMode::Polling));
    let external = of(HostMode::External);
    assert_eq!(interrupts - external, 250 + 1000 + 200);
    // Polling costs 250 ns for the submission and 200 ns for the completion. It saves the few ns by
    // which the completion queue entry arrives before its interrupt.
    assert!(polling <= external + 450 && polling > external + 440, "{polling} {external}");
}

#[test]
fn interrupts_are_coalesced_by_number_and_time() {
    let mut card = card("flashtec-dram");
    card.nvme.coalescing_threshold = 4;
    card.nvme.coalescing_time_fs = 50_000_000_000;
    let mut engine = Engine::new(&card, &Settings::default());
    for tag in 0..5 {
        engine.submit(0, io(tag, Operation::Read, 0, 512)).unwrap();
    }
    let completed: Vec<u64> =
        all(&mut engine).iter().map(|completion| completion.completed / 1_000_000_000).collect();
    assert!(completed[3] < 10 && completed[4] >= 50, "{completed:?} us");
}

#[test]
fn an_urgent_queue_is_served_first() {
    let mut card = card("flashtec-dram");
    card.controller.commands = 16;
    card.controller.cores = 1;
    let mean = |arbitration: Arbitration| {
        let settings = Settings { arbitration, ..Settings::default() };
        let mut engine = Engine::new(&card, &settings);
        for tag in 0..400 {
            let queue = (tag % 4) as u16;
            let command = IoCommand { queue, ..io(tag, Operation::Read, 0, 4096) };
            engine.submit(0, command).unwrap();
        }
        let completions = all(&mut engine);
        let of = |queue| {
            let of = completions.iter().filter(|completion| completion.queue == queue);
            of.map(|completion| completion.completed).sum::<u64>() / 100
        };
        [of(0), of(1), of(3)]
    };
    let [first, _, last] = mean(Arbitration::RoundRobin);
    assert!(first.abs_diff(last) < first / 10, "{first} {last}");
    let priorities = vec![Priority::Urgent, Priority::High, Priority::Medium, Priority::Low];
    let [urgent, high, low] = mean(Arbitration::Weighted { priorities, weights: [8, 4, 1] });
    assert!(urgent * 5 < high * 4 && high * 5 < low * 4, "{urgent} {high} {low}");
}

#[test]
fn what_the_card_does_not_accept_is_refused() {
    let card = card("flashtec-dram");
    let mut engine = Engine::new(&card, &Settings::default());
    let end = card.memory.capacity;
    let read = io(0, Operation::Read, 0, 4096);
    let table = [
        (IoCommand { queue: 16, ..read }, SubmitError::Queue),
        (IoCommand { bytes: 0, ..read }, SubmitError::Length),
        (IoCommand { bytes: 100, ..read }, SubmitError::Length),
        (IoCommand { offset: 100, ..read }, SubmitError::Length),
        (IoCommand { bytes: (1 << 20) + 512, ..read }, SubmitError::Transfer),
        (IoCommand { offset: end - 512, ..read }, SubmitError::Capacity),
        (IoCommand { offset: u64::MAX - 511, ..read }, SubmitError::Capacity),
    ];
    for (command, refused) in table {
        assert_eq!(engine.submit(0, command), Err(refused), "{command:?}");
    }
    for tag in 0..card.nvme.entries - 1 {
        engine.submit(0, IoCommand { tag, ..read }).unwrap();
    }
    assert_eq!(engine.submit(0, read), Err(SubmitError::Full));
    assert_eq!(all(&mut engine).len(), card.nvme.entries as usize - 1);
    assert_eq!(engine.submit(0, read), Err(SubmitError::Past));
}

/// Checks that all segments of a write are safe when the write is acknowledged. Counts the
/// acknowledged writes, and the writes that break this rule.
#[derive(Default)]
struct Safety {
    rule: Option<Durable>,
    open: BTreeMap<u32, Vec<WrittenSegment>>,
    acknowledged: u64,
    unsafe_writes: u64,
    /// The number of writes whose completion began before their data were safe.
    early_writes: u64,
}

impl WriteObserver for Safety {
    fn segment(&mut self, segment: &WrittenSegment) {
        assert!(segment.buffered < segment.in_array && segment.in_array <= segment.durable);
        self.open.entry(segment.tag).or_default().push(*segment);
    }

    fn completing(&mut self, command: &IoCommand, safe: u64, at: u64) {
        self.early_writes += u64::from(command.operation == Operation::Write && safe > at);
    }

    fn acknowledged(&mut self, command: &IoCommand, _submitted: u64, safe: u64, at: u64) {
        if command.operation != Operation::Write {
            return;
        }
        let segments = self.open.remove(&command.tag).unwrap();
        let mut next = command.offset;
        for segment in &segments {
            assert_eq!(segment.offset, next);
            next += u64::from(segment.bytes);
        }
        assert_eq!(next, command.offset + u64::from(command.bytes));
        let last = segments.iter().map(|segment| match self.rule {
            Some(Durable::Save) => segment.in_array,
            _ => segment.durable,
        });
        let last = last.max().unwrap();
        assert_eq!(last, safe);
        self.acknowledged += 1;
        self.unsafe_writes += u64::from(last > at);
    }
}

#[test]
fn a_write_is_acknowledged_when_its_data_are_safe() {
    for name in ["flashtec-dram", "all-mram", "all-mram-1gb"] {
        let card = card(name);
        for acknowledge_early in [false, true] {
            let settings = Settings { acknowledge_early, ..Settings::default() };
            let checked = |card: &Card| {
                let mut safety = Safety { rule: Some(card.memory.durable), ..Safety::default() };
                let group = Group { block_bytes: 12_288, ..group(Access::RandomMixed, 32) };
                Load::single(group, 2000).run(card, &settings, &mut safety).unwrap();
                assert!(safety.acknowledged > 900);
                safety
            };
            // With early acknowledgement each write counts in `early_writes`. It counts in
            // `unsafe_writes` only if the data are still not safe when the completion is sent. The
            // second check therefore uses a card whose firmware needs no time for the completion.
            let as_shipped = checked(&card);
            assert_eq!(as_shipped.early_writes > 0, acknowledge_early, "{name}");
            let mut faster = card.clone();
            faster.controller.completion_fs = 0;
            assert_eq!(checked(&faster).unsafe_writes > 0, acknowledge_early, "{name}");
        }
    }
}

/// Checks the commands of the memory channel against the timing constraints of the device.
struct MemoryRules(Checker);

impl WriteObserver for MemoryRules {
    fn memory(&mut self, command: &Command) {
        interleaf_sim::dimm::command::Observer::command(&mut self.0, command);
    }

    fn observes_memory(&self) -> bool {
        true
    }
}

#[test]
fn every_command_to_the_memory_keeps_its_rules() {
    for name in ["flashtec-dram", "all-mram", "all-mram-1gb"] {
        let card = card(name);
        let mut rules = MemoryRules(Checker::new(&card.memory.device));
        let group = group(Access::RandomMixed, 64);
        Load::single(group, 3000).run(&card, &Settings::default(), &mut rules).unwrap();
        assert_eq!(rules.0.violations().0, 0, "{name}: {}", rules.0.violations().1[0]);
        assert!(rules.0.commands() > 3000 * 64);
    }
}
