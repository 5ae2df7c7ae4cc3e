//! Reads and writes the output of Intel's Memory Latency Checker.
//!
//! The output is text for people, and is parsed line by line. The known lines:
//!
//! ```text
//! Each iteration took 186.1 core clocks (   80.9    ns)
//! Measuring idle latencies for random access (in ns)...
//!                 Numa node
//! Numa node            0       1
//!        0         80.9   139.2
//! ALL Reads        :      225630.8
//! Measuring Loaded Latencies for the system
//! Using Read-only traffic type
//! Inject  Latency Bandwidth
//! Delay   (ns)    MB/sec
//! ==========================
//!  00000  260.93   225410.2
//! ```
//!
//! A MB of MLC is 10^6 bytes. Lines of other forms are skipped. In a row of a table or matrix of
//! this form, text other than numbers is an error, except for a dash in a matrix.

use super::FileError;
use crate::{
    curve::{BANDWIDTH_LIMIT_GBPS, Curve, CurveError, CurvePoint, LATENCY_LIMIT_NS},
    mix::Mix,
    provenance::Figure,
};
use std::fmt::Write;

/// The figures that a run of MLC printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mlc {
    /// Idle latency, ns, that MLC prints with `--idle_latency`: one figure for one CPU and one
    /// node, which the output does not name.
    pub idle_ns: Option<f64>,
    /// Idle latency from each node with CPUs to each node with memory, ns; `None` if the output has
    /// no such matrix.
    pub latency: Option<Matrix>,
    /// Maximum bandwidth of each traffic mix that MLC measured.
    pub most: Vec<MaxBandwidth>,
    /// Bandwidth from each node with CPUs to each node with memory, MB/s; `None` if the output has
    /// no such matrix.
    pub bandwidth: Option<Matrix>,
    /// Tables of latency under load, one for each traffic mix.
    pub loaded: Vec<MlcTable>,
}

/// A matrix of latencies or bandwidths, from nodes with CPUs to nodes with memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    /// The nodes with memory.
    pub memory: Vec<u32>,
    /// The rows of the matrix: a node with CPUs, and a figure for each node in `memory`; `None`
    /// where MLC prints a dash.
    pub rows: Vec<(u32, Vec<Option<f64>>)>,
}

/// The maximum bandwidth of a traffic mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxBandwidth {
    /// MLC's name of the traffic mix, from [`TRAFFIC`].
    pub traffic: String,
    /// Maximum bandwidth of the mix, MB/s.
    pub mbps: f64,
}

/// A table of latency under load, for one traffic mix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MlcTable {
    /// MLC's name of the traffic mix, such as `Read-only`; empty if the output has no name.
    pub traffic: String,
    /// The rows, in the order of MLC's output.
    pub rows: Vec<LoadRow>,
}

/// A row of an [`MlcTable`]: one injected delay, with the latency and bandwidth at this delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadRow {
    /// The delay that MLC injects between accesses, cycles.
    pub delay: u32,
    /// Latency at this delay, ns.
    pub latency_ns: f64,
    /// Bandwidth at this delay, MB/s.
    pub mbps: f64,
}

/// The traffic mixes whose maximum bandwidth MLC measures: pairs of MLC's name and the name of the
/// `Mix`.
pub const TRAFFIC: [(&str, &str); 5] = [
    ("ALL Reads", "R"),
    ("3:1 Reads-Writes", "W3"),
    ("2:1 Reads-Writes", "W2"),
    ("1:1 Reads-Writes", "W5"),
    ("Stream-triad like", "W10"),
];

/// The section of MLC's output that a line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Other,
    Latency,
    Bandwidth,
    Loaded,
}

/// The first words of the heading of each section, with the section. The first entry that matches a
/// line counts; the last entry matches the headings of all other sections. The headings are needed
/// because matrices of bandwidths and of latencies look alike.
const PARTS: [(&str, Part); 4] = [
    ("Measuring idle latencies", Part::Latency),
    ("Measuring Memory Bandwidths between nodes", Part::Bandwidth),
    ("Measuring Loaded Latencies", Part::Loaded),
    ("Measuring", Part::Other),
];

impl Mlc {
    /// Returns the mix that MLC calls `traffic`; `None` if the name is unknown.
    pub fn mix(traffic: &str) -> Option<Mix> {
        if traffic.eq_ignore_ascii_case("Read-only") {
            return Some(Mix::READ);
        }
        let named = TRAFFIC.iter().find(|(theirs, _)| *theirs == traffic);
        named.map_or(traffic, |(_, ours)| ours).parse().ok()
    }
}

impl MlcTable {
    /// Builds the curve through the rows. Also returns the number of rows that were left out as
    /// outliers.
    ///
    /// # Errors
    /// If the table has no rows, or a latency or bandwidth is out of range.
    pub fn curve(&self, figure: &Figure) -> Result<(Curve, usize), CurveError> {
        let point = |row: &LoadRow| CurvePoint {
            bandwidth_gbps: row.mbps / 1000.0,
            latency_ns: row.latency_ns,
            figure: figure.clone(),
        };
        Curve::from_measured(self.rows.iter().map(point).collect())
    }
}

/// Parses the words of one line of MLC's output. Errors name the file and the line.
struct Reader<'a> {
    file: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn error(&self, field: &str, problem: String, hint: &str) -> FileError {
        FileError {
            file: self.file.into(),
            line: Some(self.line),
            field: Some(field.into()),
            problem,
            hint: hint.into(),
        }
    }

    /// Parses a number above 0 and at most `most`.
    fn number(&self, field: &str, text: &str, most: f64) -> Result<f64, FileError> {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        let Some(number) = number else {
            let problem = format!("\"{text}\" is not a number");
            return Err(self.error(field, problem, "give the output as it was printed"));
        };
        if number > 0.0 && number <= most {
            return Ok(number);
        }
        let problem = format!("{text} is not above 0 and at most {most}");
        Err(self.error(field, problem, "latencies are in ns, bandwidths in MB/s of 10^6 bytes"))
    }

    fn ns(&self, text: &str) -> Result<f64, FileError> {
        self.number("latency", text, LATENCY_LIMIT_NS)
    }

    fn mbps(&self, text: &str) -> Result<f64, FileError> {
        self.number("bandwidth", text, 1000.0 * BANDWIDTH_LIMIT_GBPS)
    }

    fn row(&self, words: &[&str]) -> Result<LoadRow, FileError> {
        let [delay, latency, bandwidth] = words else {
            let problem = format!("the row has {} words, the table has 3 columns", words.len());
            return Err(self.error("loaded latencies", problem, "they are delay, ns and MB/sec"));
        };
        let Ok(cycles) = delay.parse() else {
            let problem = format!("\"{delay}\" is not a whole number of cycles");
            return Err(self.error("delay", problem, "give the output as it was printed"));
        };
        Ok(LoadRow { delay: cycles, latency_ns: self.ns(latency)?, mbps: self.mbps(bandwidth)? })
    }

    fn matrix_row(&self, matrix: &mut Matrix, part: Part, words: &[&str]) -> Result<(), FileError> {
        let field = if part == Part::Latency { "latency matrix" } else { "bandwidth matrix" };
        let hint = "a row is the number of a node, and a figure for each node above";
        let Some(node) = words[0].parse().ok().filter(|_| words.len() == matrix.memory.len() + 1)
        else {
            let (has, columns) = (words.len() - 1, matrix.memory.len());
            let problem = format!("node \"{}\" has {has} figures for {columns} nodes", words[0]);
            return Err(self.error(field, problem, hint));
        };
        let figure = |text: &&str| match (*text, part) {
            ("-", _) => Ok(None),
            (text, Part::Latency) => self.ns(text).map(Some),
            (text, _) => self.mbps(text).map(Some),
        };
        let figures = words[1..].iter().map(figure).collect::<Result<_, _>>()?;
        matrix.rows.push((node, figures));
        Ok(())
    }

    /// Parses the node numbers in the header of a matrix.
    fn nodes(&self, words: &[&str]) -> Result<Vec<u32>, FileError> {
        let node = |text: &&str| {
            text.parse().map_err(|_| {
                let problem = format!("\"{text}\" is not the number of a node");
                self.error("Numa node", problem, "give the output as it was printed")
            })
        };
        words.iter().map(node).collect()
    }
}

/// Reads the figures in `text`, the output of MLC in the file `file`.
///
/// # Errors
/// If a row of a table or matrix has text other than numbers (dashes are allowed in a matrix) or a
/// wrong number of them, if a figure is out of range, or if `text` has no figure at all.
pub fn parse(file: &str, text: &str) -> Result<Mlc, FileError> {
    let mut mlc = Mlc::default();
    let (mut part, mut traffic) = (Part::Other, String::new());
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let reader = Reader { file, line: at + 1 };
        let line = line.trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((_, found)) = PARTS.iter().find(|(begin, _)| line.starts_with(begin)) {
            (part, traffic, open) = (*found, String::new(), false);
        } else if let Some(rest) = line.strip_prefix("Using ") {
            if let Some(named) = rest.strip_suffix("traffic type") {
                traffic = named.trim().into();
            }
        } else if line.is_empty() {
            open = false;
        } else if let Some(rest) = line.strip_prefix("Each iteration took") {
            mlc.idle_ns = Some(reader.ns(iteration(rest))?);
        } else if let Some(most) = most(&reader, line)? {
            mlc.most.push(most);
        } else if part == Part::Loaded && line.starts_with("====") {
            mlc.loaded.push(MlcTable { traffic: traffic.clone(), rows: vec![] });
            open = true;
        } else if let (Part::Loaded, true, Some(table)) = (part, open, mlc.loaded.last_mut()) {
            table.rows.push(reader.row(&words)?);
        } else if let Part::Latency | Part::Bandwidth = part {
            let place = if part == Part::Latency { &mut mlc.latency } else { &mut mlc.bandwidth };
            if let Some(nodes) = line.strip_prefix("Numa node").filter(|rest| !rest.is_empty()) {
                let nodes: Vec<&str> = nodes.split_whitespace().collect();
                *place = Some(Matrix { memory: reader.nodes(&nodes)?, rows: vec![] });
                open = true;
            } else if let (true, Some(matrix)) = (open, place) {
                reader.matrix_row(matrix, part, &words)?;
            }
        }
    }
    if mlc == Mlc::default() {
        return Err(FileError {
            file: file.into(),
            line: None,
            field: None,
            problem: "it has no figure of the Memory Latency Checker".into(),
            hint: "give what mlc printed, such as that of mlc --loaded_latency".into(),
        });
    }
    Ok(mlc)
}

/// Returns the number of ns, as text, in a text such as ` 186.1 core clocks ( 80.9 ns)`: `80.9`.
fn iteration(rest: &str) -> &str {
    let inside = rest.split_once('(').map_or(rest, |(_, inside)| inside);
    inside.split_once("ns").map_or(inside, |(number, _)| number).trim()
}

/// Reads a line with the maximum bandwidth of a traffic mix. Returns `None` for every other line.
fn most(reader: &Reader<'_>, line: &str) -> Result<Option<MaxBandwidth>, FileError> {
    // The name of a traffic mix may contain colons, so the line is split at its last colon.
    let Some((name, number)) = line.rsplit_once(':') else { return Ok(None) };
    let Some((traffic, _)) = TRAFFIC.iter().find(|(traffic, _)| *traffic == name.trim()) else {
        return Ok(None);
    };
    let mbps = reader.mbps(number.trim())?;
    Ok(Some(MaxBandwidth { traffic: (*traffic).into(), mbps }))
}

/// True if `text` looks like an output of MLC.
pub fn is_one(text: &str) -> bool {
    let known = |line: &str| {
        let line = line.trim();
        line.starts_with("Intel(R) Memory Latency Checker")
            || PARTS[..3].iter().any(|(begin, _)| line.starts_with(begin))
            || line.starts_with("Each iteration took")
            || TRAFFIC.iter().any(|(name, _)| line.starts_with(name))
    };
    text.lines().any(known)
}

/// Writes the figures in MLC's layout. Bandwidths have one decimal. Latencies have two decimals in
/// tables of latency under load, and one elsewhere. `clocks_per_ns` converts the idle latency to
/// core clocks.
pub fn text(mlc: &Mlc, clocks_per_ns: f64) -> String {
    let mut out = String::new();
    // Writing to memory does not fail, so the result is ignored.
    let _ = write(&mut out, mlc, clocks_per_ns);
    out
}

fn write(out: &mut String, mlc: &Mlc, clocks_per_ns: f64) -> std::fmt::Result {
    const UNIT: &str = "Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)";
    if let Some(ns) = mlc.idle_ns {
        let clocks = ns * clocks_per_ns;
        writeln!(out, "Each iteration took {clocks:.1} core clocks (\t{ns:.1}\tns)\n")?;
    }
    if let Some(matrix) = &mlc.latency {
        writeln!(out, "Measuring idle latencies for random access (in ns)...")?;
        write_matrix(out, matrix)?;
    }
    if !mlc.most.is_empty() {
        writeln!(out, "Measuring Peak Injection Memory Bandwidths for the system\n{UNIT}")?;
        writeln!(out, "Using traffic with the following read-write ratios")?;
        for MaxBandwidth { traffic, mbps } in &mlc.most {
            writeln!(out, "{traffic:<17}:\t{mbps:.1}\t")?;
        }
        writeln!(out)?;
    }
    if let Some(matrix) = &mlc.bandwidth {
        writeln!(out, "Measuring Memory Bandwidths between nodes within system\n{UNIT}")?;
        writeln!(out, "Using Read-only traffic type")?;
        write_matrix(out, matrix)?;
    }
    for MlcTable { traffic, rows } in &mlc.loaded {
        writeln!(out, "Measuring Loaded Latencies for the system")?;
        if !traffic.is_empty() {
            writeln!(out, "Using {traffic} traffic type")?;
        }
        writeln!(out, "Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec")?;
        writeln!(out, "==========================")?;
        for LoadRow { delay, latency_ns, mbps } in rows {
            writeln!(out, " {delay:05}\t{latency_ns:6.2}\t{mbps:9.1}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_matrix(out: &mut String, matrix: &Matrix) -> std::fmt::Result {
    write!(out, "\t\tNuma node\nNuma node\t")?;
    for node in &matrix.memory {
        write!(out, "{node:6}\t")?;
    }
    for (node, figures) in &matrix.rows {
        write!(out, "\n{node:8}\t")?;
        for figure in figures {
            match figure {
                Some(figure) => write!(out, "{figure:6.1}\t")?,
                None => write!(out, "     -\t")?,
            }
        }
    }
    writeln!(out, "\n")
}
