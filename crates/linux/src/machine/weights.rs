//! Weighted interleaving: the weights that the kernel keeps for each node (since 6.9), and its
//! automatic ones (since 6.16).

use crate::root::{Root, RootError};

pub(crate) const FOLDER: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

/// What the kernel offers of weighted interleaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedInterleave {
    /// The weight of each node, by its number.
    pub weights: Vec<(u32, u8)>,
    /// Whether the kernel computes them from the firmware's tables; `None` where it cannot.
    pub auto: Option<bool>,
}

/// What the kernel offers; `None` of one that has no weighted interleaving.
///
/// # Errors
/// When a file that is there cannot be read or holds nonsense.
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

/// The file with the weight of `node`. Writing it switches automatic weights off.
pub fn node_path(node: u32) -> String {
    format!("{FOLDER}/node{node}")
}

/// The file that says whether the kernel computes the weights itself.
pub fn auto_path() -> String {
    format!("{FOLDER}/auto")
}
