//! Figures of the placement of a command's pages.

use super::RunDocument;
use crate::{
    balance,
    figure::{Figure, Series, SeriesKind},
};
use std::collections::BTreeMap;

impl RunDocument {
    /// Returns the figures of the control periods if a policy steered the pages. Otherwise returns
    /// a figure of the share of pages on each node: as requested, as found by the placement audit,
    /// and before and after a migration.
    pub fn figures(&self) -> Vec<Figure> {
        match &self.balance {
            Some(balance) => balance::figures(&balance.periods),
            None => self.placed_figure().into_iter().collect(),
        }
    }

    fn placed_figure(&self) -> Option<Figure> {
        let mut lists: Vec<(&str, BTreeMap<u32, f64>)> = vec![(
            "requested",
            self.nodes.iter().map(|node| (node.node, 100.0 * node.share)).collect(),
        )];
        let found = self.memory.as_ref().map(|it| ("pages under the policy", &it.placed_bytes));
        let moved = self.moved.as_ref();
        let before = moved.map(|it| ("before migration", &it.before_bytes));
        let after = moved.filter(|_| !self.dry_run).map(|it| ("after", &it.after_bytes));
        for (name, bytes) in [found, before, after].into_iter().flatten() {
            let all: u64 = bytes.values().sum();
            let percent = |bytes: &u64| 100.0 * *bytes as f64 / all.max(1) as f64;
            let shares = bytes.iter().map(|(node, own)| (*node, percent(own)));
            lists.push((name, shares.collect()));
        }
        let mut nodes: Vec<u32> =
            lists.iter().flat_map(|(_, shares)| shares.keys().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let series = lists.iter().enumerate().map(|(group, (name, shares))| {
            let bars = nodes.iter().enumerate();
            let bars = bars.map(|(at, node)| (at as f64, shares.get(node).copied().unwrap_or(0.0)));
            Series::new(*name, SeriesKind::Bars, group, bars)
        });
        (lists.len() > 1 && !nodes.is_empty()).then(|| Figure {
            categories: nodes.iter().map(|node| format!("node{node}")).collect(),
            series: series.collect(),
            caption: "Shares of the nodes.".into(),
            ..Figure::new("placement", "Placement of the pages", "node", "pages, %")
        })
    }
}
