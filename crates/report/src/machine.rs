//! A machine (`interleaf show`) and its capabilities (`interleaf doctor`) as text.

mod verdict;

use super::{
    number,
    screen::{self, Meaning, painted},
    table::Table,
};
use interleaf_model::units::Bytes;
use interleaf_record::machine::{CapabilityStatus, DoctorDocument, MachineDocument};

/// The document as text for a terminal.
pub fn text(document: &MachineDocument) -> String {
    let unknown = || "unknown".to_string();
    let cpu = document.cpu.clone().unwrap_or_else(unknown);
    let kernel = document.kernel.clone().unwrap_or_else(unknown);
    let sockets: Vec<String> = document
        .sockets
        .iter()
        .map(|socket| format!("socket {} has CPUs {}", socket.socket, socket.cpus))
        .collect();
    let mut text = format!("{cpu}, Linux {kernel}\n{}\n\n{}", sockets.join("; "), nodes(document));
    text += "\n";
    let on = |on: bool| if on { "on" } else { "off" };
    let switches = [
        ("automatic weights", document.automatic_weights.map(|auto| on(auto).to_string())),
        ("numa_balancing", document.numa_balancing.map(|value| value.to_string())),
        ("demotion", document.demotion.map(|demotion| on(demotion).to_string())),
        ("transparent huge pages", document.transparent_huge_pages.clone()),
    ];
    let switches: Vec<String> = switches
        .into_iter()
        .map(|(name, value)| format!("{name}: {}", value.unwrap_or_else(|| "none".into())))
        .collect();
    text + &format!("{}\n{}", switches.join("; "), huge_pages(document))
}

/// A line for each node and page size with reserved huge pages.
fn huge_pages(document: &MachineDocument) -> String {
    let mut text = String::new();
    for node in &document.nodes {
        for pages in &node.huge_pages {
            let size = Bytes::new(pages.page_bytes);
            text += &format!(
                "node {}: {} huge pages of {size} are reserved, {} of them free\n",
                node.node, pages.reserved, pages.free
            );
        }
    }
    text
}

fn nodes(document: &MachineDocument) -> String {
    let mut table = Table::new(&[
        "node",
        "CPUs",
        "capacity",
        "free",
        "read GB/s",
        "write GB/s",
        "read ns",
        "near",
        "tier",
        "weight",
    ]);
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    for node in &document.nodes {
        table.row([
            node.node.to_string(),
            if node.cpus.is_empty() { "-".into() } else { node.cpus.clone() },
            Bytes::new(node.capacity_bytes).to_string(),
            Bytes::new(node.free_bytes).to_string(),
            optional(node.read_gbps.map(number)),
            optional(node.write_gbps.map(number)),
            optional(node.read_latency_ns.map(|ns| ns.to_string())),
            node.near.clone(),
            optional(node.memory_tier.map(|tier| tier.to_string())),
            optional(node.weight.map(|weight| weight.to_string())),
        ]);
    }
    table.text()
}

/// The column behind the names of capabilities.
const NAME_END: usize = 36;

/// The text in lines that end before `width`, from the second on behind `indent` blanks.
fn indented(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_string() };
    let room = width.saturating_sub(indent).max(20);
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split(' ') {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > room {
            lines += &format!("\n{:indent$}", "");
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += more;
    }
    lines
}

/// The capabilities of a machine as text for a terminal.
pub fn doctor(document: &DoctorDocument) -> String {
    let width = screen::current().width;
    let mut text = painted(Meaning::Answer, &verdict::summary(document)) + "\n\n";
    for capability in &document.capabilities {
        let (mark, meaning) = match capability.status {
            CapabilityStatus::Present => ("yes", Meaning::Good),
            CapabilityStatus::Missing => ("no", Meaning::Bad),
            CapabilityStatus::Unknown => ("?", Meaning::Doubtful),
            CapabilityStatus::Rival => ("CONFLICT", Meaning::Bad),
        };
        let mark = painted(meaning, &format!("{mark:<10}"));
        let what = indented(&capability.what, NAME_END, width);
        text += &format!("{mark}{:<26}{what}\n", capability.name);
        if let Some(hint) = &capability.remedy {
            text += &format!("{:NAME_END$}{}\n", "", indented(hint, NAME_END, width));
        }
    }
    format!("{text}\n{}", verdict::text(document))
}
