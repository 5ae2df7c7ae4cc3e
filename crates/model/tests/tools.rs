//! Tests that outputs of other tools are parsed, and that written files match the outputs of the
//! tools.

use interleaf_model::{
    curve::{Curve, CurvePoint},
    format::{
        curve_csv,
        mess_csv::{self, MessPoint},
        mlc_text::{self, LoadRow, Matrix, MaxBandwidth, Mlc, MlcTable, TRAFFIC},
    },
    mix::Mix,
    provenance::Figure,
    tier::{Curves, MixCurve},
};
use proptest::{prelude::*, sample::Index};

/// A complete output of MLC. The layout is MLC's; the numbers are invented.
const MLC: &str = "\
Intel(R) Memory Latency Checker - v3.11
Measuring idle latencies for random access (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t
       0\t  80.9\t 139.2\t
       1\t 140.1\t     -\t

Measuring Peak Injection Memory Bandwidths for the system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using all the threads from each core if Hyper-threading is enabled
Using traffic with the following read-write ratios
ALL Reads        :\t225630.8\t
3:1 Reads-Writes :\t209711.6\t
Stream-triad like:\t189614.3\t

Measuring Memory Bandwidths between nodes within system
Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)
Using Read-only traffic type
\t\tNuma node
Numa node\t     0\t     1\t
       0\t113275.7\t50690.5\t
       1\t50710.1\t113259.6\t

Measuring Loaded Latencies for the system
Using all the threads from each core if Hyper-threading is enabled
Using Read-only traffic type
Inject\tLatency\tBandwidth
Delay\t(ns)\tMB/sec
==========================
 00000\t260.93\t 225410.2
 00100\t120.50\t 180000.0
 20000\t 82.10\t   1500.5

Measuring cache-to-cache transfer latency (in ns)...
Local Socket L2->L2 HIT  latency\t38.1
";

#[test]
fn a_run_of_mlc_is_read() {
    assert!(mlc_text::is_one(MLC) && !mlc_text::is_one("mix,bandwidth_gbps\n"));
    let read = mlc_text::parse("mlc.txt", MLC).unwrap();
    let latency = read.latency.unwrap();
    assert_eq!(latency.memory, [0, 1]);
    assert_eq!(latency.rows[1], (1, vec![Some(140.1), None]));
    assert_eq!(read.bandwidth.unwrap().rows[0], (0, vec![Some(113_275.7), Some(50_690.5)]));
    let mixes: Vec<_> = read.most.iter().map(|most| Mlc::mix(&most.traffic)).collect();
    let mix = |name: &str| Some(name.parse::<Mix>().unwrap());
    assert_eq!(mixes, [mix("R"), mix("W3"), mix("W10")]);
    assert_eq!(read.most[1].mbps, 209_711.6);
    let [table] = &read.loaded[..] else { panic!("{:?}", read.loaded) };
    assert_eq!(Mlc::mix(&table.traffic), Some(Mix::READ));
    let (curve, left_out) = table.curve(&Figure::published("a run")).unwrap();
    assert_eq!((curve.points().len(), left_out, curve.idle_latency_ns()), (3, 0, 82.1));
    assert_eq!(curve.max_bandwidth_gbps(), 225.4102);
    assert_eq!(read.idle_ns, None);
    let idle = "Each iteration took 186.1 core clocks (\t80.9\tns)\n";
    assert_eq!(mlc_text::parse("mlc.txt", idle).unwrap().idle_ns, Some(80.9));
}

#[test]
fn errors_name_the_line_of_an_output() {
    let table = [
        ("120.50", "much", "mlc.txt:31: latency: \"much\" is not a number"),
        ("180000.0", "", "mlc.txt:31: loaded latencies: the row has 2 words"),
        ("180000.0", "-5", "mlc.txt:31: bandwidth: -5 is not above 0"),
        ("00100", "1e2", "mlc.txt:31: delay: \"1e2\" is not a whole number"),
        ("209711.6", "NaN", "mlc.txt:13: bandwidth: \"NaN\" is not a number"),
        (" 139.2", "", "mlc.txt:5: latency matrix: node \"0\" has 1 figures for 2 nodes"),
        ("113259.6", "x", "mlc.txt:22: bandwidth: \"x\" is not a number"),
    ];
    for (from, to, told) in table {
        let why = mlc_text::parse("mlc.txt", &MLC.replacen(from, to, 1)).unwrap_err();
        assert!(why.to_string().starts_with(told), "{why} for {from} -> {to}");
        assert!(!why.hint.is_empty());
    }
    let why = mlc_text::parse("mlc.txt", "nothing\n").unwrap_err();
    assert_eq!(why.to_string(), "mlc.txt: it has no figure of the Memory Latency Checker");
}

#[test]
fn a_complete_output_is_reproduced() {
    let read = mlc_text::parse("mlc.txt", MLC).unwrap();
    let printed = mlc_text::text(&read, 2.3);
    // Only lines with figures and their headings are compared, because `text` does not write MLC's
    // other lines.
    let figures = |text: &str| -> Vec<String> {
        let other = |line: &&str| {
            ["Intel", "Using all", "Measuring cache", "Local"].iter().any(|it| line.starts_with(it))
        };
        text.lines().map(str::trim_end).filter(|line| !other(line)).map(String::from).collect()
    };
    let (printed, was) = (figures(&printed), figures(MLC));
    assert_eq!(printed[..], was[..]);
}

#[test]
fn a_curve_goes_out_as_mess_writes_it() {
    let figure = Figure::assumed("test");
    let point = |(bandwidth_gbps, latency_ns): (f64, f64)| CurvePoint {
        bandwidth_gbps,
        latency_ns,
        figure: figure.clone(),
    };
    let curve =
        Curve::new([(0.0, 100.0), (50.0, 120.0), (90.0, 300.0)].map(point).to_vec()).unwrap();
    let of =
        |name: &str| MixCurve { domain: None, mix: name.parse().unwrap(), curve: curve.clone() };
    let curves = Curves::new(vec![of("R"), of("W5"), of("W10")]).unwrap();
    let (points, left_out) = mess_csv::points(&curves);
    assert_eq!(left_out, ["W10".parse::<Mix>().unwrap()]);
    let text = mess_csv::text(&points);
    assert_eq!(text.lines().nth(2).unwrap(), "100,1,50,0,1,120,0,50,120,0");
    assert_eq!(text.lines().nth(5).unwrap(), "50,1,50,0,0.5,120,0,50,120,1");
}

/// Generates numbers as tools print them, with `digits` decimals. Without the decimal point, a
/// number is a whole number from 1 to `most` - 1. For example, 1000 and 1 give 0.1 to 99.9.
fn printed(most: u64, digits: i32) -> impl Strategy<Value = f64> {
    (1..most).prop_map(move |number| number as f64 / f64::from(10_i32.pow(digits as u32)))
}

fn matrix() -> impl Strategy<Value = Matrix> {
    let nodes = prop::collection::vec(0..64_u32, 1..4);
    nodes.prop_flat_map(|memory| {
        let figures = prop::collection::vec(prop::option::of(printed(1_000_000, 1)), memory.len());
        let rows = prop::collection::vec((0..64_u32, figures), 1..4);
        rows.prop_map(move |rows| Matrix { memory: memory.clone(), rows })
    })
}

fn mlc() -> impl Strategy<Value = Mlc> {
    let row = (0..99_999_u32, printed(10_000_000, 2), printed(10_000_000, 1))
        .prop_map(|(delay, latency_ns, mbps)| LoadRow { delay, latency_ns, mbps });
    let traffic = prop::sample::select(&["", "Read-only", "W5"][..]);
    let table = (traffic, prop::collection::vec(row, 0..8))
        .prop_map(|(traffic, rows)| MlcTable { traffic: traffic.into(), rows });
    let most = (0..TRAFFIC.len(), printed(10_000_000, 1))
        .prop_map(|(which, mbps)| MaxBandwidth { traffic: TRAFFIC[which].0.into(), mbps });
    (
        prop::option::of(printed(100_000, 1)),
        prop::option::of(matrix()),
        prop::collection::vec(most, 0..5),
        prop::option::of(matrix()),
        prop::collection::vec(table, 0..3),
    )
        .prop_map(|(idle_ns, latency, most, bandwidth, loaded)| Mlc {
            idle_ns,
            latency,
            most,
            bandwidth,
            loaded,
        })
}

/// Returns the configuration of a test with 500 cases. Failing seeds are not stored: proptest would
/// store them beside a folder `src`, and an integration test is not in such a folder.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn printed_output_can_be_parsed(mlc in mlc(), clocks in 0.5..6.0_f64) {
        prop_assume!(mlc != Mlc::default());
        prop_assert_eq!(mlc_text::parse("a.txt", &mlc_text::text(&mlc, clocks)), Ok(mlc));
    }

    #[test]
    fn an_output_that_was_changed_is_read_or_refused(
        at in any::<Index>(), new in any::<char>(), number in any::<f64>(), line in any::<Index>(),
    ) {
        let mut text: Vec<char> = MLC.chars().collect();
        let at = at.index(text.len());
        text[at] = new;
        let text: String = text.into_iter().collect();
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        let line = line.index(lines.len());
        lines[line] = lines[line].replacen(|c: char| c.is_ascii_digit(), &number.to_string(), 1);
        for text in [text, lines.join("\n")] {
            if let Ok(read) = mlc_text::parse("a.txt", &text) {
                for table in &read.loaded {
                    let _ = table.curve(&Figure::assumed("test"));
                }
                let _ = mlc_text::text(&read, 1.0);
            }
        }
    }

    #[test]
    fn curves_come_back_from_both_tables(
        steps in prop::collection::vec((0.1..100.0_f64, 0.0..50.0_f64), 3..12),
        idle in 50.0..500.0_f64, percent in 50..=100_u32,
    ) {
        let (mut bandwidth_gbps, mut latency_ns) = (0.0, idle);
        let figure = mess_csv::measured("m.csv");
        let mut points = vec![];
        for (more, later) in steps {
            bandwidth_gbps += more;
            latency_ns += later;
            points.push(CurvePoint { bandwidth_gbps, latency_ns, figure: figure.clone() });
        }
        let mix = Mix::new(f64::from(percent) / 100.0, false).unwrap();
        let curve = Curve::new(points).unwrap();
        let curves = Curves::new(vec![MixCurve { domain: None, mix, curve }]).unwrap();
        let (points, _) = mess_csv::points(&curves);
        let read = mess_csv::parse("m.csv", &mess_csv::text(&points), &figure).unwrap();
        prop_assert_eq!(&read.curves, &curves);
        prop_assert_eq!(read.points_left_out, 0);
        let named: Mix = mix.to_string().parse().unwrap();
        let own = curve_csv::parse("c.csv", &curve_csv::text(&curves), &[]).unwrap();
        prop_assert_eq!(own.of(named).unwrap(), curves.of(mix).unwrap());
    }

    #[test]
    fn any_points_are_written_and_read_or_refused(
        points in prop::collection::vec((0..=110_u32, any::<f64>(), any::<f64>()), 0..9),
    ) {
        let point = |&(read_percent, bandwidth_gbps, latency_ns): &(u32, f64, f64)| MessPoint {
            read_percent,
            pause: 0.0,
            bandwidth_gbps,
            bandwidth_apart_gbps: 0.0,
            latency_ns,
            latency_apart_ns: 0.0,
        };
        let points: Vec<_> = points.iter().map(point).collect();
        let _ = mess_csv::parse("m.csv", &mess_csv::text(&points), &mess_csv::measured("m.csv"));
    }
}
