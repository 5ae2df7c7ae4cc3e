//! Metrics of the daemon for Prometheus, over HTTP: in the text format of OpenMetrics 1.0 for
//! clients that accept it, and in the older text format 0.0.4 for all other clients.
//!
//! The control loop only sets values. A thread of the HTTP server answers scrapes, and reads the
//! kernel's counters at each scrape. The names follow Prometheus's conventions: base units (bytes,
//! seconds, ratios from 0 to 1), and the suffix `_total` for counters. The server has no
//! authentication, so metrics should be served on the local machine only (`docs/operate.md`).

use crate::{
    exposition::{Format, OPEN_METRICS, TEXT, plain},
    http::{Page, Request, Server},
};
use interleaf_console::Failure;
use interleaf_linux::{machine::vmstat, root::Root};
use interleaf_record::balance::BalancePeriod;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::Gauge,
    },
    registry::{Registry, Unit},
};
use std::{
    fmt,
    net::SocketAddr,
    sync::{Mutex, atomic::AtomicU64},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// The values of the metrics, and the server that publishes them.
pub(super) struct Metrics {
    numbers: Numbers,
    /// The name of each domain (socket), with the last known bytes of the steered pages on each of
    /// its nodes.
    before: Vec<(String, Vec<u64>)>,
    server: Server,
}

/// The metrics that the control loop sets. Copies share their values.
#[derive(Clone, Default)]
struct Numbers {
    periods: Counters,
    decisions: Counters,
    migrated: Counters,
    promoted: Counters,
    demoted: Counters,
    target: Gauges,
    reached: Gauges,
    bandwidth: Gauges,
    latency: Gauges,
    last_period: Gauge<f64, AtomicU64>,
    period: Gauge<f64, AtomicU64>,
}

/// Returns an example of an address that differs from `address`, at which metrics cannot be served.
fn instead_of(address: SocketAddr) -> SocketAddr {
    let port = if address.port() == 9464 { 9465 } else { 9464 };
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Metrics {
    /// Serves metrics at `address`. The kernel's counters are read below `root`. `period` is the
    /// length of a period.
    pub(super) fn serve(
        address: SocketAddr,
        period: Duration,
        root: Root,
    ) -> Result<Self, Failure> {
        let numbers = Numbers::default();
        numbers.period.set(period.as_secs_f64());
        numbers.last_period.set(now_s());
        let registry = registry(&numbers, root);
        let answer = move |request: &Request<'_>| page(request, &registry);
        let server = Server::start(address, answer).map_err(|why| {
            Failure::new(
                format!("metrics cannot be served at {address}: {why}"),
                format!(
                    "name an address of this machine with a port that is free, such as {} \
                     (`ss -ltnp` lists the programs that use ports), or leave metrics out",
                    instead_of(address)
                ),
            )
        })?;
        Ok(Self { numbers, before: vec![], server })
    }

    /// Returns the address at which metrics are served.
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Updates the metrics with the figures in `period`, the JSON document of a period.
    pub(super) fn count(&mut self, period: &BalancePeriod) {
        let domain = || vec![("domain", period.domain.clone())];
        let numbers = &self.numbers;
        numbers.periods.get_or_create(&domain()).inc();
        numbers.migrated.get_or_create(&domain()).inc_by(period.migrated_bytes);
        let mut decided = domain();
        decided.push(("decision", period.decision.clone()));
        numbers.decisions.get_or_create(&decided).inc();
        for (at, node) in period.nodes.iter().enumerate() {
            let mut tier = domain();
            tier.push(("node", node.to_string()));
            let target = period.target_weights.get(at).map(|points| f64::from(*points) / 100.0);
            let reached = period.reached_share.as_ref().and_then(|shares| shares.get(at).copied());
            let gbps = period.tier_bandwidth_gbps.get(at).copied();
            let gbps = gbps.filter(|_| period.bandwidth_gbps.is_some());
            let latency_ns = period.tier_latency_ns.get(at).copied().flatten();
            set(&numbers.target, &tier, target);
            set(&numbers.reached, &tier, reached);
            set(&numbers.bandwidth, &tier, gbps.map(|gbps| gbps * 1e9));
            set(&numbers.latency, &tier, latency_ns.map(|ns| ns / 1e9));
        }
        numbers.last_period.set(now_s());
        if let Some(now) = &period.reached_bytes {
            let at = self.before.iter().position(|(domain, _)| *domain == period.domain);
            let before = at.map(|at| self.before.swap_remove(at).1).unwrap_or_default();
            let (up, down) = moved(&before, now);
            // Count no more than the bytes that migrated in the period: the bytes on a node also
            // change when pages are allocated or freed.
            let (up, down) = (up.min(period.migrated_bytes), down.min(period.migrated_bytes));
            numbers.promoted.get_or_create(&domain()).inc_by(up);
            numbers.demoted.get_or_create(&domain()).inc_by(down);
            self.before.push((period.domain.clone(), now.clone()));
        }
    }
}

/// Returns the Unix time in seconds.
fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Sets a gauge; removes it if the value is unknown, because 0 would be wrong.
fn set(gauges: &Gauges, labels: &Labels, value: Option<f64>) {
    match value {
        Some(value) => drop(gauges.get_or_create(labels).set(value)),
        None => drop(gauges.remove(labels)),
    }
}

/// Returns the bytes that were promoted and the bytes that were demoted between two samples, which
/// have the bytes on each node, the fastest node first. Bytes that one node lost and another gained
/// count as migrated. If no node lost bytes, or none gained, nothing was migrated.
fn moved(before: &[u64], now: &[u64]) -> (u64, u64) {
    let mut more: Vec<u64> =
        now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect();
    let less = now.iter().zip(before).map(|(now, before)| before.saturating_sub(*now));
    let (mut up, mut down) = (0, 0);
    for (from, mut less) in less.enumerate() {
        for (to, more) in more.iter_mut().enumerate() {
            let bytes = less.min(*more);
            less -= bytes;
            *more -= bytes;
            *if to < from { &mut up } else { &mut down } += bytes;
        }
    }
    (up, down)
}

fn registry(numbers: &Numbers, root: Root) -> Registry {
    let mut registry = Registry::with_prefix("interleaf");
    // Register `build_info` as a gauge, as other exporters do: older clients do not know the info
    // type of OpenMetrics.
    let build = Gauges::default();
    build.get_or_create(&vec![("version", env!("CARGO_PKG_VERSION").into())]).set(1.0);
    registry.register("build_info", "The program that is running", build);
    let n = numbers.clone();
    registry.register("periods", "Periods that have passed", n.periods);
    registry.register("decisions", "Decisions, by action", n.decisions);
    let bytes = [
        ("migrated", "Pages of the machine that were moved, by whomever", n.migrated),
        ("promoted", "Pages in scope that came to a faster node", n.promoted),
        ("demoted", "Pages in scope that went to a slower node", n.demoted),
    ];
    for (name, help, counters) in bytes {
        registry.register_with_unit(name, help, Unit::Bytes, counters);
    }
    let speed = Unit::Other("bytes_per_second".into());
    let gauges = [
        ("target", "Part of the pages that should be on the node", Unit::Ratios, n.target),
        ("reached", "Part of the pages that is on the node", Unit::Ratios, n.reached),
        ("tier_bandwidth", "Traffic of the domain to the node", speed, n.bandwidth),
        ("tier_latency", "Mean latency of the node", Unit::Seconds, n.latency),
    ];
    for (name, help, unit, gauges) in gauges {
        // Append the suffix `_ratio` here. `Unit::Ratios` would append `_ratios`, against the
        // naming convention.
        match unit {
            Unit::Ratios => registry.register(format!("{name}_ratio"), help, gauges),
            unit => registry.register_with_unit(name, help, unit, gauges),
        }
    }
    let help = "When the last period ended, or at first when the daemon began, in Unix time";
    registry.register_with_unit("last_period_timestamp", help, Unit::Seconds, n.last_period);
    registry.register_with_unit("period", "How long a period takes", Unit::Seconds, n.period);
    registry.register_collector(Box::new(Kernel { root: Mutex::new(root) }));
    registry
}

/// The kernel's counters since boot: pages that migrated, that failed to migrate, that the kernel
/// promoted, and that it demoted. They are read at each scrape.
struct Kernel {
    root: Mutex<Root>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernel")
    }
}

impl Collector for Kernel {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // If the kernel's counters cannot be read, leave them out. The other metrics are still
        // served.
        let counted = self.root.lock().map(|root| vmstat::of_machine(&root));
        let Ok(Ok(Some(counted))) = counted else { return Ok(()) };
        let rows = [
            ("migrated", "Pages that were moved, since boot.", counted.pgmigrate_success),
            ("unmoved", "Pages that could not be moved, since boot.", counted.pgmigrate_fail),
            (
                "promoted",
                "Pages the kernel promoted itself, since boot.",
                counted.pgpromote_success,
            ),
            ("demoted", "Pages the kernel demoted itself, since boot.", counted.demoted()),
        ];
        for (name, help, pages) in rows {
            let Some(pages) = pages else { continue };
            let counter = ConstCounter::new(pages);
            let name = format!("kernel_{name}_pages");
            let kind = prometheus_client::metrics::MetricType::Counter;
            counter.encode(encoder.encode_descriptor(&name, help, None, kind)?)?;
        }
        Ok(())
    }
}

fn page(request: &Request<'_>, registry: &Registry) -> Page {
    const HERE: &str = "interleaf balance: metrics are at /metrics\n";
    match request.path {
        "/metrics" => {
            let mut body = String::new();
            if let Err(why) = text::encode(&mut body, registry) {
                return Page::text("500 Internal Server Error", &why.to_string());
            }
            match Format::wanted(request.accept) {
                Format::OpenMetrics => Page { status: "200 OK", kind: OPEN_METRICS, body },
                Format::Text => Page { status: "200 OK", kind: TEXT, body: plain(&body) },
            }
        }
        "/" => Page::text("200 OK", HERE),
        _ => Page::text("404 Not Found", HERE),
    }
}

#[cfg(test)]
#[path = "../../cli/tests/promtool/mod.rs"]
mod promtool;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{promtool, *};
    use interleaf_record::balance::SCHEMA;
    use regex_lite::Regex;
    use std::{
        collections::HashSet,
        fs,
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
        time::Duration,
    };

    const GIB: u64 = 1 << 30;
    const PERIOD: Duration = Duration::from_secs(6);
    const OPEN: &str = "Accept: application/openmetrics-text";

    fn period(time_s: f64, reached: Option<Vec<u64>>) -> BalancePeriod {
        BalancePeriod {
            schema: SCHEMA.into(),
            time_s,
            domain: "node0".into(),
            nodes: vec![0, 2],
            target_weights: vec![65, 35],
            reached_share: reached.as_ref().map(|_| vec![0.75, 0.25]),
            reached_bytes: reached,
            bandwidth_gbps: Some(431.2),
            tier_bandwidth_gbps: vec![300.5, 40.0],
            tier_latency_ns: vec![Some(123.0), None],
            migrated_bytes: 2 * GIB,
            decision: "step".into(),
            reason: "a \"reason\"".into(),
            advice: None,
        }
    }

    /// Serves metrics on a free port. The kernel's counters come from a captured `/proc/vmstat`.
    fn served() -> (tempfile::TempDir, Metrics) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        let vmstat = "pgmigrate_success 70\npgmigrate_fail 3\npgdemote_kswapd 4\n\
                      pgdemote_direct 1\npgpromote_success 9\n";
        fs::write(folder.path().join("proc/vmstat"), vmstat).unwrap();
        let root = Root::captured(folder.path());
        let address = "127.0.0.1:0".parse().unwrap();
        (folder, Metrics::serve(address, PERIOD, root).unwrap())
    }

    /// Sends a request that accepts OpenMetrics. Returns the head and the body of the response.
    fn get(address: SocketAddr, request: &str) -> (String, String) {
        get_as(address, request, OPEN)
    }

    fn get_as(address: SocketAddr, request: &str, field: &str) -> (String, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.into(), body.into())
    }

    /// Returns the faults of a text in OpenMetrics 1.0 according to its grammar and naming
    /// conventions: each sample belongs to the family before it, has the suffix of its type, and
    /// occurs once.
    fn faults(text: &str) -> Vec<String> {
        let family = Regex::new("^# (TYPE|HELP|UNIT) ([a-z][a-z0-9_]*) (.+)$").unwrap();
        let sample = Regex::new(
            r#"^([a-z][a-z0-9_]*)(\{([a-z]+="([^"\\]|\\.)*",?)*\})? -?[0-9][0-9.e+-]*$"#,
        )
        .unwrap();
        let (mut faults, mut seen) = (vec![], HashSet::new());
        let (mut name, mut kind) = (String::new(), String::new());
        let Some(body) = text.strip_suffix("# EOF\n") else { return vec!["no # EOF".into()] };
        for line in body.lines() {
            if let Some(found) = family.captures(line) {
                if !seen.insert(format!("{} {}", &found[1], &found[2])) {
                    faults.push(format!("twice: {line}"));
                }
                match &found[1] {
                    "TYPE" => kind = found[3].into(),
                    "UNIT" if !found[2].ends_with(&found[3]) => faults.push(line.into()),
                    _ => {}
                }
                name = found[2].into();
                continue;
            }
            let ending = match kind.as_str() {
                "counter" => "_total",
                _ => "",
            };
            let right = sample.captures(line).is_some_and(|it| it[1] == format!("{name}{ending}"));
            let key = line.rsplit_once(' ').map_or(line, |(key, _)| key);
            if !right || !name.starts_with("interleaf_") || !seen.insert(key.into()) {
                faults.push(line.into());
            }
        }
        faults
    }

    #[test]
    fn the_check_of_the_format_finds_faults() {
        let good =
            "# HELP interleaf_a A.\n# TYPE interleaf_a counter\ninterleaf_a_total{b=\"c\"} 1\n";
        assert!(faults(&format!("{good}# EOF\n")).is_empty());
        let wrong = [
            good.into(),
            format!("{good}{good}# EOF\n"),
            format!("{}# EOF\n", good.replace("_total", "")),
            format!("{}# EOF\n", good.replace("} 1", "} one")),
            format!("{}# EOF\n", good.replace("\"c\"", "c")),
            format!("{}# EOF\n", good.replace("interleaf_a", "b")),
            format!("{good}# UNIT interleaf_a bytes\n# EOF\n"),
        ];
        for text in wrong {
            assert!(!faults(&text).is_empty(), "{text}");
        }
    }

    #[test]
    fn numbers_are_served() {
        let (_folder, mut metrics) = served();
        metrics.count(&period(6.0, Some(vec![4 * GIB, GIB])));
        metrics.count(&period(12.0, Some(vec![3 * GIB, 2 * GIB])));
        let (head, body) = get(metrics.address(), "GET /metrics");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains(&format!("Content-Type: {OPEN_METRICS}")), "{head}");
        assert_eq!(faults(&body), Vec::<String>::new(), "{body}");
        let expected = [
            &format!("interleaf_build_info{{version=\"{}\"}} 1.0", env!("CARGO_PKG_VERSION")),
            "interleaf_period_seconds 6.0",
            "interleaf_periods_total{domain=\"node0\"} 2",
            "interleaf_decisions_total{domain=\"node0\",decision=\"step\"} 2",
            "interleaf_migrated_bytes_total{domain=\"node0\"} 4294967296",
            "interleaf_promoted_bytes_total{domain=\"node0\"} 0",
            "interleaf_demoted_bytes_total{domain=\"node0\"} 1073741824",
            "interleaf_target_ratio{domain=\"node0\",node=\"2\"} 0.35",
            "interleaf_reached_ratio{domain=\"node0\",node=\"0\"} 0.75",
            "interleaf_tier_bandwidth_bytes_per_second{domain=\"node0\",node=\"0\"} 300500000000.0",
            "interleaf_tier_latency_seconds{domain=\"node0\",node=\"0\"} 1.23e-7",
            "interleaf_kernel_migrated_pages_total 70",
            "interleaf_kernel_unmoved_pages_total 3",
            "interleaf_kernel_promoted_pages_total 9",
            "interleaf_kernel_demoted_pages_total 5",
        ];
        for line in expected {
            assert!(body.lines().any(|it| it == line), "{line} is not in\n{body}");
        }
        // A metric with an unknown value is absent; it is not 0.
        assert!(!body.contains("latency_seconds{domain=\"node0\",node=\"2\"}"), "{body}");
        metrics.count(&period(18.0, None));
        let (_, body) = get(metrics.address(), "GET /metrics");
        assert!(!body.contains("interleaf_reached_ratio{"), "what is no longer known\n{body}");
    }

    /// In the older text format, `promtool` finds no fault: before the first period, after a
    /// period, and after a period without counter readings.
    #[test]
    fn the_older_format_passes_promtool() {
        let (_folder, mut metrics) = served();
        let mut uncounted = period(12.0, None);
        uncounted.bandwidth_gbps = None;
        uncounted.tier_bandwidth_gbps = vec![-0.0, -0.0];
        for counted in [None, Some(period(6.0, Some(vec![4 * GIB, GIB]))), Some(uncounted)] {
            if let Some(period) = &counted {
                metrics.count(period);
            }
            for field in ["Accept: */*", "X: y"] {
                let (head, body) = get_as(metrics.address(), "GET /metrics", field);
                assert!(head.contains(&format!("Content-Type: {TEXT}\r\n")), "{head}");
                assert!(!body.contains("# EOF") && !body.contains(" -0"), "{body}");
                promtool::finds_nothing_wrong(&["check", "metrics"], &body);
            }
        }
        let (_, body) = get(metrics.address(), "GET /metrics");
        // Metrics with unknown values are absent.
        assert!(!body.contains("\ninterleaf_tier_bandwidth_bytes_per_second"), "{body}");
    }

    #[test]
    fn only_metrics_are_served() {
        let (_folder, metrics) = served();
        for (request, status) in [("GET /", "200"), ("GET /x", "404"), ("GET /metrics?x", "200")] {
            let (head, _) = get(metrics.address(), request);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {head}");
        }
    }

    #[test]
    fn a_taken_port_is_an_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let Err(Failure::Error { problem, hint }) = Metrics::serve(address, PERIOD, Root::live())
        else {
            panic!("the port was taken")
        };
        assert!(problem.starts_with(&format!("metrics cannot be served at {address}: Address")));
        assert!(hint.contains("port that is free, such as 127.0.0.1:9464 "), "{hint}");
        assert_eq!(instead_of("0.0.0.0:9464".parse().unwrap()).to_string(), "127.0.0.1:9465");
    }

    #[test]
    fn moved_bytes_are_the_change_of_tiers() {
        for (before, now, expected) in [
            ([10, 5, 0], [10, 5, 0], (0, 0)),
            ([10, 5, 0], [8, 7, 0], (0, 2)),
            ([10, 5, 0], [12, 3, 0], (2, 0)),
            // If the bytes of all nodes only grow, or only shrink, nothing was migrated.
            ([10, 5, 0], [12, 5, 0], (0, 0)),
            ([10, 5, 0], [10, 0, 0], (0, 0)),
            // The first node grew by 5 bytes. Only 2 of them were promoted, from the second node.
            ([10, 5, 0], [15, 3, 0], (2, 0)),
            ([10, 5, 5], [11, 3, 6], (1, 1)),
        ] {
            assert_eq!(moved(&before, &now), expected, "{before:?} {now:?}");
        }
        assert_eq!(moved(&[], &[1, 2]), (0, 0), "the first look");
    }
}
