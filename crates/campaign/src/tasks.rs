//! Plans the tasks of a measurement, in the order in which they run.

use crate::{
    options::{Measurement, Options},
    setup::Setup,
    task::{Loads, Task},
    weights,
};
use interleaf_console::Failure;
use interleaf_measure::traffic::Traffic;

/// The mixes that are measured by default with each choice of weights: those in a published matrix
/// of weights (CXL white paper CCM004-676576390-11778, section IV.A).
const OF_WEIGHTS: [&str; 4] = ["R", "W2", "W5", "W10"];

/// The default choices of weights, from the largest share of the first tier to the smallest.
const WEIGHTS: [&str; 8] = ["1:0", "9:1", "4:1", "3:1", "5:2", "2:1", "1:1", "0:1"];

/// Returns the tasks that measure the subject `setup.measurement`.
///
/// # Errors
/// When the weights cannot be used on this machine.
pub(crate) fn plan(setup: &Setup<'_>, options: &Options) -> Result<Vec<Task>, Failure> {
    let mixes =
        |usual: &[&str]| options.traffic.mixes.clone().unwrap_or_else(|| named_traffic(usual));
    let near = |from: usize| setup.nearest(&setup.from[from]);
    let loads = loads(options);
    let mut tasks = vec![];
    match setup.measurement {
        Measurement::Idle => {
            for memory in setup.memory.clone() {
                tasks.push(Task::Idle { from: 0, memory });
                tasks.push(Task::Sweep { from: 0, memory });
            }
        }
        Measurement::Bandwidth => {
            for memory in setup.memory.clone() {
                let of = |traffic| Task::Bandwidth { from: 0, memory, traffic };
                tasks.extend(mixes(&[]).into_iter().map(of));
            }
        }
        Measurement::Loaded => {
            for memory in setup.memory.clone() {
                let loads = loads.clone();
                let of = |traffic| Task::Loaded { from: 0, memory, traffic, loads: loads.clone() };
                tasks.extend(mixes(&["R"]).into_iter().map(of));
            }
        }
        Measurement::Histogram => {
            for memory in setup.memory.clone() {
                let traffic = mixes(&["R"])[0];
                let loads = loads.clone();
                tasks.push(Task::Histogram { from: 0, memory, traffic, loads });
            }
        }
        Measurement::Matrix => tasks.extend(matrix(setup, &mixes(&["R"]))),
        Measurement::Interleave => {
            let loads = options.interleave.as_ref().is_some_and(|it| it.loads).then_some(loads);
            let mixes = mixes(&OF_WEIGHTS);
            for weights in weights::choices(setup, options, &WEIGHTS)? {
                let (mixes, loads) = (mixes.clone(), loads.clone());
                tasks.push(Task::Weights { from: 0, weights, mixes, loads });
            }
        }
        Measurement::All => {
            let memory = near(0);
            tasks.extend(matrix(setup, &[Traffic::READ]));
            tasks.push(Task::Sweep { from: 0, memory });
            let of = |traffic| Task::Bandwidth { from: 0, memory, traffic };
            let is_new = |traffic: &Traffic| *traffic != Traffic::READ;
            tasks.extend(mixes(&[]).into_iter().filter(is_new).map(of));
            for memory in setup.memory.clone() {
                let (traffic, loads) = (Traffic::READ, loads.clone());
                tasks.push(Task::Loaded { from: 0, memory, traffic, loads });
            }
            let traffic = Traffic::READ;
            tasks.push(Task::Histogram { from: 0, memory, traffic, loads });
        }
    }
    Ok(tasks)
}

/// Returns the tasks that measure latency and bandwidth from the CPUs of each node to the memory of
/// each node.
fn matrix(setup: &Setup<'_>, mixes: &[Traffic]) -> Vec<Task> {
    let mut tasks = vec![];
    for from in 0..setup.from.len() {
        for memory in setup.memory.clone() {
            tasks.push(Task::Idle { from, memory });
            let of = |traffic: &Traffic| Task::Bandwidth { from, memory, traffic: *traffic };
            tasks.extend(mixes.iter().map(of));
        }
    }
    tasks
}

fn loads(options: &Options) -> Loads {
    let load = &options.load;
    match (load.delays.is_empty(), load.rates.is_empty()) {
        (false, _) => Loads::Delays(load.delays.clone()),
        (true, false) => Loads::Rates(load.rates.clone()),
        (true, true) => Loads::Found,
    }
}

/// Returns the mixes whose names are in `names`, or all mixes if `names` is empty.
fn named_traffic(names: &[&str]) -> Vec<Traffic> {
    let is_named = |it: &Traffic| names.is_empty() || names.contains(&it.to_string().as_str());
    Traffic::all().into_iter().filter(is_named).collect()
}
