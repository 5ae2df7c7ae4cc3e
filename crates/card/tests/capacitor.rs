//! Tests the super-capacitor: usable energy, ageing and resistance.

use interleaf_card::{capacitor::CapacitorSpec, card::Card, power::PowerSpec};

/// Returns the capacitor of the built-in card `flashtec-dram`, when new.
fn maxwell() -> CapacitorSpec {
    match Card::by_name("flashtec-dram").expect("a card").power {
        PowerSpec::Save(save) => save.capacitor,
        PowerSpec::Precharge { .. } => panic!("the card saves"),
    }
}

#[test]
fn the_energy_is_that_of_the_formula() {
    let ideal = CapacitorSpec { esr_ohms: 0.0, efficiency: 1.0, ..maxwell() };
    let expected = 0.5 * 12.5 * (25.0 - 6.25);
    assert!((ideal.stored_j() - expected).abs() < 1e-9);
    assert!((ideal.usable_j(5.0) - expected).abs() < 1e-6);
    let lossy = CapacitorSpec { esr_ohms: 0.0, ..maxwell() };
    assert!((lossy.usable_j(5.0) - 0.85 * expected).abs() < 1e-6);
}

#[test]
fn resistance_costs_energy_with_power() {
    // The reference is a simulation of the discharge in steps of 1 ms, with a load of constant
    // power at the terminals.
    let capacitor = CapacitorSpec { esr_ohms: 0.2, efficiency: 1.0, ..maxwell() };
    for watts in [1.0, 5.0, 10.0] {
        let (mut volts, mut joules, step) = (capacitor.charged_v, 0.0, 1e-3);
        loop {
            let terminal =
                (volts + (volts * volts - 4.0 * watts * capacitor.esr_ohms).sqrt()) / 2.0;
            if terminal < capacitor.cut_off_v {
                break;
            }
            joules += watts * step;
            volts -= watts / terminal * step / capacitor.farads;
        }
        let usable = capacitor.usable_j(watts);
        assert!((usable / joules - 1.0).abs() < 1e-3, "{watts} W: {usable} J, not {joules} J");
    }
    assert!(capacitor.usable_j(10.0) < capacitor.usable_j(1.0));
    // A load of 40 W draws so much current that the terminals fall below the cut-off voltage at
    // once.
    assert_eq!(capacitor.usable_j(40.0), 0.0);
}

#[test]
fn the_life_doubles_for_ten_degrees_less() {
    let at = |celsius| CapacitorSpec { celsius, ..maxwell() }.life_in_use();
    assert!((at(25.0) - 10.0).abs() < 1e-9);
    assert!((at(15.0) - 20.0).abs() < 1e-9);
    assert!((at(45.0) - 2.5).abs() < 1e-9);
}

#[test]
fn at_the_end_of_its_life_it_has_lost_30_percent_and_its_resistance_has_doubled() {
    let new = maxwell();
    let old = new.aged(new.life_in_use());
    assert!((old.farads / new.farads - 0.7).abs() < 1e-9);
    assert!((old.esr_ohms / new.esr_ohms - 2.0).abs() < 1e-9);
    assert_eq!(new.aged(0.0), new);
    assert_eq!(new.aged(1000.0).farads, 0.0);
    assert!((1..20).all(|years| {
        let usable = |years: i32| new.aged(f64::from(years)).usable_j(5.0);
        usable(years) <= usable(years - 1)
    }));
}

#[test]
fn half_of_the_capacitance_has_half_of_the_energy() {
    let new = maxwell();
    assert!((new.scaled(0.5).usable_j(5.0) / new.usable_j(5.0) - 0.5).abs() < 1e-9);
    assert!((new.seconds(5.0) - new.usable_j(5.0) / 5.0).abs() < 1e-9);
}
