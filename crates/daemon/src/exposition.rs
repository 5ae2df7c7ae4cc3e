//! The two text formats of metrics, and the negotiation between them.
//!
//! Sources: Prometheus, "Exposition formats" and "Content negotiation"; OpenMetrics 1.0; RFC 9110,
//! section 12.5.1 for `Accept`.

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus, which every client supports.
    Text,
}

/// The media types of the two formats.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(super) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Format {
    /// Returns the format that a client prefers, according to the values of the request's `Accept`
    /// fields. The default is `Format::Text`, as in other exporters.
    pub(super) fn wanted(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0, None);
            for (key, value) in parts.filter_map(|part| part.split_once('=')) {
                let value = value.trim().trim_matches('"');
                match key.trim().to_ascii_lowercase().as_str() {
                    "q" => {
                        quality =
                            value.parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0)
                    }
                    "version" => version = Some(value),
                    _ => {}
                }
            }
            let format = match (name.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => {
                    Self::OpenMetrics
                }
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => Self::Text,
                _ => continue,
            };
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }
}

/// Converts OpenMetrics to the text format 0.0.4: the names of counters get the suffix `_total` in
/// `HELP` and `TYPE` lines too, and `UNIT` and `EOF` lines are removed.
pub(super) fn plain(open_metrics: &str) -> String {
    let mut counters: Vec<&str> = vec![];
    for line in open_metrics.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ").and_then(|it| it.strip_suffix(" counter"))
        {
            counters.push(name);
        }
    }
    let mut text = String::new();
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            counters.contains(&name).then(|| format!("{word}{name}_total {rest}\n"))
        });
        text += &described.unwrap_or_else(|| format!("{line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let table = [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain", Format::Text),
            ("text/plain;version=0.0.4", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"", Format::OpenMetrics),
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.8", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=x, */*;q=0.1", Format::Text),
            ("application/openmetrics-text;version=2.0.0", Format::Text),
            ("application/vnd.google.protobuf;encoding=delimited", Format::Text),
            (",;=,;;q=", Format::Text),
        ];
        for (accept, expected) in table {
            assert_eq!(Format::wanted(accept), expected, "{accept}");
        }
    }

    #[test]
    fn counters_have_their_ending_in_the_older_format() {
        let open = "# HELP a_bytes A.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                    a_bytes_total{b=\"c\"} 1\n# HELP g G.\n# TYPE g gauge\ng 2.0\n# EOF\n";
        let text = "# HELP a_bytes_total A.\n# TYPE a_bytes_total counter\n\
                    a_bytes_total{b=\"c\"} 1\n# HELP g G.\n# TYPE g gauge\ng 2.0\n";
        assert_eq!(plain(open), text);
    }
}
