use super::*;
use proptest::prelude::*;

const MEMORY: AddressLimits = AddressLimits { bytes: 1 << 40, mega_transfers: 6400 };

fn request(at_ps: u64, write: bool, address: u64) -> TraceRequest {
    TraceRequest { at_ps, write, address }
}

fn read(bytes: &[u8]) -> Result<Vec<TraceRequest>, FileError> {
    Trace::new("t", bytes, None, MEMORY)?.collect()
}

#[test]
fn each_format_is_recognised_and_read() {
    let text = b"# time kind address\n0 R 0x40\n\n12.5 W 128\r\n13.125 R 0xFF\n";
    let expected = [request(0, false, 64), request(12_500, true, 128), request(13_125, false, 255)];
    assert_eq!(read(text).expect("it is a trace"), expected);
    let ramulator = b"LD 0x40\nST 128\n0x80 R\n256 W\n";
    let expected =
        [(false, 64), (true, 128), (false, 128), (true, 256)].map(|(w, a)| request(0, w, a));
    assert_eq!(read(ramulator).expect("it is a trace"), expected);
    // A cycle of DDR5-6400 is 312.5 ps: three cycles are 937.5 ps.
    let dramsim3 = b"0x40 READ 0\n0x80 WRITE 2\n0xC0 P_MEM_RD 3";
    let expected = [request(0, false, 64), request(625, true, 128), request(937, false, 192)];
    assert_eq!(read(dramsim3).expect("it is a trace"), expected);
    for (format, name) in Format::ALL {
        assert_eq!(name.parse(), Ok(format));
    }
    assert!("csv".parse::<Format>().is_err_and(|why| why.contains("dramsim3")));
}

#[test]
fn errors_name_line_and_field() {
    let table: [(&[u8], &str); 19] = [
        (b"", "t: the trace has no request"),
        (b"# nothing\n\n", "t: the trace has no request"),
        (b"1 R 0x40\n2 X 0x40", "t:2: kind: \"X\" is neither a read nor a write"),
        (b"1 R 0x40\n\n2 r 0x40", "t:3: kind: \"r\" is neither a read nor a write"),
        (b"1 R 0x40\n2 R", "t:2: line: the line has 2 words, not 3"),
        (b"1 R 0x40 # here", "t:1: line: the line has 5 words, not 3"),
        (b"1 R 40h", "t:1: address: \"40h\" is not an address"),
        (b"1 R 0x", "t:1: address: \"0x\" is not an address"),
        (b"1 R -1", "t:1: address: \"-1\" is not an address"),
        (b"1 R +1", "t:1: address: \"+1\" is not an address"),
        (b"1ns R 1", "t:1: time: \"1ns\" is not a time"),
        (b"1.2345 R 1", "t:1: time: \"1.2345\" is not a time"),
        (b"-1 R 1", "t:1: time: \"-1\" is not a time"),
        (b"2 R 1\n1.5 R 1", "t:2: time: 1.500 ns is before the request above it, 2.000 ns"),
        (
            b"1 R 0x10000000000",
            "t:1: address: 0x10000000000 is beyond the memory, which has 0x10000000000 bytes",
        ),
        (
            b"R 0,0,1,2,3,4",
            "t:1: address: \"0,0,1,2,3,4\" is a place in one memory, not an address",
        ),
        (b"LD 0x40\nSD 0x40", "t:2: kind: \"SD\" is neither a read nor a write"),
        (b"0x40 FETCH 3", "t:1: kind: \"FETCH\" is neither a read nor a write"),
        (b"0x40 READ 3.5", "t:1: time: \"3.5\" is not a cycle"),
    ];
    for (bytes, message) in table {
        let why = read(bytes).expect_err(message);
        assert_eq!(why.to_string(), message);
        assert!(!why.hint.is_empty());
    }
    let why = read(b"1 R \xff\xfe").expect_err("it is not text");
    assert_eq!(why.to_string(), "t:1: line: the line is not text");
}

#[test]
fn a_damaged_binary_trace_is_refused() {
    let mut writer = binary::Writer::default();
    writer.push(request(1_000_000, true, 1 << 39));
    let good = writer.into_bytes();
    assert_eq!(read(&good).expect("it is a trace"), [request(1_000_000, true, 1 << 39)]);
    for end in binary::MAGIC.len() + 1..good.len() {
        let why = read(&good[..end]).expect_err("it is cut").to_string();
        assert!(why.contains("record 0 at byte 8") && why.contains("ends within"), "{why}");
    }
    let mut other = good.clone();
    other[7] = 9;
    let why = Trace::new("t", &other, Some(Format::Binary), MEMORY).expect_err("another version");
    assert!(why.to_string().contains("version 9"), "{why}");
    let behind = [&binary::MAGIC[..], &[0, 1]].concat();
    let why = read(&behind).expect_err("no line is before the first").to_string();
    assert!(why.contains("address: the number leads out of 64 bits"), "{why}");
    let endless = [&binary::MAGIC[..], &[0xff; 12]].concat();
    assert!(read(&endless).expect_err("endless").to_string().contains("does not end"));
    let wide = [&binary::MAGIC[..], &[0xff; 9], &[0x7f, 0]].concat();
    assert!(read(&wide).expect_err("wide").to_string().contains("over 64 bits"));
    assert!(Trace::new("t", b"1 R 0", Some(Format::Binary), MEMORY).is_err());
}

proptest! {
    #[test]
    fn a_binary_trace_round_trips(
        steps in prop::collection::vec((0_u64..1 << 40, any::<bool>(), 0_u64..1 << 34), 1..100),
    ) {
        let mut at_ps = 0;
        let requests: Vec<TraceRequest> = steps
            .into_iter()
            .map(|(step, write, line)| {
                at_ps += step;
                request(at_ps, write, line * 64)
            })
            .collect();
        let mut writer = binary::Writer::default();
        requests.iter().for_each(|request| writer.push(*request));
        let bytes = writer.into_bytes();
        prop_assert_eq!(read(&bytes), Ok(requests.clone()));
        let trace = Trace::new("t", &bytes, None, MEMORY).expect("it is a trace");
        prop_assert_eq!(trace.count_all(), Ok(requests.len() as u64));
    }

    #[test]
    fn no_bytes_make_it_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        marked: bool,
    ) {
        if marked {
            bytes.splice(0..0, binary::MAGIC);
        }
        for format in [None, Some(Format::Text), Some(Format::Ramulator), Some(Format::Dramsim3)] {
            if let Ok(trace) = Trace::new("t", &bytes, format, MEMORY) {
                let _ = trace.count_all();
            }
        }
    }
}
