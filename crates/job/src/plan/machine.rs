//! A candidate of a plan: a server configuration with its platform and its drive.

use crate::predict::weight_max;
use interleaf_console::Failure;
use interleaf_extend_forecast::drive::Drive;
use interleaf_model::{
    configuration::{Configuration, ConfigurationError},
    platform::Platform,
    weights::Weights,
};

/// Maximum number of combinations of weights that a plan tries for a configuration. Three tiers
/// allow weights from 0 to 10 (11^3 = 1331 combinations), four tiers weights up to 5, five tiers
/// weights up to 3. `interleaf predict` tries ten times as many combinations, but a plan predicts
/// each configuration about 70 times, because it varies the assumed figures.
const RATIOS_MAX: u64 = 2048;

/// A configuration with all files that it names, ready for predictions.
pub(super) struct Candidate {
    pub(super) configuration: Configuration,
    pub(super) machine: Platform,
    /// The drive that extends memory; `None` if the configuration has no drive.
    pub(super) drive: Option<Drive>,
    /// The weights that the plan tries.
    pub(super) ratios: Vec<Weights>,
}

impl Candidate {
    /// Loads the platforms and the drive that `configuration` names, and chooses the weights to
    /// try.
    pub(super) fn load(configuration: &Configuration) -> Result<Self, Failure> {
        let platform = interleaf_catalog::platform(&configuration.platform)
            .map_err(|why| why.within(&configuration.platform_place))?;
        let expanders = configuration.expanders.as_ref();
        let other = expanders.map(|own| {
            interleaf_catalog::platform(&own.platform).map_err(|why| why.within(&own.place))
        });
        let machine =
            configuration.machine(&platform, other.transpose()?.as_ref()).map_err(|why| {
                let hint = match why {
                    ConfigurationError::Domain { .. } => {
                        "add a [[domain]] of this name to the platform, or name another one"
                    }
                    _ => "`interleaf show --platform NAME` lists the tiers of a platform",
                };
                let place = expanders.map_or(&configuration.platform_place, |own| &own.place);
                Failure::new(why.to_string(), hint).within(place)
            })?;
        let drive = configuration
            .drive
            .as_ref()
            .map(|own| interleaf_catalog::drive(&own.drive).map_err(|why| why.within(&own.place)));
        let drive = drive.transpose()?;
        let tiers = machine.tiers.len();
        let limit = weight_max(tiers, RATIOS_MAX).ok_or_else(|| {
            let problem = format!("{tiers} tiers have too many ratios to try each");
            let hint = "write tiers of the same memory as one tier";
            Failure::new(problem, hint).within(&configuration.platform_place)
        })?;
        let ratios = Weights::every_ratio(tiers, limit);
        Ok(Self { configuration: configuration.clone(), machine, drive, ratios })
    }
}
