//! Simulates a server under a policy that is written in Rust, as in docs/policies.md, and prints
//! the record, which compares this policy with the built-in policies.

use core::time::Duration;
use interleaf_job::machine::{MachineJob, OwnPolicy};
use interleaf_model::{
    policy::{Observation, Policy, PolicyKind, Verdict},
    units::Percent,
};
use std::{error::Error, io::Write as _};

struct EqualLatency;

impl Policy for EqualLatency {
    fn start(&self) -> Vec<f64> {
        vec![1.0, 0.0]
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        let [near, far] = [0, 1].map(|tier| seen.tiers[tier].latency_ns.unwrap_or(0.0));
        let step = if near > far { -0.02 } else { 0.02 };
        let first = (seen.target[0] + step).clamp(0.0, 1.0);
        let reason = format!("{near:.0} ns and {far:.0} ns");
        Verdict::interleave(vec![first, 1.0 - first], "step", reason)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let platform = interleaf_catalog::platform("gnr120-cz122")?;
    let demand = interleaf_catalog::workload("cloverleaf")?;
    let job = MachineJob {
        scenario: interleaf_catalog::single_workload(&platform, &demand, Some(119), None)?,
        duration: Duration::from_secs(600),
        policy: PolicyKind::Dmi,
        weights: None,
        curve_error: Percent::ZERO,
        compare: true,
    };
    let own = OwnPolicy { name: "equal-latency", make: &|_, _| Box::new(EqualLatency) };
    let record = job.run_own(&own, &|| job.best_static(), &())?;
    std::io::stdout().write_all(interleaf_record::json(&record).as_bytes())?;
    Ok(())
}
