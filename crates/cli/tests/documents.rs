//! Tests with altered documents of every schema. An altered document is either rejected, with an
//! error that names the file and the field, or rendered in all formats, with finite numbers only. A
//! report never panics.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_record::{
    Document, RecordError,
    measure::{foreign, platform},
};
use proptest::prelude::*;
use regex_lite::Regex;
use serde_json::{Value, json};
use std::{
    fs,
    mem::discriminant,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

/// Returns a document of each schema, as pairs of (file name, value). The value of a file with a
/// document per line is an array. The rows of a sweep are left out: they are not JSON.
fn documents() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "csv") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let value = match name.ends_with(LINES) {
            true => text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect(),
            false => serde_json::from_str(&text).unwrap(),
        };
        found.push((name, value));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The file name extension of files with a document per line.
const LINES: &str = ".jsonl";

fn text_of(name: &str, value: &Value) -> String {
    match value {
        Value::Array(lines) if name.ends_with(LINES) => {
            lines.iter().map(|line| format!("{line}\n")).collect()
        }
        _ => value.to_string(),
    }
}

/// A step from a JSON value to one of its fields or elements.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Element(usize),
}

/// Returns the paths of `value` and of all values inside it. Only one element of each array is
/// visited.
fn paths(value: &Value) -> Vec<Vec<Step>> {
    let mut found = vec![vec![]];
    let mut below = |step: Step, part: &Value| {
        let rest = paths(part).into_iter();
        found.extend(rest.map(|rest| [vec![step.clone()], rest].concat()));
    };
    match value {
        Value::Array(elements) => {
            // In a list of structs, choose the last one, because some checks compare a struct with
            // those before it. In a list of numbers, choose the first one: all numbers of a list
            // are checked alike.
            let has_parts = elements.last().is_some_and(|it| it.is_object() || it.is_array());
            let at = if has_parts { elements.len() - 1 } else { 0 };
            elements.get(at).into_iter().for_each(|part| below(Step::Element(at), part));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, part)| below(Step::Field(name.clone()), part));
        }
        _ => {}
    }
    found
}

fn part<'a>(value: &'a mut Value, path: &[Step]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Element(at) => value.get_mut(at),
    })
}

/// Returns values that replace the field `part`. `None` stands for the removal of the field.
fn changes(part: &Value) -> Vec<Option<Value>> {
    let mut changes = match part {
        Value::Number(number) => {
            let value = number.as_f64().unwrap();
            let values = [0.0, -1.0 - value, 1e308, -1e308, 1e-308, 1e24, 1e-60, 1e6 * value];
            let mut values: Vec<Value> = values.iter().map(|value| json!(value)).collect();
            values.extend([json!(u64::MAX), json!(1_u64 << 53), json!(-1), json!(0)]);
            values.extend([json!("NaN"), json!("inf")]);
            values
        }
        Value::String(_) => {
            vec![json!(""), json!("<script>\"'&\u{1b}\n"), json!("x".repeat(5000)), json!(7)]
        }
        Value::Array(elements) => {
            let mut more = elements.clone();
            more.extend(elements.last().cloned());
            let less = elements[..elements.len().saturating_sub(1)].to_vec();
            vec![json!([]), json!(more), json!(less)]
        }
        Value::Bool(is) => vec![json!(!is)],
        Value::Object(_) => vec![json!({}), json!([])],
        Value::Null => vec![json!(0), json!(1.5), json!(""), json!([])],
    };
    changes.push(Value::Null);
    let mut changes: Vec<Option<Value>> = changes.into_iter().map(Some).collect();
    changes.push(None);
    changes
}

fn altered(value: &mut Value, path: &[Step], to: Option<Value>) {
    match (to, path.split_last()) {
        (Some(to), _) => {
            if let Some(part) = part(value, path) {
                *part = to;
            }
        }
        (None, Some((last, above))) => match (part(value, above), last) {
            (Some(Value::Object(fields)), Step::Field(name)) => drop(fields.remove(name)),
            (Some(Value::Array(elements)), Step::Element(at)) if *at < elements.len() => {
                elements.remove(*at);
            }
            _ => {}
        },
        (None, None) => *value = Value::Null,
    }
}

/// Reads a document, and renders it in every format unless it is rejected. Returns true if it was
/// accepted. `not_finite` matches numbers that are not finite, which no rendered text may have.
fn rendered_or_refused(name: &str, value: &Value, not_finite: &Regex) -> bool {
    let document = match interleaf_record::read(name, &text_of(name, value)) {
        Ok(document) => document,
        Err(RecordError { problem, .. }) => {
            assert!(problem.starts_with(&format!("{name}:")), "no file in: {problem}");
            return false;
        }
    };
    let mut made = vec![interleaf_report::html::contents(&document).1];
    made.push(interleaf_report::document::markdown(&document));
    made.push(interleaf_report::document::csv(&document));
    for figure in document.figures() {
        made.extend(interleaf_report::svg::picture(&figure).ok());
    }
    if let Document::Measure(record) = &document {
        made.extend(foreign::mess(record).ok());
        made.extend(foreign::mlc(record).ok());
        let platform = platform::platform(record, "stem", "source").ok();
        made.extend(platform.map(|it| it.toml));
    }
    for text in made {
        let found = not_finite.find(&text).map(|found| {
            let from = text.floor_char_boundary(found.start().saturating_sub(80));
            text[from..found.end()].to_string()
        });
        assert_eq!(found, None, "a number is not finite");
    }
    true
}

fn not_finite() -> Regex {
    Regex::new(r"\b(inf|NaN)\b").unwrap()
}

#[test]
fn documents_are_rendered_as_they_were_recorded() {
    let all = documents();
    for (name, value) in &all {
        assert!(rendered_or_refused(name, value, &not_finite()), "{name} is refused");
    }
    let has = |schema: &str| {
        let first = |value: &Value| value.get(0).unwrap_or(value)["schema"] == schema;
        all.iter().any(|(_, value)| first(value))
    };
    assert!(
        interleaf_record::REPORTED.iter().all(|schema| has(schema)),
        "a schema has no document"
    );
}

/// An HTML page is mailed and stored with results, so it must be small and load no other file.
#[test]
fn a_page_of_each_kind_is_below_one_megabyte() {
    for (name, value) in documents() {
        let document = interleaf_record::read(&name, &text_of(&name, &value)).unwrap();
        let page = interleaf_report::html::page(&document);
        assert!(page.len() < 1_000_000, "{name}: {} bytes", page.len());
        assert_eq!(page.matches("<svg").count(), 2 * document.figures().len(), "{name}");
        for word in ["<script", " src=", "<link ", "url(", "@import"] {
            assert!(!page.contains(word), "{name}: {word}");
        }
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    }
}

/// Special characters of HTML, XML and Markdown in a document's texts must not change the structure
/// of its page, tables and pictures.
#[test]
fn texts_of_a_document_are_escaped() {
    const TEXT: &str = "<b>|&\"x\u{1b}";
    let mut wrong = vec![];
    let (mut accepted, mut shown) = (0, 0);
    for (name, value) in documents() {
        for path in paths(&value) {
            let mut changed = value.clone();
            match part(&mut changed, &path) {
                Some(part) if part.is_string() => *part = json!(TEXT),
                _ => continue,
            }
            let Ok(document) = interleaf_record::read(&name, &text_of(&name, &changed)) else {
                continue;
            };
            accepted += 1;
            let page = interleaf_report::html::page(&document);
            shown += usize::from(page.contains("&lt;b&gt;|&amp;&quot;x"));
            let figures = document.figures();
            let pictures = figures.iter().filter_map(|it| interleaf_report::svg::picture(it).ok());
            for text in pictures.chain([page]) {
                if ["<b>", "|&\"", "&\"x", "\u{1b}"].iter().any(|bad| text.contains(bad)) {
                    wrong.push(format!("{name}: {path:?}: not escaped"));
                }
            }
            let markdown = interleaf_report::document::markdown(&document);
            if !has_whole_tables(&markdown) {
                wrong.push(format!("{name}: {path:?}: a row has another number of cells"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} texts:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted > 200 && shown > 100, "{accepted} accepted, {shown} shown");
}

/// True if all rows of each table in a Markdown text have the same number of cells.
fn has_whole_tables(markdown: &str) -> bool {
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let lines: Vec<&str> = markdown.lines().collect();
    let in_table = |a: &&str, b: &&str| a.starts_with('|') && b.starts_with('|');
    lines.chunk_by(in_table).all(|rows| rows.iter().all(|row| cells(row) == cells(rows[0])))
}

/// The test changes one field at a time in a document of each schema. The changed document must be
/// rejected or rendered.
#[test]
fn a_document_with_one_change_is_refused_or_rendered() {
    let (mut refused, mut accepted, mut wrong) = (0, 0, vec![]);
    let not_finite = not_finite();
    for (name, value) in documents() {
        for path in paths(&value) {
            let mut original = value.clone();
            let Some(changes) = part(&mut original, &path).map(|part| changes(part)) else {
                continue;
            };
            for to in changes {
                let mut changed = value.clone();
                altered(&mut changed, &path, to.clone());
                let tried = || rendered_or_refused(&name, &changed, &not_finite);
                match catch_unwind(AssertUnwindSafe(tried)) {
                    Ok(true) => accepted += 1,
                    Ok(false) => refused += 1,
                    Err(_) => wrong.push(format!("{name}: {path:?} -> {to:?}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them panicked:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 500 && accepted > 500, "{refused} refused, {accepted} accepted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    /// The test changes several fields of a document at once. The changed document must be rejected
    /// or rendered.
    #[test]
    fn a_document_with_several_changes_is_refused_or_rendered(
        which in any::<prop::sample::Index>(),
        places in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 2..5),
    ) {
        let all = documents();
        let (name, original) = &all[which.index(all.len())];
        let (mut original, mut value) = (original.clone(), original.clone());
        let paths = paths(&original);
        for (place, change) in places {
            let path = &paths[place.index(paths.len())];
            let before = part(&mut original, path).unwrap();
            // Change a field only if its value has the original type. Otherwise a text could become
            // a number, and then this number the text "NaN". Such a text is valid in the field, but
            // it looks like a number that is not finite.
            let is_same_type = part(&mut value, path)
                .is_some_and(|now| discriminant(now) == discriminant(before));
            if is_same_type {
                let changes = changes(before);
                altered(&mut value, path, changes[change.index(changes.len())].clone());
            }
        }
        rendered_or_refused(name, &value, &not_finite());
    }
}

/// Returns the Markdown of the recorded document `name` after `change` has altered the document.
fn markdown_of(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let all = documents();
    let (_, mut value) = all.iter().find(|(known, _)| known == name).unwrap().clone();
    change(&mut value);
    let document = interleaf_record::read(name, &value.to_string()).unwrap();
    interleaf_report::document::markdown(&document)
}

#[test]
fn a_plan_without_a_recommendation_says_why() {
    let text = |is_future: bool, is_only_future: bool| {
        markdown_of("plan.json", |plan| {
            plan["recommended"] = Value::Null;
            if is_only_future {
                plan["baseline"] = json!("mrdimm-12800");
            }
            let rows = plan["rows"].as_array_mut().unwrap();
            rows.retain(|row| !is_only_future || row["future"] == true);
            for row in rows {
                row["fits"] = json!(is_future && row["future"] == true);
            }
        })
    };
    let only_future = "recommended: none, because no configuration on sale holds the memory that \
                       the demand needs; with --future, mrdimm-12800 is recommended";
    assert!(text(true, false).contains(only_future), "{}", text(true, false));
    let none = "recommended: none, because no configuration holds the memory";
    assert!(text(false, false).contains(none), "{}", text(false, false));
    let none_on_sale = "recommended: none, because none of the configurations is on sale; with \
                        --future, mrdimm-12800 is recommended";
    assert!(text(true, true).contains(none_on_sale), "{}", text(true, true));
}

#[test]
fn a_ceiling_without_a_drive_says_why() {
    let text = |ratio: f64, least_bytes: u64| {
        markdown_of("bench-compare.json", |bench| {
            let ceiling = &mut bench["ceilings"][0];
            (ceiling["ratio"], ceiling["drive"]) = (json!(ratio), Value::Null);
            ceiling["least_read_bytes"] = json!(least_bytes);
            ceiling["least_written_bytes"] = json!(least_bytes);
        })
    };
    assert!(text(4.0, 1 << 20).contains("the drive was not measured (--no-drive)"));
    assert!(text(4.0, 0).contains("nothing has to be carried"));
    assert!(text(1.0, 1 << 20).contains("the budget holds the footprint"));
}

/// The document of `run --restore --json` has the same schema name as that of a run, but has no
/// report. The error says so.
#[test]
fn restored_settings_have_no_report() {
    for field in ["left", "put_back"] {
        let text = json!({ "schema": "interleaf.run/1", field: [] }).to_string();
        let why = interleaf_record::read("-", &text).unwrap_err();
        assert!(why.problem.starts_with("-: command: it is missing: these may be"), "{why:?}");
        assert!(why.hint.contains("--restore without --json"), "{why:?}");
    }
}

/// Each change in the table made a report of an earlier version panic. Now the document is
/// rejected, and the error names the field.
#[test]
fn the_field_is_named() {
    let all = documents();
    let table: [(&str, &str, Value, &str); 9] = [
        ("machine.json", "/tiers", json!([]), "tiers: it is empty"),
        ("machine.json", "/tiers", json!(["a", "b", "c"]), "held_bytes: it has 2 elements"),
        ("machine.json", "/periods/0/target_weights", json!([]), "periods[0].target_weights: "),
        ("machine.json", "/periods/1/hot_share", json!([]), "periods[1].hot_share: "),
        (
            "machine.json",
            "/comparison/0/workloads",
            json!([]),
            "comparison[0].workloads: it has 0 elements, and workloads has 1",
        ),
        (
            "machine.json",
            "/workloads/0/best_static/weights",
            json!([]),
            "workloads[0].best_static.weights: ",
        ),
        (
            "predict.json",
            "/rows/0/tier_bandwidth_gbps",
            json!([1]),
            "tier_bandwidth_gbps: it has 1",
        ),
        ("predict.json", "/rows/0/latency_ns", json!(1e308), "rows[0].latency_ns: 1e+308 is out"),
        ("predict.json", "/rows/0/weights", json!(["1"]), "rows[0].weights[0]: invalid type"),
    ];
    for (name, at, to, expected) in table {
        let (_, mut value) = all.iter().find(|(known, _)| known == name).unwrap().clone();
        *value.pointer_mut(at).unwrap() = to;
        let Err(RecordError { problem, .. }) = interleaf_record::read(name, &value.to_string())
        else {
            panic!("{name} with another {at} is accepted");
        };
        assert!(
            problem.starts_with(&format!("{name}:")) && problem.contains(expected),
            "{problem}"
        );
    }
}
