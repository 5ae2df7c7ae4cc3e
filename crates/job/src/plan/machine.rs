//! A server configuration that is planned, with its platform and its drive.

use interleaf_console::Failure;
use interleaf_extend_forecast::drive::Drive;
use interleaf_model::{configuration::Configuration, platform::Platform};

/// A configuration, ready for predictions.
pub(super) struct Candidate {
    pub(super) configuration: Configuration,
    pub(super) machine: Platform,
    /// The drive that extends memory, if the configuration has a drive.
    pub(super) drive: Option<Drive>,
}

impl Candidate {
    /// Loads the platforms and the drive that `configuration` names.
    pub(super) fn load(configuration: &Configuration) -> Result<Self, Failure> {
        let file = configuration.parts_place.split(':').next().unwrap_or_default();
        let place = format!("{file}: configuration {}", configuration.name);
        let within = |why: Failure| why.within(&place);
        let platform = interleaf_catalog::platform(&configuration.platform).map_err(within)?;
        let other = match &configuration.expanders {
            Some(own) => Some(interleaf_catalog::platform(&own.platform).map_err(within)?),
            None => None,
        };
        let machine = configuration.machine(&platform, other.as_ref()).map_err(|why| {
            let hint = "`interleaf show --platform NAME` lists the tiers of a platform";
            Failure::new(why.to_string(), hint).within(&place)
        })?;
        let drive = match &configuration.drive {
            Some(own) => Some(interleaf_catalog::drive(&own.drive).map_err(within)?),
            None => None,
        };
        Ok(Self { configuration: configuration.clone(), machine, drive })
    }
}
