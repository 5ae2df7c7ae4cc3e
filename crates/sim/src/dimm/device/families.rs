//! Lists the built-in files of devices, one for each family.

use super::file::DeviceToml;
use interleaf_model::format::toml_text::TomlText;

pub(super) const SCHEMA: &str = "interleaf.devices/1";

pub(super) const FILES: [(&str, &str); 5] = [
    ("ddr5.toml", include_str!("../../../../../devices/ddr5.toml")),
    ("ddr4.toml", include_str!("../../../../../devices/ddr4.toml")),
    ("ddr3.toml", include_str!("../../../../../devices/ddr3.toml")),
    ("stt-mram.toml", include_str!("../../../../../devices/stt-mram.toml")),
    ("stt-mram-ddr4.toml", include_str!("../../../../../devices/stt-mram-ddr4.toml")),
];

/// Returns the names of the built-in modules.
pub fn names() -> Vec<String> {
    let of_file = |(name, text): &(&str, &str)| TomlText::new(name, text).read::<DeviceToml>().ok();
    let files = FILES.iter().filter_map(of_file);
    files.flat_map(|file| file.module.into_iter().map(|module| module.name.into_inner())).collect()
}
