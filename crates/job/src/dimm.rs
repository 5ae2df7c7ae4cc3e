//! The job of `interleaf simulate dimm` simulates memory modules, command by command.

use crate::{
    Progress, check,
    option::{LoadChoice, PATTERNS},
};
use interleaf_console::Failure;
use interleaf_model::mix::Mix;
use interleaf_record::dimm::{DimmDocument, command_of_server};
use interleaf_sim::dimm::{
    closed_loop::{Pattern, SLOTS_MAX},
    config::{Refresh, RowPolicy},
    device::{self, Device, DeviceError, Options},
    energy::{self, Energy},
    run::{ChannelResult, LeastRequests, Setup},
    server::Server,
};
use rayon::prelude::*;
use std::path::Path;

/// The offered loads of a load sweep, as fractions of the peak bandwidth. The last point of a load
/// sweep, after these loads, is at the maximum load.
const SWEEP: [f64; 19] = [
    0.005, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.74, 0.78,
    0.82, 0.86,
];

/// The lowest allowed load, as a fraction of the peak bandwidth. At a lower load, nearly all
/// simulated commands would be refreshes of idle memory, and a run would take far too long for its
/// number of requests.
const LOAD_MIN: f64 = 1e-4;

/// `CHANNELS` is the default number of channels of a memory system, `CHANNELS_MAX` the largest
/// number.
pub const CHANNELS: u32 = 12;
pub const CHANNELS_MAX: u32 = 64;

/// The largest number of outstanding lines of a channel that a user may choose.
pub const OUTSTANDING_MAX: u32 = 65_536;

/// Default round-trip latency between a core and the memory controller, ns.
pub const UNCORE_NS: f64 = 65.0;

/// `REQUESTS` is the default number of lines that are accessed for each mix and load, summed over
/// all channels. `REQUESTS_MAX` is the largest number.
pub const REQUESTS: u64 = 1_000_000;
pub const REQUESTS_MAX: u64 = 1_000_000_000_000;

/// The reason that an error message gives if a mix names an order of its lines (`/random`). In a
/// simulation of memory modules, the access pattern gives the order.
pub(crate) const ORDER_IN_MIX: &str = "the order of the lines is that of the pattern";

/// The user's choices of settings of the memory controller. With `None`, the default or the setting
/// of the server stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerChoice {
    /// The rule by which the controller closes a row without queued requests.
    pub row_policy: Option<RowPolicy>,
    /// The kind of refresh command that the controller uses.
    pub refresh: Option<Refresh>,
}

impl ControllerChoice {
    /// Replaces the row policy and the refresh command of the controller in `setup` by the chosen
    /// ones.
    ///
    /// # Errors
    /// When same-bank refresh is chosen for a module without this command.
    fn apply(self, setup: &mut Setup) -> Result<(), Failure> {
        if self.refresh == Some(Refresh::SameBank) && setup.device.timing.t_refi_sb == 0 {
            return Err(Failure::new(
                format!("{} has no same-bank refresh", setup.device.name),
                "choose all-bank; modules of DDR5 have same-bank refresh",
            ));
        }
        let controller = &mut setup.controller;
        controller.row_policy = self.row_policy.unwrap_or(controller.row_policy);
        controller.refresh = self.refresh.unwrap_or(controller.refresh);
        Ok(())
    }
}

/// The properties of a memory system with equal modules in all channels.
#[derive(Clone, Debug)]
pub struct DimmSystem {
    /// The memory module in each channel.
    pub device: Device,
    /// The number of channels, 1 to 64.
    pub channels: u32,
    /// The order in which lines are accessed.
    pub pattern: Pattern,
    /// Maximum number of outstanding lines of each channel. Default: 144 for each sub-channel.
    pub outstanding: Option<u32>,
    /// Round-trip latency between a core and the controller, ns.
    pub uncore_ns: f64,
    /// The user's choices for the memory controllers.
    pub controller: ControllerChoice,
    /// The seed of the random addresses, start times and pauses of the load.
    pub seed: u64,
}

impl DimmSystem {
    /// Converts the memory system to a setup of the simulator. The number of outstanding lines of a
    /// channel is divided by the number of its sub-channels, rounded up.
    ///
    /// # Errors
    /// When same-bank refresh is chosen for a module without this command.
    pub fn setup(self) -> Result<Setup, Failure> {
        let mut setup = Setup::new(self.device, self.channels);
        setup.pattern = self.pattern;
        if let Some(outstanding) = self.outstanding {
            let parts = setup.device.sub_channels;
            setup.outstanding = (outstanding.div_ceil(parts) as usize).min(SLOTS_MAX);
        }
        setup.uncore_ps = (self.uncore_ns * 1e3) as u64;
        setup.seed = self.seed;
        self.controller.apply(&mut setup)?;
        Ok(setup)
    }
}

/// Returns the setup of the built-in server `name`: its modules, channels, cores and fabric.
///
/// # Errors
/// When no built-in server is called `name`, or when same-bank refresh is chosen for modules
/// without this command.
pub fn server(
    name: &str,
    pattern: Pattern,
    controller: ControllerChoice,
    seed: u64,
) -> Result<Setup, Failure> {
    let server = Server::by_name(name).map_err(of_device)?;
    let mut setup = Setup { pattern, seed, ..server.setup() };
    controller.apply(&mut setup)?;
    Ok(setup)
}

/// A memory system, and the loads that are simulated on it.
#[derive(Clone, Debug)]
pub struct DimmJob {
    /// The memory system that is simulated.
    pub setup: Setup,
    /// The module as the user names it: a built-in name, `FILE`, or `FILE:NAME`.
    pub device: String,
    /// The built-in server that the memory system belongs to, if any.
    pub server: Option<String>,
    pub mixes: Vec<Mix>,
    /// The load that is simulated for each mix.
    pub load: LoadChoice,
    /// Number of lines that are read or written for each mix and load, summed over all channels.
    pub requests: u64,
}

/// A point that is simulated: a mix and an offered load.
#[derive(Clone, Copy, Debug)]
pub struct DimmPoint {
    pub mix: Mix,
    /// The offered load, GB/s; `None` for the maximum load.
    pub offered_gbps: Option<f64>,
}

impl DimmJob {
    /// Returns the points that [`Self::run`] simulates, in the order of the document.
    pub fn points(&self) -> Vec<DimmPoint> {
        let loads: Vec<Option<f64>> = match self.load {
            LoadChoice::Max => vec![None],
            LoadChoice::At(bandwidth) => vec![Some(bandwidth.gbps())],
            LoadChoice::Sweep => {
                let parts = SWEEP.iter().map(|part| Some(part * self.setup.peak_gbps()));
                parts.chain([None]).collect()
            }
        };
        let of_mix = |mix: &Mix| {
            let mix = *mix;
            loads.iter().map(move |load| DimmPoint { mix, offered_gbps: *load })
        };
        self.mixes.iter().flat_map(of_mix).collect()
    }

    /// Checks the number of requests, the load and the mixes of the job. Returns a note for each
    /// load whose measured bandwidth will be inaccurate, with the number of requests that would be
    /// enough.
    ///
    /// # Errors
    /// When the number of requests does not suffice to measure a bandwidth, when the load is too
    /// low, or when a mix names an order of the lines, which the pattern gives.
    pub(crate) fn check(&self) -> Result<Vec<(u64, String)>, Failure> {
        if let Some(mix) = self.mixes.iter().find(|mix| mix.random()) {
            return Err(Failure::new(
                format!("mix {mix}: {ORDER_IN_MIX}"),
                "leave /random out of the mix, and choose the pattern random",
            ));
        }
        self.check_load()?;
        self.short_runs(&self.points())
    }

    /// Checks that the load is not too low to be simulated.
    ///
    /// # Errors
    /// When the load is below [`LOAD_MIN`].
    pub fn check_load(&self) -> Result<(), Failure> {
        let LoadChoice::At(load) = self.load else { return Ok(()) };
        let (gbps, peak_gbps) = (load.gbps(), self.setup.peak_gbps());
        let least = LOAD_MIN * peak_gbps;
        if gbps >= least {
            return Ok(());
        }
        Err(Failure::new(
            format!(
                "--load {gbps}GB/s is less than a ten-thousandth of the peak bandwidth, {} GB/s",
                interleaf_report::number(peak_gbps)
            ),
            format!("give --load max, sweep, or at least {}MB/s", (1e3 * least).ceil()),
        ))
    }

    /// Simulates each mix at each offered load.
    ///
    /// # Errors
    /// Under the conditions of [`Self::check`], or when `progress` stops the job.
    pub fn run(&self, progress: &dyn Progress) -> Result<DimmDocument, Failure> {
        let points = self.points();
        let pattern = PATTERNS.iter().find(|(_, pattern)| *pattern == self.setup.pattern);
        let pattern = pattern.map_or("", |(name, _)| *name);
        let mut document = DimmDocument::new(&self.setup, pattern, &self.device);
        if let Some(server) = &self.server {
            document.command = command_of_server(server, &self.setup, pattern);
        }
        document.command += &self.load_options();
        document.notes.extend(self.check()?.into_iter().map(|(_, note)| note));
        for (point, (part, energy)) in points.iter().zip(self.simulated(&points, progress)?) {
            document.point(&point.mix.to_string(), point.offered_gbps, &part, energy);
        }
        Ok(document)
    }

    /// Formats the command-line options for the mixes, the load and the number of requests.
    fn load_options(&self) -> String {
        let mixes: Vec<String> = self.mixes.iter().map(Mix::to_string).collect();
        let load = match self.load {
            LoadChoice::Max => "max".into(),
            LoadChoice::Sweep => "sweep".into(),
            LoadChoice::At(bandwidth) => format!("{}GB/s", bandwidth.gbps()),
        };
        format!(" --mix {} --load {load} --requests {}", mixes.join(","), self.requests)
    }

    /// Checks the number of requests for each load of `points`. Returns a note for each load at
    /// which the bandwidth will be inaccurate, with the number of requests for an accurate
    /// bandwidth. Fails if the requests are too few to measure a bandwidth at one of the loads.
    fn short_runs(&self, points: &[DimmPoint]) -> Result<Vec<(u64, String)>, Failure> {
        let (setup, requests) = (&self.setup, self.requests);
        let mut notes: Vec<(u64, String)> = vec![];
        for load in points.iter().map(|point| point.offered_gbps) {
            let LeastRequests { parts, each, refresh_ns, all, steady } = setup.least_requests(load);
            let at = load.map_or("the maximum".into(), |gbps| {
                format!("{} GB/s", interleaf_report::number(gbps))
            });
            let refresh = match refresh_ns {
                0.0 => String::new(),
                ns => format!(" and a refresh interval of {} ns", interleaf_report::number(ns)),
            };
            if requests < all {
                return Err(Failure::new(
                    format!(
                        "--requests {requests}: at {at} at least {all} are needed, {each} for each \
                         of {parts} sub-channels: one for each of {} outstanding lines{refresh}",
                        setup.outstanding
                    ),
                    format!(
                        "give --requests {steady} or more: then bandwidths settle within 0.5 %"
                    ),
                ));
            }
            let note = format!(
                "{requests} requests hold less than four refresh intervals at {at}: its bandwidth \
                 can be several percent too high; --requests {steady} settles it within 0.5 %"
            );
            if requests < steady && !notes.iter().any(|(_, other)| *other == note) {
                notes.push((steady, note));
            }
        }
        Ok(notes)
    }

    /// Simulates all points, on all cores of this computer. Each sub-channel of each point is a
    /// task of its own.
    fn simulated(
        &self,
        points: &[DimmPoint],
        progress: &dyn Progress,
    ) -> Result<Vec<(ChannelResult, Option<Energy>)>, Failure> {
        let parts = self.setup.parts();
        progress.begin(self.requests * points.len() as u64, &self.setup.device.name);
        let of_point = |point: &DimmPoint| {
            let setup = Setup { mix: point.mix, ..self.setup.clone() };
            let of_part = |number: u32| {
                check(progress)?;
                // The accesses are divided evenly among the sub-channels. If the division has a
                // remainder, each of the first sub-channels gets one more access.
                let rest = u64::from(u64::from(number) < self.requests % u64::from(parts));
                let accesses = self.requests / u64::from(parts) + rest;
                let mut energy = energy::CommandCounts::new(&setup.device);
                let tell = |done: u64| progress.advance(done);
                let part = setup.part(number, point.offered_gbps, accesses, &mut energy, &tell);
                let end = part.end_clock * setup.device.host_clocks;
                Ok((part, energy.energy(end)))
            };
            let pieces: Result<Vec<_>, Failure> = (0..parts).into_par_iter().map(of_part).collect();
            let mut pieces = pieces?;
            // The powers of the sub-channels are added, but the lengths of their measurements
            // differ a little. Each energy is therefore scaled to the length of the longest
            // measurement before the energies are added.
            let seconds = 1e-9 * pieces.iter().map(|it| it.0.simulated_ns).fold(0.0, f64::max);
            pieces.iter_mut().for_each(|it| it.1 = it.1.map(|energy| energy.lasting(seconds)));
            Ok(together(pieces))
        };
        let results = points.par_iter().map(of_point).collect();
        progress.end();
        results
    }
}

/// Returns the number of points that a document has for each mix with the load `load`.
pub(crate) fn loads(load: LoadChoice) -> usize {
    if load == LoadChoice::Sweep { SWEEP.len() + 1 } else { 1 }
}

/// Adds the results and the energies of the sub-channels. The total energy is `None` if the energy
/// of any sub-channel is unknown.
pub fn together(pieces: Vec<(ChannelResult, Option<Energy>)>) -> (ChannelResult, Option<Energy>) {
    let (parts, energies): (Vec<ChannelResult>, Vec<Option<Energy>>) = pieces.into_iter().unzip();
    let energy = energies.into_iter().reduce(|a, b| Some(a?.and(&b?))).flatten();
    (ChannelResult::sum(&parts), energy)
}

/// Returns the device `name`: the name of a built-in module, or a device file as `FILE`, or as
/// `FILE:NAME` for a file with several modules.
///
/// # Errors
/// When the name is unknown, or when the file cannot be read or has an invalid field.
pub fn device(name: &str, options: &Options) -> Result<Device, Failure> {
    let (path, module) = match name.rsplit_once(':') {
        Some((path, module)) if !Path::new(name).exists() => (path, Some(module)),
        _ => (name, None),
    };
    let is_file = Path::new(path).exists() || path.contains(['/', '.']);
    if !is_file {
        return Device::by_name(name, options).map_err(of_device);
    }
    let hint = format!("name a file of devices, or one of {}", device::names().join(", "));
    let text = interleaf_catalog::text(Path::new(path), &hint)?;
    let read = |file: &str| {
        interleaf_catalog::text(Path::new(file), &hint).map_err(|why| match why {
            Failure::Error { problem, hint } => (problem, hint),
            other => (other.to_string(), hint.clone()),
        })
    };
    device::in_file(path, &text, module, options, &read).map_err(of_device)
}

fn of_device(why: DeviceError) -> Failure {
    Failure::new(why.to_string(), why.hint())
}
