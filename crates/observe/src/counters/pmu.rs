//! Reads the performance monitoring units (PMUs) of a machine from `/sys/bus/event_source/devices`.

use super::format::{Field, WORDS};
use interleaf_linux::{
    machine::id_list::IdList,
    root::{Root, RootError},
};
use std::collections::BTreeMap;

pub(crate) const DEVICES: &str = "/sys/bus/event_source/devices";

/// A performance monitoring unit (PMU) that the kernel lists. Units of one kind, such as memory
/// controllers, are separate PMUs: `uncore_imc_0`, `uncore_imc_1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// The name, such as `uncore_imc_3`.
    pub name: String,
    /// The type number, for `perf_event_attr.type`.
    pub kind: u32,
    /// The CPUs on which events of the PMU are opened, one for each counted socket; `None` for a
    /// core PMU, which has no such list.
    pub cpus: Option<IdList>,
    /// The position of each event field, by the name of the field; malformed fields are left out.
    pub format: BTreeMap<String, Field>,
}

/// The reason why a PMU cannot express an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("{pmu} has no field {field}")]
    Field {
        pmu: String,
        /// The name of the missing field.
        field: String,
    },
    /// The value is wider than the field.
    #[error("{pmu} has {bits} bits for {field}, too few for {value:#x}")]
    Width {
        pmu: String,
        /// The name of the field that is too narrow.
        field: String,
        /// The width of the field in bits.
        bits: u32,
        /// The value that does not fit into the field.
        value: u64,
    },
}

impl Pmu {
    /// Computes the configuration words of an event. `values` has the name and the value of each
    /// field of the event.
    ///
    /// # Errors
    /// When the PMU's format lacks a field, or a value does not fit into its field.
    pub fn compose(&self, values: &[(&str, u64)]) -> Result<[u64; WORDS], ComposeError> {
        let mut words = [0; WORDS];
        for (name, value) in values {
            let (pmu, field, value) = (self.name.clone(), name.to_string(), *value);
            let Some(format) = self.format.get(*name) else {
                return Err(ComposeError::Field { pmu, field });
            };
            if !format.encode(value, &mut words) {
                return Err(ComposeError::Width { pmu, field, bits: format.bits(), value });
            }
        }
        Ok(words)
    }
}

/// Returns the PMUs whose names are `prefix` alone or `prefix` and a number, in order of their
/// numbers. Numbers may be missing.
///
/// # Errors
/// When an existing file cannot be read or parsed.
pub fn pmus(root: &Root, prefix: &str) -> Result<Vec<Pmu>, RootError> {
    let names = root.names(DEVICES)?;
    let numbered = names.iter().filter_map(|name| Some((number(name, prefix)?, name)));
    let mut numbered: Vec<(Vec<u32>, &String)> = numbered.collect();
    numbered.sort();
    let found = numbered.into_iter().map(|(_, name)| pmu(root, name));
    Ok(found.collect::<Result<Vec<Option<Pmu>>, _>>()?.into_iter().flatten().collect())
}

/// Returns the number in the name of a unit: `3` in `uncore_imc_3`, `0.1` in `cxl_pmu_mem0.1`, and
/// an empty number in `amd_l3`. Returns `None` if `name` is not `prefix` with a number, such as
/// `uncore_imc_free_running_0` for the prefix `uncore_imc`.
fn number(name: &str, prefix: &str) -> Option<Vec<u32>> {
    let rest = name.strip_prefix(prefix)?;
    if rest.is_empty() {
        return Some(vec![]);
    }
    let rest = rest.strip_prefix('_').unwrap_or(rest);
    rest.split('.').map(|part| part.parse().ok()).collect()
}

fn pmu(root: &Root, name: &str) -> Result<Option<Pmu>, RootError> {
    let folder = format!("{DEVICES}/{name}");
    let kind = root.value(&format!("{folder}/type"), "the number of a PMU", |t| t.parse().ok())?;
    let Some(kind) = kind else { return Ok(None) };
    let list = |text: &str| IdList::of_kernel(text).ok();
    let cpus = root.value(&format!("{folder}/cpumask"), "a list of CPUs", list)?;
    let mut format = BTreeMap::new();
    for field in root.names(&format!("{folder}/format"))? {
        let text = root.text(&format!("{folder}/format/{field}"))?;
        if let Some(parsed) = text.as_deref().and_then(Field::parse) {
            format.insert(field, parsed);
        }
    }
    Ok(Some(Pmu { name: name.into(), kind, cpus, format }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn units_by_their_names() {
        let table = [
            ("uncore_imc_3", "uncore_imc", Some(vec![3])),
            ("uncore_imc_free_running_0", "uncore_imc", None),
            ("uncore_imc", "uncore_imc", Some(vec![])),
            ("amd_l3", "amd_l3", Some(vec![])),
            ("cxl_pmu_mem0.1", "cxl_pmu_mem", Some(vec![0, 1])),
            ("cpu", "cpu", Some(vec![])),
            ("cpu_atom", "cpu", None),
            ("uncore_chassis", "uncore_cha", None),
        ];
        for (name, prefix, expected) in table {
            assert_eq!(number(name, prefix), expected, "{name}");
        }
    }
}
