//! Tests with mutated files: no parser panics, each error names the file and the line, and
//! predictions from accepted files are finite.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_model::{
    demand::Demand,
    format::{FileError, curve_csv, demand_toml, mess_csv, mlc_text, platform_toml},
    mix::Mix,
    platform::Platform,
    predict::{Forecast, Prediction, saturating_load},
    units::{Bandwidth, Bytes},
    weights::Weights,
};
use proptest::{prelude::*, sample::Index};
use std::{fs, path::PathBuf, sync::LazyLock};

/// A file of the repository's `platforms` or `workloads`: its name and its text.
struct Shipped {
    name: String,
    text: String,
}

static PLATFORMS: LazyLock<Vec<Shipped>> = LazyLock::new(|| shipped("platforms"));
static WORKLOADS: LazyLock<Vec<Shipped>> = LazyLock::new(|| shipped("workloads"));
static KNOWN: LazyLock<Vec<Platform>> = LazyLock::new(|| {
    let parsed = |file: &Shipped| platform_toml::parse(&file.name, &file.text, &curves_beside);
    PLATFORMS.iter().map(|file| parsed(file).unwrap()).collect()
});

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// Returns the TOML files of the folder `name`. They are sorted by name, so that the same seed
/// always mutates the same file.
fn shipped(name: &str) -> Vec<Shipped> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let read = |path: PathBuf| Shipped {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        text: fs::read_to_string(path).unwrap(),
    };
    let files: Vec<Shipped> = paths.into_iter().map(read).collect();
    assert!(!files.is_empty(), "there are no {name} to change");
    files
}

fn curves_beside(path: &str) -> Result<String, String> {
    // A mutated path must not lead out of the folder: reading `/dev/zero`, for example, would never
    // end.
    if path.contains("..") || path.starts_with('/') {
        return Err("it is elsewhere".into());
    }
    fs::read_to_string(folder("platforms").join(path)).map_err(|why| why.to_string())
}

/// A small file in the format of the Mess benchmark.
const MESS: &str = "read_pct_rounded,pause,bandwidth_mean,latency_mean\n\
                    100,1000,10,100\n100,100,50,120\n100,0,60,300\n\
                    50,1000,10,110\n50,100,40,130\n50,0,45,400\n";

/// A mutation of a file. The index chooses the place in the file.
#[derive(Clone, Debug)]
enum Mutation {
    Character(Index, char),
    Byte(Index, u8),
    DeleteLine(Index),
    DuplicateLine(Index),
    Number(Index, &'static str),
}

/// Numbers at and beyond the limits of valid ranges.
const EXTREMES: [&str; 12] = [
    "nan",
    "inf",
    "-inf",
    "-1",
    "1e308",
    "1e-308",
    "0",
    "-0.0",
    "1",
    "65536",
    "1e6",
    "9223372036854775807",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        1 => (any::<Index>(), any::<char>()).prop_map(|(at, c)| Mutation::Character(at, c)),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, b)| Mutation::Byte(at, b)),
        1 => any::<Index>().prop_map(Mutation::DeleteLine),
        1 => any::<Index>().prop_map(Mutation::DuplicateLine),
        // Numbers are mutated most often: most of the mutations that parsers accept change a
        // number.
        6 => (any::<Index>(), prop::sample::select(&EXTREMES[..]))
            .prop_map(|(at, number)| Mutation::Number(at, number)),
    ]
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    prop::collection::vec(mutation(), 1..4)
}

fn mutated(text: &str, mutations: &[Mutation]) -> String {
    mutations.iter().fold(text.to_string(), |text, mutation| mutate(&text, mutation))
}

fn mutate(text: &str, mutation: &Mutation) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.into();
    }
    match mutation {
        Mutation::Character(at, new) => {
            let mut characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len());
            characters[at] = *new;
            characters.into_iter().collect()
        }
        Mutation::Byte(at, new) => {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = *new;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Mutation::DeleteLine(at) => {
            let at = at.index(lines.len());
            [&lines[..at], &lines[at + 1..]].concat().join("\n")
        }
        Mutation::DuplicateLine(at) => {
            let at = at.index(lines.len());
            [&lines[..=at], &lines[at..]].concat().join("\n")
        }
        Mutation::Number(at, new) => {
            let numbers = numbers(text);
            if numbers.is_empty() {
                return text.into();
            }
            let (start, end) = numbers[at.index(numbers.len())];
            format!("{}{new}{}", &text[..start], &text[end..])
        }
    }
}

/// Returns the byte ranges of the numbers in `text`, except numbers in comments. The end of a range
/// is excluded.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = vec![];
    let mut comment = false;
    for (at, c) in text.char_indices() {
        comment = (comment || c == '#') && c != '\n';
        if comment || !(c.is_ascii_digit() || c == '.') {
            continue;
        }
        match found.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => found.push((at, at + 1)),
        }
    }
    found
}

fn three_to_one(tiers: usize) -> Weights {
    let weight = |tier| if tier == 0 { 3 } else { 1 };
    Weights::new((0..tiers).map(weight).collect()).unwrap()
}

fn sane(prediction: &Prediction) -> Result<(), TestCaseError> {
    for row in &prediction.rows {
        let bandwidth = row.bandwidth_gbps.mean;
        prop_assert!(bandwidth.is_finite() && bandwidth >= 0.0, "bandwidth {row:?}");
        prop_assert!(row.latency_ns.is_finite() && row.latency_ns >= 0.0, "latency {row:?}");
        prop_assert!(row.speedup.mean.is_finite(), "speedup {row:?}");
    }
    Ok(())
}

/// Checks that an error names its file, a remedy, and a line of the file. An error about the file
/// as a whole (such as a missing key) must name the field, the missing key or the mix instead of a
/// line.
fn check_error(why: &FileError, file: &str, text: &str) -> Result<(), TestCaseError> {
    let lines = text.lines().count().max(1);
    prop_assert_eq!(&why.file, file);
    prop_assert!(!why.problem.is_empty() && !why.hint.is_empty(), "{why:?}");
    match why.line {
        Some(line) => prop_assert!((1..=lines).contains(&line), "{why:?}"),
        None => {
            let whole = ["missing field", "mix"].iter().any(|part| why.problem.contains(part));
            prop_assert!(why.field.is_some() || whole, "{why:?}");
        }
    }
    Ok(())
}

fn predict_mix(platform: &Platform) -> Result<(), TestCaseError> {
    let weights = three_to_one(platform.tiers.len());
    sane(&saturating_load(platform, Mix::READ).predict(platform, &[weights]))
}

fn predict_demand(platform: &Platform, demand: &Demand) -> Result<(), TestCaseError> {
    let tiers = platform.tiers.len();
    // The parser does not know the platform, so it cannot check the number of weights; its caller
    // does. A demand with another number of weights than the platform has tiers is skipped here.
    let fits = demand.interleaved.iter().all(|run| run.weights.as_slice().len() == tiers);
    if !fits {
        return Ok(());
    }
    sane(&Forecast::new(platform, platform, demand).predict(32.0, &[three_to_one(tiers)]))
}

/// Runs every parser on `text` and ignores the results: the parsers must not panic.
fn parse_all(text: &str) {
    let _ = platform_toml::parse("p.toml", text, &|_| Ok(text.into()));
    let _ = curve_csv::parse("c.csv", text, &["cpu"]);
    let _ = mess_csv::parse("m.csv", text, &mess_csv::measured("m.csv"));
    let _ = mess_csv::is_one(text);
    let _ = mlc_text::parse("m.txt", text);
    let _ = mlc_text::is_one(text);
    let _ = demand_toml::parse("d.toml", text);
    let _ = text.parse::<Bytes>();
    let _ = text.parse::<Bandwidth>();
    let _ = text.parse::<Mix>();
    let _ = text.parse::<Weights>();
}

/// Returns the configuration of a test with `cases` cases. Failing seeds are not stored: proptest
/// would store them beside a folder `src`, and an integration test is not in such a folder.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn any_text(text in any::<String>()) {
        parse_all(&text);
    }

    /// Short texts of characters that the formats use. They reach more code of the parsers than
    /// random texts do.
    #[test]
    fn any_token(text in "[-+0-9.eE:_/,=\\[\\]{}\"#\nRWntGKMiBs é]{0,40}") {
        parse_all(&text);
    }

    #[test]
    fn changed_mess_tables(mutations in mutations()) {
        let text = mutated(MESS, &mutations);
        match mess_csv::parse("m.csv", &text, &mess_csv::measured("m.csv")) {
            Ok(mess) => {
                let response = mess.curves.answer("cpu", Mix::READ).response;
                prop_assert!(response.max_bandwidth_gbps() > 0.0);
            }
            Err(why) => check_error(&why, "m.csv", &text)?,
        }
    }
}

/// Clears the file positions of the values: a file written by `demand_toml::text` has them in other
/// lines.
fn without_places(mut demand: Demand) -> Demand {
    demand.local.iter_mut().for_each(|run| run.bandwidth_place.clear());
    demand.interleaved.iter_mut().for_each(|run| run.weights_place.clear());
    demand
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn changed_platforms(which in any::<Index>(), mutations in mutations()) {
        let file = which.get(&PLATFORMS);
        let text = mutated(&file.text, &mutations);
        match platform_toml::parse(&file.name, &text, &curves_beside) {
            Ok(platform) => predict_mix(&platform)?,
            Err(why) => check_error(&why, &file.name, &text)?,
        }
    }

    #[test]
    fn changed_curves(which in any::<Index>(), mutations in mutations()) {
        let file = which.get(&PLATFORMS);
        let curves = |path: &str| curves_beside(path).map(|text| mutated(&text, &mutations));
        match platform_toml::parse(&file.name, &file.text, &curves) {
            Ok(platform) => predict_mix(&platform)?,
            Err(why) => {
                prop_assert!(why.file.ends_with(".csv"), "{why:?}");
                let text = curves(&why.file).unwrap();
                check_error(&why, &why.file, &text)?;
            }
        }
    }

    #[test]
    fn changed_workloads(which in any::<Index>(), mutations in mutations()) {
        let file = which.get(&WORKLOADS);
        // No prediction is made in this test: many files with mutated numbers are accepted, and a
        // prediction from each of them would take minutes.
        let text = mutated(&file.text, &mutations);
        match demand_toml::parse(&file.name, &text) {
            Ok(demand) => {
                let written = demand_toml::text(&demand);
                let read = demand_toml::parse("written.toml", &written).map(without_places);
                prop_assert_eq!(read, Ok(without_places(demand)));
            }
            Err(why) => check_error(&why, &file.name, &text)?,
        }
    }
}

proptest! {
    // To infer a workload's behaviour takes tenths of a second, so there are fewer cases.
    #![proptest_config(config(100))]

    #[test]
    fn changed_workloads_can_be_predicted(which in any::<Index>(), mutations in mutations()) {
        let file = which.get(&WORKLOADS);
        if let Ok(demand) = demand_toml::parse(&file.name, &mutated(&file.text, &mutations)) {
            let own = |known: &&Platform| Some(&known.name) == demand.platform.as_ref();
            predict_demand(KNOWN.iter().find(own).unwrap_or(&KNOWN[0]), &demand)?;
        }
    }
}
