//! Tests the screen and the effects of keys, without a terminal and without a daemon.

use std::time::{Duration, Instant};

use insta::assert_snapshot;
use mainstay_api::{Figures, Server, Servers};
use ratatui::{Terminal, backend::TestBackend, style::Modifier};
use serde_json::{Value, json};

use super::{
    action::ServerAction,
    keys::KeyPress,
    model::{DaemonLink, Effect, KeyMode, Model, TopEvent},
    pane::{PaneLine, Topic},
    questions::DaemonQuestion,
    rows::{Sort, States},
    view::{Look, view},
};

const PLAIN: Look = Look {
    has_colours: false,
    is_unicode: true,
};

fn server(name: &str, status: &str, more: &Value) -> Server {
    let mut view = json!({
        "name": name, "transport": "stdio", "enabled": true, "autoStart": true, "wanted": true,
        "status": status, "connected": status == "connected", "crashCount": 0, "callsInFlight": 0,
        "toolsReady": true, "listsStale": false, "toolCount": 3, "resourceCount": 0, "promptCount": 0,
    });
    let members = more.as_object().expect("an object").clone();
    view.as_object_mut().expect("an object").extend(members);
    serde_json::from_value(view).expect("a server")
}

fn servers(servers: Vec<Server>) -> Servers {
    Servers {
        servers,
        warnings: Vec::new(),
    }
}

/// One server of each state.
fn one_server_per_state() -> Vec<Server> {
    let up = json!({"uptimeMs": 7_200_000, "pid": 4711});
    let lost = json!({
        "lastError": "process exited unexpectedly (signal 9)", "reconnectAttempt": 2, "nextRetryMs": 3400,
        "crashCount": 2,
    });
    let failed = json!({"lastError": "command not found: npx", "nextStep": "install Node.js"});
    vec![
        server("files", "connected", &up),
        server("tracker", "reconnecting", &lost),
        server("browser", "failed", &failed),
        server("notes", "disconnected", &json!({"enabled": false})),
        server("search", "connected", &up),
    ]
}

fn figures(name: &str, calls: u32) -> Value {
    json!({
        "name": name, "calls": calls, "errors": 2, "callsWaiting": 0, "callsInFlight": 1,
        "recent": {
            "spanMs": 60000, "calls": calls, "errors": calls / 10, "callsPerSecond": f64::from(calls) / 10.0,
            "p50Ms": 3.7, "p95Ms": 41.0 + f64::from(calls),
        },
        "processes": 2, "memoryBytes": u64::from(calls + 24) << 20,
    })
}

/// A model with a manual clock.
struct World {
    model: Model,
    now: Instant,
}

impl World {
    fn new(all: Vec<Server>) -> Self {
        let now = Instant::now();
        Self {
            model: Model::new(servers(all), now),
            now,
        }
    }

    fn with_figures() -> Self {
        let mut world = Self::new(one_server_per_state());
        for second in 0..12_u32 {
            let calls = second * (second % 4) * 3;
            let all = json!({"servers": [
                figures("files", calls), figures("tracker", 0), figures("browser", 0),
                figures("notes", 0), figures("search", 7),
            ]});
            world.happens(TopEvent::Figures(figures_of(all)));
        }
        world
    }

    fn happens(&mut self, event: TopEvent) -> Vec<Effect> {
        self.model.update(event, self.now)
    }

    fn press(&mut self, keys: &str) -> Vec<Effect> {
        let pressed = keys.chars().map(|key| match key {
            '\n' => KeyPress::Enter,
            '\t' => KeyPress::Tab,
            '\u{1b}' => KeyPress::Escape,
            key => KeyPress::Char(key),
        });
        let effects: Vec<Vec<Effect>> = pressed
            .map(|key| self.happens(TopEvent::Key(key)))
            .collect();
        effects.concat()
    }

    fn passes(&mut self, millis: u64) -> Vec<Effect> {
        self.now += Duration::from_millis(millis);
        self.happens(TopEvent::Tick)
    }

    fn selected(&self) -> &str {
        self.model.list.selected.as_deref().unwrap_or_default()
    }

    fn drawn(&mut self, width: u16, height: u16, look: Look) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let draw = |frame: &mut ratatui::Frame<'_>| view(&mut self.model, frame, look);
        terminal.draw(draw).expect("drawn");
        terminal
    }

    fn screen(&mut self, width: u16, height: u16) -> String {
        let terminal = self.drawn(width, height, PLAIN);
        let buffer = terminal.backend().buffer();
        let line = |y| {
            let cells = (0..width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..height).map(line).collect::<Vec<_>>().join("\n")
    }
}

fn figures_of(json: Value) -> Figures {
    serde_json::from_value(json).expect("figures")
}

fn log(texts: &[&str]) -> TopEvent {
    let lines = texts.iter().map(|text| PaneLine {
        text: (*text).to_owned(),
        is_bad: false,
    });
    TopEvent::Pane {
        generation: 1,
        lines: lines.collect(),
        is_whole: true,
    }
}

#[test]
fn a_usual_terminal_shows_figures_and_reasons() {
    assert_snapshot!(World::with_figures().screen(80, 24));
}

#[test]
fn a_wide_terminal_shows_both_for_every_server() {
    let mut world = World::with_figures();
    world.press("\n");
    world.passes(300);
    world.happens(log(&[
        "12:00:01 stderr   listening",
        "12:00:02 stderr   ready",
    ]));
    assert_snapshot!(world.screen(140, 40));
}

#[test]
fn a_small_terminal_shows_less() {
    let mut world = World::with_figures();
    world.press("\n");
    assert_snapshot!(world.screen(60, 15));
}

/// On a smaller screen, the servers are the last part to disappear.
#[test]
fn any_size_will_do() {
    let mut world = World::with_figures();
    world.press("\n");
    for (width, height) in [
        (1, 1),
        (3, 2),
        (10, 3),
        (20, 4),
        (40, 10),
        (30, 7),
        (500, 3),
    ] {
        let screen = world.screen(width, height);
        assert_eq!(
            screen.lines().count(),
            usize::from(height),
            "{width}x{height}"
        );
        let has_name = screen.contains("files");
        assert!(has_name || width < 10, "{width}x{height}:\n{screen}");
    }
    assert_snapshot!(world.screen(40, 10));
}

#[test]
fn help_names_every_key() {
    let mut world = World::with_figures();
    world.press("?");
    assert_snapshot!(world.screen(80, 24));
    world.press("q");
    assert_eq!(world.model.mode, KeyMode::Browse);
}

/// If the help does not fit, its last line says that there is more, and keys scroll to the rest.
#[test]
fn help_is_not_cut_without_a_mark() {
    let mut world = World::with_figures();
    world.press("?");
    let mut screens = String::new();
    let mut last_lines = Vec::new();
    // Scroll more often than there are lines.
    for _ in 0..20 {
        let screen = world.screen(60, 10);
        last_lines.push(screen.lines().last().unwrap_or_default().trim().to_owned());
        screens.push_str(&screen);
        world.press("j");
    }
    assert_eq!(
        last_lines[0],
        "0 above, 4 below (Up, Down); other keys go back"
    );
    assert_eq!(
        last_lines[19],
        "4 above, 0 below (Up, Down); other keys go back"
    );
    for (keys, _) in super::view::HELP {
        assert!(screens.contains(keys), "{keys}:\n{screens}");
    }
    world.screen(60, 10);
    world.press("k");
    assert!(world.screen(60, 10).contains("3 above, 1 below"));
    assert!(world.screen(80, 15).contains("any key goes back"));
    world.press("q");
    assert_eq!(world.model.mode, KeyMode::Browse);
}

#[test]
fn the_selection_survives_sorting_and_filtering() {
    let mut world = World::with_figures();
    world.press("jj");
    assert_eq!(world.selected(), "browser");
    world.press("ss");
    assert_eq!(world.model.list.sort, Sort::State);
    assert_eq!(
        (world.selected(), world.model.list.place()),
        ("browser", Some(0))
    );
    world.press("S");
    assert_eq!(
        (world.selected(), world.model.list.place()),
        ("browser", Some(4))
    );
    world.press("f");
    assert_eq!(world.model.list.states, States::Trouble);
    assert_eq!(
        (world.selected(), world.model.list.visible.len()),
        ("browser", 2)
    );
    // A hidden server stays selected, but no action applies to it.
    world.press("f");
    assert_eq!(
        (world.model.list.states, world.model.list.place()),
        (States::Up, None)
    );
    assert_eq!(
        (world.press("x"), &world.model.mode),
        (vec![], &KeyMode::Browse)
    );
    world.press("\u{1b}");
    assert_eq!(
        (world.selected(), world.model.list.visible.len()),
        ("browser", 5)
    );
    // The typed filter applies to the remaining rows.
    world.press("/FILES\n");
    assert_eq!(
        (world.selected(), world.model.list.visible.len()),
        ("files", 1)
    );
    // After a reconnection the daemon may have other servers.
    world.happens(TopEvent::Connected(servers(vec![
        server("search", "connected", &json!({})),
        server("files", "connecting", &json!({})),
    ])));
    world.press("\u{1b}");
    assert_eq!(
        (world.selected(), world.model.list.place()),
        ("files", Some(1))
    );
}

#[test]
fn every_order_is_what_it_says() {
    let mut world = World::with_figures();
    let mut orders = Vec::new();
    for _ in 0..7 {
        let names = world
            .model
            .list
            .visible
            .iter()
            .map(|index| &*world.model.list.rows[*index].name);
        let names: Vec<&str> = names.collect();
        orders.push(format!(
            "{}: {}",
            world.model.list.sort.word(),
            names.join(" ")
        ));
        world.press("s");
    }
    assert_snapshot!(orders.join("\n"));
    assert_eq!(world.model.list.sort, Sort::Configured);
}

#[test]
fn an_action_is_carried_out_after_a_yes_alone() {
    for (key, action) in [
        ("t", ServerAction::Start),
        ("x", ServerAction::Stop),
        ("r", ServerAction::Restart),
        ("c", ServerAction::Reconnect),
        ("e", ServerAction::Disable),
    ] {
        let mut world = World::with_figures();
        assert_eq!(world.press(key), vec![]);
        let question = format!("{} files? (y/n)", action.verb());
        assert!(world.screen(80, 24).contains(&question), "{question}");
        assert!(world.screen(40, 10).contains(&question), "{question}");
        // Neither a movement key nor Enter confirms.
        assert_eq!(world.press("j\n "), vec![]);
        assert!(matches!(world.model.mode, KeyMode::Confirm { .. }));
        let name = "files".to_owned();
        assert_eq!(world.press("y"), vec![Effect::Operate { name, action }]);
        // Only one action runs at a time.
        assert_eq!(world.press("xy"), vec![]);
        for no in ["n", "\u{1b}", "q"] {
            let mut world = World::with_figures();
            assert_eq!(world.press(key), vec![]);
            assert_eq!(
                (world.press(no), &world.model.mode),
                (vec![], &KeyMode::Browse)
            );
        }
    }
    let mut world = World::with_figures();
    world.press("jjje");
    let name = "notes".to_owned();
    let action = ServerAction::Enable;
    assert_eq!(world.model.mode, KeyMode::Confirm { name, action });
}

#[test]
fn what_came_of_an_action_is_said() {
    let mut world = World::with_figures();
    world.press("ry");
    assert!(
        world.screen(80, 24).contains("files    restart..."),
        "{}",
        world.screen(80, 24)
    );
    let outcome = Err("cannot restart files: it is disabled".to_owned());
    let name = "files".to_owned();
    world.happens(TopEvent::Operated { name, outcome });
    let message = "error: cannot restart files: it is disabled";
    assert!(
        world.screen(80, 24).contains(message),
        "{}",
        world.screen(80, 24)
    );
    world.passes(9000);
    assert!(!world.screen(80, 24).contains("error:"));
}

#[test]
fn a_countdown_counts() {
    let mut world = World::with_figures();
    assert!(
        world
            .screen(80, 24)
            .contains("attempt 2 in 4 s: process exited")
    );
    world.model.is_dirty = false;
    world.passes(300);
    assert!(!world.model.is_dirty, "nothing can be seen to change");
    world.passes(200);
    assert!(world.model.is_dirty);
    assert!(
        world
            .screen(80, 24)
            .contains("attempt 2 in 3 s: process exited")
    );
    world.passes(4000);
    assert!(
        world
            .screen(80, 24)
            .contains("attempt 2 now: process exited")
    );
}

#[test]
fn a_daemon_that_is_gone_leaves_a_dim_picture() {
    let mut world = World::with_figures();
    let reason = "connection refused".to_owned();
    let again_in = Duration::from_secs(3);
    world.happens(TopEvent::Gone { reason, again_in });
    assert_snapshot!(world.screen(80, 24));
    let look = Look {
        has_colours: true,
        is_unicode: true,
    };
    let terminal = world.drawn(80, 24, look);
    let cells = &terminal.backend().buffer().content[80..];
    assert!(
        cells
            .iter()
            .all(|cell| cell.fg == ratatui::style::Color::Reset)
    );
    let written = cells[..80 * 5]
        .iter()
        .filter(|cell| cell.symbol() != " " && cell.symbol() != ">");
    assert!(written.clone().count() > 0);
    assert!(
        written
            .into_iter()
            .all(|cell| cell.modifier.contains(Modifier::DIM))
    );
    // Without a connection no question is sent.
    assert_eq!((world.passes(1500), world.press("xy")), (vec![], vec![]));
    assert!(world.screen(80, 24).contains("trying again in 2 s"));
    world.happens(TopEvent::Connected(servers(one_server_per_state())));
    assert_eq!(world.model.link, DaemonLink::Up);
    assert!(
        world
            .passes(250)
            .contains(&Effect::Ask(DaemonQuestion::Figures))
    );
}

#[test]
fn questions_are_few() {
    let mut world = World::new(one_server_per_state());
    let count_questions = |effects: Vec<Effect>| {
        effects
            .into_iter()
            .filter(|effect| matches!(effect, Effect::Ask(_)))
            .count()
    };
    assert_eq!(count_questions(world.passes(250)), 1, "figures");
    // No question is repeated before it is answered.
    assert_eq!(count_questions(world.passes(1500)), 0);
    let mut all = 0;
    for _ in 0..40 {
        world.happens(TopEvent::Figures(figures_of(json!({"servers": []}))));
        world.happens(TopEvent::Servers(servers(one_server_per_state())));
        all += count_questions(world.passes(250));
    }
    // In ten seconds the figures are queried once a second, and the servers after apparent changes.
    assert!((10..=60).contains(&all), "{all}");
    // A single changed server is queried by itself. Many changed servers cause one query for all.
    let happened = |name: &str| {
        let event = json!({"id": "1", "type": "server_connected", "server": name, "createdAt": "x", "data": {}});
        serde_json::from_value(event).expect("an event")
    };
    let mut world = World::new(one_server_per_state());
    world.passes(250);
    world.happens(TopEvent::Happened(vec![
        happened("files"),
        happened("files"),
    ]));
    let one = Effect::Ask(DaemonQuestion::Server("files".to_owned()));
    assert_eq!(world.passes(250), vec![one]);
    let many = (0..20).map(|number| happened(&format!("s{number}")));
    world.happens(TopEvent::Happened(many.collect()));
    assert_eq!(
        world.passes(250),
        vec![Effect::Ask(DaemonQuestion::Servers)]
    );
}

#[test]
fn the_pane_follows_the_selection_when_it_rests() {
    let mut world = World::new(one_server_per_state());
    world.press("\n");
    let follows = |effects: Vec<Effect>| {
        let follow = effects.into_iter().find_map(|effect| match effect {
            Effect::Follow {
                generation,
                topic,
                name,
            } => Some((generation, topic, name)),
            _ => None,
        });
        follow.map(|(generation, topic, name)| format!("{generation} {} {name}", topic.word()))
    };
    assert_eq!(follows(world.passes(250)).as_deref(), Some("1 log files"));
    for _ in 0..3 {
        world.now += Duration::from_millis(50);
        world.press("j");
        assert_eq!(follows(world.happens(TopEvent::Tick)), None);
    }
    assert_eq!(follows(world.passes(250)).as_deref(), Some("2 log notes"));
    // Late lines of the previous server are ignored.
    world.happens(log(&["of files"]));
    assert!(!world.screen(80, 24).contains("of files"));
    world.press("\t");
    assert_eq!(
        follows(world.passes(250)),
        None,
        "events come by themselves"
    );
    world.press("\t");
    assert_eq!(follows(world.passes(250)).as_deref(), Some("4 calls notes"));
    assert_eq!(
        world.model.pane.as_ref().map(|pane| pane.topic),
        Some(Topic::Calls)
    );
    assert_eq!(world.press("\n"), vec![Effect::Unfollow]);
}

/// No text of a server reaches the terminal unescaped.
#[test]
fn no_text_is_obeyed() {
    let hostile: String = (0..=0x1f_u32)
        .chain(0x7f..=0x9f)
        .chain([
            0xad, 0x61c, 0x200b, 0x200e, 0x2028, 0x202a, 0x202e, 0x2066, 0x2069, 0xfeff, 0xe0041,
        ])
        .filter_map(char::from_u32)
        .collect();
    let words = json!({
        "lastError": hostile, "nextStep": hostile, "starting": hostile, "stderr": [hostile], "stdout": hostile,
        "transport": hostile,
    });
    for status in ["connected", "reconnecting", "failed"] {
        let mut world = World::new(vec![server("evil", status, &words)]);
        world.model.warnings = vec![hostile.clone()];
        world.press("\t\t");
        world.passes(250);
        let event = json!({
            "id": "1", "type": "server_disconnected", "server": "evil", "createdAt": hostile,
            "data": {"name": "evil", "was_intentional": false, "reason": hostile},
        });
        let event = serde_json::from_value(event).expect("an event");
        world.happens(TopEvent::Happened(vec![event]));
        let logged = mainstay_api::LogLine {
            time: hostile.clone(),
            source: hostile.clone(),
            text: hostile.clone(),
        };
        world.press("\t\t");
        world.passes(250);
        let generation = 2;
        world.happens(TopEvent::Pane {
            generation,
            lines: vec![PaneLine::of_log(&logged), PaneLine::remark(&hostile)],
            is_whole: false,
        });
        let name = "evil".to_owned();
        let outcome = Err(hostile.clone());
        for _ in 0..2 {
            let terminal = world.drawn(3000, 24, PLAIN);
            for cell in &terminal.backend().buffer().content {
                let is_bad = |c: char| c.is_control() || hostile.contains(c);
                assert!(!cell.symbol().contains(is_bad), "{:?}", cell.symbol());
            }
            let (name, outcome) = (name.clone(), outcome.clone());
            world.happens(TopEvent::Operated { name, outcome });
        }
        let reason = "of a daemon".to_owned() + &hostile;
        world.happens(TopEvent::Gone {
            reason,
            again_in: Duration::ZERO,
        });
        assert!(!world.screen(3000, 24).contains('\u{1b}'));
    }
}

/// The pane shows the parts of the status that do not fit the server's line.
#[test]
fn the_pane_has_the_whole_status() {
    let reason = format!(
        "command not found: {}; install it",
        "very-long-name ".repeat(12)
    );
    let down = server("gone", "failed", &json!({"lastError": reason}));
    let mut world = World::new(vec![down]);
    assert!(!world.screen(80, 24).contains("install it"));
    world.press("\n\t\t\t");
    world.passes(1000);
    assert_eq!(
        world.model.pane.as_ref().map(|pane| pane.topic),
        Some(Topic::Status)
    );
    let screen = world.screen(80, 24);
    assert!(screen.contains("[status]"), "{screen}");
    assert!(
        screen.contains("; install it\n    (stdio, 3 tools)"),
        "{screen}"
    );
    world.press("\t");
    assert_eq!(
        world.model.pane.as_ref().map(|pane| pane.topic),
        Some(Topic::Log)
    );
}

#[test]
fn a_screen_without_room_for_a_pane_says_so() {
    for key in ["\n", "\t"] {
        let mut world = World::new(one_server_per_state());
        world.screen(60, 10);
        world.press(key);
        assert!(world.model.pane.is_none());
        let screen = world.screen(60, 10);
        assert!(
            screen.contains("a pane needs 12 lines; `mainstay get` says all"),
            "{screen}"
        );
        world.screen(60, 12);
        world.press(key);
        assert!(world.model.pane.is_some());
    }
}

/// A thousand servers are drawn, sorted and filtered fast enough for a key press.
#[test]
fn a_thousand_servers_are_no_burden() {
    let all = (0..1000).map(|number| server(&format!("server-{number}"), "connected", &json!({})));
    let mut world = World::new(all.collect());
    let many = (0..1000).map(|number| figures(&format!("server-{number}"), number));
    let many: Vec<Value> = many.collect();
    let started_at = Instant::now();
    for _ in 0..3 {
        world.happens(TopEvent::Figures(figures_of(json!({"servers": many}))));
        world.press("sj");
        world.screen(140, 40);
    }
    // A limit for slow machines and unoptimised code: a hundred times the usual duration.
    assert!(
        started_at.elapsed() < Duration::from_secs(20),
        "{:?}",
        started_at.elapsed()
    );
    world.press("G");
    assert!(world.model.list.first > 900);
}
