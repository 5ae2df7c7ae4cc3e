//! Tests arbitration among submission queues (NVMe 1.4, section 4.13).

use super::*;
use crate::settings::{Arbitration, Priority};

const SET_FEATURES: u8 = 0x09;
const ARBITRATION: u32 = 0x01;
/// CC.AMS: weighted round robin with urgent priority class.
const WEIGHTED: u32 = 1 << 11;
/// Values of QPRIO, the priority of a submission queue. [`driver`] gives these four values, in this
/// order, to the I/O queues 1 to 4.
const LOW: u32 = 3;
const URGENT: u32 = 0;
const HIGH: u32 = 1;
const MEDIUM: u32 = 2;
/// Submission queue `n` is in page `PAGES_FROM + n` of host memory, after the data of commands.
const PAGES_FROM: u64 = 0x20;

/// Returns a driver with four I/O submission queues, of the priorities low, urgent, high and
/// medium. Each queue has seven reads, and the driver has not yet rung the doorbell of the queue.
/// `method` is the value of the field CC.AMS.
fn driver(method: u32) -> Driver {
    let mut driver = Driver::enabled(NvmeSettings { queues: 4, ..settings() });
    driver.register(registers::CC, 0);
    driver.queues = [(0, 0, true); 2];
    driver.host.0[QUEUES_AT as usize..DATA_AT as usize].fill(0);
    driver.register(registers::CC, 0x0046_0001 | method);
    assert_eq!(driver.status(), registers::READY);
    let size = |queue| (ENTRIES - 1) << 16 | queue;
    assert_eq!(driver.admin(5, 0, 4 * QUEUES_AT, [63 << 16 | 1, 1 << 16 | 3, 0]), Ok(0));
    for (queue, priority) in (1..).zip([LOW, URGENT, HIGH, MEDIUM]) {
        let base = QUEUES_AT * (PAGES_FROM + u64::from(queue));
        let create = [size(queue), 1 << 16 | priority << 1 | 1, 0];
        assert_eq!(driver.admin(1, 0, base, create), Ok(0));
        for at in 0..u64::from(ENTRIES) - 1 {
            driver.host.write(base + 64 * at, &command(2, [0, 0, 0]).bytes()).unwrap();
        }
    }
    driver
}

fn ring_all(driver: &mut Driver) {
    for queue in 1..=4 {
        driver.register(registers::DOORBELLS + 8 * queue, ENTRIES - 1);
    }
}

fn set(driver: &mut Driver, value: u32) {
    assert_eq!(driver.admin(SET_FEATURES, 0, 0, [ARBITRATION, value, 0]), Ok(0));
}

/// Fetches at most `commands` commands. Returns the 0-based I/O queue of each command, in the order
/// in which the controller fetches them.
fn fetched(driver: &mut Driver, commands: usize) -> Vec<u16> {
    let (controller, mut attached) = driver.attached();
    let fetch = || controller.fetch(&mut attached).map(|command| command.queue);
    std::iter::from_fn(fetch).take(commands).collect()
}

/// Returns the 0-based I/O queues of the first `commands` commands in the order of fetching.
/// `method` is the value of CC.AMS, and `feature` that of the arbitration feature.
fn order(method: u32, feature: u32, commands: usize) -> Vec<u16> {
    let mut driver = driver(method);
    set(&mut driver, feature);
    ring_all(&mut driver);
    fetched(&mut driver, commands)
}

#[test]
fn round_robin_ignores_priorities_and_takes_bursts() {
    let one_each = order(0, 0, 28);
    let turns = one_each.chunks(4).all(|turn| (0..4).all(|queue| turn.contains(&queue)));
    assert!(turns, "{one_each:?}");
    // The value 2 of the feature is a burst of 2^2 commands.
    let bursts = order(0, 2, 16);
    assert!(bursts.chunks(4).all(|burst| burst.iter().all(|it| *it == burst[0])), "{bursts:?}");
    assert_eq!(order(0, 7, 7).iter().collect::<std::collections::HashSet<_>>().len(), 1);
}

#[test]
fn urgent_queues_precede_and_classes_share_by_weight() {
    // The classes high, medium and low have the weights 3, 2 and 1. The queues of these classes are
    // 2, 3 and 0; the urgent queue is 1.
    let order = order(WEIGHTED, 2 << 24 | 1 << 16, 28);
    assert_eq!(order[..7], [1; 7]);
    assert_eq!(order[7..19], [2, 2, 2, 3, 3, 0, 2, 2, 2, 3, 3, 0]);
    assert_eq!(order.len(), 28);
}

#[test]
fn the_admin_queue_precedes_urgent_queues() {
    let mut driver = driver(WEIGHTED);
    ring_all(&mut driver);
    // The command in the admin queue has an opcode that does not exist.
    driver.put(0, &command(0x7f, [0; 3]));
    driver.ring(0);
    assert_eq!(fetched(&mut driver, 1), [1]);
    // The invalid admin command was completed before the I/O command was returned.
    assert!(matches!(driver.take(0), Some((_, Err((0, 1))))));
}

#[test]
fn the_arbitration_of_the_engine_is_that_of_the_host() {
    assert_eq!(*driver(0).controller.arbitration(), Arbitration::RoundRobin);
    let mut weighted = driver(WEIGHTED);
    set(&mut weighted, 255 << 24 | 7 << 16 | 3 << 8);
    let priorities = vec![Priority::Low, Priority::Urgent, Priority::High, Priority::Medium];
    let expected = Arbitration::Weighted { priorities, weights: [256, 8, 4] };
    assert_eq!(*weighted.controller.arbitration(), expected);
    // Arbitration methods other than round robin (0) and weighted (1) are not supported (CAP.AMS).
    weighted.register(registers::CC, 0);
    weighted.register(registers::CC, 0x0046_0001 | 7 << 11);
    assert_eq!(weighted.status(), registers::FATAL);
}
