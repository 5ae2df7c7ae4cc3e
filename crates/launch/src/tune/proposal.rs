//! Proposes the first weights of a search. They come from the curves of a platform if one is given;
//! otherwise from the rated bandwidths of the nodes (the firmware's figures), like the kernel's
//! automatic weights.

use super::TuneOptions;
use interleaf_console::Failure;
use interleaf_linux::machine::{id_list::IdList, node::Node, topology::Machine};
use interleaf_model::{
    mix::Mix, policy::kernel_weights, predict::saturating_load, weights::Weights,
};

/// Proposed weights, and a text that names their source for the user.
pub(super) struct Proposal {
    pub(super) weights: Weights,
    pub(super) source: String,
}

/// The largest weight of a tier for which the curves of a platform are evaluated, on machines with
/// 2, 3 and 4 tiers. These limits keep the number of ratios low.
const LIMITS: [u16; 3] = [10, 6, 4];

/// Returns the first weights of the search.
///
/// # Errors
/// When all memory is one tier, or the options do not fit the tiers.
pub(super) fn propose(options: &TuneOptions, machine: &Machine) -> Result<Proposal, Failure> {
    let tiers = tiers(options, machine)?;
    if let Some(wrong) = options.weights.iter().find(|it| it.as_slice().len() != tiers.len()) {
        return Err(Failure::new(
            format!(
                "{wrong} has {} weights, and there are {}",
                wrong.as_slice().len(),
                tiers_text(&tiers)
            ),
            "give one weight for each of them in each of the weights, 0 keeps one out",
        ));
    }
    // Each entry of `--weights` needs a run, and so do the weights that put all pages on the first
    // tier. The number in the hint allows two more runs, which repeat the two best entries.
    let least = options.weights.len() + 1;
    if options.runs < least {
        return Err(Failure::new(
            format!(
                "--runs {} is too few for {} weights and all on the first tier",
                options.runs,
                options.weights.len()
            ),
            format!("allow --runs {}, or list fewer weights", least + 2),
        ));
    }
    if let Some(name) = &options.platform {
        return by_curves(name, &tiers);
    }
    Ok(by_ratings(machine, &tiers))
}

/// Returns the nodes of each tier. With `--nodes`, each of the named nodes is a tier.
fn tiers(options: &TuneOptions, machine: &Machine) -> Result<Vec<IdList>, Failure> {
    let tiers = match &options.nodes {
        Some(named) => {
            let nodes = IdList::of_user(named, &machine.node_list()).map_err(|why| {
                Failure::new(format!("--nodes: {why}"), "`interleaf show` lists the nodes")
            })?;
            nodes.into_iter().map(|node| [node].into_iter().collect()).collect()
        }
        None => machine.memory_by_speed(),
    };
    if tiers.len() > 1 {
        return Ok(tiers);
    }
    let nodes = machine.memory_nodes();
    if nodes.len() > 1 {
        let problem = match &options.nodes {
            Some(named) => format!("--nodes {named} names one node: there is nothing to tune"),
            None => format!("nodes {nodes} are one tier: there is nothing to tune"),
        };
        return Err(Failure::new(problem, format!("name several nodes, such as --nodes {nodes}")));
    }
    Err(Failure::new(
        format!("all memory is on node {nodes}: there is nothing to tune"),
        "`interleaf doctor` says how an expander becomes a node; without one, `interleaf measure \
         app --demand FILE -- COMMAND` writes the demand of the program, `interleaf predict \
         --platform NAME --demand FILE` proposes weights for another machine, and --root DIR \
         plans for a captured one",
    ))
}

fn tiers_text(tiers: &[IdList]) -> String {
    let names: Vec<String> = tiers.iter().map(IdList::to_string).collect();
    format!("{} tiers ({})", tiers.len(), names.join(" | "))
}

/// Returns the weights that have the highest bandwidth by the curves of a platform, for reads that
/// saturate the platform.
fn by_curves(name: &str, tiers: &[IdList]) -> Result<Proposal, Failure> {
    let platform = interleaf_catalog::platform(name)?;
    let (has, count) = (platform.tiers.len(), tiers.len());
    let limit = count.checked_sub(2).and_then(|at| LIMITS.get(at));
    let (true, Some(limit)) = (has == count, limit) else {
        return Err(Failure::new(
            format!("--platform {name} has {has} tiers, and this machine {}", tiers_text(tiers)),
            "give a platform with as many tiers, at most four, or none",
        ));
    };
    let load = saturating_load(&platform, Mix::READ);
    let prediction = load.predict(&platform, &Weights::every_ratio(count, *limit));
    let best = prediction.best.map(|best| prediction.rows[best].weights.clone());
    let weights = best.unwrap_or_else(|| Weights::first_tier(count));
    Ok(Proposal { weights, source: format!("the curves of {}, for reads", platform.name) })
}

/// Returns the weights that the kernel's automatic mode would compute from the rated bandwidths of
/// the tiers. A tier's rated bandwidth is the sum over its nodes. If a node has no rating, returns
/// a guess: each tier has twice the weight of the next slower tier.
fn by_ratings(machine: &Machine, tiers: &[IdList]) -> Proposal {
    let rated = |node: &Node| {
        let rated = node.rated.as_ref()?;
        let both = [rated.read_mibps?, rated.write_mibps.unwrap_or(u64::MAX)];
        both.into_iter().min()
    };
    let of_tier = |tier: &IdList| {
        let nodes = machine.nodes.iter().filter(|node| tier.has(node.id));
        nodes.map(rated).sum::<Option<u64>>()
    };
    let ratings: Option<Vec<u64>> = tiers.iter().map(of_tier).collect();
    let (weights, source) = match ratings {
        Some(mibps) => {
            let most = |mibps: &u64| u32::try_from(*mibps).unwrap_or(u32::MAX);
            let weights = kernel_weights(&mibps.iter().map(most).collect::<Vec<_>>());
            let gbps = mibps
                .iter()
                .map(|mibps| format!("{:.0}", *mibps as f64 * f64::from(1 << 20) / 1e9));
            let gbps = gbps.collect::<Vec<_>>().join(":");
            (weights.into_iter().map(u16::from).collect(), format!("rated bandwidths, {gbps} GB/s"))
        }
        None => {
            let behind = |at: usize| 1 << (tiers.len() - 1 - at).min(7);
            let weights = (0..tiers.len()).map(behind).collect::<Vec<u16>>();
            let is_of_tier = |node: &&Node| tiers.iter().any(|tier| tier.has(node.id));
            let nodes: Vec<&Node> = machine.nodes.iter().filter(is_of_tier).collect();
            let unrated = nodes.iter().filter(|node| rated(node).is_none());
            let unrated: Vec<String> = unrated.map(|node| node.id.to_string()).collect();
            let source = match unrated.len() == nodes.len() {
                true => "a guess: the firmware rates no bandwidths".to_string(),
                false => format!(
                    "a guess: the firmware rates no bandwidth of node {}",
                    unrated.join(", ")
                ),
            };
            (weights, source)
        }
    };
    let weights = Weights::new(weights).unwrap_or_else(|_| Weights::first_tier(tiers.len()));
    Proposal { weights, source }
}
