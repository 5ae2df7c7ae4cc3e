//! `interleaf doctor`.

use crate::{
    args::DoctorArgs,
    document::{self, machine::DoctorDocument},
    failure::Failure,
    output, render,
};
use interleaf_linux::{capability::capabilities, topology::Machine};
use std::path::Path;

pub(super) fn run(args: &DoctorArgs, root: Option<&Path>) -> Result<(), Failure> {
    let root = super::root(root)?;
    let machine = Machine::read(&root).map_err(super::unread)?;
    let found = capabilities(&root, &machine).map_err(super::unread)?;
    if let Some(target) = &args.capture {
        root.capture(target).map_err(|why| {
            Failure::new(
                format!("{}: cannot be captured to: {why}", target.display()),
                "name a folder that is not there yet, in one that you may write to",
            )
        })?;
        output::message(&format!(
            "captured in {}; any verb reads it with --root {0}",
            target.display()
        ));
    }
    let document = DoctorDocument::new(&machine, &found);
    if args.json {
        return output::data(&document::json(&document)?);
    }
    output::data(&render::machine::doctor(&document))
}
