use super::*;

/// A reader of inherited files that finds no file.
fn no_file(_: &str) -> Result<String, (String, String)> {
    Err(("there is no file".into(), "name one".into()))
}

fn device(name: &str) -> Device {
    Device::by_name(name, &Options::default()).unwrap()
}

#[test]
fn every_module_exists_with_every_density_and_width() {
    let wanted = [
        "rdimm-4800-1r",
        "rdimm-4800-2r",
        "rdimm-5600-2r",
        "rdimm-6400-1r",
        "rdimm-6400-2r",
        "rdimm-6400-4r",
        "mrdimm-8000-2r",
        "mrdimm-8000-4r",
        "mrdimm-8800-2r",
        "mrdimm-8800-4r",
        "mrdimm-10400-2r",
        "mrdimm-10400-4r",
        "mrdimm-12800-2r",
        "mrdimm-12800-4r",
        "ddr4-3200-2r",
        "ddr3-1600",
        "stt-mram-ddr3",
    ];
    let names = names();
    for name in wanted {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
    for name in &names {
        device(name);
        if name.contains("rdimm") {
            for (density, rows) in [("16Gb", 65536), ("24Gb", 98304), ("32Gb", 131_072)] {
                for (width, columns) in [("x4", 128), ("x8", 64)] {
                    let options =
                        Options { density: Some(density.into()), width: Some(width.into()) };
                    let device = Device::by_name(name, &options).unwrap();
                    assert_eq!((device.rows, device.columns), (rows, columns), "{name}");
                }
            }
        }
    }
}

#[test]
fn ddr5_has_the_clocks_of_the_data_sheet() {
    // The expected clocks are the rows of the data sheet for 4400 (the DRAM of an MRDIMM-8800),
    // 4800 and 6400 MT/s.
    for (name, ras, ccd_l, wr, wr2, rtp, t_wr, rfc) in [
        ("mrdimm-8800-2r", 71, 11, 44, 22, 17, 66, 649),
        ("rdimm-4800-2r", 77, 12, 48, 24, 18, 72, 708),
        ("rdimm-6400-2r", 103, 16, 64, 32, 24, 96, 944),
    ] {
        let t = device(name).timing;
        assert_eq!(
            (t.t_ras, t.t_ccd_l, t.t_ccd_l_wr, t.t_ccd_l_wr2, t.t_rtp, t.t_wr, t.t_rfc),
            (ras, ccd_l, wr, wr2, rtp, t_wr, rfc),
            "{name}"
        );
        assert_eq!((t.t_rrd_s, t.t_faw, t.burst, t.t_rank), (8, 32, 8, 3));
        assert_eq!(t.cwl, t.cl - 2);
    }
}

#[test]
fn a_channel_is_as_wide_and_as_large_as_it_should_be() {
    let gib = |device: &Device| (device.bursts() * u64::from(device.burst_bytes())) >> 29;
    let table = [
        ("rdimm-6400-2r", 51.2, 64),
        ("mrdimm-8800-2r", 70.4, 64),
        ("mrdimm-8800-4r", 70.4, 128),
        ("mrdimm-12800-4r", 102.4, 128),
        ("rdimm-4800-1r", 38.4, 32),
    ];
    for (name, peak, size) in table {
        let device = device(name);
        assert_eq!((device.peak_gbps(), gib(&device)), (peak, size), "{name}");
        assert_eq!(device.burst_bytes(), 64);
    }
    assert_eq!(device("ddr4-3200-2r").peak_gbps(), 25.6);
    let mram = device("stt-mram-ddr3");
    assert_eq!((mram.columns, mram.timing.t_refi, mram.timing.t_rcd), (8, 0, 47));
}

#[test]
fn errors_name_the_line_of_a_device_file() {
    let text = include_str!("../../../../../devices/ddr5.toml");
    let name = Some("rdimm-6400-2r");
    let only = |text: &str| in_file("d.toml", text, name, &Options::default(), &no_file);
    assert!(only(text).is_ok());
    let table = [
        ("t_ras = [\"32 ns\"", "t_ras = [\"10 ns\"", "timing.t_ras: 10 ns is below t_rcd, 52"),
        ("t_ras = [\"32 ns\"", "t_ras = [\"32 us\"", "timing.t_ras: there is no unit \"us\""),
        ("t_ras = [\"32 ns\"", "t_ras = [\"32\"", "timing.t_ras: \"32\" has no unit"),
        ("t_ras = [", "t_raz = [", "unknown field `t_raz`"),
        ("t_refi = [\"3900 ns\", \"jedec\"]", "t_refi = [\"3900 ns\", \"me\"]", "is not a source"),
        ("t_refi = [\"3900 ns\"", "t_refi = [\"300 ns\"", "too short for a refresh of 944"),
        ("\"x8\", \"x16\"]", "\"x9\", \"x16\"]", "\"x9\" is not a width"),
        ("\"x8\", \"x16\"]", "\"x8\"]", "width.name: \"x16\" is not in geometry.widths"),
        ("rows = 65536", "rows = 0", "density.rows: 0 is not between 1 and"),
        ("speed = \"6400 MT/s\"", "speed = \"6401 MT/s\"", "there is no speed \"6401 MT/s\""),
        ("schema = \"interleaf.devices/1\"", "schema = \"x\"", "schema: \"x\" is not"),
        ("t_ccd_s = [\"8 nCK\"", "t_ccd_s = [\"7 nCK\"", "below burst, 8"),
    ];
    for (from, to, expected) in table {
        assert!(text.contains(from), "{from}");
        let message = only(&text.replacen(from, to, usize::MAX)).unwrap_err().to_string();
        assert!(message.starts_with("d.toml:"), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let wrong = Options { density: Some("48Gb".into()), width: None };
    let why = Device::by_name("rdimm-6400-2r", &wrong).unwrap_err();
    assert_eq!(why.hint(), "write one of 16Gb, 24Gb, 32Gb");
    assert!(
        Device::by_name("rdimm-1", &Options::default()).unwrap_err().hint().contains("ddr3-1600")
    );
    assert!(in_file("d.toml", text, None, &Options::default(), &no_file).is_err());
}

/// The expected geometry and timing are from Ramulator 2.1, `src/dram/impl`: DDR3.cpp, DDR4.cpp,
/// DDR5.cpp.
#[test]
fn devices_of_each_width_have_the_geometry_of_the_standard() {
    for (name, density, width, groups, rows, columns, timing) in [
        ("ddr4-3200-1r", "8Gb", "x4", 4, 1 << 17, 128, (4, 8, 16)),
        ("ddr4-3200-1r", "8Gb", "x8", 4, 1 << 16, 128, (4, 8, 34)),
        ("ddr4-3200-1r", "8Gb", "x16", 2, 1 << 16, 128, (9, 11, 48)),
        ("ddr4-2666-1r", "16Gb", "x4", 4, 1 << 18, 128, (4, 7, 16)),
        ("ddr4-2666-1r", "16Gb", "x16", 2, 1 << 17, 128, (8, 9, 40)),
        ("ddr3-1600", "4Gb", "x4", 1, 1 << 16, 256, (5, 5, 24)),
        ("rdimm-6400-1r", "16Gb", "x8", 8, 1 << 16, 64, (8, 16, 32)),
        ("rdimm-6400-1r", "16Gb", "x16", 4, 1 << 16, 64, (8, 16, 40)),
        ("rdimm-6400-1r", "32Gb", "x16", 4, 1 << 17, 64, (8, 16, 40)),
    ] {
        let options = Options { density: Some(density.into()), width: Some(width.into()) };
        let device = Device::by_name(name, &options).unwrap();
        let t = device.timing;
        let found = (device.bank_groups, device.rows, device.columns);
        assert_eq!(found, (groups, rows, columns), "{name} {density} {width}");
        assert_eq!((t.t_rrd_s, t.t_rrd_l, t.t_faw), timing, "{name} {density} {width}");
    }
}

/// A file whose module inherits from a built-in module, and has a faster speed bin of its own.
const FASTER: &str = r#"
schema = "interleaf.devices/1"
inherits = "rdimm-6400-2r"
[sources]
vendor = "a data sheet"
[[speed]]
rate = "7200 MT/s"
cl = ["58 nCK", "vendor"]
t_rcd = ["58 nCK", "vendor"]
t_rp = ["58 nCK", "core"]
[[module]]
name = "mine"
speed = "7200 MT/s"
"#;

/// A file that inherits from [`FASTER`], changes tFAW, tRFC and clocks of the speed bin of
/// [`FASTER`], and has two modules.
const TIGHTER: &str = r#"
schema = "interleaf.devices/1"
inherits = "faster.toml"
[timing]
t_faw = ["28 nCK", "assumed: a test"]
[[speed]]
rate = "7200 MT/s"
cl = ["50 nCK", "vendor"]
[[density]]
name = "16Gb"
t_rfc = ["250 ns", "assumed: a test"]
[[module]]
name = "tighter"
ranks = 1
[[module]]
name = "multiplexed"
multiplexed = true
"#;

fn inheriting(text: &str, name: Option<&str>) -> Result<Device, DeviceError> {
    let read = |file: &str| match file {
        "folder/faster.toml" => Ok(FASTER.to_string()),
        "folder/twins.toml" => Ok(TIGHTER.to_string()),
        "folder/circle.toml" => Ok(FASTER.replace("rdimm-6400-2r", "./own.toml")),
        other => no_file(other),
    };
    in_file("folder/own.toml", text, name, &Options::default(), &read)
}

#[test]
fn a_module_inherits_what_its_file_does_not_give() {
    let (base, mine) = (device("rdimm-6400-2r"), inheriting(FASTER, None).unwrap());
    assert_eq!((mine.name.as_str(), mine.family.as_str(), mine.ranks), ("mine", "ddr5", 2));
    assert_eq!((mine.kilotransfers, mine.timing.cl, mine.timing.cwl), (7_200_000, 58, 56));
    assert_eq!((mine.rows, mine.columns, mine.currents), (base.rows, base.columns, base.currents));
    let tighter = inheriting(TIGHTER, Some("tighter")).unwrap();
    assert_eq!((tighter.ranks, tighter.kilotransfers), (1, 7_200_000));
    let of = |device: &Device| {
        let t = device.timing;
        (t.cl, t.t_rcd, t.t_faw, t.t_rfc, t.t_rfc_sb)
    };
    assert_eq!(of(&mine), (58, 58, 32, 1062, 468));
    assert_eq!(of(&tighter), (50, 58, 28, 900, 468));
    let origins = &tighter.timing_origins;
    let assumed = |text: &str| origins.assumed.iter().any(|own| own == text);
    assert!(assumed("t_faw 28 nCK (a test)") && assumed("t_rfc 250 ns (a test)"), "{origins:?}");
    let from = |file: &str, name: &str| origins.inherited[file].iter().any(|own| own == name);
    assert!(from("ddr5.toml", "t_ras") && from("folder/faster.toml", "t_rcd"), "{origins:?}");
    assert!(!from("folder/faster.toml", "cl") && base.timing_origins.assumed.is_empty());
    let multiplexed = inheriting(TIGHTER, Some("multiplexed")).unwrap();
    assert_eq!((multiplexed.pseudo_channels, multiplexed.ranks), (2, 1));
}

#[test]
fn counts_that_bits_of_an_address_select_are_powers_of_two() {
    let geometry = |line: &str| format!("[geometry]\n{line}\n[[module]]");
    let bits = "addresses are mapped by bits";
    for (own, problem, range) in [
        ("[[module]]\nranks = 3".to_string(), "12: module.ranks: 3 is no power", "1 to 4"),
        (
            "[[module]]\nranks = 6\nmultiplexed = true".into(),
            "12: module.ranks: 6 is no power",
            "1 to 8",
        ),
        (geometry("banks = 3"), "12: geometry.banks: 3 is no power", "1 to 8"),
        (geometry("bank_groups = 6"), "12: geometry.bank_groups: 6 is no power", "1 to 8"),
        (geometry("page_bytes = 1000"), "12: geometry.page_bytes: 1000 is no", "8 to 65536"),
        (
            "[[width]]\nname = \"x4\"\nbank_groups = 3\n[[module]]".into(),
            "13: width.bank_groups: 3 is no power",
            "1 to 8",
        ),
        (
            "[[width]]\nname = \"x4\"\npage_bytes = 1000\n[[module]]".into(),
            "13: width.page_bytes: 1000 is no power",
            "8 to 65536",
        ),
    ] {
        let why = inheriting(&FASTER.replace("[[module]]", &own), None).unwrap_err();
        let message = why.to_string();
        assert!(message.starts_with(&format!("folder/own.toml:{problem}")), "{message}");
        assert_eq!(why.hint(), format!("write a power of two from {range}: {bits}"));
    }
    let burst = "[channel]\nburst = [\"10 nCK\", \"assumed: a test\"]\n\
                 [timing]\nt_ccd_s = [\"10 nCK\", \"assumed: a test\"]\n[[module]]";
    let why = inheriting(&FASTER.replace("[[module]]", burst), None).unwrap_err().to_string();
    assert!(why.contains("channel.burst: 80 bytes in a burst do not divide a row of"), "{why}");
}

#[test]
fn an_entry_that_is_there_twice_is_refused() {
    let speed = FASTER.split_once("[[speed]]").unwrap().1.split_once("[[module]]").unwrap().0;
    let density = "[[density]]\nname = \"16Gb\"\nrows = 65536\n";
    let width = "[[width]]\nname = \"x8\"\npage_bytes = 1024\n";
    let module = "[[module]]\nname = \"mine\"\nspeed = \"7200 MT/s\"\n";
    let currents = "[[currents.width]]\nname = \"x4\"\n";
    for (added, line, field) in [
        (format!("[[speed]]{speed}"), 15, "speed.rate: \"7200 MT/s\""),
        (density.repeat(2), 18, "density.name: \"16Gb\""),
        (width.repeat(2), 18, "width.name: \"x8\""),
        (module.into(), 15, "module.name: \"mine\""),
        (currents.repeat(2), 17, "currents.width.name: \"x4\""),
    ] {
        let why = inheriting(&format!("{FASTER}{added}"), None).unwrap_err().to_string();
        let expected = format!("folder/own.toml:{line}: {field} is there twice");
        assert!(why.starts_with(&expected), "{why}");
    }
    // A file without `inherits` (here: each built-in file) gives the same errors as an inheriting
    // file, for an unknown module and for a speed that occurs twice.
    for (file, text) in families::FILES {
        let whole = |text: &str| {
            in_file(file, text, Some("none"), &Options::default(), &no_file)
                .unwrap_err()
                .to_string()
        };
        assert!(whole(text).contains("it has no module \"none\""), "{}", whole(text));
        let rate = text.split_once("[[speed]]\nrate = \"").unwrap().1.split_once('"').unwrap().0;
        let twice = format!("{text}\n[[speed]]\nrate = \"{rate}\"\n");
        let line = twice.trim_end().lines().count();
        let expected = format!("{file}:{line}: speed.rate: \"{rate}\" is there twice");
        assert!(whole(&twice).starts_with(&expected), "{}", whole(&twice));
    }
}

#[test]
fn errors_of_a_chain_name_the_file_of_the_value() {
    let own = "folder/own.toml:";
    let table = [
        ("\"58 nCK\", \"core\"", "\"58 nCK\", \"me\"", own, "timing.t_rp: \"me\" is not a source"),
        ("\"rdimm-6400-2r\"", "\"rdimm-640-2r\"", own, "inherits: there is no device"),
        ("\"rdimm-6400-2r\"", "\"none.toml\"", own, "inherits: there is no file"),
        ("\"rdimm-6400-2r\"", "\"own.toml\"", own, "folder/own.toml -> folder/own.toml"),
        (
            "\"rdimm-6400-2r\"",
            "\"circle.toml\"",
            "folder/circle.toml:3: inherits",
            "a circle: folder/own.toml -> folder/circle.toml -> folder/own.toml",
        ),
        ("\"rdimm-6400-2r\"", "\"twins.toml\"", own, "folder/twins.toml has 2 modules"),
        ("\"rdimm-6400-2r\"", "\"twins.toml:a\"", own, "has no module \"a\""),
        ("vendor = ", "core = ", own, "sources.core: ddr5.toml has a source of this name"),
        ("t_rcd = [\"58", "t_rcd = [\"200", "ddr5.toml:36:", "timing.t_ras: 32 ns is below t_rcd"),
        ("t_rcd = [\"58", "t_rcd = [\"200", "ddr5.toml:36:", "folder/own.toml inherits it"),
        ("t_rcd = ", "t_rcx = ", own, "unknown field `t_rcx`"),
        ("speed = \"7200 MT/s\"", "speed = \"7200\"", own, "there is no speed \"7200\""),
        ("name = \"mine\"", "ranks = 1", own, "missing field `name`"),
        ("[[speed]]", "[speed]", own, "invalid type"),
        ("[[module]]", "[[module]]\nmultiplexed = 1", own, "expected a boolean"),
        ("[[module]]", "[[module]]\nranks = 5", own, "module.ranks: 5 is not between 1 and 4"),
        (
            "[[module]]",
            "[geometry]\nbanks = 8\n[[module]]\nranks = 4",
            own,
            "module.ranks: a channel with 256 banks: at most 128 are simulated",
        ),
        ("interleaf.devices/1", "interleaf.devices/2", own, "schema"),
        ("[sources]", "[sources", own, "unclosed table"),
    ];
    for (from, to, place, expected) in table {
        assert!(FASTER.contains(from), "{from}");
        let message = inheriting(&FASTER.replace(from, to), None).unwrap_err().to_string();
        assert!(message.starts_with(place), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let read = |file: &str| Ok(FASTER.replace("rdimm-6400-2r", &format!("a/{file}")));
    let endless = read("b.toml").unwrap();
    let why = in_file("c.toml", &endless, None, &Options::default(), &read).unwrap_err();
    assert!(why.to_string().contains("more than 8 files"), "{why}");
}
