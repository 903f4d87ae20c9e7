//! The model of the screen, and its reaction to events. Pure: no waiting, reading or drawing.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use mainstay_api::{Event as Happened, Figures, Server, Servers};
use mainstay_command_line::output;

use super::{
    action::Action,
    keys::Key,
    list::List,
    pane::{Line, Pane, Topic},
    questions::{Question, Questions},
    rows::{Row, States},
};

/// Time for which a notice is shown.
const NOTICE: Duration = Duration::from_secs(8);

/// Height of the screen below which a pane leaves no room for servers.
pub const LEAST_FOR_PANE: u16 = 12;

/// Events that are kept for the pane.
const EVENTS: usize = 2000;

/// An event for the model.
#[derive(Debug)]
pub enum Event {
    Key(Key),
    Tick,
    /// The daemon is connected, with all of its servers. It may be another daemon than before.
    Connected(Servers),
    /// The stream of events has ended, or could not begin.
    Gone {
        reason: String,
        again_in: Duration,
    },
    Servers(Servers),
    Server(Box<Server>),
    Figures(Figures),
    /// A question was not answered.
    NoAnswer(Question),
    Happened(Vec<Happened>),
    /// Lines of a pane, with the generation of its request.
    Pane {
        generation: u64,
        lines: Vec<Line>,
        is_whole: bool,
    },
    Operated {
        name: String,
        /// A sentence for success or failure.
        outcome: Result<String, String>,
    },
}

/// An action that the model requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Ask(Question),
    Operate {
        name: String,
        action: Action,
    },
    /// Follow the topic of a pane, instead of the earlier one.
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

/// The meaning of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Browse,
    /// The text of the filter is typed.
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

/// The connection to the daemon.
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
    pub list: List,
    pub warnings: Vec<String>,
    pub mode: Mode,
    pub pane: Option<Pane>,
    pub events: VecDeque<Happened>,
    pub notice: Option<Notice>,
    /// True if the picture has changed since it was drawn.
    pub is_dirty: bool,
    /// Operations in progress, by server.
    pub at_work: HashMap<String, Action>,
    /// True if the screen is high enough for a pane, as last drawn.
    pub has_room_for_pane: bool,
    questions: Questions,
    generation: u64,
}

impl Model {
    pub fn new(servers: Servers, now: Instant) -> Self {
        let mut model = Self {
            now,
            link: Link::Up,
            list: List::new(now),
            warnings: Vec::new(),
            mode: Mode::Browse,
            pane: None,
            events: VecDeque::new(),
            notice: None,
            is_dirty: true,
            at_work: HashMap::new(),
            has_room_for_pane: true,
            questions: Questions::new(now),
            generation: 0,
        };
        model.set_servers(servers);
        model
    }

    /// Handles an event. The effects must be performed in order.
    pub fn update(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        let before = std::mem::replace(&mut self.now, now);
        // Time alone changes little.
        self.is_dirty |= !matches!(event, Event::Tick | Event::NoAnswer(_));
        match event {
            Event::Key(key) => return self.press(key),
            Event::Tick => return self.tick(before),
            Event::Connected(servers) => {
                self.link = Link::Up;
                self.questions.begin();
                // The daemon repeats its recent events.
                self.events.clear();
                self.set_servers(servers);
                if let Some(pane) = &mut self.pane {
                    pane.followed = None;
                }
            }
            Event::Gone { reason, again_in } => {
                self.link = Link::Gone {
                    reason: output::one_line(&reason).into_owned(),
                    again_at: now + again_in,
                };
                self.questions.give_up();
                self.at_work.clear();
            }
            Event::Servers(servers) => {
                self.questions.close(&Question::Servers);
                self.set_servers(servers);
            }
            Event::Server(server) => {
                self.questions.close(&Question::Server(server.name.clone()));
                if !self.list.set(*server, now) {
                    self.questions.want_all(now);
                }
            }
            Event::Figures(figures) => {
                self.questions.close(&Question::Figures);
                if !self.list.set_figures(figures.servers, now) {
                    self.questions.want_all(now);
                }
            }
            Event::NoAnswer(question) => {
                self.questions.close(&question);
                // A server that is gone is in no list.
                if let Question::Server(_) = question {
                    self.questions.want_all(now);
                }
            }
            Event::Happened(events) => {
                for event in events {
                    match &event.server {
                        Some(server) => self.questions.want(server.clone()),
                        None => {
                            for row in &self.list.rows {
                                self.questions.want(row.name.clone());
                            }
                        }
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
            Event::Operated { name, outcome } => {
                self.at_work.remove(&name);
                self.questions.want(name.clone());
                match outcome {
                    Ok(text) => self.notify(&text, false),
                    Err(text) => self.notify(&text, true),
                }
            }
        }
        Vec::new()
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
        self.questions.know_all(self.now);
        self.warnings = servers.warnings;
        self.list.set_all(servers.servers, self.now);
    }

    fn notify(&mut self, text: &str, is_error: bool) {
        self.notice = Some(Notice {
            text: output::one_line(text).into_owned(),
            is_error,
            until: self.now + NOTICE,
        });
    }

    fn tick(&mut self, before: Instant) -> Vec<Effect> {
        if self.notice.as_ref().is_some_and(|it| it.until <= self.now) {
            self.notice = None;
            self.is_dirty = true;
        }
        // Countdowns.
        let seconds = |now: Instant, row: &Row| row.countdown(now);
        self.is_dirty |= self
            .list
            .rows
            .iter()
            .any(|row| seconds(before, row) != seconds(self.now, row));
        if let Link::Gone { .. } = self.link {
            self.is_dirty = true;
            return Vec::new();
        }
        let due = self.questions.due(&self.list.rows, self.now).into_iter();
        let mut effects: Vec<Effect> = due.map(Effect::Ask).collect();
        effects.extend(self.follow());
        effects
    }

    /// Makes the pane follow the selected server after the selection is at rest.
    fn follow(&mut self) -> Option<Effect> {
        let pane = self.pane.as_mut()?;
        let name = self.list.resting(self.now)?;
        let wanted = (pane.topic, name.clone());
        if pane.followed.as_ref() == Some(&wanted) {
            return None;
        }
        self.generation += 1;
        pane.begin(wanted);
        self.is_dirty = true;
        if pane.topic == Topic::Status {
            // The status is already in the row.
            pane.is_told = true;
            return Some(Effect::Unfollow);
        }
        if pane.topic == Topic::Events {
            // Events come without a query.
            let events = self.events.iter();
            let events = events.filter(|event| event.server.as_ref() == Some(name));
            pane.add(events.map(Line::of_event).collect(), true);
            return Some(Effect::Unfollow);
        }
        Some(Effect::Follow {
            generation: self.generation,
            topic: pane.topic,
            name: name.clone(),
        })
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

    /// Only a clear yes confirms. Keys that are pressed by mistake neither confirm nor cancel.
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
                self.list.text.clear();
            }
            Key::Backspace => drop(self.list.text.pop()),
            Key::Char(typed) => self.list.text.push(typed),
            Key::Up => self.list.step(-1, self.now),
            Key::Down => self.list.step(1, self.now),
            _ => return,
        }
        self.list.arrange(self.now);
        // Operate only on a visible server.
        if self.list.place().is_none() {
            self.list.choose(0, self.now);
        }
    }

    fn browse(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Char('q') => return vec![Effect::Quit],
            Key::Char('?' | 'h') => self.mode = Mode::Help { first: 0 },
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Escape => {
                self.list.text.clear();
                self.list.states = States::All;
                self.notice = None;
                self.list.arrange(self.now);
            }
            Key::Up | Key::Char('k') => self.list.step(-1, self.now),
            Key::Down | Key::Char('j') => self.list.step(1, self.now),
            Key::PageUp => self.page(-1),
            Key::PageDown => self.page(1),
            Key::Home | Key::Char('g') => self.list.choose(0, self.now),
            Key::End | Key::Char('G') => self.list.choose(usize::MAX, self.now),
            Key::Char('s') => {
                self.list.sort = self.list.sort.next();
                self.list.arrange(self.now);
            }
            Key::Char('S') => {
                self.list.is_reversed = !self.list.is_reversed;
                self.list.arrange(self.now);
            }
            Key::Char('f') => {
                self.list.states = self.list.states.next();
                self.list.arrange(self.now);
            }
            Key::Enter => return self.toggle_pane(),
            Key::Tab | Key::BackTab if !self.has_room_for_pane => self.refuse_pane(),
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
        if self.has_room_for_pane {
            self.pane = Some(Pane::new(Topic::Log));
        } else {
            self.refuse_pane();
        }
        Vec::new()
    }

    fn refuse_pane(&mut self) {
        self.notify(
            &format!("a pane needs {LEAST_FOR_PANE} lines; `mainstay get` says all"),
            true,
        );
    }

    /// Moves the selection by this number of pages.
    fn page(&mut self, by: isize) {
        let rows = self.list.page.cast_signed();
        self.list.step(by * rows, self.now);
    }

    /// Asks for the confirmation of an action.
    fn want(&mut self, typed: char) {
        let Some(place) = self.list.place() else {
            return;
        };
        let row = &self.list.rows[self.list.shown[place]];
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
