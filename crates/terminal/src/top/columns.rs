//! The columns of the table: which columns fit a width, and the texts of numbers.

use super::rows::Row;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopColumn {
    Name,
    State,
    Rate,
    Errors,
    P50,
    P95,
    Processes,
    Memory,
    /// The calls of the last seconds, as bars.
    Spark,
    Detail,
}

/// A column and its width without the blank that follows.
pub type Placed = (TopColumn, u16);

/// The width of the marker of the selected row and a blank.
pub const MARKER: u16 = 2;

const LEAST_NAME: u16 = 8;
const STATE: u16 = 12;
const LEAST_SPARK: u16 = 6;

/// The minimum width of the detail column if all numbers are shown.
const LEAST_DETAIL: u16 = 30;

impl TopColumn {
    pub const fn head(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::State => "STATE",
            Self::Rate => "CALLS/S",
            Self::Errors => "ERR",
            Self::P50 => "P50",
            Self::P95 => "P95",
            Self::Processes => "PROC",
            Self::Memory => "MEM",
            Self::Spark => "CALLS",
            Self::Detail => "DETAIL",
        }
    }

    /// True for columns with numbers. Numbers are right-aligned.
    pub const fn is_number(self) -> bool {
        !matches!(self, Self::Name | Self::State | Self::Spark | Self::Detail)
    }

    /// The text of a column with a single number. Other columns are drawn separately.
    pub fn number(self, row: &Row) -> String {
        let Some(figures) = &row.figures else {
            return String::new();
        };
        let recent = &figures.recent;
        match self {
            Self::Rate => rate(recent.calls_per_second),
            Self::Errors if recent.errors == 0 => "-".to_owned(),
            Self::Errors => recent.errors.to_string(),
            Self::P50 => recent.p50_ms.map_or_else(|| "-".to_owned(), millis),
            Self::P95 => recent.p95_ms.map_or_else(|| "-".to_owned(), millis),
            Self::Processes => figures
                .processes
                .map_or_else(|| "-".to_owned(), |count| count.to_string()),
            Self::Memory => figures.memory_bytes.map_or_else(|| "-".to_owned(), bytes),
            Self::Name | Self::State | Self::Spark | Self::Detail => String::new(),
        }
    }
}

/// The columns that fit a width, in order. `longest_name` is the width of the longest name.
pub fn placed(width: u16, longest_name: u16) -> Vec<Placed> {
    let name = longest_name.clamp(LEAST_NAME, (width / 5).clamp(LEAST_NAME, 32));
    let mut columns = vec![(TopColumn::Name, name), (TopColumn::State, STATE)];
    let mut left = width.saturating_sub(MARKER + name + 1 + STATE + 1);
    // The columns in order of importance. Their order on the screen differs.
    let numbers = [
        (TopColumn::Rate, 7),
        (TopColumn::Errors, 4),
        (TopColumn::P95, 5),
        (TopColumn::Memory, 5),
        (TopColumn::P50, 5),
        (TopColumn::Processes, 4),
    ];
    let mut chosen = Vec::new();
    for (column, wide) in numbers {
        if left > wide {
            left -= wide + 1;
            chosen.push((column, wide));
        } else {
            break;
        }
    }
    let order = [
        TopColumn::Rate,
        TopColumn::Errors,
        TopColumn::P50,
        TopColumn::P95,
        TopColumn::Processes,
        TopColumn::Memory,
    ];
    for column in order {
        columns.extend(
            chosen
                .iter()
                .find(|(chosen_column, _)| *chosen_column == column),
        );
    }
    if left >= LEAST_SPARK + 1 + LEAST_DETAIL {
        let spark = (left / 4).clamp(LEAST_SPARK, 30);
        columns.push((TopColumn::Spark, spark));
        columns.push((TopColumn::Detail, left - spark - 1));
    } else if left >= LEAST_SPARK {
        columns.push((TopColumn::Spark, left));
    }
    columns
}

/// `0.3`, `12`, `1.2k`
fn rate(rate: f64) -> String {
    match rate {
        0.0 => "-".to_owned(),
        ..9.95 => format!("{rate:.1}"),
        ..1000.0 => format!("{rate:.0}"),
        _ => format!("{:.1}k", rate / 1000.0),
    }
}

/// `0.4ms`, `12ms`, `1.2s`, `3min`
pub fn millis(millis: f64) -> String {
    match millis {
        ..0.95 => format!("{millis:.1}ms"),
        ..999.5 => format!("{millis:.0}ms"),
        ..99_500.0 => format!("{:.1}s", millis / 1000.0),
        _ => format!("{:.0}min", millis / 60_000.0),
    }
}

/// `912K`, `24M`, `1.2G`
fn bytes(bytes: u64) -> String {
    const MEBI: u64 = 1024 * 1024;
    match bytes {
        0..MEBI => format!("{}K", bytes / 1024),
        MEBI..0x4000_0000 => format!("{}M", bytes / MEBI),
        _ => {
            let tenths = bytes / (MEBI * 1024 / 10);
            format!("{}.{}G", tenths / 10, tenths % 10)
        }
    }
}

/// The bars of the last seconds, as many as fit. The newest is on the right.
pub fn spark(row: &Row, width: u16, is_unicode: bool) -> String {
    let levels: &[char] = if is_unicode {
        &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &[' ', '.', ':', '-', '=', '+', '*', '#', '@']
    };
    let width = usize::from(width);
    let skipped = row.history.len().saturating_sub(width);
    let most = row.history.iter().copied().max().unwrap_or_default().max(1);
    let top = levels.len() as u64 - 1;
    let bars = row.history.iter().skip(skipped).map(|calls| {
        let level = (calls * top).div_ceil(most);
        usize::try_from(level)
            .ok()
            .and_then(|index| levels.get(index))
            .copied()
    });
    let bars: String = bars.map(|bar| bar.unwrap_or(' ')).collect();
    format!("{bars:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let rates = [0.0, 0.31, 9.94, 12.4, 1234.0].map(rate);
        assert_eq!(rates, ["-", "0.3", "9.9", "12", "1.2k"]);
        let spans = [0.2, 12.0, 999.0, 1200.0, 99_000.0, 200_000.0].map(millis);
        assert_eq!(spans, ["0.2ms", "12ms", "999ms", "1.2s", "99.0s", "3min"]);
        let sizes = [0, 900 * 1024, 24 << 20, 1023 << 20, 1 << 30, 5 << 29].map(bytes);
        assert_eq!(sizes, ["0K", "900K", "24M", "1023M", "1.0G", "2.5G"]);
    }

    #[test]
    fn columns_never_need_more_than_there_is() {
        for width in 20..300 {
            for name in [1, 12, 64] {
                let placed = placed(width, name);
                let all: u16 = placed.iter().map(|(_, wide)| wide + 1).sum();
                assert!(
                    MARKER + all <= width + 1 || width < 24,
                    "{width}: {placed:?}"
                );
            }
        }
        let has = |width, column| {
            placed(width, 12)
                .iter()
                .any(|(placed_column, _)| *placed_column == column)
        };
        assert!(has(80, TopColumn::Spark) && has(80, TopColumn::Processes));
        assert!(!has(80, TopColumn::Detail) && has(140, TopColumn::Detail));
        assert!(has(60, TopColumn::P95) && !has(40, TopColumn::P95));
    }
}
