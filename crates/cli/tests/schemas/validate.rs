//! Checks values against a JSON Schema. Only the keywords of the generated schemas are implemented.

use serde_json::Value;

/// Returns the problems of `value` under `schema`, each as `PATH: PROBLEM`, with the path of the
/// invalid field.
pub(crate) fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = vec![];
    check(schema, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let mut fault = |problem: String| found.push(format!("{place}: {problem}"));
    if let Some(expected) = schema.get("const")
        && value != expected
    {
        fault(format!("not {}", expected.as_str().unwrap_or_default()));
    }
    if let Some(Value::Array(words)) = schema.get("enum")
        && !words.contains(value)
    {
        fault(format!("not one of {}", schema["enum"]));
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(own)) => vec![own],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    if !types.is_empty() && !types.iter().any(|own| is_of(own, value)) {
        return fault(format!("no {}", types.join(" or ")));
    }
    if schema.get("minimum").is_some() && value.as_f64().is_some_and(|number| number < 0.0) {
        fault("below 0".into());
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(target.trim_start_matches('#')).unwrap();
        check(root, target, value, place, found);
    }
    for own in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        check(root, own, value, place, found);
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf") {
        let of = |choice| {
            let mut problems = vec![];
            check(root, choice, value, place, &mut problems);
            problems
        };
        let problems: Vec<Vec<String>> = choices.iter().map(of).collect();
        if problems.iter().all(|own| !own.is_empty()) {
            found.extend(problems.into_iter().flatten());
        }
    }
    match value {
        Value::Object(fields) => object(root, schema, fields, place, found),
        Value::Array(items) => array(root, schema, items, place, found),
        _ => (),
    }
}

fn object(
    root: &Value,
    schema: &Value,
    fields: &serde_json::Map<String, Value>,
    place: &str,
    found: &mut Vec<String>,
) {
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !fields.contains_key(name) {
            found.push(format!("{place}: no {name}"));
        }
    }
    for (name, value) in fields {
        let place = format!("{place}/{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(own), _) => check(root, own, value, &place, found),
            (None, Some(Value::Bool(false))) => {
                let owner = place.trim_end_matches(name).trim_end_matches('/');
                found.push(format!("{owner}: unknown {name}"));
            }
            (None, Some(others)) => check(root, others, value, &place, found),
            (None, None) => (),
        }
    }
}

fn array(root: &Value, schema: &Value, items: &[Value], place: &str, found: &mut Vec<String>) {
    let count = items.len() as u64;
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    if limit("minItems").is_some_and(|least| count < least)
        || limit("maxItems").is_some_and(|most| count > most)
    {
        found.push(format!("{place}: {count} items"));
    }
    for (at, item) in items.iter().enumerate() {
        let own = match schema.get("items") {
            Some(Value::Array(all)) => all.get(at),
            other => other,
        };
        if let Some(own) = own {
            check(root, own, item, &format!("{place}/{at}"), found);
        }
    }
}

fn is_of(own: &str, value: &Value) -> bool {
    match own {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => value.is_null(),
    }
}
