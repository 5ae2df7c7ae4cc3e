//! Formats the verdict of `interleaf doctor`: the uses of the tool that work on a machine, and the
//! first step to make the other uses work.

use crate::screen::{Meaning, painted};
use interleaf_record::show_machine::{CapabilityDocument, CapabilityStatus, DoctorDocument};

struct Use {
    name: &'static str,
    /// Names of the capabilities that the use requires.
    needs: &'static [&'static str],
    /// Names of the capabilities that improve the use, by decreasing gain.
    improved_by: &'static [&'static str],
}

/// The uses of the tool, those with the largest gain first. `docs/doctor.md` describes the purpose
/// of each capability.
const USES: [Use; 5] = [
    Use {
        name: "static weights (run, tune)",
        needs: &["several memory nodes"],
        improved_by: &["weighted interleaving", "setting weights", "no other mover of pages"],
    },
    Use {
        name: "weights that follow the load (balance)",
        needs: &["several memory nodes", "moving pages", "bandwidth counters"],
        improved_by: &["no other mover of pages", "DAMON", "DAMON destinations"],
    },
    Use {
        name: "memory over a drive (extend)",
        needs: &["userfaultfd"],
        improved_by: &["io_uring"],
    },
    Use {
        name: "counted traffic of a program (measure app works without it)",
        needs: &["bandwidth counters"],
        improved_by: &["power readings"],
    },
    Use {
        name: "predictions, simulations and measurements (predict, simulate, measure)",
        needs: &[],
        improved_by: &["rated bandwidths"],
    },
];

/// Returns the number of uses that work on the machine, in one line.
pub(super) fn summary(document: &DoctorDocument) -> String {
    let count = USES.iter().filter(|it| lacking(document, it.needs).is_empty()).count();
    let rivals = of_status(document, CapabilityStatus::Rival).count();
    let rivals = match rivals {
        0 => "",
        1 => ", and another program or setting works against it",
        _ => ", and other programs or settings work against it",
    };
    format!("{count} of {} uses of interleaf work on this machine{rivals}", USES.len())
}

/// Renders the verdict as text: for each use, whether it works; then the first step for the user,
/// and the names of the further steps.
pub(super) fn text(document: &DoctorDocument) -> String {
    let line = |(meaning, line): (Option<Meaning>, String)| match meaning {
        Some(meaning) => painted(meaning, &format!("{line}\n")),
        None => format!("{line}\n"),
    };
    lines(document).into_iter().map(line).collect()
}

/// Returns the lines of [`text`], each with the meaning that gives the line its colour.
pub(super) fn lines(document: &DoctorDocument) -> Vec<(Option<Meaning>, String)> {
    let mut lines = vec![];
    for it in &USES {
        let lacking = lacking(document, it.needs);
        lines.push(match lacking.is_empty() {
            true => (Some(Meaning::Good), format!("works: {}", it.name)),
            false => {
                let names: Vec<&str> = lacking.iter().map(|it| it.name.as_str()).collect();
                let lacks = format!("does not work: {}, for lack of {}", it.name, names.join(", "));
                (Some(Meaning::Bad), lacks)
            }
        });
    }
    let steps = steps(document);
    let Some((first, rest)) = steps.split_first() else {
        lines.push((None, "nothing is to be done".into()));
        return lines;
    };
    lines.push((None, format!("do first: {}", described(first))));
    if !rest.is_empty() {
        let names: Vec<&str> = rest.iter().map(|(it, _)| it.name.as_str()).collect();
        lines.push((None, format!("then, each gaining less: {}", names.join(", "))));
    }
    lines
}

/// Returns the capabilities that the machine lacks, each with the first use that would gain from
/// the capability. Capabilities that a use needs come first, then those that improve a working use.
fn steps(document: &DoctorDocument) -> Vec<(&CapabilityDocument, &'static str)> {
    let needed = USES.iter().map(|it| (it, it.needs));
    let works = |it: &&Use| lacking(document, it.needs).is_empty();
    let improving = USES.iter().filter(works).map(|it| (it, it.improved_by));
    let mut steps: Vec<(&CapabilityDocument, &'static str)> = vec![];
    for (it, names) in needed.chain(improving) {
        for capability in lacking(document, names) {
            if steps.iter().all(|(known, _)| known.name != capability.name) {
                steps.push((capability, it.name));
            }
        }
    }
    steps
}

fn described((capability, of): &(&CapabilityDocument, &str)) -> String {
    let remedy = capability.remedy.as_deref().unwrap_or(&capability.what);
    format!("{}, for {of}: {remedy}", capability.name)
}

/// Returns the capabilities among `names` whose status is missing or rival. Leaves out a capability
/// of unknown status.
fn lacking<'a>(document: &'a DoctorDocument, names: &[&str]) -> Vec<&'a CapabilityDocument> {
    let is_lacking = |it: &&CapabilityDocument| {
        [CapabilityStatus::Missing, CapabilityStatus::Rival].contains(&it.status)
    };
    let named = |name: &&str| document.capabilities.iter().find(|it| it.name == **name);
    names.iter().filter_map(named).filter(is_lacking).collect()
}

fn of_status(
    document: &DoctorDocument,
    status: CapabilityStatus,
) -> impl Iterator<Item = &CapabilityDocument> {
    document.capabilities.iter().filter(move |it| it.status == status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(lacks: &[(&str, CapabilityStatus)]) -> DoctorDocument {
        let names = USES.iter().flat_map(|it| it.needs.iter().chain(it.improved_by));
        let capability = |name: &&str| {
            let lack = lacks.iter().find(|(lack, _)| lack == name);
            CapabilityDocument {
                name: name.to_string(),
                status: lack.map_or(CapabilityStatus::Present, |(_, status)| *status),
                what: "why".into(),
                remedy: lack.map(|(name, _)| format!("remedy of {name}")),
            }
        };
        let schema = "interleaf.doctor/1".into();
        DoctorDocument { schema, kernel: None, capabilities: names.map(capability).collect() }
    }

    #[test]
    fn what_gains_most_is_first() {
        use CapabilityStatus::{Missing, Rival, Unknown};
        let lacks = [
            ("power readings", Missing),
            ("bandwidth counters", Missing),
            ("no other mover of pages", Rival),
            ("DAMON", Unknown),
        ];
        let document = document(&lacks);
        let text = text(&document);
        let ends = "do first: bandwidth counters, for weights that follow the load (balance): \
                    remedy of bandwidth counters\n\
                    then, each gaining less: no other mover of pages\n";
        assert!(text.ends_with(ends), "{text}");
        assert!(text.contains("works: static weights"), "{text}");
        let summary = summary(&document);
        assert!(summary.starts_with("3 of 5") && summary.contains("against it"), "{summary}");
    }

    #[test]
    fn a_machine_with_everything_needs_nothing() {
        let document = document(&[]);
        assert!(text(&document).ends_with("nothing is to be done\n"));
        assert_eq!(summary(&document), "5 of 5 uses of interleaf work on this machine");
    }
}
