//! Tests the errors of job files when options of the command line replace those of the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_card::fio::{
    FioOptions, OptionError,
    file::{JobError, parse},
};

/// If an option that the command line has set is wrong, the error names this option, and no line of
/// the file.
#[test]
fn errors_of_the_command_line_name_its_option() {
    let none = FioOptions::default();
    let refused =
        |text: &str, over: FioOptions| parse("a.fio", text, &over, &|_| Ok(())).unwrap_err();

    let psync = "[a]\nioengine=psync\nrw=randread\niodepth=1\n";
    let why = refused(psync, FioOptions { iodepth: Some(32), ..none.clone() });
    let problem = "the I/O engine psync has one outstanding request, not 32 (job a of a.fio)";
    assert!(matches!(why, JobError::CommandLine(_)), "{why:?}");
    assert_eq!(why.to_string(), format!("iodepth: {problem}"));

    let read = "[a]\nrw=randread\n";
    let why = refused(read, FioOptions { rwmixread: Some(30), ..none.clone() });
    assert!(matches!(why, JobError::CommandLine(_)), "{why:?}");
    let expected = "rwmixread: randread has one direction only (job a of a.fio)";
    assert_eq!(why.to_string(), expected);

    // The option `rwmixread` of the file is wrong because of the option `rw` of the command line.
    let mixed = "[a]\nrw=randrw\nrwmixread=30\n";
    let access = "randread".parse().unwrap();
    let why = refused(mixed, FioOptions { rw: Some(access), ..none.clone() });
    assert_eq!(why.to_string(), "a.fio:3: rwmixread: randread has one direction only");

    let fsync = |_: &[_]| {
        let (problem, hint) = ("randread has no stores".into(), "leave it out".into());
        Err(OptionError { option: "fsync", problem, hint })
    };
    let why = parse("a.fio", read, &none, &fsync).unwrap_err();
    assert!(matches!(why, JobError::CommandLine(_)), "files have no fsync: {why:?}");
}
