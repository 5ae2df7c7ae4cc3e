//! Computes the merits of a configuration for demands that run one after the other.
//!
//! The share `s` of a demand is its part of the run time on the baseline. A configuration runs the
//! demand at the speed `v`, relative to the baseline. While the demand runs, the configuration has
//! the power `P` and the baseline the power `P0`. For the work that takes a second on the baseline,
//! the configuration needs
//!
//! ```text
//! time    sum(t), t = s / v         in s     summed over all demands
//! energy  E = sum(P t)              in J     on the baseline E0 = sum(P0 s). E / E0 is the mean of
//!                                            the demands' energies P t / (P0 s), weighted by their
//!                                            shares P0 s / E0 of the baseline's energy
//! power   E / sum(t)                in W     the mean over the time
//! speed   1 / sum(s / v)                     relative to the baseline: the harmonic mean
//! ```
//!
//! Example: demands with 60 % and 40 % of the time are 1.5 times and 1 times as fast. The work of a
//! second takes 0.4 s + 0.4 s, so the combined speed is 1.25. With 800 W and 600 W the energy is
//! 560 J, and the mean power 700 W.
//!
//! Each demand has its own best weights. The errors of the predicted speeds mostly come from the
//! same curves, so the errors have the same direction and do not cancel. Therefore the lower end of
//! the combined interval is computed from the lower ends of the intervals of all demands, and the
//! upper end from the upper ends.

use super::performance::Performance;
use interleaf_model::predict::Estimate;

/// The predicted performance of each demand on each configuration. Each demand runs alone on the
/// server.
#[derive(Clone, Debug)]
pub(super) struct Predictions {
    /// For each demand, its share of the run time on the baseline configuration.
    pub(super) shares: Vec<f64>,
    /// For each configuration, the performance of each demand, in the order of `shares`.
    pub(super) rows: Vec<Vec<Performance>>,
    /// The index of the baseline configuration in `rows`.
    pub(super) baseline: usize,
}

/// The merits of a configuration for one demand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    /// Work per second, relative to the baseline configuration.
    pub(super) speed: Estimate,
    /// Time that the configuration takes for the demand's part of a baseline second, s. A baseline
    /// second is the work that takes a second on the baseline configuration.
    pub(super) time_s: f64,
    pub(super) power_w: Option<f64>,
    /// Energy of one run, or of one unit of work if the result is a rate, J.
    pub(super) energy_j: Option<f64>,
}

/// The merits of a configuration for all demands of the plan together.
#[derive(Clone, Debug)]
pub(super) struct Merits {
    /// Work per second, relative to the baseline configuration.
    pub(super) speed: Estimate,
    pub(super) power_w: Option<f64>,
    /// Energy, J. With one demand, the energy of one run, or of one unit of work if the result is a
    /// rate. With several demands, the energy of a baseline second: the work that takes a second on
    /// the baseline.
    pub(super) energy_j: Option<f64>,
    pub(super) alone: Vec<Alone>,
}

impl Predictions {
    /// True if the memory of configuration `at` holds each demand. `at` is an index in `rows`.
    pub(super) fn fits(&self, at: usize) -> bool {
        self.rows[at].iter().all(|own| own.fits)
    }

    /// Returns the merits of configuration `at`, an index in `rows`. `power_w` returns the power of
    /// the server for the performance of a demand.
    pub(super) fn merits(
        &self,
        at: usize,
        power_w: impl Fn(&Performance) -> Option<f64>,
    ) -> Merits {
        let pairs = self.rows[at].iter().zip(&self.rows[self.baseline]);
        let alone = pairs.zip(&self.shares).map(|((own, base), share)| {
            let ratios = own.speeds.iter().zip(&base.speeds).map(|(own, base)| own / base);
            let speed = Estimate::of(ratios.collect());
            let power_w = power_w(own);
            Alone {
                speed: if at == self.baseline { speed } else { speed.with_model_spread() },
                time_s: share * base.speed() / own.speed(),
                power_w,
                energy_j: power_w.map(|power_w| power_w / own.speed()),
            }
        });
        let alone: Vec<Alone> = alone.collect();
        if let [one] = alone[..] {
            let Alone { speed, power_w, energy_j, .. } = one;
            return Merits { speed, power_w, energy_j, alone };
        }
        let speed = |end: fn(&Estimate) -> f64| {
            let times = alone.iter().zip(&self.shares);
            // The interval's lower end may be 0, and the speed is a divisor here.
            let times = times.map(|(own, share)| share / end(&own.speed).max(f64::MIN_POSITIVE));
            1.0 / times.sum::<f64>()
        };
        let time_s: f64 = alone.iter().map(|own| own.time_s).sum();
        let energy_j: Option<f64> =
            alone.iter().map(|own| own.power_w.map(|power_w| power_w * own.time_s)).sum();
        Merits {
            speed: Estimate {
                mean: speed(|own| own.mean),
                low: speed(|own| own.low),
                high: speed(|own| own.high),
            },
            power_w: energy_j.map(|energy_j| energy_j / time_s),
            energy_j,
            alone,
        }
    }

    /// Returns a copy of the predictions with other shares of time. The share of demand `at` is
    /// multiplied by `factor`, and is at most 1. The shares of the other demands are scaled so that
    /// all shares sum to 1.
    pub(super) fn with_share(&self, at: usize, factor: f64) -> Self {
        let own = (self.shares[at] * factor).min(1.0);
        let others = (1.0 - own) / (1.0 - self.shares[at]);
        let mut changed = self.clone();
        changed.shares.iter_mut().for_each(|share| *share *= others);
        changed.shares[at] = own;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::performance::Watts;
    use proptest::prelude::*;

    fn performance(speed: f64, power_w: f64) -> Performance {
        Performance::known(speed, Some(Watts { idle: power_w, cores: 0.0, memory: 0.0 }), true)
    }

    fn power_w(own: &Performance) -> Option<f64> {
        own.watts.map(|watts| watts.idle)
    }

    /// Returns predictions for configurations, each given as a pair of speed and power for each
    /// demand. The first configuration is the baseline.
    fn predictions(shares: &[f64], rows: &[&[(f64, f64)]]) -> Predictions {
        let row = |row: &&[(f64, f64)]| row.iter().map(|own| performance(own.0, own.1)).collect();
        Predictions { shares: shares.into(), rows: rows.iter().map(row).collect(), baseline: 0 }
    }

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-12
    }

    /// Asserts the results of the example in the header of this module.
    #[test]
    fn the_combined_speed_is_the_harmonic_mean_by_the_shares() {
        let rows = [&[(10.0, 700.0), (2.0, 500.0)][..], &[(15.0, 800.0), (2.0, 600.0)]];
        let found = predictions(&[0.6, 0.4], &rows);
        let [base, own] = [0, 1].map(|at| found.merits(at, power_w));
        assert!(near(own.speed.mean, 1.25), "{own:?}");
        assert!(near(own.energy_j.unwrap(), 560.0) && near(own.power_w.unwrap(), 700.0), "{own:?}");
        assert!(near(base.speed.mean, 1.0) && near(base.power_w.unwrap(), 620.0), "{base:?}");
        // The energy relative to the baseline is the mean of the demands' relative energies,
        // weighted by the demands' shares of the baseline's energy.
        let relative =
            |at: usize| own.alone[at].energy_j.unwrap() / base.alone[at].energy_j.unwrap();
        let mean = (420.0 * relative(0) + 200.0 * relative(1)) / 620.0;
        assert!(near(own.energy_j.unwrap() / base.energy_j.unwrap(), mean), "{own:?}");
        let [low, high] = [own.speed.low, own.speed.high];
        assert!(low < 1.25 && 1.25 < high && own.alone.iter().all(|one| one.speed.low > 0.0));
    }

    #[test]
    fn other_demands_have_the_rest_of_the_time() {
        let found = predictions(&[0.5, 0.3, 0.2], &[&[(1.0, 1.0); 3]]);
        for (factor, expected) in
            [(1.0, [0.5, 0.3, 0.2]), (1.2, [0.6, 0.24, 0.16]), (10.0, [1.0, 0.0, 0.0])]
        {
            let shares = found.with_share(0, factor).shares;
            let mut pairs = shares.iter().zip(expected);
            assert!(pairs.all(|(found, expected)| (found - expected).abs() < 1e-12), "{shares:?}");
        }
    }

    proptest! {
        /// The combined speed is between the speeds of the demands. The combined energy relative to
        /// the baseline is between the relative energies of the demands. Two equal demands have the
        /// combined merits of one such demand alone.
        #[test]
        fn equal_demands_are_like_one(
            (base, own) in ((0.1..9.0, 1.0..900.0), (0.1..9.0, 1.0..900.0)),
            other in (0.1..9.0, 1.0..900.0),
            share in 0.01..0.99,
        ) {
            let shares = [share, 1.0 - share];
            let one = predictions(&[1.0], &[&[base], &[own]]).merits(1, power_w);
            let base_energy = base.1 / base.0;
            let relative = one.energy_j.unwrap() / base_energy;
            let same = predictions(&shares, &[&[base; 2], &[own; 2]]);
            let two = same.merits(1, power_w);
            prop_assert!(near(two.speed.mean, one.speed.mean));
            prop_assert!(near(two.speed.low, one.speed.low) || one.speed.low <= 0.0);
            prop_assert!(near(two.speed.high, one.speed.high));
            prop_assert!(near(two.power_w.unwrap(), one.power_w.unwrap()));
            let base_two = same.merits(0, power_w).energy_j.unwrap();
            prop_assert!(near(two.energy_j.unwrap() / base_two, relative));

            let mixed = predictions(&shares, &[&[base; 2], &[own, other]]).merits(1, power_w);
            let ends = |values: [f64; 2]| (values[0].min(values[1]), values[0].max(values[1]));
            let within = |found: f64, (low, high): (f64, f64)| {
                found >= low * (1.0 - 1e-12) && found <= high * (1.0 + 1e-12)
            };
            let speeds = mixed.alone.iter().map(|one| one.speed.mean);
            let speeds: Vec<f64> = speeds.collect();
            prop_assert!(within(mixed.speed.mean, ends([speeds[0], speeds[1]])));
            let energies = [own, other].map(|(speed, power)| power / speed / base_energy);
            prop_assert!(within(mixed.energy_j.unwrap() / base.1, ends(energies)));
        }
    }

    #[test]
    fn a_demand_that_does_not_fit_is_enough() {
        let mut found = predictions(&[0.5, 0.5], &[&[(1.0, 1.0); 2]]);
        assert!(found.fits(0));
        found.rows[0][1] = Performance::known(1.0, None, false);
        assert!(!found.fits(0));
    }
}
