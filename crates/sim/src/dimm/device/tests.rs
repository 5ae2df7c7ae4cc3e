use super::*;

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
    // The table of the data sheet: 4400, 4800, 6400.
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
    let only = |text: &str| in_file("d.toml", text, Some("rdimm-6400-2r"), &Options::default());
    assert!(only(text).is_ok());
    let table = [
        ("t_ras = [\"32 ns\"", "t_ras = [\"10 ns\"", "timing.t_ras: 10 ns is below t_rcd, 52"),
        ("t_ras = [\"32 ns\"", "t_ras = [\"32 us\"", "timing.t_ras: there is no unit \"us\""),
        ("t_ras = [\"32 ns\"", "t_ras = [\"32\"", "timing.t_ras: \"32\" has no unit"),
        ("t_ras = [", "t_raz = [", "unknown field `t_raz`"),
        ("t_refi = [\"3900 ns\", \"jedec\"]", "t_refi = [\"3900 ns\", \"me\"]", "no source"),
        ("t_refi = [\"3900 ns\"", "t_refi = [\"300 ns\"", "too short for a refresh of 944"),
        ("\"x8\"]  ", "\"x9\"]  ", "\"x9\" is no width"),
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
    assert!(in_file("d.toml", text, None, &Options::default()).is_err());
}
