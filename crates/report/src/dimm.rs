//! Renders simulated memory modules (`interleaf.simulate.dimm/1`) as text, Markdown, HTML and CSV,
//! and as the curves of a platform.

use super::{
    curve_file::CurveFile,
    number,
    screen::{Meaning, painted},
    table::{Table, csv_number, escaped},
    terminal_chart,
};
use interleaf_record::dimm::{DimmDocument, LatencyDocument};

/// Renders the document as text for a terminal.
pub fn text(document: &DimmDocument) -> String {
    let answer = painted(Meaning::Answer, &verdict(document));
    let mut text = format!("{answer}\n\n{}\n\n{}", setting(document), table(document).text());
    text += &remarks(document).iter().map(|remark| format!("{remark}\n")).collect::<String>();
    if document.points.iter().any(|point| point.offered_gbps.is_some()) {
        let charts = document.figures();
        let charts = charts.iter().map(terminal_chart::text).filter(|chart| !chart.is_empty());
        text += &charts.map(|chart| format!("\n{chart}")).collect::<String>();
    }
    if let Some(timing) = &document.timing {
        text += &format!(
            "\n{} s, {} million requests a second\n",
            number(timing.wall_s),
            number(timing.requests_per_s * 1e-6)
        );
    }
    text
}

/// Returns the title of the document's page.
pub fn title(document: &DimmDocument) -> String {
    format!("{} x {}, simulated", document.channels, document.device)
}

pub fn markdown(document: &DimmDocument) -> String {
    let table = table(document).markdown();
    let remarks: String = remarks(document).iter().map(|remark| format!("\n{remark}\n")).collect();
    let (title, verdict) = (title(document), verdict(document));
    format!("# {title}\n\n{verdict}\n\n{}\n\n{table}{remarks}", setting(document))
}

/// Renders the tables of the document as HTML.
pub fn html_tables(document: &DimmDocument) -> String {
    let table = table(document).html();
    let remark = |remark: &String| format!("\n<p>{}</p>", escaped(remark));
    let remarks: String = remarks(document).iter().map(remark).collect();
    format!("<p class=\"source\">{}</p>\n{table}{remarks}", escaped(&setting(document)))
}

/// Returns the highest bandwidth, and the latency at this bandwidth, in one line.
pub fn verdict(document: &DimmDocument) -> String {
    let points = document.points.iter();
    let most = points.max_by(|a, b| a.bandwidth_gbps.total_cmp(&b.bandwidth_gbps));
    most.map_or("no point was simulated".into(), |point| {
        let latency = point.latency(|it| it.mean);
        let latency = latency.map_or(String::new(), |mean| format!(" at {} ns", number(mean)));
        format!(
            "{} x {}, simulated: {} GB/s of {}, {:.0} % of the peak,{latency} with {} outstanding \
             lines a channel",
            document.channels,
            document.device,
            number(point.bandwidth_gbps),
            point.mix,
            100.0 * point.bus_utilisation,
            outstanding_per_channel(document),
        )
    })
}

/// Formats the simulated modules, controller and load, in one line.
fn setting(document: &DimmDocument) -> String {
    let row_policy = document.row_policy.iter().map(|name| format!(", {name} rows"));
    let refresh = document.refresh.iter().map(|name| match name.as_str() {
        "none" => ", no refresh".into(),
        name => format!(", {name} refresh"),
    });
    let controller: String = row_policy.chain(refresh).collect();
    format!(
        "{} x {} ({} devices of {}), {} GB/s at most; {} pattern, {} outstanding lines ({} a \
         channel), uncore {} ns{controller}; latency is of reads, from the core's miss to its data",
        document.channels,
        document.device,
        document.width,
        document.density,
        number(document.peak_gbps),
        document.pattern,
        document.outstanding,
        outstanding_per_channel(document),
        number(document.uncore_ns),
    )
}

fn table(document: &DimmDocument) -> Table {
    let columns = [
        "mix",
        "offered GB/s",
        "GB/s",
        "of peak",
        "mean ns",
        "p50 ns",
        "p80 ns",
        "p99 ns",
        "p99.9 ns",
        "max ns",
        "row hits",
        "W",
        "pJ/bit",
        "GB/s/W",
    ];
    let minor =
        ["GB/s/W", "p80 ns", "p99.9 ns", "row hits", "max ns", "pJ/bit", "p50 ns", "of peak", "W"];
    let mut table = Table::new(&columns).with_minor(&minor);
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let optional = |value: Option<f64>, none: &str| value.map_or(none.to_string(), number);
    for point in &document.points {
        let ns = |value: fn(&LatencyDocument) -> u64| {
            point.latency(value).map_or("-".to_string(), |ns| ns.to_string())
        };
        table.row([
            point.mix.clone(),
            optional(point.offered_gbps, "max"),
            number(point.bandwidth_gbps),
            percent(point.bus_utilisation),
            optional(point.latency(|it| it.mean), "-"),
            ns(|it| it.p50),
            ns(|it| it.p80),
            ns(|it| it.p99),
            ns(|it| it.p99_9),
            ns(|it| it.max),
            percent(point.row_hit_rate),
            optional(point.power_w, ""),
            optional(point.energy_pj_per_bit, ""),
            optional(point.gbps_per_w, ""),
        ]);
    }
    table
}

/// Returns lines with the power of the tier, if it is known, and with the notes of the simulation.
fn remarks(document: &DimmDocument) -> Vec<String> {
    let power = document.tier_power.as_ref().map(|power| {
        format!(
            "power as a line over bandwidth: static_w = {} W, energy_pj_per_bit = {} pJ/bit (each \
             point within {:.1} %)",
            number(power.static_w),
            number(power.energy_pj_per_bit),
            100.0 * power.max_error
        )
    });
    let notes = document.notes.iter().map(|note| format!("note: {note}"));
    let sources = "simulated from device files (devices), which have the source of each timing and \
                   current; outstanding lines and uncore latency are those of an assumed server; \
                   docs/validation.md has the errors against measured servers";
    power.into_iter().chain(notes).chain([sources.into()]).collect()
}

/// Renders the points as CSV, with a row for each point.
pub fn csv(document: &DimmDocument) -> String {
    let mut table = Table::new(&[
        "device",
        "density",
        "width",
        "channels",
        "mix",
        "offered_gbps",
        "bandwidth_gbps",
        "bus_utilisation",
        "latency_mean_ns",
        "latency_p50_ns",
        "latency_p80_ns",
        "latency_p99_ns",
        "latency_p99_9_ns",
        "latency_max_ns",
        "below_204ns",
        "row_hit_rate",
        "power_w",
        "energy_pj_per_bit",
        "gbps_per_w",
        "gbps_per_data_pin",
    ]);
    for point in &document.points {
        table.row([
            document.device.clone(),
            document.density.clone(),
            document.width.clone(),
            document.channels.to_string(),
            point.mix.clone(),
            csv_number(point.offered_gbps),
            point.bandwidth_gbps.to_string(),
            point.bus_utilisation.to_string(),
            csv_number(point.latency(|it| it.mean)),
            csv_number(point.latency(|it| it.p50)),
            csv_number(point.latency(|it| it.p80)),
            csv_number(point.latency(|it| it.p99)),
            csv_number(point.latency(|it| it.p99_9)),
            csv_number(point.latency(|it| it.max)),
            csv_number(point.latency(|it| it.below_204ns)),
            point.row_hit_rate.to_string(),
            csv_number(point.power_w),
            csv_number(point.energy_pj_per_bit),
            csv_number(point.gbps_per_w),
            point.gbps_per_data_pin.to_string(),
        ]);
    }
    table.csv()
}

fn outstanding_per_channel(document: &DimmDocument) -> u64 {
    document.outstanding / u64::from(document.channels.max(1))
}

/// Renders the points as a file of curves for a tier of a platform. With the random pattern, the
/// mixes of the curves have the suffix `/random`.
pub fn curves_csv(document: &DimmDocument) -> String {
    let mut file = CurveFile::new();
    let mut mix = "";
    for point in &document.points {
        if point.mix != mix {
            file.begin();
            mix = &point.mix;
        }
        // A point without a measured read has no latency, so it is left out. `simulate dimm
        // --curves` rejects a mix without reads before the simulation.
        let Some(latency_ns) = point.latency(|it| it.mean) else { continue };
        let order = if document.pattern == "random" { "/random" } else { "" };
        file.add(
            format!("{}{order}", point.mix),
            point.bandwidth_gbps,
            latency_ns,
            document.command.clone(),
        );
    }
    file.csv()
}
