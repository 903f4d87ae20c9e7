//! Lines of server logs in the format of REST.

use mainstay_api::LogLine;
use mainstay_transport::logs::Line;

pub fn lines(lines: Vec<Line>) -> Vec<LogLine> {
    lines.into_iter().map(line).collect()
}

pub fn line(line: Line) -> LogLine {
    LogLine {
        time: line.time,
        source: line.source.as_str().to_owned(),
        text: line.text,
    }
}
