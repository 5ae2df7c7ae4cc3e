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
//! divided by G(customers). G is the sum of this product over all distributions of customers. It is
//! computed by convolving the factors of one station after another (`fold`). The throughput is
//! G(customers - 1) / G(customers).

/// A station of the network.
#[derive(Clone, Debug)]
pub struct Station {
    /// The fraction of all work at this station; above 0.
    pub visit: f64,
    /// The service rate while 1, 2, ... customers are at the station, up to all customers of the
    /// network; above 0.
    pub rates: Vec<f64>,
}

/// The solution of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Work per unit of time, of all stations together.
    pub throughput: f64,
    /// The probability of 0, 1, ... customers at each station.
    pub occupancy: Vec<Vec<f64>>,
}

/// The factors f_i(n) = visit_i^n / (rate_i(1) ... rate_i(n)) of each station, multiplied by
/// `scale`^n. The scale keeps them within the range of floating point.
struct Factors {
    scale: f64,
    of_station: Vec<Vec<f64>>,
}

impl Factors {
    fn new(stations: &[Station]) -> Self {
        let bound = |station: &Station| station.rates[station.rates.len() - 1] / station.visit;
        let scale = stations.iter().map(bound).fold(f64::INFINITY, f64::min);
        let factors = |station: &Station| {
            let mut factor = 1.0;
            let mut factors = Vec::with_capacity(station.rates.len() + 1);
            factors.push(factor);
            for rate in &station.rates {
                factor *= scale * station.visit / rate;
                factors.push(factor);
            }
            factors
        };
        Self { scale, of_station: stations.iter().map(factors).collect() }
    }

    /// Returns the convolved factors of the stations before and after each station. `before[i]` has
    /// all stations before `i`, and the last entry of `before` has all stations. `after[i]` has
    /// station `i` and all stations after it.
    fn folded(&self) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
        let mut none = vec![0.0; self.of_station[0].len()];
        none[0] = 1.0;
        let mut before = vec![none.clone(), self.of_station[0].clone()];
        for factors in &self.of_station[1..] {
            before.push(fold(&before[before.len() - 1], factors));
        }
        let (last, rest) = (self.of_station.len() - 1, &self.of_station);
        let mut after = vec![none, rest[last].clone()];
        for factors in rest[..last].iter().rev() {
            after.push(fold(&after[after.len() - 1], factors));
        }
        after.reverse();
        (before, after)
    }

    /// The convolved factors of all stations before the last one; `None` if there is only one
    /// station.
    fn before_last(&self) -> Option<Vec<f64>> {
        let (first, rest) = self.of_station.split_first()?;
        let (_, between) = rest.split_last()?;
        Some(between.iter().fold(first.clone(), |folded, factors| fold(&folded, factors)))
    }
}

/// Solves the network of `stations` (not empty).
pub fn solve(stations: &[Station]) -> Solution {
    let customers = stations[0].rates.len();
    if let [only] = stations {
        let mut occupancy = vec![0.0; customers + 1];
        occupancy[customers] = 1.0;
        let throughput = only.rates[customers - 1] / only.visit;
        return Solution { throughput, occupancy: vec![occupancy] };
    }
    let factors = Factors::new(stations);
    let (before, after) = factors.folded();
    let all = &before[stations.len()];
    let occupancy = (0..stations.len())
        .map(|at| {
            let others = fold(&before[at], &after[at + 1]);
            let own = &factors.of_station[at];
            (0..=customers).map(|n| own[n] * others[customers - n] / all[customers]).collect()
        })
        .collect();
    let throughput = factors.scale * all[customers - 1] / all[customers];
    Solution { throughput, occupancy }
}

/// The throughput of the network of `stations` (not empty), as in [`solve`]. It costs less than
/// [`solve`], because no occupancy is computed.
pub fn throughput(stations: &[Station]) -> f64 {
    let customers = stations[0].rates.len();
    let factors = Factors::new(stations);
    let Some(before) = factors.before_last() else {
        return stations[0].rates[customers - 1] / stations[0].visit;
    };
    let last = &factors.of_station[stations.len() - 1];
    let all = |n| fold_at(&before, last, n);
    factors.scale * all(customers - 1) / all(customers)
}

/// The throughput of the network of `stations` for each number of customers: 1, 2, ...
pub fn throughputs(stations: &[Station]) -> Vec<f64> {
    let factors = Factors::new(stations);
    let last = &factors.of_station[stations.len() - 1];
    let all = match factors.before_last() {
        Some(before) => fold(&before, last),
        None => last.clone(),
    };
    all.windows(2).map(|pair| factors.scale * pair[0] / pair[1]).collect()
}

/// The probability of 0, 1, ... customers at the station with the index `within`, if the number of
/// customers in the whole network is n with the probability `chances[n]`.
pub fn occupancy_of(stations: &[Station], within: usize, chances: &[f64]) -> Vec<f64> {
    let factors = Factors::new(stations);
    let (before, after) = factors.folded();
    let others = fold(&before[within], &after[within + 1]);
    let (own, all) = (&factors.of_station[within], &before[stations.len()]);
    let at = |n: usize| {
        (n..chances.len()).map(|sum| chances[sum] * own[n] * others[sum - n] / all[sum]).sum()
    };
    (0..chances.len()).map(at).collect()
}

/// Convolves the factors `a` and `b` of two stations, or of two groups of stations: entry n of the
/// result is the sum over all distributions of n customers to the two ([`fold_at`]).
fn fold(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len()).map(|n| fold_at(a, b, n)).collect()
}

/// The sum of `a[i] * b[n - i]` over all distributions of `n` customers to two stations or groups
/// of stations: i customers at the first, n - i at the second.
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
        // another. A customer takes the time 0.7/3 + 0.3/1 for one unit of work, and the throughput
        // of 8 customers is 8 divided by this time.
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
            for (station, occupancy) in stations.iter().zip(&solution.occupancy) {
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
