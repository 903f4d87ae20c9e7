//! Setup at a terminal, with questions to a person.

use mainstay_testkit::Terminal;

use super::{Machinery, SECRET};

const GO_ON: &str = "go on? [y]es, [n]o, [c]hoose the clients";
const STORE: &str =
    "keep notes-API_KEY encrypted in the vault, and not in the configuration? [y/n]";
const SERVICE: &str = "start Mainstay now and whenever you log in? [y/n]";

/// The questions in their order, with the answer that leads to the next one.
const QUESTIONS: [(&str, &str); 7] = [
    (GO_ON, "c"),
    ("have Claude Desktop use Mainstay? [y/n]", "n"),
    ("have Cursor use Mainstay? [y/n]", "y"),
    ("have Codex use Mainstay? [y/n]", "y"),
    (GO_ON, "y"),
    (STORE, "n"),
    (SERVICE, "n"),
];

/// Setup at a terminal that is large enough for the whole plan.
async fn at_a_terminal(machine: &Machinery) -> Terminal {
    Terminal::start(&machine.command(&["setup"]), 200, 250).await
}

/// Answers the first questions, and waits for the next one.
async fn answered(terminal: &Terminal, count: usize) {
    for (index, (question, answer)) in QUESTIONS.iter().enumerate().take(count + 1) {
        let is_asked = |screen: &str| {
            let earlier = QUESTIONS[..=index].iter();
            let times = earlier.filter(|(text, _)| text == question).count();
            screen.matches(question).count() == times
        };
        terminal.shows_when(question, is_asked).await;
        if index < count {
            terminal.press(&[answer, "Enter"]).await;
        }
    }
}

#[tokio::test]
async fn a_person_sees_the_plan_and_chooses_clients() {
    if !Terminal::is_available() {
        return;
    }
    let machine = Machinery::new();
    let before = machine.state();
    let terminal = at_a_terminal(&machine).await;
    let plan = terminal.wait_for_text(GO_ON).await;
    for part in [
        "SERVER",
        "Claude Desktop, Cursor",
        "claude_desktop_config.json",
        "\"mainstay\": {",
        "-[mcp_servers.tracker]",
        "+[mcp_servers.mainstay]",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    assert!(!plan.contains(SECRET), "{plan}");
    assert_eq!(machine.state(), before);
    answered(&terminal, QUESTIONS.len() - 1).await;
    assert_eq!(machine.state(), before);
    // The plan is that of the chosen clients.
    let screen = terminal.screen().await;
    let second = screen.rsplit("SERVER").next().expect("a table");
    assert!(!second.contains("claude_desktop_config.json"), "{second}");
    terminal.press(&["n", "Enter"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    let screen = terminal.screen().await;
    assert!(
        screen.contains("these clients use Mainstay now: Cursor, Codex"),
        "{screen}"
    );
    let after = machine.state();
    assert_eq!(after[0], before[0]);
    for index in 1..4 {
        assert_ne!(after[index], before[index]);
    }
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(machine.state(), before);
}

#[tokio::test]
async fn a_person_who_refuses_changes_nothing() {
    if !Terminal::is_available() {
        return;
    }
    let machine = Machinery::new();
    let before = machine.state();
    // No, an empty line, the end of the input, and none of the clients.
    let refusals: [&[&str]; 4] = [
        &["n", "Enter"],
        &["Enter"],
        &["C-d"],
        &["c", "Enter", "n", "Enter", "n", "Enter", "n", "Enter"],
    ];
    for keys in refusals {
        let terminal = at_a_terminal(&machine).await;
        terminal.wait_for_text(GO_ON).await;
        terminal.press(keys).await;
        assert_eq!(terminal.ended().await, Some(1), "{keys:?}");
        let screen = terminal.screen().await;
        assert!(screen.contains("nothing was changed"), "{screen}");
        assert_eq!(machine.state(), before, "{keys:?}");
    }
    let run = machine.run(&["setup", "--undo"]).await;
    assert!(run.stderr.contains("nothing to undo"), "{run}");
}

#[tokio::test]
async fn an_interrupt_at_any_question_changes_nothing() {
    if !Terminal::is_available() {
        return;
    }
    let machine = Machinery::new();
    let before = machine.state();
    for count in 0..QUESTIONS.len() {
        let terminal = at_a_terminal(&machine).await;
        answered(&terminal, count).await;
        terminal.press(&["C-c"]).await;
        assert_ne!(terminal.ended().await, Some(0), "question {count}");
        assert_eq!(machine.state(), before, "question {count}");
    }
    let run = machine.run(&["setup", "--undo"]).await;
    assert!(run.stderr.contains("nothing to undo"), "{run}");
}
