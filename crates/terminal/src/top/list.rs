//! The list of servers: the rows that are shown, their order, and the selected one.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use mainstay_api::{Server, ServerFigures};

use super::rows::{self, Row, Sort, States};

/// Time after which an unmoved selection is at rest.
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
    /// Indices of the rows that match the filter, in order.
    pub visible: Vec<usize>,
    /// The name of the selected server. It survives sorting, filtering and a restart.
    pub selected: Option<String>,
    /// The first row on the screen. The view keeps the selection visible.
    pub first: usize,
    /// Number of rows that fit the screen, as the view last found.
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

    /// The selected row.
    pub fn row(&self) -> Option<&Row> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().find(|row| row.name == *selected)
    }

    /// The index of the selected row among the shown ones.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.visible
            .iter()
            .position(|index| self.rows[*index].name == *selected)
    }

    /// The selected server, after the selection is at rest.
    pub fn resting(&self, now: Instant) -> Option<&String> {
        self.selected
            .as_ref()
            .filter(|_| now >= self.selected_at + REST)
    }

    /// Replaces all servers.
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

    /// Replaces one server. Returns false if it is not in the list: the place of a new server is only known
    /// with all servers.
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

    /// Sets the figures. Returns true if they belong to exactly the servers in the list.
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

    /// Sorts and filters the rows. Selects the nearest row if the selected one is gone.
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
        // A selected server that the filter hides stays selected, and is visible again without the filter.
        if self.selected.as_ref().is_none_or(|name| !exists(name)) {
            self.choose(place.unwrap_or(0), now);
        }
    }

    /// Selects the row at this index, or the last one.
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

    /// Moves the selection by this number of rows.
    pub fn step(&mut self, by: isize, now: Instant) {
        let place = match self.place() {
            Some(place) => place.saturating_add_signed(by),
            None => 0,
        };
        self.choose(place, now);
    }
}
