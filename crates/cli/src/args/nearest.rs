//! Suggestions for misspelled verbs, options and values of options.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use interleaf_model::{format::names::suggestion, policy::PolicyKind};

/// True for a tip of clap that [`nearest`] replaces: a similar name, or the list of all values.
pub(super) fn is_about_names(tip: &str) -> bool {
    tip.contains("similar") || tip.starts_with("[possible values")
}

/// True for the tip of clap that says to write an unknown option after `--`, as a value. This tip
/// is not printed: the verb may take no further value, and an option is misspelled more often than
/// a value begins with `-`.
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
            option_of(&command, &wrong)
                .or_else(|| nearest_option(&command, &wrong, verb))
                .or_else(|| placement_of(&wrong, verb))
        }
        ErrorKind::InvalidValue => {
            let wrong = text(ContextKind::InvalidValue)?;
            let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
                return None;
            };
            let is_static = verb == "interleaf run" && wrong == PolicyKind::Static.to_string();
            let near = match is_static {
                true => "fixed weights are --weights 65:35; ".into(),
                false => suggestion(&wrong, known),
            };
            (!known.is_empty()).then(|| format!("{near}write one of {}", known.join(", ")))
        }
        _ => None,
    }
}

/// The subcommands of `command` that have an option with the name `long`.
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

pub(super) fn subcommands(verb: &str) -> Vec<String> {
    command_of(verb).get_subcommands().map(|it| it.get_name().to_string()).collect()
}

/// The hint for a built-in name, such as that of a platform, that is given without the option for
/// such names. The hint names this option.
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

/// The hint if `--weights` or `--policy`, which are options of `run`, is given to `measure app`.
fn placement_of(wrong: &str, verb: &str) -> Option<String> {
    let is_placement =
        verb == "interleaf measure app" && ["--weights", "--policy"].contains(&wrong);
    is_placement.then(|| {
        format!(
            "`{verb} --help` lists the options; a placement is `interleaf run`'s, which can be \
             the command"
        )
    })
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
