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
        let platform = interleaf_catalog::platform(&configuration.platform)
            .map_err(|why| why.within(&configuration.platform_place))?;
        let expanders = configuration.expanders.as_ref();
        let other = expanders.map(|own| {
            interleaf_catalog::platform(&own.platform).map_err(|why| why.within(&own.place))
        });
        let machine =
            configuration.machine(&platform, other.transpose()?.as_ref()).map_err(|why| {
                let hint = "`interleaf show --platform NAME` lists the tiers of a platform";
                let place = expanders.map_or(&configuration.platform_place, |own| &own.place);
                Failure::new(why.to_string(), hint).within(place)
            })?;
        let drive = configuration
            .drive
            .as_ref()
            .map(|own| interleaf_catalog::drive(&own.drive).map_err(|why| why.within(&own.place)));
        let drive = drive.transpose()?;
        Ok(Self { configuration: configuration.clone(), machine, drive })
    }
}
