//! Tests invariants of every run: Little's law, conservation of requests, bytes and credits, and
//! throughput that rises with the depth.

use super::*;
use crate::{
    engine::Engine,
    io::{IoCommand, Operation},
    load::Stop,
    settings::{Arbitration, HostMode, Priority},
};
use proptest::prelude::*;

fn settings() -> impl Strategy<Value = Settings> {
    let host = prop_oneof![Just(HostMode::Interrupts), Just(HostMode::Polling)];
    let weighted = Arbitration::Weighted {
        priorities: vec![Priority::Low, Priority::Urgent, Priority::High],
        weights: [4, 2, 1],
    };
    let arbitration = prop_oneof![Just(Arbitration::RoundRobin), Just(weighted)];
    (host, arbitration).prop_map(|(host, arbitration)| Settings {
        host,
        arbitration,
        ..Settings::default()
    })
}

fn any_card() -> impl Strategy<Value = Card> {
    let sizes = (0_usize..3, 1_u32..6, 9_u32..18, 1_u32..65, 1_u32..40, 1_u32..5, 1_u32..65);
    sizes.prop_map(|(name, cores, buffers, tags, engines, payload, credits)| {
        let mut card = card(["flashtec-dram", "all-mram", "all-mram-1gb"][name]);
        card.controller.cores = cores;
        card.controller.buffer_bytes = 1 << buffers;
        card.link.read_tags = tags;
        card.link.non_posted_headers = credits;
        card.controller.dma_engines = engines;
        card.link.max_payload = 64 << payload;
        card.link.max_read_request = 1 << (7 + buffers % 6);
        // In a card from a file, the buffers hold one atomic write unit for each DMA engine; the
        // parser refuses smaller buffers. If the random buffers are smaller, the unit becomes one
        // chunk, so that no engine waits for a second buffer while it holds a first.
        if engines * card.nvme.atomic_write > card.controller.buffer_bytes {
            card.nvme.atomic_write = card.chunk_bytes();
        }
        card
    })
}

fn any_group() -> impl Strategy<Value = Group> {
    let access = (0..Access::ALL.len()).prop_map(|at| Access::ALL[at].1);
    (access, 1_u32..33, 1_u32..80, 1_u32..4, 0_u32..101).prop_map(
        |(access, blocks, depth, jobs, read_percent)| Group {
            access,
            block_bytes: blocks * 512,
            depth,
            jobs,
            read_percent,
            ..Group::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn little_holds_and_the_same_seed_gives_the_same_result(
        card in any_card(), settings in settings(), group in any_group(), seed in any::<u64>(),
    ) {
        let mut settings = settings;
        if let Arbitration::Weighted { priorities, .. } = &mut settings.arbitration {
            // No queue is urgent: the urgent class would starve other queues, and Little's law,
            // which counts completed commands, would not hold.
            *priorities = vec![Priority::Low, Priority::Medium, Priority::High];
        }
        let (groups, stop) = (vec![group], Stop::Ios(1500));
        let load = Load { groups, ramp_fs: 50_000_000_000, stop, seed };
        let found = load.run(&card, &settings, &mut ()).unwrap();
        let expected = found.iops() * found.mean_ns() / 1e9;
        let deepest = f64::from(load.groups[0].depth * load.groups[0].jobs);
        prop_assert!(found.outstanding <= deepest + 1e-6);
        // Little's law is exact only if each I/O begins and ends within the measurement. Up to
        // `deepest` I/Os cross the start and the end, so a difference of `crossing` is allowed.
        let crossing = 2.0 * deepest * deepest / 1500.0 + 0.01 * expected;
        let error = (found.outstanding - expected).abs();
        prop_assert!(error <= crossing, "{} of {expected}", found.outstanding);
        prop_assert_eq!(found.read.ios + found.write.ios, 1500);
        let again = load.run(&card, &settings, &mut ()).unwrap();
        prop_assert_eq!(found, again);
    }

    #[test]
    fn requests_bytes_and_credits_are_conserved(
        card in any_card(), settings in settings(),
        commands in proptest::collection::vec((0_u64..40_000, 0_usize..5, 0_u16..3, 0_u64..5000,
            1_u32..70), 1..150),
    ) {
        let operations = [Operation::Read, Operation::Write, Operation::Flush,
            Operation::WriteZeroes, Operation::Deallocate];
        let mut engine = Engine::new(&card, &settings);
        let (mut at, mut moved) = (0, [0_u64; 2]);
        let mut submitted = vec![];
        for (tag, (pause, operation, queue, block, blocks)) in commands.iter().enumerate() {
            at += pause * 1_000_000;
            let operation = operations[*operation];
            let bytes = blocks * 512;
            let io = IoCommand { tag: tag as u32, queue: *queue, operation,
                offset: block * 512, bytes, force_unit_access: false };
            prop_assert_eq!(engine.submit(at, io), Ok(()));
            submitted.push(at);
            match operation {
                Operation::Read => moved[0] += u64::from(bytes),
                Operation::Write | Operation::WriteZeroes => moved[1] += u64::from(bytes),
                _ => {}
            }
        }
        let mut done = vec![false; commands.len()];
        while let Some(end) = engine.next_completion(u64::MAX - 1, &mut ()) {
            let tag = end.tag as usize;
            prop_assert!(!std::mem::replace(&mut done[tag], true), "tag {} came twice", tag);
            prop_assert_eq!(end.queue, commands[tag].2);
            prop_assert!(submitted[tag] <= end.submitted && end.submitted < end.fetched);
            prop_assert!(end.fetched < end.completed);
        }
        prop_assert!(done.iter().all(|done| *done));
        prop_assert_eq!(engine.next_event(), None);
        let counts = engine.memory.counts();
        prop_assert_eq!([counts.reads * 64, counts.writes * 64], moved);
        let later = engine.now() + 1_000_000_000_000;
        let Engine { credits, fetches, commands, dma, buffers, tags, .. } = &mut engine;
        let pools = credits.iter_mut().chain([fetches, commands, dma, buffers, tags]);
        for (number, pool) in pools.enumerate() {
            prop_assert_eq!(pool.in_use(later), 0, "pool {}", number);
        }
        prop_assert!(engine.queues.iter().all(|queue| queue.outstanding == 0));
    }

    #[test]
    fn throughput_rises_with_depth_until_saturation(
        card in any_card(), random in any::<bool>(), write in any::<bool>(),
    ) {
        let access = match (random, write) {
            (false, false) => Access::Read,
            (false, true) => Access::Write,
            (true, false) => Access::RandomRead,
            (true, true) => Access::RandomWrite,
        };
        // The test leaves out cards with buffers of less than 4 KiB for each DMA engine. On such
        // cards the engines compete for buffers and interleave their chunks. At a larger depth more
        // rows of a bank conflict, so the throughput would fall.
        let Card { controller, link, .. } = &card;
        prop_assume!(4096 * controller.dma_engines <= controller.buffer_bytes);
        // The test also leaves out cards with fewer credits for read requests than the engines and
        // the fetches of commands can use at once. On such cards a fetch may take the credit that a
        // request for data needs, which at some depths costs a fifth of the throughput.
        let requests = 4096_u32.div_ceil(link.max_read_request) * controller.dma_engines;
        prop_assume!(!write || link.non_posted_headers >= requests + controller.fetches);
        let mut best = 0.0_f64;
        for depth in [1, 2, 4, 8, 16, 32, 64] {
            let iops = run(&card, &Settings::default(), group(access, depth), 1500).iops();
            // The throughput may fall by 5 %, because the depth changes the order of chunks in
            // memory, and with it the number of bank conflicts.
            prop_assert!(iops > 0.95 * best, "{iops} at {depth} after {best}");
            best = best.max(iops);
        }
    }
}
