//! Tests of the search for the best shares by the policy `guided`.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A machine that does not follow its curves: with P percent of the pages on the first tier,
    /// its bandwidth is `gbps[P]`. Asserts that the shares that the policy `guided` keeps have the
    /// highest bandwidth that it measured in the search, also if the search ends with its last
    /// correction.
    #[test]
    fn guided_keeps_the_best_shares_that_it_measured(
        gbps in prop::collection::vec(200.0..900.0f64, 101),
        latencies in (100.0..900.0f64, 200.0..1200.0f64),
    ) {
        let (_, mut policy) =
            every_policy(2).into_iter().find(|(kind, _)| *kind == PolicyKind::Guided).unwrap();
        let (mut target, mut best) = (policy.start(), 0.0_f64);
        for at in 0..20 {
            let total_gbps = gbps[(100.0 * target[0]).round() as usize];
            best = best.max(total_gbps);
            let tier = |share: f64, latency_ns: f64| TierObservation {
                bandwidth_gbps: share * total_gbps,
                read_share: (share > 0.0).then_some(1.0),
                latency_ns: (share > 0.0).then_some(latency_ns),
                free_bytes: None,
            };
            let seen = Observation {
                time_s: 0.0,
                quiet: 10,
                bandwidth_gbps: total_gbps,
                mean_gbps: total_gbps,
                error_gbps: 0.0,
                tiers: vec![tier(target[0], latencies.0), tier(target[1], latencies.1)],
                target: vec![],
                steered_bytes: None,
            };
            let verdict = decide(&mut *policy, &seen, &target, at);
            if verdict.action == "settle" {
                prop_assert!(total_gbps >= best, "{total_gbps} GB/s are kept, not {best}");
                return Ok(());
            }
            target = verdict.shares;
        }
    }
}
