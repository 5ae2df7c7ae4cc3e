//! Files of configurations of servers: `interleaf.configurations/1`.
//!
//! ```
//! use interleaf_model::format::configuration_toml;
//! let text = r#"
//! schema = "interleaf.configurations/1"
//! [[configuration]]
//! name = "half-of-the-expanders"
//! does = "12 x RDIMM-6400, 4 x CZ122"
//! platform = "xeon6-rdimm-6400"
//! expanders = { platform = "xeon6-cz122", tier = "cxl", count = 4, of = 8 }
//! drive = { name = "nvme-gen4", capacity = "3840GB" }
//! parts = { rdimm-6400-64gb = 12, cz122-128gb = 4, nvme-gen4-3840gb = 1 }
//! "#;
//! let read = configuration_toml::parse("mine.toml", text)?;
//! assert_eq!(read[0].parts.len(), 3);
//! # Ok::<(), interleaf_model::format::FileError>(())
//! ```

use super::{FileError, toml_text::TomlText};
use crate::configuration::{CacheDrive, Configuration, Count, Expanders, PartCount};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The schema of a file of configurations.
pub const SCHEMA: &str = "interleaf.configurations/1";

/// Maximum number of channels, expanders or pieces of a part.
const COUNT_MAX: u32 = 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigurationsToml {
    /// The schema and its version: `interleaf.configurations/1`.
    schema: Spanned<String>,
    /// Configurations of a server.
    configuration: Vec<ConfigurationToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigurationToml {
    /// The name of the configuration; letters, digits and -_.+ are allowed.
    name: Spanned<String>,
    /// A description in one line.
    does: Spanned<String>,
    /// True if parts of the configuration are not on sale yet; default: false.
    #[serde(default)]
    future: bool,
    /// The platform that describes the memory of the server, by name or as a file.
    platform: Spanned<String>,
    /// Populated channels of the first tier; default: all channels of the platform.
    channels: Option<ChannelsToml>,
    /// Capacity of the first tier; default: the capacity that the platform has, scaled to the
    /// populated channels.
    capacity: Option<Spanned<String>>,
    /// CXL expanders that are added to the platform.
    expanders: Option<ExpandersToml>,
    /// A drive that extends the memory of the server.
    drive: Option<DriveToml>,
    /// Number of pieces of each part; the key is the part's name in the file of prices.
    parts: Spanned<BTreeMap<String, Spanned<i64>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelsToml {
    /// Number of populated channels.
    count: Spanned<i64>,
    /// Number of channels that the platform describes.
    of: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpandersToml {
    /// The platform that has the curves of the expanders, by name or as a file.
    platform: Spanned<String>,
    /// The tier of the expanders in `platform`.
    tier: Spanned<String>,
    /// Number of expanders.
    count: Spanned<i64>,
    /// Number of expanders that the tier in `platform` describes.
    of: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveToml {
    /// The drive, by name or as a file.
    name: Spanned<String>,
    /// Capacity of the drive: "3840GB".
    capacity: Spanned<String>,
}

/// Parses `text`, the configurations in the file `file`.
///
/// # Errors
/// If a field is invalid, or if two configurations have the same name. The error is about the first
/// invalid field or repeated name.
pub fn parse(file: &str, text: &str) -> Result<Vec<Configuration>, FileError> {
    let text = TomlText::new(file, text);
    let parsed: ConfigurationsToml = text.read_as(SCHEMA)?;
    text.schema(&parsed.schema, SCHEMA)?;
    let mut all: Vec<Configuration> = vec![];
    for own in &parsed.configuration {
        let one = configuration(&text, own)?;
        if all.iter().any(|other| other.name == one.name) {
            let problem = format!("a second configuration {}", one.name);
            return Err(text.error("configuration.name", &own.name, problem, "rename one of them"));
        }
        all.push(one);
    }
    Ok(all)
}

fn configuration(text: &TomlText<'_>, own: &ConfigurationToml) -> Result<Configuration, FileError> {
    let name = text.said("configuration.name", &own.name)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if !name.chars().all(plain) {
        let problem = format!("{name:?} has other characters than letters, digits and -_.+");
        let hint = "write a name that can stand in a list, such as rdimm-6400";
        return Err(text.error("configuration.name", &own.name, problem, hint));
    }
    let channels = own.channels.as_ref();
    let expanders = own.expanders.as_ref();
    let drive = own.drive.as_ref();
    Ok(Configuration {
        name,
        does: text.said("configuration.does", &own.does)?,
        is_future: own.future,
        platform: text.said("configuration.platform", &own.platform)?,
        platform_place: text.place("configuration.platform", &own.platform),
        channels: channels.map(|it| count(text, "channels", &it.count, &it.of)).transpose()?,
        capacity: own
            .capacity
            .as_ref()
            .map(|own| text.size("configuration.capacity", own))
            .transpose()?,
        expanders: match expanders {
            None => None,
            Some(it) => Some(Expanders {
                platform: text.said("expanders.platform", &it.platform)?,
                tier: text.said("expanders.tier", &it.tier)?,
                count: count(text, "expanders", &it.count, &it.of)?,
                place: text.place("expanders", &it.platform),
            }),
        },
        drive: match drive {
            None => None,
            Some(it) => Some(CacheDrive {
                drive: text.said("drive.name", &it.name)?,
                capacity: text.size("drive.capacity", &it.capacity)?,
                place: text.place("drive", &it.name),
            }),
        },
        parts: parts(text, &own.parts)?,
        parts_place: text.place("configuration.parts", &own.parts),
    })
}

fn count(
    text: &TomlText<'_>,
    field: &str,
    used: &Spanned<i64>,
    of: &Spanned<i64>,
) -> Result<Count, FileError> {
    let of = text.whole(&format!("{field}.of"), of, 1..=COUNT_MAX)?;
    let most = COUNT_MAX.min(of.saturating_mul(Count::FACTOR_MAX));
    let used = text.whole(&format!("{field}.count"), used, 1..=most)?;
    Ok(Count { used, of })
}

fn parts(
    text: &TomlText<'_>,
    own: &Spanned<BTreeMap<String, Spanned<i64>>>,
) -> Result<Vec<PartCount>, FileError> {
    if own.get_ref().is_empty() {
        let problem = "it is empty: a server without parts would cost nothing";
        let hint = "write its parts, named as in the file of prices, each with its number";
        return Err(text.error("configuration.parts", own, problem, hint));
    }
    let part = |(name, count): (&String, &Spanned<i64>)| {
        let count = text.whole(&format!("parts.{name}"), count, 1..=COUNT_MAX)?;
        Ok(PartCount { name: name.clone(), count })
    };
    own.get_ref().iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema = \"interleaf.configurations/1\"\n[[configuration]]\n\
        name = \"a\"\ndoes = \"a server\"\nplatform = \"p\"\n\
        channels = { count = 8, of = 12 }\ncapacity = \"512GiB\"\n\
        expanders = { platform = \"q\", tier = \"cxl\", count = 4, of = 8 }\n\
        drive = { name = \"nvme\", capacity = \"1TB\" }\nparts = { module = 8 }\n\
        [[configuration]]\nname = \"b\"\ndoes = \"b\"\nplatform = \"p\"\nparts = { module = 1 }\n";

    #[test]
    fn a_configuration_has_its_counts() {
        let all = parse("c.toml", TEXT).unwrap();
        assert_eq!(all[0].channels, Some(Count { used: 8, of: 12 }));
        assert_eq!(all[0].expanders.as_ref().unwrap().count, Count { used: 4, of: 8 });
        assert_eq!(all[0].parts, [PartCount { name: "module".into(), count: 8 }]);
        assert!(all[1].expanders.is_none() && all[1].drive.is_none());
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (from, to, line, field) in [
            ("configurations/1", "platform/1", 1, "schema"),
            ("\"a\"", "\"a b\"", 3, "configuration.name"),
            ("\"a\"", "\"b\"", 12, "configuration.name"),
            ("of = 12", "of = 0", 6, "channels.of"),
            ("count = 8, of = 12", "count = 17, of = 1", 6, "channels.count"),
            ("512GiB", "512", 7, "configuration.capacity"),
            ("512GiB", "0GiB", 7, "configuration.capacity"),
            ("count = 4", "count = -4", 8, "expanders.count"),
            ("1TB", "many", 9, "drive.capacity"),
            ("module = 8", "module = 0", 10, "parts.module"),
            ("module = 8", "", 10, "configuration.parts"),
        ] {
            let why = parse("c.toml", &TEXT.replacen(from, to, 1)).unwrap_err();
            let found = (why.line, why.field.as_deref());
            assert_eq!(found, (Some(line), Some(field)), "{from} -> {to}: {why}");
        }
        let why = parse("c.toml", &TEXT.replacen("does", "price", 1)).unwrap_err();
        assert!(why.to_string().contains("unknown field `price`"), "{why}");
    }
}
