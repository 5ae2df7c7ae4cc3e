//! The name that a user may have meant: verbs, options and values of options.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use interleaf_model::format::names::suggestion;

/// True for a tip of the parser that [`nearest`] replaces: a similar name or a list of all.
pub(super) fn is_about_names(tip: &str) -> bool {
    tip.contains("similar") || tip.starts_with("[possible values")
}

/// The known name that is nearest to a wrong verb, option or value, and where all are listed.
pub(super) fn nearest(error: &clap::Error, verb: &str) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let command = command_of(verb);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text(ContextKind::InvalidSubcommand)?;
            let known = command.get_subcommands().map(|it| it.get_name().to_string());
            let known: Vec<String> = known.collect();
            let names = known.join(", ");
            Some(format!("{}write one of {names}", suggestion(&wrong, &known)))
        }
        ErrorKind::UnknownArgument => {
            let wrong = text(ContextKind::InvalidArg)?;
            let known = command.get_arguments().filter_map(|it| it.get_long());
            let known: Vec<String> = known.map(|name| format!("--{name}")).collect();
            let near = suggestion(&wrong, &known);
            (!near.is_empty()).then(|| format!("{near}`{verb} --help` lists the options"))
        }
        ErrorKind::InvalidValue => {
            let wrong = text(ContextKind::InvalidValue)?;
            let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue) else {
                return None;
            };
            let near = suggestion(&wrong, known);
            Some(format!("{near}write one of {}", known.join(", ")))
        }
        _ => None,
    }
}

/// The definition of a verb or subcommand, such as `interleaf simulate card`.
fn command_of(verb: &str) -> clap::Command {
    let mut found = super::command();
    // Building passes global options on to the subcommands.
    found.build();
    for word in verb.split(' ').skip(1) {
        let Some(known) = found.find_subcommand(word).cloned() else { break };
        found = known;
    }
    found
}
