//! Simulations of machines, memory modules and cards. Each function returns a record as JSON text.

use crate::{
    call,
    error::exception,
    model::{DemandHandle, PlatformHandle},
    options::{Texts, parsed, whole},
    policy::{PythonPolicy, Watch},
};
use interleaf_card::{
    fio::{
        FioOptions,
        value::{self, Depths},
    },
    memory_mode::Initiator,
};
use interleaf_console::Failure;
use interleaf_job::{
    card::{CardJob, Moments},
    dimm::{self, ControllerChoice, DimmJob, DimmSystem},
    machine::{self, MachineJob, OwnPolicy, ScenarioChanges},
    option::{self, LoadChoice},
};
use interleaf_model::{
    demand::Demand,
    machine::TierLayout,
    mix::Mix,
    platform::Platform,
    policy::{Policy, PolicyKind},
    units::{Percent, Time},
};
use interleaf_sim::{
    dimm::{
        closed_loop::Pattern,
        device::{self, Options},
        run::Setup,
    },
    machine::{
        Scenario, StaticBest,
        scenario::{Damon, Migration},
    },
};
use pyo3::prelude::*;
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The options of fio that a simulation of cards accepts, by their names in job files. In Python,
/// `randseed` is called `seed`, as in the other simulations.
const FIO_WORDS: [&str; 11] = [
    "rw",
    "bs",
    "numjobs",
    "rate_iops",
    "rwmixread",
    "ramp_time",
    "runtime",
    "size",
    "direct",
    "norandommap",
    "randseed",
];

/// Simulates a machine. The record has the schema `interleaf.simulate.machine/1`.
#[pyfunction]
#[pyo3(signature = (platform, demand, texts, progress=None))]
fn simulate_machine(
    py: Python<'_>,
    platform: Option<&PlatformHandle>,
    demand: Option<&DemandHandle>,
    texts: Texts,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let platform = platform.map(|it| Arc::clone(&it.platform));
    let demand = demand.map(|it| Arc::clone(&it.demand));
    call::long(py, progress, move |steps| {
        let job = machine_job(platform.as_deref(), demand.as_deref(), &texts)?;
        Ok(interleaf_record::json(&job.run_beside(&|| best_static(&job), steps)?))
    })
}

/// Like `simulate_machine`, but with policies of the caller in Python: `factory(domain, tiers)`
/// creates the policy of a domain. The simulation, with its policies, runs on the calling thread.
#[pyfunction]
#[pyo3(signature = (platform, demand, texts, name, factory, progress=None))]
fn simulate_policy(
    py: Python<'_>,
    platform: Option<&PlatformHandle>,
    demand: Option<&DemandHandle>,
    texts: Texts,
    name: String,
    factory: Py<PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let platform = platform.map(|it| Arc::clone(&it.platform));
    let demand = demand.map(|it| Arc::clone(&it.demand));
    let watch = Watch::new(progress);
    let run = || {
        let job = machine_job(platform.as_deref(), demand.as_deref(), &texts)?;
        let make = |domain: usize, tiers: &[TierLayout]| -> Box<dyn Policy> {
            Box::new(PythonPolicy::new(&factory, &watch, domain, tiers))
        };
        let own = OwnPolicy { name: &name, make: &make };
        let best = || {
            let job = job.clone();
            watch.part(move || Ok(best_static(&job))).flatten()
        };
        Ok(interleaf_record::json(&job.run_own(&own, &best, &watch)?))
    };
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(run)));
    watch.end(py)?;
    match done {
        Ok(result) => result.map_err(|why: Failure| exception(py, why)),
        Err(panic) => Err(crate::error::defect(&*panic)),
    }
}

/// Number of scenarios whose best static weights are cached. This is enough for a sweep, which has
/// few scenarios with many policies and seeds each.
const KEPT: usize = 32;

/// The cached best static weights, oldest first, as pairs of (key of a scenario and a duration,
/// weights).
static BEST: Mutex<VecDeque<(String, Option<StaticBest>)>> = Mutex::new(VecDeque::new());

/// Returns the best static weights of a job. Caches them for later jobs with the same scenario.
fn best_static(job: &MachineJob) -> Option<StaticBest> {
    // Reset the settings that do not affect static weights, so that more jobs share a scenario.
    let scenario = Scenario {
        seed: 0,
        counter_noise: 0.0,
        migration: Migration::default(),
        damon: Damon::default(),
        ..job.scenario.clone()
    };
    let key = format!("{:?} {scenario:?}", job.duration);
    let kept = || BEST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, best)) = kept().iter().find(|(known, _)| *known == key) {
        return best.clone();
    }
    let best = job.best_static();
    let mut kept = kept();
    kept.push_back((key, best.clone()));
    if kept.len() > KEPT {
        kept.pop_front();
    }
    best
}

fn machine_job(
    platform: Option<&Platform>,
    demand: Option<&Demand>,
    texts: &Texts,
) -> Result<MachineJob, Failure> {
    let (mut scenario, own_duration) = scenario(platform, demand, texts)?;
    let changes = ScenarioChanges {
        migration_rate: parsed(texts, "migration_rate", option::rate)?,
        counter_noise: parsed(texts, "counter_noise", option::noise)?,
        seed: parsed(texts, "seed", option::seed)?,
    };
    changes.apply(&mut scenario);
    if let Some(groups) = parsed(texts, "page_groups", whole(1, GROUPS_MAX))? {
        scenario.page_groups = groups;
    }
    scenario.check().map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    let duration = parsed(texts, "duration", option::time)?;
    Ok(MachineJob {
        scenario,
        duration: machine::duration(duration, own_duration),
        policy: parsed(texts, "policy", |text| text.parse())?.unwrap_or(PolicyKind::Dmi),
        weights: parsed(texts, "weights", option::weights)?,
        curve_error: parsed(texts, "curve_error", option::curve_error)?.unwrap_or(Percent::ZERO),
        compare: texts.contains_key("compare"),
    })
}

/// Maximum number of page groups in a scenario.
const GROUPS_MAX: usize = interleaf_sim::machine::scenario::GROUPS_MAX;

fn scenario(
    platform: Option<&Platform>,
    demand: Option<&Demand>,
    texts: &Texts,
) -> Result<(Scenario, Option<Time>), Failure> {
    let threads = parsed(texts, "threads", option::threads)?;
    let footprint = parsed(texts, "footprint", option::size)?;
    match (texts.get("scenario"), demand, platform) {
        (Some(name), None, platform) => {
            for (given, option) in
                [(threads.is_some(), "threads"), (footprint.is_some(), "footprint")]
            {
                if given {
                    return Err(Failure::new(
                        format!("{option} goes with workload: a scenario has its own workloads"),
                        format!("leave {option} out, or change it in the scenario file"),
                    ));
                }
            }
            interleaf_catalog::scenario(name, platform.cloned())
        }
        (None, Some(demand), Some(platform)) => {
            let single = interleaf_catalog::single_workload(platform, demand, threads, footprint)?;
            Ok((single, None))
        }
        (None, Some(_), None) => Err(Failure::new(
            "there is no platform to simulate",
            format!("give platform, one of {}", interleaf_catalog::platform_names().join(", ")),
        )),
        _ => Err(Failure::new(
            "a simulation has one of workload, demand and scenario",
            "name what to simulate; scenario=\"shifting-demand\" needs nothing else",
        )),
    }
}

/// Simulates memory modules. The record has the schema `interleaf.simulate.dimm/1`.
#[pyfunction]
#[pyo3(signature = (texts, progress=None))]
fn simulate_dimm(py: Python<'_>, texts: Texts, progress: Option<Py<PyAny>>) -> PyResult<String> {
    call::long(py, progress, move |steps| {
        Ok(interleaf_record::json(&dimm_job(&texts)?.run(steps)?))
    })
}

fn dimm_job(texts: &Texts) -> Result<DimmJob, Failure> {
    let server = texts.get("server");
    let mixes = |text: &str| text.split(',').map(option::mix).collect::<Result<Vec<Mix>, _>>();
    Ok(DimmJob {
        setup: match server {
            Some(server) => server_setup(texts, server)?,
            None => module_setup(texts)?,
        },
        device: texts.get("device").cloned().unwrap_or_default(),
        server: server.cloned(),
        mixes: parsed(texts, "mix", mixes)?.unwrap_or_else(|| vec![Mix::READ]),
        load: parsed(texts, "load", option::load)?.unwrap_or(LoadChoice::Max),
        requests: parsed(texts, "requests", whole(1, dimm::REQUESTS_MAX))?
            .unwrap_or(dimm::REQUESTS),
    })
}

/// Returns the setup of a memory system with the same module in all channels.
fn module_setup(texts: &Texts) -> Result<Setup, Failure> {
    let Some(device) = texts.get("device") else {
        let hint = format!("give device, one of {}", device::names().join(", "));
        return Err(Failure::new("there is neither device nor server", hint));
    };
    let options =
        Options { density: texts.get("density").cloned(), width: texts.get("width").cloned() };
    let system = DimmSystem {
        device: dimm::device(device, &options)?,
        channels: parsed(texts, "channels", whole(1, dimm::CHANNELS_MAX))?
            .unwrap_or(dimm::CHANNELS),
        pattern: pattern(texts)?,
        outstanding: parsed(texts, "outstanding", whole(1, dimm::OUTSTANDING_MAX))?,
        uncore_ns: parsed(texts, "uncore_ns", option::uncore)?.unwrap_or(dimm::UNCORE_NS),
        controller: controller(texts)?,
        seed: seed(texts)?,
    };
    system.setup()
}

/// Returns the setup of the built-in server `server`, which sets the modules and the channels.
fn server_setup(texts: &Texts, server: &str) -> Result<Setup, Failure> {
    let own = ["device", "density", "width", "channels", "outstanding", "uncore_ns"];
    if let Some(name) = own.iter().find(|name| texts.contains_key(**name)) {
        let problem = format!("{name} cannot be used with server");
        return Err(Failure::new(problem, "leave one of them out: a server has its own modules"));
    }
    dimm::server(server, pattern(texts)?, controller(texts)?, seed(texts)?)
}

fn controller(texts: &Texts) -> Result<ControllerChoice, Failure> {
    Ok(ControllerChoice {
        row_policy: parsed(texts, "row_policy", option::row_policy)?,
        refresh: parsed(texts, "refresh", option::refresh)?,
    })
}

fn pattern(texts: &Texts) -> Result<Pattern, Failure> {
    Ok(parsed(texts, "pattern", option::pattern)?.unwrap_or(Pattern::Stream))
}

fn seed(texts: &Texts) -> Result<u64, Failure> {
    Ok(parsed(texts, "seed", option::seed)?.unwrap_or(1))
}

/// Simulates cards. The record has the schema `interleaf.simulate.card/1`.
#[pyfunction]
#[pyo3(signature = (cards, jobs, texts, progress=None))]
fn simulate_card(
    py: Python<'_>,
    cards: Vec<String>,
    jobs: Vec<String>,
    texts: Texts,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    call::long(py, progress, move |steps| {
        let job = card_job(&cards, &jobs, &texts)?;
        Ok(interleaf_record::json(&job.checked()?.run(steps)?))
    })
}

fn card_job(cards: &[String], jobs: &[String], texts: &Texts) -> Result<CardJob, Failure> {
    let mut words = FioOptions::default();
    for name in FIO_WORDS {
        let argument = if name == "randseed" { "seed" } else { name };
        let Some(text) = texts.get(argument) else { continue };
        words.set(name, text).map_err(|why| {
            Failure::new(
                format!("{argument} = \"{text}\": {}", why.problem),
                format!("write {}", why.allowed),
            )
        })?;
    }
    let count = whole(1u32, 1_000_000);
    let at = parsed(texts, "power_fail_at", value::time)?.map(Moments::At);
    let moments = parsed(texts, "power_fail_sweep", &count)?.map(Moments::Random);
    if at.is_some() && moments.is_some() {
        let problem = "power_fail_at cannot be used with power_fail_sweep";
        return Err(Failure::new(problem, "leave one of the two out"));
    }
    Ok(CardJob {
        files: jobs.iter().map(PathBuf::from).collect(),
        depths: parsed(texts, "iodepth", |text| text.parse::<Depths>())?,
        initiator: parsed(texts, "access", initiator)?.flatten(),
        fsync: parsed(texts, "fsync", &count)?,
        power_failures: at.or(moments),
        is_direct: texts.contains_key("direct"),
        ..CardJob::new(interleaf_job::card::cards(cards)?, words)
    })
}

fn initiator(text: &str) -> Result<Option<Initiator>, String> {
    match text {
        "storage" => Ok(None),
        "memory" => Ok(Some(Initiator::Processor)),
        "peer" => Ok(Some(Initiator::Peer)),
        _ => Err("there is no such access: write one of storage, memory, peer".into()),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate_machine, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_policy, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_dimm, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_card, module)?)
}
