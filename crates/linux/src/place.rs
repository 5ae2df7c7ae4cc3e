//! Placement of pages: policies for new pages, migration of resident pages, and the journal from
//! which every changed setting is restored.

pub mod scope;

pub mod journal;

pub mod mempolicy;

pub mod placement;

pub mod placement_audit;

pub mod migrate;

pub mod actuator;

pub mod layout;
