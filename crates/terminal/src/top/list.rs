//! The list of servers: the visible rows, their order, and the selected row.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use mainstay_api::{Server, ServerFigures};

use super::rows::{self, Row, Sort, States};

/// The time after which a selection counts as resting.
const REST: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct List {
    /// All rows, in the order of the configuration.
    pub rows: Vec<Row>,
    pub sort: Sort,
    pub is_reversed: bool,
    pub states: States,
    /// The text of the filter.
    pub text: String,
    /// The indices of the rows that match the filter, in the chosen order.
    pub visible: Vec<usize>,
    /// The name of the selected server. It survives sorting, filtering and a restart.
    pub selected: Option<String>,
    /// The first row on the screen. The view keeps the selected row visible.
    pub first: usize,
    /// The number of rows that fit on the screen, set by the view.
    pub page: usize,
    selected_at: Instant,
}

impl List {
    pub fn new(now: Instant) -> Self {
        Self {
            rows: Vec::new(),
            sort: Sort::Configured,
            is_reversed: false,
            states: States::All,
            text: String::new(),
            visible: Vec::new(),
            selected: None,
            first: 0,
            page: 1,
            selected_at: now,
        }
    }

    /// The selected row. `None` if there is none.
    pub fn row(&self) -> Option<&Row> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().find(|row| row.name == *selected)
    }

    /// The index of the selected row among the visible rows.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.visible
            .iter()
            .position(|index| self.rows[*index].name == *selected)
    }

    /// The selected server, if the selection has not changed for the time [`REST`].
    pub fn resting(&self, now: Instant) -> Option<&String> {
        self.selected
            .as_ref()
            .filter(|_| now >= self.selected_at + REST)
    }

    /// Replaces all servers. Keeps the figures of servers that remain.
    pub fn set_all(&mut self, servers: Vec<Server>, now: Instant) {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let mut before: HashMap<String, Row> = rows.map(|row| (row.name.clone(), row)).collect();
        let rows = servers.into_iter().map(|server| {
            let row = Row::new(server, now);
            match before.get_mut(&row.name) {
                Some(before) => row.with_figures_of(before),
                None => row,
            }
        });
        self.rows = rows.collect();
        self.arrange(now);
    }

    /// Replaces one server. Returns false if the server is not in the list. Its place is then unknown until
    /// all servers are loaded.
    #[must_use]
    pub fn set(&mut self, server: Server, now: Instant) -> bool {
        let row = Row::new(server, now);
        let listed = self.rows.iter_mut().find(|listed| listed.name == row.name);
        let is_listed = listed.is_some();
        if let Some(before) = listed {
            *before = row.with_figures_of(before);
        }
        self.arrange(now);
        is_listed
    }

    /// Sets the figures. Returns true if they belong to exactly the servers of the list.
    #[must_use]
    pub fn set_figures(&mut self, figures: Vec<ServerFigures>, now: Instant) -> bool {
        let by_name = |figures: ServerFigures| (figures.name.clone(), figures);
        let mut figures: HashMap<_, _> = figures.into_iter().map(by_name).collect();
        let mut is_complete = true;
        for row in &mut self.rows {
            match figures.remove(&row.name) {
                Some(figures) => row.set_figures(figures),
                None => is_complete = false,
            }
        }
        self.arrange(now);
        is_complete && figures.is_empty()
    }

    /// Sorts and filters the rows. If the selected server has gone, selects the row at its place.
    pub fn arrange(&mut self, now: Instant) {
        let place = self.place();
        self.visible = rows::visible(
            &self.rows,
            self.sort,
            self.is_reversed,
            self.states,
            &self.text,
        );
        let exists = |name: &String| self.rows.iter().any(|row| row.name == *name);
        // If only the filter hides the selected server, it stays selected.
        if self.selected.as_ref().is_none_or(|name| !exists(name)) {
            self.choose(place.unwrap_or(0), now);
        }
    }

    /// Selects the visible row at this index, or the last row.
    pub fn choose(&mut self, place: usize, now: Instant) {
        let place = place.min(self.visible.len().saturating_sub(1));
        let chosen = self
            .visible
            .get(place)
            .map(|index| self.rows[*index].name.clone());
        if chosen.is_some() && chosen != self.selected {
            self.selected = chosen;
            self.selected_at = now;
        }
    }

    /// Moves the selection down by this number of rows.
    pub fn step(&mut self, by: isize, now: Instant) {
        let place = match self.place() {
            Some(place) => place.saturating_add_signed(by),
            None => 0,
        };
        self.choose(place, now);
    }
}
