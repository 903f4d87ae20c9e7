//! `mainstay setup` on a terminal, with questions.

use mainstay_testkit::Terminal;

use super::{Machinery, SECRET};

const CONTINUE_QUESTION: &str = "go on? [y]es, [n]o, [c]hoose the clients";
const STORE_QUESTION: &str =
    "keep notes-API_KEY encrypted in the vault, and not in the configuration? [y/n]";
const SERVICE: &str = "start Mainstay now and whenever you log in? [y/n]";

/// The questions in order, each with an answer that continues.
const QUESTIONS: [(&str, &str); 7] = [
    (CONTINUE_QUESTION, "c"),
    ("have Claude Desktop use Mainstay? [y/n]", "n"),
    ("have Cursor use Mainstay? [y/n]", "y"),
    ("have Codex use Mainstay? [y/n]", "y"),
    (CONTINUE_QUESTION, "y"),
    (STORE_QUESTION, "n"),
    (SERVICE, "n"),
];

/// Starts setup on a terminal that is large enough for the whole plan.
async fn start_setup(machine: &Machinery) -> Terminal {
    Terminal::start(&machine.command(&["setup"]), 200, 250).await
}

/// Answers the first `count` questions, and waits for the next question.
async fn answer_questions(terminal: &Terminal, count: usize) {
    for (index, (question, answer)) in QUESTIONS.iter().enumerate().take(count + 1) {
        let is_asked = |screen: &str| {
            let earlier_questions = QUESTIONS[..=index].iter();
            let times = earlier_questions
                .filter(|(text, _)| text == question)
                .count();
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
    let state_before = machine.state();
    let terminal = start_setup(&machine).await;
    let plan = terminal.wait_for_text(CONTINUE_QUESTION).await;
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
    assert_eq!(machine.state(), state_before);
    answer_questions(&terminal, QUESTIONS.len() - 1).await;
    assert_eq!(machine.state(), state_before);
    // The plan contains only the chosen clients.
    let screen = terminal.screen().await;
    let second_text = screen.rsplit("SERVER").next().expect("a table");
    assert!(
        !second_text.contains("claude_desktop_config.json"),
        "{second_text}"
    );
    terminal.press(&["n", "Enter"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    let screen = terminal.screen().await;
    assert!(
        screen.contains("these clients use Mainstay now: Cursor, Codex"),
        "{screen}"
    );
    let after = machine.state();
    assert_eq!(after[0], state_before[0]);
    for index in 1..4 {
        assert_ne!(after[index], state_before[index]);
    }
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(machine.state(), state_before);
}

#[tokio::test]
async fn a_person_who_refuses_changes_nothing() {
    if !Terminal::is_available() {
        return;
    }
    let machine = Machinery::new();
    let state_before = machine.state();
    // Refuse by "no", by an empty line, by the end of input, and by choosing no client.
    let refusals: [&[&str]; 4] = [
        &["n", "Enter"],
        &["Enter"],
        &["C-d"],
        &["c", "Enter", "n", "Enter", "n", "Enter", "n", "Enter"],
    ];
    for keys in refusals {
        let terminal = start_setup(&machine).await;
        terminal.wait_for_text(CONTINUE_QUESTION).await;
        terminal.press(keys).await;
        assert_eq!(terminal.ended().await, Some(1), "{keys:?}");
        let screen = terminal.screen().await;
        assert!(screen.contains("nothing was changed"), "{screen}");
        assert_eq!(machine.state(), state_before, "{keys:?}");
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
    let state_before = machine.state();
    for count in 0..QUESTIONS.len() {
        let terminal = start_setup(&machine).await;
        answer_questions(&terminal, count).await;
        terminal.press(&["C-c"]).await;
        assert_ne!(terminal.ended().await, Some(0), "question {count}");
        assert_eq!(machine.state(), state_before, "question {count}");
    }
    let run = machine.run(&["setup", "--undo"]).await;
    assert!(run.stderr.contains("nothing to undo"), "{run}");
}
