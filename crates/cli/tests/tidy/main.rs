//! Tests that the source tree obeys the rules of the project.
//!
//! A rule is a function that finds the faults in a text. Each rule has a test with a text that
//! breaks the rule.

mod book;
mod structure;

use std::{
    fs,
    path::{Path, PathBuf},
};

const LINE_COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 700;

/// Macros that no source file may use. Programs print with the module `output`, and unfinished code
/// is not committed.
const FORBIDDEN_MACROS: [&str; 6] =
    ["dbg", "todo", "unimplemented", "println", "eprintln", "print"];

/// Modules of `std` that a pure crate must not use.
const IMPURE_MODULES: [&str; 7] = ["fs", "io", "net", "env", "time", "process", "thread"];

/// The pure crates: they use no file, clock, environment variable or thread.
const PURE: [&str; 4] = ["card", "model", "prefetch", "sim"];

/// Files and folders that may have unsafe code. A name without an extension is a folder.
const UNSAFE: [&str; 34] = [
    "benches/faults.rs",
    "crates/capi/src/lib.rs",
    "crates/guest/src/drive/ioctl.rs",
    "crates/linux/src/syscall.rs",
    "crates/measure/src/clock.rs",
    "crates/measure/src/histogram/stamp.rs",
    "crates/measure/src/kernel",
    "crates/measure/src/region.rs",
    "crates/measure/src/ring.rs",
    "crates/measure/src/context_switches.rs",
    "crates/observe/src/syscall.rs",
    "crates/pager/src/session/ledger.rs",
    "crates/pager/src/serve/fork.rs",
    "crates/pager/src/kernel/frames.rs",
    "crates/pager/src/kernel/memory.rs",
    "crates/pager/src/kernel/relocate.rs",
    "crates/pager/src/pager.rs",
    "crates/pager/src/shared/client.rs",
    "crates/pager/src/kernel/sigbus.rs",
    "crates/pager/src/serve/transfers.rs",
    "crates/pager/src/kernel/uffd.rs",
    "crates/pager/src/serve/context.rs",
    "crates/pager/src/serve/fault_server.rs",
    "crates/pager/src/serve/wake_sources.rs",
    "crates/pager/tests/handler.rs",
    "crates/preload/src",
    "crates/procfs/src/pagemap.rs",
    "crates/procfs/src/swap.rs",
    "crates/qemu_clock/src/lib.rs",
    "crates/qemu_clock/src/qemu.rs",
    "crates/store/src",
    "crates/swap_hints/src/scan.rs",
    "crates/thread/src",
    "crates/workload/src/memory.rs",
];

/// Methods of floating-point numbers whose last bits differ between platforms. Pure crates call
/// `libm` instead. `sqrt` is allowed: every platform rounds it correctly.
const PLATFORM_MATH: [&str; 24] = [
    "ln", "ln_1p", "log", "log2", "log10", "exp", "exp2", "exp_m1", "powf", "powi", "cbrt",
    "hypot", "sin", "cos", "tan", "sin_cos", "asin", "acos", "atan", "atan2", "sinh", "cosh",
    "tanh", "asinh",
];

/// A place where a text breaks a rule: the line, counted from 1, and the problem with its remedy.
#[derive(Debug, PartialEq)]
struct Fault {
    line: usize,
    problem: String,
}

fn fault(line: usize, problem: impl Into<String>) -> Fault {
    Fault { line, problem: problem.into() }
}

// --- Reading Rust -------------------------------------------------------------------------------

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces comments, strings and character literals by blanks. All other characters keep their
/// positions.
fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = at + blank_length(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            let end = end.min(chars.len());
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Returns the length of the comment, string or character literal that begins at `at`, or 0 if none
/// does.
fn blank_length(chars: &[char], at: usize) -> usize {
    let next = |ahead: usize| chars.get(at + ahead).copied().unwrap_or('\0');
    match (chars[at], next(1)) {
        ('/', '/') => chars[at..].iter().take_while(|c| **c != '\n').count(),
        ('/', '*') => comment_length(&chars[at..]),
        ('"', _) => string_length(&chars[at..], '"'),
        ('\'', '\\') => string_length(&chars[at..], '\''),
        ('\'', _) if next(2) == '\'' => 3,
        ('r', _) if at == 0 || !is_word(chars[at - 1]) || chars[at - 1] == 'b' => {
            raw_string_length(&chars[at..])
        }
        _ => 0,
    }
}

fn comment_length(chars: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_length(chars: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string_length(chars: &[char]) -> usize {
    let hashes = chars[1..].iter().take_while(|c| **c == '#').count();
    if chars.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.extend(vec!['#'; hashes]);
    let body = 2 + hashes;
    let ends = chars[body..].windows(end.len()).position(|window| window == end);
    ends.map_or(chars.len(), |at| body + at + end.len())
}

/// Returns the line, counted from 1, of the byte offset `at`.
fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Returns the byte offsets at which `word` occurs in `code` as a whole word.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !code[..*at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
    })
}

/// Returns the offset after the brace that closes the brace at the offset `open`.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    code.len()
}

/// Replaces each item that is marked `#[cfg(test)]` by blanks.
fn without_tests(code: &str) -> String {
    let mut code = code.to_string();
    let mark = "#[cfg(test)]";
    while let Some(start) = code.find(mark) {
        let body = code[start..].find(['{', ';']).map_or(code.len(), |at| start + at);
        let end = if code[body..].starts_with('{') { closing(&code, body) } else { body };
        let blank = code[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &String::from_iter::<Vec<char>>(blank));
    }
    code
}

// --- The rules for Rust -------------------------------------------------------------------------

fn long_lines(text: &str) -> Vec<Fault> {
    let length = |(at, line): (usize, &str)| {
        let columns = line.chars().count();
        let problem = format!("{columns} columns, at most {LINE_COLUMNS_MAX}: break the line");
        (columns > LINE_COLUMNS_MAX).then(|| fault(at + 1, problem))
    };
    text.lines().enumerate().filter_map(length).collect()
}

fn long_file(text: &str) -> Vec<Fault> {
    let lines = text.lines().count();
    let problem = format!("{lines} lines, at most {FILE_LINES_MAX}: make it several modules");
    if lines > FILE_LINES_MAX { vec![fault(lines, problem)] } else { vec![] }
}

fn long_functions(text: &str) -> Vec<Fault> {
    let code = code_only(text);
    let mut faults = vec![];
    for at in words(&code, "fn") {
        // Skip a type such as `fn(u32)`: it has neither a name nor a body.
        let name: String =
            code[at + 2..].trim_start().chars().take_while(|c| is_word(*c)).collect();
        let Some(body) = code[at..].find(['{', ';']).map(|body| at + body) else { continue };
        if name.is_empty() || code[body..].starts_with(';') {
            continue;
        }
        let lines = line_of(&code, closing(&code, body)) - line_of(&code, at) + 1;
        if lines > FUNCTION_LINES_MAX {
            let problem = format!("fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}");
            faults.push(fault(line_of(&code, at), problem));
        }
    }
    faults
}

fn forbidden_macros(text: &str) -> Vec<Fault> {
    let code = without_tests(&code_only(text));
    let find = |name: &&str| {
        let called = |at: &usize| code[at + name.len()..].starts_with('!');
        let problem = format!("{name}! outside tests: write to the output that is passed down");
        let faults =
            words(&code, name).filter(called).map(|at| fault(line_of(&code, at), &problem));
        faults.collect::<Vec<_>>()
    };
    FORBIDDEN_MACROS.iter().flat_map(find).collect()
}

/// Returns the modules of `std` that `code` names in paths or in the lists of a `use`, as pairs of
/// (offset, module).
fn std_modules(code: &str) -> Vec<(usize, String)> {
    let mut modules = vec![];
    for at in words(code, "std") {
        let Some(rest) = code[at..].strip_prefix("std::") else { continue };
        let start = at + "std::".len();
        let first_word = |text: &str| -> String {
            text.trim_start().chars().take_while(|c| is_word(*c)).collect()
        };
        if !rest.starts_with('{') {
            modules.push((at, first_word(rest)));
            continue;
        }
        let end = closing(code, start);
        let mut depth = 0;
        for (offset, c) in code[start..end].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 1 && (c == ',' || offset == 0) {
                let item = &code[start + offset + 1..end];
                let space = item.len() - item.trim_start().len();
                modules.push((start + offset + 1 + space, first_word(item)));
            }
        }
    }
    modules
}

fn impure(text: &str) -> Vec<Fault> {
    let code = code_only(text);
    let module = |(at, name): (usize, String)| {
        let problem = format!("std::{name}: this crate is pure; whoever calls it does this");
        IMPURE_MODULES.contains(&name.as_str()).then(|| fault(line_of(&code, at), problem))
    };
    std_modules(&code).into_iter().filter_map(module).collect()
}

fn platform_math(text: &str) -> Vec<Fault> {
    let code = code_only(text);
    let find = |name: &&str| {
        let used = |at: &usize| {
            let (before, after) = (&code[..*at], &code[at + name.len()..]);
            let method = before.ends_with('.') && after.starts_with('(');
            method || before.ends_with("f64::") || before.ends_with("f32::")
        };
        let problem = format!("{name} is not the same on every platform: take the one of libm");
        let faults = words(&code, name).filter(used).map(|at| fault(line_of(&code, at), &problem));
        faults.collect::<Vec<_>>()
    };
    PLATFORM_MATH.iter().flat_map(find).collect()
}

fn allows_unsafe(text: &str) -> Vec<Fault> {
    let forbids = code_only(text).lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
    if forbids { vec![] } else { vec![fault(1, "no #![forbid(unsafe_code)]: add it")] }
}

fn unsafe_code(text: &str) -> Vec<Fault> {
    let code = code_only(text);
    let problem = format!("unsafe code: its places are {}", UNSAFE.join(", "));
    words(&code, "unsafe").map(|at| fault(line_of(&code, at), &problem)).collect()
}

/// True if `parent`, the text of a module, declares its child module `name` with any visibility.
fn declares(parent: &str, name: &str) -> bool {
    let code = code_only(parent);
    words(&code, "mod").any(|at| {
        let rest = code[at + 3..].trim_start();
        rest.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(';'))
    })
}

// --- The rules for other files ------------------------------------------------------------------

/// Returns the lines of a Markdown text that are outside of code blocks, each with its number.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = vec![];
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((at + 1, line));
        }
    }
    lines
}

/// Splits a line into its text outside of backticks, and the pieces of code in backticks.
fn split_code(line: &str) -> (String, Vec<&str>) {
    let parts: Vec<&str> = line.split('`').collect();
    let text = parts.iter().step_by(2).copied().collect::<Vec<_>>().join(" ");
    (text, parts.into_iter().skip(1).step_by(2).collect())
}

/// Returns the targets of the relative links in a Markdown text, each with its line number.
fn relative_links(text: &str) -> Vec<(usize, String)> {
    let mut links = vec![];
    for (at, line) in prose(text) {
        let (line, _) = split_code(line);
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let named = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
        for target in inline.chain(named.map(|(_, target)| target)) {
            let target = target.split_whitespace().next().unwrap_or("");
            let target = target.trim_matches(['<', '>']).split('#').next().unwrap_or("");
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !(target.is_empty() || elsewhere) {
                links.push((at, target.to_string()));
            }
        }
    }
    links
}

fn dead_links(text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Fault> {
    let dead = relative_links(text).into_iter().filter(|(_, target)| !exists(target));
    dead.map(|(at, target)| fault(at, format!("the link to {target} leads nowhere"))).collect()
}

/// Returns the paths of the source tree that a text names in backticks, each with its line number.
/// If a path has a wildcard, returns only the folder before the first wildcard.
fn named_paths(text: &str) -> Vec<(usize, String)> {
    let roots =
        ["crates/", "platforms/", "workloads/", "reproduce/", "docs/", "benches/", "tests/"];
    let mut paths = vec![];
    for (at, line) in prose(text) {
        for code in split_code(line).1 {
            if code.contains(' ') || !roots.iter().any(|root| code.starts_with(root)) {
                continue;
            }
            let plain = |part: &&str| !part.contains(['*', '{', '<', '…']);
            let path: Vec<&str> = code.split('/').take_while(plain).collect();
            paths.push((at, path.join("/")));
        }
    }
    paths
}

fn missing_paths(text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Fault> {
    let missing = named_paths(text).into_iter().filter(|(_, path)| !exists(path));
    missing.map(|(at, path)| fault(at, format!("there is no {path}: correct the text"))).collect()
}

// --- The source tree ----------------------------------------------------------------------------

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the root of the source tree exists")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the files below `folder` that have the given extension, sorted. Returns none if the
/// folder does not exist.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let mut found = vec![];
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn rust_files() -> Vec<PathBuf> {
    let root = root();
    let files: Vec<_> =
        ["crates", "benches"].iter().flat_map(|folder| files(&root.join(folder), "rs")).collect();
    assert!(files.len() > 20, "the source tree was not found at {}", root.display());
    files
}

/// Returns the source files of the crate `name`.
fn sources(name: &str) -> Vec<PathBuf> {
    let files = files(&root().join("crates").join(name).join("src"), "rs");
    assert!(!files.is_empty(), "crates/{name}/src was not found");
    files
}

fn markdown_files() -> Vec<PathBuf> {
    let root = root();
    let mut found: Vec<_> = ["docs", "platforms", "benches", "tests/machines"]
        .iter()
        .flat_map(|folder| files(&root.join(folder), "md"))
        .collect();
    let entries = fs::read_dir(&root).expect("the root can be listed");
    let top = entries.map(|entry| entry.expect("the root can be listed").path());
    found.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    found
}

/// Applies a rule to each of `files`. If there are faults, fails with a list of them all, one per
/// line, as `file:line: problem`.
fn hold(files: &[PathBuf], rule: &dyn Fn(&Path, &str) -> Vec<Fault>) {
    let root = root();
    let mut faults = vec![];
    for file in files {
        let short = file.strip_prefix(&root).unwrap_or(file).display();
        let found = match fs::read_to_string(file) {
            Ok(text) => rule(file, &text),
            Err(why) => vec![fault(1, why.to_string())],
        };
        faults
            .extend(found.iter().map(|fault| format!("{short}:{}: {}", fault.line, fault.problem)));
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn lines_functions_and_files_are_short() {
    hold(&rust_files(), &|_, text| {
        let mut faults = long_lines(text);
        faults.extend(long_functions(text));
        faults.extend(long_file(text));
        faults
    });
}

#[test]
fn no_code_is_unfinished_or_prints_without_output() {
    let of_tests = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "tests");
    let files: Vec<_> = rust_files().into_iter().filter(|path| !of_tests(path)).collect();
    hold(&files, &|_, text| forbidden_macros(text));
}

#[test]
fn pure_crates_are_pure_and_the_same_everywhere() {
    for name in PURE {
        hold(&sources(name), &|_, text| {
            let mut faults = impure(text);
            faults.extend(platform_math(text));
            faults
        });
    }
}

#[test]
fn libraries_forbid_unsafe_code() {
    let lib = |name: &str| root().join("crates").join(name).join("src/lib.rs");
    let safe =
        "campaign catalog cli console daemon launch model prefetch record report sim study vm";
    hold(&safe.split(' ').map(lib).collect::<Vec<_>>(), &|_, text| allows_unsafe(text));
    let all = rust_files();
    for place in UNSAFE {
        let here = all.iter().filter(|file| file.starts_with(root().join(place)));
        let has_unsafe = |file: &PathBuf| !unsafe_code(&read(file)).is_empty();
        assert!(here.into_iter().any(has_unsafe), "{place} needs no exception any more");
    }
    let is_other =
        |file: &PathBuf| !UNSAFE.iter().any(|place| file.starts_with(root().join(place)));
    let others: Vec<_> = all.into_iter().filter(is_other).collect();
    hold(&others, &|_, text| unsafe_code(text));
}

#[test]
fn links_lead_somewhere() {
    hold(&[root().join("README.md"), root().join("ARCHITECTURE.md")], &|_, text| {
        if text.trim().is_empty() { vec![fault(1, "empty: write it")] } else { vec![] }
    });
    hold(&markdown_files(), &|file, text| {
        let folder = file.parent().expect("a file is in a folder");
        dead_links(text, &|target| folder.join(target).exists())
    });
}

#[test]
fn the_architecture_names_existing_files() {
    let root = root();
    let file = root.join("ARCHITECTURE.md");
    hold(&[file], &|_, text| missing_paths(text, &|path| root.join(path).exists()));
}

#[test]
fn each_platform_has_its_curves() {
    let folder = root().join("platforms");
    let entries = fs::read_dir(&folder).expect("there are platforms");
    let paths = entries.map(|entry| entry.expect("the folder can be listed").path());
    let files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert!(!files.is_empty(), "{} has no platform", folder.display());
    hold(&files, &|_, text| {
        let named = text.lines().enumerate().filter_map(|(at, line)| {
            let path = line.strip_prefix("curves = \"")?.strip_suffix('"')?;
            (!folder.join(path).is_file()).then(|| fault(at + 1, format!("no file {path}")))
        });
        named.collect()
    });
}

/// Returns the top-level folder of the source tree that has an included file. `literal` is the path
/// in an `include_str!` or `include_dir!` of the file `source`. Returns `None` for a file below
/// `crates/`, and for a file that does not exist.
fn contained(source: &Path, literal: &str) -> Option<String> {
    let path = match literal.strip_prefix("$CARGO_MANIFEST_DIR/") {
        Some(of_crate) => {
            source.ancestors().find(|it| it.join("Cargo.toml").exists())?.join(of_crate)
        }
        None => source.parent()?.join(literal),
    };
    let path = path.canonicalize().ok()?;
    let folder = path.strip_prefix(root().canonicalize().ok()?).ok()?.iter().next()?.to_str()?;
    (folder != "crates").then(|| folder.to_string())
}

#[test]
fn the_source_distribution_has_all_that_the_code_contains() {
    let project = read(&root().join("pyproject.toml"));
    let of_crates = rust_files().into_iter().filter(|file| file.iter().any(|part| part == "src"));
    hold(&of_crates.collect::<Vec<_>>(), &|source, text| {
        let calls = ["include_dir!(", "include_str!("].map(|call| text.match_indices(call));
        let mut faults = vec![];
        for (at, call) in calls.into_iter().flatten() {
            let Some(literal) = text[at + call.len()..].split('"').nth(1) else { continue };
            let Some(folder) = contained(source, literal) else { continue };
            if !project.contains(&format!("path = \"{folder}/**/*\", format = \"sdist\"")) {
                faults
                    .push(fault(line_of(text, at), format!("pyproject.toml leaves out {folder}")));
            }
        }
        faults
    });
}

#[test]
fn each_module_is_declared() {
    for member in fs::read_dir(root().join("crates")).expect("there are crates") {
        let source = member.expect("the folder can be listed").path().join("src");
        let is_root = |path: &PathBuf| {
            let of_program = path.parent() == Some(&source.join("bin"));
            of_program || ["lib.rs", "main.rs"].iter().any(|root| *path == source.join(root))
        };
        let modules: Vec<_> =
            files(&source, "rs").into_iter().filter(|path| !is_root(path)).collect();
        hold(&modules, &|file, _| {
            let name = file.file_stem().expect("a file has a name").to_string_lossy();
            let folder = file.parent().expect("a file is in a folder");
            let parents = if folder == source {
                vec![source.join("lib.rs"), source.join("main.rs")]
            } else {
                vec![folder.with_extension("rs")]
            };
            let mut parents = parents.iter().filter(|path| path.exists());
            let problem = format!("no parent has \"mod {name};\", so it is not compiled");
            if parents.any(|parent| declares(&read(parent), &name)) {
                vec![]
            } else {
                vec![fault(1, problem)]
            }
        });
    }
}

// --- Tests of the rules --------------------------------------------------------------------------

fn lines(faults: &[Fault]) -> Vec<usize> {
    faults.iter().map(|fault| fault.line).collect()
}

#[test]
fn only_code_is_left() {
    let table = [
        ("a // b\nc", "a     \nc"),
        ("a /* /* b */ \n */ c", "a            \n    c"),
        ("f(\"x \\\" y\") z", "f(        ) z"),
        ("f(r#\"x \" y\"#) z", "f(          ) z"),
        ("f(br\"x\\\") z", "f(b     ) z"),
        ("f('\"', '\\'', b'{') z", "f(   ,     , b   ) z"),
        ("<'a> r#fn 'b: loop", "<'a> r#fn 'b: loop"),
    ];
    for (text, code) in table {
        assert_eq!(code_only(text), code, "{text}");
    }
}

#[test]
fn lengths_are_counted() {
    assert_eq!(lines(&long_lines(&format!("\n{}\n{}", "é".repeat(100), "x".repeat(101)))), [3]);
    assert_eq!(lines(&long_file(&"\n".repeat(700))), []);
    assert_eq!(lines(&long_file(&"\n".repeat(701))), [701]);
    let function = |lines: usize| format!("x\nfn f(g: fn(u8)) {{{}}}", "// }\n".repeat(lines - 1));
    assert_eq!(lines(&long_functions(&function(80))), []);
    assert_eq!(lines(&long_functions(&function(81))), [2]);
    assert_eq!(lines(&long_functions(&format!("fn f();{}", "\n".repeat(99)))), []);
}

#[test]
fn macros_are_found() {
    for name in FORBIDDEN_MACROS {
        assert_eq!(lines(&forbidden_macros(&format!("\n{name}!(1)"))), [2], "{name}");
    }
    let fine =
        "writeln!(f); // dbg!(x)\n#[cfg(test)]\nmod t { fn f() { todo!() } }\nlet print = 1;";
    assert_eq!(forbidden_macros(fine), []);
    let behind = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod t { }\ntodo!()";
    assert_eq!(lines(&forbidden_macros(behind)), [5]);
}

#[test]
fn impurity_is_found() {
    for name in IMPURE_MODULES {
        assert_eq!(lines(&impure(&format!("\nuse std::{name};"))), [2], "{name}");
        let listed = format!("use std::{{fmt::{{self, Write}},\n {name}::x}};");
        assert_eq!(lines(&impure(&listed)), [2], "{name}");
    }
    assert_eq!(impure("use std::{fmt::{self, io}, str}; // std::fs\nuse crate::time;"), []);
    for name in PLATFORM_MATH {
        assert_eq!(lines(&platform_math(&format!("\nx.{name}(y)"))), [2], "{name}");
        assert_eq!(lines(&platform_math(&format!("\n.map(f64::{name})"))), [2], "{name}");
    }
    assert_eq!(platform_math("libm::exp(x.sqrt()) + x.exp + log(2) // .ln()"), []);
    assert_eq!(lines(&allows_unsafe("//! #![forbid(unsafe_code)]\n#![deny(unsafe_code)]")), [1]);
    assert_eq!(allows_unsafe("#![forbid(unsafe_code)]"), []);
    assert_eq!(lines(&unsafe_code("// unsafe\n#![deny(unsafe_code)]\nunsafe { f() }")), [3]);
}

#[test]
fn modules_are_seen() {
    assert!(declares("pub(crate) mod a;", "a"));
    for parent in ["// mod a;", "mod ab;", "mod a { }", "mod b;", "\"mod a;\""] {
        assert!(!declares(parent, "a"), "{parent}");
    }
}

#[test]
fn links_and_paths_are_found() {
    let exists = |path: &str| ["there.md", "crates/a.rs", "docs"].contains(&path);
    let text = "[a](there.md#b) [b](https://x.y/z) [c](#d) `[e](f)`\n```\n[g](h)\n```\n[i](j 'k')\n\
                [l]: m.md\n[n]: there.md\n![o](<p.png>)";
    assert_eq!(lines(&dead_links(text, &exists)), [5, 6, 8]);
    let text = "`crates/a.rs` crates/b.rs `x/y` `docs/*.md`\n`crates/c.rs`\n`benches/{a,b}.rs`";
    assert_eq!(lines(&missing_paths(text, &exists)), [2, 3]);
}
