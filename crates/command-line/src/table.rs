//! Tables that fit the width of the terminal: a row is one line, columns are shortened with `…` or
//! left out in order. Where no terminal is, or `-o wide` asks for it, nothing is cut.

use std::fmt::Write as _;

use mainstay_core::display;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::{Palette, Tone};

/// The blanks between two columns.
const GAP: usize = 2;

/// What is left of a column that may be shortened, at least.
const LEAST: usize = 10;

/// What a column gives up where there is little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    head: &'static str,
    /// The least width that is of use; `None` shows it whole.
    least: Option<usize>,
    /// Columns of a higher rank are left out first. Rank 0 always stays.
    rank: u8,
    /// Whether only `-o wide` shows it.
    wide: bool,
    /// Whether its cells end below each other, as numbers do.
    right: bool,
}

impl Column {
    /// A column that is shown whole, always.
    pub const fn new(head: &'static str) -> Self {
        Self {
            head,
            least: None,
            rank: 0,
            wide: false,
            right: false,
        }
    }

    /// A column of numbers, which end below each other.
    #[must_use]
    pub const fn right(mut self) -> Self {
        self.right = true;
        self
    }

    /// It may be cut, but not below this width. Columns to the left are given room first.
    #[must_use]
    pub const fn cut_to(mut self, least: usize) -> Self {
        self.least = Some(least);
        self
    }

    /// It may be left out; higher ranks go first.
    #[must_use]
    pub const fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }

    /// It is shown by `-o wide` only.
    #[must_use]
    pub const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }
}

/// The text of a cell and what it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
    has_symbol: bool,
}

impl Cell {
    /// A status word, with the symbol and the colour that it has.
    pub fn status(word: &str) -> Self {
        Self {
            text: word.to_owned(),
            tone: Tone::of(word),
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

/// How wide a table may be, and what it may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// `None` cuts nothing.
    pub width: Option<usize>,
    /// Whether columns of `-o wide` are shown.
    pub wide: bool,
    pub palette: Palette,
}

/// A table in lines that are ready to print: text from outside is escaped.
pub fn laid_out<const N: usize, C: Into<Cell>>(
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [C; N]>,
    room: Room,
) -> Vec<String> {
    let palette = room.palette;
    // Escaped before it is measured.
    let shown = |cell: Cell| {
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
        .map(|row| row.map(|cell| shown(cell.into())))
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
    let mut shown: Vec<usize> = (0..columns.len())
        .filter(|index| all || !columns[*index].wide)
        .collect();
    let needed = |shown: &[usize]| {
        let gaps = GAP * shown.len().saturating_sub(1);
        shown.iter().map(|index| least(*index)).sum::<usize>() + gaps
    };
    while needed(&shown) > width {
        // Of the same rank, the right one goes first.
        let leaving = shown
            .iter()
            .copied()
            .max_by_key(|index| (columns[*index].rank, *index));
        match leaving.filter(|index| columns[*index].rank > 0) {
            Some(leaving) => shown.retain(|index| *index != leaving),
            None => break,
        }
    }
    let mut left = width.saturating_sub(needed(&shown));
    let mut widths = Vec::with_capacity(shown.len());
    for index in shown {
        let more = left.min(natural[index] - least(index));
        left -= more;
        widths.push((index, least(index) + more));
    }
    squeeze(&mut widths, width);
    widths
}

/// On terminals too narrow for what must stay, the widest columns give way, and then the right ones.
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
        let taken = text.width();
        let mut room = width.saturating_sub(taken);
        if columns[*index].right {
            blanks += std::mem::take(&mut room);
        }
        if !text.is_empty() {
            // Padding stands between cells only: no line ends in blanks.
            write!(line, "{:blanks$}{}", "", palette.paint(&text, *tone)).ok();
            blanks = 0;
        }
        blanks += room + GAP;
    }
    line
}

/// At most so many places, the last of which is `…` where something was cut.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or_default();
        taken <= room
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
        let shown = [60, 80, 140].map(|width| {
            let lines = laid_out(&LIST, servers(), room(Some(width)));
            format!("--- {width}\n{}", lines.join("\n"))
        });
        insta::assert_snapshot!(shown.join("\n"));
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
        let shown = laid_out(&columns, rows(), wide);
        assert!(shown[1].ends_with("a  b"), "{shown:?}");
        assert!(!laid_out(&columns, rows(), room(None))[0].contains('B'));
    }

    /// Wide characters take two places, marks none, and escapes what they are long.
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
            let shown = cut(&text, width);
            prop_assert!(shown.width() <= width);
            prop_assert_eq!(shown == text, text.width() <= width);
        }
    }
}
