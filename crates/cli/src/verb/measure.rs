//! `interleaf measure`.

mod app;

use crate::{args::Measure, failure::Failure};
use std::{path::Path, process::ExitCode};

pub(super) fn run(measure: &Measure, root: Option<&Path>) -> Result<ExitCode, Failure> {
    match measure {
        Measure::App(args) => app::run(args, root),
    }
}
