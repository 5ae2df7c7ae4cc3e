#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const HUGE: u32 = 512;

fn target(weights: &[(u32, u32)]) -> Target {
    Target::new(weights.iter().copied()).unwrap()
}

/// Returns base pages, from the address `start` on, at the locations `places`.
fn pages(start: u64, places: impl IntoIterator<Item = PageLocation>) -> Vec<Unit> {
    let unit = |(at, location)| Unit { address: start + at as u64 * PAGE, pages: 1, location };
    places.into_iter().enumerate().map(unit).collect()
}

fn carry_out(units: &mut [Unit], plan: &Plan) {
    for Move { unit, from, to } in &plan.moves {
        assert_eq!(units[*unit].location, PageLocation::OnNode(*from));
        units[*unit].location = PageLocation::OnNode(*to);
    }
}

fn node(unit: &Unit) -> Option<u32> {
    match unit.location {
        PageLocation::NotResident => None,
        PageLocation::OnNode(node) | PageLocation::Unmovable(node) => Some(node),
    }
}

/// Counts the units (pages and huge pages) on each node for which `wanted` is true.
fn count(units: &[Unit], wanted: impl Fn(&Unit) -> bool) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for found in units.iter().filter(|unit| wanted(unit)).filter_map(node) {
        *counts.entry(found).or_default() += 1;
    }
    counts
}

#[test]
fn invalid_targets_are_refused() {
    assert_eq!(Target::new([(0, 1), (0, 2)]), Err(TargetError::Twice(0)));
    assert_eq!(Target::new([(0, 0)]), Err(TargetError::Nowhere));
    assert_eq!(Target::new([]), Err(TargetError::Nowhere));
    assert_eq!(Target::new([(0, u32::MAX), (1, 1)]), Err(TargetError::TooLarge(1 << 32)));
    let absent = target(&[(0, 1), (3, 0), (5, 2)]).check(&[0, 1].into_iter().collect());
    let message = "no node 3,5 with memory: the machine has 0-1";
    assert_eq!(absent.unwrap_err().to_string(), message);
    let some = target(&[(0, 3), (1, 1), (2, 0)]);
    assert_eq!((some.nodes().to_string(), some.share(1), some.share(7)), ("0-1".into(), 0.25, 0.0));
}

#[test]
fn a_ratio_is_reached_page_by_page() {
    let mut units = pages(0, [PageLocation::OnNode(0); 1536]);
    let plan = Planner::new(&target(&[(0, 60), (1, 40)]), PAGE).plan(&units);
    let of_window =
        |window: usize| plan.moves.iter().filter(|found| found.unit / 512 == window).count();
    assert_eq!([of_window(0), of_window(1), of_window(2)], [205, 204, 205]);
    let gaps = plan.moves.windows(2).map(|pair| pair[1].unit - pair[0].unit);
    assert!(gaps.clone().min() >= Some(2) && gaps.max() <= Some(4), "{plan:?}");
    carry_out(&mut units, &plan);
    let again = Planner::new(&target(&[(0, 60), (1, 40)]), PAGE).plan(&units);
    assert_eq!(again, Plan::default());
}

#[test]
fn only_the_missing_share_moves() {
    // Pages alternate between nodes 0 and 1, and the target is 60:40. Only a tenth of the pages
    // moves. Interleaving all pages anew would move half of them.
    let mut units = pages(0, (0..51200).map(|at| PageLocation::OnNode(at % 2)));
    let plan = Planner::new(&target(&[(0, 60), (1, 40)]), PAGE).plan(&units);
    assert_eq!(plan.moves.len(), 5120);
    assert!(plan.moves.iter().all(|found| (found.from, found.to) == (1, 0)));
    carry_out(&mut units, &plan);
    assert_eq!(count(&units, |_| true), BTreeMap::from([(0, 30720), (1, 20480)]));
}

#[test]
fn nodes_outside_the_target_are_left() {
    let units = pages(0, (0..512).map(|at| PageLocation::OnNode([0, 7, 9][at % 3])));
    let plan = Planner::new(&target(&[(0, 1), (1, 1), (7, 0)]), PAGE).plan(&units);
    assert_eq!(plan.moves.len(), 171 + 170, "all of 7 and 9");
    assert!(plan.moves.iter().all(|found| found.from != 0 && found.to < 2));
    assert_eq!(plan.moves.iter().filter(|found| found.to == 1).count(), 256);
}

#[test]
fn huge_pages_go_as_a_whole() {
    let place =
        |at: u64| Unit { address: at << 21, pages: HUGE, location: PageLocation::OnNode(0) };
    let mut units: Vec<Unit> = (0..100).map(place).collect();
    let plan = Planner::new(&target(&[(0, 3), (1, 1)]), PAGE).plan(&units);
    assert_eq!(plan.moves.len(), 25);
    carry_out(&mut units, &plan);
    let again = Planner::new(&target(&[(0, 3), (1, 1)]), PAGE).plan(&units);
    assert_eq!(again, Plan::default());
}

#[test]
fn other_pages_replace_stuck_ones() {
    let place = |at| if at % 2 == 0 { PageLocation::Unmovable(0) } else { PageLocation::OnNode(0) };
    let mut units = pages(0, (0..512).map(place));
    let plan = Planner::new(&target(&[(0, 3), (1, 1)]), PAGE).plan(&units);
    assert_eq!((plan.moves.len(), plan.unmovable.len()), (128, 0), "there are enough others");
    carry_out(&mut units, &plan);
    let plan = Planner::new(&target(&[(0, 1), (1, 3)]), PAGE).plan(&units);
    assert_eq!(
        (plan.moves.len(), plan.unmovable.len()),
        (128, 128),
        "half is stuck, a quarter may be"
    );
    carry_out(&mut units, &plan);
    let plan = Planner::new(&target(&[(0, 1), (1, 3)]), PAGE).plan(&units);
    assert_eq!((plan.moves.len(), plan.unmovable.len()), (0, 128));
}

#[test]
fn odd_input_never_panics() {
    let odd = [(u64::MAX, u32::MAX, 3), (0, 0, u32::MAX), (7, 1, 0), (7, 1, 0), (3, 2, 1)];
    let unit =
        |(address, pages, node)| Unit { address, pages, location: PageLocation::OnNode(node) };
    let units: Vec<Unit> = odd.into_iter().map(unit).collect();
    let weights = target(&[(u32::MAX, u32::MAX), (2, 0)]);
    assert_eq!(Planner::new(&weights, 0).plan(&units).moves.len(), 4);
    assert_eq!(Planner::new(&weights, PAGE).plan(&[]), Plan::default());
}

// --- Properties ---------------------------------------------------------------------------------

prop_compose! {
    /// Generates targets of up to 5 nodes with weights, of which at least one is above zero.
    fn any_target()(
        first in (0..6_u32, 1..300_u32),
        more in prop::collection::btree_map(0..6_u32, 0..300_u32, 0..5),
    ) -> Target {
        let mut all = more;
        all.insert(first.0, first.1);
        Target::new(all).unwrap()
    }
}

fn any_location() -> impl Strategy<Value = PageLocation> {
    prop_oneof![
        1 => Just(PageLocation::NotResident),
        4 => (0..6_u32).prop_map(PageLocation::OnNode),
    ]
}

prop_compose! {
    /// Generates runs of neighbouring pages with the same size and location, as memory has them,
    /// with gaps between the runs. Some runs consist of huge pages.
    fn any_units()(
        runs in
            prop::collection::vec((any_location(), 1..400_usize, 0..700_u64, any::<bool>()), 0..8),
        start in 0..1000_u64,
    ) -> Vec<Unit> {
        let mut units = vec![];
        let mut at = start;
        for (location, count, gap, huge) in runs {
            at += gap;
            let (size, count) = if huge { (HUGE, count / 8) } else { (1, count) };
            at = at.next_multiple_of(u64::from(size));
            for _ in 0..count {
                units.push(Unit { address: at * PAGE, pages: size, location });
                at += u64::from(size);
            }
        }
        units
    }
}

proptest! {
    #[test]
    fn the_whole_is_right_to_one_unit(target in any_target(), mut units in any_units()) {
        let plan = Planner::new(&target, PAGE).plan(&units);
        carry_out(&mut units, &plan);
        for size in [1, HUGE] {
            let counts = count(&units, |unit| unit.pages == size);
            let all: u64 = counts.values().sum();
            for node in counts.keys().copied().chain(target.weights().map(|(node, _)| node)) {
                let has = counts.get(&node).copied().unwrap_or(0) as f64;
                let wanted = target.share(node) * all as f64;
                prop_assert!((has - wanted).abs() < 1.0, "{node} of {size}: {has} for {wanted}");
            }
        }
    }

    #[test]
    fn nothing_moves_at_the_target(target in any_target(), mut units in any_units()) {
        let plan = Planner::new(&target, PAGE).plan(&units);
        carry_out(&mut units, &plan);
        prop_assert_eq!(Planner::new(&target, PAGE).plan(&units), Plan::default());
    }

    /// In each window of addresses, the number of moves of units of one size (base pages or huge
    /// pages) equals the total decrease of the nodes that lose such units. A plan with fewer moves
    /// could not give the nodes these numbers of units.
    #[test]
    fn no_page_moves_in_vain(target in any_target(), units in any_units()) {
        let plan = Planner::new(&target, PAGE).plan(&units);
        let mut after = units.clone();
        carry_out(&mut after, &plan);
        for size in [1, HUGE] {
            let bytes = if size == 1 { 2 << 20 } else { 128 << 20 };
            let mut windows: Vec<u64> = units.iter().map(|unit| unit.address / bytes).collect();
            windows.dedup();
            for window in windows {
                let within = |unit: &Unit| unit.pages == size && unit.address / bytes == window;
                let (had, has) = (count(&units, within), count(&after, within));
                let lost = |(node, had): (&u32, &u64)| {
                    had.saturating_sub(has.get(node).copied().unwrap_or(0))
                };
                let least: u64 = had.iter().map(lost).sum();
                let moves = plan.moves.iter().filter(|found| within(&units[found.unit]));
                prop_assert_eq!(moves.count() as u64, least);
            }
        }
    }

    #[test]
    fn absent_and_stuck_pages_stay(
        target in any_target(),
        mut units in any_units(),
        stuck in prop::collection::vec(0..2000_usize, 0..200),
    ) {
        for at in stuck {
            let Some(Unit { location, .. }) = units.get_mut(at) else { continue };
            if let PageLocation::OnNode(node) = *location {
                *location = PageLocation::Unmovable(node);
            }
        }
        let plan = Planner::new(&target, PAGE).plan(&units);
        prop_assert!(plan.moves.iter().all(|found| found.from != found.to));
        // `carry_out` panics if a moving unit is not resident, unmovable, or listed twice.
        carry_out(&mut units, &plan);
        let again = Planner::new(&target, PAGE).plan(&units);
        prop_assert_eq!(&again.moves, &[], "also with what is stuck, a second time is nothing");
        prop_assert_eq!(again.unmovable, plan.unmovable);
    }

    #[test]
    fn stretch_after_stretch_is_the_whole(target in any_target(), units in any_units()) {
        let small: Vec<Unit> = units.into_iter().filter(|unit| unit.pages == 1).collect();
        let whole = Planner::new(&target, PAGE).plan(&small);
        let mut planner = Planner::new(&target, PAGE);
        let mut moves = vec![];
        let mut first = 0;
        for stretch in small.chunk_by(|a, b| a.address >> 21 == b.address >> 21) {
            let found = planner.plan(stretch).moves.into_iter();
            moves.extend(found.map(|found| Move { unit: found.unit + first, ..found }));
            first += stretch.len();
        }
        prop_assert_eq!(moves, whole.moves);
    }
}
