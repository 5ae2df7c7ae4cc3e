//! Rules for the structure of the crates: imports between modules, names of types, and sizes.
//!
//! The files of a crate are the nodes of a graph. Its edges are the paths in a file that begin with
//! `crate`, `super` or `self` and name another file. An edge to an ancestor does not count: a
//! parent declares its children, re-exports them, and has the types that they share. The rule
//! forbids all other cycles, because no file of a cycle can be read, tested or moved without the
//! others.

use crate::{files, read, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use syn::{
    Attribute, Fields, Item, ItemEnum, ItemMod, ItemStruct, Macro, UseTree,
    visit::{self, Visit},
};

/// Maximum number of lines in the `src` of a crate, tests included.
const CRATE_LINES_MAX: usize = 16_000;

/// The crates whose limit is not [`CRATE_LINES_MAX`]. The limit of `cli` is lower: `cli` should
/// have only arguments, options, calls and rendering.
const OWN_LINES_MAX: [(&str, usize); 1] = [("cli", 10_000)];

/// Pairs of (crate, the crates of the workspace that it may depend on, except in tests).
const LAYERS: [(&str, &str); 34] = [
    ("model", ""),
    ("extend_forecast", "model"),
    ("sim", "model"),
    ("card", "model sim"),
    ("card_server", "card"),
    ("procfs", ""),
    ("poll_server", ""),
    ("linux", "model procfs"),
    ("observe", "linux model poll_server procfs"),
    ("policy_process", "linux model"),
    ("measure", "linux model"),
    ("workload", "extend_forecast"),
    ("thread", ""),
    ("store", "poll_server procfs thread"),
    ("prefetch", "procfs"),
    ("pager", "poll_server prefetch procfs store thread"),
    ("preload", "pager prefetch procfs store thread"),
    ("swap_hints", "prefetch procfs"),
    ("capi", "pager prefetch procfs store"),
    ("console", "linux model"),
    ("catalog", "card console extend_forecast linux model sim"),
    ("recipe", "catalog console model"),
    ("record", "card linux measure model observe pager sim store"),
    ("report", "model record sim"),
    ("study", "card catalog console extend_forecast job model record report sim workload"),
    ("job", "card catalog console extend_forecast model record report sim"),
    ("python", "card catalog console model job record report sim study"),
    ("campaign", "console launch linux measure model observe record report"),
    (
        "launch",
        "catalog console extend_forecast linux model observe pager procfs record report \
          store swap_hints",
    ),
    (
        "daemon",
        "catalog console launch linux model observe policy_process poll_server record report sim",
    ),
    (
        "cli",
        "campaign card card_server catalog console daemon extend_forecast job launch linux measure \
          model observe pager policy_process recipe record report sim study workload",
    ),
    ("guest", "linux model pager procfs store"),
    ("vm", "card_server guest model sim"),
    ("qemu_clock", ""),
];

/// Maximum number of fields of a struct. A struct with more fields needs a comment with the word
/// "fields" that gives the reason.
const FIELDS_MAX: usize = 20;

/// The path of a module from the root of its crate, such as `["cache", "evict"]`.
type Module = Vec<String>;

/// A crate of the workspace, with the syntax tree of each of its modules.
struct Crate {
    name: String,
    modules: BTreeMap<Module, syn::File>,
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let source = folder.join("src");
        let module = |path: &Path| -> Option<Module> {
            let path = path.strip_prefix(&source).ok()?.with_extension("");
            let mut parts: Module =
                path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if ["lib", "main"].contains(&parts.last()?.as_str()) {
                parts.pop();
            }
            (!parts.iter().any(|part| part == "tests" || part == "bin")).then_some(parts)
        };
        let parsed = files(&source, "rs").into_iter().filter_map(|path| {
            let module = module(&path)?;
            let file = syn::parse_file(&read(&path));
            Some((module, file.unwrap_or_else(|why| panic!("{}: {why}", path.display()))))
        });
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, modules: parsed.collect() }
    }

    fn all() -> Vec<Self> {
        let folders = root().join("crates").read_dir().expect("there are crates");
        let mut folders: Vec<_> =
            folders.map(|entry| entry.expect("the folder can be listed").path()).collect();
        folders.sort();
        let crates: Vec<_> = folders.iter().map(|folder| Self::read(folder)).collect();
        assert!(crates.len() > 5, "the crates were not found");
        crates
    }

    /// Returns the modules of this crate that `module` imports or names. Leaves out `module` and
    /// its ancestors.
    fn imports(&self, module: &Module) -> BTreeSet<&Module> {
        let mut paths = Paths { here: module.clone(), found: BTreeSet::new() };
        paths.visit_file(&self.modules[module]);
        let of_file = |path: &Module| {
            (0..=path.len()).rev().find_map(|length| self.modules.get_key_value(&path[..length]))
        };
        let found = paths.found.iter().filter_map(of_file).map(|(module, _)| module);
        found.filter(|other| !module.starts_with(other)).collect()
    }

    /// Returns the cycles of imports. A cycle is a list of modules in which each module imports all
    /// others, directly or through other modules.
    fn circles(&self) -> Vec<Vec<String>> {
        let imports: BTreeMap<&Module, BTreeSet<&Module>> =
            self.modules.keys().map(|module| (module, self.imports(module))).collect();
        let reach = |from: &Module| {
            let mut reached = BTreeSet::new();
            let mut next: Vec<&Module> = imports[from].iter().copied().collect();
            while let Some(module) = next.pop() {
                if reached.insert(module) {
                    next.extend(&imports[module]);
                }
            }
            reached
        };
        let reached: BTreeMap<_, _> =
            imports.keys().map(|module| (*module, reach(module))).collect();
        let circle = |module: &&Module| -> BTreeSet<&Module> {
            let others = reached[*module].iter().copied();
            others.filter(|other| reached[*other].contains(*module)).collect()
        };
        let circles: BTreeSet<_> =
            reached.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
        let name = |module: &&Module| format!("{}::{}", self.name, module.join("::"));
        circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    /// Returns the types that the crate declares outside of tests, each with its module.
    fn types(&self) -> Vec<Declared> {
        let mut all = vec![];
        for (module, file) in &self.modules {
            let mut types = Types { found: vec![] };
            types.visit_file(file);
            let place = module.join("::");
            all.extend(types.found.into_iter().map(|it| Declared { module: place.clone(), ..it }));
        }
        all
    }
}

/// A type: its name, its module, the number of its named fields, and whether it has a reason for
/// more than [`FIELDS_MAX`] fields.
struct Declared {
    name: String,
    module: String,
    fields: usize,
    is_explained: bool,
}

/// Collects the modules of the crate that paths in one file name. The file is the module `here`.
struct Paths {
    here: Module,
    found: BTreeSet<Module>,
}

impl Paths {
    fn add(&mut self, path: &[String]) {
        let mut base = match path.first().map(String::as_str) {
            Some("crate") => vec![],
            Some("self") => self.here.clone(),
            Some("super") => self.here.split_last().map_or(vec![], |(_, rest)| rest.to_vec()),
            // The first name of the path is a child module, or another name in scope. Prefixes that
            // are not modules are dropped later.
            Some(_) => {
                let mut child = self.here.clone();
                child.push(path[0].clone());
                child
            }
            None => return,
        };
        for part in path.iter().skip(1) {
            match part.as_str() {
                "super" => drop(base.pop()),
                "self" => {}
                _ => base.push(part.clone()),
            }
        }
        self.found.insert(base);
    }

    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(it) => self.add_tree(&it.tree, &with(it.ident.to_string())),
            UseTree::Name(it) => self.add(&with(it.ident.to_string())),
            UseTree::Rename(it) => self.add(&with(it.ident.to_string())),
            UseTree::Glob(_) => self.add(before),
            UseTree::Group(it) => it.items.iter().for_each(|tree| self.add_tree(tree, before)),
        }
    }
}

/// True if an item with these attributes is compiled only for tests (`#[cfg(test)]`).
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg")
            && it.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if parts.len() > 1 && ["crate", "super"].contains(&parts[0].as_str()) {
            self.add(&parts);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, _: &'ast Macro) {}
}

struct Types {
    found: Vec<Declared>,
}

impl Types {
    fn add(&mut self, name: String, fields: usize, attributes: &[Attribute]) {
        let has_reason = |it: &&Attribute| match &it.meta {
            syn::Meta::NameValue(pair) => match &pair.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => text.value().contains("fields"),
                    _ => false,
                },
                _ => false,
            },
            _ => false,
        };
        // A struct of clap has a field for each option of its verb, so it may have more than
        // [`FIELDS_MAX`] fields.
        let is_explained =
            attributes.iter().any(|it| it.path().is_ident("command") || has_reason(&it));
        self.found.push(Declared { name, module: String::new(), fields, is_explained });
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(it) if is_test(&it.attrs) => {}
            Item::Struct(ItemStruct { ident, fields, attrs, .. }) => {
                let named = if let Fields::Named(named) = fields { named.named.len() } else { 0 };
                self.add(ident.to_string(), named, attrs);
            }
            Item::Enum(ItemEnum { ident, attrs, .. }) => self.add(ident.to_string(), 0, attrs),
            Item::Trait(it) => self.add(it.ident.to_string(), 0, &it.attrs),
            other => visit::visit_item(self, other),
        }
    }
}

#[test]
fn no_circles_of_imports() {
    let circles: Vec<_> = Crate::all().iter().flat_map(Crate::circles).collect();
    let text = circles.iter().map(|circle| circle.join(", ")).collect::<Vec<_>>();
    assert!(circles.is_empty(), "{} circles of imports:\n{}\n", circles.len(), text.join("\n"));
}

#[test]
fn a_type_name_means_one_thing_in_a_crate() {
    let mut twins = vec![];
    for library in Crate::all() {
        let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for declared in library.types() {
            modules.entry(declared.name).or_default().push(declared.module);
        }
        let more = modules.into_iter().filter(|(_, modules)| modules.len() > 1);
        twins.extend(more.map(|(name, at)| (format!("{}: {name}", library.name), at.join(", "))));
    }
    let twins: Vec<_> = twins.iter().map(|(name, at)| format!("{name}: {at}")).collect();
    assert!(twins.is_empty(), "{} names of several types:\n{}\n", twins.len(), twins.join("\n"));
}

#[test]
fn structs_have_few_fields() {
    let mut wide = vec![];
    for library in Crate::all() {
        let is_wide = |it: &Declared| it.fields > FIELDS_MAX && !it.is_explained;
        let found = library.types().into_iter().filter(is_wide);
        wide.extend(found.map(|it| {
            format!("{}::{}::{} has {} fields", library.name, it.module, it.name, it.fields)
        }));
    }
    assert!(wide.is_empty(), "\n{}\n", wide.join("\n"));
}

#[test]
fn crates_are_small() {
    let mut large = vec![];
    for library in Crate::all() {
        let source = root().join("crates").join(&library.name).join("src");
        let lines: usize = files(&source, "rs").iter().map(|path| read(path).lines().count()).sum();
        let own = OWN_LINES_MAX.iter().find(|(name, _)| *name == library.name);
        let limit = own.map_or(CRATE_LINES_MAX, |(_, limit)| *limit);
        if lines > limit {
            large.push(format!("{} has {lines} lines, at most {limit}", library.name));
        }
    }
    assert!(large.is_empty(), "\n{}\n", large.join("\n"));
}

#[test]
fn dependencies_point_one_way() {
    let mut wrong = vec![];
    for name in Crate::all().into_iter().map(|it| it.name) {
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let manifest: toml::Table =
            read(&manifest).parse().unwrap_or_else(|why| panic!("{name}: {why}"));
        let layer = LAYERS.iter().find(|(layer, _)| *layer == name);
        let (_, allowed) = layer.unwrap_or_else(|| panic!("LAYERS has no line for {name}"));
        let found = manifest.get("dependencies").and_then(toml::Value::as_table);
        for (package, entry) in found.into_iter().flatten() {
            let has_path = entry.as_table().is_some_and(|entry| entry.contains_key("path"));
            let own = match package.strip_prefix("interleaf") {
                Some("") => "cli",
                Some(rest) => &rest[1..],
                None if has_path => package,
                None => continue,
            };
            if has_path || !allowed.split_whitespace().any(|it| it == own.replace('-', "_")) {
                wrong.push(format!("{name} depends on {package}: its layers are: {allowed}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
