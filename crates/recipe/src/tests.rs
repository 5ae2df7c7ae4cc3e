#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use proptest::prelude::*;

const MINIMAL: &str = r#"schema = "interleaf.recipe/1"
name = "sum"
does = "adds"
command = ["{python}", "sum.py", "{n}", "{threads}"]
bytes_per_item = 8.0
result = 'seconds ([0-9.]+)'
result_unit = "s"
better = "lower"
check = 'sum ([0-9]+)'

[[file]]
name = "sum.py"
text = "print(1)"
"#;

fn failure(text: &str) -> String {
    Recipe::parse("own.toml", text).unwrap_err().to_string()
}

#[test]
fn the_built_in_recipes_are_complete() {
    let recipes = built_in().unwrap();
    assert!(recipes.len() >= 14, "{}", recipes.len());
    for recipe in recipes {
        let name = recipe.name();
        assert!(recipe.has_environment() || !recipe.packages.is_empty(), "{name}");
        assert!(recipe.has_environment() || !recipe.programs.is_empty(), "{name}");
        // Each file of the recipe must be used: its name must be in a command, or in the text of a
        // file such as a script.
        let words: Vec<_> = recipe.command.iter().chain(recipe.prepare.iter().flatten()).collect();
        let texts: Vec<_> = recipe.files.iter().map(|file| &file.text).collect();
        for file in &recipe.files {
            let is_named = |text: &&String| text.contains(file.name());
            assert!(words.iter().any(is_named) || texts.iter().any(is_named), "{}", file.name());
        }
        // The recipe must list the modules of the system's Python that its files import, so that a
        // missing module is found before a run.
        let imports = texts.iter().flat_map(|text| text.lines());
        let imports = imports.filter_map(|line| line.strip_prefix("import "));
        for module in imports.flat_map(|modules| modules.split(", ")) {
            let module = module.split(' ').next().unwrap_or_default();
            let is_standard = ["hashlib", "math", "sys", "time"].contains(&module);
            let is_named = recipe.modules.iter().any(|it| it == module);
            assert!(recipe.has_environment() || is_standard || is_named, "{name}: {module}");
        }
        // The default footprint of `bench run`, 512 MiB, must be large enough for the application.
        assert!(recipe.items(512 << 20).is_ok(), "{name}");
    }
}

#[test]
fn the_placeholders_are_filled() {
    let recipe = Recipe::parse("own.toml", MINIMAL).unwrap();
    let commands = recipe.commands(recipe.items(800).unwrap(), 3, SYSTEM_PYTHON);
    assert_eq!(commands.command, ["/usr/bin/python3", "sum.py", "100", "3"]);
    assert!(commands.environment.contains(&("OMP_NUM_THREADS".into(), "3".into())));
}

#[test]
fn the_last_result_counts_and_what_is_missing_is_named() {
    let recipe = Recipe::parse("own.toml", MINIMAL).unwrap();
    let outcome = recipe.outcome("seconds 1.5\nsum 4\nseconds 2.5\n").unwrap();
    assert_eq!((outcome.value, outcome.checksum.as_str()), (2.5, "4"));
    assert!(!outcome.is_verified);
    for (output, missing) in [
        ("", "no result"),
        ("seconds 1.5", "no checksum"),
        ("seconds . sum 4", "the result \".\" is not a number"),
    ] {
        let why = recipe.outcome(output).unwrap_err().to_string();
        assert!(why.contains(missing), "{why}");
    }
}

#[test]
fn a_run_that_did_not_verify_its_result_is_an_error() {
    let text = MINIMAL.replace("check =", "verified = 'is right'\ncheck =");
    let recipe = Recipe::parse("own.toml", &text).unwrap();
    assert!(recipe.outcome("seconds 1 sum 4 is right").unwrap().is_verified);
    let why = recipe.outcome("seconds 1 sum 4 is wrong").unwrap_err().to_string();
    assert!(why.contains("does not say that the result is right"), "{why}");
}

#[test]
fn an_invalid_field_is_named_with_its_value() {
    for (from, to, expected) in [
        ("recipe/1", "recipe/2", "own.toml:1: schema: \"interleaf.recipe/2\" is not"),
        ("name = \"sum\"", "name = \"../sum\"", "own.toml:2: name: \"../sum\" is not a plain name"),
        ("name = \"sum.py\"", "name = \"/etc/sum\"", "own.toml:12: file[0].name: \"/etc/sum\""),
        ("8.0", "-8.0", "own.toml:5: bytes_per_item: -8 is not between"),
        ("\"{n}\", ", "", "own.toml:4: command: it has no {n}"),
        ("{threads}", "{cores}", "command: \"{cores}\" has a placeholder that is none of {n}"),
        (
            "[[file]]",
            "[environment]\nTHREADS = \"{cores}\"\n[[file]]",
            "own.toml:12: environment.THREADS: \"{cores}\" has a placeholder that is none of {n}",
        ),
        (
            "bytes_per_item",
            "prepare = [[\"cc\", \"{file}\"]]\nbytes_per_item",
            "own.toml:5: prepare[0]: \"{file}\" has a placeholder that is none of {n}",
        ),
        (
            "[[file]]",
            "[[figure]]\nname = \"\"\nunit = \"s\"\npattern = 'x (.)'\n[[file]]",
            "own.toml:12: figure[0].name: it is empty",
        ),
        ("seconds (", "seconds ((", "own.toml:6: result: 'seconds (("),
        ("([0-9]+)'", "[0-9]+'", "own.toml:9: check: 'sum [0-9]+' has no group"),
        ("\"lower\"", "\"less\"", "own.toml:8: better: unknown variant `less`"),
        ("does =", "doess =", "own.toml:3: doess: unknown field `doess`"),
    ] {
        let why = failure(&MINIMAL.replacen(from, to, 1));
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn two_files_of_one_name_are_refused() {
    let why = failure(&format!("{MINIMAL}[[file]]\nname = \"sum.py\"\ntext = \"print(2)\"\n"));
    let expected = "own.toml:15: file.name: two files have the name \"sum.py\"; the other is in \
                    own.toml:12: file.name";
    assert!(why.starts_with(expected), "{why}");
}

#[test]
fn a_footprint_that_is_too_small_names_the_least() {
    let log2 = MINIMAL
        .replace("bytes_per_item = 8.0", "bytes_per_item = 16.0\nscale = \"log2\"\nleast = 20");
    let recipe = Recipe::parse("own.toml", &log2).unwrap();
    assert_eq!(recipe.items(1 << 29).unwrap(), 25.0);
    let why = recipe.items(1 << 20).unwrap_err().to_string();
    assert!(why.contains("--footprint 16MiB"), "{why}");
    assert_eq!(recipe.items(16 << 20).unwrap(), 20.0);
}

#[test]
fn a_folder_is_read_and_two_of_one_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(in_folder(folder.path()).unwrap_err().to_string().contains("it has no recipe"));
    fs::write(folder.path().join("a.toml"), MINIMAL).unwrap();
    let found = find("sum", Some(folder.path())).unwrap().unwrap();
    assert_eq!(found.does, "adds");
    assert!(find(folder.path().join("a.toml").to_str().unwrap(), None).unwrap().is_some());
    fs::write(folder.path().join("b.toml"), MINIMAL).unwrap();
    let why = in_folder(folder.path()).unwrap_err().to_string();
    let (first, second) = (folder.path().join("a.toml"), folder.path().join("b.toml"));
    let expected = format!(
        "{}:2: name: \"sum\" is also the name of a recipe in {}:2: name",
        second.display(),
        first.display()
    );
    assert!(why.starts_with(&expected), "{why}");
}

proptest! {
    #[test]
    fn a_mutated_recipe_is_refused_or_works(at in 0_usize..MINIMAL.len(), with in any::<char>()) {
        let mut text: Vec<char> = MINIMAL.chars().collect();
        text[at] = with;
        if let Ok(recipe) = Recipe::parse("own.toml", &text.iter().collect::<String>()) {
            let items = recipe.items(1 << 30);
            prop_assert!(items.is_err() || items.is_ok_and(|it| it >= 1.0 && it.is_finite()));
            let outcome = recipe.outcome("seconds 2.5 sum 4");
            prop_assert!(outcome.is_err() || outcome.is_ok_and(|it| it.value.is_finite()));
        }
    }
}
