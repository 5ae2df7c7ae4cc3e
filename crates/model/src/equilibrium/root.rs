//! The root of a function of one variable.

/// Maximum number of steps of a search. After them, the last guess is returned.
const STEPS_MAX: usize = 60;

/// Finds a root of `f` between two points by regula falsi with the Illinois weight (Dowell and
/// Jarratt 1971). `a` and `b` are the two points, each with the value of `f` there; the two values
/// have opposite signs.
///
/// The search ends when the value of `f`, the distance of the last two guesses, or the width of the
/// interval is at most `tolerance` times the larger absolute value of the two points. It also ends
/// after [`STEPS_MAX`] steps. The last call of `f` is at the returned point, so that state which
/// `f` keeps belongs to this point. If the result is `b` itself, `f` is not called.
pub(super) fn root(
    mut f: impl FnMut(f64) -> f64,
    mut a: (f64, f64),
    mut b: (f64, f64),
    tolerance: f64,
) -> f64 {
    let near = tolerance * a.0.abs().max(b.0.abs());
    for _ in 0..STEPS_MAX {
        if b.1 == 0.0 || (b.0 - a.0).abs() <= near {
            break;
        }
        let guess = (a.0 * b.1 - b.0 * a.1) / (b.1 - a.1);
        let at_guess = f(guess);
        let stays = at_guess.abs() <= near || (guess - b.0).abs() <= near;
        if (at_guess > 0.0) == (b.1 > 0.0) {
            // The guess replaces `b`, and `a` remains an end of the interval. The Illinois weight
            // halves the value at `a`: this moves the next guess towards `a`, so that `a` does not
            // stay for ever.
            a.1 *= 0.5;
        } else {
            a = b;
        }
        b = (guess, at_guess);
        if stays {
            break;
        }
    }
    b.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_roots_of_rising_and_falling_functions() {
        let cube = |x: f64| x * x * x - 2.0;
        let found = root(cube, (0.0, -2.0), (4.0, 62.0), 1e-13);
        assert!((found * found * found - 2.0).abs() < 1e-10, "{found}");
        let falls = |x: f64| 1.0 - x;
        assert_eq!(root(falls, (0.0, 1.0), (1.0, 0.0), 1e-12), 1.0);
        assert!((root(falls, (0.0, 1.0), (3.0, -2.0), 1e-12) - 1.0).abs() < 1e-12);
    }
}
