//! Keeps the pages of a task in groups.
//!
//! The pages of a group are on one tier and equally hot. Groups are in the order of addresses.
//! Bytes and hotness are integers, so migration conserves the sum of the bytes and the sum of the
//! hotness exactly.
//!
//! Interleaving derives the tier of a group from its address and the shares alone. Group `i` has
//! the number `i x 0.618...` modulo 1. The numbers of any range of groups are spread evenly between
//! 0 and 1.
//! Each tier owns a part of this interval, proportional to its share. Thus any range of addresses
//! is interleaved in the ratio of the shares, and moving n percentage points of share between two
//! neighbouring tiers moves only n % of the pages. (Linux uses the offset modulo the sum of the
//! weights for the same purpose.)

use interleaf_model::demand::Hotness;

/// The hotness of a page group is a whole number of units, at least one. This constant is the
/// number of units that all groups of a task have together.
const HEAT_UNITS: f64 = (1u64 << 40) as f64;

/// The address space is divided into blocks of page groups. The number of blocks is the square of
/// this constant. Two blocks that are neighbours in the order of hotness are mostly this number of
/// blocks apart in the address space.
const BLOCKS_PER_AXIS: usize = 16;

/// The fractional part of the golden ratio, times 2^64. Its multiples modulo 2^64 are spread more
/// evenly than the multiples of any other number (Knuth, The Art of Computer Programming, volume 3,
/// section 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The pages of a task: the tier and the hotness of each page group.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    tier: Vec<u8>,
    /// The accesses of each group, in units of hotness ([`HEAT_UNITS`]).
    heat: Vec<u64>,
    bytes: u64,
    /// The first `larger` groups have `group_bytes + 1` bytes, the others `group_bytes`.
    group_bytes: u64,
    larger: usize,
    all_heat: u64,
    heat_on: Vec<u64>,
    bytes_on: Vec<u64>,
    moves: u64,
}

impl Pages {
    /// Creates the pages of a task: `bytes` bytes in `groups` groups, all on tier 0 of `tiers`
    /// tiers.
    pub(super) fn new(bytes: u64, groups: usize, hotness: Hotness, tiers: usize) -> Self {
        let groups = groups.clamp(1, usize::try_from(bytes).unwrap_or(usize::MAX).max(1));
        let heat = heat(groups, hotness);
        let all_heat = heat.iter().sum();
        let mut heat_on = vec![0; tiers];
        let mut bytes_on = vec![0; tiers];
        heat_on[0] = all_heat;
        bytes_on[0] = bytes;
        Self {
            tier: vec![0; groups],
            heat,
            bytes,
            group_bytes: bytes / groups as u64,
            larger: (bytes % groups as u64) as usize,
            all_heat,
            heat_on,
            bytes_on,
            moves: 0,
        }
    }

    pub(super) fn groups(&self) -> usize {
        self.tier.len()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes of `group`. The sizes of two groups differ by at most one byte.
    pub(super) fn group_bytes(&self, group: usize) -> u64 {
        self.group_bytes + u64::from(group < self.larger)
    }

    /// Returns, for each tier, the bytes of the page groups from `start` to `end` (excluded) on
    /// this tier.
    pub(super) fn bytes_within(&self, start: usize, end: usize) -> impl Iterator<Item = u64> {
        let larger = self.larger.clamp(start, end);
        (0..self.bytes_on.len()).map(move |tier| {
            let on = |groups: &[u8]| groups.iter().filter(|t| usize::from(**t) == tier).count();
            let more = on(&self.tier[start..larger]);
            let all = more + on(&self.tier[larger..end]);
            all as u64 * self.group_bytes + more as u64
        })
    }

    /// Returns how often a page group was assigned to a tier. If two calls return the same number,
    /// no group has moved between the two calls.
    pub(super) const fn moves(&self) -> u64 {
        self.moves
    }

    pub(super) fn tier(&self, group: usize) -> usize {
        usize::from(self.tier[group])
    }

    /// Returns the fraction of all accesses that go to `group`.
    pub(super) fn access_share(&self, group: usize) -> f64 {
        self.heat[group] as f64 / self.all_heat as f64
    }

    pub(super) fn bytes_on(&self) -> &[u64] {
        &self.bytes_on
    }

    /// Returns the fraction of accesses to each tier; they sum to 1.
    pub(super) fn access_shares(&self) -> Vec<f64> {
        self.heat_on.iter().map(|heat| *heat as f64 / self.all_heat as f64).collect()
    }

    pub(super) fn assign(&mut self, group: usize, to: usize) {
        let (from, bytes) = (self.tier(group), self.group_bytes(group));
        self.moves += 1;
        self.tier[group] = to as u8;
        self.heat_on[from] -= self.heat[group];
        self.heat_on[to] += self.heat[group];
        self.bytes_on[from] -= bytes;
        self.bytes_on[to] += bytes;
    }
}

/// Spreads page groups over the tiers in the ratio of given shares. The tier of a group follows
/// from the group's index alone; neighbouring groups are mixed over the tiers.
#[derive(Clone, Debug)]
pub(super) struct Interleaving {
    /// The end of each tier's range of numbers, excluded. A group has the number `group * GOLDEN`
    /// modulo 2^64, and is on the tier whose range has this number.
    ends: Vec<u64>,
    /// The last tier with a share above 0.
    last: usize,
}

impl Interleaving {
    pub(super) fn new(shares: &[f64]) -> Self {
        let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        let mut sum = 0.0;
        let ends = shares.iter().map(|share| {
            sum += share;
            // The conversion saturates, so a sum of 1 gives the largest integer.
            (sum * (u64::MAX as f64)) as u64
        });
        Self { ends: ends.collect(), last }
    }

    pub(super) fn tier(&self, group: usize) -> usize {
        let place = (group as u64).wrapping_mul(GOLDEN);
        self.ends[..self.last].iter().position(|end| place < *end).unwrap_or(self.last)
    }
}

/// Returns the hotness of each page group in [`HEAT_UNITS`], in the order of addresses.
fn heat(groups: usize, hotness: Hotness) -> Vec<u64> {
    let by_rank = |rank: usize| match hotness {
        Hotness::Uniform => 1.0,
        Hotness::Zipf { exponent } => libm::pow((rank + 1) as f64, -exponent),
        Hotness::HotSet { pages, accesses } => {
            let groups = groups as f64;
            // If any page is hot, at least one group is hot; if any page is cold, at least one
            // group is cold. Otherwise rounding could leave a small hot set without a group, and
            // all groups would be equally hot.
            let least = if pages > 0.0 { 1.0 } else { 0.0 };
            let most = if pages < 1.0 { (groups - 1.0).max(least) } else { groups };
            let hot = (pages * groups).round().clamp(least, most);
            let cold = groups - hot;
            match (rank as f64) < hot {
                true => accesses / hot,
                false if cold > 0.0 => (1.0 - accesses) / cold,
                false => 0.0,
            }
        }
    };
    let parts: Vec<f64> = (0..groups).map(by_rank).collect();
    let all: f64 = parts.iter().sum();
    let mut heat = vec![0; groups];
    for (rank, part) in parts.iter().enumerate() {
        heat[address(rank, groups)] = ((part / all * HEAT_UNITS) as u64).max(1);
    }
    heat
}

/// Returns the index, in order of addresses, of the group with the index `rank` in order of
/// hotness. Blocks of consecutive ranks are spread over all addresses, because the hot structures
/// of a program lie among cold structures.
fn address(rank: usize, groups: usize) -> usize {
    if groups < BLOCKS_PER_AXIS * BLOCKS_PER_AXIS {
        return rank;
    }
    let run = groups / (BLOCKS_PER_AXIS * BLOCKS_PER_AXIS);
    let (block, within) = (rank / run, rank % run);
    if block >= BLOCKS_PER_AXIS * BLOCKS_PER_AXIS {
        return rank;
    }
    // Block `b` in the order of rank is in row `b / 16` and column `b % 16` of a square of 16 x 16
    // blocks. Read column by column, the square has the blocks in the order of addresses.
    (block % BLOCKS_PER_AXIS * BLOCKS_PER_AXIS + block / BLOCKS_PER_AXIS) * run + within
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_group_has_one_address() {
        for groups in [1, 10, 4096, 5000, 65536] {
            let mut seen = vec![false; groups];
            (0..groups).for_each(|rank| seen[address(rank, groups)] = true);
            assert!(seen.into_iter().all(|seen| seen), "{groups}");
        }
    }

    #[test]
    fn a_small_hot_set_is_a_group_at_least() {
        let share = |pages: f64, group: usize, groups: usize| {
            let hotness = Hotness::HotSet { pages, accesses: 0.9 };
            let pages = Pages::new(1 << 30, groups, hotness, 1);
            (1e6 * pages.access_share(group)).round() / 1e6
        };
        assert_eq!((share(0.001, 0, 100), share(0.001, 1, 100)), (0.9, 0.001_01));
        assert_eq!((share(0.999, 0, 100), share(0.999, 99, 100)), (0.009_091, 0.1));
        assert_eq!((share(0.001, 0, 1), share(0.999, 0, 1), share(1.0, 9, 10)), (1.0, 1.0, 0.1));
    }

    #[test]
    fn interleaving_is_even_over_any_part_of_the_addresses() {
        let interleaving = Interleaving::new(&[0.65, 0.35]);
        for first in [0, 100, 12_345] {
            let on = (first..first + 1000).filter(|group| interleaving.tier(*group) == 0).count();
            assert!((645..=655).contains(&on), "{on} of 1000 from {first}");
        }
        let ends = [[1.0, 0.0], [0.0, 1.0]].map(|shares| Interleaving::new(&shares));
        assert!((0..1000).all(|group| ends[0].tier(group) == 0 && ends[1].tier(group) == 1));
    }

    proptest! {
        #[test]
        fn bytes_and_heat_are_conserved(
            bytes in 1..1u64 << 40,
            groups in 1..5000usize,
            moves in prop::collection::vec((0..5000usize, 0..3usize), 0..200),
            exponent in 0.0..3.0f64,
        ) {
            let mut pages = Pages::new(bytes, groups, Hotness::Zipf { exponent }, 3);
            let heat: u64 = pages.heat_on.iter().sum();
            for (group, to) in moves {
                pages.assign(group % pages.groups(), to);
                prop_assert_eq!(pages.bytes_on().iter().sum::<u64>(), bytes);
                prop_assert_eq!(pages.heat_on.iter().sum::<u64>(), heat);
            }
            let within = |start, end| pages.bytes_within(start, end).collect::<Vec<u64>>();
            prop_assert_eq!(within(0, pages.groups()), pages.bytes_on().to_vec());
            let middle = pages.groups() / 3;
            let (a, b) = (within(0, middle), within(middle, pages.groups()));
            let sums: Vec<u64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            prop_assert_eq!(sums, pages.bytes_on().to_vec());
            let groups = 0..pages.groups();
            prop_assert_eq!(groups.map(|group| pages.group_bytes(group)).sum::<u64>(), bytes);
            prop_assert!((pages.access_shares().iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }

        #[test]
        fn little_moves_when_shares_change_little(first in 0.1..0.9f64, points in 0.0..0.1f64) {
            let [a, b] = [first, first + points].map(|s| Interleaving::new(&[s, 1.0 - s]));
            let moved = (0..10_000).filter(|group| a.tier(*group) != b.tier(*group)).count();
            prop_assert!((moved as f64 / 10_000.0 - points).abs() < 0.002);
        }
    }
}
