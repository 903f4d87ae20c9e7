//! Y3: the words on every surface, as in the requirements.

use super::*;

#[test]
fn y3_every_state_has_its_words_on_every_surface() {
    // canonical | 000 page | its message | 001 tools | 002 REST | 003 desktop
    let table = "
        disconnected | stopped  |                                     | disconnected | disconnected | stopped
        connecting   | starting |                                     | connecting   | connecting   | starting
        connected    | running  |                                     | connected    | connected    | running
        reconnecting | starting | Reconnecting...                     | reconnecting | reconnecting | starting
        error        | error    |                                     | error        | error        | error
        failed       | error    | Connection failed after max retries | error        | failed       | error
        crashed      | error    |                                     | error        | disconnected | crashed
        stopping     | stopping |                                     | disconnected | disconnected | stopped";
    let rows = table.trim().lines();
    let rows: Vec<Vec<_>> = rows
        .map(|row| row.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), SessionState::ALL.len());
    for (row, state) in rows.iter().zip(SessionState::ALL) {
        let words = state.words();
        let actual = [
            words.canonical,
            words.page,
            words.page_message.unwrap_or_default(),
            words.tools,
            words.rest,
            words.desktop,
        ];
        assert_eq!(actual, row[..], "{state:?}");
        assert_eq!(state.to_string(), words.canonical);
        assert_eq!(
            serde_json::to_value(state).expect("a word"),
            words.canonical
        );
    }
}

/// Document 002, t67: after a loss without a reconnect, the state is `disconnected`, or `crashed`
/// if a process exited.
#[test]
fn y3_f8_a_loss_has_its_state() {
    let check = |preset: Preset, loss: Loss, expected| {
        let course = Course::after_loss(steady(preset), loss.clone());
        assert_eq!(course.state(), expected, "{preset:?} {loss:?}");
        assert_eq!(course.status().reason, Some(loss.to_string()));
    };
    check(
        Preset::Manual,
        connection_loss(),
        SessionState::Disconnected,
    );
    check(Preset::Manual, crash(), SessionState::Crashed);
    check(
        Preset::Default,
        connection_loss(),
        SessionState::Reconnecting,
    );
    check(Preset::Default, crash(), SessionState::Reconnecting);
    let unauthorized = Loss::Unauthorized("HTTP 401".to_owned());
    check(Preset::Default, unauthorized, SessionState::Error);
}
