//! Renders as text, pages and CSV the documents of `interleaf show` (a machine: processor, nodes,
//! kernel settings) and of `interleaf doctor` (the capabilities of a machine).

mod verdict;

use super::{
    number,
    page::{Page, counted},
    screen::{Meaning, painted},
    table::Table,
};
use interleaf_model::units::Bytes;
use interleaf_record::show_machine::{CapabilityStatus, DoctorDocument, MachineDocument};

/// Renders the document as text for a terminal.
pub fn text(document: &MachineDocument) -> String {
    let huge_pages: String = huge_pages(document).into_iter().map(|line| line + "\n").collect();
    format!(
        "{}\n{}\n\n{}\n{}\n{huge_pages}",
        system(document),
        sockets(document),
        nodes(document).text(),
        switches(document)
    )
}

fn system(document: &MachineDocument) -> String {
    let unknown = || "unknown".to_string();
    let cpu = document.cpu.clone().unwrap_or_else(unknown);
    let kernel = document.kernel.clone().unwrap_or_else(unknown);
    format!("{cpu}, Linux {kernel}")
}

fn sockets(document: &MachineDocument) -> String {
    let sockets: Vec<String> = document
        .sockets
        .iter()
        .map(|socket| format!("socket {} has CPUs {}", socket.socket, socket.cpus))
        .collect();
    sockets.join("; ")
}

/// Formats the kernel settings that affect placement, in one line.
fn switches(document: &MachineDocument) -> String {
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
    switches.join("; ")
}

/// Returns a line for each node and size of huge pages that has reserved pages.
fn huge_pages(document: &MachineDocument) -> Vec<String> {
    let of_node = document.nodes.iter().flat_map(|node| {
        node.huge_pages.iter().map(move |pages| {
            let size = Bytes::new(pages.page_bytes);
            format!(
                "node {}: {} huge pages of {size} are reserved, {} of them free",
                node.node, pages.reserved, pages.free
            )
        })
    });
    of_node.collect()
}

fn nodes(document: &MachineDocument) -> Table {
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
    table
}

/// Renders the machine as a page of a report.
pub fn page(document: &MachineDocument) -> Page {
    let capacity = document.nodes.iter().map(|node| node.capacity_bytes);
    let capacity = Bytes::new(capacity.fold(0, u64::saturating_add));
    let count = counted(document.nodes.len(), "NUMA node");
    let facts = [sockets(document), switches(document)].into_iter().chain(huge_pages(document));
    let facts = facts.filter(|fact| !fact.is_empty()).collect();
    let answer = format!("{count} with {capacity} in all");
    Page { title: system(document), answer, facts, ..Page::default() }
        .with_table("Nodes, the fastest first", nodes(document))
}

/// Renders the machine as CSV, with a row for each node.
pub fn csv(document: &MachineDocument) -> String {
    let mut table = Table::new(&[
        "node",
        "cpus",
        "capacity_bytes",
        "free_bytes",
        "read_gbps",
        "write_gbps",
        "read_latency_ns",
        "near",
        "memory_tier",
        "weight",
    ]);
    let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for node in &document.nodes {
        table.row([
            node.node.to_string(),
            node.cpus.clone(),
            node.capacity_bytes.to_string(),
            node.free_bytes.to_string(),
            text(node.read_gbps),
            text(node.write_gbps),
            node.read_latency_ns.map_or(String::new(), |it| it.to_string()),
            node.near.clone(),
            node.memory_tier.map_or(String::new(), |it| it.to_string()),
            node.weight.map_or(String::new(), |it| it.to_string()),
        ]);
    }
    table.csv()
}

/// Renders the capabilities of a machine as a page of a report.
pub fn doctor_page(document: &DoctorDocument) -> Page {
    let kernel = document.kernel.as_deref().unwrap_or("an unknown version");
    let facts = verdict::lines(document).into_iter().map(|(_, line)| line).collect();
    let title = format!("Capabilities of a machine with Linux {kernel}");
    Page { title, answer: verdict::summary(document), facts, ..Page::default() }
        .with_table("Capabilities", capabilities(document))
}

fn capabilities(document: &DoctorDocument) -> Table {
    let mut table = Table::new(&["capability", "there", "how, or why not", "remedy"]);
    for capability in &document.capabilities {
        table.row([
            capability.name.clone(),
            mark(capability.status).0.into(),
            capability.what.clone(),
            capability.remedy.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// Renders the capabilities of a machine as CSV, with a row for each capability.
pub fn doctor_csv(document: &DoctorDocument) -> String {
    let mut table = Table::new(&["capability", "status", "what", "remedy"]);
    for capability in &document.capabilities {
        table.row([
            capability.name.clone(),
            capability.status.to_string(),
            capability.what.clone(),
            capability.remedy.clone().unwrap_or_default(),
        ]);
    }
    table.csv()
}

/// Returns the word that is printed for a status, and the meaning that gives the word its colour.
fn mark(status: CapabilityStatus) -> (&'static str, Meaning) {
    match status {
        CapabilityStatus::Present => ("yes", Meaning::Good),
        CapabilityStatus::Missing => ("no", Meaning::Bad),
        CapabilityStatus::Unknown => ("?", Meaning::Doubtful),
        CapabilityStatus::Rival => ("CONFLICT", Meaning::Bad),
    }
}

/// The column at which the text of a capability begins, after the capability's mark and name.
const NAME_END: usize = 36;

/// Renders the capabilities of a machine as text for a terminal.
pub fn doctor(document: &DoctorDocument) -> String {
    let mut text = painted(Meaning::Answer, &verdict::summary(document)) + "\n\n";
    for capability in &document.capabilities {
        let (mark, meaning) = mark(capability.status);
        let mark = painted(meaning, &format!("{mark:<10}"));
        text += &format!("{mark}{:<26}{}\n", capability.name, capability.what);
        if let Some(hint) = &capability.remedy {
            text += &format!("{:NAME_END$}{}\n", "", hint);
        }
    }
    format!("{text}\n{}", verdict::text(document))
}
