//! The numbers that differ between the rows of a sweep. A number is in its own column, or is a
//! tier's parameter in the name of the platform (`xeon6-cz122:cxl.count=4`).

use super::{SweepRow, Varied};
use interleaf_model::{parameters, units::Bytes};
use std::collections::BTreeMap;

/// A number that a sweep varies.
#[derive(Clone, Debug)]
pub enum Number {
    /// The number has its own column.
    Column(Varied),
    /// The number is a tier's parameter, such as `cxl.count`, in the platform column.
    Parameter(String),
}

impl Number {
    /// Returns the tier's parameter, such as `cxl.count`, whose value differs between rows with the
    /// same platform. Returns `None` unless all platforms have parameters with the same names,
    /// exactly one parameter differs, and all of its values are numbers.
    pub(super) fn of_parameters(rows: &[SweepRow]) -> Option<Self> {
        let mut firsts = BTreeMap::new();
        let (_, names) = parsed(&rows.first()?.platform);
        let mut key: Option<&str> = None;
        for row in rows {
            let (base, own) = parsed(&row.platform);
            let is_alike = own.len() == names.len()
                && own.iter().zip(&names).all(|((own, _), (name, _))| own == name);
            if !is_alike {
                return None;
            }
            let first: &Vec<(&str, &str)> = firsts.entry(base).or_insert_with(|| own.clone());
            for ((name, value), (_, other)) in own.iter().zip(first) {
                if value != other && *key.get_or_insert(*name) != *name {
                    return None;
                }
            }
        }
        let number = Self::Parameter(key?.into());
        rows.iter().all(|row| number.known(row).is_some()).then_some(number)
    }

    /// Returns the name of the column or of the parameter.
    pub fn name(&self) -> &str {
        match self {
            Self::Column(varied) => varied.column,
            Self::Parameter(name) => name,
        }
    }

    /// Returns the name with its unit, for an axis.
    pub fn label(&self) -> String {
        match self {
            Self::Column(varied) => varied.label.into(),
            Self::Parameter(name) if name.ends_with(".capacity") => format!("{name}, GiB"),
            Self::Parameter(name) => name.clone(),
        }
    }

    /// Returns the value of this number in a row, in the unit of `label`; 0 if the row has no
    /// value.
    pub fn value(&self, row: &SweepRow) -> f64 {
        self.known(row).unwrap_or(0.0)
    }

    fn known(&self, row: &SweepRow) -> Option<f64> {
        let name = match self {
            Self::Column(varied) => return Some((varied.value)(row)),
            Self::Parameter(name) => name,
        };
        let (_, own) = parsed(&row.platform);
        let (_, text) = own.into_iter().find(|(key, _)| key == name)?;
        match name.rsplit_once('.')?.1 {
            "count" => text.parse::<u32>().ok().map(f64::from),
            "capacity" => {
                let bytes = text.parse::<Bytes>().ok()?.get();
                Some(bytes as f64 / f64::from(1 << 30))
            }
            _ => None,
        }
    }
}

/// Splits the text of a platform into the platform's name and pairs of (parameter, value).
fn parsed(platform: &str) -> (&str, Vec<(&str, &str)>) {
    let (name, text) = parameters::split(platform);
    let pairs = text.into_iter().flat_map(|text| text.split(','));
    (name, pairs.filter_map(|pair| pair.split_once('=')).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use crate::sweep::{COLUMNS, SweepDocument, header};

    /// Returns a sweep that has two rows for each platform. The rows differ in the error of the
    /// curves that the policy uses.
    fn sweep(platforms: &[&str]) -> SweepDocument {
        let mut text = header(&COLUMNS) + "\n";
        for (case, platform) in platforms.iter().enumerate() {
            for error in ["0", "0.1"] {
                let case = format!("{case},\"{platform}\",s,lbm,4,1073741824,dmi,,0.02,{error}");
                text += &case;
                text += ",2,1,10,1.2,3:1,9,0.1,0.01,5,3:1,0,0,100,a,b\n";
            }
        }
        SweepDocument::read("a.csv", &text).unwrap()
    }

    #[test]
    fn a_parameter_of_a_tier_is_the_horizontal_axis() {
        let platforms = ["p:cxl.count=4", "p:cxl.count=8", "p:cxl.count=16"];
        let figures = sweep(&platforms).figures();
        assert_eq!(figures.len(), 2, "regret and speed-up, each for all platforms");
        assert_eq!(
            (&figures[0].x_label[..], &figures[0].title[..]),
            ("cxl.count", "regret of a run")
        );
        assert_eq!(figures[0].series[0].x, [4.0, 8.0, 16.0]);
        let sizes = ["p:cxl.count=4,dram.capacity=512GiB", "p:cxl.count=4,dram.capacity=1TiB"];
        let varied = &sweep(&sizes).varied()[0];
        assert_eq!(
            (&varied.0.label()[..], &varied.1[..]),
            ("dram.capacity, GiB", &[512.0, 1024.0][..])
        );
    }

    #[test]
    fn each_platform_has_a_figure_of_its_own() {
        let platforms = ["p:cxl.count=4", "p:cxl.count=8", "p:cxl.count=6", "q:cxl.count=8"];
        let figures = sweep(&platforms).figures();
        let [p, q, ..] = &figures[..] else { panic!("two platforms") };
        assert_eq!((&p.title[..], &q.title[..]), ("regret of a run: p", "regret of a run: q"));
        assert_eq!((&p.series[0].x[..], &q.series[0].x[..]), (&[4.0, 6.0, 8.0][..], &[8.0][..]));
    }

    #[test]
    fn platforms_that_differ_otherwise_have_figures_of_their_own() {
        for platforms in [
            ["p:cxl.count=4", "q:dram.count=8", "p:cxl.count=8"],
            [
                "p:cxl.count=4,dram.count=4",
                "p:cxl.count=8,dram.count=8",
                "p:cxl.count=8,dram.count=4",
            ],
            ["p", "p:cxl.count=8", "p:cxl.count=4"],
            ["p:cxl.count=4", "p:cxl.count=many", "p:cxl.count=8"],
        ] {
            let sweep = sweep(&platforms);
            assert_eq!(sweep.varied()[0].0.name(), "curve_error", "{platforms:?}");
            assert_eq!(sweep.figures().len(), 6, "{platforms:?}");
        }
    }
}
