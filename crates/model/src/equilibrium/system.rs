//! Solves the common equilibrium of several loads on the tiers of a platform.

use super::{
    limits::BandwidthLimits,
    load::Load,
    network::{self, Rows},
    root::root,
    station::TierView,
};
use crate::{
    curve::{Flow, Response},
    platform::Platform,
};

/// Minimum fraction of a tier's bandwidth that remains beside traffic on other tiers. Such traffic
/// slows a tier down through couplings, but does not stop it.
const LEAST_BANDWIDTH_FACTOR: f64 = 0.02;

/// Maximum number of rounds of the iteration that solves several loads on the same tiers. If the
/// iteration has not converged by then, the result of the last round is used.
const ROUNDS_MAX: usize = 200;

/// The equilibrium of one load: the bandwidth and the latency that its threads reach.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadEquilibrium {
    /// The bandwidth of the load on all tiers together, GB/s.
    pub bandwidth_gbps: f64,
    /// The bandwidth of the load on each tier, GB/s.
    pub tier_bandwidth_gbps: Vec<f64>,
    /// The latency of a line from each tier, ns; the idle latency of a tier without traffic.
    pub tier_latency_ns: Vec<f64>,
    /// Mean latency of the load's lines, ns.
    pub latency_ns: f64,
}

/// The equilibrium of all loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Equilibrium {
    /// The equilibrium of each load, in the order of the loads.
    pub loads: Vec<LoadEquilibrium>,
    /// The reasons why figures of the equilibrium are extrapolations; empty if none is.
    pub extrapolated: Vec<String>,
}

/// A platform, with the response of each tier (bandwidth and latency against bytes in flight)
/// prepared for the mixes of given loads.
pub struct System<'a> {
    platform: &'a Platform,
    /// `responses[i][j]` is the response of tier `j` (bandwidth and latency against bytes in
    /// flight) to load `i` alone, beside the background traffic.
    responses: Vec<Vec<Response>>,
    /// Traffic of devices and of page migration on each tier, GB/s. This traffic does not depend on
    /// the loads.
    background_gbps: Vec<f64>,
    /// `extrapolated[i][j]` is the reason why the response of tier `j` to load `i` is an
    /// extrapolation; `None` if it is not.
    extrapolated: Vec<Vec<Option<String>>>,
}

/// The traffic of each load on each tier. With several loads, [`System::solve_from`] starts its
/// iteration from a `LoadTraffic` and replaces it by the solution, which is a good start for a
/// similar problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadTraffic {
    /// Row `i` has the bandwidth of load `i` on each tier, GB/s.
    bandwidth_gbps: Rows,
    /// Row `i` has the bytes in flight of load `i` on each tier.
    in_flight_bytes: Rows,
}

impl LoadTraffic {
    /// Creates zero traffic of `loads` loads on `tiers` tiers.
    fn none(loads: usize, tiers: usize) -> Self {
        let none = Rows::new(loads, tiers);
        Self { bandwidth_gbps: none.clone(), in_flight_bytes: none }
    }

    fn is_of(&self, loads: usize, tiers: usize) -> bool {
        self.bandwidth_gbps.is_of(loads, tiers)
    }

    /// The bandwidth of all loads together on the tier `tier`, GB/s.
    fn all_gbps(&self, tier: usize) -> f64 {
        self.bandwidth_gbps.rows().map(|tiers| tiers[tier]).sum()
    }
}

impl<'a> System<'a> {
    /// Prepares `platform` for loads with the mixes and domains of `loads`.
    pub fn new(platform: &'a Platform, loads: &[Load]) -> Self {
        let answers = loads.iter().map(|load| {
            let tiers = platform.tiers.iter().enumerate().zip(&load.mixes);
            let answers = tiers.map(|((at, tier), mix)| {
                let answer = platform.answer(at, &load.domain_parts, *mix);
                let why = answer.extrapolated.map(|why| format!("{}: {why}", tier.name));
                (answer.response, why)
            });
            answers.unzip()
        });
        let (responses, extrapolated) = answers.unzip();
        let background_gbps = vec![0.0; platform.tiers.len()];
        Self { platform, responses, background_gbps, extrapolated }
    }

    /// Returns this system with background traffic of `background_gbps[j]` GB/s on tier `j`.
    /// Background traffic does not depend on the loads: it comes from devices or from page
    /// migration.
    pub fn beside(&self, loads: &[Load], background_gbps: &[f64]) -> Self {
        let responses = self.responses.iter().zip(loads).map(|(responses, load)| {
            let tiers = responses.iter().zip(background_gbps).zip(&load.bandwidth_factors);
            // The load's access pattern reaches only the fraction `factor` of the curve's
            // bandwidth: all bandwidths are multiplied by `factor` later. The background traffic is
            // divided by `factor` here, so that it is `gbps` after the multiplication.
            tiers.map(|((response, gbps), factor)| response.beside(gbps / factor)).collect()
        });
        Self {
            platform: self.platform,
            responses: responses.collect(),
            background_gbps: background_gbps.to_vec(),
            extrapolated: self.extrapolated.clone(),
        }
    }

    /// The upper bounds of the bandwidth of `load` if it runs alone. `load` must be the first of
    /// the loads that were passed to [`System::new`].
    pub fn limits(&self, load: &Load) -> BandwidthLimits {
        let compute_ns = load.line_compute_ns * load.lines_per_thread;
        let round_ns = |response: &Response| {
            let latency_ns = response.least_latency_ns();
            let (long, short) = (latency_ns.max(compute_ns), latency_ns.min(compute_ns));
            long + (1.0 - load.overlap) * short
        };
        let links = self.platform.links.iter().filter_map(|link| {
            let crossing = link.crossing(&load.domain_parts);
            (crossing > 0.0).then(|| (link.tiers.clone(), link.bandwidth_gbps / crossing))
        });
        let tiers = self.responses[0].iter().zip(&load.bandwidth_factors);
        BandwidthLimits {
            circulating_bytes: load.circulating_bytes(),
            tier_gbps: tiers.map(|(tier, factor)| factor * tier.max_bandwidth_gbps()).collect(),
            tier_round_ns: self.responses[0].iter().map(round_ns).collect(),
            links: links.collect(),
        }
    }

    /// The reasons why results for `loads` are extrapolations, each once.
    fn reasons(&self, loads: &[Load]) -> Vec<String> {
        let mut reasons = vec![];
        for (load, tiers) in loads.iter().zip(&self.extrapolated) {
            let used = tiers.iter().zip(&load.shares).filter(|(_, share)| **share > 0.0);
            for why in used.filter_map(|(why, _)| why.as_ref()) {
                if !reasons.contains(why) {
                    reasons.push(why.clone());
                }
            }
        }
        reasons
    }

    /// The response of each tier (bandwidth and latency against bytes in flight) to the first load.
    pub fn responses(&self) -> &[Response] {
        &self.responses[0]
    }

    /// Solves `loads`, which must have the number, the mixes and the domains of the loads that were
    /// passed to [`System::new`].
    pub fn solve(&self, loads: &[Load]) -> Equilibrium {
        let solved = self.solve_from(loads, &mut LoadTraffic::default(), 1e-9);
        Equilibrium { loads: solved, extrapolated: self.reasons(loads) }
    }

    /// Like [`System::solve`], but the iteration for several loads starts from `traffic`, the
    /// solution of a similar problem, and replaces it by the new solution. The iteration ends when
    /// no load changes by the fraction `tolerance` or more, or after a maximum number of rounds. A
    /// single load needs no iteration: the old `traffic` is ignored, and the new one is of no use
    /// as a start.
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

    /// Solves one load. Through couplings, the load's traffic on one tier lowers the bandwidth of
    /// another tier, which lowers the load's traffic in turn. The solution is the bandwidth that
    /// the queueing network reaches when the couplings are computed from this same bandwidth. It
    /// lies between zero and the bandwidth without couplings.
    fn solve_alone(&self, load: &Load, traffic: &mut LoadTraffic) -> LoadEquilibrium {
        let loads = std::slice::from_ref(load);
        let set = |traffic: &mut LoadTraffic, bandwidth: f64| {
            for (tier, share) in load.shares.iter().enumerate() {
                traffic.bandwidth_gbps.row_mut(0)[tier] = share * bandwidth;
            }
        };
        set(traffic, 0.0);
        let mut network = self.network(loads, 0, traffic);
        let used = |tier: usize| load.shares[tier] > 0.0;
        let active = self
            .platform
            .couplings
            .iter()
            .filter(|coupling| used(coupling.from) && used(coupling.to) && coupling.loss > 0.0);
        let coupled: Vec<usize> = active.map(|coupling| coupling.to).collect();
        if coupled.is_empty() {
            return self.reached(loads, 0, network);
        }
        let most = network.throughput();
        let mut miss = |bandwidth: f64| {
            set(traffic, bandwidth);
            self.renew(&mut network, loads, &coupled, traffic);
            network.throughput() - bandwidth
        };
        let with_most = miss(most);
        root(&mut miss, (0.0, most), (most, with_most), 1e-9);
        self.reached(loads, 0, network)
    }

    /// Recomputes the bandwidths and latencies of the tiers `coupled` in `network`, the queueing
    /// network of the only load, after a change of `traffic`. Traffic on other tiers takes
    /// bandwidth from the tiers in `coupled`.
    fn renew(
        &self,
        network: &mut StreamNetwork,
        loads: &[Load],
        coupled: &[usize],
        traffic: &LoadTraffic,
    ) {
        let streams = self.platform.interleaving.page_streams as usize;
        for (index, tier) in network.visited.iter().enumerate() {
            if coupled.contains(tier) {
                let flows = self.view(loads, 0, *tier, traffic).flows(&loads[0], streams);
                for (rate, flow) in network.stations[index].rates.iter_mut().zip(&flows) {
                    *rate = flow.bandwidth_gbps;
                }
                network.flows[index] = flows;
            }
        }
    }

    /// Solves several loads that share tiers. In each round, each load in turn is solved while the
    /// traffic of the other loads is held fixed; then its traffic moves half of the way to this
    /// solution (all of the way in the first round, if no traffic is known at the start). The
    /// rounds end when no load changes its bandwidth on a tier by `tolerance` of its bandwidth or
    /// more, or after [`ROUNDS_MAX`].
    fn solve_together(
        &self,
        loads: &[Load],
        traffic: &mut LoadTraffic,
        tolerance: f64,
    ) -> Vec<LoadEquilibrium> {
        let mut solved: Vec<Option<LoadEquilibrium>> = vec![None; loads.len()];
        let fresh = traffic.bandwidth_gbps.rows().flatten().all(|gbps| *gbps == 0.0);
        for round in 0..ROUNDS_MAX {
            let mut moved = 0.0_f64;
            for (at, slot) in solved.iter_mut().enumerate() {
                let reached = self.reached(loads, at, self.network(loads, at, traffic));
                let part = if fresh && round == 0 { 1.0 } else { 0.5 };
                for tier in 0..self.platform.tiers.len() {
                    let bandwidth = reached.tier_bandwidth_gbps[tier];
                    let bytes = bandwidth * reached.tier_latency_ns[tier];
                    let known = &mut traffic.bandwidth_gbps.row_mut(at)[tier];
                    moved = moved.max((bandwidth - *known).abs() / reached.bandwidth_gbps);
                    *known += part * (bandwidth - *known);
                    let known = &mut traffic.in_flight_bytes.row_mut(at)[tier];
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

    /// The queueing network whose customers are the page streams of `loads[at]`: one station for
    /// each tier on which this load has traffic. The `traffic` of the other loads on the same tiers
    /// slows the stations down.
    fn network(&self, loads: &[Load], at: usize, traffic: &LoadTraffic) -> StreamNetwork {
        let load = &loads[at];
        let streams = self.platform.interleaving.page_streams as usize;
        let visited: Vec<usize> =
            (0..load.shares.len()).filter(|tier| load.shares[*tier] > 0.0).collect();
        let flows: Vec<Vec<Flow>> = visited
            .iter()
            .map(|tier| self.view(loads, at, *tier, traffic).flows(load, streams))
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
        StreamNetwork { visited, flows, stations, groups }
    }

    /// Computes the equilibrium of `loads[at]` from `network`, the queueing network of its page
    /// streams.
    fn reached(&self, loads: &[Load], at: usize, network: StreamNetwork) -> LoadEquilibrium {
        let load = &loads[at];
        let StreamNetwork { visited, flows, stations, groups } = network;
        let Reached { bandwidth_gbps, occupancy, queued_bytes } =
            reach(&groups, &stations, load.exposed_compute_ns());
        let mut tier_bandwidth_gbps = vec![0.0; load.shares.len()];
        let mut tier_latency_ns: Vec<f64> =
            self.responses[at].iter().map(Response::idle_latency_ns).collect();
        for (index, tier) in visited.iter().enumerate() {
            let own = bandwidth_gbps * load.shares[*tier];
            let in_flight: f64 = occupancy.row(index)[1..]
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

    /// The tier with the index `tier` as `loads[at]` observes it: the responses of the tier to the
    /// mixes of all loads with traffic on the tier, the bytes in flight of the other loads, and the
    /// fraction of bandwidth that traffic on coupled tiers leaves.
    fn view(&self, loads: &[Load], at: usize, tier: usize, traffic: &LoadTraffic) -> TierView<'_> {
        let on_tier = |load: usize| traffic.bandwidth_gbps.row(load)[tier];
        let all = traffic.all_gbps(tier);
        let mixed = if loads.len() == 1 || all == 0.0 {
            vec![]
        } else {
            (0..loads.len())
                .filter(|load| on_tier(*load) > 0.0)
                .map(|load| (on_tier(load) / all, &self.responses[load][tier]))
                .collect()
        };
        let others = (0..loads.len()).filter(|load| *load != at);
        let others_bytes = others.map(|load| traffic.in_flight_bytes.row(load)[tier]).sum();
        let full =
            loads[at].bandwidth_factors[tier] * self.responses[at][tier].max_bandwidth_gbps();
        let lost: f64 = self
            .platform
            .couplings
            .iter()
            .filter(|coupling| coupling.to == tier)
            .map(|coupling| {
                let from = traffic.all_gbps(coupling.from);
                coupling.loss * (from + self.background_gbps[coupling.from])
            })
            .sum();
        let left = (1.0 - lost / full).max(LEAST_BANDWIDTH_FACTOR);
        let bandwidth_factor = loads[at].bandwidth_factors[tier] * left;
        let own = &self.responses[at][tier];
        TierView { own, mixed, bandwidth_factor, others_bytes }
    }

    /// Groups the tiers of `visited` (as indices into `visited`) by link. Each group has a limit of
    /// the bandwidth of load `at`: the bandwidth that other traffic leaves on the link, divided by
    /// the fraction of the load's traffic that crosses the link. A tier without a link is a group
    /// of its own, without a limit.
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
                    tiers.map(move |tier| crossing * traffic.bandwidth_gbps.row(other)[*tier])
                })
                .chain(link.tiers.iter().map(|tier| self.background_gbps[*tier]))
                .sum();
            // On a saturated link, each load gets at least the link's bandwidth divided by the
            // number of loads.
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

/// The queueing network of one load: the page streams are its customers, tiers are its stations.
struct StreamNetwork {
    /// The tiers on which the load has traffic. Each is one station.
    visited: Vec<usize>,
    /// For each station: entry `n` is the flow (bandwidth and latency) with `n + 1` streams at it.
    flows: Vec<Vec<Flow>>,
    stations: Vec<network::Station>,
    /// Groups of stations behind the same link, as indices, each with the bandwidth that the link
    /// leaves for the group, GB/s; infinite without a link.
    groups: Vec<(Vec<usize>, f64)>,
}

impl StreamNetwork {
    /// The bandwidth of all streams, GB/s: the same as that of [`reach`], at less cost, because the
    /// occupancy is not computed.
    fn throughput(&self) -> f64 {
        if self.groups.iter().all(|(_, limit)| limit.is_infinite()) {
            return network::throughput(&self.stations);
        }
        let inner = grouped(&self.groups, &self.stations);
        let unlimited: Vec<Vec<f64>> =
            inner.iter().map(|group| network::throughputs(group)).collect();
        network::throughput(&behind_links(&self.groups, &self.stations, &unlimited))
    }
}

/// The solution of the queueing network of a load's page streams.
struct Reached {
    bandwidth_gbps: f64,
    /// Row `i` has the probabilities of 0, 1, ... streams at station `i`.
    occupancy: Rows,
    /// For each station, the bytes that wait at the link in front of it.
    queued_bytes: Vec<f64>,
}

/// Solves the queueing network of `stations` in two steps. First the stations behind a link become
/// one station with their common rate, limited by the bandwidth of the link (a flow-equivalent
/// server; Chandy, Herzog and Woo 1975). Then the page streams at this station are distributed over
/// the stations behind the link.
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
    let inner = grouped(groups, stations);
    let unlimited: Vec<Vec<f64>> = inner.iter().map(|group| network::throughputs(group)).collect();
    let solution = network::solve(&behind_links(groups, stations, &unlimited));

    let mut occupancy = Rows::new(stations.len(), streams + 1);
    let mut queued_bytes = vec![0.0; stations.len()];
    for (at, (members, limit)) in groups.iter().enumerate() {
        let chances = solution.occupancy.row(at);
        let queued: f64 = (1..=streams)
            .map(|n| {
                // Without the link, the streams would have `held_back` GB/s more bandwidth, and by
                // Little's law threads would compute on `held_back` times `exposed_compute_ns` more
                // bytes. With the link, these bytes wait at the link instead.
                let held_back = (unlimited[at][n - 1] - limit).max(0.0);
                chances[n] * held_back * exposed_compute_ns
            })
            .sum();
        for (within, index) in members.iter().enumerate() {
            queued_bytes[*index] = queued * inner[at][within].visit;
            let own = occupancy.row_mut(*index);
            network::occupancy_of(&inner[at], within, chances, own);
        }
    }
    Reached { bandwidth_gbps: solution.throughput, occupancy, queued_bytes }
}

/// Makes a separate network of the stations of each group (the stations behind one link).
fn grouped(
    groups: &[(Vec<usize>, f64)],
    stations: &[network::Station],
) -> Vec<Vec<network::Station>> {
    let group = |(members, _): &(Vec<usize>, f64)| {
        let visit: f64 = members.iter().map(|index| stations[*index].visit).sum();
        let within = |index: &usize| network::Station {
            visit: stations[*index].visit / visit,
            rates: stations[*index].rates.clone(),
        };
        members.iter().map(within).collect()
    };
    groups.iter().map(group).collect()
}

/// Replaces the stations of each group (the stations behind one link) by one station. Its rates are
/// the group's entry in `unlimited` (the rates without the link), capped by the bandwidth that the
/// link leaves for the group.
fn behind_links(
    groups: &[(Vec<usize>, f64)],
    stations: &[network::Station],
    unlimited: &[Vec<f64>],
) -> Vec<network::Station> {
    let station = |((members, limit), rates): (&(Vec<usize>, f64), &Vec<f64>)| network::Station {
        visit: members.iter().map(|index| stations[*index].visit).sum(),
        rates: rates.iter().map(|rate| rate.min(*limit)).collect(),
    };
    groups.iter().zip(unlimited).map(station).collect()
}
