//! What the screen shows, and what follows from what happens. Nothing here waits, reads or draws.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use mainstay_api::{Event as Happened, Figures, Server, Servers};

use super::{
    action::Action,
    keys::Key,
    pane::{Line, Pane, Topic},
    rows::{self, Mood, Row, Sort, States},
};

/// How often figures are asked for.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

/// How often every server is asked for, though no event says that one has changed.
const SERVERS_EVERY: Duration = Duration::from_secs(10);

/// How often a server that is being connected is asked for: what its start does is no event.
const START_EVERY: Duration = Duration::from_secs(2);

/// Where more servers have changed than this, one request asks for all.
const SINGLE_REQUESTS: usize = 8;

/// How long a notice stays.
const NOTICE: Duration = Duration::from_secs(8);

/// The pane follows the selection once it rests.
const REST: Duration = Duration::from_millis(200);

/// Events that are kept for the pane.
const EVENTS: usize = 2000;

/// What happens.
#[derive(Debug)]
pub enum Event {
    Key(Key),
    Tick,
    /// The daemon is there, with all of its servers. What it told before may be of another one.
    Connected(Servers),
    /// The stream of events has ended, or could not begin.
    Gone {
        reason: String,
        again_in: Duration,
    },
    Servers(Servers),
    Server(Box<Server>),
    Figures(Figures),
    /// A question had no answer.
    NoAnswer(Question),
    Happened(Vec<Happened>),
    /// Lines of a pane that was asked for as this generation.
    Pane {
        generation: u64,
        lines: Vec<Line>,
        is_whole: bool,
    },
    Operated {
        name: String,
        action: Action,
        outcome: Result<String, String>,
    },
}

/// A question to the daemon. No question is asked again before it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    Servers,
    Server(String),
    Figures,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Ask(Question),
    Operate {
        name: String,
        action: Action,
    },
    /// Follow what a pane shows, instead of what was followed before.
    Follow {
        generation: u64,
        topic: Topic,
        name: String,
    },
    Unfollow,
    Suspend,
    Redraw,
    Quit,
}

/// What keys are for at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Browse,
    /// The text of the filter is being typed.
    Filter,
    Confirm {
        name: String,
        action: Action,
    },
    /// The help, from this line on.
    Help {
        first: usize,
    },
}

/// Whether the daemon is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    Up,
    Gone { reason: String, again_at: Instant },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    pub is_error: bool,
    until: Instant,
}

#[derive(Debug)]
pub struct Model {
    pub now: Instant,
    pub link: Link,
    /// In the order of the configuration.
    pub rows: Vec<Row>,
    pub warnings: Vec<String>,
    pub sort: Sort,
    pub is_reversed: bool,
    pub states: States,
    pub text: String,
    pub mode: Mode,
    /// Indices of the rows that fit the filter, in their order.
    pub shown: Vec<usize>,
    /// The name of the chosen server. It survives sorting, filtering and a restart.
    pub selected: Option<String>,
    /// The first of the shown rows on the screen. The view keeps the selection in sight.
    pub first: usize,
    /// Rows that the screen has room for, as the view found it.
    pub page: usize,
    pub pane: Option<Pane>,
    pub events: VecDeque<Happened>,
    pub notice: Option<Notice>,
    /// Whether the picture has changed since it was drawn.
    pub is_dirty: bool,
    /// Operations under way, by server.
    pub at_work: HashMap<String, Action>,
    selected_at: Instant,
    asked: HashSet<Question>,
    changed: HashSet<String>,
    figures_at: Option<Instant>,
    servers_at: Instant,
    starts_at: Instant,
    generation: u64,
}

impl Model {
    pub fn new(servers: Servers, now: Instant) -> Self {
        let mut model = Self {
            now,
            link: Link::Up,
            rows: Vec::new(),
            warnings: Vec::new(),
            sort: Sort::Configured,
            is_reversed: false,
            states: States::All,
            text: String::new(),
            mode: Mode::Browse,
            shown: Vec::new(),
            selected: None,
            first: 0,
            page: 1,
            pane: None,
            events: VecDeque::new(),
            notice: None,
            is_dirty: true,
            at_work: HashMap::new(),
            selected_at: now,
            asked: HashSet::new(),
            changed: HashSet::new(),
            figures_at: None,
            servers_at: now,
            starts_at: now,
            generation: 0,
        };
        model.set_servers(servers);
        model
    }

    /// Takes in what has happened. The effects are to be carried out in their order.
    pub fn update(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let before = std::mem::replace(&mut self.now, now);
        // Time alone changes little.
        self.is_dirty |= !matches!(event, Event::Tick | Event::NoAnswer(_));
        match event {
            Event::Key(key) => return self.press(key),
            Event::Tick => return self.tick(before),
            Event::Connected(servers) => {
                self.link = Link::Up;
                self.asked.clear();
                self.changed.clear();
                self.figures_at = None;
                // It tells what it remembers.
                self.events.clear();
                self.set_servers(servers);
                if let Some(pane) = &mut self.pane {
                    pane.followed = None;
                }
            }
            Event::Gone { reason, again_in } => {
                self.link = Link::Gone {
                    reason: super::super::output::one_line(&reason).into_owned(),
                    again_at: now + again_in,
                };
                self.asked.clear();
                self.at_work.clear();
            }
            Event::Servers(servers) => {
                self.asked.remove(&Question::Servers);
                self.set_servers(servers);
            }
            Event::Server(server) => self.set_server(*server),
            Event::Figures(figures) => self.set_figures(figures),
            Event::NoAnswer(question) => {
                self.asked.remove(&question);
                // A server that is gone is in no list.
                if let Question::Server(_) = question {
                    self.servers_at = now.checked_sub(SERVERS_EVERY).unwrap_or(now);
                }
            }
            Event::Happened(events) => {
                for event in events {
                    match &event.server {
                        Some(server) => drop(self.changed.insert(server.clone())),
                        None => self
                            .changed
                            .extend(self.rows.iter().map(|it| it.name.clone())),
                    }
                    let followed = self.pane.as_mut().filter(|pane| {
                        let followed = pane.followed.as_ref();
                        followed.is_some_and(|(topic, name)| {
                            *topic == Topic::Events && event.server.as_ref() == Some(name)
                        })
                    });
                    if let Some(pane) = followed {
                        pane.add(vec![Line::of_event(&event)], false);
                    }
                    if self.events.len() == EVENTS {
                        self.events.pop_front();
                    }
                    self.events.push_back(event);
                }
            }
            Event::Pane {
                generation,
                lines,
                is_whole,
            } => {
                if let Some(pane) = self.pane.as_mut().filter(|_| generation == self.generation) {
                    pane.add(lines, is_whole);
                }
            }
            Event::Operated {
                name,
                action,
                outcome,
            } => {
                self.at_work.remove(&name);
                self.changed.insert(name.clone());
                let (text, is_error) = match outcome {
                    Ok(text) => (text, false),
                    Err(text) => (format!("cannot {} {name}: {text}", action.verb()), true),
                };
                self.notify(&text, is_error);
            }
        }
        Vec::new()
    }

    /// The chosen row.
    pub fn row(&self) -> Option<&Row> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().find(|row| row.name == *selected)
    }

    /// The place of the chosen row among the shown ones.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.shown
            .iter()
            .position(|it| self.rows[*it].name == *selected)
    }

    /// Seconds until a daemon that is gone is tried again.
    pub fn again_in(&self) -> Option<u64> {
        match &self.link {
            Link::Up => None,
            Link::Gone { again_at, .. } => {
                let left = again_at.saturating_duration_since(self.now).as_millis();
                left.div_ceil(1000).try_into().ok()
            }
        }
    }

    fn set_servers(&mut self, servers: Servers) {
        self.servers_at = self.now;
        self.changed.clear();
        self.warnings = servers.warnings;
        let before = std::mem::take(&mut self.rows).into_iter();
        let mut before: HashMap<String, Row> = before.map(|it| (it.name.clone(), it)).collect();
        let rows = servers.servers.into_iter().map(|server| {
            let row = Row::new(server, self.now);
            match before.get_mut(&row.name) {
                Some(before) => row.with_figures_of(before),
                None => row,
            }
        });
        self.rows = rows.collect();
        self.arrange();
    }

    fn set_server(&mut self, server: Server) {
        self.asked.remove(&Question::Server(server.name.clone()));
        let row = Row::new(server, self.now);
        match self.rows.iter_mut().find(|it| it.name == row.name) {
            Some(before) => *before = row.with_figures_of(before),
            // Its place among the others is in the whole list.
            None => self.servers_at = self.now.checked_sub(SERVERS_EVERY).unwrap_or(self.now),
        }
        self.arrange();
    }

    fn set_figures(&mut self, figures: Figures) {
        self.asked.remove(&Question::Figures);
        let figures = figures.servers.into_iter();
        let mut figures: HashMap<_, _> = figures.map(|it| (it.name.clone(), it)).collect();
        let mut is_new = false;
        for row in &mut self.rows {
            match figures.remove(&row.name) {
                Some(figures) => row.set_figures(figures),
                None => is_new = true,
            }
        }
        if is_new || !figures.is_empty() {
            self.servers_at = self.now.checked_sub(SERVERS_EVERY).unwrap_or(self.now);
        }
        self.arrange();
    }

    /// Sorts and filters, and chooses the nearest row where the chosen one is not there any more.
    fn arrange(&mut self) {
        let place = self.place();
        self.shown = rows::shown(
            &self.rows,
            self.sort,
            self.is_reversed,
            self.states,
            &self.text,
        );
        let exists = |name: &String| self.rows.iter().any(|row| row.name == *name);
        // A chosen server that the filter hides stays chosen, and is in sight again without it.
        if self.selected.as_ref().is_none_or(|name| !exists(name)) {
            self.choose(place.unwrap_or(0));
        }
    }

    fn choose(&mut self, place: usize) {
        let place = place.min(self.shown.len().saturating_sub(1));
        let chosen = self.shown.get(place).map(|it| self.rows[*it].name.clone());
        if chosen.is_some() && chosen != self.selected {
            self.selected = chosen;
            self.selected_at = self.now;
        }
    }

    fn notify(&mut self, text: &str, is_error: bool) {
        self.notice = Some(Notice {
            text: super::super::output::one_line(text).into_owned(),
            is_error,
            until: self.now + NOTICE,
        });
    }

    fn tick(&mut self, before: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.notice.as_ref().is_some_and(|it| it.until <= self.now) {
            self.notice = None;
            self.is_dirty = true;
        }
        // Countdowns.
        let seconds = |now: Instant, row: &Row| row.countdown(now);
        self.is_dirty |= self
            .rows
            .iter()
            .any(|row| seconds(before, row) != seconds(self.now, row));
        if let Link::Gone { .. } = self.link {
            self.is_dirty = true;
            return effects;
        }
        self.ask_for_servers(&mut effects);
        let is_due = |at: Option<Instant>| at.is_none_or(|at| self.now >= at + FIGURES_EVERY);
        if is_due(self.figures_at) && self.asked.insert(Question::Figures) {
            self.figures_at = Some(self.now);
            effects.push(Effect::Ask(Question::Figures));
        }
        self.follow(&mut effects);
        effects
    }

    fn ask_for_servers(&mut self, effects: &mut Vec<Effect>) {
        if self.now >= self.starts_at + START_EVERY {
            self.starts_at = self.now;
            let is_at_work = |row: &&Row| {
                row.mood == Mood::Trying && row.countdown(self.now).is_none_or(|left| left == 0)
            };
            let at_work = self.rows.iter().filter(is_at_work);
            self.changed.extend(at_work.map(|row| row.name.clone()));
        }
        let is_due = self.now >= self.servers_at + SERVERS_EVERY;
        if is_due || self.changed.len() > SINGLE_REQUESTS {
            if self.asked.insert(Question::Servers) {
                self.changed.clear();
                effects.push(Effect::Ask(Question::Servers));
            }
            return;
        }
        let asked = &mut self.asked;
        self.changed.retain(|name| {
            let question = Question::Server(name.clone());
            let is_asked = !asked.insert(question.clone());
            if !is_asked {
                effects.push(Effect::Ask(question));
            }
            is_asked
        });
    }

    /// Has the pane follow the chosen server.
    fn follow(&mut self, effects: &mut Vec<Effect>) {
        let rests = self.now >= self.selected_at + REST;
        let Some(pane) = self.pane.as_mut().filter(|_| rests) else {
            return;
        };
        let Some(name) = &self.selected else { return };
        let wanted = (pane.topic, name.clone());
        if pane.followed.as_ref() == Some(&wanted) {
            return;
        }
        self.generation += 1;
        pane.begin(wanted);
        self.is_dirty = true;
        if pane.topic == Topic::Events {
            // They come without being asked for.
            let events = self.events.iter();
            let events = events.filter(|event| event.server.as_ref() == Some(name));
            pane.add(events.map(Line::of_event).collect(), true);
            effects.push(Effect::Unfollow);
            return;
        }
        effects.push(Effect::Follow {
            generation: self.generation,
            topic: pane.topic,
            name: name.clone(),
        });
    }

    fn press(&mut self, key: Key) -> Vec<Effect> {
        match (&mut self.mode, key) {
            (_, Key::Interrupt) => return vec![Effect::Quit],
            (_, Key::Suspend) => return vec![Effect::Suspend],
            (_, Key::Redraw) => return vec![Effect::Redraw],
            (Mode::Help { first }, key) => match key {
                Key::Down | Key::PageDown | Key::Char('j' | ' ') => *first += 1,
                Key::Up | Key::PageUp | Key::Char('k') => *first = first.saturating_sub(1),
                _ => self.mode = Mode::Browse,
            },
            (Mode::Confirm { .. }, key) => return self.answer(key),
            (Mode::Filter, key) => self.edit(key),
            (Mode::Browse, key) => return self.browse(key),
        }
        Vec::new()
    }

    /// Only a clear yes is one. Keys that are pressed by mistake neither confirm nor cancel.
    fn answer(&mut self, key: Key) -> Vec<Effect> {
        let is_yes = match key {
            Key::Char('y' | 'Y') => true,
            Key::Char('n' | 'N' | 'q') | Key::Escape => false,
            _ => return Vec::new(),
        };
        let Mode::Confirm { name, action } = std::mem::replace(&mut self.mode, Mode::Browse) else {
            return Vec::new();
        };
        if !is_yes {
            return Vec::new();
        }
        self.at_work.insert(name.clone(), action);
        vec![Effect::Operate { name, action }]
    }

    fn edit(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Browse,
            Key::Escape => {
                self.mode = Mode::Browse;
                self.text.clear();
            }
            Key::Backspace => drop(self.text.pop()),
            Key::Char(typed) => self.text.push(typed),
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            _ => return,
        }
        self.arrange();
        // What is operated on is what is in sight.
        if self.place().is_none() {
            self.choose(0);
        }
    }

    fn browse(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Char('q') => return vec![Effect::Quit],
            Key::Char('?' | 'h') => self.mode = Mode::Help { first: 0 },
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Escape => {
                self.text.clear();
                self.states = States::All;
                self.notice = None;
                self.arrange();
            }
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-self.page.cast_signed()),
            Key::PageDown => self.step(self.page.cast_signed()),
            Key::Home | Key::Char('g') => self.choose(0),
            Key::End | Key::Char('G') => self.choose(usize::MAX),
            Key::Char('s') => {
                self.sort = self.sort.next();
                self.arrange();
            }
            Key::Char('S') => {
                self.is_reversed = !self.is_reversed;
                self.arrange();
            }
            Key::Char('f') => {
                self.states = self.states.next();
                self.arrange();
            }
            Key::Enter => return self.toggle_pane(),
            Key::Tab | Key::BackTab => {
                let is_back = matches!(key, Key::BackTab);
                self.pane = Some(match self.pane.take() {
                    Some(pane) => Pane::new(pane.topic.next(is_back)),
                    None => Pane::new(Topic::Log),
                });
            }
            Key::Char(typed) => self.want(typed),
            Key::Backspace | Key::Interrupt | Key::Suspend | Key::Redraw => {}
        }
        Vec::new()
    }

    fn toggle_pane(&mut self) -> Vec<Effect> {
        if self.pane.take().is_some() {
            self.generation += 1;
            return vec![Effect::Unfollow];
        }
        self.pane = Some(Pane::new(Topic::Log));
        Vec::new()
    }

    fn step(&mut self, by: isize) {
        let place = match self.place() {
            Some(place) => place.saturating_add_signed(by),
            None => 0,
        };
        self.choose(place);
    }

    /// Asks whether an action is wanted.
    fn want(&mut self, typed: char) {
        let Some(place) = self.place() else { return };
        let row = &self.rows[self.shown[place]];
        let Some(action) = Action::of(typed, row.is_enabled) else {
            return;
        };
        let name = row.name.clone();
        if self.link != Link::Up {
            self.notify("the daemon is gone; wait for it", true);
        } else if let Some(action) = self.at_work.get(&name) {
            let text = format!("{name}: {} is under way", action.verb());
            self.notify(&text, true);
        } else {
            self.mode = Mode::Confirm { name, action };
        }
    }
}
