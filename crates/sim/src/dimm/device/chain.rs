//! Reads the chain of files that a file of devices inherits from: `inherits = "rdimm-6400-2r"`.
//!
//! The merged file has the tables of the inherited file, in which the values of the inheriting file
//! replace inherited values. Each module of the inheriting file takes the fields that it does not
//! set from the inherited module. [`super::build`] checks the merged file as a whole.

use super::{
    DeviceError,
    families::{FILES, SCHEMA, names},
};
use interleaf_model::format::{
    FileError,
    inherit::{Table, entry, identities_of, overlaid, overlay_entries, repeated},
    names::suggestion,
    toml_text::{NamedText, TomlText},
};
use serde::Deserialize;
use toml::Spanned;

/// Reads the text of a file of devices by its path. An error is a pair of the problem, which names
/// the file, and the remedy.
pub type Read<'a> = &'a dyn Fn(&str) -> Result<String, (String, String)>;

/// Maximum number of device files in a chain of inheritance, so that a chain without an end is an
/// error.
const FILES_MAX: usize = 8;

/// The lists whose inherited entries are merged with the file's own entries, each with the key that
/// identifies an entry.
const IDENTITIES: [(&str, &str); 3] = [("speed", "rate"), ("density", "name"), ("width", "name")];

/// The keys of a file that are read before its chain of inheritance is known.
#[derive(Deserialize)]
struct Head {
    schema: Spanned<String>,
    inherits: Option<Spanned<String>>,
}

/// A module that a file inherits from.
struct Base {
    /// The value of the key `inherits`, with its position in the file.
    value: Spanned<String>,
    /// The name of the inherited module; `None` if the key names only a file, which must then have
    /// exactly one module.
    module: Option<String>,
}

/// The files that a file of devices inherits from, directly or through another file.
pub(super) struct Chain {
    pub(super) inherited: Vec<NamedText>,
    /// For each file in `inherited`, the module of this file that is inherited. The modules of the
    /// inheriting file take the fields that they do not set from this module.
    bases: Vec<Base>,
}

impl Chain {
    /// Reads the chain of `text`, the content of `file`.
    pub(super) fn read(file: &str, text: &str, read: Read<'_>) -> Result<Self, DeviceError> {
        let mut chain = Self { inherited: vec![], bases: vec![] };
        loop {
            let last = chain.inherited.last();
            let last = last.map_or((file, text), |it| (it.file.as_str(), it.text.as_str()));
            let toml = TomlText::new(last.0, last.1);
            let head: Head = toml.read()?;
            toml.schema(&head.schema, SCHEMA)?;
            let Some(value) = head.inherits else { return Ok(chain) };
            let (next, module) = of_name(&toml, &value, read, |path| {
                let known = chain.inherited.iter().map(|it| it.file.as_str());
                let files: Vec<&str> = [file].into_iter().chain(known).collect();
                circle(&files, path)
            })?;
            if chain.inherited.len() + 1 == FILES_MAX {
                let problem = format!("the chain has more than {FILES_MAX} files");
                let hint = "inherit from a file that is nearer to the built-in ones";
                return Err(toml.error("inherits", &value, problem, hint).into());
            }
            chain.inherited.push(next);
            chain.bases.push(Base { value, module });
        }
    }

    /// Merges the tables of the inherited files and of `text`, the file that inherits from them.
    pub(super) fn merged<'i>(&self, text: &TomlText<'i>) -> Result<Table<'i>, FileError> {
        let mut tables = text.tables()?;
        tables.iter().try_for_each(|table| unique_entries(text, table))?;
        let mut merged = tables.pop().unwrap_or_default();
        while let Some(mut own) = tables.pop() {
            let at = tables.len();
            let toml = match at.checked_sub(1).and_then(|at| self.inherited.get(at)) {
                Some(named) => TomlText::new(&named.file, &named.text),
                None => TomlText::new(text.file(), text.text()),
            };
            let (base, file) = (&self.bases[at], &self.inherited[at].file);
            let mut module = inherited_module(&toml, base, file, &merged)?;
            module.remove("name");
            new_sources(text, &own, &merged, file)?;
            overlay_entries(&mut own, "module", &module);
            merged.remove("module");
            merged.remove("inherits");
            merged = overlaid(own, merged, &IDENTITIES);
        }
        Ok(merged)
    }
}

/// Returns the file and the module that `value`, the value of the key `inherits`, names. Fails if
/// the path of this file is already in the chain of inheriting files: `circle` then returns the
/// circle as text for the error.
fn of_name(
    toml: &TomlText<'_>,
    value: &Spanned<String>,
    read: Read<'_>,
    circle: impl Fn(&str) -> Option<String>,
) -> Result<(NamedText, Option<String>), FileError> {
    let name = value.get_ref();
    if !name.contains(['/', '.']) {
        let of_file = |(_, text): &&(&str, &str)| {
            let table = TomlText::new("", text).tables();
            table.is_ok_and(|tables| entry(&tables[0], "module", "name", name).is_some())
        };
        let Some((file, text)) = FILES.iter().find(of_file) else {
            let problem = format!("there is no device \"{name}\"");
            let similar = suggestion(name, &names());
            let hint = format!("{similar}name a file, or one of {}", names().join(", "));
            return Err(toml.error("inherits", value, problem, hint));
        };
        let named = NamedText { file: (*file).into(), text: (*text).into() };
        return Ok((named, Some(name.clone())));
    }
    let (path, module) = match name.rsplit_once(':') {
        Some((path, module)) => (path, Some(module.to_string())),
        None => (name.as_str(), None),
    };
    let path = beside(toml.file(), path);
    if let Some(circle) = circle(&path) {
        let problem = format!("a circle: {circle}");
        return Err(toml.error("inherits", value, problem, "inherit from a file outside of it"));
    }
    let text =
        read(&path).map_err(|(problem, hint)| toml.error("inherits", value, problem, hint))?;
    Ok((NamedText { file: path, text }, module))
}

/// Resolves `path`, which is relative to the folder of the inheriting file `heir`, and removes `.`
/// and `a/..`.
fn beside(heir: &str, path: &str) -> String {
    let folder = heir.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = match (path.starts_with('/'), folder.is_empty() && !heir.starts_with('/')) {
        (true, _) | (_, true) => path.to_string(),
        _ => format!("{folder}/{path}"),
    };
    normal(&whole)
}

fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = vec![];
    for part in path.split('/') {
        match part {
            "." => {}
            "" if !parts.is_empty() => {}
            ".." if parts.last().is_some_and(|last| !["..", ""].contains(last)) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the circle of files that `path` closes in a chain of inheriting files, as text: `a -> b
/// -> a`. `None` if `path` is not in the chain.
fn circle(files: &[&str], path: &str) -> Option<String> {
    let start = files.iter().position(|file| normal(file) == path)?;
    Some([&files[start..], &[files[start]]].concat().join(" -> "))
}

/// Returns the fields of the module that `base` names. `table` has the values of the inherited file
/// `file`, and `toml` is the inheriting file.
fn inherited_module<'i>(
    toml: &TomlText<'_>,
    base: &Base,
    file: &str,
    table: &Table<'i>,
) -> Result<Table<'i>, FileError> {
    let modules = identities_of(table, "module", "name");
    let wanted = match (&base.module, modules.as_slice()) {
        (Some(module), _) => Some(module),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    let found = wanted.and_then(|wanted| entry(table, "module", "name", wanted));
    found.cloned().ok_or_else(|| {
        let problem = match &base.module {
            Some(module) => format!("{file} has no module \"{module}\""),
            None => format!("{file} has {} modules", modules.len()),
        };
        let similar = base.module.as_ref().map_or(String::new(), |it| suggestion(it, &modules));
        let hint = match modules.len() {
            0 => "add a [[module]] to that file".into(),
            _ => format!("{similar}say which is meant: FILE:NAME with {}", modules.join(", ")),
        };
        toml.error("inherits", &base.value, problem, hint)
    })
}

/// Checks that no two entries of a list in `table`, the table of one file, have the same identity.
/// Otherwise the second of two speed bins with the same rate would be ignored, or merged with the
/// first.
fn unique_entries(text: &TomlText<'_>, table: &Table<'_>) -> Result<(), FileError> {
    let currents = table.get("currents").and_then(|currents| currents.get_ref().as_table());
    let of_currents = currents.and_then(|currents| repeated(currents, "width", "name"));
    let own = IDENTITIES.iter().chain(&[("module", "name")]).find_map(|(list, identity)| {
        Some((format!("{list}.{identity}"), repeated(table, list, identity)?))
    });
    let found = own.or_else(|| Some(("currents.width.name".into(), of_currents?)));
    let Some((field, second)) = found else { return Ok(()) };
    let problem = format!("\"{}\" is there twice", second.get_ref());
    Err(text.error(&field, &second, problem, "leave one of the two tables out"))
}

/// Checks that no source of the inheriting file has the name of an inherited source, because
/// inherited values refer to the inherited source.
fn new_sources(
    text: &TomlText<'_>,
    own: &Table<'_>,
    base: &Table<'_>,
    file: &str,
) -> Result<(), FileError> {
    let sources = |table: &Table<'_>| -> Vec<(String, Spanned<()>)> {
        let sources = table.get("sources").and_then(|sources| sources.get_ref().as_table());
        let keys = sources.into_iter().flat_map(|sources| sources.keys());
        keys.map(|key| (key.get_ref().to_string(), Spanned::new(key.span(), ()))).collect()
    };
    let inherited = sources(base);
    for (name, place) in sources(own) {
        if inherited.iter().any(|(known, _)| *known == name) {
            let problem = format!("{file} has a source of this name, for its own values");
            let hint = "give the source another name";
            return Err(text.error(&format!("sources.{name}"), &place, problem, hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_heir() {
        for (heir, path, expected) in [
            ("my.toml", "base.toml", "base.toml"),
            ("a/my.toml", "base.toml", "a/base.toml"),
            ("a/my.toml", "../b/./base.toml", "b/base.toml"),
            ("/a/my.toml", "base.toml", "/a/base.toml"),
            ("/my.toml", "base.toml", "/base.toml"),
            ("a/my.toml", "/base.toml", "/base.toml"),
            ("my.toml", "../base.toml", "../base.toml"),
            ("/my.toml", "../base.toml", "/../base.toml"),
        ] {
            assert_eq!(beside(heir, path), expected, "{heir} {path}");
        }
        assert_eq!(circle(&["./a", "b"], "a").as_deref(), Some("./a -> b -> ./a"));
        assert_eq!(circle(&["a", "b"], "b").as_deref(), Some("b -> b"));
        assert_eq!(circle(&["a", "b"], "c"), None);
    }
}
