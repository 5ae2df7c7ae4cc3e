//! The text of a configuration of `interleaf compare`: `weights=3:1,threads=4`.

use super::{threads, weights};
use interleaf_launch::compare::{Configuration, HugePages, MemoryChoice};
use interleaf_model::{format::names::suggestion, policy::PolicyKind};
use std::path::PathBuf;

/// The name of the configuration that changes nothing.
const PLAIN: &str = "plain";

/// The prefix of a key that sets an environment variable of the command.
const VARIABLE: &str = "env:";

/// The default of `store=`, the folder of the store, in a configuration with `dram=`.
const STORE: &str = "/var/tmp";

/// The keys that a configuration may have.
const KEYS: [&str; 10] = [
    "name",
    "weights",
    "nodes",
    "policy",
    "dram",
    "store",
    "threads",
    "huge-pages",
    "env:NAME",
    "wrapper",
];

/// Parses a configuration: `plain`, or a list of settings `key=value`, separated by commas. A value
/// may have commas too: in `nodes=0,2`, the part `2` without `=` belongs to the value of `nodes`.
pub(super) fn configuration(text: &str) -> Result<Configuration, String> {
    let mut found = Parts::default();
    let (is_plain, list) = match text.split_once(',') {
        _ if text == PLAIN => return found.configuration(text),
        Some((PLAIN, list)) => (true, list),
        _ => (false, text),
    };
    for (key, value) in settings(list)? {
        if is_plain && key != "name" {
            return Err(format!(
                "{key} beside plain, which has no setting but name: leave out one"
            ));
        }
        found.set(key, &value)?;
    }
    found.configuration(text)
}

/// Splits the text of a configuration into keys and values.
fn settings(text: &str) -> Result<Vec<(&str, String)>, String> {
    let mut settings: Vec<(&str, String)> = vec![];
    for part in text.split(',') {
        match (part.split_once('='), settings.last_mut()) {
            // In `dram=node0=4GiB,node1=4GiB`, the budget of each node belongs to the value of
            // `dram`.
            (Some((key, _)), Some(("dram", value)))
                if key.starts_with("node") && key != "nodes" =>
            {
                *value += &format!(",{part}");
            }
            (Some((key, value)), _) => {
                let key = key.trim();
                if settings.iter().any(|(known, _)| *known == key) {
                    return Err(format!("{key} is given twice: write it once"));
                }
                settings.push((key, value.to_string()));
            }
            (None, Some((_, value))) => *value += &format!(",{part}"),
            (None, None) if part == PLAIN => {
                return Err(format!("{PLAIN} is given twice: write it once"));
            }
            (None, None) => {
                let known = [&KEYS[..], &[PLAIN]].concat();
                return Err(format!(
                    "\"{part}\" is not a setting: {}write plain, or settings such as \
                     weights=3:1,threads=4 or env:NAME=VALUE",
                    suggestion(part, &known)
                ));
            }
        }
    }
    Ok(settings)
}

/// The settings of a configuration that were parsed so far.
#[derive(Default)]
struct Parts {
    configuration: Configuration,
    /// The given keys that choose the placement of pages. Two of them are an error.
    placements: Vec<&'static str>,
    nodes: Option<String>,
    store: Option<PathBuf>,
}

impl Parts {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if value.trim().is_empty() && !key.starts_with(VARIABLE) {
            return Err(format!("{key} has no value: write {key}=VALUE"));
        }
        let named = |why: String| format!("{key}: {why}");
        let configuration = &mut self.configuration;
        // The key of an option of `extend` may begin with the name of this verb.
        match key.strip_prefix("extend ").unwrap_or(key) {
            "name" => configuration.name = Some(value.trim().into()),
            "weights" => {
                let weights = weights(value).map_err(named)?;
                configuration.memory = MemoryChoice::Weights { weights, nodes: None };
                self.placements.push("weights");
            }
            "nodes" => self.nodes = Some(value.into()),
            "policy" => {
                configuration.memory = MemoryChoice::Policy(policy(value).map_err(named)?);
                self.placements.push("policy");
            }
            "dram" => {
                let dram = value.parse().map_err(named)?;
                configuration.memory = MemoryChoice::Extended { dram, store: STORE.into() };
                self.placements.push("dram");
            }
            "store" => self.store = Some(value.into()),
            "threads" => configuration.threads = Some(threads(value).map_err(named)?),
            "huge-pages" => configuration.huge_pages = Some(huge_pages(value).map_err(named)?),
            "wrapper" => {
                configuration.wrapper = value.split_whitespace().map(Into::into).collect();
            }
            "platform" => {
                return Err(format!(
                    "a run on {value} cannot be measured here: write the demand of the command \
                     with `measure app --demand mine.toml`, then `predict --platform {value} \
                     --demand mine.toml`"
                ));
            }
            other => match other.strip_prefix(VARIABLE).filter(|name| !name.is_empty()) {
                Some(name) => configuration.variables.push((name.into(), value.into())),
                None => {
                    return Err(format!(
                        "\"{other}\" is not a key of a configuration: {}write one of {}",
                        suggestion(other, &KEYS),
                        KEYS.join(", ")
                    ));
                }
            },
        }
        Ok(())
    }

    /// Returns the configuration. Fails if two of its settings exclude each other.
    fn configuration(mut self, text: &str) -> Result<Configuration, String> {
        if let [first, second, ..] = self.placements[..] {
            return Err(format!("{first} and {second} both place the pages: write one of them"));
        }
        match (&mut self.configuration.memory, self.nodes, self.store) {
            (MemoryChoice::Weights { nodes, .. }, given, None) => *nodes = given,
            (MemoryChoice::Extended { store, .. }, None, Some(given)) => *store = given,
            (_, None, None) => {}
            (_, Some(_), _) => {
                return Err("nodes go with weights: write weights=3:1,nodes=0,2".into());
            }
            (_, None, Some(_)) => {
                return Err("store goes with dram: write dram=1GiB,store=/var/tmp".into());
            }
        }
        Ok(Configuration { setting: text.into(), ..self.configuration })
    }
}

fn policy(text: &str) -> Result<String, String> {
    let names: Vec<&str> = PolicyKind::of_commands().map(|(_, name, _)| *name).collect();
    match names.contains(&text) {
        true => Ok(text.into()),
        false if text == PolicyKind::Static.to_string() => {
            Err("static needs weights: write weights=65:35 in place of policy=static".into())
        }
        false => Err(format!(
            "\"{text}\" is not a policy: {}write one of {}",
            suggestion(text, &names),
            names.join(", ")
        )),
    }
}

fn huge_pages(text: &str) -> Result<HugePages, String> {
    match text {
        "always" => Ok(HugePages::Always),
        "never" => Ok(HugePages::Never),
        _ => Err(format!("\"{text}\" is not a setting of huge pages: write always or never")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn configurations_are_read() {
        assert_eq!(configuration("plain,name=same").unwrap().name.as_deref(), Some("same"));
        assert!(configuration("plain,threads=2").unwrap_err().contains("threads beside plain"));
        let plain = configuration("plain").unwrap();
        assert_eq!((plain.setting.as_str(), plain.memory), ("plain", MemoryChoice::Unchanged));
        let found = configuration("name=spread,weights=3:1,nodes=0,2,threads=4,env:A=b,c").unwrap();
        assert_eq!((found.name.as_deref(), found.threads), (Some("spread"), Some(4)));
        assert_eq!(found.variables, [("A".to_string(), "b,c".to_string())]);
        let MemoryChoice::Weights { weights, nodes } = found.memory else { panic!("weights") };
        assert_eq!((weights.to_string().as_str(), nodes.as_deref()), ("3:1", Some("0,2")));
        let found = configuration("extend dram=1GiB,wrapper=taskset -c 0,1").unwrap();
        assert_eq!(found.wrapper, ["taskset", "-c", "0,1"]);
        assert!(matches!(found.memory, MemoryChoice::Extended { .. }));
        let found = configuration("dram=node0=8MiB,node1=4MiB,store=/s").unwrap();
        let MemoryChoice::Extended { dram, .. } = found.memory else { panic!("dram") };
        assert_eq!(dram.to_string(), "node0=8388608B,node1=4194304B");
        assert!(configuration("dram=50%").is_ok());
        assert!(configuration("dram=101%").unwrap_err().contains("from 1% to 100%"));
        assert!(configuration("policy=static").unwrap_err().contains("write weights=65:35"));
        assert_eq!(configuration("huge-pages=never").unwrap().huge_pages, Some(HugePages::Never));
    }
}
