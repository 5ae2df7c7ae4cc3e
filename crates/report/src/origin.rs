//! Describes the origin of a document, the command and the machine, for the foot of its page.
//! Documents have no date.

use interleaf_model::format::shell_text;
use interleaf_record::{Document, measure::MeasuredMachine};

/// Returns the known parts of the origin, as pairs of a name and a text.
pub(crate) fn facts(document: &Document) -> Vec<(&'static str, String)> {
    let mut facts = vec![];
    let command = command(document);
    if !command.is_empty() {
        facts.push(("command", command));
    }
    facts.extend(machine(document).map(|machine| ("machine", machine)));
    facts
}

/// Returns the command whose run the document describes, or the command that repeats the document's
/// simulation; empty if the document has neither.
fn command(document: &Document) -> String {
    match document {
        Document::Profile(document) => shell_text::command(&document.app.command),
        Document::Run(document) => shell_text::command(&document.command),
        Document::Tune(document) => shell_text::command(&document.command),
        Document::Extend(document) => shell_text::command(&document.command),
        Document::ExtendPlan(document) => shell_text::command(&document.command),
        Document::Dimm(document) => document.command.clone(),
        Document::CompareRuns(document) => {
            let mut commands: Vec<String> = document
                .workloads
                .iter()
                .map(|workload| shell_text::command(&workload.command))
                .collect();
            commands.retain(|command| !command.is_empty());
            commands.join("; ")
        }
        _ => String::new(),
    }
}

/// Returns the machine on which the document was measured, or the name of the tool that measured
/// it.
fn machine(document: &Document) -> Option<String> {
    let measured = |machine: &MeasuredMachine| {
        let cpus = Some(machine.cpus).filter(|cpus| *cpus > 0);
        joined(machine.cpu.as_deref(), cpus, machine.kernel.as_deref())
    };
    match document {
        Document::Measure(document) => {
            measured(&document.machine).or_else(|| document.source.clone())
        }
        Document::Profile(document) => measured(&document.machine),
        Document::CompareRuns(document) => measured(&document.machine),
        Document::Bench(document) => {
            let machine = &document.machine;
            joined(Some(&machine.cpu), Some(machine.cpus as usize), Some(&machine.kernel))
        }
        Document::ShowMachine(document) => {
            joined(document.cpu.as_deref(), None, document.kernel.as_deref())
        }
        Document::Doctor(document) => joined(None, None, document.kernel.as_deref()),
        _ => None,
    }
}

/// Formats the known properties of a machine in one line.
fn joined(cpu: Option<&str>, cpus: Option<usize>, kernel: Option<&str>) -> Option<String> {
    let parts = [
        cpu.map(String::from),
        cpus.map(|cpus| format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })),
        kernel.map(|kernel| format!("Linux {kernel}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_properties_of_a_machine_are_joined() {
        let text = joined(Some("Xeon 6"), Some(128), Some("6.18"));
        assert_eq!(text.as_deref(), Some("Xeon 6, 128 CPUs, Linux 6.18"));
        assert_eq!(joined(None, Some(1), None).as_deref(), Some("1 CPU"));
        assert_eq!(joined(None, None, None), None);
    }
}
