//! Tests the engine under loads: figures, ablations, properties.

mod ablation;
mod commands;
mod figures;
mod properties;

use crate::{
    card::Card,
    load::{Access, Group, Load, Outcome},
    settings::{Component, Ideal, Settings},
};

fn card(name: &str) -> Card {
    Card::by_name(name).unwrap()
}

fn group(access: Access, depth: u32) -> Group {
    Group { access, depth, ..Group::default() }
}

fn run(card: &Card, settings: &Settings, group: Group, ios: u64) -> Outcome {
    Load::single(group, ios).run(card, settings, &mut ()).unwrap()
}

fn ideal(components: &[Component]) -> Settings {
    let ideal = components.iter().fold(Ideal::default(), |ideal, one| ideal.and(*one));
    Settings { ideal, ..Settings::default() }
}
