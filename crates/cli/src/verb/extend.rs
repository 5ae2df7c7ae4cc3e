//! `interleaf extend`: runs a command with a drive as extension of its DRAM, watches a running
//! session, prints a plan or a forecast, or cleans up.

mod monitor;

use super::page;
use crate::args::{EXTEND_EXAMPLE, ExtendArgs};
use interleaf_console::{Failure, output, support};
use interleaf_launch::extend::{self, Dram, ExtendOptions, ForecastOptions, Job, Prepared};
use interleaf_record::Document;
use std::{path::Path, process::ExitCode};

pub(super) fn run(args: &ExtendArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    if root.is_some() {
        return Err(Failure::new(
            "nothing is extended on a captured machine",
            "leave --root out; `interleaf doctor --root DIR` lists the features of that machine",
        ));
    }
    if let Some(option) = args.planning.option_without_plan() {
        return Err(Failure::new(
            format!("{option} is of use with --plan only"),
            format!("add --plan RECORD, or leave {option} out"),
        ));
    }
    if let Some(folder) = &args.serve {
        return extend::serve(folder).map(|()| ExitCode::SUCCESS);
    }
    if let Some(folder) = &args.release {
        return extend::release(folder).map(|()| ExitCode::SUCCESS);
    }
    if args.clean {
        return extend::clean(args.quiet).map(|()| ExitCode::SUCCESS);
    }
    if !args.planning.plan.is_empty() {
        return plan(args).map(|()| ExitCode::SUCCESS);
    }
    let job = Job::find();
    check_complete(args, args.session.is_some() || job.is_some())?;
    if let (Some(pid), true) = (args.monitor, args.command.is_empty()) {
        return monitor::monitor(pid, args.json).map(|()| ExitCode::SUCCESS);
    }
    let record = if args.dry_run || args.estimate { "--json > FILE" } else { "--stats FILE" };
    support::check_outputs_of(record, None, args.report.as_deref(), &[args.stats.as_deref()])?;
    let options = options(args);
    let prepared = extend::prepare(&options, job)?;
    if args.dry_run || args.estimate {
        return print_plan(args, &options, prepared);
    }
    if args.json {
        return Err(Failure::new(
            "--json: stdout is the command's",
            "write the statistics to a file with --stats FILE",
        ));
    }
    let extended = extend::run(&options, &prepared)?;
    if let Some(document) = &extended.document {
        if let Some(target) = &args.stats {
            output::file(target, &interleaf_record::json(document))?;
        }
        output::note(args.quiet, &interleaf_report::extend::ended(document));
        page::write_quiet(args.quiet, args.report.as_deref(), || {
            Document::Extend(Box::new(document.clone()))
        })?;
    }
    Ok(extended.ended.exit_code())
}

/// Converts the arguments to the options of `interleaf_launch`. The output options are left out.
fn options(args: &ExtendArgs) -> ExtendOptions {
    ExtendOptions {
        command: args.command.clone(),
        dram: args.dram.clone(),
        stores: args.store.clone(),
        min_alloc: args.min_alloc,
        children: args.children.into(),
        shared: args.shared,
        faults: args.faults.into(),
        processes: args.processes,
        session: args.session.clone(),
        footprint: args.planning.footprint,
        force: args.force,
        watch: args.monitor.is_some(),
        statistics: args.stats.is_some() || args.report.is_some(),
        quiet: args.quiet,
    }
}

/// Prints the forecast of `--plan`: drive traffic and slow-down with other budgets and drives.
fn plan(args: &ExtendArgs) -> Result<(), Failure> {
    let plot = args.planning.plot.as_deref();
    plot.map_or(Ok(()), |target| support::check_picture("--plot", target))?;
    support::check_outputs_of("--json > FILE", None, args.report.as_deref(), &[plot])?;
    let document = extend::forecast(&ForecastOptions {
        files: args.planning.plan.clone(),
        drives: args.planning.drive.clone(),
        stores: args.store.clone(),
        footprint: args.planning.footprint,
        time_in_dram: args.planning.time_in_dram,
        efficiency: args.planning.efficiency,
    })?;
    if let Some((target, figure)) = plot.zip(document.figures.first()) {
        let picture = interleaf_report::svg::picture(figure)
            .map_err(|why| Failure::new(format!("--plot: {why}"), "leave --plot out"))?;
        output::file(target, &picture)?;
    }
    match args.json {
        true => output::data(&interleaf_record::json(&document)),
        false => output::text(&interleaf_report::extend::forecast(&document)),
    }?;
    page::write_quiet(args.quiet, args.report.as_deref(), || {
        Document::ExtendForecast(Box::new(document))
    })
}

/// Rejects missing or contradictory options. `is_joined` is true if the command joins a session
/// that it shares with other commands.
fn check_complete(args: &ExtendArgs, is_joined: bool) -> Result<(), Failure> {
    if let (Some(Dram::Percent(percent)), true) = (&args.dram, is_joined) {
        return Err(Failure::new(
            format!("--dram {percent}%: commands that share a session need the same budget"),
            "give it as a size, such as 8GiB",
        ));
    }
    if args.command.is_empty() {
        return Ok(());
    }
    if let Some(Some(pid)) = args.monitor {
        return Err(Failure::new(
            format!("--monitor={pid} watches a session that runs, and there is a command too"),
            "leave one of the two out; --monitor alone watches the command",
        ));
    }
    if args.dram.is_none() || args.store.is_empty() {
        return Err(Failure::new(
            "the command needs a budget (--dram SIZE) and a store (--store PATH)",
            EXTEND_EXAMPLE,
        ));
    }
    Ok(())
}

/// Prints the plan: the results of the checks before a run. With `--estimate`, also measures the
/// drives of the stores, and prints the speeds that these drives allow.
fn print_plan(
    args: &ExtendArgs,
    options: &ExtendOptions,
    mut prepared: Prepared,
) -> Result<ExitCode, Failure> {
    if args.estimate {
        extend::estimate(options, &mut prepared)?;
    }
    let plan = &prepared.plan;
    match args.json {
        true => output::data(&interleaf_record::json(plan)),
        false => output::text(&interleaf_report::extend::plan(plan)),
    }?;
    page::write_quiet(args.quiet, args.report.as_deref(), || {
        Document::ExtendPlan(Box::new(plan.clone()))
    })?;
    Ok(if plan.can_be_done { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
