//! The policies on the synthetic machine, which responds to their decisions.

use super::*;

/// Creates a control loop over `machine` with a policy of the kind `kind` for each domain.
fn under(kind: PolicyKind, machine: &Fake, settings: Settings) -> Controller {
    let believed = platform(2);
    Controller::new(&machine.layout, settings, |_, tiers| {
        let fixed = [0.6, 0.4];
        let place =
            PolicyContext { domain: 0, near: &[0, 1], tiers, believed: &believed, fixed: &fixed };
        kind.make(&place)
    })
}

#[test]
fn pages_never_move_without_counters() {
    for (kind, ..) in PolicyKind::ALL {
        let mut machine = Fake::new(1, &[(0, true)]);
        (machine.counts_bytes, machine.counts_latency) = (false, false);
        let mut controller = under(kind, &machine, Settings::default());
        let start = controller.start(0, 2);
        for period in periods(&mut controller, &mut machine, 50) {
            let domain = &period.domains[0];
            assert_eq!((&domain.seen, domain.verdict.action), (&None, "wait"), "{kind}");
            assert_eq!(domain.tier_latency_ns, [None, None]);
        }
        assert!(machine.applied.iter().all(|decision| decision.targets[0].shares == start));
    }
}

#[test]
fn policies_use_bandwidth_if_latency_is_not_counted() {
    for (kind, moves) in [
        (PolicyKind::Dmi, true),
        (PolicyKind::Guided, true),
        (PolicyKind::Colloid, false),
        (PolicyKind::ColloidWatermark, false),
    ] {
        let mut machine = Fake::new(1, &[(0, true)]);
        machine.counts_latency = false;
        let mut controller = under(kind, &machine, Settings::default());
        periods(&mut controller, &mut machine, 30);
        assert_eq!(machine.first(0) < 0.9, moves, "{kind} at {}", machine.first(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Asserts that all policies except Colloid's settle on a machine whose migrations take up to 5
    /// s. Colloid's closed form overshoots if both tiers are nearly saturated, and its averages of
    /// the counters lag behind the migration.
    #[test]
    fn policies_settle_on_a_responding_machine(demand in 20.0..1200.0f64, delay_ms in 0..5000u64) {
        for (kind, ..) in PolicyKind::ALL {
            let mut machine = Fake::new(1, &[(0, true)]);
            (machine.demand_gbps, machine.delay) = (vec![demand], MS(delay_ms));
            machine.useless = 1.0;
            let settings = Settings::default();
            let mut controller = under(kind, &machine, settings);
            let periods = periods(&mut controller, &mut machine, 70);
            for period in &periods {
                check(kind, &period.domains[0].verdict.shares, 2)?;
            }
            let firsts: Vec<f64> =
                periods[50..].iter().map(|p| p.domains[0].verdict.shares[0]).collect();
            let still = firsts.iter().all(|first| (first - firsts[0]).abs() < 1e-9);
            let lags = matches!(kind, PolicyKind::Colloid | PolicyKind::ColloidWatermark);
            prop_assert!(still || lags, "{kind}: {firsts:?}");
        }
    }

    /// The demand saturates the first tier, then falls below saturation: pages on the second tier
    /// gain nothing any more, and the tested policies must return all of them.
    #[test]
    fn unsaturated_stays_local(demand in 20.0..210.0f64) {
        for kind in [PolicyKind::Dmi, PolicyKind::DmiPrototype, PolicyKind::Guided] {
            let mut machine = Fake::new(1, &[(0, true)]);
            machine.demand_gbps = vec![1000.0];
            let mut controller = under(kind, &machine, Settings::default());
            periods(&mut controller, &mut machine, 40);
            prop_assert!(machine.first(0) < 0.75, "{kind} at {}", machine.first(0));
            machine.demand_gbps = vec![demand];
            periods(&mut controller, &mut machine, 60);
            prop_assert!(machine.first(0) > 1.0 - 1e-9, "{kind} at {}", machine.first(0));
        }
    }
}
