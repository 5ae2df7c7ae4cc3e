//! Tests the sources other than counters: a recording that is replayed, and a feed with its
//! clients.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::launch::unix_socket::{Access, SocketError};
use interleaf_model::machine::Traffic;
use interleaf_observe::{
    feed::Feed,
    replay::{Recorder, Replay},
    source::{Reading, Source, SourceError, nothing},
};
use proptest::prelude::*;
use std::{
    fs,
    io::Write,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    time::{Duration, Instant},
};

/// A source that returns the readings of its list in order.
struct Fixed<'a>(std::slice::Iter<'a, Reading>);

impl Source for Fixed<'_> {
    fn describe(&self) -> String {
        "given".into()
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        self.0.next().cloned().ok_or_else(|| SourceError::Stopped("given".into()))
    }
}

fn recorded(readings: &[Reading]) -> (tempfile::TempDir, Replay) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counters.csv");
    let file = fs::File::create(&path).unwrap();
    let mut recorder = Recorder::new(Fixed(readings.iter()), file).unwrap();
    while recorder.read().is_ok() {}
    let replay = Replay::open(&path).unwrap();
    (folder, replay)
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let count = || prop::option::of(0.0..1e15);
    (count(), count(), count(), count()).prop_map(|(read, written, inserts, occupancy)| Traffic {
        read_bytes: read,
        written_bytes: written,
        inserts,
        occupancy_ns: occupancy,
    })
}

fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let reading = |domains, tiers| {
        let traffic = prop::collection::vec(prop::collection::vec(traffic(), tiers), domains);
        (1..10_000_000_000_u64, traffic).prop_map(|(ns, traffic)| Reading {
            span: Duration::from_nanos(ns),
            traffic,
            ..Reading::default()
        })
    };
    (1usize..4, 1usize..4)
        .prop_flat_map(move |(domains, tiers)| prop::collection::vec(reading(domains, tiers), 1..6))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Readings that are recorded to a file and replayed from it must not change, to the last bit.
    #[test]
    fn recorded_and_replayed(readings in readings()) {
        let (_folder, mut replay) = recorded(&readings);
        for reading in &readings {
            prop_assert_eq!(&replay.read().unwrap(), reading);
        }
        let ended = replay.read().unwrap_err().to_string();
        prop_assert!(ended.ends_with("the recording is at its end"), "{}", ended);
    }
}

#[test]
fn a_reading_without_a_span_is_not_recorded() {
    let counted = Traffic { read_bytes: Some(64.0), ..Traffic::default() };
    let first = Reading {
        span: Duration::from_secs(1),
        traffic: vec![vec![counted]],
        ..Reading::default()
    };
    let idle = Reading { span: Duration::ZERO, traffic: nothing(1, 1), ..Reading::default() };
    let (_folder, mut replay) = recorded(&[first.clone(), idle]);
    assert_eq!(replay.read().unwrap(), first);
    assert!(replay.read().is_err(), "the recording is at its end");
}

const COLUMNS: &str = "time_s,domain,tier,read_bytes,written_bytes,inserts,occupancy_ns";

#[test]
fn a_recording_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let text =
        format!("{COLUMNS}\n# a remark\n0.5,0,0,64,0,1,100\n0.5,1,1,,,,\n 2 , 0 , 1 , 1e9 ,,,\n");
    fs::write(&path, text).unwrap();
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!((replay.domains(), replay.tiers()), (2, 2));
    let first = replay.read().unwrap();
    assert_eq!((first.span, first.traffic[0][0].bytes()), (Duration::from_millis(500), Some(64.0)));
    let second = replay.read().unwrap();
    assert_eq!(second.span, Duration::from_millis(1500));
    assert_eq!(second.traffic[0][1].read_bytes, Some(1e9));
    assert_eq!(second.traffic[0][0], Traffic::default(), "a line that is not there counts nothing");
}

#[test]
fn invalid_recordings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let table = [
        (String::new(), "a.csv: no readings"),
        ("1,0,0,1,1,1,1".into(), "a.csv:1: \"1,0,0,1,1,1,1\" is not time_s,"),
        ("# interleaf.counters/2\n".into(), "a.csv:1: \"# interleaf.counters/2\" is not a recor"),
        (
            format!("{COLUMNS}\n1,0,0,1,1,1"),
            "a.csv:2: \"1,0,0,1,1,1\" is not a line of traffic, with",
        ),
        (
            format!("{COLUMNS}\n1,0,0,-1,1,1,1"),
            "a.csv:2: read_bytes: \"-1\" is not a number of at least 0, or empty",
        ),
        (format!("{COLUMNS}\n1,0,0,NaN,1,1,1"), "a.csv:2: read_bytes: \"NaN\" is not a number of"),
        (
            format!("{COLUMNS}\n1,0,999,1,1,1,1"),
            "a.csv:2: tier: \"999\" is not a whole number from 0 to 255",
        ),
        (format!("{COLUMNS}\n-1,0,0,1,1,1,1"), "a.csv:2: time_s: \"-1\" is not a time in s"),
        (format!("{COLUMNS}\n1,0,0,1,1,1,x"), "a.csv:2: occupancy_ns: \"x\" is not a number"),
        (format!("{COLUMNS}\n2,0,0,,,,\n1,0,0,,,,"), "a.csv:3: \"1,0,0,,,,\" is not later than"),
    ];
    for (text, expected) in table {
        fs::write(&path, text).unwrap();
        let why = Replay::open(&path).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    let why = Replay::open(Path::new("/nowhere/a.csv")).unwrap_err().to_string();
    assert!(why.starts_with("/nowhere/a.csv: cannot be read: "), "{why}");
}

/// Returns a feed of two domains (sockets) with two tiers each, and the folder of its socket.
fn feed() -> (tempfile::TempDir, Feed) {
    let folder = tempfile::tempdir().unwrap();
    let feed = Feed::listen(&folder.path().join("feed"), Access::default(), 2, 2).unwrap();
    (folder, feed)
}

fn client(folder: &tempfile::TempDir) -> UnixStream {
    UnixStream::connect(folder.path().join("feed")).unwrap()
}

/// Waits until the feed, whose thread reads lines asynchronously, has reached the state `done`.
fn until(feed: &Feed, done: impl Fn(&interleaf_observe::feed::State) -> bool) {
    let begun = Instant::now();
    while !done(&feed.state()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", feed.state());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn programs_are_summed() {
    let (folder, mut feed) = feed();
    let (mut one, mut two) = (client(&folder), client(&folder));
    one.write_all(b"{\"domain\":0,\"tier\":1,\"read_bytes\":100,\"inserts\":2}\n").unwrap();
    two.write_all(b"{\"domain\":0,\"tier\":1,\"read_bytes\":11}\n\n").unwrap();
    two.write_all(b"{\"domain\":1,\"tier\":0,\"written_bytes\":5,\"occupancy_ns\":7}\n").unwrap();
    until(&feed, |state| state.lines == 3 && state.clients == 2);
    let reading = feed.read().unwrap();
    let expected = Traffic { read_bytes: Some(111.0), inserts: Some(2.0), ..Traffic::default() };
    assert_eq!(reading.traffic[0][1], expected);
    let expected =
        Traffic { written_bytes: Some(5.0), occupancy_ns: Some(7.0), ..Traffic::default() };
    assert_eq!(reading.traffic[1][0], expected);
    assert!(reading.span > Duration::ZERO);
    assert_eq!(feed.read().unwrap().traffic, nothing(2, 2), "each is read once");
    // A client closes its connection after a line without a newline. The line must still be
    // counted, and the feed must continue to read the second client.
    one.write_all(b"{\"domain\":0,\"tier\":0,\"inserts\":1}").unwrap();
    drop(one);
    until(&feed, |state| state.lines == 4 && state.clients == 1);
    two.write_all(b"{\"domain\":0,\"tier\":0,\"inserts\":1}\n").unwrap();
    until(&feed, |state| state.lines == 5);
    assert_eq!(feed.read().unwrap().traffic[0][0].inserts, Some(2.0));
}

/// A program writes a line, and the feed is read 20 ms later; this is repeated three times. Each
/// reading must cover the time from the previous line (at first, from the connection) to the new
/// line. The time at which the feed is read must not matter.
#[test]
fn a_reading_ends_with_its_last_line() {
    let (folder, mut feed) = feed();
    std::thread::sleep(Duration::from_millis(100));
    let connected = Instant::now();
    let mut program = client(&folder);
    until(&feed, |state| state.clients == 1);
    let mut spans = vec![];
    for line in 1..=3 {
        std::thread::sleep(Duration::from_millis(40));
        program.write_all(b"{\"domain\":0,\"tier\":0,\"read_bytes\":7}\n").unwrap();
        until(&feed, |state| state.lines == line);
        // The time between the last line and a reading must belong to the next reading.
        std::thread::sleep(Duration::from_millis(20));
        spans.push(feed.read().unwrap().span);
        assert_eq!(feed.read().unwrap().span, Duration::ZERO, "nothing covers no time");
    }
    assert!(spans[1..].iter().all(|span| *span >= Duration::from_millis(60)), "{spans:?}");
    let all: Duration = spans.into_iter().sum();
    assert!(all <= connected.elapsed() - Duration::from_millis(20), "the time before is none");
}

/// A line must end at its `time_ns`. If this time is in the future or before the end of the last
/// line, the line must end when it arrives.
#[test]
fn lines_may_have_a_time() {
    let (folder, mut feed) = feed();
    let mut program = client(&folder);
    until(&feed, |state| state.clients == 1);
    let monotonic = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
    };
    let begun = monotonic();
    let mut line = 0;
    let mut read = |time: Duration| {
        std::thread::sleep(Duration::from_millis(20));
        let text = |tier: u32| {
            let time = time.as_nanos();
            format!("{{\"domain\":0,\"tier\":{tier},\"read_bytes\":7,\"time_ns\":{time}}}\n")
        };
        program.write_all((text(0) + &text(1)).as_bytes()).unwrap();
        line += 2;
        until(&feed, |state| state.lines == line);
        let reading = feed.read().unwrap();
        let bytes: f64 = reading.traffic[0].iter().filter_map(|tier| tier.read_bytes).sum();
        (reading.span, bytes)
    };
    // The first line covers traffic that began at an unknown time, so it must not be counted. The
    // time stamp of this line may be earlier than the connection.
    assert_eq!(read(begun - Duration::from_millis(2)), (Duration::ZERO, 0.0));
    assert_eq!(read(begun + Duration::from_millis(5)), (Duration::from_millis(7), 14.0));
    // Time stamps in the distant past or in the future must be replaced by the arrival time.
    assert!(read(Duration::ZERO).0 > Duration::from_millis(20));
    let came = read(begun + Duration::from_secs(1 << 30)).0;
    assert!(came > Duration::ZERO && came < Duration::from_secs(1 << 20), "{came:?}");
}

#[test]
fn wrong_lines_are_reported_and_ignored() {
    let (folder, mut feed) = feed();
    let mut program = client(&folder);
    let good = "{\"domain\":0,\"tier\":0,\"read_bytes\":1}\n";
    let table = [
        ("{\"domain\":0}", "missing field `tier`"),
        ("nonsense", "\"nonsense\": expected"),
        ("{\"domain\":0,\"tier\":2}", "no such domain or tier: there are 2 and 2"),
        ("{\"domain\":9,\"tier\":0}", "no such domain or tier: there are 2 and 2"),
        ("{\"domain\":0,\"tier\":0,\"read_bytes\":-1}", "a count below 0"),
        ("{\"domain\":0,\"tier\":0,\"reads\":1}", "unknown field `reads`"),
        ("{\"domain\":0,\"tier\":0,\"read_bytes\":1e999}", "number out of range"),
    ];
    for (at, (line, why)) in table.iter().enumerate() {
        program.write_all(format!("{line}\n{good}").as_bytes()).unwrap();
        until(&feed, |state| state.lines as usize == at + 1);
        let state = feed.state();
        assert_eq!(state.wrong as usize, at + 1);
        let last = state.last_wrong.unwrap();
        assert!(last.contains(why), "{last}");
    }
    assert!(feed.describe().contains("7 lines, 7 wrong, the last one "), "{}", feed.describe());
    assert_eq!(feed.read().unwrap().traffic[0][0].read_bytes, Some(7.0));
    // A line that is too long must be discarded; later lines must still be read.
    for _ in 0..64 {
        program.write_all(&[b'x'; 65_536]).unwrap();
    }
    program.write_all(format!("\n{good}").as_bytes()).unwrap();
    until(&feed, |state| state.lines == 8 && state.wrong == 8);
    assert!(feed.state().last_wrong.unwrap().ends_with("too long"));
}

#[test]
fn a_socket_of_its_own() {
    let (folder, feed) = feed();
    let path = folder.path().join("feed");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let second = Feed::listen(&path, Access::default(), 1, 1).unwrap_err();
    assert!(matches!(second, SocketError::InUse(_)), "{second}");
    let program = client(&folder);
    drop(feed);
    assert!(!path.exists(), "it is removed, though a program is connected");
    drop(program);
    // A socket without a listener must be replaced; any other file must be left alone.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Feed::listen(&path, Access::default(), 1, 1).unwrap());
    fs::write(&path, "something").unwrap();
    let other = Feed::listen(&path, Access::default(), 1, 1).unwrap_err();
    assert!(matches!(other, SocketError::NoSocket(_)), "{other}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "something");
    let nowhere = Feed::listen(Path::new("/nowhere/feed"), Access::default(), 1, 1).unwrap_err();
    assert!(nowhere.to_string().starts_with("/nowhere/feed: "), "{nowhere}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half made is left");
}
