//! The view that `interleaf extend --monitor` draws: the budget of a session, the DRAM of each
//! process, and the traffic of the drive over time.

use interleaf_model::units::Bytes;
use interleaf_record::extend::{CountsDocument, ExtendDocument, ProcessDocument};
use interleaf_report::number;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Block, Gauge, Row, Sparkline, Table},
};
use std::collections::VecDeque;

/// Maximum number of kept samples: one per column of a chart in a wide terminal.
const KEPT: usize = 1000;

/// The last samples of the session's statistics, newest last.
#[derive(Default)]
pub(super) struct StatisticsView {
    seen: VecDeque<ExtendDocument>,
}

impl StatisticsView {
    pub(super) fn add(&mut self, document: ExtendDocument) {
        if self.seen.len() == KEPT {
            self.seen.pop_front();
        }
        self.seen.push_back(document);
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let Some(last) = self.seen.back() else { return };
        let rows = [
            Constraint::Length(1),
            Constraint::Length(3),
            Constraint::Length(4),
            Constraint::Length(4),
            Constraint::Length(4),
            Constraint::Fill(1),
            Constraint::Length(1),
        ];
        let [title, budget, faults, read, written, processes, keys] =
            Layout::vertical(rows).areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let text = format!("interleaf extend  {}", last.command.join(" "));
        frame.render_widget(Line::styled(text, bold), title);
        draw_budget(frame, budget, last);
        let per_s = |rate: f64| format!("{} /s", number(rate));
        let bytes = |rate: f64| format!("{}/s", Bytes::new(rate as u64));
        self.draw_rate(frame, faults, "faults", &per_s, |it| it.faults);
        self.draw_rate(frame, read, "read", &bytes, |it| it.read_bytes);
        self.draw_rate(frame, written, "written", &bytes, |it| it.written_bytes);
        frame.render_widget(table(last), processes);
        frame.render_widget(Line::from("q quit"), keys);
    }

    /// Draws how the rate of a counter changes over time. `count` returns the counter's value,
    /// `what` is its name in the title, and `text` formats a rate.
    fn draw_rate(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        what: &str,
        text: &dyn Fn(f64) -> String,
        count: impl Fn(&CountsDocument) -> u64,
    ) {
        let rate = |one: &ExtendDocument, next: &ExtendDocument| {
            let more = count(&next.total).saturating_sub(count(&one.total)) as f64;
            more / (next.elapsed_s - one.elapsed_s).max(1e-3)
        };
        let pairs = self.seen.iter().zip(self.seen.iter().skip(1));
        let rates: Vec<f64> = pairs.map(|(one, next)| rate(one, next)).collect();
        let (now, most) =
            (rates.last().copied().unwrap_or(0.0), rates.iter().copied().fold(0.0, f64::max));
        let width = usize::from(area.width.saturating_sub(2));
        let shown = rates.iter().skip(rates.len().saturating_sub(width));
        let data: Vec<u64> = shown.map(|rate| rate.round() as u64).collect();
        let title = format!("{what}: {}, at most {}", text(now), text(most));
        frame.render_widget(
            Sparkline::default().data(data).block(Block::bordered().title(title)),
            area,
        );
    }
}

fn draw_budget(frame: &mut Frame<'_>, area: Rect, last: &ExtendDocument) {
    let held: u64 = last.processes.iter().map(|process| process.dram_bytes).sum();
    let share = (held as f64 / last.dram_bytes.max(1) as f64).clamp(0.0, 1.0);
    let nodes = interleaf_report::extend::nodes(last);
    let nodes = nodes.map_or(String::new(), |nodes| format!(" ({nodes})"));
    let label = format!("{} of {}{nodes}", Bytes::new(held), Bytes::new(last.dram_bytes));
    let gauge = Gauge::default()
        .block(Block::bordered().title("DRAM"))
        .gauge_style(Style::new().fg(Color::Cyan))
        .ratio(share)
        .label(label);
    frame.render_widget(gauge, area);
}

fn table(last: &ExtendDocument) -> Table<'_> {
    let row = |process: &ProcessDocument| {
        let counts = &process.counts;
        let useful = match counts.prefetched_pages {
            0 => "-".into(),
            all => format!("{:.0} %", 100.0 * counts.prefetch_hits as f64 / all as f64),
        };
        Row::new([
            format!("{} ({})", process.name, process.pid),
            Bytes::new(process.dram_bytes).to_string(),
            counts.faults.to_string(),
            useful,
            Bytes::new(counts.read_bytes).to_string(),
            Bytes::new(counts.written_bytes).to_string(),
            format!("{} s", number(counts.stall_s)),
        ])
    };
    let head =
        Row::new(["process", "DRAM", "faults", "prefetch hits", "read", "written", "stalled"]);
    Table::new(last.processes.iter().map(row), [26, 11, 11, 14, 11, 11, 10].map(Constraint::Length))
        .header(head.style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::bordered().title("processes"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_record::extend::{NodeDocument, SCHEMA};
    use ratatui::{Terminal, backend::TestBackend};

    fn document(elapsed_s: f64, read_bytes: u64) -> ExtendDocument {
        let counts = CountsDocument {
            faults: read_bytes >> 20,
            prefetched_pages: 200,
            prefetch_hits: 150,
            read_bytes,
            stall_s: 1.5,
            ..CountsDocument::default()
        };
        ExtendDocument {
            schema: SCHEMA.into(),
            command: vec!["./solver".into(), "input.dat".into()],
            exit_code: None,
            signal: None,
            elapsed_s,
            dram_bytes: 8 << 30,
            min_alloc_bytes: 64 << 20,
            is_without_children: false,
            stores: vec!["/mnt/nvme".into()],
            resident_max_bytes: None,
            outside: None,
            swapped_bytes: 0,
            user_s: None,
            system_s: None,
            total: counts,
            processes: vec![ProcessDocument {
                pid: 4242,
                name: "solver".into(),
                dram_bytes: 6 << 30,
                outside_bytes: None,
                left_bytes: 0,
                nodes: vec![],
                counts,
            }],
        }
    }

    fn drawn(view: &StatisticsView, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let text = terminal.backend().to_string();
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_terminal_shows_the_budget_the_drive_and_the_processes() {
        let mut view = StatisticsView::default();
        view.add(document(1.0, 0));
        view.add(document(2.0, 1 << 30));
        view.add(document(4.0, 2 << 30));
        let text = drawn(&view, 100, 30);
        for words in [
            "interleaf extend ./solver input.dat",
            "6 GiB of 8 GiB",
            "faults: 512.0 /s, at most 1024 /s",
            "read: 512 MiB/s, at most 1 GiB/s",
            "written: 0 B/s, at most 0 B/s",
            "solver (4242) 6 GiB 2048 75 % 2 GiB 0 B 1.500 s",
            "q quit",
        ] {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
    }

    #[test]
    fn nodes_are_shown_where_there_are_several() {
        let on = |node, resident_bytes| NodeDocument { node, resident_bytes };
        let mut last = document(1.0, 0);
        last.processes[0].nodes = vec![on(0, 4 << 30), on(2, 1 << 30)];
        last.processes.push(last.processes[0].clone());
        let mut view = StatisticsView::default();
        view.add(last);
        let text = drawn(&view, 100, 30);
        assert!(text.contains("12 GiB of 8 GiB (node0 8 GiB, node2 2 GiB)"), "{text}");
    }

    /// Drawing must not panic at any size of the terminal.
    #[test]
    fn any_size_will_do() {
        let mut view = StatisticsView::default();
        for (width, height) in [(1, 1), (3, 40), (200, 2), (10, 10), (20, 7), (300, 100)] {
            drawn(&view, width, height);
            view.add(document(f64::from(width), u64::from(height) << 20));
        }
    }
}
