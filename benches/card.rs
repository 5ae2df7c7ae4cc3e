//! Measures how many I/Os of NVRAM cards are simulated per second:
//! `cargo bench -p interleaf-benches --bench card`.
//!
//! The requirement is a million I/Os of 4 KB per second on one core of the host, including the
//! percentiles of the I/O latency. The stretch goal is three million. `examples/card_ios.rs` of the
//! crate `card` measures the number of instructions per I/O.

use divan::{Bencher, counter::ItemsCount};
use interleaf_card::{
    card::Card,
    load::{Access, Group, Load, Outcome},
    settings::Settings,
};

fn main() {
    divan::main();
}

const IOS: u64 = 500_000;

fn run(card: &Card, access: Access, depth: u32) -> Outcome {
    let group = Group { access, depth, ..Group::default() };
    let load = Load::single(group, IOS);
    load.run(card, &Settings::default(), &mut ()).expect("the card can run it")
}

fn bench(bencher: Bencher<'_, '_>, name: &str, access: Access, depth: u32) {
    let card = Card::by_name(name).expect("it comes with the tool");
    bencher.counter(ItemsCount::new(IOS)).bench(|| run(&card, access, depth));
}

#[divan::bench(args = ["flashtec-dram", "all-mram", "all-mram-1gb"], sample_count = 5)]
fn random_writes(bencher: Bencher<'_, '_>, card: &str) {
    bench(bencher, card, Access::RandomWrite, 256);
}

#[divan::bench(args = ["flashtec-dram", "all-mram", "all-mram-1gb"], sample_count = 5)]
fn random_reads(bencher: Bencher<'_, '_>, card: &str) {
    bench(bencher, card, Access::RandomRead, 256);
}

#[divan::bench(args = [1, 16], sample_count = 5)]
fn depths(bencher: Bencher<'_, '_>, depth: u32) {
    bench(bencher, "all-mram", Access::RandomWrite, depth);
}
