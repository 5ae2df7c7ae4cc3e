//! Weighted interleaving: the weights that the kernel keeps for each node (since 6.9), and its
//! automatic ones (since 6.16).

use crate::root::{Root, RootError};

const FOLDER: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

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
        let path = format!("{FOLDER}/{name}");
        let weight = root.value(&path, "a weight from 1 to 255", |text| {
            text.parse::<u8>().ok().filter(|weight| *weight > 0)
        })?;
        weights.extend(weight.map(|weight| (node, weight)));
    }
    weights.sort_unstable();
    let auto = root.value(&format!("{FOLDER}/auto"), "true or false", |text| match text {
        "true" | "Y" | "1" => Some(true),
        "false" | "N" | "0" => Some(false),
        _ => None,
    })?;
    Ok(Some(WeightedInterleave { weights, auto }))
}

/// Sets the weight of `node`. The kernel then no longer computes weights itself.
///
/// # Errors
/// When the kernel refuses.
pub fn set_weight(root: &Root, node: u32, weight: u8) -> Result<(), RootError> {
    root.write(&format!("{FOLDER}/node{node}"), &weight.to_string())
}

/// Lets the kernel compute the weights, or keeps them as they are.
///
/// # Errors
/// When the kernel refuses.
pub fn set_auto(root: &Root, auto: bool) -> Result<(), RootError> {
    root.write(&format!("{FOLDER}/auto"), if auto { "true" } else { "false" })
}
