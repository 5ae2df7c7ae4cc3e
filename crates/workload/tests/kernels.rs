//! Tests that each workload has the right result with one and with three threads and in each kind
//! of memory, and that it rejects a footprint that is too small.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_workload::{
    SetupError, Work,
    graph::Shape,
    kind::{Kind, Setting},
    memory::{Hint, Memory},
    stream::Loop,
};

fn setting(memory: Memory, threads: usize) -> Setting {
    Setting {
        footprint: 3 << 20,
        threads,
        memory,
        only: None,
        stride: 64 << 10,
        is_writing: false,
        tile: 64,
        degree: 8,
        seed: 1,
        graph: Shape::Kronecker,
    }
}

fn memories(folder: &std::path::Path) -> [Memory; 3] {
    let file = Memory::File(folder.into(), Hint::Sequential);
    [Memory::Heap, Memory::Anonymous(Hint::Normal), file]
}

/// Returns `setting`, but with a smaller footprint for workloads whose rounds have many operations
/// per element.
fn with_size(kind: Kind, setting: &Setting) -> Setting {
    let footprint = match kind {
        Kind::Lu | Kind::LuPlain | Kind::LuTiled | Kind::Cholesky => 512 << 10,
        Kind::Lattice | Kind::BlockTridiagonal | Kind::Compact | Kind::Spherical => 512 << 10,
        Kind::Multigrid => 2 << 20,
        _ if kind.task().is_some() => 512 << 10,
        _ => setting.footprint,
    };
    Setting { footprint, ..setting.clone() }
}

/// Runs rounds of a workload, and checks their work, their results and the footprint. Returns the
/// checksum of the results.
fn sum(kind: Kind, setting: &Setting, rounds: usize) -> u64 {
    let setting = &with_size(kind, setting);
    let mut kernel = kind.kernel(setting).unwrap();
    let mut round = || {
        kernel.prepare();
        kernel.round()
    };
    let mut works: Vec<Work> = (0..rounds).map(|_| round()).collect();
    if kind == Kind::PageRank && setting.threads > 1 {
        // The number of Gauss-Seidel iterations depends on the timing of the threads, so compare
        // only the bytes of the rounds.
        works.iter_mut().for_each(|work| *work = Work { bytes: work.bytes, ..Work::default() });
    }
    let is_same = works.iter().all(|work| *work == works[0] && work.bytes > 0);
    assert!(is_same, "{kind:?}: {works:?}");
    kernel.beside();
    kernel.verify().unwrap_or_else(|why| panic!("{kind:?} after {rounds} rounds: {why}"));
    let footprint = kernel.footprint();
    assert!(footprint <= setting.footprint && 2 * footprint > setting.footprint, "{kind:?}");
    kernel.checksum()
}

#[test]
fn results_are_right_in_each_kind_of_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (name, kind, _) in Kind::ALL {
        for rounds in 1..=5 {
            let of = |memory| sum(kind, &setting(memory, 1), rounds);
            let [heap, anonymous, file] = memories(folder.path()).map(of);
            assert!(heap == anonymous && heap == file, "{name}");
        }
    }
}

#[test]
fn writes_are_verified() {
    for kind in [Kind::Random, Kind::Polynomial] {
        for threads in [1, 3] {
            let writing = Setting { is_writing: true, ..setting(Memory::Heap, threads) };
            sum(kind, &writing, 3);
        }
    }
}

#[test]
fn several_threads_give_right_results() {
    for (name, kind, _) in Kind::ALL {
        match kind.kernel(&setting(Memory::Heap, 3)) {
            Err(SetupError::OneThread { .. }) => {
                assert!(["fft", "lu", "lu-plain", "cholesky"].contains(&name), "{name}");
            }
            Err(why) => panic!("{name}: {why}"),
            Ok(_) => {
                sum(kind, &setting(Memory::Heap, 3), 3);
            }
        }
    }
}

#[test]
fn stream_loops_have_the_bytes_and_flops_of_stream() {
    let array = 1 << 20;
    for (which, arrays) in [(Loop::Copy, 2), (Loop::Scale, 2), (Loop::Add, 3), (Loop::Triad, 3)] {
        let only = Setting { only: Some(which), ..setting(Memory::Heap, 1) };
        let mut kernel = Kind::Stream.kernel(&only).unwrap();
        assert_eq!(kernel.round().bytes, arrays * array, "{which:?}");
        assert!(kernel.beside().is_empty());
        kernel.verify().unwrap();
    }
    let mut kernel = Kind::Stream.kernel(&setting(Memory::Heap, 1)).unwrap();
    kernel.round();
    let others: Vec<&str> = kernel.beside().iter().map(|(name, _, _)| *name).collect();
    assert_eq!(others, ["copy", "scale", "add"]);
}

#[test]
fn a_long_transform_is_exact_enough_to_be_checked() {
    let long = Setting { footprint: 100 << 20, ..setting(Memory::Heap, 1) };
    sum(Kind::Fft, &long, 1);
    sum(Kind::Fft3d, &long, 2);
}

#[test]
fn a_footprint_that_is_too_small_is_refused() {
    for (name, kind, _) in Kind::ALL {
        let small = Setting { footprint: 1000, ..setting(Memory::Heap, 1) };
        match kind.kernel(&small) {
            Err(SetupError::Small { bytes: 1000, least, .. }) => {
                let enough = Setting { footprint: least, ..small };
                kind.kernel(&enough).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            Err(why) => panic!("{name}: {why}"),
            Ok(_) => panic!("{name} takes 1000 bytes"),
        }
    }
}
