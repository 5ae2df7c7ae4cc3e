//! `interleaf bench`.

mod compare;
mod process;
mod run;

pub(crate) use compare::{Ended, PATTERNS, WAYS};

use crate::{
    args::{Bench, BenchListArgs},
    document::{
        self,
        bench::{EntryDocument, ListDocument},
    },
    failure::Failure,
    output, render,
};
use interleaf_workload::kind::Kind;
use std::process::ExitCode;

pub(super) fn run(bench: &Bench) -> Result<ExitCode, Failure> {
    match bench {
        Bench::List(args) => list(args).map(|()| ExitCode::SUCCESS),
        Bench::Run(args) => run::run(args),
        Bench::Compare(args) => compare::run(args),
    }
}

fn list(args: &BenchListArgs) -> Result<(), Failure> {
    let entry = |(name, kind, does): &(&str, Kind, &str)| EntryDocument {
        name: name.to_string(),
        does: does.to_string(),
        rate_unit: kind.unit().text().into(),
    };
    let workloads = Kind::ALL.iter().map(entry).collect();
    let document = ListDocument { schema: "interleaf.bench.list/1".into(), workloads };
    match args.json {
        true => output::data(&document::json(&document)?),
        false => output::data(&render::bench::list(&document)),
    }
}
