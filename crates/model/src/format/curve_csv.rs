//! CSV files with the curves of a tier. Each line is a point; the points of a mix are in the order
//! of offered load.
//!
//! ```text
//! mix,bandwidth_gbps,latency_ns,provenance,source
//! R,0,122,published,Mess results for this server
//! R,556,390,published,"white paper, section III"
//! ```
//!
//! An optional column `domain` restricts a point to one domain; a point without a domain is valid
//! for every domain.

use super::{FileError, table::Table};
use crate::{
    curve::{Curve, CurvePoint},
    mix::{Mix, MixError},
    provenance::{Figure, Provenance},
    tier::{Curves, CurvesError, MixCurve},
};

const REQUIRED: [&str; 5] = ["mix", "bandwidth_gbps", "latency_ns", "provenance", "source"];

/// The points of one mix and domain, with their line numbers.
struct Group<'a> {
    domain: Option<String>,
    mix: Mix,
    /// The mix as the file writes it.
    mix_text: &'a str,
    points: Vec<CurvePoint>,
    lines: Vec<usize>,
}

/// Reads the curves in `text`, the content of the file `file`. `domains` are the valid names of
/// domains.
///
/// # Errors
/// If a column is missing or unknown (the header of this module shows the columns), if a domain is
/// not among `domains`, or if the points of a mix are not a valid curve ([`Curve::new`]).
pub fn parse(file: &str, text: &str, domains: &[&str]) -> Result<Curves, FileError> {
    let table = Table::read(file, text, &REQUIRED, Some(&["domain"]))?;
    let mut groups: Vec<Group<'_>> = vec![];
    for row in table.rows() {
        let mix_text = table.text(row, "mix");
        let mix: Mix = mix_text
            .parse()
            .map_err(|why: MixError| table.error(row, "mix", why.to_string(), MixError::hint()))?;
        let provenance: Provenance = table.text(row, "provenance").parse().map_err(
            |why: crate::provenance::ProvenanceError| {
                let hint = "say how the figure came to be: measured, published, simulated, assumed";
                table.error(row, "provenance", why.to_string(), hint.into())
            },
        )?;
        let source = table.text(row, "source").to_string();
        if source.is_empty() {
            let hint = "name the record, paper or reason the figure comes from";
            return Err(table.error(row, "source", "it is empty".into(), hint.into()));
        }
        let domain = Some(table.text(row, "domain")).filter(|domain| !domain.is_empty());
        if let Some(domain) = domain.filter(|domain| !domains.contains(domain)) {
            let problem = format!("there is no domain \"{domain}\"");
            let hint = format!("the platform's domains are {}", domains.join(", "));
            return Err(table.error(row, "domain", problem, hint));
        }
        let point = CurvePoint {
            bandwidth_gbps: table.number(row, "bandwidth_gbps")?,
            latency_ns: table.number(row, "latency_ns")?,
            figure: Figure { provenance, source },
        };
        let same = |group: &&mut Group<'_>| group.mix == mix && group.domain.as_deref() == domain;
        match groups.iter_mut().find(same) {
            Some(group) => {
                if !group.mix_text.eq_ignore_ascii_case(mix_text) {
                    let twice = CurvesError::Twice(mix.to_string());
                    let problem = format!("{twice}, \"{}\" and \"{mix_text}\"", group.mix_text);
                    let hint = "leave one of them out, or write the mix of all its points alike";
                    return Err(table.error(row, "mix", problem, hint.into()));
                }
                group.points.push(point);
                group.lines.push(row.line);
            }
            None => groups.push(Group {
                domain: domain.map(String::from),
                mix,
                mix_text,
                points: vec![point],
                lines: vec![row.line],
            }),
        }
    }
    let curves = groups.into_iter().map(|group| curve(file, group)).collect::<Result<_, _>>()?;
    Curves::new(curves).map_err(|why: CurvesError| FileError {
        file: file.into(),
        line: None,
        field: None,
        problem: why.to_string(),
        hint: "write at least one row: mix,bandwidth_gbps,latency_ns,provenance,source".into(),
    })
}

fn curve(file: &str, group: Group<'_>) -> Result<MixCurve, FileError> {
    let Group { domain, mix, points, lines, .. } = group;
    let curve = Curve::new(points).map_err(|why| FileError {
        file: file.into(),
        line: Some(why.point().map_or(lines[0], |point| lines[point])),
        field: Some(format!("curve of {mix}")),
        problem: why.to_string(),
        hint: why.hint().into(),
    })?;
    Ok(MixCurve { domain, mix, curve })
}

/// Writes `curves` in the form that [`parse`] reads.
pub fn text(curves: &Curves) -> String {
    let domains = curves.iter().any(|curve| curve.domain.is_some());
    let mut writer = csv::Writer::from_writer(vec![]);
    let mut header = REQUIRED.to_vec();
    if domains {
        header.push("domain");
    }
    let mut rows = vec![header.iter().map(ToString::to_string).collect::<Vec<_>>()];
    for MixCurve { domain, mix, curve } in curves.iter() {
        for point in curve.points() {
            let mut row = vec![
                mix.to_string(),
                point.bandwidth_gbps.to_string(),
                point.latency_ns.to_string(),
                point.figure.provenance.to_string(),
                point.figure.source.clone(),
            ];
            if domains {
                row.push(domain.clone().unwrap_or_default());
            }
            rows.push(row);
        }
    }
    for row in rows {
        // Writing to memory does not fail, so the result is ignored.
        let _ = writer.write_record(row);
    }
    writer
        .into_inner()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_of_two_names_is_refused() {
        let rows = |name: &str| {
            format!("{name},0,100,assumed,a test\n{name},50,200,assumed,a test\n").to_string()
        };
        let header = "mix,bandwidth_gbps,latency_ns,provenance,source\n";
        let read = |a: &str, b: &str| parse("c.csv", &[header, &rows(a), &rows(b)].concat(), &[]);
        for (a, b, mix) in [("R", "1.0nt", "R"), ("W7", "W10", "W10"), ("2:1", "W2", "W2")] {
            let why = read(a, b).unwrap_err().to_string();
            let expected =
                format!("c.csv:4: mix: the mix {mix} has two curves, \"{a}\" and \"{b}\"");
            assert!(why.starts_with(&expected), "{why}");
        }
        assert!(read("R", "W2").is_ok() && read("1.0nt/random", "R").is_ok());
    }
}
