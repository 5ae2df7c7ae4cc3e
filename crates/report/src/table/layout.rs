//! Computes the widths of the columns of a table on a terminal. Texts are wrapped between words. If
//! the table is still too wide, columns are left out, the least important first.

/// The widths that a column of a table may have, in characters: `natural` is the width without
/// wrapping, and `least` is the width of the longest word. In a column of numbers, which is not
/// wrapped, `least` equals `natural`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) natural: usize,
    pub(super) least: usize,
}

/// Number of blanks around the text of a column.
const PADDING: usize = 2;

/// Returns the widths of the columns in a terminal of `width` characters; `None` for a column that
/// is left out. `order` has the indices of the columns by decreasing importance. The first of them
/// is never left out.
pub(super) fn widths(columns: &[Column], order: &[usize], width: usize) -> Vec<Option<usize>> {
    let mut kept = order.to_vec();
    let needed =
        |kept: &[usize]| -> usize { kept.iter().map(|at| columns[*at].least + PADDING).sum() };
    while kept.len() > 1 && needed(&kept) > width {
        kept.pop();
    }
    let mut widths: Vec<Option<usize>> = vec![None; columns.len()];
    for at in &kept {
        widths[*at] = Some(columns[*at].natural);
    }
    let used = |widths: &[Option<usize>]| -> usize {
        widths.iter().flatten().map(|width| width + PADDING).sum()
    };
    while used(&widths) > width {
        // The widest column that can still be wrapped is narrowed by one character.
        let can = kept.iter().filter(|at| widths[**at] > Some(columns[**at].least));
        let Some(widest) = can.max_by_key(|at| widths[**at]) else { break };
        widths[*widest] = widths[*widest].map(|width| width - 1);
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_wrapped_then_left_out() {
        let column = |natural, least| Column { natural, least };
        let columns = [column(10, 10), column(30, 8), column(6, 6)];
        let all = [0, 1, 2];
        for (width, expected) in [
            (80, [Some(10), Some(30), Some(6)]),
            (52, [Some(10), Some(30), Some(6)]),
            (40, [Some(10), Some(18), Some(6)]),
            (30, [Some(10), Some(8), Some(6)]),
            (29, [Some(10), Some(15), None]),
            (12, [Some(10), None, None]),
            (3, [Some(10), None, None]),
        ] {
            assert_eq!(widths(&columns, &all, width), expected, "{width}");
        }
        assert_eq!(widths(&columns, &[0, 2, 1], 22), [Some(10), None, Some(6)]);
    }
}
