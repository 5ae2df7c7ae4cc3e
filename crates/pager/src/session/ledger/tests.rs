#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use std::{process::Command, thread};

fn ledger(budget: u64) -> (tempfile::TempDir, Arc<BudgetLedger>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Arc::new(BudgetLedger::create(&folder.path().join("ledger"), budget).unwrap());
    (folder, ledger)
}

/// An identity with the process ID `pid`. The process need not exist.
fn some(pid: u32) -> Identity {
    Identity { pid, start: 1 }
}

fn targets(ledger: &BudgetLedger) -> Vec<(u32, u64)> {
    let processes = ledger.processes().into_iter();
    processes.map(|process| (process.identity.pid, process.target)).collect()
}

#[test]
fn a_later_process_gets_its_share() {
    let (folder, ledger) = ledger(1000);
    let first = Arc::clone(&ledger).join(some(1), "solver", 5000).unwrap();
    assert_eq!((first.target(), first.grow(1000)), (1000, 1000));
    // Open the ledger a second time by its path, as another process would do.
    let other = Arc::new(BudgetLedger::open(&folder.path().join("ledger")).unwrap());
    let second = Arc::clone(&other).join(some(2), "a name of more than 15 bytes", 300).unwrap();
    assert_eq!(targets(&ledger), [(1, 700), (2, 300)]);
    assert_eq!(second.grow(300), 0, "nothing is left as long as the first has all");
    first.shrink(first.target());
    assert_eq!(second.grow(300), 300);
    let names: Vec<String> = ledger.processes().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["solver", "a name of more "]);
}

#[test]
fn a_process_that_waits_for_a_change_is_woken() {
    let (_folder, ledger) = ledger(1000);
    let guard = Arc::clone(&ledger).join(some(1), "first", 1000).unwrap();
    let since = guard.changes();
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            while guard.changes() == since {
                guard.wait(since);
            }
            guard.target()
        });
        let _second = Arc::clone(&ledger).join(some(2), "second", 1000).unwrap();
        assert_eq!(waits.join().unwrap(), 500);
    });
}

#[test]
fn the_slot_of_a_killed_process_is_freed_and_its_counts_stay() {
    let _turn = crate::session::tests::turn();
    let (_folder, ledger) = ledger(1000);
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let identity = Identity::of(child.id()).unwrap().unwrap();
    let guard = Arc::clone(&ledger).join(identity, "sleep", 1000).unwrap();
    guard.grow(600);
    guard.publish(&Counts { read: 7, stalled_ns: 9, ..Counts::default() }, 0, &[500]);
    assert_eq!(ledger.recover(), []);
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = ledger.recover();
    assert_eq!((gone.len(), gone[0].held, gone[0].counts.read), (1, 600, 7));
    assert_eq!(ledger.processes(), []);
    let past = Counts { read: 7, stalled_ns: 9, ..Counts::default() };
    assert_eq!(ledger.past_counts(), past);
    assert_eq!(ledger.recover(), [], "nobody goes twice");
    let next = Arc::clone(&ledger).join(some(1), "next", 1000).unwrap();
    assert_eq!(next.grow(1000), 1000);
}

/// The keeper of the session, which calls `recover`, may have been killed. Another process must
/// then free the share by `recover_next`.
#[test]
fn a_process_frees_the_share_of_another_one_that_was_killed() {
    let (_folder, ledger) = ledger(1000);
    // No process has this ID, which is above the kernel's maximum of 2^22.
    let ended = Arc::clone(&ledger).join(some(1 << 23), "ended", 1000).unwrap();
    ended.grow(500);
    let own = Identity::own().unwrap();
    let guard = Arc::clone(&ledger).join(own, "runs", 1000).unwrap();
    let since = guard.changes();
    assert_eq!((guard.target(), guard.grow(1000)), (500, 500));
    (0..2).for_each(|_| guard.recover_next());
    assert_eq!((guard.target(), guard.grow(1000)), (1000, 1000));
    assert_ne!(guard.changes(), since, "the process is woken to adopt its share");
}

#[test]
fn counters_of_a_process_continue_after_its_execve() {
    let (_folder, ledger) = ledger(1000);
    let before = Arc::clone(&ledger).join(some(1), "sh", 1000).unwrap();
    before.grow(1000);
    before.publish(&Counts { faults: 3, footprint: 9, ..Counts::default() }, 9, &[0]);
    let after = Arc::clone(&ledger).join(some(1), "solver", 1000).unwrap();
    assert_eq!((after.held(), after.grow(1000)), (0, 1000));
    let counts = || {
        let [process] = &ledger.processes()[..] else { panic!("one process") };
        (process.counts.faults, process.counts.footprint)
    };
    assert_eq!(counts(), (3, 9));
    after.publish(&Counts { faults: 4, footprint: 5, ..Counts::default() }, 0, &[0]);
    assert_eq!((counts(), ledger.past_counts().faults), ((7, 9), 0));
    ledger.clear(after.slot(), some(1));
    assert_eq!(ledger.past_counts().faults, 7);
}

/// Processes that run one after the other do not hold memory at the same time, and neither do
/// programs that one process runs one after the other by `execve(2)`. The footprint is therefore
/// the peak of the sum over running programs.
#[test]
fn the_footprint_of_a_session_is_the_peak_of_the_sum() {
    let (_folder, ledger) = ledger(1000);
    let publish = |guard: &SlotGuard, content| guard.publish(&Counts::default(), content, &[0]);
    let first = Arc::clone(&ledger).join(some(1), "first", 1000).unwrap();
    publish(&first, 40);
    let first = Arc::clone(&ledger).join(some(1), "after execve", 1000).unwrap();
    publish(&first, 40);
    assert_eq!(ledger.footprint(), 40);
    let second = Arc::clone(&ledger).join(some(2), "second", 1000).unwrap();
    publish(&second, 25);
    publish(&first, 10);
    publish(&second, 30);
    assert_eq!(ledger.footprint(), 65);
    ledger.clear(second.slot(), some(2));
    publish(&first, 66);
    assert_eq!(ledger.footprint(), 66);
}

#[test]
fn a_full_ledger_refuses_one_more_process() {
    let (_folder, ledger) = ledger(1000);
    let own = Identity::own().unwrap();
    // Make this running process the owner of all slots, because slots of ended processes would be
    // cleared.
    for slot in &ledger.layout().slots {
        slot.owner.store(own.word(), SeqCst);
    }
    ledger.layout().used_slots.store(SLOTS as u64, SeqCst);
    assert!(Arc::clone(&ledger).join(some(1), "one more", 1).is_none());
    assert_eq!(ledger.processes().len(), SLOTS);
}

/// When a process ends, its slot is used again, and the slots with higher indices stay in use.
#[test]
fn more_than_256_processes_have_slots() {
    let (_folder, ledger) = ledger(1000);
    let join = |pid| Arc::clone(&ledger).join(some(pid), "one of many", 10).unwrap();
    let mut guards: Vec<SlotGuard> = (1..=300).map(join).collect();
    assert_eq!((ledger.processes().len(), ledger.slots().len()), (300, 300));
    ledger.clear(guards[7].slot(), guards[7].identity);
    guards.push(join(301));
    assert_eq!((ledger.processes().len(), ledger.slots().len()), (300, 300));
    guards.iter().for_each(|guard| _ = guard.hold(1));
    assert_eq!(ledger.held(), 300);
}

#[test]
fn the_sum_of_all_pages_never_exceeds_the_budget() {
    let (_folder, ledger) = ledger(1000);
    let held = AtomicU64::new(0);
    thread::scope(|scope| {
        for at in 1..=4_u32 {
            let (ledger, held) = (&ledger, &held);
            scope.spawn(move || {
                let guard = Arc::clone(ledger).join(some(at), "one of them", 1000).unwrap();
                for lap in 0..2000_u64 {
                    let has = guard.grow((u64::from(at) * 97 + lap * 31) % 900);
                    // The thread uses the pages that it has taken only between `grow` and `shrink`.
                    let all = held.fetch_add(has, SeqCst) + has;
                    assert!(all <= 1000, "{all}");
                    held.fetch_sub(has, SeqCst);
                    guard.shrink(0);
                }
            });
        }
    });
    assert!(ledger.processes().iter().all(|process| process.held == 0));
}

#[test]
fn an_invalid_ledger_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let why = "interleaf and libinterleaf_preload.so are of different versions; \
               install both from the same build";
    std::fs::write(&path, "short").unwrap();
    assert_eq!(BudgetLedger::open(&path).unwrap_err().to_string(), why);
    std::fs::write(&path, vec![0; size_of::<Layout>()]).unwrap();
    assert_eq!(BudgetLedger::open(&path).unwrap_err().to_string(), why);
    assert!(BudgetLedger::create(&path, 1).is_err(), "it is there already");
}

#[test]
fn a_process_in_another_pid_namespace_clears_no_slot_and_takes_none() {
    let (_folder, ledger) = ledger(1000);
    // No process has this ID, which is above the kernel's maximum of 2^22.
    let _ended = Arc::clone(&ledger).join(some(1 << 23), "ended", 1000).unwrap();
    let ours = ledger.layout().proc_device.swap(0, SeqCst);
    assert_eq!(ledger.recover(), []);
    assert!(ledger.own_identity().is_err());
    ledger.layout().proc_device.store(ours, SeqCst);
    assert_eq!(ledger.own_identity().unwrap(), Identity::own().unwrap());
    assert_eq!(ledger.recover().len(), 1);
}

/// `getpid(2)` of a process in another PID namespace than `/proc` differs from the ID in its slot.
#[test]
fn a_process_clears_its_slot_whatever_its_id_is_and_a_forked_child_does_not() {
    let (_folder, ledger) = ledger(1000);
    let guard = Arc::clone(&ledger).join(some(1), "in a container", 1000).unwrap();
    guard.grow(1000);
    drop(guard);
    assert_eq!((ledger.processes(), ledger.held()), (Vec::new(), 0));
    let mut copy = Arc::clone(&ledger).join(some(1), "parent", 1000).unwrap();
    // A copy of the guard in a forked child has the parent's `getpid(2)`.
    copy.pid += 1;
    drop(copy);
    assert_eq!(ledger.processes().len(), 1);
}
