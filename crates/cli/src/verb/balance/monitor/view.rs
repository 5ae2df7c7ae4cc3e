//! The view that `interleaf balance --monitor` draws of a daemon: the tiers, their bandwidths and
//! shares over time, migrated bytes, and the last decisions with their reasons.

use super::history::History;
use interleaf_model::units::Bytes;
use interleaf_record::balance::BalancePeriod;
use interleaf_report::number;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    symbols::Marker,
    text::{Line, Span},
    widgets::{
        Axis, Block, Chart, Dataset, GraphType, LegendPosition, Paragraph, Row, Sparkline, Table,
    },
};
use std::collections::VecDeque;

pub(super) const GONE: &str = "the daemon has gone; waiting for it to come back";
pub(super) const STRANGE: &str = "the daemon sends a message that this version does not understand";

/// The colours of the tiers, fastest tier first. A seventh tier begins again with the first colour.
const COLOURS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Blue, Color::Red];

/// The state of the connection to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Connected,
    Disconnected,
    /// The daemon sent a line on this connection that was not a valid period.
    Unreadable,
}

pub(super) struct BalanceView {
    pub(super) socket: String,
    pub(super) link: Link,
    pub(super) history: History,
    domain: usize,
}

type Periods = VecDeque<BalancePeriod>;

impl BalanceView {
    pub(super) fn new(socket: String) -> Self {
        Self { socket, link: Link::Connected, history: History::default(), domain: 0 }
    }

    pub(super) fn next_domain(&mut self) {
        self.domain += 1;
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let domains = self.history.domains();
        let shown = self.domain % domains.max(1);
        let periods = self.history.periods(shown).filter(|periods| !periods.is_empty());
        let Some((periods, last)) = periods.and_then(|it| Some((it, it.back()?))) else {
            return frame.render_widget(Paragraph::new(self.waiting()), frame.area());
        };
        let rows = [
            Constraint::Length(1),
            Constraint::Length(1 + last.nodes.len() as u16),
            Constraint::Fill(2),
            Constraint::Length(4),
            Constraint::Fill(1),
            Constraint::Length(1),
        ];
        let [title, tiers, charts, moved, decisions, keys] =
            Layout::vertical(rows).areas(frame.area());
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]);
        let [bandwidth, shares] = halves.areas(charts);
        frame.render_widget(self.title(last), title);
        frame.render_widget(table(last), tiers);
        draw_bandwidth(frame, bandwidth, periods);
        draw_shares(frame, shares, periods);
        draw_moved(frame, moved, periods);
        frame.render_widget(list(periods, decisions), decisions);
        let tab = if domains > 1 { "  Tab next domain" } else { "" };
        frame.render_widget(Line::from(format!("q quit{tab}")), keys);
    }

    /// Returns the text that the view shows until the first period arrives.
    fn waiting(&self) -> Line<'_> {
        match self.link {
            Link::Connected => {
                let socket = &self.socket;
                Line::from(format!("{socket}: the daemon's first period has not ended yet"))
            }
            Link::Disconnected => Line::from(GONE),
            Link::Unreadable => Line::from(STRANGE),
        }
    }

    fn title(&self, last: &BalancePeriod) -> Line<'_> {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut spans = vec![
            Span::styled("interleaf balance", bold),
            Span::raw(format!("  {}  {} s", last.domain, number(last.time_s))),
        ];
        let warning = match self.link {
            Link::Connected => None,
            Link::Disconnected => Some(GONE),
            Link::Unreadable => Some(STRANGE),
        };
        let style = Style::new().add_modifier(Modifier::REVERSED);
        spans.extend(warning.into_iter().flat_map(|it| [Span::raw("  "), Span::styled(it, style)]));
        Line::from(spans)
    }
}

fn colour(tier: usize) -> Style {
    Style::new().fg(COLOURS[tier % COLOURS.len()])
}

fn table(last: &BalancePeriod) -> Table<'_> {
    let rows = last.nodes.iter().enumerate().map(|(at, node)| {
        let unknown = || "-".to_string();
        let target = last.target_weights.get(at).map(|points| format!("{points} %"));
        let reached = last.reached_share.as_ref().and_then(|shares| shares.get(at));
        let bytes = last.reached_bytes.as_ref().and_then(|bytes| bytes.get(at));
        let gbps = last.tier_bandwidth_gbps.get(at);
        let latency = last.tier_latency_ns.get(at).copied().flatten();
        let cells = [
            format!("node{node}"),
            target.unwrap_or_else(unknown),
            reached.map_or_else(unknown, |share| format!("{:.1} %", 100.0 * share)),
            bytes.map_or_else(unknown, |bytes| Bytes::new(*bytes).to_string()),
            gbps.map_or_else(unknown, |gbps| format!("{} GB/s", number(*gbps))),
            latency.map_or_else(unknown, |ns| format!("{} ns", number(ns))),
        ];
        Row::new(cells).style(colour(at))
    });
    let head = Row::new(["tier", "target", "reached", "pages", "bandwidth", "latency"]);
    Table::new(rows, [8, 8, 9, 12, 14, 12].map(Constraint::Length))
        .header(head.style(Style::new().add_modifier(Modifier::BOLD)))
}

/// A line of a chart: its name, its style, its points as (time in s, value), and its type.
type Curve = (String, Style, Vec<(f64, f64)>, GraphType);

/// Draws lines over time in one chart. `top` is the upper end of the vertical axis, and `top_text`
/// is the label at this end.
fn draw_chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: &[Curve],
    (top, top_text): (f64, String),
) {
    let times = lines.iter().flat_map(|(_, _, points, _)| points.iter().map(|point| point.0));
    let (first, last) =
        times.fold((f64::MAX, f64::MIN), |(low, high), time| (low.min(time), high.max(time)));
    let datasets = lines.iter().map(|(name, style, points, kind)| {
        let marker = match kind {
            GraphType::Scatter => Marker::Dot,
            _ => Marker::Braille,
        };
        let data = Dataset::default().data(points).style(*style).graph_type(*kind).marker(marker);
        if name.is_empty() { data } else { data.name(name.as_str()) }
    });
    let text = if first < last { format!("-{} s", number(last - first)) } else { String::new() };
    let x = Axis::default().bounds([first, last.max(first + 1.0)]).labels([text, "now".into()]);
    let y = Axis::default().bounds([0.0, top]).labels(["0".into(), top_text]);
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().title(title.to_string()))
        .x_axis(x)
        .y_axis(y)
        // The legend is on the left, because the newest points are on the right.
        .legend_position(Some(LegendPosition::TopLeft))
        .hidden_legend_constraints((Constraint::Ratio(1, 2), Constraint::Ratio(1, 2)));
    frame.render_widget(chart, area);
}

fn draw_bandwidth(frame: &mut Frame<'_>, area: Rect, periods: &Periods) {
    let Some(last) = periods.back() else { return };
    let line = |(at, node): (usize, &u32)| {
        let point = |it: &BalancePeriod| Some((it.time_s, *it.tier_bandwidth_gbps.get(at)?));
        let points: Vec<_> = periods.iter().filter_map(point).collect();
        (format!("node{node}"), colour(at), points, GraphType::Line)
    };
    let lines: Vec<_> = last.nodes.iter().enumerate().map(line).collect();
    let all = lines.iter().flat_map(|line| line.2.iter().map(|point| point.1));
    let top = all.fold(1.0, f64::max);
    draw_chart(frame, area, "bandwidth, GB/s", &lines, (top, number(top)));
}

fn draw_shares(frame: &mut Frame<'_>, area: Rect, periods: &Periods) {
    let Some(last) = periods.back() else { return };
    let mut lines = vec![];
    for (at, node) in last.nodes.iter().enumerate() {
        let target = |it: &BalancePeriod| Some((it.time_s, f64::from(*it.target_weights.get(at)?)));
        let reached =
            |it: &BalancePeriod| Some((it.time_s, 100.0 * it.reached_share.as_ref()?.get(at)?));
        let targets = periods.iter().filter_map(target).collect();
        let dots: Vec<_> = periods.iter().filter_map(reached).collect();
        lines.push((format!("node{node}"), colour(at), targets, GraphType::Line));
        lines.push((String::new(), colour(at), dots, GraphType::Scatter));
    }
    let title = "share, %: target (line), reached (dots)";
    draw_chart(frame, area, title, &lines, (100.0, "100".into()));
}

fn draw_moved(frame: &mut Frame<'_>, area: Rect, periods: &Periods) {
    let width = usize::from(area.width.saturating_sub(2));
    let skipped = periods.len().saturating_sub(width);
    let moved: Vec<u64> = periods.iter().skip(skipped).map(|it| it.migrated_bytes).collect();
    let (now, most) = (moved.last().copied(), moved.iter().max().copied());
    let text = |bytes: Option<u64>| Bytes::new(bytes.unwrap_or(0)).to_string();
    let title = format!("moved in a period: {}, at most {}", text(now), text(most));
    let line = Sparkline::default().data(moved).block(Block::bordered().title(title));
    frame.render_widget(line, area);
}

/// Returns a list of the last decisions and their reasons, newest first.
fn list(periods: &Periods, area: Rect) -> Paragraph<'_> {
    let rows = usize::from(area.height.saturating_sub(2));
    let text = |period: &BalancePeriod| {
        let weights: Vec<String> = period.target_weights.iter().map(u16::to_string).collect();
        let (decision, reason) = (&period.decision, &period.reason);
        let weights = weights.join(":");
        Line::from(format!("{:>8.1} s  {weights:<7} {decision}: {reason}", period.time_s))
    };
    let lines: Vec<Line<'_>> = periods.iter().rev().take(rows).map(text).collect();
    Paragraph::new(lines).block(Block::bordered().title("decisions"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_record::balance::SCHEMA;
    use ratatui::{Terminal, backend::TestBackend};

    fn period(time_s: f64, domain: &str, first: u16) -> BalancePeriod {
        let share = f64::from(first) / 100.0;
        BalancePeriod {
            schema: SCHEMA.into(),
            time_s,
            domain: domain.into(),
            nodes: vec![0, 2],
            target_weights: vec![first, 100 - first],
            reached_share: Some(vec![share + 0.004, 0.996 - share]),
            reached_bytes: Some(vec![3 << 30, 1 << 30]),
            bandwidth_gbps: Some(431.2),
            tier_bandwidth_gbps: vec![300.0 + time_s, 40.5],
            tier_latency_ns: vec![Some(123.0), None],
            migrated_bytes: 64 << 20,
            decision: "step".into(),
            reason: format!("bandwidth rose to {first}"),
            advice: None,
        }
    }

    fn drawn(view: &BalanceView, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn has(text: &str, words: &[&str]) {
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let found = lines.iter().any(|line| line.join(" ").contains(&words.join(" ")));
        assert!(found, "{words:?} is not in\n{text}");
    }

    #[test]
    fn a_terminal_shows_all_values() {
        let mut view = BalanceView::new("/run/x.sock".into());
        for step in 1..=20 {
            view.history.add(period(6.0 * f64::from(step), "node0", 100 - step as u16));
        }
        let text = drawn(&view, 100, 30);
        has(&text, &["interleaf balance node0 120.0 s"]);
        has(&text, &["tier target reached pages bandwidth latency"]);
        has(&text, &["node0 80 % 80.4 % 3 GiB 420.0 GB/s 123.0 ns"]);
        has(&text, &["node2 20 % 19.6 % 1 GiB 40.50 GB/s -"]);
        has(&text, &["moved in a period: 64 MiB, at most 64 MiB"]);
        has(&text, &["120.0 s 80:20 step: bandwidth rose to 80"]);
        has(&text, &["114.0 s 81:19 step: bandwidth rose to 81"]);
        has(&text, &["q quit"]);
        assert!(text.contains("-114.0 s") && text.contains("now"), "{text}");
        assert!(!text.contains("Tab"), "there is one domain\n{text}");
        let braille = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c);
        assert!(text.chars().filter(|c| braille(*c)).count() > 40, "no lines\n{text}");
        assert!(text.contains('•'), "no dots\n{text}");
    }

    /// The test draws views in whose last period the target weight of node0 is 95 or 20. It asserts
    /// that the charts of the two weights differ, and that equal periods give equal charts.
    #[test]
    fn charts_follow_their_numbers() {
        let draw = |last: u16| {
            let mut view = BalanceView::new(String::new());
            view.history.add(period(6.0, "node0", 100));
            view.history.add(period(12.0, "node0", last));
            drawn(&view, 100, 30)
        };
        let charts = |text: &str| text.lines().skip(4).take(10).collect::<Vec<_>>().join("\n");
        assert_ne!(charts(&draw(95)), charts(&draw(20)));
        assert_eq!(charts(&draw(20)), charts(&draw(20)));
    }

    #[test]
    fn domains_are_shown_in_turn() {
        let mut view = BalanceView::new(String::new());
        view.history.add(period(6.0, "node0", 80));
        view.history.add(period(6.0, "node1", 60));
        has(&drawn(&view, 80, 24), &["interleaf balance node0"]);
        has(&drawn(&view, 80, 24), &["Tab next domain"]);
        view.next_domain();
        has(&drawn(&view, 80, 24), &["interleaf balance node1"]);
        view.next_domain();
        has(&drawn(&view, 80, 24), &["interleaf balance node0"]);
    }

    #[test]
    fn missing_values_are_shown_as_missing() {
        let mut view = BalanceView::new("/run/x.sock".into());
        has(&drawn(&view, 80, 24), &["/run/x.sock: the daemon's first period has not ended yet"]);
        view.link = Link::Disconnected;
        has(&drawn(&view, 80, 24), &[GONE]);
        let unknown = BalancePeriod {
            reached_share: None,
            reached_bytes: None,
            tier_bandwidth_gbps: vec![],
            tier_latency_ns: vec![],
            bandwidth_gbps: None,
            ..period(6.0, "node0", 80)
        };
        view.history.add(unknown);
        has(&drawn(&view, 80, 24), &["node0 80 % - - - -"]);
        has(&drawn(&view, 100, 24), &[GONE]);
    }

    /// Drawing must not panic at any size of the terminal.
    #[test]
    fn any_size_will_do() {
        let mut view = BalanceView::new(String::new());
        view.history.add(period(6.0, "node0", 80));
        for (width, height) in [(1, 1), (3, 40), (200, 2), (10, 10), (20, 7), (300, 100)] {
            drawn(&view, width, height);
        }
    }
}
