//! Checks that `bound_by` names the bottleneck: the throughput rises if the named component is
//! simulated without its limit.

use super::*;
use crate::load::Bound;

/// Asserts that `component` is the bottleneck of `group`: the throughput rises without the limit of
/// `component`, and stays the same without the limit of any single component in `others`.
fn bound(card: &Card, group: &Group, component: Component, others: &[Component]) {
    let of = |settings: &Settings| run(card, settings, group.clone(), 8000);
    let base = of(&Settings::default());
    assert_eq!(base.bound_by, Bound::Component(component), "{:?}", base.utilisation);
    let without = of(&ideal(&[component]));
    let gain = without.iops() / base.iops();
    assert!(gain > 1.05, "{}: {gain}", component.name());
    for other in others {
        let gain = of(&ideal(&[*other])).iops() / base.iops();
        assert!((gain - 1.0).abs() < 0.02, "{} without {}: {gain}", component.name(), other.name());
    }
}

/// A function that changes a card so that one component is slow.
type Change = fn(&mut Card);

fn all_but(component: Component) -> Vec<Component> {
    Component::ALL.into_iter().filter(|other| *other != component).collect()
}

#[test]
fn the_link_binds_the_cards_of_the_slides() {
    let writes = group(Access::RandomWrite, 256);
    let reads = group(Access::RandomRead, 256);
    for name in ["flashtec-dram", "all-mram"] {
        bound(&card(name), &writes, Component::LinkDown, &all_but(Component::LinkDown));
        bound(&card(name), &reads, Component::LinkUp, &all_but(Component::LinkUp));
    }
}

#[test]
fn each_component_binds_a_card_in_which_it_is_slow() {
    let slow = |change: fn(&mut Card)| {
        let mut card = card("flashtec-dram");
        change(&mut card);
        card
    };
    let links = [Component::LinkUp, Component::LinkDown];
    let servers: [(Component, Change); 3] = [
        (Component::Cores, |card| card.controller.cores = 1),
        (Component::Host, |card| card.host.submit_fs *= 4),
        (Component::Memory, |card| card.memory.device.timing.t_ccd_l *= 4),
    ];
    for (component, change) in servers {
        bound(&slow(change), &group(Access::RandomRead, 128), component, &links);
    }
    // A faster link shortens the round trip, and with it the use of each unit (DMA engine, buffer,
    // tag, credit). The throughput would rise, so the link is not among `others`.
    let pools: [(Component, Access, Change); 4] = [
        (Component::DmaEngines, Access::RandomWrite, |card| card.controller.dma_engines = 1),
        (Component::Buffers, Access::RandomWrite, |card| {
            (card.controller.buffer_bytes, card.nvme.atomic_write) = (2048, 512);
        }),
        (Component::ReadTags, Access::RandomWrite, |card| card.link.read_tags = 6),
        (Component::Credits, Access::RandomRead, |card| card.link.posted_headers = 4),
    ];
    for (component, access, change) in pools {
        let others = [Component::Host, Component::Cores];
        bound(&slow(change), &group(access, 128), component, &others);
    }
}

#[test]
fn one_io_at_a_time_is_bound_by_its_latency() {
    let found =
        run(&card("flashtec-dram"), &Settings::default(), group(Access::RandomRead, 1), 2000);
    assert_eq!(found.bound_by, Bound::Depth);
}
