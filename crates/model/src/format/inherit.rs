//! Inheritance between TOML files: the values of a file are merged over the values of its base.
//!
//! A table is merged key by key. A list of tables whose entries have an identity (a key such as
//! `name`) is merged entry by entry: an entry with the identity of an inherited entry is merged
//! over it, and any other entry is added after the inherited entries. Every other value replaces
//! the inherited value.
//!
//! Each value has a span: its byte range in the text of its file. In a chain of files, the spans of
//! a base begin after the spans of the file that inherits from it, so spans of different files do
//! not overlap. Errors can therefore name the file and the line of a wrong value
//! ([`super::toml_text::TomlText`]).

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A TOML table that keeps the span of each value.
pub type Table<'i> = DeTable<'i>;

/// Returns `table` with `by` added to the byte offsets of all spans.
pub(super) fn moved(table: Table<'_>, by: usize) -> Table<'_> {
    table.into_iter().map(|(key, value)| (spanned(key, by), moved_value(value, by))).collect()
}

fn spanned<T>(value: Spanned<T>, by: usize) -> Spanned<T> {
    let span = value.span();
    Spanned::new(span.start + by..span.end + by, value.into_inner())
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let value = spanned(value, by);
    let span = value.span();
    let inner = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved(table, by)),
        DeValue::Array(list) => {
            DeValue::Array(list.into_iter().map(|value| moved_value(value, by)).collect())
        }
        other => other,
    };
    Spanned::new(span, inner)
}

/// Merges `own` over `base`. `identities` are the lists of tables that are merged entry by entry:
/// pairs of the list's name and the key that identifies an entry.
pub fn overlaid<'i>(own: Table<'i>, base: Table<'i>, identities: &[(&str, &str)]) -> Table<'i> {
    let mut merged = base;
    for (key, value) in own {
        let value = match merged.remove(&key) {
            Some(inherited) => {
                let identity = identities.iter().find(|(list, _)| *list == key.get_ref().as_ref());
                over(value, inherited, identity.map(|(_, identity)| *identity), identities)
            }
            None => value,
        };
        merged.insert(key, value);
    }
    merged
}

fn over<'i>(
    own: Spanned<DeValue<'i>>,
    base: Spanned<DeValue<'i>>,
    identity: Option<&str>,
    identities: &[(&str, &str)],
) -> Spanned<DeValue<'i>> {
    let span = own.span();
    let merged = match (own.into_inner(), base.into_inner(), identity) {
        (DeValue::Table(own), DeValue::Table(base), _) => {
            DeValue::Table(overlaid(own, base, identities))
        }
        (DeValue::Array(own), DeValue::Array(base), Some(identity)) => {
            let mut entries: Vec<_> = base.into_iter().collect();
            for entry in own {
                let same = |other: &Spanned<DeValue<'_>>| {
                    let wanted = text_of(entry.get_ref(), identity);
                    wanted.is_some() && text_of(other.get_ref(), identity) == wanted
                };
                match entries.iter().position(same) {
                    Some(at) => {
                        let inherited = entries.remove(at);
                        entries.insert(at, over(entry, inherited, None, identities));
                    }
                    None => entries.push(entry),
                }
            }
            DeValue::Array(entries.into_iter().collect())
        }
        (own, ..) => own,
    };
    Spanned::new(span, merged)
}

/// Returns the text of the key `key` in the table `value`; `None` if the table has no text for this
/// key.
fn text_of<'v>(value: &'v DeValue<'_>, key: &str) -> Option<&'v str> {
    value.as_table()?.get(key)?.get_ref().as_str()
}

/// Returns the entry of the array `list` of `table` whose key `identity` (such as `name`) has the
/// text `wanted`.
pub fn entry<'v, 'i>(
    table: &'v Table<'i>,
    list: &str,
    identity: &str,
    wanted: &str,
) -> Option<&'v Table<'i>> {
    let entries = table.get(list)?.get_ref().as_array()?;
    let found = entries.iter().find(|entry| text_of(entry.get_ref(), identity) == Some(wanted));
    found?.get_ref().as_table()
}

/// Returns the text of the key `identity` in each entry of the array `list` of `table`. Leaves out
/// entries without such a text.
pub fn identities_of(table: &Table<'_>, list: &str, identity: &str) -> Vec<String> {
    let entries = table.get(list).and_then(|list| list.get_ref().as_array());
    let texts = entries.into_iter().flat_map(|entries| entries.iter());
    texts.filter_map(|entry| text_of(entry.get_ref(), identity)).map(String::from).collect()
}

/// Searches the array `list` of `table` for the first entry whose text for the key `identity` is
/// also in an earlier entry, and returns this text. `None` if all texts differ.
pub fn repeated(table: &Table<'_>, list: &str, identity: &str) -> Option<Spanned<String>> {
    let entries = table.get(list)?.get_ref().as_array()?;
    let texts = entries.iter().filter_map(|entry| {
        let value = entry.get_ref().as_table()?.get(identity)?;
        Some(Spanned::new(value.span(), value.get_ref().as_str()?))
    });
    let mut known = vec![];
    for text in texts {
        if known.contains(text.get_ref()) {
            return Some(Spanned::new(text.span(), text.get_ref().to_string()));
        }
        known.push(*text.get_ref());
    }
    None
}

/// Merges each table in the array `list` of `table` over `base`, a table with the values that all
/// entries of the array inherit. `base` must not have the key that identifies an entry: an entry
/// without this key would inherit it.
pub fn overlay_entries<'i>(table: &mut Table<'i>, list: &str, base: &Table<'i>) {
    let Some(entries) = table.get_mut(list) else { return };
    if let DeValue::Array(entries) = entries.get_mut() {
        for entry in entries.iter_mut() {
            if let DeValue::Table(own) = entry.get_mut() {
                *own = overlaid(core::mem::take(own), base.clone(), &[]);
            }
        }
    }
}
