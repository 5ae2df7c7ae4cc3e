//! Tests `Host`, the real machine under the control loop, with a simulated root, source, clock and
//! actuator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::id_list::IdList,
    place::{
        actuator::{Actuator, ActuatorError, ActuatorKind, ActuatorState, Goal},
        layout::HostLayout,
    },
    process::numa_maps::NodeBytes,
    root::Root,
};
use interleaf_model::{
    machine::{
        Decision, DomainLayout, Layout, Machine, Order, Sample, ScopeKind, ScopeLayout, Target,
        TierLayout,
    },
    tier::TierKind,
};
use interleaf_observe::{
    host::{Clock, Host, HostError},
    source::{Reading, Source, SourceError, nothing},
};
use std::{cell::RefCell, fs, rc::Rc, thread, time::Duration};

/// Makes the files of a machine with four half-full nodes, and with `moved` migrated pages in
/// `/proc/vmstat`.
fn machine(moved: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    move_pages(&folder, moved);
    for node in 0..4 {
        let path = folder.path().join(format!("sys/devices/system/node/node{node}"));
        fs::create_dir_all(&path).unwrap();
        let text = format!("Node {node} MemTotal: 2048 kB\nNode {node} MemFree: 1024 kB\n");
        fs::write(path.join("meminfo"), text).unwrap();
    }
    folder
}

fn move_pages(folder: &tempfile::TempDir, moved: u64) {
    fs::write(folder.path().join("proc/vmstat"), format!("pgmigrate_success {moved}\n")).unwrap();
}

/// Returns a layout of two sockets, each with DRAM and an expander: nodes 0 and 2, and nodes 1 and
/// 3. The layout's only scope runs on the second socket.
fn layout() -> HostLayout {
    let tier = |node: usize| TierLayout {
        name: format!("node{node}"),
        kind: if node < 2 { TierKind::Dram } else { TierKind::Cxl },
        capacity_bytes: 2 << 20,
        rated_gbps: 1.0,
        rated_latency_ns: 100.0,
    };
    let domain =
        |at: usize| DomainLayout { name: format!("socket{at}"), cores: 1, tiers: vec![at, at + 2] };
    let scope =
        ScopeLayout { name: "s".into(), kind: ScopeKind::Process, domain: 1, steered: true };
    let layout = Layout {
        domains: (0..2).map(domain).collect(),
        tiers: (0..4).map(tier).collect(),
        scopes: vec![scope],
    };
    HostLayout { layout, nodes: vec![0, 1, 2, 3], unrated: IdList::default() }
}

/// A source whose readings cover the spans of its list, in order, and have no counts.
struct Spans(Vec<Duration>);

impl Source for Spans {
    fn describe(&self) -> String {
        "spans".into()
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        if self.0.is_empty() {
            return Err(SourceError::Stopped("spans".into()));
        }
        let span = self.0.remove(0);
        Ok(Reading { span, traffic: nothing(2, 4), ..Reading::default() })
    }
}

/// A clock that sleeps for each wait. The number is that of the remaining waits; the last wait
/// requests a stop.
struct Waits(u32);

impl Clock for Waits {
    fn wait(&mut self, span: Duration) -> bool {
        thread::sleep(span);
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// An actuator that records its goals. Its first, third, fifth ... updates report a placement and a
/// note; the other updates report neither.
struct Noting {
    goals: Rc<RefCell<Vec<Goal>>>,
    samples: u64,
}

impl Actuator for Noting {
    fn kind(&self) -> ActuatorKind {
        ActuatorKind::Pages
    }

    fn describe(&self) -> String {
        String::new()
    }

    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        self.goals.borrow_mut().push(goal.clone());
        Ok(())
    }

    fn update(&mut self) -> Result<ActuatorState, ActuatorError> {
        self.samples += 1;
        let on = NodeBytes([(1, 100 * self.samples), (3, 50)].into_iter().collect());
        Ok(match self.samples % 2 {
            1 => {
                let notes = vec![format!("sample {}", self.samples)];
                ActuatorState { on: Some(on), notes, ..ActuatorState::default() }
            }
            _ => ActuatorState::default(),
        })
    }
}

fn target(shares: [f64; 4]) -> Decision {
    let target = Target {
        scope: 0,
        shares: shares.to_vec(),
        order: Order::Interleave,
        rate_limit_gbps: None,
    };
    Decision { targets: vec![target] }
}

/// Takes a sample as the control loop does.
fn observed(host: &mut Host<'_>, span: Duration) -> Result<Sample, HostError> {
    host.advance(span)?;
    host.observe(span)
}

#[test]
fn a_sample_is_of_the_time_that_was_counted() {
    let folder = machine(1000);
    let root = Root::captured(folder.path());
    let counted = Duration::from_secs(60);
    let source = Box::new(Spans(vec![counted, Duration::ZERO]));
    let mut host = Host::new(&root, layout(), source, Box::new(Waits(9)), vec![None]).unwrap();
    let wait = Duration::from_millis(5);
    assert_eq!(observed(&mut host, wait).unwrap().span, counted);
    // A reading that covers no time must get the time waited as its span, because rates are divided
    // by the span.
    move_pages(&folder, 1003);
    let sample = observed(&mut host, wait).unwrap();
    assert!(sample.span >= wait && sample.span < counted, "{:?}", sample.span);
    // The kernel counts migrations only for the whole machine. The first tier of each socket must
    // get the whole count.
    let page = rustix::param::page_size() as u64;
    let moved: Vec<_> = sample.tier_memory.iter().map(|memory| memory.migrated_in_bytes).collect();
    assert_eq!(moved, [Some(3 * page), Some(3 * page), None, None]);
    assert_eq!(sample.tier_memory[3].free_bytes, Some(1 << 20));
    assert!(matches!(observed(&mut host, wait), Err(HostError::Source(_))));
}

#[test]
fn a_stop_request_ends_the_observation() {
    let folder = machine(0);
    let root = Root::captured(folder.path());
    let source = Box::new(Spans(vec![Duration::ZERO; 3]));
    let mut host = Host::new(&root, layout(), source, Box::new(Waits(2)), vec![None]).unwrap();
    assert!(observed(&mut host, Duration::ZERO).is_ok());
    assert!(matches!(observed(&mut host, Duration::ZERO), Err(HostError::Stopped)));
}

#[test]
fn goals_are_of_the_scopes_socket_and_are_set_once() {
    let folder = machine(0);
    let root = Root::captured(folder.path());
    let goals = Rc::new(RefCell::new(vec![]));
    let actuator = Box::new(Noting { goals: goals.clone(), samples: 0 });
    let (source, clock) = (Box::new(Spans(vec![])), Box::new(Waits(9)));
    let mut host = Host::new(&root, layout(), source, clock, vec![Some(actuator)]).unwrap();
    for shares in [[0.0, 0.9, 0.0, 0.1], [0.0, 0.9, 0.0, 0.1], [0.0, 0.6, 0.0, 0.4]] {
        host.apply(&target(shares)).unwrap();
    }
    let set: Vec<_> = goals.borrow().iter().map(|goal| goal.nodes.clone()).collect();
    assert_eq!(set, [[(1, 90), (3, 10)], [(1, 60), (3, 40)]]);
}

/// The actuator reports a placement and a note in its first and third update. The second sample
/// must repeat the placement of the first sample, and both notes must be kept until they are taken.
#[test]
fn notes_are_kept_until_they_are_reported() {
    let folder = machine(0);
    let root = Root::captured(folder.path());
    let actuator = Box::new(Noting { goals: Rc::default(), samples: 0 });
    let source = Box::new(Spans(vec![Duration::ZERO; 4]));
    let mut host =
        Host::new(&root, layout(), source, Box::new(Waits(9)), vec![Some(actuator)]).unwrap();
    let residency = |host: &mut Host<'_>| {
        observed(host, Duration::from_millis(1010)).unwrap().scopes.remove(0).used_bytes
    };
    assert_eq!(residency(&mut host), Some(vec![0, 100, 0, 50]));
    assert_eq!(residency(&mut host), Some(vec![0, 100, 0, 50]), "it was not looked");
    assert_eq!(residency(&mut host), Some(vec![0, 300, 0, 50]));
    assert_eq!(host.take_notes(), ["sample 1", "sample 3"]);
    assert!(host.take_notes().is_empty());
}
