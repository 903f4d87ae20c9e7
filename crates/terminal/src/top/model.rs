//! The model of the screen, and its reactions to events. Pure: it never waits, reads or draws.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use mainstay_api::{Event as Happened, Figures, Server, Servers};
use mainstay_command_line::output;

use super::{
    action::ServerAction,
    keys::KeyPress,
    list::List,
    pane::{Pane, PaneLine, Topic},
    questions::{DaemonQuestion, DaemonQuestions},
    rows::{Row, States},
};

/// The time for which a notice is visible.
const NOTICE: Duration = Duration::from_secs(8);

/// The minimum height of the screen for a pane. On a lower screen, no room for servers would
/// remain.
pub const LEAST_FOR_PANE: u16 = 12;

/// The maximum number of events that are kept for the pane.
const EVENTS: usize = 2000;

/// An event for the model.
#[derive(Debug)]
pub enum TopEvent {
    Key(KeyPress),
    Tick,
    /// The daemon is connected. Has all of its servers. The daemon may not be the previous one.
    Connected(Servers),
    /// The stream of events has ended, or could not be opened.
    Gone {
        reason: String,
        again_in: Duration,
    },
    Servers(Servers),
    Server(Box<Server>),
    Figures(Figures),
    /// A question got no answer.
    NoAnswer(DaemonQuestion),
    Happened(Vec<Happened>),
    /// Lines of a pane. `generation` identifies the request for the lines.
    Pane {
        generation: u64,
        lines: Vec<PaneLine>,
        is_whole: bool,
    },
    Operated {
        name: String,
        /// A sentence about the success or the failure.
        outcome: Result<String, String>,
    },
}

/// An action that the model requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Ask(DaemonQuestion),
    Operate {
        name: String,
        action: ServerAction,
    },
    /// Follow the topic of a pane, and stop following the previous topic.
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

/// The mode that decides what keys do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMode {
    Browse,
    /// The user types the text of the filter.
    Filter,
    Confirm {
        name: String,
        action: ServerAction,
    },
    /// The help, scrolled to this line.
    Help {
        first: usize,
    },
}

/// The connection to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonLink {
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
    pub link: DaemonLink,
    pub list: List,
    pub warnings: Vec<String>,
    pub mode: KeyMode,
    pub pane: Option<Pane>,
    pub events: VecDeque<Happened>,
    pub notice: Option<Notice>,
    /// True if the picture has changed since the last frame.
    pub is_dirty: bool,
    /// The operations in progress, by server.
    pub at_work: HashMap<String, ServerAction>,
    /// True if the screen was high enough for a pane at the last frame.
    pub has_room_for_pane: bool,
    questions: DaemonQuestions,
    generation: u64,
}

impl Model {
    pub fn new(servers: Servers, now: Instant) -> Self {
        let mut model = Self {
            now,
            link: DaemonLink::Up,
            list: List::new(now),
            warnings: Vec::new(),
            mode: KeyMode::Browse,
            pane: None,
            events: VecDeque::new(),
            notice: None,
            is_dirty: true,
            at_work: HashMap::new(),
            has_room_for_pane: true,
            questions: DaemonQuestions::new(now),
            generation: 0,
        };
        model.set_servers(servers);
        model
    }

    /// Handles an event. The caller must perform the effects in order.
    pub fn update(&mut self, event: TopEvent, now: Instant) -> Vec<Effect> {
        let before = std::mem::replace(&mut self.now, now);
        // A tick rarely changes the picture. The changes are detected below.
        self.is_dirty |= !matches!(event, TopEvent::Tick | TopEvent::NoAnswer(_));
        match event {
            TopEvent::Key(key) => return self.press(key),
            TopEvent::Tick => return self.tick(before),
            TopEvent::Connected(servers) => {
                self.link = DaemonLink::Up;
                self.questions.begin();
                // Clear the events, because the daemon repeats its recent events.
                self.events.clear();
                self.set_servers(servers);
                if let Some(pane) = &mut self.pane {
                    pane.followed = None;
                }
            }
            TopEvent::Gone { reason, again_in } => {
                self.link = DaemonLink::Gone {
                    reason: output::one_line(&reason).into_owned(),
                    again_at: now + again_in,
                };
                self.questions.give_up();
                self.at_work.clear();
            }
            TopEvent::Servers(servers) => {
                self.questions.close(&DaemonQuestion::Servers);
                self.set_servers(servers);
            }
            TopEvent::Server(server) => {
                self.questions
                    .close(&DaemonQuestion::Server(server.name.clone()));
                if !self.list.set(*server, now) {
                    self.questions.want_all(now);
                }
            }
            TopEvent::Figures(figures) => {
                self.questions.close(&DaemonQuestion::Figures);
                if !self.list.set_figures(figures.servers, now) {
                    self.questions.want_all(now);
                }
            }
            TopEvent::NoAnswer(question) => {
                self.questions.close(&question);
                // Query all servers, because this server may have been removed.
                if let DaemonQuestion::Server(_) = question {
                    self.questions.want_all(now);
                }
            }
            TopEvent::Happened(events) => {
                for event in events {
                    match &event.server {
                        Some(server) => self.questions.mark_changed(server.clone()),
                        None => {
                            for row in &self.list.rows {
                                self.questions.mark_changed(row.name.clone());
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
                        pane.add(vec![PaneLine::of_event(&event)], false);
                    }
                    if self.events.len() == EVENTS {
                        self.events.pop_front();
                    }
                    self.events.push_back(event);
                }
            }
            TopEvent::Pane {
                generation,
                lines,
                is_whole,
            } => {
                if let Some(pane) = self.pane.as_mut().filter(|_| generation == self.generation) {
                    pane.add(lines, is_whole);
                }
            }
            TopEvent::Operated { name, outcome } => {
                self.at_work.remove(&name);
                self.questions.mark_changed(name.clone());
                match outcome {
                    Ok(text) => self.notify(&text, false),
                    Err(text) => self.notify(&text, true),
                }
            }
        }
        Vec::new()
    }

    /// The seconds until the next attempt to reach a daemon that has gone.
    pub fn again_in(&self) -> Option<u64> {
        match &self.link {
            DaemonLink::Up => None,
            DaemonLink::Gone { again_at, .. } => {
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
        if self
            .notice
            .as_ref()
            .is_some_and(|notice| notice.until <= self.now)
        {
            self.notice = None;
            self.is_dirty = true;
        }
        // Redraw when a countdown shows another second.
        let seconds = |now: Instant, row: &Row| row.countdown(now);
        self.is_dirty |= self
            .list
            .rows
            .iter()
            .any(|row| seconds(before, row) != seconds(self.now, row));
        if let DaemonLink::Gone { .. } = self.link {
            self.is_dirty = true;
            return Vec::new();
        }
        let due = self.questions.due(&self.list.rows, self.now).into_iter();
        let mut effects: Vec<Effect> = due.map(Effect::Ask).collect();
        effects.extend(self.follow());
        effects
    }

    /// Makes the pane follow the selected server when the selection is at rest.
    fn follow(&mut self) -> Option<Effect> {
        let pane = self.pane.as_mut()?;
        let name = self.list.resting(self.now)?;
        let target = (pane.topic, name.clone());
        if pane.followed.as_ref() == Some(&target) {
            return None;
        }
        self.generation += 1;
        pane.begin(target);
        self.is_dirty = true;
        if pane.topic == Topic::Status {
            // The row already has the status.
            pane.is_loaded = true;
            return Some(Effect::Unfollow);
        }
        if pane.topic == Topic::Events {
            // The model already has the events.
            let is_about = |event: &&Happened| event.server.as_ref() == Some(name);
            let about_server = self.events.iter().filter(is_about);
            pane.add(about_server.map(PaneLine::of_event).collect(), true);
            return Some(Effect::Unfollow);
        }
        Some(Effect::Follow {
            generation: self.generation,
            topic: pane.topic,
            name: name.clone(),
        })
    }

    fn press(&mut self, key: KeyPress) -> Vec<Effect> {
        match (&mut self.mode, key) {
            (_, KeyPress::Interrupt) => return vec![Effect::Quit],
            (_, KeyPress::Suspend) => return vec![Effect::Suspend],
            (_, KeyPress::Redraw) => return vec![Effect::Redraw],
            (KeyMode::Help { first }, key) => match key {
                KeyPress::Down | KeyPress::PageDown | KeyPress::Char('j' | ' ') => *first += 1,
                KeyPress::Up | KeyPress::PageUp | KeyPress::Char('k') => {
                    *first = first.saturating_sub(1);
                }
                _ => self.mode = KeyMode::Browse,
            },
            (KeyMode::Confirm { .. }, key) => return self.answer(key),
            (KeyMode::Filter, key) => self.edit(key),
            (KeyMode::Browse, key) => return self.browse(key),
        }
        Vec::new()
    }

    /// Handles a key in the confirmation. Only an explicit yes confirms. Other keys may be typed by
    /// mistake, and neither confirm nor cancel.
    fn answer(&mut self, key: KeyPress) -> Vec<Effect> {
        let is_yes = match key {
            KeyPress::Char('y' | 'Y') => true,
            KeyPress::Char('n' | 'N' | 'q') | KeyPress::Escape => false,
            _ => return Vec::new(),
        };
        let KeyMode::Confirm { name, action } = std::mem::replace(&mut self.mode, KeyMode::Browse)
        else {
            return Vec::new();
        };
        if !is_yes {
            return Vec::new();
        }
        self.at_work.insert(name.clone(), action);
        vec![Effect::Operate { name, action }]
    }

    fn edit(&mut self, key: KeyPress) {
        match key {
            KeyPress::Enter => self.mode = KeyMode::Browse,
            KeyPress::Escape => {
                self.mode = KeyMode::Browse;
                self.list.text.clear();
            }
            KeyPress::Backspace => drop(self.list.text.pop()),
            KeyPress::Char(typed) => self.list.text.push(typed),
            KeyPress::Up => self.list.step(-1, self.now),
            KeyPress::Down => self.list.step(1, self.now),
            _ => return,
        }
        self.list.arrange(self.now);
        // Select a visible server, so that an action never applies to a hidden one.
        if self.list.place().is_none() {
            self.list.choose(0, self.now);
        }
    }

    fn browse(&mut self, key: KeyPress) -> Vec<Effect> {
        match key {
            KeyPress::Char('q') => return vec![Effect::Quit],
            KeyPress::Char('?' | 'h') => self.mode = KeyMode::Help { first: 0 },
            KeyPress::Char('/') => self.mode = KeyMode::Filter,
            KeyPress::Escape => {
                self.list.text.clear();
                self.list.states = States::All;
                self.notice = None;
                self.list.arrange(self.now);
            }
            KeyPress::Up | KeyPress::Char('k') => self.list.step(-1, self.now),
            KeyPress::Down | KeyPress::Char('j') => self.list.step(1, self.now),
            KeyPress::PageUp => self.page(-1),
            KeyPress::PageDown => self.page(1),
            KeyPress::Home | KeyPress::Char('g') => self.list.choose(0, self.now),
            KeyPress::End | KeyPress::Char('G') => self.list.choose(usize::MAX, self.now),
            KeyPress::Char('s') => {
                self.list.sort = self.list.sort.next();
                self.list.arrange(self.now);
            }
            KeyPress::Char('S') => {
                self.list.is_reversed = !self.list.is_reversed;
                self.list.arrange(self.now);
            }
            KeyPress::Char('f') => {
                self.list.states = self.list.states.next();
                self.list.arrange(self.now);
            }
            KeyPress::Enter => return self.toggle_pane(),
            KeyPress::Tab | KeyPress::BackTab if !self.has_room_for_pane => self.refuse_pane(),
            KeyPress::Tab | KeyPress::BackTab => {
                let is_back = matches!(key, KeyPress::BackTab);
                self.pane = Some(match self.pane.take() {
                    Some(pane) => Pane::new(pane.topic.next(is_back)),
                    None => Pane::new(Topic::Log),
                });
            }
            KeyPress::Char(typed) => self.ask_to_confirm(typed),
            KeyPress::Backspace | KeyPress::Interrupt | KeyPress::Suspend | KeyPress::Redraw => {}
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

    /// Moves the selection down by this number of pages.
    fn page(&mut self, by: isize) {
        let rows = self.list.page.cast_signed();
        self.list.step(by * rows, self.now);
    }

    /// Asks for the confirmation of an action.
    fn ask_to_confirm(&mut self, typed: char) {
        let Some(place) = self.list.place() else {
            return;
        };
        let row = &self.list.rows[self.list.visible[place]];
        let Some(action) = ServerAction::for_key(typed, row.is_enabled) else {
            return;
        };
        let name = row.name.clone();
        if self.link != DaemonLink::Up {
            self.notify("the daemon is gone; wait for it", true);
        } else if let Some(action) = self.at_work.get(&name) {
            let text = format!("{name}: {} is under way", action.verb());
            self.notify(&text, true);
        } else {
            self.mode = KeyMode::Confirm { name, action };
        }
    }
}
