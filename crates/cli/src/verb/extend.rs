//! `interleaf extend`.

mod monitor;

use super::placed::{self, Ended, say};
use crate::args::{Dram, EXTEND_EXAMPLE, ExtendArgs, FaultsChoice};
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::{Running, Signals},
    root::Root,
};
use interleaf_observe::usage;
use interleaf_pager::session::{SCHEMA, SKIP_SBRK, Session, SessionError, Settings, VARIABLE};
use interleaf_record::extend::{
    CheckDocument, ExtendDocument, ExtendPlanDocument, SessionProcesses,
};
use job::Job;
use outside::Outside;
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

/// How often the processes of a session are looked at.
const TICK: Duration = Duration::from_millis(100);

/// How often `--monitor` says what is done.
const LINE: Duration = Duration::from_secs(1);

/// The variable that the loader of programs reads.
const PRELOAD: &str = "LD_PRELOAD";

/// Where the library is, for those who have it elsewhere.
const LIBRARY_VARIABLE: &str = "INTERLEAF_PRELOAD";

const LIBRARY: &str = "libinterleaf_preload.so";

pub(super) fn run(args: &ExtendArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    if root.is_some() {
        return Err(Failure::new(
            "nothing is extended on a captured machine",
            "leave --root out; `interleaf doctor --root DIR` says what that machine can do",
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
    let job = Job::find();
    check_complete(args, args.session.is_some() || job.is_some())?;
    if let (Some(pid), true) = (args.monitor, args.command.is_empty()) {
        return monitor::monitor(pid, args.json).map(|()| ExitCode::SUCCESS);
    }
    output::check_writable(args.stats.as_deref())?;
    let library = library()?;
    let settings = settings(args, job.as_ref())?;
    let name = args.session.clone().or(job.map(|job| job.name));
    let checks = check::checks(args, &settings, name.as_deref(), &library);
    let plan = ExtendPlanDocument::new(&settings, checks, args.force);
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
    }
    Ok(extended.ended.exit_code())
}

/// The options without those of the output.
fn options(args: &ExtendArgs) -> ExtendOptions {
    ExtendOptions {
        command: args.command.clone(),
        dram: args.dram,
        stores: args.store.clone(),
        min_alloc: args.min_alloc,
        children: args.children.into(),
        shared: args.shared,
        faults: args.faults.into(),
        processes: args.processes,
        session: args.session.clone(),
        footprint: args.footprint,
        force: args.force,
        watch: args.monitor.is_some(),
        statistics: args.stats.is_some(),
        quiet: args.quiet,
    }
}

/// Refuses options that contradict each other.
fn check_complete(args: &ExtendArgs, is_joined: bool) -> Result<(), Failure> {
    if let (Some(Dram::Percent(percent)), true) = (args.dram, is_joined) {
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

/// Says whether it can be done, and measures the stores if that is asked for.
fn planned(args: &ExtendArgs, mut plan: ExtendPlanDocument) -> Result<ExitCode, Failure> {
    if args.estimate {
        extend::estimate(options, &mut prepared)?;
    }
    let plan = &prepared.plan;
    output::data(&match args.json {
        true => interleaf_record::json(plan),
        false => interleaf_report::extend::plan(plan),
    })?;
    Ok(if plan.can_be_done { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Refuses what stands against it, and tells what may.
fn allowed(args: &ExtendArgs, checks: &[CheckDocument]) -> Result<(), Failure> {
    if let Some(check) = checks.iter().find(|check| check.stands_against(args.force)) {
        let remedy = check.remedy.clone().unwrap_or_default();
        return Err(Failure::new(check.detail.clone(), remedy));
    }
    for check in checks.iter().filter(|check| check.is_doubtful()) {
        say(args.quiet, &format!("{}: {}", check.what, check.detail));
    }
    Ok(())
}

/// What the session is told.
fn settings(args: &ExtendArgs, job: Option<&Job>) -> Result<Settings, Failure> {
    let mut stores = vec![];
    for store in &args.store {
        // The command may have another folder to work in by the time it looks.
        stores.push(std::path::absolute(store).map_err(|why| {
            Failure::new(
                format!("--store {}: {why}", store.display()),
                "name a folder on a fast drive, or a block device",
            )
        })?);
    }
    let dram_bytes = budget::dram(&Root::live(), args)?;
    Ok(Settings {
        schema: SCHEMA.into(),
        dram_bytes,
        stores,
        min_alloc_bytes: budget::min_alloc(args, dram_bytes),
        children: args.children.into(),
        shared: args.shared,
        faults: args.faults.into(),
        force: args.force,
        processes: args.processes.or(job.and_then(|job| job.ranks)).unwrap_or(1),
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        keeper: std::process::id(),
    })
}

/// Runs the command, and watches what its pagers do.
fn under(
    args: &ExtendArgs,
    signals: &Signals,
    session: &Session,
    library: &Path,
) -> Result<(Ended, ExtendDocument), Failure> {
    let (program, arguments) = args.command.split_first().unwrap_or_else(|| unreachable!());
    let (mut seen, mut outside) = (SessionProcesses::default(), Outside::new());
    let document =
        |seen: &SessionProcesses| ExtendDocument::new(&session.settings, &session.board, seen);
    if let Some(signal) = signals.come() {
        let ended = Ended { status: None, elapsed: Duration::ZERO, signal: Some(signal) };
        return Ok((ended, document(&seen)));
    }
    let server = args.shared.then(|| shared::Server::start(session)).transpose()?;
    let _releaser = release::start(session);
    let variables = [
        (PRELOAD, preloaded(env::var_os(PRELOAD), library)),
        (VARIABLE, session.folder().as_os_str().into()),
        (SKIP_SBRK.0, SKIP_SBRK.1.into()),
    ];
    let mut running =
        signals.start_with(&variables, program, arguments).map_err(system::start_failure)?;
    session.board.set_first(running.pid());
    let mut line = Instant::now() + LINE;
    while !running.has_ended(TICK) {
        seen.update_and_recover(&session.board);
        outside.look(&session.board);
        if args.monitor.is_some() && Instant::now() >= line {
            line += LINE;
            monitored(&running, document(&seen));
        }
    }
    let status = running.status().map_err(system::wait_failure)?;
    seen.update_and_recover(&session.board);
    drop(server);
    seen.update_and_recover(&session.board);
    let mut document = document(&seen);
    document.record_exit(Some(status), running.elapsed());
    outside.tell(&mut document);
    document.resident_max_bytes = usage::children_resident_max().ok().flatten();
    let ended = Ended { status: Some(status), elapsed: running.elapsed(), signal: running.came() };
    Ok((ended, document))
}

fn monitored(running: &Running<'_>, mut document: ExtendDocument) {
    document.elapsed_s = running.age().as_secs_f64();
    say(false, &interleaf_report::extend::line(&document));
}

/// What is preloaded: what the user has preloaded stays.
fn preloaded(was: Option<OsString>, library: &Path) -> OsString {
    let mut all = library.as_os_str().to_os_string();
    if let Some(was) = was.filter(|was| !was.is_empty()) {
        all.push(":");
        all.push(was);
    }
    all
}

/// Where the library is: beside this program, or where it is installed.
fn library() -> Result<PathBuf, Failure> {
    let hint = format!(
        "install {LIBRARY} beside `interleaf` or in ../lib/interleaf, or name it in \
         {LIBRARY_VARIABLE}; cargo build -p interleaf-preload makes it"
    );
    if let Some(named) = env::var_os(LIBRARY_VARIABLE).map(PathBuf::from) {
        return match named.is_file() {
            true => Ok(named),
            false => Err(Failure::new(
                format!("{LIBRARY_VARIABLE}={}: there is no such file", named.display()),
                hint,
            )),
        };
    }
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/interleaf").join(LIBRARY)];
    let found = places.iter().find_map(|place| place.canonicalize().ok());
    found.ok_or_else(|| {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Failure::new(
            format!("the library that goes between is neither {}", places.join(" nor ")),
            hint,
        )
    })
}

/// Removes what those have left who were killed.
fn swept(quiet: bool, base: &Path) -> Result<Vec<PathBuf>, Failure> {
    let swept = Session::sweep(base).map_err(unbegun)?;
    for folder in &swept {
        say(quiet, &format!("{}: removed, its session was killed", folder.display()));
    }
    Ok(swept)
}

fn clean(args: &ExtendArgs) -> Result<(), Failure> {
    let base = Session::base().map_err(unbegun)?;
    if swept(args.quiet, &base)?.is_empty() {
        say(args.quiet, "no session has left anything");
    }
    Ok(())
}

fn unbegun(why: SessionError) -> Failure {
    let hint = session_hint(&why);
    Failure::new(format!("the session cannot begin: {why}"), hint)
}

fn session_hint(why: &SessionError) -> &'static str {
    match why {
        SessionError::NotPrivate(_) => "remove it, or name another place in XDG_RUNTIME_DIR",
        SessionError::Differs(_) => {
            "give every part of the session the same --dram, --store, --min-alloc, --children, \
             --shared, --faults and --processes, or another --session"
        }
        SessionError::System { .. } | SessionError::Content { .. } => {
            "its folder is in XDG_RUNTIME_DIR, or else in /run/interleaf of root and in TMPDIR of \
             others"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_preloads_stays() {
        let library = Path::new("/lib/ours.so");
        assert_eq!(preloaded(None, library), "/lib/ours.so");
        assert_eq!(preloaded(Some("".into()), library), "/lib/ours.so");
        assert_eq!(preloaded(Some("a.so b.so".into()), library), "/lib/ours.so:a.so b.so");
    }
}
