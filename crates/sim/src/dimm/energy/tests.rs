use super::*;
use crate::dimm::device::Options;

fn device(name: &str, width: &str) -> Device {
    let options = Options { width: Some(width.into()), ..Options::default() };
    Device::by_name(name, &options).expect("it comes with the tool")
}

fn command(kind: Kind, at: u64, bank: u8) -> Command {
    Command { at, kind, pseudo: 0, rank: 0, bank_group: 0, bank, row: 0, column: 0 }
}

fn close(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-3, "{value} instead of {expected}");
}

#[test]
fn standby_power_matches_the_data_sheet() {
    // A 2Rx4 sub-channel has 20 devices, including the devices for error correction. Each device
    // draws 92 mA at 1.1 V and 6 mA at 1.8 V. Half of the register's 0.6 W counts for the
    // sub-channel. 3200000 clocks are 1 ms.
    let counts = CommandCounts::new(&device("rdimm-6400-2r", "x4"));
    let energy = counts.energy(3_200_000).expect("its currents are known");
    close(energy.seconds, 1e-3);
    close(energy.background, 20.0 * (0.092 * 1.1 + 0.006 * 1.8) * 1e-3);
    close(energy.buffers, 0.3e-3);
    close(energy.power_w(), 20.0 * 0.112 + 0.3);
    assert_eq!(energy.pj_per_bit(), 0.0);
    assert_eq!(CommandCounts::new(&device("stt-mram-ddr3", "x8")).energy(100), None);
}

#[test]
fn commands_add_their_measured_energy() {
    let device = device("rdimm-6400-2r", "x4");
    let mut counts = CommandCounts::new(&device);
    counts.command(&command(Kind::Activate, 0, 0));
    counts.command(&command(Kind::Read, 52, 0));
    counts.command(&command(Kind::WriteAuto, 200, 0));
    counts.command(&command(Kind::RefreshAll, 1000, 0));
    let energy = counts.energy(3200).expect("its currents are known");
    // The currents were measured at 4800 MT/s: with a burst of 3.333 ns, and tRAS of 77 and tRC of
    // 116 clocks of 0.41667 ns.
    let burst = 3.333e-9;
    close(energy.read, 10.0 * burst * ((318.0 - 142.0) * 1.1e-3 + 2.0 * 1.8e-3));
    close(energy.write, 10.0 * burst * ((0.345 - 0.142) * 1.1 + (0.036 - 0.007) * 1.8));
    let open = (0.142 - 0.092) * 1.1 + 0.001 * 1.8;
    let cycle = 116.0 / 2.4e9 * ((0.103 - 0.092) * 1.1 + 0.002 * 1.8);
    close(energy.activate, 10.0 * (cycle - 77.0 / 2.4e9 * open / 32.0));
    close(energy.refresh, 10.0 * 295e-9 * ((0.277 - 0.092) * 1.1 + (0.028 - 0.006) * 1.8));
    // One of 32 banks was open for 354 clocks, until the end of the write recovery: the write was
    // at clock 200, and tCWL (50), the burst (8) and tWR (96) follow.
    let still = 20.0 * (0.092 * 1.1 + 0.006 * 1.8) * 1e-6;
    close(energy.background, still + 10.0 * open / 32.0 * 354.0 / 3.2e9);
    // A low pin has 1.1 V over its driver (34 ohm) in series with two parallel terminations (48 ohm
    // of the addressed rank and 80 ohm of the other rank, together 30 ohm). 30 of 60 pins are low,
    // at 25.6 GB/s. When the module sends, the termination of 48 ohm is the host's; when it
    // receives, the driver is the host's.
    let amperes = 1.1 / 64.0;
    let (driver, both) = (amperes * amperes * 34.0, amperes * amperes * 30.0);
    let (own, other) = (both * 80.0 / 128.0, both * 48.0 / 128.0);
    close(energy.pins, 512.0 * 30.0 / 204.8e9 * (driver + other + own + other));
    close(energy.bits, 1024.0);
    let both = energy.and(&energy);
    close(both.total(), 2.0 * energy.total());
    close(both.seconds, energy.seconds);
}

#[test]
fn behind_buffers_both_ends_of_a_pin_are_the_modules() {
    let pins = |name: &str, width: &str| {
        let mut counts = CommandCounts::new(&device(name, width));
        counts.command(&command(Kind::Read, 52, 0));
        counts.energy(3200).expect("its currents are known").pins
    };
    // Between the buffers and ten devices, 30 of 60 pins are low; between the buffers and five
    // devices, 25 of 50. The rate is 17.6 GB/s. On the host's side, 30 pins are low, at 35.2 GB/s.
    let amperes = 1.1 / 82.0;
    let host = 512.0 * 30.0 / 281.6e9 * amperes * amperes * 34.0;
    close(pins("mrdimm-8800-2r", "x4"), 512.0 * 30.0 / 140.8e9 * 1.21 / 82.0 + host);
    close(pins("mrdimm-8800-2r", "x8"), 512.0 * 25.0 / 140.8e9 * 1.21 / 82.0 + host);
    close(pins("mrdimm-8800-4r", "x8"), 512.0 * 25.0 / 140.8e9 * 1.21 / 64.0 + host);
}

#[test]
fn a_precharge_of_all_banks_closes_all_of_its_rank() {
    let mut counts = CommandCounts::new(&device("mrdimm-8800-4r", "x8"));
    for (pseudo, rank, bank) in [(0, 0, 0), (0, 0, 3), (0, 1, 0), (1, 0, 0)] {
        counts.command(&Command { pseudo, rank, ..command(Kind::Activate, 10, bank) });
    }
    counts.command(&command(Kind::PrechargeAll, 110, 0));
    assert_eq!(counts.open_clocks, 200);
    assert_eq!(counts.opened.iter().flatten().count(), 2);
    counts.command(&Command { pseudo: 1, ..command(Kind::Precharge, 60, 0) });
    assert_eq!(counts.open_clocks, 250);
}

#[test]
fn same_bank_refreshes_cost_as_much_as_all_bank_refresh() {
    let device = device("rdimm-6400-2r", "x8");
    let (mut all, mut same) = (CommandCounts::new(&device), CommandCounts::new(&device));
    all.command(&command(Kind::RefreshAll, 0, 0));
    (0..8).for_each(|turn| same.command(&command(Kind::RefreshSame, 0, turn % 4)));
    let refresh =
        |counts: &CommandCounts| counts.energy(100).expect("its currents are known").refresh;
    close(refresh(&same), refresh(&all));
}
