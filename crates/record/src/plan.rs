//! The document `interleaf.plan/1`: configurations of a server for one or more demands.
//!
//! `interleaf plan` writes the document, with a row for each configuration. Speeds are relative to
//! the baseline configuration. `task_energy_j` is the energy of one run of the demand. If the
//! demand's result is a rate, it is the energy of one unit of work, and for a traffic mix the
//! energy of one GB.
//!
//! In a plan for several demands, each demand has a share of the run time on the baseline. A row is
//! then for the work that the baseline does in one second: `result` is the time that this work
//! takes, and `task_energy_j` is its energy. A plan for one demand has no field `demands`.

use super::{
    ProvenanceDocument,
    check::{Check, Checked, identifier, in_order, invalid, not_empty, not_negative, same_length},
    figure::{Figure, Scale, Series, SeriesKind},
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.plan/1";

/// The goal that the recommended configuration reaches best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// The lowest cost for the same work: the cost divided by the speed.
    #[default]
    Value,
    /// The highest speed.
    Speed,
    /// The lowest energy for the same work.
    Energy,
    /// The lowest cost, whatever the speed.
    Cost,
}

display_word!(Goal);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanDocument {
    pub schema: String,
    /// Demand for which the configurations are compared: the name of a workload, a mix, or the
    /// names of several workloads with their shares.
    pub demand: String,
    /// Demands of a plan for several demands; left out for one demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<PlanDemand>,
    /// Unit of `result`: "s", the unit of a rate, or GB/s for a mix.
    pub result_unit: String,
    /// Memory that the demand needs, bytes; the largest need if there are several demands; null if
    /// unknown.
    pub footprint_bytes: Option<u64>,
    pub baseline: String,
    pub goal: Goal,
    pub currency: String,
    /// Years of operation whose energy is in the cost; null without a price of energy.
    pub years: Option<f64>,
    pub rows: Vec<PlanRow>,
    /// Name of the recommended configuration; null if no configuration has enough memory for the
    /// demand.
    pub recommended: Option<String>,
    /// Fraction by which each figure of `sensitivity` is lowered and raised. A predicted speed is
    /// set to the ends of its interval instead.
    pub vary_share: f64,
    pub sensitivity: Vec<SensitivityRow>,
    pub parts: Vec<PlanPart>,
    /// Price of energy; left out when none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<PlanEnergy>,
    /// Inputs of all predictions, grouped by their provenance.
    pub provenance: ProvenanceDocument,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One demand of a plan for several demands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanDemand {
    pub name: String,
    /// Fraction of the run time on the baseline that this demand takes. The shares of all demands
    /// sum to 1.
    pub share: f64,
    /// Unit of this demand's result: "s", or the unit of a rate.
    pub result_unit: String,
    /// Memory that this demand needs, bytes; null if unknown.
    pub footprint_bytes: Option<u64>,
}

/// A configuration and its merits. The row is one JSON object with 23 fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    pub configuration: String,
    pub does: String,
    /// True if the configuration is not on sale yet.
    pub future: bool,
    /// Best weights of the configuration's tiers; empty if the best weights of several demands
    /// differ.
    pub weights: Vec<u16>,
    /// Number of threads of the demand; for a mix, the number that saturates the tiers. Left out if
    /// several demands have different numbers of threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<f64>,
    /// Speed relative to the baseline. For several demands, it is the harmonic mean of their
    /// speeds, weighted by their shares: 1 / sum(share / speed).
    pub speed: f64,
    pub speed_interval: [f64; 2],
    pub result: f64,
    /// Bandwidth, GB/s; for several demands, the mean over the run time.
    pub bandwidth_gbps: f64,
    /// Mean latency of an access to memory, ns.
    pub latency_ns: f64,
    /// Power of the server, W; for several demands, the mean over the run time; null if unknown.
    pub power_w: Option<f64>,
    pub task_energy_j: Option<f64>,
    /// Cost of the parts, and of the energy over `years`, in `currency`.
    pub cost: f64,
    pub parts_cost: f64,
    /// Cost for the same work: the cost divided by the speed, both relative to the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_cost: Option<f64>,
    pub capacity_bytes: u64,
    /// True if the configuration has enough memory for each demand of the plan.
    pub fits: bool,
    /// Resource that limits the configuration's speed. If it differs between demands, the resource
    /// is named for each of them.
    pub bound_by: String,
    /// True if the configuration is on the Pareto front of speed and cost.
    pub on_cost_front: bool,
    /// True if the configuration is on the Pareto front of speed and energy.
    pub on_energy_front: bool,
    /// Name of another configuration that is no worse in speed, cost and energy, and better in one
    /// of them or more; null if there is none.
    pub dominated_by: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Results of each demand when it runs alone on the configuration; left out for one demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub demands: Vec<PlanDemandRow>,
}

/// The results of one of several demands that runs alone on a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanDemandRow {
    pub demand: String,
    /// Best weights of the tiers for this demand alone.
    pub weights: Vec<u16>,
    pub threads: f64,
    pub speed: f64,
    pub speed_interval: [f64; 2],
    /// Result of the demand, in the `result_unit` of the demand in the document's `demands`.
    pub result: f64,
    pub bandwidth_gbps: f64,
    pub latency_ns: f64,
    pub power_w: Option<f64>,
    /// Energy of a run of the demand, J, or of a unit of work if its result is a rate; null if
    /// unknown.
    pub task_energy_j: Option<f64>,
    /// True if the configuration has enough memory for the demand.
    pub fits: bool,
    /// Resource that limits the speed of the demand.
    pub bound_by: String,
}

/// The two recommendations if one figure of the plan is changed: with the lowered figure and with
/// the raised figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SensitivityRow {
    pub figure: String,
    /// Value of the figure before the change, in `unit`; left out if it differs between
    /// configurations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Configurations that are recommended with the lowered and with the raised figure; null if no
    /// configuration has enough memory.
    pub recommended: [Option<String>; 2],
    pub changes: bool,
    /// Nearest factors below and above 1 by which the figure must be multiplied to change the
    /// recommendation, among factors from 0.1 to 10. Null if no factor changes it, or if none was
    /// searched for.
    pub factors: [Option<f64>; 2],
    /// Configuration that is recommended beyond each of `factors`; null if the factor is null, or
    /// if no configuration has enough memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_beyond: Option<[Option<String>; 2]>,
}

impl SensitivityRow {
    /// True if multiplying the varied input (`figure`) by one of `factors` changes the
    /// recommendation.
    pub fn has_factor(&self) -> bool {
        self.factors.iter().any(Option::is_some)
    }
}

/// A part of the configurations, and its price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanPart {
    pub name: String,
    pub price: f64,
    /// Power of one piece, W; 0 if the power of the platform includes it.
    pub power_w: f64,
    pub source: String,
    pub date: String,
}

/// The price of energy, and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanEnergy {
    pub price_per_kwh: f64,
    pub source: String,
    pub date: String,
}

impl PlanDocument {
    /// Returns a figure of speed against cost, and one of speed against energy, each with its
    /// Pareto front.
    pub fn figures(&self) -> Vec<Figure> {
        let cost_label = format!("cost, {}", self.currency);
        let energy_label = format!("energy, J {}", self.task());
        let mut figures = vec![self.front(
            "cost",
            "Speed and cost",
            &cost_label,
            |row| Some(row.cost),
            |row| row.on_cost_front,
        )];
        if self.rows.iter().any(|row| row.task_energy_j.is_some()) {
            figures.push(self.front(
                "energy",
                "Speed and energy",
                &energy_label,
                |row| row.task_energy_j,
                |row| row.on_energy_front,
            ));
        }
        figures
    }

    /// Returns the number of threads if it is the same on all configurations, and otherwise `None`.
    pub fn threads(&self) -> Option<f64> {
        let first = self.rows.first()?.threads;
        first.filter(|_| self.rows.iter().all(|row| row.threads == first))
    }

    /// Returns the unit of work that `task_energy_j` is for. For several demands, it is the work
    /// that takes a second on the baseline.
    pub fn task(&self) -> String {
        match self.demands.is_empty() {
            true => task_of(&self.result_unit),
            false => "a baseline second".into(),
        }
    }

    fn front(
        &self,
        id: &str,
        title: &str,
        x_label: &str,
        x: impl Fn(&PlanRow) -> Option<f64>,
        on_front: impl Fn(&PlanRow) -> bool,
    ) -> Figure {
        let known = self.rows.iter().filter(|row| row.fits);
        let all: Vec<(&PlanRow, f64)> = known.filter_map(|row| Some((row, x(row)?))).collect();
        let points = |name: &str, group, is_in: &dyn Fn(&PlanRow) -> bool| {
            let own: Vec<_> = all.iter().filter(|(row, _)| is_in(row)).collect();
            Series::new(name, SeriesKind::Points, group, own.iter().map(|(row, x)| (*x, row.speed)))
                .with_labels(own.iter().map(|(row, _)| row.configuration.clone()).collect())
                .with_interval(own.iter().map(|(row, _)| row.speed_interval.into()))
        };
        let mut front: Vec<_> = all.iter().filter(|(row, _)| on_front(row)).collect();
        front.sort_by(|a, b| a.1.total_cmp(&b.1));
        let front = front.iter().map(|(row, x)| (*x, row.speed));
        let is_best = |row: &PlanRow| self.recommended.as_ref() == Some(&row.configuration);
        let parts = [
            points("recommended", 2, &|row| is_best(row)),
            points("on the front", 0, &|row| on_front(row) && !is_best(row)),
            points("others", 1, &|row| !on_front(row) && !is_best(row)),
        ];
        let mut series = vec![Series::new("Pareto front", SeriesKind::Line, 0, front)];
        series.extend(parts.into_iter().filter(|own| !own.x.is_empty()));
        let quantity = x_label.split(',').next().unwrap_or_default();
        Figure {
            id: id.into(),
            title: format!("{title}: {}", self.demand),
            y_from: 0.0,
            scale: Scale::LinearFromZero,
            x_label: x_label.into(),
            y_label: format!("speed, {} = 1", self.baseline),
            categories: vec![],
            series,
            caption: format!(
                "No configuration that can be bought is faster than one of the front at the same \
                 or a lower {quantity}. Vertical lines are 90 % intervals."
            ),
        }
    }
}

/// Returns the work to which a result in `unit` refers: "a run" for `s`, "a GB" for `GB/s`.
pub fn task_of(unit: &str) -> String {
    match (unit, unit.strip_suffix("/s")) {
        ("s", _) => "a run".into(),
        (_, Some(work)) => format!("a {work}"),
        (unit, None) => format!("a {unit} x s"),
    }
}

/// Checks the fields `speed` and `speed_interval` of the object whose path is `of`.
fn check_speed(of: &str, speed: f64, interval: [f64; 2]) -> Checked {
    let (field, [low, high]) = (format!("{of}.speed"), interval);
    in_order(format!("{of}.speed_interval"), interval)?;
    if speed <= 0.0 {
        return invalid(field, format!("{speed} is not above 0"));
    }
    if !(low..=high).contains(&speed) {
        return invalid(field, format!("{speed} is outside its interval, {low} to {high}"));
    }
    Ok(())
}

impl Check for PlanDocument {
    fn check(&self) -> Checked {
        not_empty("rows", self.rows.len())?;
        let known = |name: &String| self.rows.iter().any(|row| row.configuration == *name);
        for (at, row) in self.rows.iter().enumerate() {
            identifier(format!("rows[{at}].configuration"), &row.configuration)?;
            let field = format!("rows[{at}].demands");
            same_length(field.as_str(), row.demands.len(), self.demands.len(), "demands")?;
            if row.demands.is_empty() {
                not_empty(format!("rows[{at}].weights"), row.weights.len())?;
            }
            check_speed(&format!("rows[{at}]"), row.speed, row.speed_interval)?;
            not_negative(format!("rows[{at}].cost"), row.cost)?;
            not_negative(format!("rows[{at}].parts_cost"), row.parts_cost)?;
            for (of, own) in row.demands.iter().enumerate() {
                not_empty(format!("{field}[{of}].weights"), own.weights.len())?;
                check_speed(&format!("{field}[{of}]"), own.speed, own.speed_interval)?;
            }
        }
        let named =
            [("baseline", Some(&self.baseline)), ("recommended", self.recommended.as_ref())];
        for (field, name) in named {
            if let Some(name) = name.filter(|name| !known(name)) {
                return invalid(field, format!("there is no row {name:?}"));
            }
        }
        Ok(())
    }
}
