//! The Fourier transform of complex numbers, by `rustfft`: one long transform, or the transform of
//! a cube along each axis. Each round is a forward transform in place. Two rounds give the input in
//! reverse order, times the number of elements n. Four rounds restore the order.
//!
//! The input is a geometric sequence (a product of three sequences in a cube), so every value of
//! its transform is known: element k of the transform of the n elements r^j is
//! (1 - r^n) / (1 - r w^k), where w = e^(-2πi/n).

use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team,
};
use num_complex::Complex;
use rustfft::{Fft, FftDirection, FftPlanner};
use std::{f64::consts::TAU, fmt, sync::Arc};

pub(crate) type Number = Complex<f64>;

/// Bytes of a complex number.
const BYTES: u64 = size_of::<Number>() as u64;

/// The largest error of a transformed value that `verify` accepts, relative to the root mean square
/// of all values.
const TOLERANCE: f64 = 1e-9;

/// The number of rounds after which the input is filled in again. Two rounds multiply each value by
/// the number of values, so after some dozens of rounds, values would exceed the range of a double.
const ROUNDS_MAX: u32 = 16;

/// The length of an axis, in numbers, and the planned transform of a line of this length.
struct Axis {
    length: usize,
    fft: Arc<dyn Fft<f64>>,
}

/// The complex numbers that each round transforms in place.
pub struct Transform {
    data: Array,
    scratch: Array,
    axis: Axis,
    /// The number of axes: 1 or 3.
    axes: u32,
    threads: usize,
    /// Number of rounds since the input was filled in.
    rounds: u32,
}

impl fmt::Debug for Transform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, axes) = (self.axis.length, self.axes);
        formatter.debug_struct("Transform").field("length", &length).field("axes", &axes).finish()
    }
}

impl Axis {
    fn new(length: usize) -> Self {
        let mut planner = FftPlanner::new();
        let fft = planner.plan_fft(length, FftDirection::Forward);
        Self { length, fft }
    }

    fn value(&self, at: usize, is_transformed: bool) -> Number {
        geometric(self.length, at, is_transformed)
    }
}

/// Returns element `at` of a geometric sequence of `length` numbers, or of its transform if
/// `is_transformed`. The absolute values fall to a tenth along the sequence. The angle between two
/// numbers is a whole number of turns divided by `length`, so angles are exact for any length.
pub(crate) fn geometric(length: usize, at: usize, is_transformed: bool) -> Number {
    let (steps_all, length) = (length as u64, length as f64);
    let fall = 0.1_f64.ln() / length;
    let turns = (0.3 * length) as u64;
    // Take angles from minus half a turn to half a turn. An angle just below a whole turn is then a
    // small negative angle, whose sine is computed without cancellation.
    let angle = |steps: u64| {
        let steps = (steps % steps_all) as f64;
        TAU * if 2.0 * steps > length { steps - length } else { steps } / length
    };
    if !is_transformed {
        let size = (fall * at as f64).exp();
        return Number::from_polar(size, angle(at as u64 * turns));
    }
    // The denominator is 1 - s e^(ix), where s is `size`. If it is near zero, the difference of two
    // numbers near 1 would lose digits. So it is computed as a sum of small terms.
    let (size, x) = (fall.exp(), angle(turns + steps_all - at as u64));
    let real = -fall.exp_m1() + 2.0 * size * (x / 2.0).sin().powi(2);
    Number::new(0.9, 0.0) / Number::new(real, -size * x.sin())
}

impl Transform {
    /// Allocates a one-dimensional transform. Its numbers, its scratch memory and its twiddle
    /// factors fit into the footprint together. The library allocates the twiddle factors itself,
    /// with the ordinary allocator.
    ///
    /// # Errors
    ///
    /// When the footprint is less than 4 KiB, more than one thread is requested, or memory cannot
    /// be allocated.
    pub fn long(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        at_least("fft", footprint, 4096)?;
        if threads > 1 {
            return Err(SetupError::OneThread { what: "fft" });
        }
        // Numbers, scratch memory and twiddle factors are equally large: a third of the footprint
        // each.
        let length = nice(footprint / (3 * BYTES), &[1, 3, 5, 7]);
        let axis = Axis::new(length);
        let scratch = axis.fft.get_inplace_scratch_len();
        Self::with(memory, axis, 1, threads, length, scratch)
    }

    /// Allocates the largest cube that fits into the footprint, among those whose side is even and
    /// has no prime factor above 5. A round transforms the cube's lines along each axis.
    ///
    /// # Errors
    /// When the footprint is less than 8 x 8 x 8 numbers, or memory cannot be allocated.
    pub fn cube(memory: &Memory, footprint: u64, threads: usize) -> Result<Self, SetupError> {
        let length = side(footprint)?;
        let axis = Axis::new(length);
        Self::with(memory, axis, 3, threads, length.pow(3), 0)
    }

    fn with(
        memory: &Memory,
        axis: Axis,
        axes: u32,
        threads: usize,
        numbers: usize,
        scratch: usize,
    ) -> Result<Self, SetupError> {
        let data = memory.array(numbers * BYTES as usize)?;
        let mut scratch = memory.array(scratch.max(1) * BYTES as usize)?;
        // Touch the pages here, so that Linux allocates them before the measured rounds.
        scratch.of_mut::<Number>().fill(Number::new(0.0, 0.0));
        let mut this = Self { data, scratch, axis, axes, threads, rounds: 0 };
        this.fill();
        Ok(this)
    }

    /// Fills `data` with the input of the first round.
    fn fill(&mut self) {
        self.rounds = 0;
        let (axis, axes) = (&self.axis, self.axes);
        let along: Vec<Number> = if axes == 1 {
            vec![]
        } else {
            (0..axis.length).map(|at| axis.value(at, false)).collect()
        };
        for (at, number) in self.data.of_mut::<Number>().iter_mut().enumerate() {
            *number = if axes == 1 { axis.value(at, false) } else { product(&along, at) };
        }
    }

    /// Transforms the cube's lines along the axis that is contiguous in memory.
    fn rows(&mut self, fft: &Arc<dyn Fft<f64>>) {
        let length = self.axis.length;
        let planes = self.data.of_mut::<Number>().chunks_mut(length * length).collect();
        divided_among(planes, self.threads, |planes: Vec<&mut [Number]>| {
            let mut scratch = vec![Number::default(); fft.get_inplace_scratch_len()];
            planes.into_iter().for_each(|plane| fft.process_with_scratch(plane, &mut scratch));
        });
    }

    /// Transforms the cube's lines along the middle axis, one plane at a time. The plane is
    /// transposed in a buffer, where its lines are contiguous.
    fn columns(&mut self, fft: &Arc<dyn Fft<f64>>) {
        let length = self.axis.length;
        let planes = self.data.of_mut::<Number>().chunks_mut(length * length).collect();
        divided_among(planes, self.threads, |planes: Vec<&mut [Number]>| {
            let mut buffer = Buffer::new(length, fft);
            for plane in planes {
                let mut rows: Vec<&mut [Number]> = plane.chunks_mut(length).collect();
                buffer.transform(&mut rows, fft);
            }
        });
    }

    /// Transforms the cube's lines along the axis with the largest stride, one plane at a time.
    /// Such a plane has one row of each contiguous plane of the cube. As in [`Self::columns`], it
    /// is transposed in a buffer.
    fn across(&mut self, fft: &Arc<dyn Fft<f64>>) {
        let length = self.axis.length;
        // A plane of `planes` has one row of each contiguous plane of the cube.
        let mut planes: Vec<Vec<&mut [Number]>> = (0..length).map(|_| vec![]).collect();
        for plane in self.data.of_mut::<Number>().chunks_mut(length * length) {
            let rows = plane.chunks_mut(length);
            planes.iter_mut().zip(rows).for_each(|(plane, row)| plane.push(row));
        }
        divided_among(planes, self.threads, |planes: Vec<Vec<&mut [Number]>>| {
            let mut buffer = Buffer::new(length, fft);
            for mut rows in planes {
                buffer.transform(&mut rows, fft);
            }
        });
    }
}

/// A buffer for a transposed plane, in which the plane's columns are contiguous, and the scratch
/// memory of the transform.
struct Buffer {
    lines: Vec<Number>,
    scratch: Vec<Number>,
    length: usize,
}

impl Buffer {
    fn new(length: usize, fft: &Arc<dyn Fft<f64>>) -> Self {
        let scratch = vec![Number::default(); fft.get_inplace_scratch_len()];
        Self { lines: vec![Number::default(); length * length], scratch, length }
    }

    /// Transforms the columns of a plane. `rows` are the rows of the plane.
    fn transform(&mut self, rows: &mut [&mut [Number]], fft: &Arc<dyn Fft<f64>>) {
        for (y, row) in rows.iter().enumerate() {
            row.iter()
                .enumerate()
                .for_each(|(x, number)| self.lines[x * self.length + y] = *number);
        }
        fft.process_with_scratch(&mut self.lines, &mut self.scratch);
        for (y, row) in rows.iter_mut().enumerate() {
            row.iter_mut()
                .enumerate()
                .for_each(|(x, number)| *number = self.lines[x * self.length + y]);
        }
    }
}

/// Divides the elements of `all` among `threads` threads. Each thread calls `work` with its part.
fn divided_among<T: Send>(all: Vec<T>, threads: usize, work: impl Fn(Vec<T>) + Sync) {
    let share = all.len().div_ceil(threads.max(1)).max(1);
    let mut all = all.into_iter();
    let mut parts = vec![];
    while all.len() > 0 {
        parts.push(all.by_ref().take(share).collect());
    }
    team::each(parts, work);
}

/// Returns the largest number, up to `most`, that is a power of two times one of the numbers in
/// `odd`. Transforms of such lengths are fast, because their prime factors are small.
fn nice(most: u64, odd: &[u64]) -> usize {
    let of = |odd: &u64| (0..63).map(|power| odd << power).take_while(|size| *size <= most).last();
    odd.iter().filter_map(of).max().unwrap_or(1) as usize
}

/// Returns the number of elements along an edge of the cube that [`Transform::cube`] allocates for
/// this footprint.
///
/// # Errors
/// When the footprint is less than 8 x 8 x 8 numbers.
pub(crate) fn side(footprint: u64) -> Result<usize, SetupError> {
    at_least("fft-3d", footprint, 512 * BYTES)?;
    let side = ((footprint / BYTES) as f64).cbrt() as u64 + 1;
    let sides = (8..=side).rev().filter(|side| side.pow(3) * BYTES <= footprint);
    let smooth =
        |side: &u64| [2, 3, 5].iter().fold(*side, |left, prime| divided(left, *prime)) == 1;
    Ok(sides.filter(|side| side % 2 == 0).find(smooth).unwrap_or(8) as usize)
}

fn divided(mut number: u64, prime: u64) -> u64 {
    while number > 0 && number.is_multiple_of(prime) {
        number /= prime;
    }
    number
}

/// Returns the index in the input of the element that is now at index `at`. After two rounds
/// (`is_back`), the order of the elements is reversed, except that element 0 stays in place.
fn place(at: usize, length: usize, is_back: bool) -> usize {
    if is_back { (length - at) % length } else { at }
}

/// Returns the value of element `at` of the cube: the product of `along` at the element's three
/// coordinates.
fn product(along: &[Number], at: usize) -> Number {
    let side = along.len();
    along[at % side] * along[at / side % side] * along[at / side / side]
}

impl Kernel for Transform {
    fn footprint(&self) -> u64 {
        let factors = if self.axes == 1 { self.axis.length as u64 * BYTES } else { 0 };
        self.data.of::<u8>().len() as u64 + self.scratch.of::<u8>().len() as u64 + factors
    }

    fn prepare(&mut self) {
        if self.rounds >= ROUNDS_MAX {
            self.fill();
        }
    }

    fn round(&mut self) -> Work {
        let fft = Arc::clone(&self.axis.fft);
        if self.axes == 1 {
            fft.process_with_scratch(self.data.of_mut(), self.scratch.of_mut());
        } else {
            self.rows(&fft);
            self.columns(&fft);
            self.across(&fft);
        }
        self.rounds += 1;
        // Count the operations as the benchmark benchFFT does: 5 n log2(n), whatever the algorithm.
        let numbers = self.data.of::<Number>().len();
        let flops = (5.0 * numbers as f64 * (numbers as f64).log2()) as u64;
        Work { bytes: 2 * numbers as u64 * BYTES * u64::from(self.axes), flops, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let is_transformed = !self.rounds.is_multiple_of(2);
        let is_back = self.rounds % 4 >= 2;
        let numbers = self.data.of::<Number>();
        // The transforms do not divide by n, the number of elements. So every two rounds multiply
        // the values by n.
        let scale = (numbers.len() as f64).powi((self.rounds / 2) as i32);
        let along: Vec<Number> = if self.axes == 1 {
            vec![]
        } else {
            let length = self.axis.length;
            let of = |at| self.axis.value(place(at, length, is_back), is_transformed);
            (0..length).map(of).collect()
        };
        let expected = |at: usize| match self.axes {
            1 => self.axis.value(place(at, self.axis.length, is_back), is_transformed) * scale,
            _ => product(&along, at) * scale,
        };
        let square: f64 = (0..numbers.len()).map(|at| expected(at).norm_sqr()).sum();
        let allowed = TOLERANCE * (square / numbers.len() as f64).sqrt();
        // NaN fails this comparison, so it counts as a wrong value.
        let is_right = |at: usize, number: &Number| (number - expected(at)).norm() <= allowed;
        match numbers.iter().enumerate().find(|(at, number)| !is_right(*at, number)) {
            None => Ok(()),
            Some((at, number)) => Err(Wrong {
                what: format!("element {at} after {} transforms", self.rounds),
                found: number.to_string(),
                expected: expected(at).to_string(),
            }),
        }
    }

    fn checksum(&self) -> u64 {
        self.data.of::<u64>().iter().fold(0, |sum, bits| mixed(sum, *bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After many rounds, the values must be within the range of a double, and the tolerance of
    /// `verify` must be finite, so that `verify` still finds a wrong element.
    #[test]
    fn results_are_checked_after_many_rounds() {
        type New = fn(&Memory, u64, usize) -> Result<Transform, SetupError>;
        for new in [Transform::long as New, Transform::cube as New] {
            let mut transform = new(&Memory::Heap, 64 << 10, 1).expect("enough");
            for round in 1..=250 {
                transform.prepare();
                transform.round();
                if round % 50 == 0 {
                    assert_eq!(transform.verify(), Ok(()), "{transform:?}, {round} rounds");
                    let right = transform.data.of::<Number>()[99];
                    transform.data.of_mut::<Number>()[99] = right * 1.01 + 0.01;
                    assert!(transform.verify().is_err(), "{transform:?}, {round} rounds");
                    transform.data.of_mut::<Number>()[99] = right;
                }
            }
        }
    }
}
