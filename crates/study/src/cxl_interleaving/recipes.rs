//! Lists stand-ins for the applications of the white paper, and predicts speed-ups from demands
//! that were measured with them. A stand-in is a recipe (a file that says how to install and run an
//! application) or a built-in kernel.

use crate::published::table;
use interleaf_console::Failure;
use interleaf_model::{platform::Platform, predict::Forecast, weights::Weights};
use interleaf_record::reproduce::TableDocument;
use interleaf_workload::kind::Kind;
use serde::Deserialize;

const RECIPES: &str = include_str!("../../../../reproduce/cxl-interleaving/recipes.csv");

#[derive(Deserialize)]
struct StandIn {
    workload: String,
    recipe: String,
    kernel: String,
    demand: String,
    difference: String,
}

/// Returns a table with a row for each application of the white paper: its stand-ins, which are a
/// recipe and a built-in kernel, and the speed-up predicted from a demand measured with them.
pub(super) fn recipes(platform: &Platform) -> Result<TableDocument, Failure> {
    let all: Vec<StandIn> = table("recipes.csv", RECIPES)?;
    let has_recipe = |name: &str| {
        let file = format!("{name}.toml");
        interleaf_catalog::recipes().any(|(path, _)| path.ends_with(&file))
    };
    let row = |own: StandIn| {
        let named = |name: &str, is_there: bool| match (name, is_there) {
            ("", _) => "none".to_string(),
            (_, false) => "not in this version".into(),
            _ => name.to_string(),
        };
        Ok(vec![
            own.workload,
            named(&own.recipe, has_recipe(&own.recipe)),
            named(&own.kernel, Kind::of(&own.kernel).is_some()),
            own.difference,
            match own.demand.is_empty() {
                true => "no demand measured with it comes with the tool".into(),
                false => prediction(platform, &own.demand)?,
            },
        ])
    };
    Ok(TableDocument {
        title: "What stands for the applications here, and what its measured demand predicts"
            .into(),
        header: ["application", "recipe", "kernel", "difference", "prediction"]
            .map(String::from)
            .into(),
        rows: all.into_iter().map(row).collect::<Result<_, Failure>>()?,
    })
}

/// Formats the best weights for the demand of the built-in workload `name`, and the speed-up at
/// these weights.
fn prediction(platform: &Platform, name: &str) -> Result<String, Failure> {
    let demand = interleaf_catalog::workload(name)?;
    let measured_on = interleaf_catalog::measured_on(platform, &demand)?;
    let forecast = Forecast::new(platform, &measured_on, &demand);
    let threads = f64::from(demand.threads().min(platform.cpu.cores));
    let ratios = Weights::every_ratio(platform.tiers.len(), 10);
    let prediction = forecast.predict(threads, &ratios);
    Ok(prediction.best.map_or_else(
        || "no weights fit".into(),
        |best| {
            let row = &prediction.rows[best];
            format!("{:.2} at {}", row.speedup.mean, row.weights)
        },
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::cxl_interleaving::WORKLOAD_NAMES;

    #[test]
    fn each_application_has_its_row() {
        let platform = interleaf_catalog::platform("xeon6-cz122").unwrap();
        let table = recipes(&platform).unwrap();
        let own: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(own, WORKLOAD_NAMES.map(|(_, ours)| ours));
        assert_eq!(table.rows[1][1], "faiss");
    }

    #[test]
    fn a_demand_predicts_its_best_weights() {
        let platform = interleaf_catalog::platform("xeon6-cz122").unwrap();
        let found = prediction(&platform, "hpcg").unwrap();
        let (speedup, weights) = found.split_once(" at ").unwrap();
        assert!((1.2..1.35).contains(&speedup.parse::<f64>().unwrap()), "{found}");
        assert!(weights.contains(':'), "{found}");
        assert!(prediction(&platform, "no-such").is_err());
    }
}
