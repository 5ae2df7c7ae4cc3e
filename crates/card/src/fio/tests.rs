#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{
    value::{Depths, block, flag, runtime, size, time},
    *,
};
use proptest::prelude::*;

#[test]
fn sizes_are_those_of_fio() {
    for (text, bytes) in [
        ("4k", 4096),
        ("4K", 4096),
        ("4kb", 4096),
        ("4096", 4096),
        ("512", 512),
        ("1m", 1 << 20),
        ("2g", 2 << 30),
        ("1t", 1 << 40),
        ("0", 0),
        ("16b", 16),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for (text, word) in [
        ("", "not a size"),
        ("k", "not a size"),
        ("4x", "not a size"),
        ("-4k", "not a size"),
        ("4.5k", "not a size"),
        ("4ki", "ambiguous"),
        ("4KiB", "ambiguous"),
        ("4k,8k", "each direction"),
        ("4k-8k", "range"),
        ("99999999999t", "2^63"),
        ("99999999999999999999", "not a size"),
    ] {
        let why = size(text).unwrap_err();
        assert!(why.problem.contains(word), "{text}: {why}");
    }
}

#[test]
fn blocks_are_whole_logical_blocks() {
    for (text, bytes) in [("512", 512), ("4k", 4096), ("1m", 1 << 20), ("1536", 1536)] {
        assert_eq!(block(text), Ok(bytes));
    }
    for (text, word) in [("511", "multiple"), ("4097", "multiple"), ("0", "between"), ("2m", "1m")]
    {
        let why = block(text).unwrap_err();
        assert!(why.problem.contains(word), "{text}: {why}");
    }
}

#[test]
fn times_are_those_of_fio() {
    for (text, ns) in [
        ("1s", 1_000_000_000),
        ("1", 1_000_000_000),
        ("500ms", 500_000_000),
        ("10us", 10_000),
        ("2m", 120_000_000_000),
        ("1h", 3_600_000_000_000),
        ("0", 0),
    ] {
        assert_eq!(time(text), Ok(ns), "{text}");
    }
    for (text, word) in [
        ("", "not a time"),
        ("s", "not a time"),
        ("1.5s", "not a time"),
        ("-1s", "not a time"),
        ("1 s", "not a time"),
        ("5y", "not a time"),
        ("2h", "longer than 1h"),
        ("1d", "longer than 1h"),
        ("18446744073709551615", "longer than 1h"),
    ] {
        let why = time(text).unwrap_err();
        assert!(why.problem.contains(word), "{text}: {why}");
    }
    assert!(runtime("0s").unwrap_err().problem.contains("nothing is measured"));
}

#[test]
fn depths_are_lists_and_doubling_ranges() {
    for (text, depths) in [
        ("1", &[1][..]),
        ("1,2,4", &[1, 2, 4]),
        ("1..256", &[1, 2, 4, 8, 16, 32, 64, 128, 256]),
        ("3..20", &[3, 6, 12, 20]),
        ("7..7", &[7]),
        ("32, 1..4", &[32, 1, 2, 4]),
        ("40000..65535", &[40_000, 65_535]),
    ] {
        assert_eq!(text.parse(), Ok(Depths(depths.to_vec())), "{text}");
    }
    for (text, word) in [
        ("", "not a queue depth"),
        ("0", "not a queue depth"),
        ("65536", "not a queue depth"),
        ("1,,2", "not a queue depth"),
        ("4..1", "4 is above 1"),
        ("1..", "not a queue depth"),
        ("1,2,1", "twice"),
        ("1..4,2", "twice"),
    ] {
        let why = text.parse::<Depths>().unwrap_err();
        assert!(why.problem.contains(word), "{text}: {why}");
    }
}

#[test]
fn a_size_is_a_part_of_the_card() {
    let of = |text: &str| text.parse::<Size>().unwrap().of(1 << 30);
    assert_eq!([of("100%"), of("10k"), of("1g")], [1 << 30, 10_240, 1 << 30]);
    assert_eq!(of("50%"), (1 << 30) / 100 * 50);
    for text in ["0", "0%", "101%", "x%"] {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }
}

#[test]
fn jobs_are_checked_against_the_card() {
    let card = crate::card::Card::by_name("all-mram").unwrap();
    let parse = |text: &str| {
        let check = |jobs: &[Job]| load::load(jobs, &card).map(|_| ());
        file::parse("a.fio", text, &FioOptions::default(), &check)
    };
    let groups = parse("[a]\nrw=read\nruntime=2ms\n[b]\nrw=randwrite\nsize=50%\n").unwrap();
    let load = load::load(&groups[0], &card).unwrap();
    assert_eq!(load.groups.len(), 2);
    assert_eq!(load.stop, crate::load::Stop::Time(2_000_000_000_000));
    assert_eq!(load.groups[1].size, Some((1 << 30) / 100 * 50));
    for (text, expected) in [
        ("[a]\nrw=read\niodepth=2000\n", "a.fio:3: iodepth: all-mram: 2000"),
        ("[a]\nrw=read\nsize=64g\n", "a.fio:3: size: all-mram: "),
        ("[a]\nrw=read\nsize=1k\n", "a.fio:3: size: all-mram: 1024 bytes are less"),
        ("[a]\nrw=read\nnumjobs=17\n", "a.fio:3: numjobs: all-mram: 17 jobs"),
        ("[a]\nrw=read\nnumjobs=9\n[b]\nrw=read\nnumjobs=9\n", "a.fio:6: numjobs: "),
        ("[a]\nrw=read\nruntime=1\n[b]\nrw=read\nruntime=2\n", "a.fio:6: runtime: a and b"),
    ] {
        let why = parse(text).unwrap_err();
        assert!(why.to_string().starts_with(expected), "{text:?}: {why}");
    }
}

fn parse(text: &str) -> Result<Vec<Vec<Job>>, interleaf_model::format::FileError> {
    file::parse("a.fio", text, &FioOptions::default(), &|_| Ok(())).map_err(|why| match why {
        file::JobError::File(why) => why,
        file::JobError::CommandLine(why) => panic!("{why}"),
    })
}

#[test]
fn a_job_file_has_groups_of_jobs() {
    let text = "\
; a comment
[global]
bs=8k
ioengine=libaio
direct=1
time_based
runtime=2

[reader]
rw = randread
iodepth=32
filename=/dev/nvme0n1
# another comment
[writer]
rw=randwrite
norandommap
rwmixread=70
rw=randrw
[global]
numjobs=4
[later]
stonewall
rw=read
bs=128k
";
    let groups = parse(text).unwrap();
    let names: Vec<Vec<&str>> =
        groups.iter().map(|group| group.iter().map(|job| job.name.as_str()).collect()).collect();
    assert_eq!(names, [vec!["reader", "writer"], vec!["later"]]);
    let [reader, writer] = &groups[0][..] else { panic!("{groups:?}") };
    assert_eq!((reader.bs, reader.iodepth, reader.numjobs), (8192, 32, 1));
    assert_eq!((reader.runtime_ns, reader.norandommap), (Some(2_000_000_000), false));
    assert_eq!((writer.rw, writer.rwmixread), (Access::RandomMixed, 70));
    assert_eq!((writer.iodepth, writer.norandommap), (1, true));
    assert_eq!((groups[1][0].bs, groups[1][0].numjobs), (131_072, 4));
}

#[test]
fn global_options_that_a_job_ignores_are_no_error() {
    let text = "[global]\nrwmixread=70\nnorandommap\n[mixed]\nrw=randrw\n[reader]\nrw=read\n";
    let groups = parse(text).unwrap();
    let [mixed, reader] = &groups[0][..] else { panic!("{groups:?}") };
    assert_eq!((mixed.rwmixread, mixed.norandommap), (70, true));
    assert!(!reader.norandommap);
    let wrong = parse(&format!("{text}rwmixread=30\n")).unwrap_err();
    assert!(wrong.to_string().starts_with("a.fio:8: rwmixread: read has one direction"), "{wrong}");
    let over = FioOptions { norandommap: Some(true), ..FioOptions::default() };
    let wrong = file::parse("a", text, &over, &|_| Ok(())).unwrap_err();
    assert!(matches!(wrong, file::JobError::CommandLine(_)), "{wrong}");
}

#[test]
fn the_command_line_replaces_options_of_every_job() {
    let over = FioOptions { iodepth: Some(64), seed: Some(7), ..FioOptions::default() };
    let text = "[a]\nrw=read\niodepth=2\n[b]\nrw=write\n";
    let groups = file::parse("a", text, &over, &|_| Ok(())).unwrap();
    assert!(groups[0].iter().all(|job| job.iodepth == 64 && job.seed == Some(7)));
}

#[test]
fn a_job_replaces_the_engine_of_the_global_section() {
    let parse = |job: &str, global: &str| {
        let text = format!("[global]\nioengine={global}\n[a]\nrw=read\niodepth=2\n{job}");
        file::parse("a", &text, &FioOptions::default(), &|_| Ok(()))
    };
    assert_eq!(parse("ioengine=libaio\n", "psync").unwrap()[0][0].iodepth, 2);
    assert!(parse("", "psync").is_err());
    assert!(parse("ioengine=psync\n", "libaio").is_err());
}

#[test]
fn errors_name_the_file_the_line_and_the_option() {
    for (text, expected, hint) in [
        (
            "[a]\nrw=randread\nverify=crc32c\n",
            "a.fio:3: verify: the option is not modelled",
            "the options are",
        ),
        (
            "[a]\nrw=randread\niodpeth=4\n",
            "a.fio:3: iodpeth: the option is not modelled",
            "is iodepth meant",
        ),
        ("[a]\nbs=4k\n", "a.fio:1: rw: it is missing", "randread"),
        ("[a]\nrw=trim\n", "a.fio:2: rw: trim is not modelled", "one of read"),
        ("[a]\nrw=read\nbs=4097\n", "a.fio:3: bs: 4097 is not a multiple of 512", "512 to 1m"),
        ("[a]\nrw=read\niodepth=1..4\n", "a.fio:3: iodepth: \"1..4\" is not", "from 1 to"),
        ("[a]\nrw=read\ndirect=0\n", "a.fio:3: direct: I/O through the page cache", "leave"),
        ("[a]\nrw=read\nrwmixwrite=3\n", "a.fio:3: rwmixread: read has one direction", "randrw"),
        ("[a]\nrw=read\nnorandommap\n", "a.fio:3: norandommap: the offsets of read", "randread"),
        (
            "[a]\nrw=read\nioengine=psync\niodepth=8\n",
            "a.fio:4: iodepth: the I/O engine psync",
            "libaio",
        ),
        ("[a]\nrw=read\nioengine=null\n", "a.fio:3: ioengine: the I/O engine \"null\"", "libaio"),
        ("rw=read\n", "a.fio:1: \"rw=read\" is in no section", "[global]"),
        ("[a\nrw=read\n", "a.fio:1: [a is not a header", "[job]"),
        ("[]\nrw=read\n", "a.fio:1: [] is not a header", "[job]"),
        ("", "a.fio:1: it has no job", "[job]"),
        ("[global]\nrw=read\n", "a.fio:2: it has no job", "[job]"),
        ("[a]\nrw=read\nnumjobs\n", "a.fio:3: numjobs: \"\" is not a number of jobs", "from 1"),
        ("[a]\nrw=read\nruntime=0\n", "a.fio:3: runtime: in a time of 0", "1s"),
        ("[a]\nrw=read\nrwmixread=101\n", "a.fio:3: rwmixread: 101 is out of range", "to 100"),
        ("[a]\nrw=read\nrate_iops=1k\n", "a.fio:3: rate_iops: \"1k\" is not", "from 1"),
    ] {
        let why = parse(text).unwrap_err();
        assert!(why.to_string().starts_with(expected), "{text:?}: {why}");
        assert!(why.hint.contains(hint), "{text:?}: {}", why.hint);
    }
}

#[test]
fn every_listed_option_is_accepted() {
    for (name, reason) in WITHOUT_EFFECT {
        parse(&format!("[a]\nrw=read\n{name}=1\n")).unwrap();
        assert!(!reason.is_empty() && !MODELLED.contains(&name), "{name}");
    }
    for name in MODELLED {
        let value = match name {
            "rw" | "readwrite" => "randrw",
            "bs" | "blocksize" => "4k",
            "ioengine" => "io_uring",
            _ => "1",
        };
        parse(&format!("[a]\nrw=randrw\n{name}={value}\n")).unwrap();
    }
    assert_eq!(flag("yes").unwrap_err().allowed, "0 or 1");
}

proptest! {
    /// Any text is parsed or refused without a panic, and an error names a line of the file.
    #[test]
    fn any_text_is_read_or_refused(
        lines in prop::collection::vec(
            prop_oneof![
                Just("[global]".to_string()),
                Just("[a]".to_string()),
                Just("rw=randrw".to_string()),
                "[a-z_]{0,9}=[0-9a-z%,.]{0,9}",
                "(bs|size|iodepth|runtime|rate_iops|numjobs)=[0-9]{0,22}[kmgt%]?",
                ".{0,12}",
            ],
            0..12,
        ),
    ) {
        let text = lines.join("\n");
        if let Err(why) = parse(&text) {
            let lines = text.lines().count().max(1);
            prop_assert!(why.line.is_some_and(|line| (1..=lines).contains(&line)));
            prop_assert!(!why.problem.is_empty() && !why.hint.is_empty());
        }
    }
}

#[test]
fn the_default_size_of_loads_and_stores_is_the_bar() {
    let mut card = crate::card::by_name("all-mram").unwrap();
    card.bar.as_mut().unwrap().bytes = 64 << 20;
    let memory =
        memory::MemoryOptions { initiator: crate::memory_mode::Initiator::Processor, fsync: None };
    let of = |size| {
        let options =
            FioOptions { rw: Some(Access::RandomRead), bs: Some(64), size, ..Default::default() };
        memory::load(&options.job("").unwrap(), &memory, &card)
    };
    assert_eq!(of(None).unwrap().size, Some(64 << 20));
    assert_eq!(of(Some(Size::Percent(50))).unwrap().size, Some((64 << 20) / 100 * 50));
    assert_eq!(of(Some(Size::Bytes(65 << 20))).unwrap_err().option, "size");
}
