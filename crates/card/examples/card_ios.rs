//! Simulates a given number of I/Os of 4 KiB on a card and does nothing else, so that `perf stat`
//! counts the instructions of the simulation:
//!
//! ```text
//! cargo build --release -p interleaf-card --example card_ios
//! perf stat -e instructions:u target/release/examples/card_ios all-mram randwrite 256 1000000
//! ```
//!
//! Run the example with two numbers of I/Os. The difference between the two instruction counts is
//! the cost of the additional I/Os, without the start-up.

use interleaf_card::{
    card::Card,
    load::{Access, Group, Load},
    settings::Settings,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let mut next = |default: &str| args.next().unwrap_or_else(|| default.to_owned());
    let card = Card::by_name(&next("flashtec-dram"))?;
    let name = next("randwrite");
    let access = Access::ALL.into_iter().find(|(known, _)| *known == name);
    let (_, access) = access.ok_or("the second argument is fio's rw")?;
    let group = Group { access, depth: next("256").parse()?, ..Group::default() };
    let outcome =
        Load::single(group, next("1000000").parse()?).run(&card, &Settings::default(), &mut ())?;
    // Make the exit status depend on the result. Otherwise the compiler could remove the run, whose
    // result would be unused.
    std::process::exit(i32::from(outcome.iops() < 1.0));
}
