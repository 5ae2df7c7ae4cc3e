//! Parses command-line arguments.

use interleaf_linux::machine::id_list::IdList;

/// Parses a list separated by commas; `item` parses an element.
pub(crate) fn list<T>(
    text: &str,
    item: &dyn Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    text.split(',').map(item).collect()
}

/// Parses a list of NUMA nodes, which may be in any order.
pub(crate) fn nodes(text: &str) -> Result<IdList, String> {
    Ok(list(text, &number)?.into_iter().collect())
}

/// Parses a number of any type.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("no number, or too large a one: {text}"))
}

/// Parses a size such as `64MiB` to bytes.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let found = units.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let (count, bytes) = found.ok_or_else(|| format!("no size, as 64MiB is one: {text}"))?;
    let count: u32 = number(count)?;
    Ok(count as usize * bytes)
}
