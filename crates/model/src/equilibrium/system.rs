//! Solves loads on the tiers of a platform for their common equilibrium.

use super::{load::Load, network, root::root, station::TierView};
use crate::{
    curve::{Flow, Response},
    platform::Platform,
};

/// The fraction of bandwidth that a tier keeps under any traffic elsewhere: traffic slows a tier
/// down, but does not stop it.
const LEAST_BANDWIDTH_FACTOR: f64 = 0.02;

/// The most rounds for loads that share tiers; the last round is the result.
const ROUNDS_MAX: usize = 200;

/// The equilibrium of one load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadEquilibrium {
    /// Total bandwidth, GB/s.
    pub bandwidth_gbps: f64,
    /// Bandwidth on each tier, GB/s.
    pub tier_bandwidth_gbps: Vec<f64>,
    /// The latency of a line from each tier, ns; the idle latency of a tier without traffic.
    pub tier_latency_ns: Vec<f64>,
    /// Mean latency of a line, ns.
    pub latency_ns: f64,
}

/// The equilibrium of all loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Equilibrium {
    /// One equilibrium for each load, in their order.
    pub loads: Vec<LoadEquilibrium>,
    /// The reasons why figures are extrapolations.
    pub extrapolated: Vec<String>,
}

/// A platform with its curves prepared for the mixes of some loads.
pub struct System<'a> {
    platform: &'a Platform,
    /// The response of each tier to each load alone.
    responses: Vec<Vec<Response>>,
    /// Other traffic on each tier, independent of the loads, GB/s.
    background_gbps: Vec<f64>,
    extrapolated: Vec<String>,
}

/// The traffic of all loads on all tiers: start and result of an iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadTraffic {
    /// By load and tier, GB/s.
    bandwidth_gbps: Vec<Vec<f64>>,
    /// By load and tier.
    in_flight_bytes: Vec<Vec<f64>>,
}

impl LoadTraffic {
    /// No traffic.
    fn none(loads: usize, tiers: usize) -> Self {
        let none = vec![vec![0.0; tiers]; loads];
        Self { bandwidth_gbps: none.clone(), in_flight_bytes: none }
    }

    fn is_of(&self, loads: usize, tiers: usize) -> bool {
        self.bandwidth_gbps.len() == loads
            && self.bandwidth_gbps.iter().all(|row| row.len() == tiers)
    }
}

impl<'a> System<'a> {
    /// Prepares `platform` for loads with the mixes and domains of `loads`.
    pub fn new(platform: &'a Platform, loads: &[Load]) -> Self {
        let mut extrapolated = vec![];
        let mut answer = |load: &Load| {
            let tiers = platform.tiers.iter().enumerate().zip(&load.mixes).zip(&load.shares);
            tiers
                .map(|(((at, tier), mix), share)| {
                    let answer = platform.answer(at, &load.domain_parts, *mix);
                    if let Some(why) = answer.extrapolated.filter(|_| *share > 0.0) {
                        let why = format!("{}: {why}", tier.name);
                        if !extrapolated.contains(&why) {
                            extrapolated.push(why);
                        }
                    }
                    answer.response
                })
                .collect()
        };
        let responses = loads.iter().map(&mut answer).collect();
        let background_gbps = vec![0.0; platform.tiers.len()];
        Self { platform, responses, background_gbps, extrapolated }
    }

    /// Adds `background_gbps` of traffic on each tier, independent of the loads: traffic of
    /// devices, or of page migration.
    pub fn beside(&self, loads: &[Load], background_gbps: &[f64]) -> Self {
        let responses = self.responses.iter().zip(loads).map(|(responses, load)| {
            let tiers = responses.iter().zip(background_gbps).zip(&load.bandwidth_factors);
            // A pattern that reaches only a fraction of the curve loses more of it to background
            // traffic.
            tiers.map(|((response, gbps), factor)| response.beside(gbps / factor)).collect()
        });
        Self {
            platform: self.platform,
            responses: responses.collect(),
            background_gbps: background_gbps.to_vec(),
            extrapolated: self.extrapolated.clone(),
        }
    }

    /// The reasons why the answers are extrapolations.
    pub fn extrapolated(&self) -> &[String] {
        &self.extrapolated
    }

    /// The response of each tier to the first load.
    pub fn responses(&self) -> &[Response] {
        &self.responses[0]
    }

    /// Solves `loads`: the same number of loads as in [`System::new`], with the same mixes and
    /// domains.
    pub fn solve(&self, loads: &[Load]) -> Equilibrium {
        let loads = self.solve_from(loads, &mut LoadTraffic::default(), 1e-9);
        Equilibrium { loads, extrapolated: self.extrapolated.clone() }
    }

    /// [`System::solve`] that starts from `traffic`, the result of a similar problem, and replaces
    /// it by its own. With several loads, the iteration ends when no load changes by more than the
    /// fraction `tolerance`.
    pub fn solve_from(
        &self,
        loads: &[Load],
        traffic: &mut LoadTraffic,
        tolerance: f64,
    ) -> Vec<LoadEquilibrium> {
        if !traffic.is_of(loads.len(), self.platform.tiers.len()) {
            *traffic = LoadTraffic::none(loads.len(), self.platform.tiers.len());
        }
        if let [load] = loads {
            vec![self.solve_alone(load, traffic)]
        } else {
            self.solve_together(loads, traffic, tolerance)
        }
    }

    /// Solves one load. Only the coupling of tiers feeds back: higher traffic lowers the available
    /// bandwidth. The bandwidth is a root between zero and the bandwidth without coupling.
    fn solve_alone(&self, load: &Load, traffic: &mut LoadTraffic) -> LoadEquilibrium {
        let mut reach = |bandwidth: f64| {
            for (tier, share) in load.shares.iter().enumerate() {
                traffic.bandwidth_gbps[0][tier] = share * bandwidth;
            }
            self.network(std::slice::from_ref(load), 0, traffic)
        };
        let uncoupled = reach(0.0);
        let coupled = self.platform.couplings.iter().any(|coupling| {
            load.shares[coupling.from] > 0.0
                && load.shares[coupling.to] > 0.0
                && coupling.loss > 0.0
        });
        if !coupled {
            return uncoupled;
        }
        let most = uncoupled.bandwidth_gbps;
        let mut reached = reach(most);
        let with_most = reached.bandwidth_gbps - most;
        let miss = |bandwidth: f64| {
            reached = reach(bandwidth);
            reached.bandwidth_gbps - bandwidth
        };
        root(miss, (0.0, most), (most, with_most), 1e-9);
        reached
    }

    /// Solves several loads: each in turn moves half of the way to its equilibrium with the bytes
    /// in flight of the others, until none changes.
    fn solve_together(
        &self,
        loads: &[Load],
        traffic: &mut LoadTraffic,
        tolerance: f64,
    ) -> Vec<LoadEquilibrium> {
        let mut solved: Vec<Option<LoadEquilibrium>> = vec![None; loads.len()];
        let fresh = traffic.bandwidth_gbps.iter().flatten().all(|gbps| *gbps == 0.0);
        for round in 0..ROUNDS_MAX {
            let mut moved = 0.0_f64;
            for (at, slot) in solved.iter_mut().enumerate() {
                let reached = self.network(loads, at, traffic);
                let part = if fresh && round == 0 { 1.0 } else { 0.5 };
                for tier in 0..self.platform.tiers.len() {
                    let bandwidth = reached.tier_bandwidth_gbps[tier];
                    let bytes = bandwidth * reached.tier_latency_ns[tier];
                    let known = &mut traffic.bandwidth_gbps[at][tier];
                    moved = moved.max((bandwidth - *known).abs() / reached.bandwidth_gbps);
                    *known += part * (bandwidth - *known);
                    let known = &mut traffic.in_flight_bytes[at][tier];
                    *known += part * (bytes - *known);
                }
                *slot = Some(reached);
            }
            if moved < tolerance {
                break;
            }
        }
        solved.into_iter().flatten().collect()
    }

    /// Solves the network of the page streams of load `at`, beside the given traffic of the others.
    fn network(&self, loads: &[Load], at: usize, traffic: &LoadTraffic) -> LoadEquilibrium {
        let load = &loads[at];
        let streams = self.platform.interleaving.page_streams as usize;
        let visited: Vec<usize> =
            (0..load.shares.len()).filter(|tier| load.shares[*tier] > 0.0).collect();
        let flows: Vec<Vec<Flow>> = visited
            .iter()
            .map(|tier| {
                let view = self.view(loads, at, *tier, traffic);
                let bytes = load.circulating_bytes() / streams as f64;
                (1..=streams).map(|n| view.flow(load, bytes * n as f64)).collect()
            })
            .collect();
        let stations: Vec<network::Station> = visited
            .iter()
            .zip(&flows)
            .map(|(tier, flows)| network::Station {
                visit: load.shares[*tier],
                rates: flows.iter().map(|flow| flow.bandwidth_gbps).collect(),
            })
            .collect();
        let groups = self.groups(loads, at, &visited, traffic);
        let Reached { bandwidth_gbps, occupancy, queued_bytes } =
            reach(&groups, &stations, load.exposed_compute_ns());

        let mut tier_bandwidth_gbps = vec![0.0; load.shares.len()];
        let mut tier_latency_ns: Vec<f64> =
            self.responses[at].iter().map(Response::idle_latency_ns).collect();
        for (index, tier) in visited.iter().enumerate() {
            let own = bandwidth_gbps * load.shares[*tier];
            let in_flight: f64 = occupancy[index][1..]
                .iter()
                .zip(&flows[index])
                .map(|(chance, flow)| chance * flow.in_flight_bytes())
                .sum();
            tier_bandwidth_gbps[*tier] = own;
            tier_latency_ns[*tier] = (in_flight + queued_bytes[index]) / own;
        }
        let latency_ns =
            load.shares.iter().zip(&tier_latency_ns).map(|(share, latency)| share * latency).sum();
        LoadEquilibrium { bandwidth_gbps, tier_bandwidth_gbps, tier_latency_ns, latency_ns }
    }

    /// Tier `tier` from the view of load `at`.
    fn view(&self, loads: &[Load], at: usize, tier: usize, traffic: &LoadTraffic) -> TierView<'_> {
        let on_tier = |load: usize| traffic.bandwidth_gbps[load][tier];
        let all: f64 = (0..loads.len()).map(on_tier).sum();
        let responses = if loads.len() == 1 || all == 0.0 {
            vec![(1.0, &self.responses[at][tier])]
        } else {
            (0..loads.len())
                .filter(|load| on_tier(*load) > 0.0)
                .map(|load| (on_tier(load) / all, &self.responses[load][tier]))
                .collect()
        };
        let others = (0..loads.len()).filter(|load| *load != at);
        let others_bytes = others.map(|load| traffic.in_flight_bytes[load][tier]).sum();
        let full =
            loads[at].bandwidth_factors[tier] * self.responses[at][tier].max_bandwidth_gbps();
        let lost: f64 = self
            .platform
            .couplings
            .iter()
            .filter(|coupling| coupling.to == tier)
            .map(|coupling| {
                let from: f64 =
                    traffic.bandwidth_gbps.iter().map(|tiers| tiers[coupling.from]).sum();
                coupling.loss * (from + self.background_gbps[coupling.from])
            })
            .sum();
        let left = (1.0 - lost / full).max(LEAST_BANDWIDTH_FACTOR);
        let bandwidth_factor = loads[at].bandwidth_factors[tier] * left;
        TierView { responses, bandwidth_factor, others_bytes }
    }

    /// Groups the visited tiers (as indices into `visited`) by link, with the bandwidth left for
    /// load `at`: the traffic at which the fraction that crosses the link fills the link. A tier
    /// without a link is a group of its own.
    fn groups(
        &self,
        loads: &[Load],
        at: usize,
        visited: &[usize],
        traffic: &LoadTraffic,
    ) -> Vec<(Vec<usize>, f64)> {
        let mut groups: Vec<(Vec<usize>, f64)> = vec![];
        let mut grouped = vec![false; visited.len()];
        for link in &self.platform.links {
            let crossing = link.crossing(&loads[at].domain_parts);
            if crossing <= 0.0 {
                continue;
            }
            let behind: Vec<usize> =
                (0..visited.len()).filter(|index| link.tiers.contains(&visited[*index])).collect();
            if behind.is_empty() {
                continue;
            }
            let others: f64 = (0..loads.len())
                .filter(|other| *other != at)
                .flat_map(|other| {
                    let crossing = link.crossing(&loads[other].domain_parts);
                    let tiers = link.tiers.iter();
                    tiers.map(move |tier| crossing * traffic.bandwidth_gbps[other][*tier])
                })
                .chain(link.tiers.iter().map(|tier| self.background_gbps[*tier]))
                .sum();
            // Each of the loads on a saturated link gets at least an equal share.
            let fair = link.bandwidth_gbps / loads.len() as f64;
            let left = (link.bandwidth_gbps - others).max(fair) / crossing;
            behind.iter().for_each(|index| grouped[*index] = true);
            groups.push((behind, left));
        }
        let alone = (0..visited.len()).filter(|index| !grouped[*index]);
        groups.extend(alone.map(|index| (vec![index], f64::INFINITY)));
        groups
    }
}

/// The solution of the network of a load's page streams.
struct Reached {
    bandwidth_gbps: f64,
    /// The probability of 0, 1, ... streams, by station.
    occupancy: Vec<Vec<f64>>,
    /// Bytes queued at the link, by station.
    queued_bytes: Vec<f64>,
}

/// Solves the network in two steps: the stations behind a link become one station with their common
/// rate, limited by the bandwidth of the link (a flow-equivalent server; Chandy, Herzog and Woo
/// 1975).
fn reach(
    groups: &[(Vec<usize>, f64)],
    stations: &[network::Station],
    exposed_compute_ns: f64,
) -> Reached {
    if groups.iter().all(|(_, limit)| limit.is_infinite()) {
        let network::Solution { throughput, occupancy } = network::solve(stations);
        let queued_bytes = vec![0.0; stations.len()];
        return Reached { bandwidth_gbps: throughput, occupancy, queued_bytes };
    }
    let streams = stations[0].rates.len();
    let inner: Vec<Vec<network::Station>> = groups
        .iter()
        .map(|(members, _)| {
            let visit: f64 = members.iter().map(|index| stations[*index].visit).sum();
            let within = |index: &usize| network::Station {
                visit: stations[*index].visit / visit,
                rates: stations[*index].rates.clone(),
            };
            members.iter().map(within).collect()
        })
        .collect();
    let unlimited: Vec<Vec<f64>> = inner.iter().map(|group| network::throughputs(group)).collect();
    let outer: Vec<network::Station> = groups
        .iter()
        .zip(&unlimited)
        .map(|((members, limit), rates)| network::Station {
            visit: members.iter().map(|index| stations[*index].visit).sum(),
            rates: rates.iter().map(|rate| rate.min(*limit)).collect(),
        })
        .collect();
    let solution = network::solve(&outer);

    let mut occupancy = vec![vec![]; stations.len()];
    let mut queued_bytes = vec![0.0; stations.len()];
    for (at, (members, limit)) in groups.iter().enumerate() {
        let chances = &solution.occupancy[at];
        let queued: f64 = (1..=streams)
            .map(|n| {
                // Lines that the threads would compute on without the limit of the link.
                let held_back = (unlimited[at][n - 1] - limit).max(0.0);
                chances[n] * held_back * exposed_compute_ns
            })
            .sum();
        for (within, index) in members.iter().enumerate() {
            queued_bytes[*index] = queued * inner[at][within].visit;
            occupancy[*index] = network::occupancy_of(&inner[at], within, chances);
        }
    }
    Reached { bandwidth_gbps: solution.throughput, occupancy, queued_bytes }
}
