//! Tables that fit the width of the terminal: a row is one line, and columns are shortened with `…` or left
//! out in order. Without a terminal, or with `-o wide`, nothing is cut.

use std::fmt::Write as _;

use mainstay_core::display;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::{Palette, Tone};

/// Blanks between two columns.
const GAP: usize = 2;

/// Least width of a column that is shortened.
const LEAST: usize = 10;

/// A column, and its behaviour in a narrow terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    head: &'static str,
    /// Least width of the column; `None` means that it is never shortened.
    least: Option<usize>,
    /// Columns of a higher rank are left out first. Rank 0 always stays.
    rank: u8,
    /// True if only `-o wide` shows the column.
    wide: bool,
    /// True if the cells are right-aligned, as for numbers.
    right: bool,
}

impl Column {
    /// A column that is always shown whole.
    pub const fn new(head: &'static str) -> Self {
        Self {
            head,
            least: None,
            rank: 0,
            wide: false,
            right: false,
        }
    }

    /// Aligns the cells to the right, for numbers.
    #[must_use]
    pub const fn right(mut self) -> Self {
        self.right = true;
        self
    }

    /// Allows the column to be shortened, but not below this width. Columns to the left get more space first.
    #[must_use]
    pub const fn cut_to(mut self, least: usize) -> Self {
        self.least = Some(least);
        self
    }

    /// Allows the column to be left out; higher ranks first.
    #[must_use]
    pub const fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    /// Shows the column by `-o wide` only.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }
}

/// The text of a cell, and its tone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
    has_symbol: bool,
}

impl Cell {
    /// A status word with its symbol and colour.
    pub fn status(word: &str) -> Self {
        Self {
            text: word.to_owned(),
            tone: Tone::for_status(word),
            has_symbol: true,
        }
    }

    #[must_use]
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The width and the style of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// `None` cuts nothing.
    pub width: Option<usize>,
    /// True if columns of `-o wide` are shown.
    pub wide: bool,
    pub palette: Palette,
}

/// Formats a table as lines that are ready to print: external text is escaped.
pub fn laid_out<const N: usize, C: Into<Cell>>(
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [C; N]>,
    room: Room,
) -> Vec<String> {
    let palette = room.palette;
    // Escape before measuring.
    let escaped = |cell: Cell| {
        let text = display::line(&cell.text).into_owned();
        let symbol = cell
            .tone
            .symbol()
            .filter(|_| cell.has_symbol && palette.symbols);
        let text = match symbol {
            Some(symbol) => format!("{symbol} {text}"),
            None => text,
        };
        (text, cell.tone)
    };
    let rows: Vec<[(String, Tone); N]> = rows
        .into_iter()
        .map(|row| row.map(|cell| escaped(cell.into())))
        .collect();
    let natural = |index: usize| {
        let cells = rows.iter().map(|row| row[index].0.width());
        cells.fold(columns[index].head.width(), usize::max)
    };
    let widths = match room.width {
        Some(width) => {
            let natural: Vec<usize> = (0..N).map(natural).collect();
            fitted(columns, &natural, width, room.wide)
        }
        None => {
            let is_shown = |index: &usize| room.wide || !columns[*index].wide;
            (0..N)
                .filter(is_shown)
                .map(|index| (index, natural(index)))
                .collect()
        }
    };
    let head = columns.map(|column| (column.head.to_owned(), Tone::Head));
    let rows = std::iter::once(&head).chain(&rows);
    rows.map(|row| line(columns, row, &widths, palette))
        .collect()
}

/// The columns that are shown, by index, with their widths.
fn fitted(columns: &[Column], natural: &[usize], width: usize, all: bool) -> Vec<(usize, usize)> {
    let least = |index: usize| match columns[index].least {
        Some(least) => natural[index].min(least.max(LEAST)),
        None => natural[index],
    };
    let mut visible: Vec<usize> = (0..columns.len())
        .filter(|index| all || !columns[*index].wide)
        .collect();
    let needed = |visible: &[usize]| {
        let gaps = GAP * visible.len().saturating_sub(1);
        visible.iter().map(|index| least(*index)).sum::<usize>() + gaps
    };
    while needed(&visible) > width {
        // Of the same rank, the rightmost column goes first.
        let leaving = visible
            .iter()
            .copied()
            .max_by_key(|index| (columns[*index].rank, *index));
        match leaving.filter(|index| columns[*index].rank > 0) {
            Some(leaving) => visible.retain(|index| *index != leaving),
            None => break,
        }
    }
    let mut left = width.saturating_sub(needed(&visible));
    let mut widths = Vec::with_capacity(visible.len());
    for index in visible {
        let more = left.min(natural[index] - least(index));
        left -= more;
        widths.push((index, least(index) + more));
    }
    squeeze(&mut widths, width);
    widths
}

/// Makes mandatory columns fit a very narrow terminal: the widest columns are shortened first, and then the
/// right ones.
fn squeeze(widths: &mut Vec<(usize, usize)>, room: usize) {
    let total = |widths: &[(usize, usize)]| {
        widths.iter().map(|(_, width)| width).sum::<usize>() + GAP * (widths.len() - 1)
    };
    while !widths.is_empty() && total(widths) > room {
        let excess = total(widths) - room;
        let alone = widths.len() == 1;
        match widths.iter_mut().max_by_key(|(_, width)| *width) {
            Some((_, widest)) if *widest > LEAST => {
                *widest = widest.saturating_sub(excess).max(LEAST);
            }
            Some((_, widest)) if alone => {
                *widest = room.max(1);
                return;
            }
            _ => {
                widths.pop();
            }
        }
    }
}

fn line(
    columns: &[Column],
    row: &[(String, Tone)],
    widths: &[(usize, usize)],
    palette: Palette,
) -> String {
    let mut line = String::new();
    let mut blanks = 0;
    for (index, width) in widths {
        let (text, tone) = &row[*index];
        let text = cut(text, *width);
        let text_width = text.width();
        let mut room = width.saturating_sub(text_width);
        if columns[*index].right {
            blanks += std::mem::take(&mut room);
        }
        if !text.is_empty() {
            // Padding is only between cells, so that no line ends in blanks.
            write!(line, "{:blanks$}{}", "", palette.paint(&text, *tone)).ok();
            blanks = 0;
        }
        blanks += room + GAP;
    }
    line
}

/// Cuts a text to this width. The last column is `…` if anything was cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or_default();
        used <= room
    };
    let mut shortened: String = text.chars().take_while(fits).collect();
    // A sequence may be wider than its characters.
    while shortened.width() > room && shortened.pop().is_some() {}
    if width > 0 {
        shortened.truncate(shortened.trim_end().len());
        shortened.push('…');
    }
    shortened
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIST: [Column; 6] = [
        Column::new("NAME").cut_to(20),
        Column::new("STATUS"),
        Column::new("TRANSPORT").rank(2),
        Column::new("TOOLS").rank(1),
        Column::new("PID").rank(3),
        Column::new("DETAIL").cut_to(24),
    ];

    fn room(width: Option<usize>) -> Room {
        Room {
            width,
            wide: false,
            palette: Palette::PLAIN,
        }
    }

    fn servers() -> [[Cell; 6]; 3] {
        let row = |cells: [&str; 6]| {
            let mut cells = cells.map(Cell::from);
            cells[1] = Cell::status(&cells[1].text);
            cells
        };
        [
            row(["files", "connected", "stdio", "14", "81432", "up 3 min"]),
            row([
                "a-server-with-a-name-of-32-bytes",
                "reconnecting",
                "stdio",
                "0",
                "",
                "process exited unexpectedly (code 7): no licence found; attempt 3 in 4.0 s; see \"mainstay logs a-server-with-a-name-of-32-bytes\"",
            ]),
            row(["off", "disabled", "http", "0", "", ""]),
        ]
    }

    #[test]
    fn a_row_is_one_line_at_every_width() {
        let tables = [60, 80, 140].map(|width| {
            let lines = laid_out(&LIST, servers(), room(Some(width)));
            format!("--- {width}\n{}", lines.join("\n"))
        });
        insta::assert_snapshot!(tables.join("\n"));
        for width in 1..200 {
            let lines = laid_out(&LIST, servers(), room(Some(width)));
            assert_eq!(lines.len(), 4);
            for line in lines {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn wide_shows_every_column_whole() {
        let columns = [Column::new("A").cut_to(3).rank(1), Column::new("B").wide()];
        let rows = || [["a".repeat(90), "b".to_owned()]];
        let wide = Room {
            wide: true,
            ..room(None)
        };
        let lines = laid_out(&columns, rows(), wide);
        assert!(lines[1].ends_with("a  b"), "{lines:?}");
        assert!(!laid_out(&columns, rows(), room(None))[0].contains('B'));
    }

    /// Wide characters take two columns, marks none, and escapes their length.
    #[test]
    fn columns_stand_below_each_other_whatever_is_in_them() {
        let row = |cell: &str| [cell.to_owned(), "|".to_owned()];
        let zalgo = format!("a{}", "\u{336}".repeat(6));
        let rows = [
            "plain",
            "漢字",
            "e\u{301}",
            "🦀",
            "⚠\u{fe0f}",
            "\u{1b}[2J",
            &zalgo,
        ]
        .map(row);
        let columns = [Column::new("CELL"), Column::new("NEXT")];
        insta::assert_snapshot!(laid_out(&columns, rows, room(None)).join("\n"));
    }

    #[test]
    fn colours_and_symbols_take_no_room_of_their_own() {
        let palette = Palette {
            colours: true,
            symbols: true,
        };
        let rich = Room {
            palette,
            ..room(Some(60))
        };
        let lines = laid_out(&LIST, servers(), rich);
        insta::assert_snapshot!(lines.join("\n").replace('\u{1b}', "ESC"));
    }

    proptest! {
        #[test]
        fn what_is_cut_fits(text in ".{0,40}", width in 0usize..30) {
            let text = display::line(&text).into_owned();
            let shortened = cut(&text, width);
            prop_assert!(shortened.width() <= width);
            prop_assert_eq!(shortened == text, text.width() <= width);
        }
    }
}
