//! Tests that the journal restores every change, even after SIGKILL or beside damaged journals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{
    files::{FOLDER, LOCK},
    *,
};
use crate::place::actuator::Scope;
use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
};

const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";
const NODE0: &str = "/sys/kernel/mm/mempolicy/weighted_interleave/node0";
const NODE1: &str = "/sys/kernel/mm/mempolicy/weighted_interleave/node1";
const NODE9: &str = "/sys/kernel/mm/mempolicy/weighted_interleave/node9";

/// Makes a machine with two settings: the weights of two nodes, both 1.
fn machine() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::live_below(folder.path());
    fs::create_dir_all(root.at(WEIGHTS)).unwrap();
    fs::write(root.at(NODE0), "1\n").unwrap();
    fs::write(root.at(NODE1), "1\n").unwrap();
    (folder, root)
}

fn now(root: &Root) -> [String; 2] {
    [NODE0, NODE1].map(|path| root.text(path).unwrap().unwrap())
}

/// Writes a journal that belongs to process 1. If `lives` is false, the journal states a wrong
/// start time, so that the process of the journal counts as ended.
fn other(root: &Root, lives: bool, changes: &[(&str, &str, &str)]) -> Document {
    // Process 1 is used because it outlives this test.
    let start = process(&Root::live(), 1).unwrap().unwrap().start_ticks;
    let change = |(path, was, set): &(&str, &str, &str)| Change {
        path: path.to_string(),
        was: was.to_string(),
        set: set.to_string(),
    };
    let document = Document {
        schema: SCHEMA.into(),
        pid: 1,
        start_ticks: if lives { start } else { start + 1 },
        changes: changes.iter().map(change).collect(),
        claim: None,
    };
    drop(lock(root).unwrap());
    document.save(root).unwrap();
    document
}

fn journals(root: &Root) -> usize {
    let found = files::read_all(root).unwrap();
    found.iter().filter(|found| matches!(found, JournalFile::Whole(_))).count()
}

#[test]
fn changed_settings_are_restored() {
    let (_folder, root) = machine();
    let (mut journal, undone) = Journal::open(&root).unwrap();
    assert_eq!(undone, []);
    journal.set(NODE0, "3").unwrap();
    journal.set(NODE1, "2").unwrap();
    assert_eq!((now(&root), journals(&root)), (["3".into(), "2".into()], 1));
    let paths: Vec<String> = journal
        .close()
        .unwrap()
        .into_iter()
        .map(|undone| match undone {
            Undone::Restored(change) => change.path,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(paths, [NODE1, NODE0], "the last one first");
    assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
}

#[test]
fn single_settings_are_restored_early() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    journal.set(NODE1, "2").unwrap();
    let undone = journal.release(&[NODE0.into(), NODE9.into()]).unwrap();
    assert!(matches!(&undone[..], [Undone::Restored(change)] if change.path == NODE0));
    assert_eq!((now(&root), journals(&root)), (["1".into(), "2".into()], 1));
    assert_eq!(journal.release(&[NODE0.into()]).unwrap(), []);
    journal.release(&[NODE1.into()]).unwrap();
    assert_eq!(journals(&root), 0, "nothing is left to restore");
    journal.set(NODE0, "3").unwrap();
    journal.close().unwrap();
    assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
}

#[test]
fn a_dropped_journal_restores_its_settings() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    drop(journal);
    assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
}

#[test]
fn settings_of_a_dead_process_are_restored() {
    let (_folder, root) = machine();
    fs::write(root.at(NODE0), "7\n").unwrap();
    other(&root, false, &[(NODE0, "1", "7"), (NODE1, "1", "9")]);
    assert_eq!(leftovers(&root).unwrap()[0].changes.len(), 2);
    let undone = restore(&root).unwrap();
    assert!(matches!(&undone[..], [Undone::Restored(change)] if change.path == NODE0));
    assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
    assert_eq!(restore(&root).unwrap(), [], "once is enough");
}

#[test]
fn the_next_journal_restores_leftovers() {
    let (_folder, root) = machine();
    fs::write(root.at(NODE0), "7\n").unwrap();
    other(&root, false, &[(NODE0, "1", "7")]);
    let (_journal, undone) = Journal::open(&root).unwrap();
    assert_eq!((undone.len(), now(&root)[0].as_str()), (1, "1"));
}

#[test]
fn a_value_that_another_program_has_written_is_left() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    fs::write(root.at(NODE0), "200\n").unwrap();
    let undone = journal.close().unwrap();
    assert!(matches!(&undone[..], [Undone::ChangedSince(_, now)] if now == "200"));
    assert_eq!(now(&root)[0], "200");
}

#[test]
fn the_last_holder_of_a_setting_restores_it() {
    let (_folder, root) = machine();
    fs::write(root.at(NODE0), "3\n").unwrap();
    let mut first = other(&root, true, &[(NODE0, "1", "3")]);
    let (mut second, _) = Journal::open(&root).unwrap();
    let why = second.set(NODE0, "4").unwrap_err().to_string();
    assert_eq!(why, format!("{NODE0}: process 1 holds it at 3, and 4 is wanted"));
    second.set(NODE0, "3").unwrap();
    assert_eq!(second.changes()[0].was, "1", "what the first one found");
    let undone = first.undo(&root).unwrap();
    assert!(matches!(&undone[..], [Undone::Held(_, pid)] if *pid == std::process::id()));
    assert_eq!(now(&root)[0], "3");
    second.close().unwrap();
    assert_eq!((now(&root), journals(&root)), (["1".into(), "1".into()], 0));
}

#[test]
fn an_absent_setting_is_not_changed() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    let why = journal.set(NODE9, "3").unwrap_err().to_string();
    assert_eq!(why, format!("{NODE9}: there is no such file"));
    assert_eq!(journal.close().unwrap(), []);
}

#[test]
fn a_refused_write_leaves_no_journal() {
    let (_folder, root) = machine();
    // `NODE9` is a file that can be read, but that not even root can write.
    symlink("/proc/sys/kernel/cap_last_cap", root.at(NODE9)).unwrap();
    let (mut journal, _) = Journal::open(&root).unwrap();
    let why = journal.set(NODE9, "3").unwrap_err();
    assert!(matches!(why, JournalError::Root(RootError::Write { .. })), "{why}");
    assert_eq!((journals(&root), journal.close().unwrap()), (0, vec![]));
}

#[test]
fn settings_are_restored_without_the_journals_file() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    fs::remove_dir_all(root.at(FOLDER)).unwrap();
    assert_eq!(journal.close().unwrap().len(), 1);
    assert_eq!(now(&root)[0], "1");
}

#[test]
fn others_can_neither_write_journals_nor_keep_us_waiting() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&root.at(FOLDER)) & 0o022, 0);
    assert_eq!(mode(&root.at(FOLDER).join(LOCK)) & 0o077, 0);
    assert_eq!(mode(&root.at(FOLDER).join(journal.document.name())) & 0o022, 0);
}

/// The folder has a valid journal of an ended process and a damaged file, whose text is each of
/// `texts` in turn. The changes of the valid journal are undone, and the damaged file is renamed.
#[test]
fn a_damaged_journal_is_set_aside_and_the_rest_is_restored() {
    let start = process(&Root::live(), 1).unwrap().unwrap().start_ticks;
    let journal = |changes: &str| {
        format!(
            r#"{{"schema":"{SCHEMA}","pid":1,"start_ticks":{},"changes":[{changes}]}}"#,
            start + 2
        )
    };
    let name = format!("1-{}.json", start + 2);
    let texts = [
        (String::new(), "EOF"),
        ("{}".into(), "missing field"),
        (r#"{"schema":"x","pid":1,"start_ticks":0,"changes":[]}"#.into(), "schema: \"x\" is not"),
        (journal("").replace("\"pid\":1", "\"pid\":2"), "it is of 2-"),
        (journal(r#"{"path":"/etc/passwd","was":"x","set":"1"}"#), "/etc/passwd is not a setting"),
        (" ".repeat((1 << 20) + 1), "longer than 1048576 bytes"),
    ];
    for (text, expected) in texts {
        let (_folder, root) = machine();
        fs::create_dir(root.at("/etc")).unwrap();
        fs::write(root.at("/etc/passwd"), "1").unwrap();
        fs::write(root.at(NODE0), "7\n").unwrap();
        other(&root, false, &[(NODE0, "1", "7")]);
        fs::write(root.at(FOLDER).join(&name), &text).unwrap();
        assert_eq!(damaged(&root).unwrap().len(), 1, "{text}");
        assert_eq!(leftovers(&root).unwrap().len(), 1, "{text}");
        // `Journal::open` also undoes the changes of ended processes; a starting daemon calls it.
        let (_journal, undone) = Journal::open(&root).unwrap();
        let [first, second] = &undone[..] else { panic!("{undone:?}") };
        let (Undone::Restored(change), Undone::SetAside { damaged, aside }) = (first, second)
        else {
            panic!("{undone:?}")
        };
        assert_eq!((change.path.as_str(), now(&root)[0].as_str()), (NODE0, "1"));
        assert!(damaged.why.contains(expected), "{}", damaged.why);
        assert_eq!(aside, &Ok(format!("{FOLDER}/{name}.damaged")));
        assert_eq!(
            fs::read_to_string(root.at(FOLDER).join(name.clone() + ".damaged")).unwrap(),
            text
        );
        assert_eq!(fs::read_to_string(root.at("/etc/passwd")).unwrap(), "1", "{text}");
        assert_eq!(restore(&root).unwrap(), [], "it is told once");
    }
}

#[test]
fn valid_changes_of_a_damaged_journal_are_restored() {
    let (_folder, root) = machine();
    fs::write(root.at(NODE0), "7\n").unwrap();
    let gone = other(&root, false, &[(NODE0, "1", "7"), ("/etc/x", "1", "2")]);
    let undone = restore(&root).unwrap();
    assert!(matches!(&undone[..], [Undone::SetAside { .. }, Undone::Restored(_)]), "{undone:?}");
    assert_eq!(now(&root)[0], "1");
    assert!(root.at(FOLDER).join(gone.name() + ".damaged").exists());
    assert_eq!(journals(&root), 0);
}

#[test]
fn a_journal_that_is_no_regular_file_is_set_aside() {
    let (folder, root) = machine();
    drop(lock(&root).unwrap());
    let forged = folder.path().join("forged");
    fs::write(&forged, "{}").unwrap();
    symlink(&forged, root.at(FOLDER).join("1-1.json")).unwrap();
    fs::create_dir(root.at(FOLDER).join("1-2.json")).unwrap();
    let fifo = root.at(FOLDER).join("1-3.json");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let writable = root.at(FOLDER).join("1-4.json");
    fs::write(&writable, "{}").unwrap();
    fs::set_permissions(&writable, fs::Permissions::from_mode(0o666)).unwrap();
    let undone = restore(&root).unwrap();
    let whys: Vec<&str> = undone
        .iter()
        .map(|undone| match undone {
            Undone::SetAside { damaged, aside: Ok(_) } => damaged.why.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        "it is a symbolic link",
        "it is not a regular file",
        "it is not a regular file",
        "others may write to it (mode 0666)",
    ];
    assert_eq!(whys, expected);
    assert_eq!(restore(&root).unwrap(), []);
}

#[test]
fn journals_that_others_may_write_are_not_believed() {
    let (_folder, root) = machine();
    fs::write(root.at(NODE0), "7\n").unwrap();
    other(&root, false, &[(NODE0, "1", "7")]);
    let place = root.at(FOLDER);
    let refused = |expected: &str| {
        for why in [
            restore(&root).unwrap_err().to_string(),
            leftovers(&root).unwrap_err().to_string(),
            Journal::open(&root).unwrap_err().to_string(),
        ] {
            assert!(why.contains("is not used for journals") && why.contains(expected), "{why}");
        }
        assert_eq!(now(&root)[0], "7");
    };
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    refused("others may write to it (mode 0777)");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    if chown(&place, Some(65534), None).is_err() {
        let text = "NOT TESTED: journals of another user: run as root\n";
        io::stderr().write_all(text.as_bytes()).unwrap();
        return;
    }
    refused("it belongs to user 65534");
    chown(&place, Some(0), None).unwrap();
    let mut files = fs::read_dir(&place).unwrap().map(|it| it.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|it| it == "json")).unwrap();
    chown(&file, Some(65534), None).unwrap();
    let undone = restore(&root).unwrap();
    assert!(matches!(&undone[..], [Undone::SetAside { .. }]), "{undone:?}");
    assert_eq!(now(&root)[0], "7");
}

#[test]
fn a_setting_that_cannot_be_restored_is_not_changed() {
    let (_folder, root) = machine();
    fs::write(root.at("/sys/other"), "1").unwrap();
    let (mut journal, _) = Journal::open(&root).unwrap();
    for (path, text) in [("/sys/other", "2"), (NODE0, "256")] {
        assert!(matches!(journal.set(path, text), Err(JournalError::Unknown(_))), "{path}");
    }
    assert_eq!((journals(&root), now(&root)[0].as_str()), (0, "1"));
}

#[test]
fn a_file_that_is_no_journal_blocks_no_restoring() {
    let (_folder, root) = machine();
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    fs::write(root.at(FOLDER).join("1-1.json"), "{").unwrap();
    assert_eq!(journal.close().unwrap().len(), 1);
    assert_eq!(now(&root)[0], "1");
}

#[test]
fn on_a_captured_machine_changes_are_noted() {
    let (folder, _) = machine();
    let root = Root::captured(folder.path());
    let (mut journal, _) = Journal::open(&root).unwrap();
    journal.set(NODE0, "3").unwrap();
    assert_eq!((root.noted().len(), now(&root)[0].as_str()), (1, "1"));
    journal.close().unwrap();
    assert!(!root.at("/run").exists());
}

#[test]
fn pages_are_steered_by_one_process() {
    let (_folder, root) = machine();
    let claim = |names: &[&str]| {
        Claim::new(&Scope::Named(names.iter().map(|name| (*name).into()).collect()), &[])
    };
    let mut first = other(&root, true, &[]);
    first.claim = Some(claim(&["solver"]));
    first.save(&root).unwrap();
    let (mut second, _) = Journal::open(&root).unwrap();
    let why = second.claim(claim(&["java", "solver"])).unwrap_err().to_string();
    let expected = "process 1 of interleaf steers some of these pages already, those of solver";
    assert_eq!(why, expected);
    assert_eq!(journals(&root), 1);
    second.claim(claim(&["java"])).unwrap();
    assert_eq!(journals(&root), 2);
    second.close().unwrap();
    assert_eq!(journals(&root), 1, "a claim ends with its journal");
    // A killed process's claim does not count, so the same pages can be claimed again.
    let mut gone = other(&root, false, &[]);
    gone.claim = Some(claim(&["java"]));
    gone.save(&root).unwrap();
    let (mut third, undone) = Journal::open(&root).unwrap();
    assert_eq!((undone, journals(&root)), (vec![], 1));
    third.claim(claim(&["java"])).unwrap();
}
