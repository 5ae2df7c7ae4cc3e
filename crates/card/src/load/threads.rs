//! Runs the threads of a load: submits their I/Os to the engine, and records the completions.

use super::{
    Access, Bound, DirectionResult, Load, Outcome, Stop,
    addresses::{Addresses, next_seed},
};
use crate::{
    card::Card,
    engine::{Engine, Utilisation, WriteObserver},
    io::{IoCommand, IoCompletion, Operation},
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// A thread of a group: its I/O queue, its addresses, and its rate if it has one.
#[derive(Clone, Debug)]
struct Thread {
    group: u32,
    queue: u16,
    access: Access,
    addresses: Addresses,
    read_percent: u32,
    offset: u64,
    block_bytes: u32,
    force_unit_access: bool,
    /// The time between two I/Os, fs; `None` without a rate.
    interval: Option<u64>,
    /// For a thread with a rate, the time of its next I/O, fs.
    due: u64,
    /// The tags of the thread that no outstanding I/O uses.
    idle: Vec<u32>,
}

/// An I/O of a thread. `decided` is the time at which the thread decided to submit the I/O, fs.
#[derive(Clone, Copy, Debug)]
struct Io {
    thread: u32,
    read: bool,
    bytes: u32,
    decided: u64,
}

/// The threads of all groups during a run, and the measurements so far.
#[derive(Debug)]
pub(super) struct Threads {
    threads: Vec<Thread>,
    ios: Vec<Io>,
    /// For each thread with a rate: the time of its next I/O (fs) and its index in `threads`. The
    /// entry with the earliest time is on top.
    paced: BinaryHeap<Reverse<(u64, u32)>>,
    start: u64,
    stop: Stop,
    results: Vec<[DirectionResult; 2]>,
    submitted: u64,
    completed: u64,
    /// The number of outstanding I/Os, integrated over the time of the measurement in fs.
    outstanding_fs: u128,
    outstanding: u64,
    counted_until: u64,
    /// True if, during the measurement, an I/O of a thread with a rate was due while the thread had
    /// all its tags in use.
    late: bool,
}

const READ: usize = 0;
const WRITE: usize = 1;

impl Threads {
    pub(super) fn new(load: &Load, card: &Card) -> Self {
        let (mut threads, mut ios) = (vec![], vec![]);
        let mut seed = load.seed;
        for (at, group) in load.groups.iter().enumerate() {
            let blocks = group.size_on(card) / u64::from(group.block_bytes);
            for _ in 0..group.jobs {
                let own = next_seed(&mut seed);
                let number = threads.len() as u32;
                let first = ios.len() as u32;
                let io = Io { thread: number, read: false, bytes: group.block_bytes, decided: 0 };
                ios.extend((0..group.depth).map(|_| io));
                let addresses =
                    Addresses::new(group.access.is_random(), group.repeats, blocks, own ^ 0x10AD);
                let mut thread = Thread {
                    group: at as u32,
                    queue: (number % card.nvme.queues) as u16,
                    access: group.access,
                    addresses,
                    read_percent: group.read_percent,
                    offset: group.offset,
                    block_bytes: group.block_bytes,
                    force_unit_access: group.force_unit_access,
                    interval: group.rate_iops.map(|rate| (1e15 / rate) as u64),
                    due: 0,
                    idle: (first..first + group.depth).rev().collect(),
                };
                // Threads with a rate begin at random times within their first interval, so that
                // their I/Os do not coincide.
                thread.due = thread.interval.map_or(0, |span| thread.addresses.below(span.max(1)));
                threads.push(thread);
            }
        }
        Self {
            threads,
            ios,
            paced: BinaryHeap::new(),
            start: load.ramp_fs,
            stop: load.stop,
            results: vec![Default::default(); load.groups.len()],
            submitted: 0,
            completed: 0,
            outstanding_fs: 0,
            outstanding: 0,
            counted_until: 0,
            late: false,
        }
    }

    pub(super) fn run<O: WriteObserver>(
        mut self,
        engine: &mut Engine,
        observer: &mut O,
    ) -> Outcome {
        for thread in 0..self.threads.len() as u32 {
            match self.threads[thread as usize].interval {
                Some(_) => {
                    let due = self.threads[thread as usize].due;
                    self.paced.push(Reverse((due, thread)));
                }
                None => while self.submit(engine, 0, thread) {},
            }
        }
        let mut first = None;
        let (time_end, ios_end) = match self.stop {
            Stop::Time(time) => (self.start + time, u64::MAX),
            Stop::Ios(ios) => (u64::MAX - 1, ios),
        };
        let mut counted = 0;
        let mut end = time_end;
        loop {
            let due = self.paced.peek().map_or(u64::MAX - 1, |Reverse((due, _))| *due);
            // Stop the engine exactly at the next submission of a thread with a rate, and at the
            // start and the end of the measurement.
            let wall = if first.is_none() { self.start } else { time_end };
            let until = due.min(wall);
            match engine.next_completion(until, observer) {
                Some(completion) => {
                    if completion.completed >= self.start {
                        if first.is_none() {
                            first = Some(engine.usage(completion.completed));
                        }
                        counted += 1;
                    }
                    self.complete(engine, &completion);
                    if counted == ios_end {
                        end = completion.completed;
                        break;
                    }
                }
                None if due <= wall && !self.paced.is_empty() => self.submit_due(engine, due),
                None if first.is_none() => first = Some(engine.usage(self.start)),
                None => break,
            }
        }
        self.count_time(end);
        let last = engine.usage(end);
        let first = first.unwrap_or_else(|| last.clone());
        self.outcome(engine.events(), [first, last])
    }

    fn outcome(self, events: u64, usage: [crate::engine::Usage; 2]) -> Outcome {
        let span_fs = usage[1].at - self.start.min(usage[1].at);
        let mut groups = self.results;
        groups.iter_mut().flatten().for_each(|result| result.rate(span_fs));
        let [mut read, mut write] = <[DirectionResult; 2]>::default();
        for [reads, writes] in &groups {
            read.add(reads);
            write.add(writes);
        }
        let utilisation = Utilisation::between(&usage[0], &usage[1]);
        let paced = self.threads.iter().all(|thread| thread.interval.is_some());
        let bound_by = match utilisation.bound_by() {
            _ if paced && !self.late => Bound::Rate,
            Some(component) => Bound::Component(component),
            None => Bound::Depth,
        };
        Outcome {
            read,
            write,
            groups,
            span_fs,
            end_fs: usage[1].at,
            outstanding: self.outstanding_fs as f64 / span_fs.max(1) as f64,
            submitted: self.submitted,
            completed: self.completed,
            utilisation,
            bound_by,
            usage,
            events,
        }
    }

    /// Submits the I/Os that the rates of threads demand up to the time `due`. A thread whose tags
    /// are all in use submits as soon as one of its I/Os completes.
    fn submit_due(&mut self, engine: &mut Engine, due: u64) {
        while let Some(Reverse((at, thread))) = self.paced.peek().copied() {
            if at > due {
                break;
            }
            self.paced.pop();
            if !self.submit(engine, at, thread) {
                self.late |= at >= self.start;
            }
        }
    }

    /// Submits an I/O of thread `number` at `at` (fs). Returns false if all its tags are in use.
    fn submit(&mut self, engine: &mut Engine, at: u64, number: u32) -> bool {
        let thread = &mut self.threads[number as usize];
        let Some(tag) = thread.idle.pop() else { return false };
        let read = match thread.access {
            Access::Read | Access::RandomRead => true,
            Access::Write | Access::RandomWrite => false,
            Access::Mixed | Access::RandomMixed => {
                thread.addresses.below(100) < thread.read_percent.into()
            }
        };
        let block = thread.addresses.next();
        let io = &mut self.ios[tag as usize];
        (io.read, io.decided) = (read, at);
        let command = IoCommand {
            tag,
            queue: thread.queue,
            operation: if read { Operation::Read } else { Operation::Write },
            offset: thread.offset + block * u64::from(thread.block_bytes),
            bytes: thread.block_bytes,
            force_unit_access: thread.force_unit_access && !read,
        };
        if let Some(interval) = thread.interval {
            thread.due = thread.due.max(at.saturating_sub(interval)) + interval;
            self.paced.push(Reverse((thread.due.max(at), number)));
        }
        let accepted = engine.submit(at, command);
        debug_assert_eq!(accepted, Ok(()), "the load was checked");
        if accepted.is_err() {
            return false;
        }
        self.count_time(at);
        self.submitted += 1;
        self.outstanding += 1;
        true
    }

    /// Adds to `outstanding_fs` the number of outstanding I/Os times the time from `counted_until`
    /// to `at`. Time before the start of the measurement is not counted.
    #[inline]
    fn count_time(&mut self, at: u64) {
        let from = self.counted_until.max(self.start);
        if at > from {
            self.outstanding_fs += u128::from(self.outstanding) * u128::from(at - from);
        }
        self.counted_until = self.counted_until.max(at);
    }

    /// Counts a completion. The thread then submits its next I/O, unless its rate demands a wait.
    #[inline]
    fn complete(&mut self, engine: &mut Engine, completion: &IoCompletion) {
        let now = completion.completed;
        self.count_time(now);
        self.completed += 1;
        self.outstanding -= 1;
        let io = self.ios[completion.tag as usize];
        if now >= self.start {
            let group = self.threads[io.thread as usize].group as usize;
            let result = &mut self.results[group][if io.read { READ } else { WRITE }];
            result.ios += 1;
            result.bytes += u64::from(io.bytes);
            result.slat.record(completion.submitted - io.decided);
            result.clat.record(now - completion.submitted);
            result.lat.record(now - io.decided);
        }
        let thread = &mut self.threads[io.thread as usize];
        thread.idle.push(completion.tag);
        // A thread without a rate submits at each completion. A thread with a rate submits only if
        // its next I/O is overdue, that is, if all its tags were in use when the I/O was due.
        let waits = thread.interval.is_none() || thread.due <= now && thread.idle.len() == 1;
        if waits {
            self.submit(engine, now, io.thread);
        }
    }
}
