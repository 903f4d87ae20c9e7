//! Draws the model. A smaller screen shows fewer parts. The servers are the last part to disappear.

use std::time::Instant;

use mainstay_command_line::{output, wrap::wrapped};
use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Span,
};

use super::{
    columns::{self, MARKER, Placed, TopColumn},
    model::{DaemonLink, KeyMode, LEAST_FOR_PANE, Model},
    pane::Topic,
    rows::{Mood, Row, Sort, States},
};

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub has_colours: bool,
    pub is_unicode: bool,
}

pub(super) const HELP: &[(&str, &str)] = &[
    (
        "Up Down j k",
        "choose a server (also PgUp, PgDn, Home, End)",
    ),
    ("s S", "sort by the next column; the other way round"),
    ("f", "show all, those in trouble, up, or down"),
    ("/", "show those that contain a text; Esc shows all again"),
    ("Enter", "open or close the pane of the chosen server"),
    ("Tab", "its log, its events, its calls, or its whole status"),
    ("t x", "start, stop"),
    ("r c", "restart, reconnect"),
    ("e", "enable or disable"),
    ("y n", "confirm or cancel"),
    ("Ctrl-L", "draw the screen anew"),
    ("q Ctrl-C", "quit"),
];

/// The heights of the parts of the screen, from the top. A part without room has height 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    title: u16,
    heads: u16,
    rows: u16,
    pane: u16,
    detail: u16,
    foot: u16,
}

impl Parts {
    fn for_height(height: u16, has_pane: bool) -> Self {
        let if_from = |least: u16| u16::from(height >= least);
        let (title, foot) = (if_from(3), if_from(4));
        let (heads, detail) = (if_from(5), if_from(7));
        let left = height - title - foot - heads - detail;
        let pane = if has_pane && height >= LEAST_FOR_PANE {
            left / 2
        } else {
            0
        };
        Self {
            title,
            heads,
            rows: left - pane,
            pane,
            detail,
            foot,
        }
    }
}

pub fn view(model: &mut Model, frame: &mut Frame<'_>, look: Look) {
    let area = frame.area();
    let mut canvas = Canvas {
        frame,
        look,
        is_dim: model.link != DaemonLink::Up,
    };
    if let KeyMode::Help { first } = &mut model.mode {
        canvas.help(area, first);
        return;
    }
    model.has_room_for_pane = area.height >= LEAST_FOR_PANE;
    let parts = Parts::for_height(area.height, model.pane.is_some());
    model.list.page = parts.rows.max(1).into();
    scroll(model);
    let mut y = area.y;
    let mut next = |height: u16| {
        let part = Rect { y, height, ..area };
        y += height;
        part
    };
    canvas.title(model, next(parts.title));
    let names = model
        .list
        .visible
        .iter()
        .map(|index| model.list.rows[*index].name.len());
    let longest = names.max().unwrap_or_default();
    let columns = columns::placed(area.width, u16::try_from(longest).unwrap_or(u16::MAX));
    canvas.heads(&columns, next(parts.heads));
    canvas.rows(model, &columns, next(parts.rows));
    canvas.pane(model, next(parts.pane));
    canvas.detail(model, next(parts.detail));
    canvas.foot(model, next(parts.foot));
}

/// Keeps the selected row visible.
fn scroll(model: &mut Model) {
    let last = model.list.visible.len().saturating_sub(model.list.page);
    model.list.first = model.list.first.min(last);
    if let Some(place) = model.list.place() {
        let lowest = (place + 1).saturating_sub(model.list.page);
        model.list.first = model.list.first.clamp(lowest, place);
    }
}

struct Canvas<'c, 'f> {
    frame: &'c mut Frame<'f>,
    look: Look,
    /// True if the data are out of date, because the daemon is not connected.
    is_dim: bool,
}

impl Canvas<'_, '_> {
    /// Draws a text at a position, cut to a width. All text is drawn by this function.
    fn put(&mut self, x: u16, y: u16, text: &str, width: u16, style: Style) {
        let area = self.frame.area();
        if x >= area.right() || y >= area.bottom() {
            return;
        }
        let text = cut(text, width.min(area.right() - x), self.look.is_unicode);
        self.frame
            .buffer_mut()
            .set_stringn(x, y, text, width.into(), style);
    }

    fn line(&mut self, area: Rect, text: &str, style: Style) {
        if area.height > 0 {
            self.put(area.x, area.y, text, area.width, style);
        }
    }

    fn style(&self) -> Style {
        if self.is_dim {
            Style::new().add_modifier(Modifier::DIM)
        } else {
            Style::new()
        }
    }

    fn colour(&self, colour: Color) -> Style {
        if self.look.has_colours && !self.is_dim {
            self.style().fg(colour)
        } else {
            self.style()
        }
    }

    /// The colour of a mood. A word always accompanies the colour.
    fn mood(&self, mood: Mood) -> Style {
        match mood {
            Mood::Broken => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            Mood::Trying => self.colour(Color::Yellow),
            Mood::Degraded => self.colour(Color::Magenta),
            Mood::Pending => self.colour(Color::Cyan),
            Mood::Well => self.colour(Color::Green),
            Mood::Down => self.style().add_modifier(Modifier::DIM),
        }
    }

    fn title(&mut self, model: &Model, area: Rect) {
        if area.height == 0 {
            return;
        }
        if let (Some(seconds), DaemonLink::Gone { reason, .. }) = (model.again_in(), &model.link) {
            let text = format!("the daemon is gone, trying again in {seconds} s ({reason})");
            let style = Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED);
            self.line(
                area,
                &format!("{text:<wide$}", wide = area.width.into()),
                style,
            );
            return;
        }
        let mut left = summary(model);
        if let Some(warning) = model.warnings.first() {
            left = format!("{left}  {}", output::one_line(warning));
        }
        let right = arrangement(model);
        let width = u16::try_from(Span::raw(&right).width()).unwrap_or(u16::MAX);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let room = area.width.saturating_sub(width + 2);
        if room < area.width / 2 {
            self.line(area, &left, bold);
        } else {
            self.put(area.x, area.y, &left, room, bold);
            self.put(area.right() - width, area.y, &right, width, Style::new());
        }
    }

    fn heads(&mut self, columns: &[Placed], area: Rect) {
        let style = self.style().add_modifier(Modifier::UNDERLINED);
        let blank = " ".repeat(area.width.into());
        self.line(area, &blank, style);
        let mut x = area.x + MARKER;
        for &(column, width) in columns {
            if area.height > 0 {
                self.put(
                    x,
                    area.y,
                    &aligned(column, column.head(), width),
                    width,
                    style,
                );
            }
            x += width + 1;
        }
    }

    fn rows(&mut self, model: &Model, columns: &[Placed], area: Rect) {
        if model.list.visible.is_empty() {
            let text = if model.list.rows.is_empty() {
                "  no servers are configured"
            } else {
                "  no server fits the filter; Esc shows all"
            };
            self.line(area, text, self.style());
            return;
        }
        let indices = model.list.visible.iter().skip(model.list.first);
        for (line, index) in (0..area.height).zip(indices) {
            let row = &model.list.rows[*index];
            let is_chosen = model.list.selected.as_ref() == Some(&row.name);
            let place = Rect {
                y: area.y + line,
                height: 1,
                ..area
            };
            self.row(model, row, columns, place);
            if is_chosen {
                self.put(place.x, place.y, ">", 1, Style::new());
                let chosen = Style::new().add_modifier(Modifier::REVERSED);
                self.frame.buffer_mut().set_style(place, chosen);
            }
        }
    }

    fn row(&mut self, model: &Model, row: &Row, columns: &[Placed], area: Rect) {
        let has_detail = columns
            .iter()
            .any(|(column, _)| *column == TopColumn::Detail);
        let is_up = matches!(row.mood, Mood::Well | Mood::Degraded);
        let mut x = area.x + MARKER;
        for &(column, width) in columns {
            let (text, style) = match column {
                TopColumn::Name => (row.name.clone(), self.style()),
                TopColumn::State => {
                    let word = match model.at_work.get(&row.name) {
                        Some(action) => format!("{}...", action.verb()),
                        None => row.word.clone(),
                    };
                    (word, self.mood(row.mood))
                }
                // A server that is down has no useful figures. Its reason takes their place.
                _ if !has_detail && !is_up => {
                    let rest = area.right().saturating_sub(x);
                    self.put(x, area.y, &row.detail(model.now), rest, self.mood(row.mood));
                    return;
                }
                TopColumn::Detail => (row.detail(model.now), self.style()),
                TopColumn::Spark => {
                    let spark = columns::spark(row, width, self.look.is_unicode);
                    (spark, self.colour(Color::Cyan))
                }
                TopColumn::Errors if row.errors() > 0 => {
                    (column.number(row), self.colour(Color::Red))
                }
                _ => (column.number(row), self.style()),
            };
            self.put(x, area.y, &aligned(column, &text, width), width, style);
            x += width + 1;
        }
    }

    fn pane(&mut self, model: &Model, area: Rect) {
        let Some(pane) = model.pane.as_ref().filter(|_| area.height > 0) else {
            return;
        };
        let name = model.list.selected.as_deref().unwrap_or("no server");
        let rule = if self.look.is_unicode { "─" } else { "-" };
        let style = self.style();
        self.line(area, &rule.repeat(area.width.into()), style);
        let bold = style.add_modifier(Modifier::BOLD);
        let mut x = area.x + 2;
        let title = format!(" {name} ");
        let wide = u16::try_from(title.len()).unwrap_or(u16::MAX);
        self.put(x, area.y, &title, area.width / 2, bold);
        x = x.saturating_add(wide.min(area.width / 2) + 1);
        for topic in Topic::ALL {
            // Brackets mark the topic, because some terminals have no bold text.
            let (text, style) = if topic == pane.topic {
                (format!("[{}]", topic.word()), bold)
            } else {
                (format!(" {} ", topic.word()), style)
            };
            let wide = u16::try_from(text.len()).unwrap_or(u16::MAX);
            self.put(x, area.y, &text, wide, style);
            x = x.saturating_add(wide + 1);
        }
        let room = usize::from(area.height - 1);
        if let (Topic::Status, Some(row)) = (pane.topic, model.list.row()) {
            let width = usize::from(area.width).saturating_sub(1);
            let lines = wrapped(&described(row, model.now), width);
            // A word may be wider than the screen.
            let rows = lines.iter().flat_map(|line| output::rows(line));
            for (y, line) in (area.y + 1..).zip(rows.take(room)) {
                self.put(area.x, y, &line, area.width, style);
            }
            return;
        }
        if pane.lines.is_empty() {
            let text = if pane.is_loaded {
                pane.topic.nothing()
            } else {
                "…"
            };
            self.put(area.x, area.y + 1, text, area.width, style);
        }
        let surplus = pane.lines.len().saturating_sub(room);
        for (y, line) in (area.y + 1..).zip(pane.lines.iter().skip(surplus)) {
            let style = if line.is_bad {
                self.colour(Color::Red)
            } else {
                style
            };
            self.put(area.x, y, &line.text, area.width, style);
        }
    }

    /// Draws the selected server in one line.
    fn detail(&mut self, model: &Model, area: Rect) {
        let Some(row) = model.list.row() else { return };
        self.line(area, &described(row, model.now), self.style());
    }

    fn foot(&mut self, model: &Model, area: Rect) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let (text, style) = match (&model.mode, &model.notice) {
            (KeyMode::Confirm { name, action }, _) => {
                let text = format!("{} {name}? (y/n){}", action.verb(), action.meaning());
                (text, bold.add_modifier(Modifier::REVERSED))
            }
            (KeyMode::Filter, _) => (format!("/{}_", model.list.text), bold),
            (_, Some(notice)) if notice.is_error => (
                format!("error: {}", notice.text),
                self.colour(Color::Red).patch(bold),
            ),
            (_, Some(notice)) => (notice.text.clone(), bold),
            (KeyMode::Browse | KeyMode::Help { .. }, None) => {
                let keys =
                    "? help  q quit  s sort  f show  / filter  Enter Tab pane  t x r c e steer";
                (keys.to_owned(), self.style())
            }
        };
        self.line(area, &text, style);
    }

    /// Draws the keys from line `first` on. If lines remain, the last line says so.
    fn help(&mut self, area: Rect, first: &mut usize) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        self.put(area.x, area.y, "Keys of mainstay top", area.width, bold);
        let room = usize::from(area.height.saturating_sub(2));
        *first = (*first).min(HELP.len().saturating_sub(room));
        let below = HELP.len().saturating_sub(*first + room);
        let visible = HELP.iter().skip(*first).take(room);
        for (y, (keys, meaning)) in (area.y + 1..).zip(visible) {
            self.put(area.x, y, keys, 13, bold);
            let rest = area.width.saturating_sub(13);
            self.put(area.x + 13, y, meaning, rest, Style::new());
        }
        let leave = if room >= HELP.len() {
            "any key goes back".to_owned()
        } else {
            format!("{first} above, {below} below (Up, Down); other keys go back")
        };
        // Leave a margin if there is room.
        let height = u16::try_from(HELP.len()).unwrap_or(0) + 3;
        let y = area.y + height.min(area.height).saturating_sub(1);
        if area.height > 1 {
            self.put(area.x, y, &leave, area.width, Style::new());
        }
    }
}

/// `files: up 2 h (stdio, pid 4711, 3 tools, 1 in flight)`
fn described(row: &Row, now: Instant) -> String {
    let mut facts = vec![row.transport.clone()];
    facts.extend(row.pid.map(|pid| format!("pid {pid}")));
    facts.push(output::count(row.tools, "tool"));
    if row.crashes > 0 {
        let plural = if row.crashes == 1 { "" } else { "es" };
        facts.push(format!("{} crash{plural}", row.crashes));
    }
    if row.in_flight > 0 {
        facts.push(format!("{} in flight", row.in_flight));
    }
    format!("{}: {} ({})", row.name, row.detail(now), facts.join(", "))
}

/// `4 servers: 2 connected, 1 reconnecting, 1 disabled  3.2 calls/s`
fn summary(model: &Model) -> String {
    let mut words: Vec<(&str, usize)> = Vec::new();
    for row in &model.list.rows {
        match words.iter_mut().find(|(word, _)| *word == row.word) {
            Some((_, count)) => *count += 1,
            None => words.push((&row.word, 1)),
        }
    }
    let words: Vec<String> = words
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let servers = output::count(model.list.rows.len(), "server");
    let rate: f64 = model.list.rows.iter().map(Row::rate).sum();
    let calls = if rate > 0.0 {
        format!("  {rate:.1} calls/s")
    } else {
        String::new()
    };
    format!("{servers}: {}{calls}", words.join(", "))
}

/// The filter and the order, if they are not the default.
fn arrangement(model: &Model) -> String {
    let mut parts = Vec::new();
    if model.list.states != States::All {
        parts.push(format!("show: {}", model.list.states.word()));
    }
    if !model.list.text.is_empty() {
        parts.push(format!("/{}", model.list.text));
    }
    if model.list.sort != Sort::Configured || model.list.is_reversed {
        let reversed = if model.list.is_reversed {
            ", reversed"
        } else {
            ""
        };
        parts.push(format!("sort: {}{reversed}", model.list.sort.word()));
    }
    parts.join("  ")
}

fn aligned(column: TopColumn, text: &str, width: u16) -> String {
    let width = width.into();
    if column.is_number() {
        format!("{text:>width$}")
    } else {
        text.to_owned()
    }
}

/// Cuts a text to this width. A mark shows the cut.
fn cut(text: &str, width: u16, is_unicode: bool) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let sign = if is_unicode { "…" } else { "~" };
    let room = width.saturating_sub(1);
    let (mut out, mut wide) = (String::new(), 0);
    for piece in Span::raw(text).styled_graphemes(Style::new()) {
        let more = Span::raw(piece.symbol).width();
        if wide + more > room {
            break;
        }
        wide += more;
        out.push_str(piece.symbol);
    }
    if width > 0 {
        out.push_str(sign);
    }
    out
}
