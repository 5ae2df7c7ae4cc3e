//! `interleaf simulate dimm --command-trace`: draws the first DRAM commands of a simulation.

use interleaf_console::{Failure, output};
use interleaf_sim::dimm::{
    perfetto::{COMMANDS_MAX, Drawing, json},
    run::Setup,
};
use std::path::Path;

/// Draws the first commands of each sub-channel of the first channel to the file `target`. `run`
/// simulates the sub-channel with the given number again, with the seed of the first simulation, so
/// that the commands are the same.
pub(super) fn write(
    setup: &Setup,
    target: &Path,
    mut run: impl FnMut(u32, &mut Drawing),
) -> Result<(), Failure> {
    let draw = |number: u32| {
        let mut drawing = Drawing::new(&setup.device, number, COMMANDS_MAX);
        run(number, &mut drawing);
        drawing
    };
    let drawings: Vec<Drawing> = (0..setup.device.sub_channels).map(draw).collect();
    let commands = drawings.iter().map(Drawing::commands);
    let (all, left_out) = commands.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    output::file(target, &json(drawings))?;
    let (drawn, target) = (all - left_out, target.display());
    output::message(&format!("the first {drawn} of {all} commands of a channel are in {target}"));
    Ok(())
}
