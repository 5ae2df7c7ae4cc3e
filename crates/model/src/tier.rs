//! Tiers: pools of memory with uniform speed.

use crate::{
    curve::{Curve, CurveError, Response},
    mix::Mix,
    provenance::{Figure, Provenance},
    units::Bytes,
};
use std::{fmt, str::FromStr};

/// The kind of memory of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TierKind {
    /// DIMMs on the channels of the processor itself.
    Dram,
    /// An expander behind a CXL link.
    Cxl,
    /// Non-volatile memory that programs address as memory.
    Nvram,
    /// A file or a drive that stores pages.
    Storage,
}

impl TierKind {
    /// All kinds, with their names.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Dram, "dram"),
        (Self::Cxl, "cxl"),
        (Self::Nvram, "nvram"),
        (Self::Storage, "storage"),
    ];
}

impl fmt::Display for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Self::ALL[*self as usize];
        f.write_str(name)
    }
}

impl FromStr for TierKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.iter().find(|(_, name)| *name == text);
        kind.map(|(kind, _)| *kind).ok_or_else(|| format!("there is no kind of tier \"{text}\""))
    }
}

/// A pool of memory with uniform speed, and its curves.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// The name of the tier, unique on the platform.
    pub name: String,
    /// The kind of memory.
    pub kind: TierKind,
    /// The capacity of the tier.
    pub capacity: Bytes,
    /// The curves, for each domain and mix.
    pub curves: Curves,
    /// The power of the tier; `None` if the platform has no figures for it.
    pub power: Option<TierPower>,
    /// The limit of the counters of the tier's request queue; `None` if no limit is known.
    pub queue_counters: Option<QueueCounters>,
    /// The number of channels or expanders to which the curves and the capacity apply; `None` if
    /// unknown.
    pub count: Option<u32>,
}

/// The limit of the counters that observe the request queue of a tier.
///
/// Reads beyond the limit wait before the queue and are not counted. The latency that Little's law
/// gives from the counted reads is then lower than the latency that threads observe. Example: 500
/// GB/s of reads are 7.8 lines/ns, so 1,150 counted reads give 147 ns, however long the threads
/// wait.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueCounters {
    /// Maximum number of outstanding reads that the counters count.
    pub reads_max: f64,
    /// The provenance and the source of `reads_max`.
    pub figure: Figure,
}

/// The power of a tier: a static part, and a part that is proportional to the traffic.
///
/// At 15 pJ/bit, 500 GB/s take 500e9 x 8 x 15e-12 = 60 W.
#[derive(Clone, Debug, PartialEq)]
pub struct TierPower {
    /// Power of all devices of the tier without traffic, W.
    pub static_w: f64,
    /// Energy of each bit that is read or written, pJ, on the bit's whole path.
    pub energy_pj_per_bit: f64,
    /// The provenance and the source of `static_w` and `energy_pj_per_bit`.
    pub figure: Figure,
}

/// The power, W, of traffic of 1 GB/s at 1 pJ/bit: 8 x 10^9 x 10^-12.
const W_PER_GBPS_PJ: f64 = 8e-3;

impl TierPower {
    /// The power of traffic of `gbps` GB/s, W, without the static power.
    pub fn traffic_w(&self, gbps: f64) -> f64 {
        W_PER_GBPS_PJ * gbps * self.energy_pj_per_bit
    }
}

/// The curve of a tier for one mix. It applies to the traffic of one domain or of all domains.
#[derive(Clone, Debug, PartialEq)]
pub struct MixCurve {
    /// The domain whose traffic has this curve. `None` stands for every domain that has no curve of
    /// its own for this mix.
    pub domain: Option<String>,
    /// The mix of the traffic.
    pub mix: Mix,
    /// Loaded latency against bandwidth.
    pub curve: Curve,
}

/// The curves of a tier, for all domains and mixes.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves(Vec<MixCurve>);

/// The reason why curves are not valid as the curves of a tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurvesError {
    /// The tier has no curve.
    #[error("there is no curve")]
    Empty,
    /// Two curves have the same mix and the same domain. The field is the text of the mix.
    #[error("the mix {0} has two curves")]
    Twice(String),
}

/// The response of a tier to a mix, with its provenance.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Bandwidth and latency against bytes in flight.
    pub response: Response,
    /// The reason for an extrapolation; `None` if the response is not extrapolated.
    pub extrapolated: Option<String>,
    /// The weakest provenance of the curves from which the response was made.
    pub provenance: Provenance,
}

impl Curves {
    /// Builds the curves of a tier.
    ///
    /// # Errors
    /// If `curves` is empty, or has two curves for the same domain and mix.
    pub fn new(curves: Vec<MixCurve>) -> Result<Self, CurvesError> {
        if curves.is_empty() {
            return Err(CurvesError::Empty);
        }
        for (at, curve) in curves.iter().enumerate() {
            let same = |other: &MixCurve| other.domain == curve.domain && other.mix == curve.mix;
            if curves[..at].iter().any(same) {
                return Err(CurvesError::Twice(curve.mix.to_string()));
            }
        }
        Ok(Self(curves))
    }

    /// Returns the curves with all bandwidths multiplied by `factor`.
    ///
    /// # Errors
    ///
    /// If a bandwidth is then out of range.
    pub fn scaled(&self, factor: f64) -> Result<Self, CurveError> {
        self.scaled_by(|_| factor)
    }

    /// Returns the curves with changed bandwidths: `factor` is called with the mix of each curve,
    /// and returns the factor by which all bandwidths of the curve are multiplied.
    ///
    /// # Errors
    ///
    /// If a bandwidth is then out of range.
    pub fn scaled_by(&self, factor: impl Fn(Mix) -> f64) -> Result<Self, CurveError> {
        self.each(|own| own.curve.scaled(factor(own.mix)))
    }

    /// Returns the curves with all latencies multiplied by `factor`.
    ///
    /// # Errors
    ///
    /// If a latency is then out of range.
    pub fn slowed(&self, factor: f64) -> Result<Self, CurveError> {
        self.each(|own| own.curve.slowed(factor))
    }

    fn each(
        &self,
        map: impl Fn(&MixCurve) -> Result<Curve, CurveError>,
    ) -> Result<Self, CurveError> {
        let mapped = |own: &MixCurve| Ok(MixCurve { curve: map(own)?, ..own.clone() });
        self.0.iter().map(mapped).collect::<Result<_, _>>().map(Self)
    }

    /// Every curve, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &MixCurve> {
        self.0.iter()
    }

    /// The first curve of exactly the mix `mix`, for any domain; `None` if the tier has no curve of
    /// this mix.
    pub fn of(&self, mix: Mix) -> Option<&Curve> {
        self.0.iter().find(|curve| curve.mix == mix).map(|curve| &curve.curve)
    }

    /// Returns the response of the tier to `mix` from `domain`.
    ///
    /// A mix between two known mixes of its family ([`Mix::is_of_family`]) is interpolated by read
    /// share. In three cases the answer is marked as an extrapolation:
    ///
    /// - A mix outside of the known read shares gets the curve of the nearest read share.
    /// - A mix whose kind of stores or order of accesses no curve has is interpolated between the
    ///   curves of reads in its order of accesses or, if there are none, between all curves.
    /// - A domain for which no curve is valid gets the curves of all domains.
    pub fn answer(&self, domain: &str, mix: Mix) -> Answer {
        let own = |curve: &&MixCurve| curve.domain.as_deref() == Some(domain);
        let mut seen: Vec<&MixCurve> = self.0.iter().filter(own).collect();
        let for_all = self.0.iter().filter(|curve| curve.domain.is_none());
        seen.extend(for_all.filter(|curve| {
            !self
                .0
                .iter()
                .any(|other| other.domain.as_deref() == Some(domain) && other.mix == curve.mix)
        }));
        let mut extrapolated = None;
        if seen.is_empty() {
            extrapolated = Some(format!("no curve is known from domain {domain}"));
            seen = self.0.iter().collect();
        }
        let family: Vec<_> = seen.iter().copied().filter(|c| c.mix.is_of_family(mix)).collect();
        if !family.iter().any(|curve| mix.read_share() == 1.0 || curve.mix.read_share() < 1.0) {
            let order = if mix.random() { "random order" } else { "sequential order" };
            let stores = if mix.nontemporal() { "non-temporal" } else { "ordinary" };
            extrapolated.get_or_insert(format!("no curve is known for {stores} stores in {order}"));
        }
        let among = if family.is_empty() { &seen } else { &family };
        let (answer, outside) = interpolate(among, mix.read_share());
        if outside {
            extrapolated.get_or_insert("the read share lies outside of the known mixes".into());
        }
        Answer { extrapolated, ..answer }
    }
}

/// Interpolates between the two curves of `curves` (not empty) whose read shares are next below and
/// next above `read_share`. If only one of these two curves exists, returns its answer, and true to
/// mark the answer as an extrapolation.
fn interpolate(curves: &[&MixCurve], read_share: f64) -> (Answer, bool) {
    let share = |curve: &MixCurve| curve.mix.read_share();
    let below = curves
        .iter()
        .filter(|curve| share(curve) <= read_share + 1e-9)
        .max_by(|a, b| share(a).total_cmp(&share(b)));
    let above = curves
        .iter()
        .filter(|curve| share(curve) >= read_share - 1e-9)
        .min_by(|a, b| share(a).total_cmp(&share(b)));
    let alone = |curve: &MixCurve| Answer {
        response: curve.curve.response().clone(),
        extrapolated: None,
        provenance: curve.curve.provenance(),
    };
    match (below, above) {
        (Some(below), Some(above)) if share(above) - share(below) > 1e-9 => {
            let part = (share(above) - read_share) / (share(above) - share(below));
            let response = below.curve.response().blend(part, above.curve.response());
            let provenance = below.curve.provenance().max(above.curve.provenance());
            (Answer { response, extrapolated: None, provenance }, false)
        }
        (Some(curve), Some(_)) => (alone(curve), false),
        (Some(curve), None) | (None, Some(curve)) => (alone(curve), true),
        (None, None) => (alone(curves[0]), true),
    }
}
