//! Tests that traces touch the blocks of the workload's arrays and no others, and that the traffic
//! of optimal replacement on a trace is within bounds that were calculated by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_extend_forecast::{
    access::{BlockTraffic, Touch},
    belady::carried,
};
use interleaf_workload::{
    SetupError,
    graph::Shape,
    kind::{Kind, Setting},
    memory::Memory,
    trace::{footprint, trace},
};
use std::collections::HashSet;

const BLOCK: usize = 4096;

fn setting(footprint: u64) -> Setting {
    Setting {
        footprint,
        threads: 1,
        memory: Memory::Heap,
        only: None,
        stride: 64 << 10,
        is_writing: false,
        tile: 64,
        degree: 8,
        seed: 1,
        graph: Shape::Kronecker,
    }
}

fn of(kind: Kind, setting: &Setting) -> (Vec<Touch>, u64) {
    let footprint = kind.kernel(setting).unwrap().footprint();
    (trace(kind, setting, footprint, BLOCK).unwrap(), footprint)
}

#[test]
fn every_block_is_touched_and_no_other() {
    let is_known = |kind: Kind| trace(kind, &setting(1 << 20), 1 << 20, BLOCK).is_some();
    let known: Vec<_> = Kind::ALL.into_iter().filter(|(_, kind, _)| is_known(*kind)).collect();
    assert!(known.len() >= 14, "{known:?}");
    for (name, kind, _) in known {
        let (trace, footprint) = of(kind, &setting(6 << 20));
        let blocks: HashSet<u32> = trace.iter().map(|touch| touch.block).collect();
        let all = footprint.div_ceil(BLOCK as u64);
        assert!(blocks.iter().all(|block| u64::from(*block) < all), "{name}");
        // A round of random accesses leaves about a third of the pages untouched.
        let least = if kind == Kind::Random { all / 2 } else { all - 1 };
        assert!(blocks.len() as u64 >= least, "{name}: {} of {all}", blocks.len());
        assert_eq!(
            carried(&trace, all as usize),
            BlockTraffic::default(),
            "{name}: all of it fits"
        );
    }
}

/// Asserts that a trace has the footprint of the kernel, which rounds the requested footprint down.
/// If the kernel rejects a footprint, the trace must reject it with the same message.
#[test]
fn a_trace_has_the_footprint_of_the_kernel() {
    let settings = |bytes: u64| {
        let large = Setting { tile: 512, stride: 3 << 20, ..setting(bytes) };
        let odd = Setting { tile: 96, stride: 5000, ..setting(bytes) };
        [setting(bytes), large, odd]
    };
    for (name, kind, _) in Kind::ALL {
        if trace(kind, &setting(1 << 20), 1 << 20, BLOCK).is_none() {
            continue;
        }
        let small = setting(1);
        let why = footprint(kind, &small).expect_err(name);
        assert!(matches!(why, SetupError::Small { .. }), "{why}");
        assert_eq!(why.to_string(), kind.kernel(&small).map(|_| ()).unwrap_err().to_string());
        for setting in [30 << 20, 100 << 20, 6_543_211].into_iter().flat_map(settings) {
            let has_unit = [Kind::GemmTiled, Kind::LuTiled, Kind::Stride].contains(&kind);
            if !has_unit && setting.tile != 64 {
                continue;
            }
            let Ok(found) = footprint(kind, &setting) else {
                assert!(kind.kernel(&setting).is_err(), "{name}");
                continue;
            };
            let kernel = kind.kernel(&setting).unwrap().footprint();
            assert_eq!(found, kernel, "{name}: {setting:?}");
            let last = trace(kind, &setting, found, BLOCK).unwrap();
            let last = last.iter().map(|touch| u64::from(touch.block)).max().unwrap();
            assert!(last < kernel.div_ceil(BLOCK as u64), "{name}: {setting:?}");
        }
    }
}

#[test]
fn a_triad_over_twice_the_cache_reads_half_of_its_arrays() {
    let (trace, footprint) = of(Kind::Stream, &setting(6 << 20));
    let blocks = footprint / BLOCK as u64;
    let BlockTraffic { read, written } = carried(&trace, blocks as usize / 2);
    let near = |found: u64, expected: u64| found.abs_diff(expected) <= blocks / 50;
    assert!(near(read, blocks / 2), "{read} of {blocks} read");
    // STREAM's triad changes one of its three arrays, so at most a third of the blocks is written
    // back. The exact number depends on whether clean or dirty blocks are evicted, so it is not
    // tested.
    assert!(written > 0 && written <= blocks / 3, "{written} of {blocks} written");
}

#[test]
fn matrix_multiplication_reads_part_of_its_matrices_in_both_layouts() {
    let long = setting(24 << 20);
    let (tiled, footprint) = of(Kind::GemmTiled, &long);
    let (rows, _) = of(Kind::Gemm, &long);
    let cache = footprint as usize / BLOCK / 2;
    let bytes = |trace: &[Touch]| {
        let BlockTraffic { read, written } = carried(trace, cache);
        read + written
    };
    let (tiled, rows) = (bytes(&tiled), bytes(&rows));
    let least = footprint / BLOCK as u64 / 4;
    assert!(tiled > least && rows > least, "{tiled} and {rows}");
}
