//! Suggestions for misspelled verbs, options and values of options.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use interleaf_console::Failure;
use interleaf_model::format::names::suggestion;
use std::ffi::OsString;

/// True for a tip of clap that [`nearest`] replaces: a similar name, or the list of all values.
pub(super) fn is_about_names(tip: &str) -> bool {
    tip.contains("similar") || tip.starts_with("[possible values")
}

/// True for the tip of clap to write an unknown option behind `--`, as a value. The tip is left
/// out: the verb may take no further value, and an option is misspelled more often than a value
/// begins with `-`.
pub(super) fn is_about_values(tip: &str) -> bool {
    tip.contains("as a value, use")
}

/// The hint for a wrong verb, option or value: the most similar known name, and the known names or
/// the command that lists them.
pub(super) fn nearest(error: &clap::Error, verb: &str) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let command = command_of(verb);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text(ContextKind::InvalidSubcommand)?;
            let known = subcommands(verb);
            let names = known.join(", ");
            let owners = owners(&command, &wrong);
            let option = match owners.is_empty() {
                true => suggestion(&wrong, &known),
                false => format!("--{wrong} is an option of {}; ", owners.join(" and of ")),
            };
            (!known.is_empty()).then(|| format!("{option}write one of {names}"))
        }
        ErrorKind::UnknownArgument => {
            let wrong = text(ContextKind::InvalidArg)?;
            option_of(&command, &wrong).or_else(|| nearest_option(&command, &wrong, verb))
        }
        ErrorKind::InvalidValue => {
            let wrong = text(ContextKind::InvalidValue)?;
            let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
                return None;
            };
            let near = suggestion(&wrong, known);
            (!known.is_empty()).then(|| format!("{near}write one of {}", known.join(", ")))
        }
        _ => None,
    }
}

/// The error for a misspelled option before the command of a verb. Without this check, clap would
/// take the misspelled option for the command.
pub(super) fn misspelled_option(arguments: &[OsString], verb: &str) -> Option<Failure> {
    let command = command_of(verb);
    command.get_arguments().find(|argument| argument.is_trailing_var_arg_set())?;
    let mut words = arguments.iter().skip(verb.split(' ').count());
    while let Some(word) = words.next() {
        let word = word.to_str().filter(|word| word.starts_with('-') && *word != "--")?;
        let name = word.split('=').next().unwrap_or(word);
        let is_named = |argument: &&clap::Arg| {
            argument.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long))
                || argument.get_short().is_some_and(|short| name == format!("-{short}"))
        };
        match command.get_arguments().find(is_named) {
            Some(known) if known.get_action().takes_values() && name == word => {
                words.next();
            }
            Some(_) => {}
            None => {
                let hint = nearest_option(&command, name, verb)?;
                return Some(Failure::new(format!("unexpected argument '{name}' found"), hint));
            }
        }
    }
    None
}

/// The commands below `command` that have the option `--long`.
fn owners(command: &clap::Command, long: &str) -> Vec<String> {
    let is_own =
        |argument: &clap::Arg| argument.get_long() == Some(long) && !argument.is_global_set();
    let all = command.get_subcommands().flat_map(|below| {
        let own = below
            .get_arguments()
            .any(is_own)
            .then(|| format!("`{}`", below.get_bin_name().unwrap_or(below.get_name())));
        own.into_iter().chain(owners(below, long))
    });
    all.collect()
}

/// The names of the subcommands of a verb.
pub(super) fn subcommands(verb: &str) -> Vec<String> {
    command_of(verb).get_subcommands().map(|it| it.get_name().to_string()).collect()
}

/// The hint for a built-in name that was given as an argument without its option: the option that
/// takes this name.
fn option_of(command: &clap::Command, name: &str) -> Option<String> {
    let lists = [
        ("platform", interleaf_catalog::platform_names()),
        ("workload", interleaf_catalog::workload_names()),
        ("demand", interleaf_catalog::workload_names()),
        ("scenario", interleaf_catalog::scenario_names()),
    ];
    let has = |option: &str| command.get_arguments().any(|it| it.get_long() == Some(option));
    let (option, _) = lists
        .iter()
        .find(|(option, known)| has(option) && known.iter().any(|known| known == name))?;
    Some(format!("write --{option} {name}"))
}

fn nearest_option(command: &clap::Command, wrong: &str, verb: &str) -> Option<String> {
    let known = command.get_arguments().filter_map(clap::Arg::get_long);
    let known: Vec<String> = known.map(|name| format!("--{name}")).collect();
    let near = suggestion(wrong, &known);
    (!near.is_empty()).then(|| format!("{near}`{verb} --help` lists the options"))
}

/// The definition of a verb or subcommand, such as `interleaf simulate card`.
fn command_of(verb: &str) -> clap::Command {
    let mut found = super::command();
    // `build` passes global options on to the subcommands.
    found.build();
    for word in verb.split(' ').skip(1) {
        let Some(known) = found.find_subcommand(word).cloned() else { break };
        found = known;
    }
    found
}
