//! Closed queueing networks in product form, by convolution.
//!
//! `customers` circulate among stations. Station `i` gets the fraction `visit_i` of all work, and
//! serves `n` customers at the rate `rate_i(n)`. The probability of `n_i` customers at each station
//! is a product of one factor per station,
//!
//! ```text
//! f_i(n) = visit_i^n / (rate_i(1) rate_i(2) ... rate_i(n)),
//! ```
//!
//! divided by G(customers). G is the sum of this product over all divisions of the customers among
//! the stations. It is computed by convolving the factors of one station after another (`fold`).
//! The throughput of the network is G(customers - 1) / G(customers).

use std::{borrow::Cow, slice::ChunksExact};

/// A station of a queueing network: a server with a queue.
#[derive(Clone, Debug)]
pub struct Station {
    /// The fraction of all work that is done at this station; above 0.
    pub visit: f64,
    /// Entry `n` is the service rate while `n + 1` customers are at the station. The number of
    /// entries is the number of customers in the network. All rates are above 0.
    pub rates: Vec<f64>,
}

/// The solution of a closed queueing network.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Work that the network does per unit of time.
    pub throughput: f64,
    /// Row `i` has the probabilities of 0, 1, ... customers at station `i`.
    pub occupancy: Rows,
}

/// Rows of numbers, all of the same length, in one allocation: a simulation solves millions of
/// networks with few customers and stations, so each allocation counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f64>,
}

impl Rows {
    /// Creates `rows` rows of `width` zeros.
    pub fn new(rows: usize, width: usize) -> Self {
        Self { width, values: vec![0.0; rows * width] }
    }

    /// Row `at` (0-based).
    pub fn row(&self, at: usize) -> &[f64] {
        &self.values[at * self.width..][..self.width]
    }

    /// Row `at` (0-based), for writing.
    pub fn row_mut(&mut self, at: usize) -> &mut [f64] {
        &mut self.values[at * self.width..][..self.width]
    }

    /// All rows, in order. The iterator is empty if the rows have no numbers.
    pub fn rows(&self) -> ChunksExact<'_, f64> {
        self.values.chunks_exact(self.width.max(1))
    }

    /// True if there are `rows` rows of `width` numbers.
    pub fn is_of(&self, rows: usize, width: usize) -> bool {
        self.width == width && self.values.len() == rows * width
    }

    /// Writes the convolution of row `from` with `factors` to row `to`. The two rows are adjacent.
    fn fold(&mut self, from: usize, factors: &[f64], to: usize) {
        let (before, behind) = self.values.split_at_mut(from.max(to) * self.width);
        let lower = &mut before[from.min(to) * self.width..];
        let upper = &mut behind[..self.width];
        match from < to {
            true => fold(lower, factors, upper),
            false => fold(upper, factors, lower),
        }
    }
}

/// For each station the factors f_i(n) = visit_i^n / (rate_i(1) ... rate_i(n)), each multiplied by
/// `scale`^n, which keeps them within the range of floating point.
struct Factors {
    scale: f64,
    of_station: Rows,
}

impl Factors {
    fn new(stations: &[Station]) -> Self {
        let bound = |station: &Station| station.rates[station.rates.len() - 1] / station.visit;
        let scale = stations.iter().map(bound).fold(f64::INFINITY, f64::min);
        let mut of_station = Rows::new(stations.len(), stations[0].rates.len() + 1);
        for (at, station) in stations.iter().enumerate() {
            let (first, rest) = of_station.row_mut(at).split_at_mut(1);
            let mut factor = 1.0;
            first[0] = factor;
            for (slot, rate) in rest.iter_mut().zip(&station.rates) {
                factor *= scale * station.visit / rate;
                *slot = factor;
            }
        }
        Self { scale, of_station }
    }

    fn width(&self) -> usize {
        self.of_station.width
    }

    /// Returns two lists of convolutions of the stations' factors. Row `i` of the first has the
    /// convolution of all stations before `i`, so its last row has that of all stations. Row `i` of
    /// the second has the convolution of station `i` and all stations after it.
    fn folded(&self) -> (Rows, Rows) {
        let (stations, width) = (self.of_station.rows().len(), self.width());
        let (mut before, mut after) =
            (Rows::new(stations + 1, width), Rows::new(stations + 1, width));
        before.row_mut(0)[0] = 1.0;
        before.row_mut(1).copy_from_slice(self.of_station.row(0));
        for at in 1..stations {
            before.fold(at, self.of_station.row(at), at + 1);
        }
        after.row_mut(stations)[0] = 1.0;
        after.row_mut(stations - 1).copy_from_slice(self.of_station.row(stations - 1));
        for at in (0..stations - 1).rev() {
            after.fold(at + 1, self.of_station.row(at), at);
        }
        (before, after)
    }

    /// The convolution of the factors of all stations except the last; `None` with only one
    /// station.
    fn before_last(&self) -> Option<Cow<'_, [f64]>> {
        let last = self.of_station.rows().len().checked_sub(1).filter(|last| *last > 0)?;
        let mut folded = Cow::Borrowed(self.of_station.row(0));
        for at in 1..last {
            let mut next = vec![0.0; self.width()];
            fold(&folded, self.of_station.row(at), &mut next);
            folded = Cow::Owned(next);
        }
        Some(folded)
    }
}

/// Solves the closed queueing network of `stations`, which must not be empty. The number of
/// customers that circulate is the number of rates of each station. Returns the throughput, and for
/// each station the probabilities of the numbers of customers at it.
pub fn solve(stations: &[Station]) -> Solution {
    let customers = stations[0].rates.len();
    let mut occupancy = Rows::new(stations.len(), customers + 1);
    if let [only] = stations {
        occupancy.row_mut(0)[customers] = 1.0;
        return Solution { throughput: only.rates[customers - 1] / only.visit, occupancy };
    }
    let factors = Factors::new(stations);
    let (before, after) = factors.folded();
    let all = before.row(stations.len());
    let mut others = vec![0.0; customers + 1];
    for at in 0..stations.len() {
        fold(before.row(at), after.row(at + 1), &mut others);
        let own = factors.of_station.row(at);
        for (n, chance) in occupancy.row_mut(at).iter_mut().enumerate() {
            *chance = own[n] * others[customers - n] / all[customers];
        }
    }
    Solution { throughput: factors.scale * all[customers - 1] / all[customers], occupancy }
}

/// Computes the throughput of the network of `stations`, which must not be empty. Costs less than
/// [`solve`], because it does not compute the occupancy.
pub fn throughput(stations: &[Station]) -> f64 {
    let customers = stations[0].rates.len();
    let factors = Factors::new(stations);
    let Some(before) = factors.before_last() else {
        return stations[0].rates[customers - 1] / stations[0].visit;
    };
    let last = factors.of_station.row(stations.len() - 1);
    let all = |n| fold_at(&before, last, n);
    factors.scale * all(customers - 1) / all(customers)
}

/// Returns the throughputs of the network of `stations` for 1, 2, ... customers: entry `n` is for
/// `n + 1` customers.
pub fn throughputs(stations: &[Station]) -> Vec<f64> {
    let factors = Factors::new(stations);
    let last = factors.of_station.row(stations.len() - 1);
    let mut all = last.to_vec();
    if let Some(before) = factors.before_last() {
        fold(&before, last, &mut all);
    }
    all.windows(2).map(|pair| factors.scale * pair[0] / pair[1]).collect()
}

/// Writes to `occupancy` the probabilities of 0, 1, ... customers at station `within`. `chances[n]`
/// is the probability that the whole network has n customers.
pub fn occupancy_of(stations: &[Station], within: usize, chances: &[f64], occupancy: &mut [f64]) {
    let factors = Factors::new(stations);
    let (before, after) = factors.folded();
    let mut others = vec![0.0; factors.width()];
    fold(before.row(within), after.row(within + 1), &mut others);
    let (own, all) = (factors.of_station.row(within), before.row(stations.len()));
    for (n, chance) in occupancy.iter_mut().enumerate() {
        let of = |sum: usize| chances[sum] * own[n] * others[sum - n] / all[sum];
        *chance = (n..chances.len()).map(of).sum();
    }
}

/// Convolves `a` and `b`, the factors of two stations or groups of stations, into `folded`. Entry n
/// of `folded` becomes the sum over all divisions of n customers between the two ([`fold_at`]).
fn fold(a: &[f64], b: &[f64], folded: &mut [f64]) {
    for (n, sum) in folded.iter_mut().enumerate() {
        *sum = fold_at(a, b, n);
    }
}

/// Returns the sum of `a[i] * b[n - i]` over all i from 0 to `n`: of `n` customers, i are at the
/// station or group with the factors `a`, and n - i at that with the factors `b`.
fn fold_at(a: &[f64], b: &[f64], n: usize) -> f64 {
    a[..=n].iter().zip(b[..=n].iter().rev()).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn constant(visit: f64, rate: f64, customers: usize) -> Station {
        Station { visit, rates: vec![rate; customers] }
    }

    #[test]
    fn two_equal_queues_reach_k_over_k_plus_one() {
        for customers in [1, 2, 10, 100] {
            let stations = [constant(0.5, 1.0, customers), constant(0.5, 1.0, customers)];
            let k = customers as f64;
            let throughput = solve(&stations).throughput;
            assert!((throughput / (2.0 * k / (k + 1.0)) - 1.0).abs() < 1e-12, "{customers}");
        }
    }

    #[test]
    fn without_queueing_times_add_up() {
        // The rate of each station is proportional to its customers, so no customer waits for
        // another. A unit of work of one customer takes the time 0.7/3 + 0.3/1, so 8 customers have
        // a throughput of 8 divided by this time.
        let free = |visit: f64, rate: f64| Station {
            visit,
            rates: (1..=8).map(|n| rate * f64::from(n)).collect(),
        };
        let throughput = solve(&[free(0.7, 3.0), free(0.3, 1.0)]).throughput;
        assert!((throughput / (8.0 / (0.7 / 3.0 + 0.3)) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn work_is_conserved(
            shape in prop::collection::vec((0.05..1.0f64, 0.1..1e3f64), 1..6),
            customers in 1..64usize,
        ) {
            let stations: Vec<_> =
                shape.iter().map(|&(visit, rate)| constant(visit, rate, customers)).collect();
            let solution = solve(&stations);
            let mut there = 0.0;
            for (at, station) in stations.iter().enumerate() {
                let occupancy = solution.occupancy.row(at);
                let sum: f64 = occupancy.iter().sum();
                prop_assert!((sum - 1.0).abs() < 1e-9);
                // The work that a station does per unit of time is its visit fraction times the
                // throughput of the network.
                let done = (1.0 - occupancy[0]) * station.rates[0];
                prop_assert!((done / (solution.throughput * station.visit) - 1.0).abs() < 1e-6);
                there += occupancy.iter().enumerate().map(|(n, p)| n as f64 * p).sum::<f64>();
            }
            prop_assert!((there / customers as f64 - 1.0).abs() < 1e-9);
            let last = *throughputs(&stations).last().unwrap();
            prop_assert!((last / solution.throughput - 1.0).abs() < 1e-9);
            prop_assert_eq!(throughput(&stations), solution.throughput);
        }
    }
}
