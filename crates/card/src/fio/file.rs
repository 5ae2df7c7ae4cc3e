//! Reads job files of fio, which have sections of `option=value` lines.
//!
//! ```text
//! [global]          ; for all jobs below
//! bs=4k
//! direct=1
//!
//! [reader]          ; a job; its name is free
//! rw=randread
//! iodepth=32
//!
//! [writer]          ; runs together with the reader
//! rw=randwrite
//!
//! [later]           ; runs when reader and writer have ended
//! stonewall
//! rw=read
//! ```
//!
//! A line that begins with `;` or `#` is a comment. The options of a section `[global]` hold for
//! the jobs that follow it, as in fio. Of these options, a job with one direction ignores
//! `rwmixread`, and a sequential job ignores `norandommap`.

use super::{FioOptions, Job, MODELLED, OptionError, WITHOUT_EFFECT, value};
use interleaf_model::format::FileError;
use std::collections::BTreeMap;

/// Name of a section whose options hold for all jobs that follow it.
const GLOBAL: &str = "global";

/// Maximum number of job sections of a file.
const SECTIONS_MAX: usize = 256;

/// An error of a job. The error is in a line of the job file, or in an option of the command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// An error in a line of the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An error of an option that the command line sets.
    #[error(transparent)]
    CommandLine(OptionError),
}

struct Section {
    name: String,
    line: usize,
    options: FioOptions,
    /// For each option, the number of the line of the job file that sets it. Errors that are found
    /// after all lines are read name this line.
    lines: BTreeMap<String, usize>,
    stonewall: bool,
}

/// Reads the text of the job file `file`. Returns the groups of jobs in the order of the file; the
/// jobs of a group run together. `over` contains the options of the command line, which replace the
/// same options of every job. `check` refuses jobs that a card cannot run together.
///
/// # Errors
/// When a section header is malformed, a line is in no section, the file has no job or too many, an
/// option is not modelled or has an invalid value, or `check` refuses a group of jobs. The error
/// names the line, or the option of the command line that replaced the option of the file.
pub fn parse(
    file: &str,
    text: &str,
    over: &FioOptions,
    check: &dyn Fn(&[Job]) -> Result<(), OptionError>,
) -> Result<Vec<Vec<Job>>, JobError> {
    let sections = sections(file, text)?;
    let mut groups: Vec<Vec<Job>> = vec![];
    for section in &sections {
        let wrong = |why: OptionError| {
            // A job file cannot set an option that is not in `MODELLED`, such as `fsync`, so the
            // command line has set the option.
            if over.sets(why.option) || !MODELLED.contains(&why.option) {
                let problem = format!("{} (job {} of {file})", why.problem, section.name);
                return JobError::CommandLine(OptionError { problem, ..why });
            }
            let line = section.lines.get(why.option).copied().unwrap_or(section.line);
            error(file, line, Some(why.option), why.problem, why.hint).into()
        };
        let is_inherited = |option: &str| {
            let line = section.lines.get(option).filter(|_| !over.sets(option));
            line.is_some_and(|line| *line < section.line)
        };
        let options = section.options.with(over).without_ignored(is_inherited);
        let job = options.job(&section.name).map_err(wrong)?;
        if section.stonewall || groups.is_empty() {
            groups.push(vec![]);
        }
        if let Some(group) = groups.last_mut() {
            group.push(job);
            check(group).map_err(wrong)?;
        }
    }
    if groups.is_empty() {
        let hint = "add a section such as [job] with rw=randread";
        return Err(error(file, last_line(text), None, "it has no job".into(), hint.into()).into());
    }
    Ok(groups)
}

/// Returns the job sections of a file, each with the options of the `[global]` sections before it.
fn sections(file: &str, text: &str) -> Result<Vec<Section>, FileError> {
    let mut global = Section::new("", 0, None);
    let mut sections: Vec<Section> = vec![];
    let mut in_global = false;
    for (at, line) in text.lines().enumerate() {
        let (at, line) = (at + 1, line.trim());
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if line.starts_with('[') {
            let name = header(file, at, line)?;
            in_global = name == GLOBAL;
            if !in_global {
                sections.push(Section::new(name, at, Some(&global)));
            }
            if sections.len() > SECTIONS_MAX {
                let problem = format!("it has more than {SECTIONS_MAX} jobs");
                return Err(error(file, at, None, problem, "write several files".into()));
            }
            continue;
        }
        let section = match sections.last_mut() {
            _ if in_global => &mut global,
            Some(section) => section,
            None => {
                let hint = "write [global] or [NAME] above it";
                let problem = format!("\"{line}\" is in no section");
                return Err(error(file, at, None, problem, hint.into()));
            }
        };
        section.option(file, at, line)?;
    }
    Ok(sections)
}

/// Returns the name in `line`, a section header `[name]`. An error names the line number `at`.
fn header<'a>(file: &str, at: usize, line: &'a str) -> Result<&'a str, FileError> {
    let name = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::trim);
    name.filter(|name| !name.is_empty() && !name.contains(['[', ']'])).ok_or_else(|| {
        let problem = format!("{line} is not a header of a section");
        error(file, at, None, problem, "write one such as [job]".into())
    })
}

impl Section {
    fn new(name: &str, line: usize, global: Option<&Self>) -> Self {
        Self {
            name: name.into(),
            line,
            options: global.map(|global| global.options.clone()).unwrap_or_default(),
            lines: global.map(|global| global.lines.clone()).unwrap_or_default(),
            stonewall: global.is_some_and(|global| global.stonewall),
        }
    }

    /// Reads a line `option=value` or `option`. `at` is the number of the line, for errors.
    fn option(&mut self, file: &str, at: usize, line: &str) -> Result<(), FileError> {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let (name, value) = (name.trim(), value.trim());
        // Errors that are found after all lines are read name an option and its aliases by one
        // name, such as "rwmixread" for "rwmixwrite". This name is the key in `lines`.
        let word = match name {
            "rwmixwrite" => "rwmixread",
            "blocksize" => "bs",
            "readwrite" => "rw",
            _ => name,
        };
        self.lines.insert(word.into(), at);
        let wrong = |why: value::ValueError| {
            error(file, at, Some(name), why.problem, format!("write {}", why.allowed))
        };
        if name == "stonewall" || name == "wait_for_previous" {
            self.stonewall = value::flag(value).map_err(wrong)?;
            return Ok(());
        }
        let known = self.options.set(name, value).map_err(wrong)?;
        if known || WITHOUT_EFFECT.iter().any(|(known, _)| *known == name) {
            return Ok(());
        }
        Err(error(file, at, Some(name), "the option is not modelled".into(), advice(name)))
    }
}

/// Returns the hint for an unknown option: the most similar option, or all if none is similar.
fn advice(name: &str) -> String {
    let without_effect = WITHOUT_EFFECT.iter().map(|(name, _)| *name);
    let known: Vec<&str> = MODELLED.into_iter().chain(without_effect).collect();
    let close = known.iter().map(|known| (strsim::jaro(name, known), *known));
    let best = close.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(score, _)| *score > 0.8);
    match best {
        Some((_, known)) => format!("is {known} meant? Otherwise leave the option out"),
        None => format!("leave it out; the options are {}", known.join(", ")),
    }
}

fn last_line(text: &str) -> usize {
    text.lines().count().max(1)
}

fn error(file: &str, line: usize, field: Option<&str>, problem: String, hint: String) -> FileError {
    let field = field.map(String::from);
    FileError { file: file.into(), line: Some(line), field, problem, hint }
}
