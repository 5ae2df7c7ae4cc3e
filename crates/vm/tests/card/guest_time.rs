//! Compares latencies in the guest's own time. The latencies that fio measures in the guest equal
//! those of a simulation in which the host takes as long as fio and the driver.
//!
//! The guest's clock counts instructions, and the card follows the guest's clock. The load of this
//! machine therefore changes no latency. An instruction takes 2 ns, as on a processor of 0.5 GIPS.
//! The guest's processor, not the card, would limit the rate of I/Os. Therefore the card is slowed
//! down by a factor of 128, which has the same effect as a processor that is 128 times faster.

use std::fmt;

use interleaf_card::{
    card::{self, Card},
    load::{Access, Group, Load},
    settings::Settings,
};

use super::*;

/// Factor by which the card in the guest is slower than the simulated card: 128 s of the guest's
/// clock are 1 s of simulated time.
const SLOW_DOWN: u32 = 128;

/// Instructions that fio, the block layer and the driver execute for an I/O: `SUBMISSION` from the
/// request to the doorbell, `COMPLETION` from the interrupt to fio. An instruction takes
/// `INSTRUCTION_FS`, 2 ns. Both numbers are derived from measurements: fio's `slat` is 10.3 to 10.9
/// us, and an I/O at depth 1 takes 23 us longer than the card needs.
const SUBMISSION: u64 = 5_500;
const COMPLETION: u64 = 6_000;
const INSTRUCTION_FS: u64 = 2_000_000;

const DEPTHS: [u32; 4] = [1, 4, 32, 128];

/// Number of simulations with as many I/Os as a run of fio in the guest. Each simulation uses
/// different random offsets.
const SEEDS: u64 = 20;

/// The step that waits until the guest's kernel has finished its start and is idle: 20 s of the
/// guest's clock. The sleep takes hardly any time of the host, because the clock of an idle guest
/// jumps ahead.
const IDLE: &str = "sleep 20s\n";

#[test]
fn latencies_are_those_of_the_simulation_on_6_12() {
    latencies_are_those_of_the_simulation(LINUX_6_12, "flashtec-dram");
}

#[test]
fn latencies_are_those_of_the_simulation_on_newest() {
    latencies_are_those_of_the_simulation(Series::Newest, "all-mram");
}

/// The mean latency that fio measured in the guest, and the range of the mean latency in
/// simulations, us of simulated time.
struct Point {
    access: Access,
    depth: u32,
    guest: f64,
    /// The least and the greatest mean of simulations with different random offsets and with many
    /// I/Os. In a short run, the offsets may change the order in which I/Os arrive, and the order
    /// changes the mean by up to 10 %. Any of these orders may occur in the guest.
    simulated: [f64; 2],
}

impl Point {
    /// Returns true if the guest's mean is in the simulated range, with a tolerance of 3 %. The
    /// tolerance is needed because the instructions of the guest's kernel and fio vary by some
    /// percent.
    fn agrees(&self) -> bool {
        let [least, greatest] = self.simulated;
        (0.97 * least..1.03 * greatest).contains(&self.guest)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access, depth, guest, simulated: [least, greatest] } = self;
        let access = access.name();
        write!(f, "{access}, depth {depth}: guest {guest:.3}, model {least:.3} to {greatest:.3} us")
    }
}

fn latencies_are_those_of_the_simulation(series: Series, name: &str) {
    let card = card::by_name(name).unwrap();
    let settings = NvmeSettings::of(&card, "INTERLEAF-1");
    let clock = Clock::Guest;
    let latency = Latency::Card { card: Box::new(card.clone()), slow_down: SLOW_DOWN, clock };
    let Some(bench) = Bench::new(series, settings, latency) else { return };
    let loads = [Access::RandomRead, Access::RandomWrite].map(|access| (access, DEPTHS));
    let loads = || loads.iter().flat_map(|(access, depths)| depths.map(|depth| (*access, depth)));
    let steps = "until /proc/partitions nvme0n1\n".to_string()
        + IDLE
        + &loads().map(|(access, depth)| fio(access, depth)).collect::<String>();
    let record = bench.guest_record(&steps);
    all_succeeded(&record);
    let points = loads().map(|(access, depth)| Point {
        access,
        depth,
        guest: measured(&shown(&record, fio(access, depth).trim_end())[0], access),
        simulated: range_of_means(&card, access, depth),
    });
    let points: Vec<_> = points.collect();
    let table: Vec<_> = points.iter().map(ToString::to_string).collect();
    let table = table.join("\n");
    assert!(points.iter().all(Point::agrees), "{series}, {name}:\n{table}");
    let events = bench.events.lock().unwrap();
    assert!(!events.contains(&Event::ClockMissing), "{events:?}");
}

/// Returns the number of I/Os of a measurement at the queue depth `depth`.
fn ios(depth: u32) -> u32 {
    2000 + 10 * depth
}

fn fio(access: Access, depth: u32) -> String {
    format!(
        "run fio --name=l --filename=/dev/nvme0n1 --thread --direct=1 --rw={} --bs=4k --minimal \
         --ioengine=libaio --iodepth={depth} --number_ios={} --clocksource=clock_gettime\n",
        access.name(),
        ios(depth)
    )
}

/// Returns the mean of `lat` in fio's terse output (version 3), us of simulated time. Each
/// direction has 41 fields, after the five fields of the job. `lat` begins with the 33rd field, and
/// its mean is its third field.
fn measured(terse: &str, access: Access) -> f64 {
    let direction = 5 + if access.has_writes() { 41 } else { 0 };
    let field = terse.split(';').nth(direction + 34).unwrap_or_else(|| panic!("{terse}"));
    let mean: f64 = field.parse().unwrap_or_else(|why| panic!("{field}: {why} in {terse}"));
    mean / f64::from(SLOW_DOWN)
}

fn load(access: Access, depth: u32, ios: u64) -> Load {
    Load::single(Group { access, depth, block_bytes: 4096, ..Group::default() }, ios)
}

/// Returns the least and the greatest mean latency of several simulations, us. All but the last
/// have as many I/Os as the guest, each with different random offsets; the last has 20,000 I/Os. At
/// a depth above 1, one interrupt of the guest may complete two I/Os, each of which then takes half
/// of the interrupt's instructions. One and two I/Os per interrupt are both simulated.
fn range_of_means(card: &Card, access: Access, depth: u32) -> [f64; 2] {
    let few = |seed| Load { seed, ramp_fs: 0, ..load(access, depth, ios(depth).into()) };
    let loads: Vec<_> = (1..=SEEDS).map(few).chain([load(access, depth, 20_000)]).collect();
    let completions = if depth == 1 { &[COMPLETION][..] } else { &[COMPLETION, COMPLETION / 2] };
    let means = completions
        .iter()
        .flat_map(|completion| loads.iter().map(|load| simulated(card, load, *completion)));
    means.fold([f64::MAX, 0.0], |[least, greatest], mean| [least.min(mean), greatest.max(mean)])
}

/// Returns the mean latency of the card in the simulation, us. The simulated host takes as long for
/// a submission and for a completion as the guest's processor; `completion` is the number of
/// instructions for a completion.
fn simulated(card: &Card, load: &Load, completion: u64) -> f64 {
    let mut card = card.clone();
    let of_model = |instructions| instructions * INSTRUCTION_FS / u64::from(SLOW_DOWN);
    card.host.submit_fs = of_model(SUBMISSION);
    card.host.completion_fs = of_model(completion);
    card.host.interrupt_fs = 0;
    let outcome = load.run(&card, &Settings::default(), &mut ()).unwrap();
    let has_writes = load.groups[0].access.has_writes();
    let direction = if has_writes { &outcome.write } else { &outcome.read };
    direction.lat.mean_ns() / 1000.0
}
