#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use signal_hook::consts::signal::SIGKILL;
use std::os::unix::process::ExitStatusExt;

const LONG: Duration = Duration::from_secs(60);

fn start<'a>(signals: &'a Signals, command: &[&str]) -> Result<Running<'a>, StartError> {
    let arguments: Vec<OsString> = command[1..].iter().map(OsString::from).collect();
    let node = [0].into_iter().collect();
    signals.start(&Policy::Interleave(node), &command[0].into(), &arguments)
}

#[test]
fn the_end_of_a_command_by_a_signal_to_its_group_is_recognized() {
    for (signal, status, expected) in [
        (Some(SIGINT), None, Some(SIGINT)),
        (Some(SIGTERM), None, Some(SIGTERM)),
        (Some(SIGKILL), None, None),
        (None, Some(130), Some(SIGINT)),
        (None, Some(129), Some(SIGHUP)),
        (None, Some(128), None),
        (None, Some(2), None),
        (None, Some(0), None),
        (None, None, None),
    ] {
        assert_eq!(group_signal(signal, status), expected, "{signal:?} {status:?}");
    }
}

/// SIGINT arrives before the start of the command, SIGTERM while it runs, and a second SIGINT after
/// SIGINT has ended the command. The command's end is reported after the second SIGINT.
#[test]
fn an_earlier_signal_is_not_that_which_has_ended_the_command() {
    let signals = Signals::hold().unwrap();
    let arrive = |number: i32| {
        let event = Event::Signal { number, is_for_us: false };
        signals.sender.send(event).unwrap();
        signals.arrived[number as usize].fetch_add(1, SeqCst);
        signals.stop.set();
    };
    arrive(SIGINT);
    assert_eq!(signals.arrived_signal(), Some(SIGINT));
    let mut running = start(&signals, &["sh", "-c", "exit 130"]).unwrap();
    arrive(SIGTERM);
    assert_eq!(signals.arrived_signal(), Some(SIGTERM));
    let state = || process::process(&Root::live(), running.pid()).unwrap();
    while !state().is_some_and(|process| process.is_zombie) {}
    arrive(SIGINT);
    assert!(running.has_ended(LONG));
    assert_eq!(running.arrived_signal(), Some(SIGINT));
}

#[test]
fn a_command_runs_to_its_end_under_the_policy() {
    let signals = Signals::hold().unwrap();
    let script = "grep -q interleave:0 /proc/self/numa_maps && exit 7";
    let mut running = start(&signals, &["sh", "-c", script]).unwrap();
    let ended = running.wait(LONG).unwrap().unwrap();
    assert_eq!(ended.code(), Some(7), "children of it are under the policy too");
    assert!(!crate::place::mempolicy::is_chosen().unwrap(), "and we are not");
}

#[test]
fn the_resources_of_a_command_are_those_of_its_descendants_too() {
    let signals = Signals::hold().unwrap();
    let script = "sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'; exit 3";
    let mut running = start(&signals, &["sh", "-c", script]).unwrap();
    assert!(running.has_ended(LONG));
    let used = running.resources().unwrap();
    assert!(used.user > Duration::ZERO && used.minor_faults > 0);
    assert_eq!(running.status().unwrap().code(), Some(3), "it is still to be waited for");
}

/// The pipeline's `tail` holds 200 MB, more than the peak of this process, so its peak is
/// returned. The command `true` may have inherited its peak from this process, so `None` is
/// returned.
#[test]
fn the_peak_memory_of_a_command_is_its_own() {
    let signals = Signals::hold().unwrap();
    let peak = |command: &[&str]| {
        let mut running = start(&signals, command).unwrap();
        assert!(running.has_ended(LONG));
        let used = running.resources().unwrap();
        running.status().unwrap();
        used.resident_max
    };
    // `tail` keeps all bytes, because it may have to write any of them.
    let script = "head -c 200000000 /dev/zero | tail -c 200000000 > /dev/null";
    assert!(peak(&["sh", "-c", script]) > Some(200_000_000));
    assert_eq!(peak(&["true"]), None);
}

#[test]
fn huge_pages_are_disabled_for_the_command_only() {
    let signals = Signals::hold().unwrap();
    let script = ["sh", "-c", "grep -q 'THP_enabled:.*0' /proc/self/status && exit 5"];
    let code = |running: Result<Running<'_>, StartError>| {
        running.unwrap().wait(LONG).unwrap().unwrap().code()
    };
    let disabled = without_huge_pages(|| start(&signals, &script)).unwrap();
    assert_eq!(code(disabled), Some(5));
    assert_eq!(code(start(&signals, &script)), Some(1), "the next command has them again");
    // This process has disabled transparent huge pages itself, as a wrapper may have. They stay
    // disabled after `without_huge_pages`.
    disable_transparent_huge_pages(true).unwrap();
    without_huge_pages(|| ()).unwrap();
    let stay_disabled = transparent_huge_pages_are_disabled().unwrap();
    disable_transparent_huge_pages(false).unwrap();
    assert!(stay_disabled, "as a wrapper has set it");
}

#[test]
fn a_signal_is_passed_on() {
    // Give SIGTERM its default disposition, because the command inherits the dispositions of
    // this process, and this test may have been started with SIGTERM ignored.
    syscall::set_disposition(SIGTERM, syscall::Disposition::Default).unwrap();
    let signals = Signals::hold().unwrap();
    let mut running = start(&signals, &["sleep", "60"]).unwrap();
    running.record_processes();
    assert_eq!(running.wait(Duration::from_millis(10)).unwrap(), None);
    assert_eq!(running.recorded_processes(), []);
    let event = Event::Signal { number: SIGTERM, is_for_us: true };
    signals.sender.send(Event::Signal { number: SIGINT, is_for_us: false }).unwrap();
    signals.sender.send(event).unwrap();
    assert_eq!(running.wait(LONG).unwrap().unwrap().signal(), Some(SIGTERM));
    let pids: Vec<u32> = running.recorded_processes().iter().map(|it| it.pid).collect();
    assert_eq!(pids, [running.pid()]);
}

#[test]
fn the_end_of_an_earlier_command_is_not_that_of_the_next() {
    let signals = Signals::hold().unwrap();
    let mut killed = start(&signals, &["sleep", "60"]).unwrap();
    killed.signal(SIGKILL);
    assert_eq!(killed.status().unwrap().signal(), Some(SIGKILL));
    let mut running = start(&signals, &["sleep", "60"]).unwrap();
    assert_eq!(running.wait(Duration::from_millis(200)).unwrap(), None);
    running.signal(SIGKILL);
    assert_eq!(running.wait(LONG).unwrap().unwrap().signal(), Some(SIGKILL));
}

#[test]
fn a_command_that_cannot_be_started_is_named() {
    let signals = Signals::hold().unwrap();
    let why = start(&signals, &["/nowhere/x"]).unwrap_err().to_string();
    assert!(why.starts_with("/nowhere/x: cannot be started: "), "{why}");
    assert!(!crate::place::mempolicy::is_chosen().unwrap());
}

#[test]
fn keys_of_a_terminal_are_for_the_command_too() {
    let sent = Cause::Sent(signal_hook::low_level::siginfo::Sent::User);
    for number in SIGNALS {
        assert!(is_for_us(number, sent), "{number}");
        let keys = [SIGINT, SIGQUIT].contains(&number);
        let kernel = !keys && (number != SIGHUP || began_session());
        assert_eq!(is_for_us(number, Cause::Kernel), kernel, "{number}");
    }
}

#[test]
fn ignored_signals_are_read() {
    let sigpipe = 1 << (signal_hook::consts::signal::SIGPIPE - 1);
    assert_ne!(ignored(&Root::live()) & sigpipe, 0, "as every program in Rust does");
    assert_eq!(ignored(&Root::captured("/nowhere")), 0);
}

#[test]
fn a_signal_before_the_start_is_not_lost() {
    let signals = Signals::hold().unwrap();
    assert_eq!(signals.arrived_signal(), None);
    signals.sender.send(Event::Signal { number: SIGTERM, is_for_us: true }).unwrap();
    assert_eq!(signals.arrived_signal(), Some(SIGTERM));
}
