//! Weighted interleaving: the weight that the kernel gives each node (since 6.9), and the kernel's
//! automatic weights (since 6.16).

use crate::root::{Root, RootError};

pub(crate) const FOLDER: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedInterleave {
    /// The ID and the weight of each node.
    pub weights: Vec<(u32, u8)>,
    /// True when the kernel computes the weights from firmware tables; `None` for a kernel without
    /// automatic weights.
    pub auto: Option<bool>,
}

/// Reads the weights of the nodes; `None` for a kernel without weighted interleaving.
///
/// # Errors
/// When an existing file cannot be read or parsed.
pub fn weighted_interleave(root: &Root) -> Result<Option<WeightedInterleave>, RootError> {
    if !root.has(FOLDER) {
        return Ok(None);
    }
    let mut weights = vec![];
    for name in root.names(FOLDER)? {
        let Some(node) = name.strip_prefix("node").and_then(|id| id.parse().ok()) else { continue };
        let weight = root.value(&node_path(node), "a weight from 1 to 255", |text| {
            text.parse::<u8>().ok().filter(|weight| *weight > 0)
        })?;
        weights.extend(weight.map(|weight| (node, weight)));
    }
    weights.sort_unstable();
    let auto = root.value(&auto_path(), "true or false", |text| match text {
        "true" | "Y" | "1" => Some(true),
        "false" | "N" | "0" => Some(false),
        _ => None,
    })?;
    Ok(Some(WeightedInterleave { weights, auto }))
}

/// Returns the path of the file with `node`'s weight. Writing it disables automatic weights.
pub fn node_path(node: u32) -> String {
    format!("{FOLDER}/node{node}")
}

/// Returns the path of the file that enables automatic weights.
pub fn auto_path() -> String {
    format!("{FOLDER}/auto")
}
