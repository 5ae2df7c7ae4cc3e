//! Measures the times, per page, of planning a migration and of sampling the placement.
//!
//! The benchmarks `plan` and `plan_at_target` should take a small part of the time of `survey`,
//! which asks the kernel for the location of each page of this process. `survey` runs on 1 GiB with
//! all pages resident, and on 64 GiB with every 256th page resident.

use divan::{Bencher, black_box};
use interleaf_linux::place::migrate::{
    Migrator,
    plan::{PageLocation, Planner, Target, Unit},
};
use memmap2::MmapOptions;
use std::ops::ControlFlow;

fn main() {
    divan::main();
}

const PAGE: u64 = 4096;
const PAGES: u64 = 1 << 16;

fn target(weights: &[u32]) -> Target {
    let target = Target::new((0..).zip(weights.iter().copied()));
    target.expect("one weight at least is above zero")
}

fn units(pages: u32) -> Vec<Unit> {
    let bytes = PAGE * u64::from(pages);
    let unit = |at| Unit { address: at * bytes, pages, location: PageLocation::OnNode(0) };
    (0..PAGES).map(unit).collect()
}

/// Plans the division of 65,536 pages, which are all on the first node, among 2, 3 or 8 nodes.
#[divan::bench(args = [&[65, 35][..], &[22, 9, 2], &[8, 7, 6, 5, 4, 3, 2, 1]])]
fn plan(bencher: Bencher, weights: &[u32]) {
    let (units, target) = (units(1), target(weights));
    bencher
        .counter(divan::counter::ItemsCount::new(PAGES))
        .bench(|| Planner::new(&target, PAGE).plan(black_box(&units)));
}

#[divan::bench]
fn plan_at_target(bencher: Bencher) {
    let (mut units, target) = (units(1), target(&[65, 35]));
    for found in Planner::new(&target, PAGE).plan(&units).moves {
        units[found.unit].location = PageLocation::OnNode(found.to);
    }
    bencher
        .counter(divan::counter::ItemsCount::new(PAGES))
        .bench(|| Planner::new(&target, PAGE).plan(black_box(&units)));
}

/// Plans for as many units as `plan` does. Here a unit is a huge page, and not a page of 4 KiB.
#[divan::bench]
fn plan_huge(bencher: Bencher) {
    let (units, target) = (units(512), target(&[65, 35]));
    bencher
        .counter(divan::counter::ItemsCount::new(PAGES))
        .bench(|| Planner::new(&target, PAGE).plan(black_box(&units)));
}

/// Samples the placement of this process. It has mapped `gib` GiB, of which every `step`-th page is
/// resident.
#[divan::bench(args = [(1, 1), (64, 256)], sample_count = 10, sample_size = 1)]
fn survey(bencher: Bencher, (gib, step): (usize, usize)) {
    let bytes = gib << 30;
    let mut memory = MmapOptions::new().len(bytes).no_reserve_swap().map_anon();
    let memory = memory.as_mut().expect("there is memory for it");
    memory.advise(memmap2::Advice::NoHugePage).expect("this is advice for any memory");
    memory.iter_mut().step_by(PAGE as usize * step).for_each(|byte| *byte = 1);
    let mut migrator = Migrator::new(target(&[1])).expect("there is a node 0");
    let pids = [std::process::id()];
    bencher.counter(divan::counter::ItemsCount::new(bytes / PAGE as usize / step)).bench_local(
        || {
            let found = migrator.forecast(&pids, &mut |_| ControlFlow::Continue(()));
            assert!(found.is_ok_and(|found| found.bytes.total() as usize >= bytes / step));
        },
    );
}
