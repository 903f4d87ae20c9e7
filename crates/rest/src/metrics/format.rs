//! The formats of `/metrics`: `OpenMetrics` if the scraper asks for it, else the Prometheus text
//! format 0.0.4.

use std::fmt;

use http::{HeaderMap, header};
use prometheus_client::{encoding::text, registry::Registry};

const OPEN_METRICS: &str = "application/openmetrics-text";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    OpenMetrics,
    Text,
}

impl MetricsFormat {
    /// The format that the `Accept` header requests.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(header::ACCEPT).into_iter();
        let mut ranges = accepted
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','));
        if ranges.any(asks_for_open_metrics) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }

    /// The content type, by which scrapers recognise the format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub fn write(self, registry: &Registry) -> Result<String, fmt::Error> {
        let mut open = String::new();
        text::encode(&mut open, registry)?;
        Ok(match self {
            Self::OpenMetrics => open,
            Self::Text => prometheus_text(&open),
        })
    }
}

/// True if this range of an `Accept` header asks for `OpenMetrics`. `q=0` excludes a type (RFC
/// 9110, section 12.4.2).
fn asks_for_open_metrics(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_named = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(OPEN_METRICS));
    let weight = parts.find_map(|part| {
        let (name, weight) = part.split_once('=')?;
        name.eq_ignore_ascii_case("q")
            .then(|| weight.parse::<f32>().ok())?
    });
    is_named && weight.is_none_or(|weight| weight > 0.0)
}

/// Converts `OpenMetrics` to the Prometheus text format. Samples stay the same. A family gets the
/// name of its samples. Units and the end marker are left out, and an info becomes a gauge.
fn prometheus_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut lines = open.lines();
    while let Some(line) = lines.next() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            // The next line has the type. The name of the family gets a suffix by this type.
            let typed = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            let Some((name, kind)) = typed.and_then(|typed| typed.split_once(' ')) else {
                continue;
            };
            let help = described.strip_prefix(name).unwrap_or_default();
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                _ => ("", kind),
            };
            for part in ["# HELP ", name, suffix, help, "\n"] {
                text += part;
            }
            for part in ["# TYPE ", name, suffix, " ", kind, "\n"] {
                text += part;
            }
        } else if !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn whoever_asks_for_open_metrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (prometheus, MetricsFormat::OpenMetrics),
            ("Application/OpenMetrics-Text", MetricsFormat::OpenMetrics),
            (
                "text/plain;version=0.0.4;q=1,*/*;q=0.1",
                MetricsFormat::Text,
            ),
            (
                "application/openmetrics-text; q=0, */*",
                MetricsFormat::Text,
            ),
            ("*/*", MetricsFormat::Text),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(MetricsFormat::from_headers(&headers), expected, "{accept}");
        }
        assert_eq!(
            MetricsFormat::from_headers(&HeaderMap::new()),
            MetricsFormat::Text
        );
    }
}
