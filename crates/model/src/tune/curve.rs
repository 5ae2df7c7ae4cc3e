//! Lower bounds of a command's run time as a function of the share of its pages on the first tier.
//!
//! The curve of the run time is assumed to have three properties:
//!
//! - It is convex: each tier adds a time that grows at least in proportion to its share, and the
//!   total is the sum of these times, their maximum, or a value between them. Outside of the
//!   interval between two runs, the curve is therefore above the straight line through the two
//!   runs.
//! - If the share of the first tier falls to a fraction of its value, the run time falls to no less
//!   than the same fraction of its value, because at most the time of the removed traffic is saved.
//!   Below the share of a run, the curve is therefore above the line from the run to a time of zero
//!   at a share of 0.
//! - The same holds for the other tiers: above the share of a run, the curve is above the line from
//!   the run to a time of zero at a share of 1.
//!
//! Between two runs, the lowest possible time is where the lines through the runs meet. Runs have
//! noise. First, a least-squares fit therefore moves the values so that they satisfy all three
//! assumptions. Then each slope is taken to be uncertain by half a standard deviation, so that
//! noise does not exclude possible optima.

/// Number of passes over all constraints in a fit. A few dozen passes would suffice for the few
/// points of a search.
const SWEEPS: usize = 400;

/// The uncertainty that [`TimeCurve::bound`] assumes for the slope of a line through two runs, as a
/// multiple of the standard deviation of the slope.
const TRUST: f64 = 0.5;

/// The curve of the run time over the share of pages on the first tier, fitted to measured runs.
#[derive(Clone, Debug)]
pub(super) struct TimeCurve {
    /// The fitted points in rising order of the share on the first tier. Each share occurs once.
    points: Vec<Knot>,
}

#[derive(Clone, Copy, Debug)]
struct Knot {
    share: f64,
    /// The fitted run time at this share.
    value: f64,
    /// The standard error of the mean of the measured run times at this share.
    error: f64,
}

impl TimeCurve {
    /// Fits the curve to `known`: tuples of a share on the first tier, the mean run time at this
    /// share, and the number of runs at this share (at least 1). Each run has the noise `sigma`, as
    /// a fraction of its time.
    pub(super) fn fit(mut known: Vec<(f64, f64, usize)>, sigma: f64) -> Self {
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let scale = known.iter().map(|(_, value, _)| *value).fold(f64::MAX, f64::min);
        let weights: Vec<f64> = known
            .iter()
            .map(|(_, value, runs)| *runs as f64 * (scale / value) * (scale / value))
            .collect();
        let shares: Vec<f64> = known.iter().map(|(share, ..)| *share).collect();
        let mut values: Vec<f64> = known.iter().map(|(_, value, _)| *value).collect();
        project(&mut values, &weights, &constraints(&shares));
        let error = |runs: usize, value: f64| sigma * value / (runs as f64).sqrt();
        let points = known.iter().zip(&values).map(|((share, _, runs), value)| Knot {
            share: *share,
            value: *value,
            error: error(*runs, *value),
        });
        Self { points: points.collect() }
    }

    /// The shortest of the fitted run times.
    pub(super) fn least(&self) -> f64 {
        self.points.iter().map(|point| point.value).fold(f64::MAX, f64::min)
    }

    /// The fitted run time at `share`; `f64::MAX` if no run had this share.
    pub(super) fn at(&self, share: f64) -> f64 {
        let found = self.points.iter().find(|point| (point.share - share).abs() < 1e-9);
        found.map_or(f64::MAX, |point| point.value)
    }

    /// A lower bound of the run time at `share`, from the assumptions that the curve is convex, and
    /// that the run time falls at most in proportion to the share of either tier.
    pub(super) fn bound(&self, share: f64) -> f64 {
        let (left, right): (Vec<&Knot>, Vec<&Knot>) =
            self.points.iter().partition(|point| point.share <= share);
        let from_left = left.iter().filter(|point| point.share < 1.0);
        let from_left = from_left.map(|point| point.value * (1.0 - share) / (1.0 - point.share));
        let from_right = right.iter().map(|point| point.value * share / point.share);
        let pairs = [&left, &right].into_iter().flat_map(|side| {
            side.iter().enumerate().flat_map(|(at, a)| side[at + 1..].iter().map(move |b| (a, b)))
        });
        let chords = pairs.map(|(a, b)| {
            let across = b.share - a.share;
            let slope = (b.value - a.value) / across;
            let spread = TRUST * (a.error * a.error + b.error * b.error).sqrt() / across;
            match share >= b.share {
                true => b.value + (slope - spread) * (share - b.share),
                false => a.value - (slope + spread) * (a.share - share),
            }
        });
        from_left.chain(from_right).chain(chords).fold(0.0, f64::max)
    }
}

/// Returns the assumptions on the curve (it is convex, and the run time falls at most in proportion
/// to the share of either tier) as linear constraints: weighted sums of the run times at `shares`
/// that must not be negative. Each constraint is a list of pairs: the index of a share, and the
/// weight of the run time at this share.
fn constraints(shares: &[f64]) -> Vec<Vec<(usize, f64)>> {
    let mut found = vec![];
    for (at, pair) in shares.windows(2).enumerate() {
        let [a, b] = [pair[0], pair[1]];
        found.push(vec![(at, b), (at + 1, -a)]);
        found.push(vec![(at + 1, 1.0 - a), (at, b - 1.0)]);
    }
    for (at, three) in shares.windows(3).enumerate() {
        let (before, behind) = (three[1] - three[0], three[2] - three[1]);
        found.push(vec![(at, behind), (at + 1, -before - behind), (at + 2, before)]);
    }
    found
}

/// Moves `values` to the nearest values that satisfy `constraints`. `weights` are the weights of
/// the squared distances. The method is Hildreth's: coordinate ascent on the dual problem.
fn project(values: &mut [f64], weights: &[f64], constraints: &[Vec<(usize, f64)>]) {
    let mut forces = vec![0.0; constraints.len()];
    for _ in 0..SWEEPS {
        for (constraint, force) in constraints.iter().zip(&mut forces) {
            let sum: f64 = constraint.iter().map(|(at, factor)| factor * values[*at]).sum();
            let gives: f64 =
                constraint.iter().map(|(at, factor)| factor * factor / weights[*at]).sum();
            let before = *force;
            *force = f64::max(before - sum / gives, 0.0);
            for (at, factor) in constraint {
                values[*at] += (*force - before) * factor / weights[*at];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The run time with the fraction `share` of the pages on the first tier. It is shortest at
    /// weights of 3:1, because both tiers then finish at the same time.
    fn fed(share: f64) -> f64 {
        f64::max(share / 0.75, (1.0 - share) / 0.25)
    }

    #[test]
    fn two_runs_bound_the_curve_between_them() {
        let known = [1.0, 0.71].map(|share| (share, fed(share), 1));
        let curve = TimeCurve::fit(known.to_vec(), 0.0);
        for share in [0.71, 0.73, 0.75, 0.8, 0.9, 1.0] {
            assert!((curve.bound(share) - fed(share)).abs() < 1e-9, "{share}");
        }
        assert!(curve.bound(0.3) <= fed(0.3));
    }

    #[test]
    fn a_fit_satisfies_the_assumptions() {
        // The three run times violate the assumptions: they are concave, and the first is below the
        // line from the second to a time of zero at a share of 0.
        let curve = TimeCurve::fit(vec![(0.5, 0.2, 1), (0.7, 1.1, 1), (1.0, 1.0, 1)], 0.01);
        let [a, b, c] = [0.5, 0.7, 1.0].map(|share| curve.at(share));
        assert!(b <= (a * 0.3 + c * 0.2) / 0.5 + 1e-6, "{a} {b} {c}");
        assert!(a >= 0.5 / 0.7 * b - 1e-6 && a > 0.2, "{a} {b} {c}");
    }

    proptest! {
        /// Asserts for curves that satisfy the assumptions that the lower bound is nowhere above
        /// the curve, and that the fit does not change the values of the runs.
        #[test]
        fn valid_curves_are_never_excluded(
            best in 0.05..0.95f64,
            fixed in 0.0..2.0f64,
            late in 0.0..1.0f64,
            shares in prop::collection::btree_set(0u32..=100, 2..7),
        ) {
            let value = |share: f64| {
                fixed + late * (1.0 - share) + f64::max(share / best, (1.0 - share) / (1.0 - best))
            };
            let shares: Vec<f64> = shares.into_iter().map(|at| f64::from(at) / 100.0).collect();
            let known: Vec<_> = shares.iter().map(|share| (*share, value(*share), 1)).collect();
            let curve = TimeCurve::fit(known, 0.0);
            for share in shares {
                prop_assert!((curve.at(share) / value(share) - 1.0).abs() < 1e-9);
            }
            for share in (0..=200).map(|step| f64::from(step) / 200.0) {
                prop_assert!(curve.bound(share) <= value(share) * (1.0 + 1e-9), "{share}");
            }
        }
    }
}
