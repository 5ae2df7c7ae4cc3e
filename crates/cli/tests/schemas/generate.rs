//! Generates JSON Schemas from the source code of the structs that serde reads and writes: from
//! their fields, types, doc comments and serde attributes. The schemas are of draft 7, the version
//! that TOML editors support.

use interleaf_model::{policy::PolicyKind, provenance::Provenance, tier::TierKind};
use serde_json::{Map, Value, json};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};
use syn::{
    Attribute, Expr, ExprLit, Field, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit,
    Meta, PathArguments, Token, Type, punctuated::Punctuated,
};

/// The direction of the text that a schema describes: `interleaf` reads the text, or writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Written,
}

/// The structs, enums and type aliases of a crate, by name.
pub(crate) struct Source {
    items: BTreeMap<String, Item>,
}

/// A schema that is being generated, with the definitions found so far.
struct Generator<'a> {
    source: &'a Source,
    direction: Direction,
    /// True if a file may have the key `inherits`. Its missing keys then come from the file named
    /// there.
    inherits: bool,
    definitions: RefCell<BTreeMap<String, Value>>,
}

/// The serde attributes of a struct, a variant or a field, as pairs of (name, value). Some have no
/// value, such as `default`.
struct Attributes(Vec<(String, Option<String>)>);

impl Attributes {
    fn read(attributes: &[Attribute]) -> Self {
        let mut found = vec![];
        for attribute in attributes.iter().filter(|it| it.path().is_ident("serde")) {
            let nested = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            for meta in nested.unwrap() {
                let name = meta.path().get_ident().unwrap().to_string();
                let value = match &meta {
                    Meta::NameValue(pair) => Some(text(&pair.value)),
                    _ => None,
                };
                found.push((name, value));
            }
        }
        Self(found)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name)?.1.as_deref()
    }
}

/// Returns the text of a string literal.
fn text(value: &Expr) -> String {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
        _ => panic!("an attribute that is not text"),
    }
}

/// Returns the doc comment of an item as a single paragraph, or `None` if it has none.
fn description(attributes: &[Attribute]) -> Option<String> {
    let lines = attributes.iter().filter(|it| it.path().is_ident("doc")).map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { panic!("a comment without text") };
        text(&pair.value).trim().to_string()
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(" ").replace("[`", "`").replace("`]", "`"))
}

/// Returns the values that the text field `field` of the struct `owner` may have, or `None` if it
/// may have any text.
fn words(owner: &str, field: &str) -> Option<Vec<String>> {
    let all: Vec<&str> = match (owner, field) {
        (_, "provenance") if owner.ends_with("File") => {
            Provenance::ALL.iter().map(|it| it.name()).collect()
        }
        ("TierFile", "kind") => TierKind::ALL.iter().map(|(_, name)| *name).collect(),
        ("HotnessFile", "kind") => vec!["uniform", "zipf", "hot-set"],
        ("SweepFile", "policy") => PolicyKind::ALL.iter().map(|(_, name, _)| *name).collect(),
        _ => return None,
    };
    Some(all.into_iter().map(String::from).collect())
}

impl Source {
    /// Reads the structs, enums and type aliases of the crate `package`.
    pub(crate) fn read(root: &Path, package: &str) -> Self {
        let mut items = BTreeMap::new();
        let mut folders = vec![root.join("crates").join(package).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    for item in syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap().items
                    {
                        let name = match &item {
                            Item::Struct(it) => it.ident.to_string(),
                            Item::Enum(it) => it.ident.to_string(),
                            Item::Type(it) => it.ident.to_string(),
                            _ => continue,
                        };
                        items.insert(name, item);
                    }
                }
            }
        }
        Self { items }
    }

    /// Generates the JSON Schema of the struct `name`. `schema` is its title.
    pub(crate) fn schema(&self, schema: &str, name: &str, direction: Direction) -> Value {
        let Some(Item::Struct(item)) = self.items.get(name) else { panic!("no struct {name}") };
        let inherits = item
            .fields
            .iter()
            .any(|field| Attributes::read(&field.attrs).value("rename") == Some("inherits"));
        let definitions = RefCell::new(BTreeMap::new());
        let generator = Generator { source: self, direction, inherits, definitions };
        let Value::Object(mut object) = generator.structure(item) else { panic!("no object") };
        object["properties"]["schema"]["const"] = json!(schema);
        object.insert("$schema".into(), json!("http://json-schema.org/draft-07/schema#"));
        object.insert("title".into(), json!(schema));
        let definitions = generator.definitions.into_inner();
        if !definitions.is_empty() {
            object.insert("definitions".into(), json!(definitions));
        }
        Value::Object(object)
    }
}

impl Generator<'_> {
    fn structure(&self, item: &ItemStruct) -> Value {
        let attributes = Attributes::read(&item.attrs);
        if self.is_text(&attributes) {
            return described(json!({"type": "string"}), description(&item.attrs));
        }
        let Fields::Named(fields) = &item.fields else {
            panic!("{}: a struct without names", item.ident)
        };
        let owner = item.ident.to_string();
        let mut properties = Map::new();
        let mut required = BTreeSet::new();
        for field in &fields.named {
            let own = Attributes::read(&field.attrs);
            if own.has("skip") {
                continue;
            }
            if own.has("flatten") {
                self.flatten(&field.ty, &mut properties, &mut required);
                continue;
            }
            let name = field.ident.as_ref().unwrap().to_string();
            let name = name.trim_start_matches("r#");
            let name = own.value("rename").unwrap_or(name).to_string();
            if self.is_required(field, &own) && (!self.inherits || name == "schema") {
                required.insert(name.clone());
            }
            let mut value = self.of(&field.ty);
            if let Some(words) = words(&owner, &name) {
                let place = if value["type"] == "array" { &mut value["items"] } else { &mut value };
                place["enum"] = json!(words);
            }
            properties.insert(name, described(value, description(&field.attrs)));
        }
        let mut value = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            value["required"] = json!(required);
        }
        if attributes.has("deny_unknown_fields") {
            value["additionalProperties"] = json!(false);
        }
        described(value, description(&item.attrs))
    }

    /// Adds the fields of the struct `own` to `properties` and `required`: serde flattens this
    /// struct into another struct. If `own` is optional, none of its fields is required.
    fn flatten(
        &self,
        own: &Type,
        properties: &mut Map<String, Value>,
        required: &mut BTreeSet<String>,
    ) {
        let (name, arguments) = named(own);
        let is_option = name == "Option";
        let name = if is_option { named(arguments[0]).0 } else { name };
        let Some(Item::Struct(item)) = self.source.items.get(&name) else {
            panic!("no struct {name}")
        };
        let value = self.structure(item);
        properties.extend(value["properties"].as_object().unwrap().clone());
        if !is_option {
            let names = value["required"].as_array().into_iter().flatten();
            required.extend(names.map(|name| name.as_str().unwrap().to_string()));
        }
    }

    fn is_required(&self, field: &Field, own: &Attributes) -> bool {
        match self.direction {
            Direction::Read => !own.has("default") && named(&field.ty).0 != "Option",
            // A document of an earlier version may lack a field that has a default, so the schema
            // does not require it.
            Direction::Written => !own.has("skip_serializing_if") && !own.has("default"),
        }
    }

    /// True if a type with the attributes `own` is a text in the document: serde converts the type
    /// to this text, or from it.
    fn is_text(&self, own: &Attributes) -> bool {
        let name = if self.direction == Direction::Read { "try_from" } else { "into" };
        own.value(name) == Some("String")
    }

    fn enumeration(&self, item: &ItemEnum) -> Value {
        let attributes = Attributes::read(&item.attrs);
        let value = if self.is_text(&attributes) {
            json!({"type": "string"})
        } else if attributes.has("untagged") {
            let variant = |fields: &Fields| match fields {
                Fields::Unit => json!({"type": "null"}),
                Fields::Unnamed(fields) => self.of(&fields.unnamed[0].ty),
                Fields::Named(_) => panic!("{}: a variant with names", item.ident),
            };
            json!({"anyOf": item.variants.iter().map(|it| variant(&it.fields)).collect::<Vec<_>>()})
        } else {
            let case = attributes.value("rename_all");
            let word = |variant: &syn::Variant| {
                assert!(variant.fields.is_empty(), "{}: a variant with values", item.ident);
                let own = Attributes::read(&variant.attrs);
                let plain = || renamed(&variant.ident.to_string(), case);
                own.value("rename").map_or_else(plain, String::from)
            };
            json!({"type": "string", "enum": item.variants.iter().map(word).collect::<Vec<_>>()})
        };
        described(value, description(&item.attrs))
    }

    /// Returns the schema of the type `own`.
    fn of(&self, own: &Type) -> Value {
        match own {
            Type::Array(array) => {
                let Expr::Lit(ExprLit { lit: Lit::Int(count), .. }) = &array.len else {
                    panic!("an array whose length is not a number")
                };
                let count: usize = count.base10_parse().unwrap();
                json!({
                    "type": "array", "items": self.of(&array.elem),
                    "minItems": count, "maxItems": count,
                })
            }
            Type::Tuple(tuple) => {
                let items: Vec<Value> = tuple.elems.iter().map(|own| self.of(own)).collect();
                json!({
                    "type": "array", "minItems": items.len(), "maxItems": items.len(),
                    "items": items,
                })
            }
            _ => self.of_named(own),
        }
    }

    fn of_named(&self, own: &Type) -> Value {
        let (name, arguments) = named(own);
        match name.as_str() {
            "Spanned" | "Box" => self.of(arguments[0]),
            "Option" if self.direction == Direction::Read => self.of(arguments[0]),
            "Option" => nullable(self.of(arguments[0])),
            "Vec" => json!({"type": "array", "items": self.of(arguments[0])}),
            "BTreeMap" => {
                json!({"type": "object", "additionalProperties": self.of(arguments[1])})
            }
            "String" | "PathBuf" => json!({"type": "string"}),
            "bool" => json!({"type": "boolean"}),
            "f64" => json!({"type": "number"}),
            "i32" | "i64" => json!({"type": "integer"}),
            "u8" | "u16" | "u32" | "u64" | "usize" => json!({"type": "integer", "minimum": 0}),
            "Value" => json!({}),
            _ => match self.source.items.get(&name) {
                Some(Item::Type(alias)) => self.of(&alias.ty),
                Some(item) => {
                    self.define(&name, item);
                    json!({"$ref": format!("#/definitions/{name}")})
                }
                None => panic!("no type {name} in the crate"),
            },
        }
    }

    fn define(&self, name: &str, item: &Item) {
        if self.definitions.borrow().contains_key(name) {
            return;
        }
        // Insert a placeholder before the fields are visited: a field may have the same type
        // (recursion).
        self.definitions.borrow_mut().insert(name.into(), Value::Null);
        let value = match item {
            Item::Struct(item) => self.structure(item),
            Item::Enum(item) => self.enumeration(item),
            _ => panic!("{name} is no struct and no enum"),
        };
        self.definitions.borrow_mut().insert(name.into(), value);
    }
}

/// Returns the last name in the path of a type, and its generic arguments.
fn named(own: &Type) -> (String, Vec<&Type>) {
    let Type::Path(path) = own else { panic!("a type that is not a path") };
    let last = path.path.segments.last().unwrap();
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(found) => found
            .args
            .iter()
            .filter_map(|it| match it {
                GenericArgument::Type(own) => Some(own),
                _ => None,
            })
            .collect(),
        _ => vec![],
    };
    (last.ident.to_string(), arguments)
}

/// Extends the schema `value` so that null is valid too.
fn nullable(value: Value) -> Value {
    match value.get("type") {
        Some(Value::String(own)) if value.get("enum").is_none() => {
            let own = json!([own, "null"]);
            let mut value = value;
            value["type"] = own;
            value
        }
        _ => json!({"anyOf": [value, {"type": "null"}]}),
    }
}

/// Adds a description to the schema `value`. Draft 7 ignores keywords beside a reference (`$ref`),
/// so `allOf` wraps a reference.
fn described(value: Value, description: Option<String>) -> Value {
    let Some(description) = description else { return value };
    let mut value = if value.get("$ref").is_some() { json!({"allOf": [value]}) } else { value };
    value["description"] = json!(description);
    value
}

/// Returns the name that serde gives to the variant `name` in the `rename_all` style `case`.
fn renamed(name: &str, case: Option<&str>) -> String {
    match case {
        None => name.into(),
        Some("lowercase") => name.to_lowercase(),
        Some("kebab-case") => {
            let mut word = String::new();
            for c in name.chars() {
                if c.is_uppercase() && !word.is_empty() {
                    word.push('-');
                }
                word.extend(c.to_lowercase());
            }
            word
        }
        Some(other) => panic!("rename_all = {other}"),
    }
}
