//! Measures how many requests to memory modules are simulated per second:
//! `cargo bench -p interleaf-benches --bench dimm`.
//!
//! The requirement is a million requests per second on one core of the host, for a saturated
//! sub-channel of DDR5-6400 with two ranks, random reads and a queue of 64 requests. The stretch
//! goal is five million. `README.md` has the last result.

use divan::{Bencher, counter::ItemsCount};
use interleaf_sim::dimm::{
    closed_loop::Pattern,
    device::{Device, Options},
    run::{ChannelResult, Setup},
};

fn main() {
    divan::main();
}

const REQUESTS: u64 = 1_000_000;

fn setup(device: &str, mix: &str, pattern: Pattern) -> Setup {
    let device = Device::by_name(device, &Options::default()).expect("it comes with the tool");
    let mut setup = Setup::new(device, 1);
    setup.mix = mix.parse().expect("it is a mix");
    setup.pattern = pattern;
    setup
}

fn run(setup: &Setup, offered_gbps: Option<f64>) -> ChannelResult {
    setup.part(0, offered_gbps, REQUESTS, &mut (), &|_| ())
}

/// The requirement of a million requests per second is for `rdimm-6400-2r`.
#[divan::bench(args = ["rdimm-6400-2r", "mrdimm-8800-2r", "mrdimm-8800-4r", "ddr4-3200-2r"],
    sample_count = 5)]
fn random_reads(bencher: Bencher<'_, '_>, device: &str) {
    let setup = setup(device, "R", Pattern::Random);
    bencher.counter(ItemsCount::new(REQUESTS)).bench(|| run(&setup, None));
}

#[divan::bench(args = ["R", "W2", "W5"], sample_count = 5)]
fn streams(bencher: Bencher<'_, '_>, mix: &str) {
    let setup = setup("rdimm-6400-2r", mix, Pattern::Stream);
    bencher.counter(ItemsCount::new(REQUESTS)).bench(|| run(&setup, None));
}

/// At a load of 0.5 GB/s, one percent of the peak bandwidth, most of the simulated time has no
/// requests. Such time must cost no real time.
#[divan::bench(sample_count = 5)]
fn nearly_idle(bencher: Bencher<'_, '_>) {
    let setup = setup("rdimm-6400-2r", "R", Pattern::Random);
    bencher.counter(ItemsCount::new(REQUESTS)).bench(|| run(&setup, Some(0.5)));
}
