//! How fast a pattern could be at best, with this budget and this drive.

use super::{child::Bench, drive, pattern::Pattern};
use crate::{
    document::{
        bench_compare::{CeilingDocument, RowDocument},
        rounded,
    },
    failure::Failure,
};
use interleaf_workload::{
    belady::{Carried, carried},
    kind::{Kind, Setting},
    memory::Memory,
    trace::trace,
};

/// The ceiling of a pattern at a footprint, of what was run there: a round takes as long as on
/// DRAM, or as long as the drive needs for what has to be carried whatever is known in advance.
pub(super) fn of(
    bench: &Bench<'_>,
    pattern: &Pattern,
    ratio: f64,
    rows: &[RowDocument],
) -> Result<Option<CeilingDocument>, Failure> {
    let row = |way: &str| rows.iter().find(|row| row.way == way && row.rate.is_some());
    let Some(dram) = row("dram") else { return Ok(None) };
    let footprint = dram.footprint_bytes;
    let least = least(bench, pattern, footprint);
    // Where the loops are a library's own, what the pager carried says at least what is mixed.
    let seen = row("pager")
        .or_else(|| row("swap"))
        .and_then(|row| Some(Carried { read: row.read_bytes?, written: row.written_bytes? }));
    let Some(mix) = least.or(seen) else { return Ok(None) };
    let total = mix.read + mix.written;
    if total == 0 || bench.args().no_drive || ratio <= 1.0 {
        return Ok(least.map(|least| document(pattern, ratio, dram, Some(least), None)));
    }
    let read_share = mix.read as f64 / total as f64;
    let drive = drive::rate(bench, pattern, footprint, read_share)?;
    Ok(Some(document(pattern, ratio, dram, least, Some(drive))))
}

fn document(
    pattern: &Pattern,
    ratio: f64,
    dram: &RowDocument,
    least: Option<Carried>,
    drive: Option<crate::document::bench_compare::DriveRateDocument>,
) -> CeilingDocument {
    let carried = |least: Carried| match pattern.is_streaming || pattern.prediction() {
        true => least.read + least.written,
        // What is written back has time while the next one is waited for.
        false => least.read,
    };
    let drive_s = match (least, &drive) {
        (Some(least), Some(drive)) => Some(carried(least) as f64 / (1e9 * drive.bandwidth_gbps)),
        (Some(least), None) if carried(least) == 0 => Some(0.0),
        _ => None,
    };
    let round_s = drive_s.zip(dram.round_s).map(|(drive_s, dram_s)| drive_s.max(dram_s));
    CeilingDocument {
        pattern: pattern.name.into(),
        ratio,
        least_read_bytes: least.map(|least| least.read),
        least_written_bytes: least.map(|least| least.written),
        drive,
        round_s: round_s.map(rounded),
        efficiency: round_s.zip(dram.round_s).map(|(best, dram)| rounded(dram / best)),
    }
}

/// What has to be carried in a round, bytes.
fn least(bench: &Bench<'_>, pattern: &Pattern, footprint: u64) -> Option<Carried> {
    let block = match pattern.kind {
        Kind::Stride | Kind::Random => 4 << 10,
        Kind::Gemm | Kind::GemmTiled | Kind::Fft3d => 16 << 10,
        _ => 64 << 10,
    };
    let setting = Setting {
        footprint,
        threads: 1,
        memory: Memory::Heap,
        only: None,
        stride: 64 << 10,
        is_writing: pattern.arguments.contains(&"--write"),
        tile: 512,
        degree: 0,
        seed: 1,
    };
    let trace = trace(pattern.kind, &setting, footprint, block)?;
    let Carried { read, written } = carried(&trace, bench.args().dram.get() as usize / block);
    Some(Carried { read: read * block as u64, written: written * block as u64 })
}
