//! Computes the axes of a picture: the range of their positions, and the labelled positions.

use crate::short_number;

/// An axis with positions from `from` to `to`, which is drawn from coordinate `start` to `end`. On
/// a logarithmic axis, a position is the logarithm to base 10 of the value.
pub(super) struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    is_log: bool,
    has_whole_values: bool,
    /// The distance between the labels of a linear axis; `None` until `with_labels_around` sets the
    /// distance and the ends of the axis.
    step: Option<f64>,
}

/// The axis is extended to the next label only if a value exceeds the last label by more than this
/// fraction of the distance between two labels.
const SLACK: f64 = 0.02;

/// A labelled position of an axis.
#[derive(Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) position: f64,
    pub(super) label: String,
}

impl Axis {
    /// Creates an axis over `range`. A range whose ends are equal is widened.
    ///
    /// # Errors
    /// When the range is not finite. The error is a text with the reason.
    pub(super) fn new(range: [f64; 2], is_log: bool) -> Result<Self, String> {
        let [from, to] = range;
        let length = to - from;
        if !length.is_finite() {
            return Err("its values are too far apart".into());
        }
        let least = match [from, to] {
            // Both ends are zero, so the least length cannot be a fraction of an end.
            [0.0, 0.0] => 1.0,
            // If an axis is shorter than 10^-6 of its larger end, the distance between labels is
            // lost in rounding.
            _ => 1e-6 * from.abs().max(to.abs()).max(1e-3),
        };
        let to = from + length.max(least);
        Ok(Self { from, to, start: 0.0, end: 1.0, is_log, has_whole_values: false, step: None })
    }

    pub(super) fn drawn_between(self, start: f64, end: f64) -> Self {
        Self { start, end, ..self }
    }

    /// Returns the axis with labels only at whole numbers if `has_whole_values`, for values such as
    /// rounds and threads.
    pub(super) fn with_whole_values(self, has_whole_values: bool) -> Self {
        Self { has_whole_values, ..self }
    }

    /// Moves the ends of the axis so that labels surround the values. `values` has the smallest and
    /// the largest value. An end of a linear axis moves outwards to the next label if no label lies
    /// between this end and the values. Both ends of a logarithmic axis move to labels. The axis
    /// has about `wanted` labels.
    pub(super) fn with_labels_around(self, values: [f64; 2], wanted: usize) -> Self {
        if self.is_log {
            let ([first, last], stride) = self.decades(wanted);
            // `stride` is the number of decades between two labels. The number of decades of the
            // axis is rounded up to a multiple of `stride`, so that the axis ends at a label.
            let past = (last - first + stride - 1) % stride;
            let (from, to) = (f64::from(first), f64::from(last + stride - 1 - past));
            let labels = Self { from, to, ..self }.powers(wanted);
            let below = labels.iter().rev().find(|tick| tick.position <= self.from + 1e-6);
            let above = labels.iter().find(|tick| tick.position >= self.to - 1e-6);
            let end = |tick: Option<&Tick>, end: f64| tick.map_or(end, |tick| tick.position);
            return Self { from: end(below, self.from), to: end(above, self.to), ..self };
        }
        let step = self.step_of(wanted);
        let slack = SLACK * step;
        let has_first = step * libm::ceil(self.from / step - 1e-6) <= values[0] + slack;
        let has_last = step * libm::floor(self.to / step + 1e-6) >= values[1] - slack;
        let from = if has_first { self.from } else { step * libm::floor(self.from / step) };
        let to = if has_last { self.to } else { step * libm::ceil(self.to / step) };
        // Near the limits of `f64`, the new ends overflow. In this case the axis keeps its ends.
        if !(from < to && (to - from).is_finite()) {
            return self;
        }
        Self { from, to, step: Some(step), ..self }
    }

    pub(super) fn start(&self) -> f64 {
        self.start
    }

    pub(super) fn end(&self) -> f64 {
        self.end
    }

    /// Returns the coordinate in the picture of a position on the axis.
    pub(super) fn at(&self, position: f64) -> f64 {
        let part = (position - self.from) / (self.to - self.from);
        self.start + part * (self.end - self.start)
    }

    /// Returns the position on the axis that is closest to zero, at which bars begin.
    pub(super) fn base(&self) -> f64 {
        if self.is_log { self.from } else { 0.0_f64.clamp(self.from, self.to) }
    }

    /// Returns about `wanted` labelled positions.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<Tick> {
        let ticks = if self.is_log { self.powers(wanted) } else { self.steps(wanted) };
        if ticks.len() > 1 || (self.has_whole_values && !ticks.is_empty()) {
            return ticks;
        }
        let value = |position: f64| if self.is_log { libm::pow(10.0, position) } else { position };
        let end = |position: f64| Tick { position, label: short_number(value(position)) };
        vec![end(self.from), end(self.to)]
    }

    /// Returns the distance between labels at which the axis has about `wanted` labels: 1, 2 or 5
    /// times a power of ten.
    fn step_of(&self, wanted: usize) -> f64 {
        let rough = (self.to - self.from) / wanted.max(1) as f64;
        let power = libm::floor(libm::log10(rough));
        let ten = libm::pow(10.0, power);
        let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| rough <= factor * ten * 1.001);
        let step = factor.unwrap_or(10.0) * ten;
        if self.has_whole_values { step.max(1.0) } else { step }
    }

    /// Returns the labelled positions of a linear axis: the multiples of the step.
    fn steps(&self, wanted: usize) -> Vec<Tick> {
        let step = self.step.unwrap_or_else(|| self.step_of(wanted));
        let decimals = (-libm::floor(libm::log10(step * 1.001))).max(0.0) as usize;
        let first = libm::ceil(self.from / step - 1e-6);
        let last = libm::floor(self.to / step + 1e-6);
        let are_few = last - first < 100.0; // The comparison is false for NaN.
        if !are_few {
            return vec![];
        }
        let tick = |at: usize| {
            let position = (first + at as f64) * step;
            let is_plain = position.abs() < 1e6 && decimals < 5;
            // Adding 0 turns -0 into 0, so that no label is "-0".
            let plain = format!("{:.decimals$}", position + 0.0);
            Tick { position, label: if is_plain { plain } else { short_number(position) } }
        };
        (0..=(last - first).max(0.0) as usize).map(tick).collect()
    }

    /// Returns two exponents of powers of ten: the last exponent at or below the lower end of a
    /// logarithmic axis, and the first at or above its upper end. Also returns the distance between
    /// labelled exponents at which the axis has about `wanted` labels.
    fn decades(&self, wanted: usize) -> ([i32; 2], i32) {
        let (first, last) = (libm::floor(self.from + 1e-9), libm::ceil(self.to - 1e-9));
        let wanted = wanted.max(1) as f64;
        let stride = libm::ceil((last - first) / wanted).max(1.0);
        ([first as i32, last as i32], stride as i32)
    }

    /// Returns the labelled positions of a logarithmic axis: powers of ten, and on an axis of at
    /// most three decades also 2 and 5 times each power.
    fn powers(&self, wanted: usize) -> Vec<Tick> {
        let ([first, last], stride) = self.decades(wanted);
        let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let within = self.from - 1e-6..=self.to + 1e-6;
        let ticks = (first..=last).step_by(stride as usize).flat_map(|power| {
            factors.iter().map(move |factor| {
                let value = factor * libm::pow(10.0, f64::from(power));
                let decimals = (-power).max(0) as usize;
                let is_plain = (-4..6).contains(&power);
                let plain = format!("{value:.decimals$}");
                let label = if is_plain { plain } else { format!("{factor}e{power}") };
                Tick { position: f64::from(power) + libm::log10(*factor), label }
            })
        });
        ticks.filter(|tick| within.contains(&tick.position)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(range: [f64; 2], is_log: bool, wanted: usize) -> String {
        let ticks = Axis::new(range, is_log).map(|axis| axis.ticks(wanted)).unwrap_or_default();
        ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn labels_are_round_numbers() {
        assert_eq!(labels([0.0, 420.0], false, 5), "0 100 200 300 400");
        assert_eq!(labels([0.97, 1.31], false, 4), "1.0 1.1 1.2 1.3");
        assert_eq!(labels([-1.0, 1.0], false, 4), "-1.0 -0.5 0.0 0.5 1.0");
        assert_eq!(labels([0.0, 5.0], true, 6), "1 10 100 1000 10000 100000");
        assert_eq!(labels([-1.0, 0.5], true, 6), "0.1 0.2 0.5 1 2");
        assert_eq!(labels([5.0, 8.0], true, 6), "100000 200000 500000 1e6 2e6 5e6 1e7 2e7 5e7 1e8");
    }

    #[test]
    fn the_values_are_between_labels() {
        let labels = |range: [f64; 2], is_log: bool, wanted: usize| {
            let axis = Axis::new(range, is_log).map(|axis| axis.with_labels_around(range, wanted));
            let axis = axis.unwrap_or_else(|why| panic!("{why}"));
            assert!(axis.from <= range[0] + 1e-9 && range[1] <= axis.to + 1e-9, "{range:?}");
            let ticks = axis.ticks(wanted);
            let slack = 0.01 * (range[1] - range[0]).max(1e-9);
            let is_below = ticks.first().is_some_and(|it| it.position <= range[0] + slack);
            let is_above = ticks.last().is_some_and(|it| it.position >= range[1] - slack);
            assert!(is_below && is_above, "{range:?}: {ticks:?}");
            ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels([0.0, 420.0], false, 5), "0 100 200 300 400 500");
        assert_eq!(labels([0.0, 400.0], false, 5), "0 100 200 300 400");
        assert_eq!(labels([0.97, 1.31], false, 4), "0.9 1.0 1.1 1.2 1.3 1.4");
        assert_eq!(labels([-7.3, 16.3], false, 5), "-10 -5 0 5 10 15 20");
        assert_eq!(labels([-0.0001, 4.4], false, 5), "0 1 2 3 4 5");
        assert_eq!(labels([0.0, 0.0], false, 5), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(labels([-1.0, 0.5], true, 5), "0.1 0.2 0.5 1 2 5");
        assert_eq!(labels([0.3, 6.2], true, 5), "1 100 10000 1e6 1e8");
        assert_eq!(labels([-3.0, -3.0], true, 5), "0.001 0.002");
        // The axis is from 0.93 to 1.39, and the values are from 1.06 to 1.39. The label 1.0 is
        // between the lower end and the values, so the lower end must stay. The upper end must move
        // to the label 1.4.
        let axis = Axis::new([0.93, 1.39], false).map(|it| it.with_labels_around([1.06, 1.39], 5));
        assert!(axis.is_ok_and(|it| it.from == 0.93 && (it.to - 1.4).abs() < 1e-9));
    }

    #[test]
    fn labels_of_whole_values_are_whole() {
        let labels = |range, wanted| {
            let axis = Axis::new(range, false).map(|axis| axis.with_whole_values(true));
            let ticks = axis.map(|axis| axis.ticks(wanted)).unwrap_or_default();
            ticks.into_iter().map(|tick| tick.label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels([1.0, 2.0], 6), "1 2");
        assert_eq!(labels([1.0, 4.0], 6), "1 2 3 4");
        assert_eq!(labels([1.0, 40.0], 4), "10 20 30 40");
        assert_eq!(labels([3.0, 3.0], 6), "3");
    }

    #[test]
    fn a_range_of_one_value_has_labels() {
        for value in [0.0, 3.0, -7.5, 1e12, 1e-12] {
            assert!(!labels([value, value], false, 5).is_empty(), "{value}");
        }
        assert_eq!(labels([0.0, 0.0], false, 5), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert!(Axis::new([-1e308, 1e308], false).is_err());
    }
}
