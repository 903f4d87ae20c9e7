//! Tests a program in a terminal: its screen, keys, size and end.
#![cfg(unix)]

use mainstay_testkit::Terminal;
use tokio::process::Command;

#[tokio::test]
async fn a_program_is_driven_in_a_terminal() {
    if !Terminal::is_available() {
        return;
    }
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            r#"printf 'I am %s\n' "$WHO"; read word; stty size; printf 'heard %s\n' "$word"; read end; exit 7"#,
        ])
        .env("WHO", "a program");
    let terminal = Terminal::start(&command, 50, 10).await;
    terminal.wait_for_text("I am a program").await;
    terminal.resize(70, 12).await;
    terminal.types("so; $HOME").await;
    terminal.press(&["Enter"]).await;
    let screen = terminal.wait_for_text("heard so; $HOME").await;
    assert!(screen.contains("12 70"), "{screen}");
    assert!(terminal.is_cursor_visible().await);
    assert!(!terminal.is_alternate().await);
    terminal.press(&["Enter"]).await;
    assert_eq!(terminal.ended().await, Some(7));
}
