//! Computes the outlook of Micron's report on MRDIMMs: a server with sixteen channels, whose
//! bandwidth the cores share with PCIe Gen 6 devices.
//!
//! 128 lanes of PCIe Gen 6 carry 1024 GB/s. The devices have priority. This file computes the
//! bandwidth that remains for reads by cores, at the joint mix of devices and cores.

use super::{CHANNELS, GEN2, GEN2_4R, MRDIMM, MRDIMM_4R, ModulePoint, Results};
use interleaf_record::reproduce::TableDocument;
use interleaf_report::number;
use interleaf_sim::dimm::device::{Device, Options};

const CHANNELS_NEXT: u32 = 16;

/// Bandwidth of the PCIe devices: 128 lanes of 8 GB/s.
const DMA_GBPS: f64 = 128.0 * 8.0;

const DEVICES: [&str; 4] = [MRDIMM, MRDIMM_4R, GEN2, GEN2_4R];

/// The mixes, each as a pair of the fraction of written lines and the mix's name, in ascending
/// order of the fraction.
const MIXES: [(f64, &str); 7] = [
    (0.0, "R"),
    (0.1, "W19"),
    (0.25, "W3"),
    (1.0 / 3.0, "W2"),
    (0.5, "W5"),
    (0.75, "0.25"),
    (1.0, "W6"),
];

/// Directions of the PCIe devices' traffic: a label for a direction, and the fraction of the
/// traffic that is written to memory.
const WAYS: [(&str, f64); 3] =
    [("out of memory", 0.0), ("half of it either way", 0.5), ("in", 1.0)];

/// Returns the points that the study simulates only for the outlook.
pub(super) fn points() -> impl Iterator<Item = ModulePoint> {
    let of = |device| ["W19", "0.25", "W6"].map(|mix| ModulePoint::new(device, "16Gb", mix));
    DEVICES.into_iter().flat_map(of)
}

/// Returns the peak bandwidth of sixteen channels at the pin rate, TB/s: with MRDIMM-12800 if
/// `second`, otherwise with MRDIMM-8800.
pub(super) fn nominal_tbps(second: bool) -> f64 {
    let device = Device::by_name(if second { GEN2 } else { MRDIMM }, &Options::default());
    device.map_or(f64::NAN, |device| device.peak_gbps() * f64::from(CHANNELS_NEXT) * 1e-3)
}

/// Returns the bandwidth of sixteen channels, GB/s, if the fraction `written` of the lines is
/// written. The bandwidth is interpolated between mixes. Channels are independent, and each has as
/// many outstanding lines as on a machine with twelve channels.
fn delivered(results: &Results, device: &'static str, written: f64) -> f64 {
    let at = |mix| {
        let channels = f64::from(CHANNELS_NEXT) / f64::from(CHANNELS);
        results.bandwidth(ModulePoint::new(device, "16Gb", mix)) * channels
    };
    let next = MIXES.iter().position(|(part, _)| *part >= written).unwrap_or(MIXES.len() - 1);
    let (high, to) = MIXES[next];
    let (low, from) = MIXES[next.saturating_sub(1)];
    if high <= low {
        return at(to);
    }
    at(from) + (at(to) - at(from)) * (written - low) / (high - low)
}

/// Returns the bandwidth of the PCIe devices, which have priority, and the remaining bandwidth for
/// reads by cores, GB/s. `written` is the write share of the devices' traffic. `delivered` returns
/// the bandwidth of memory at a write share.
fn shared(delivered: impl Fn(f64) -> f64, written: f64) -> (f64, f64) {
    let alone = delivered(written);
    if alone <= DMA_GBPS {
        return (alone, 0.0);
    }
    // Reads by cores lower the write share of the joint mix, and the bandwidth that memory delivers
    // depends on this write share. The total bandwidth is therefore found by bisection.
    let (mut low, mut high) = (DMA_GBPS, 4.0 * DMA_GBPS);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if delivered(DMA_GBPS * written / middle) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    (DMA_GBPS, low - DMA_GBPS)
}

pub(super) fn remark(results: &Results) -> String {
    let left = |device| number(shared(|part| delivered(results, device, part), 0.0).1);
    let half = |device| number(shared(|part| delivered(results, device, part), 0.5).0);
    format!(
        "sixteen channels beside devices of PCIe Gen 6 that want {DMA_GBPS} GB/s: where they only \
         read, {} GB/s are left for cores with MRDIMM-8800 and {} with MRDIMM-12800; where half \
         is written, devices get {} of two ranks of MRDIMM-8800, {} of four, {} of two of \
         MRDIMM-12800, and {} of four",
        left(MRDIMM),
        left(GEN2),
        half(MRDIMM),
        half(MRDIMM_4R),
        half(GEN2),
        half(GEN2_4R)
    )
}

pub(super) fn table(results: &Results) -> TableDocument {
    let mut header = vec!["module".to_string(), "read-only, GB/s".into()];
    for (way, _) in WAYS {
        header.extend([format!("devices, {way}"), "left for cores".into()]);
    }
    let of = |device| {
        let delivered = |written| delivered(results, device, written);
        let mut row = vec![device.to_string(), number(delivered(0.0))];
        for (_, written) in WAYS {
            let (devices, cores) = shared(delivered, written);
            row.extend([number(devices), number(cores)]);
        }
        row
    };
    TableDocument {
        title: format!(
            "Sixteen channels beside devices that want {DMA_GBPS} GB/s and are served first, GB/s"
        ),
        header,
        rows: DEVICES.map(of).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_have_the_bandwidth_that_devices_leave() {
        let flat = |_| 1500.0;
        let (devices, cores) = shared(flat, 0.5);
        assert!(devices == DMA_GBPS && (cores - 476.0).abs() < 1e-6, "{cores}");
        assert_eq!(shared(|_| 900.0, 1.0), (900.0, 0.0));
        // The devices only write, and the delivered bandwidth falls with the write share. The total
        // must be 1188 GB/s: 1024 GB/s of writes are 86.2 % of this total, and at this write share
        // memory delivers 2050 - 862 = 1188 GB/s. The cores get the remaining 164 GB/s.
        let (_, cores) = shared(|written| 2050.0 - 1000.0 * written, 1.0);
        let total = DMA_GBPS + cores;
        assert!((total - (2050.0 - 1000.0 * DMA_GBPS / total)).abs() < 1e-6, "{total}");
    }
}
