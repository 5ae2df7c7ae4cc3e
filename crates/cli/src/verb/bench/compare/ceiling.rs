//! Computes the ceiling of a pattern: the speed that the drive allows if it transfers only the
//! bytes that an optimal cache of the same memory would transfer.

use super::{child::Comparison, drive};
use crate::comparison::pattern::Pattern;
use interleaf_console::Failure;
use interleaf_extend_forecast::{access::BlockTraffic, belady::carried};
use interleaf_record::{
    bench_compare::{BenchRow, CeilingDocument, DriveRateDocument},
    rounded,
};
use interleaf_workload::{
    kind::Kind,
    trace::{rounds, trace},
};

/// Computes the ceiling of a pattern at one footprint. `rows` are the pattern's results at this
/// footprint. At the ceiling, a round takes the larger of two times: the time without waits for the
/// drive, and the time in which the drive transfers the bytes that optimal replacement moves.
/// Returns `None` if no run on DRAM succeeded, or if the pattern's traffic is unknown. `measured`
/// is the best rate of fio in the earlier rounds. If the footprint exceeds the budget, and unless
/// `--no-drive` is given, this function runs fio again, and keeps the better rate in `measured`.
pub(super) fn find(
    bench: &Comparison<'_>,
    pattern: &Pattern,
    ratio: f64,
    rows: &[BenchRow],
    measured: &mut Option<DriveRateDocument>,
) -> Result<Option<CeilingDocument>, Failure> {
    let row = |way: &str| rows.iter().find(|row| row.way == way && row.rate.is_some());
    let Some(dram) = row("dram") else { return Ok(None) };
    let footprint = dram.footprint_bytes;
    let memory = memory(bench, rows);
    let least = least(pattern, footprint, memory);
    // If the pattern's order of accesses is not modelled (as for graph workloads), `least` is
    // `None`. Then take the mix of reads and writes from the counted traffic of the pager, or of
    // swap.
    let seen = row("pager")
        .or_else(|| row("swap"))
        .and_then(|row| Some(BlockTraffic { read: row.read_bytes?, written: row.written_bytes? }));
    let Some(mix) = least.or(seen) else { return Ok(None) };
    let total = mix.read + mix.written;
    // The fastest round on any kind of memory estimates the time of a round without waits for the
    // drive. It is a round on DRAM, unless noise makes another kind faster.
    let loops_s = rows.iter().filter_map(|row| row.round_s).reduce(f64::min);
    let ceiling = |drive| {
        let ceiling = document(pattern, ratio, memory, least, loops_s, drive);
        let efficiency = ceiling.round_s.zip(dram.round_s).map(|(best, dram)| rounded(dram / best));
        CeilingDocument { efficiency, ..ceiling }
    };
    if total == 0 || bench.args().no_drive || ratio <= 1.0 {
        return Ok(least.map(|_| ceiling(None)));
    }
    let read_share = mix.read as f64 / total as f64;
    let Some(now) = drive::rate(bench, pattern, footprint, read_share)? else {
        return Ok(least.map(|_| ceiling(None)));
    };
    let best = match measured.take() {
        Some(earlier) if earlier.bandwidth_gbps > now.bandwidth_gbps => earlier,
        _ => now,
    };
    *measured = Some(best.clone());
    Ok(Some(ceiling(Some(drive::at_least_reached(pattern, best, rows)))))
}

/// Returns the largest peak memory of the runs on the pager, swap and mapped files, but at least
/// the budget. With this memory, optimal replacement transfers at most as many bytes as each of the
/// runs.
fn memory(bench: &Comparison<'_>, rows: &[BenchRow]) -> u64 {
    let budget = bench.args().dram.get();
    let extended = rows.iter().filter(|row| row.way != "dram");
    extended.filter_map(|row| row.used_max_bytes).fold(budget, u64::max)
}

fn document(
    pattern: &Pattern,
    ratio: f64,
    memory: u64,
    least: Option<BlockTraffic>,
    loops_s: Option<f64>,
    drive: Option<DriveRateDocument>,
) -> CeilingDocument {
    let carried = |least: BlockTraffic| match pattern.moves_bytes() {
        true => least.read + least.written,
        // Write-back overlaps with the next reads, so only the reads take time.
        false => least.read,
    };
    let drive_s = match (least, &drive) {
        (Some(least), Some(drive)) => Some(carried(least) as f64 / (1e9 * drive.bandwidth_gbps)),
        (Some(least), None) if carried(least) == 0 => Some(0.0),
        _ => None,
    };
    let round_s = drive_s.zip(loops_s).map(|(drive_s, loops_s)| drive_s.max(loops_s));
    CeilingDocument {
        pattern: pattern.name.into(),
        ratio,
        memory_bytes: Some(memory),
        least_read_bytes: least.map(|least| least.read),
        least_written_bytes: least.map(|least| least.written),
        drive,
        round_s: round_s.map(rounded),
        efficiency: None,
    }
}

/// Returns the bytes that optimal replacement moves in a round with `memory` bytes of DRAM, or
/// `None` if the pattern's order of accesses is not modelled.
fn least(pattern: &Pattern, footprint: u64, memory: u64) -> Option<BlockTraffic> {
    let block = match pattern.kind {
        Kind::Stride | Kind::Random => 4 << 10,
        Kind::Gemm | Kind::GemmTiled | Kind::Fft3d | Kind::Lu | Kind::LuPlain => 16 << 10,
        _ => 64 << 10,
    };
    let setting = pattern.setting(footprint);
    let trace = trace(pattern.kind, &setting, footprint, block)?;
    let BlockTraffic { read, written } = carried(&trace, memory as usize / block);
    let bytes = |blocks: u64| blocks * block as u64 / u64::from(rounds(pattern.kind));
    Some(BlockTraffic { read: bytes(read), written: bytes(written) })
}
