//! Tests of placements: weights for tiers or nodes, the settings that a placement needs, and
//! weights that are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::{
        id_list::IdList, node::Node, sysctl::Sysctls, topology::Machine,
        weights::WeightedInterleave,
    },
    place::placement::{Means, Placement},
};
use interleaf_model::weights::Weights;
use proptest::prelude::*;

/// Returns a machine with the nodes `tiers[i]` in tier i. Its kernel has weighted interleaving if
/// `weighted` is true.
fn machine(tiers: &[&[u32]], weighted: bool) -> Machine {
    let node = |id: &u32| Node {
        id: *id,
        cpus: IdList::default(),
        total_bytes: 1 << 30,
        free_bytes: 1 << 30,
        distances: vec![],
        rated: None,
        huge_pages: vec![],
    };
    let mut nodes: Vec<Node> = tiers.iter().flat_map(|tier| tier.iter().map(node)).collect();
    nodes.sort_by_key(|node| node.id);
    let interleave = WeightedInterleave { weights: vec![], auto: Some(true) };
    let tiers = tiers.iter().enumerate();
    Machine {
        total_bytes: None,
        kernel: None,
        cpu: None,
        sockets: vec![],
        tiers: tiers.map(|(at, tier)| (at as u32, tier.iter().copied().collect())).collect(),
        nodes,
        weighted_interleave: weighted.then_some(interleave),
        sysctls: Sysctls::default(),
        damon: None,
    }
}

fn place(machine: &Machine, weights: &str, named: Option<&str>) -> Result<Placement, String> {
    let weights = weights.parse().unwrap();
    Placement::new(machine, &weights, named, None).map_err(|why| why.to_string())
}

/// A row of a test table: the nodes of each tier, the weights, the nodes that the user names, and
/// the expected outcome.
type Row<'a, T> = (&'a [&'a [u32]], &'a str, Option<&'a str>, T);

#[test]
fn weights_are_for_tiers_or_for_nodes() {
    let table: [Row<'_, &[(u32, u32)]>; 11] = [
        (&[&[0], &[1]], "3:1", None, &[(0, 3), (1, 1)]),
        (&[&[0], &[1]], "65:35", None, &[(0, 65), (1, 35)]),
        (&[&[1], &[0]], "3:1", None, &[(1, 3), (0, 1)]),
        (&[&[0], &[1]], "3:1", Some("1,0"), &[(1, 3), (0, 1)]),
        (&[&[0], &[1]], "1:0", None, &[(0, 1)]),
        (&[&[0], &[2], &[5]], "4:2:1", None, &[(0, 4), (2, 2), (5, 1)]),
        (&[&[0, 1], &[2, 3]], "3:1", None, &[(0, 3), (1, 3), (2, 1), (3, 1)]),
        (&[&[0, 1], &[2]], "3:1", None, &[(0, 3), (1, 3), (2, 2)]),
        (&[&[0, 1], &[2, 3]], "3:1", Some("0,2"), &[(0, 3), (2, 1)]),
        (&[&[0, 1], &[2, 3]], "4:3:2:1", None, &[(0, 4), (1, 3), (2, 2), (3, 1)]),
        (&[&[0, 1, 2], &[3]], "200:100", None, &[(0, 2), (1, 2), (2, 2), (3, 3)]),
    ];
    for (tiers, weights, named, expected) in table {
        let placement = place(&machine(tiers, true), weights, named).unwrap();
        assert_eq!(placement.nodes, expected, "{weights} on {tiers:?}");
    }
}

#[test]
fn meaningless_placements_are_refused() {
    let table: [Row<'_, &str>; 7] = [
        (&[&[0]], "3:1", None, "all memory is on node 0: 3:1 has nothing to interleave"),
        (
            &[&[0], &[1]],
            "4:2:1",
            None,
            "4:2:1 has 3 weights, and the machine has 2 memory nodes: 0 1",
        ),
        (
            &[&[0, 1], &[2, 3]],
            "4:2:1",
            None,
            "4:2:1 has 3 weights, and the machine has 2 tiers (0-1 | 2-3) of 4 memory nodes",
        ),
        (&[&[0], &[1]], "3:1", Some("0"), "3:1 has 2 weights, and --nodes 0 names 1"),
        (&[&[0], &[1]], "3:1", Some("0,7"), "--nodes: \"0,7\": there is no 7, the machine has 0-1"),
        (&[&[0], &[1]], "3:1", Some("0,0"), "3:1 has 2 weights, and --nodes 0,0 names 1"),
        (
            &[&[0, 1, 2], &[3]],
            "251:250",
            None,
            "251:250 makes 750 pages in a round on node 3, and 255 is most",
        ),
    ];
    for (tiers, weights, named, expected) in table {
        assert_eq!(place(&machine(tiers, true), weights, named).unwrap_err(), expected);
    }
}

#[test]
fn a_node_that_may_not_be_used_is_named() {
    let allowed: IdList = [0].into_iter().collect();
    let weights = "3:1".parse().unwrap();
    let machine = machine(&[&[0], &[1]], true);
    let why = Placement::new(&machine, &weights, None, Some(&allowed)).unwrap_err();
    assert_eq!(why.to_string(), "node 1 is not among those that this process may use: 0");
    let first = "1:0".parse().unwrap();
    assert!(Placement::new(&machine, &first, None, Some(&allowed)).is_ok());
}

#[test]
fn only_necessary_settings_are_written() {
    let placed = |weighted, weights| {
        let machine = machine(&[&[0], &[1]], weighted);
        let placement = place(&machine, weights, None).unwrap();
        let settings = placement.settings(&machine);
        let texts: Vec<String> = settings.into_iter().map(|setting| setting.text).collect();
        (placement.policy().to_string(), texts.join(" "), placement.means)
    };
    let weighted = ("weighted interleave:0-1".to_string(), "false 3 1".to_string());
    let plain = ("interleave:0-1".to_string(), String::new());
    assert_eq!(placed(true, "3:1"), (weighted.0, weighted.1, Means::Weighted));
    assert_eq!(placed(true, "2:2"), (plain.0.clone(), plain.1.clone(), Means::Interleave));
    assert_eq!(placed(false, "3:1"), (plain.0.clone(), plain.1.clone(), Means::Moved));
    assert_eq!(placed(false, "1:1"), (plain.0, plain.1, Means::Interleave));
    assert_eq!(placed(true, "0:1").0, "interleave:1");
}

proptest! {
    /// Each tier's share of the pages is its weight divided by the sum of the weights, whatever its
    /// number of nodes is.
    #[test]
    fn tiers_get_their_part(counts in prop::collection::vec(1u32..5, 2..4), seed in 1u16..60) {
        let mut next = 0;
        let tiers: Vec<Vec<u32>> = counts
            .iter()
            .map(|count| { next += count; (next - count..next).collect() })
            .collect();
        let weights: Vec<u16> = (0..tiers.len() as u16).map(|at| seed % (7 + at) + 1).collect();
        let weights = Weights::new(weights).unwrap();
        let slices: Vec<&[u32]> = tiers.iter().map(Vec::as_slice).collect();
        prop_assume!(tiers.len() != next as usize);
        let placement =
            Placement::new(&machine(&slices, true), &weights, None, None).unwrap();
        let shares = placement.shares();
        for (tier, expected) in tiers.iter().zip(weights.shares()) {
            let nodes = placement.nodes.iter().zip(&shares);
            let got: f64 = nodes.filter(|((id, _), _)| tier.contains(id)).map(|(_, s)| s).sum();
            prop_assert!((got - expected).abs() < 1e-12);
        }
    }
}
