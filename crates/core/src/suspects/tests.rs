use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn tool<'a>(name: &'a str, arguments: &'a str) -> CallSignature<'a> {
    CallSignature {
        method: Method::ToolsCall,
        name,
        arguments,
    }
}

/// The suspects of a server, with a clock.
struct Court {
    suspects: Suspects,
    now: Instant,
}

impl Court {
    fn new() -> Self {
        Self {
            suspects: Suspects::default(),
            now: Instant::now(),
        }
    }

    /// Crashes the server one second later. Returns the calls that are refused from then on, and
    /// the number of crashes that do not count.
    fn crash(&mut self, in_flight: &[CallSignature<'_>]) -> (Vec<String>, u32) {
        self.now += SECOND;
        let (suspects, verdict) = self.suspects.crashed(in_flight, self.now);
        self.suspects = suspects;
        let lines = verdict
            .refused
            .iter()
            .map(|call| format!("{} {:?}", call.name, call.arguments));
        (lines.collect(), verdict.crashes)
    }

    fn answer(&mut self, call: CallSignature<'_>) {
        if let Some(suspects) = self.suspects.answered(call) {
            self.suspects = suspects;
        }
    }

    fn refuses(&self, call: CallSignature<'_>) -> bool {
        self.suspects.refusal(call, self.now).is_some()
    }

    /// Advances the clock. Returns the number of calls that are allowed again.
    fn wait(&mut self, time: Duration) -> usize {
        self.now += time;
        let (suspects, allowed) = self.suspects.passed(self.now);
        self.suspects = suspects;
        allowed.len()
    }
}

fn nobody() -> (Vec<String>, u32) {
    (Vec::new(), 0)
}

const POISON: (&str, &str) = ("poison", "{}");

fn poison() -> CallSignature<'static> {
    tool(POISON.0, POISON.1)
}

#[test]
fn a_call_in_flight_at_three_crashes_is_refused_with_its_arguments() {
    let mut court = Court::new();
    assert_eq!(court.crash(&[poison()]), nobody());
    assert_eq!(court.crash(&[poison()]), nobody());
    assert!(!court.refuses(poison()));
    assert_eq!(
        court.crash(&[poison()]),
        (vec!["poison Same".to_owned()], 3)
    );
    assert!(court.refuses(poison()));
    assert!(!court.refuses(tool("poison", r#"{"n":1}"#)));
    assert!(!court.refuses(tool("echo", "{}")));
    let prompt = CallSignature {
        method: Method::PromptsGet,
        ..poison()
    };
    assert!(!court.refuses(prompt));
}

#[test]
fn an_answer_acquits() {
    let mut court = Court::new();
    let ping = tool("ping", "{}");
    for _ in 0..10 {
        assert_eq!(
            court
                .crash(&[ping, tool("slow", "{}")])
                .0
                .iter()
                .find(|line| line.contains("ping")),
            None
        );
        court.answer(ping);
    }
    assert!(!court.refuses(ping));
}

/// When a suspect is refused, the other suspects are cleared.
#[test]
fn a_refused_call_explains_the_crashes_of_other_calls() {
    let mut court = Court::new();
    let other_call = tool("other", "{}");
    court.crash(&[poison()]);
    court.crash(&[poison(), other_call]);
    assert_eq!(
        court.crash(&[poison(), other_call]),
        (vec!["poison Same".to_owned()], 3)
    );
    // This is the third crash with the other call in flight. The refused call explains the first
    // two.
    assert_eq!(court.crash(&[other_call]), nobody());
    assert!(!court.refuses(other_call));
}

/// Crashes are counted for each call, not for the server.
#[test]
fn two_alternating_harmful_calls_are_both_refused() {
    let mut court = Court::new();
    let other_call = tool("other", "{}");
    for call in [poison(), other_call, poison(), other_call] {
        assert_eq!(court.crash(&[call]), nobody());
    }
    assert_eq!(court.crash(&[poison()]).1, 3);
    court.crash(&[other_call]);
    court.crash(&[other_call]);
    assert_eq!(court.crash(&[other_call]).1, 3);
    assert!(court.refuses(poison()) && court.refuses(other_call));
}

#[test]
fn a_tool_that_crashes_with_varying_arguments_is_refused_with_any() {
    let mut court = Court::new();
    assert_eq!(
        court.crash(&[tool("poison", "1"), tool("slow", "1")]),
        nobody()
    );
    court.answer(tool("slow", "2"));
    assert_eq!(court.crash(&[tool("poison", "2")]), nobody());
    assert_eq!(
        court.crash(&[tool("poison", "3")]),
        (vec!["poison Any".to_owned()], 3)
    );
    assert!(court.refuses(tool("poison", "4")));
    assert!(!court.refuses(tool("slow", "1")));
}

#[test]
fn no_tool_is_refused_if_two_are_suspects() {
    let mut court = Court::new();
    for arguments in ["1", "2", "3", "4"] {
        assert_eq!(
            court.crash(&[tool("a", arguments), tool("b", arguments)]),
            nobody()
        );
    }
    court.answer(tool("a", "5"));
    assert_eq!(court.crash(&[tool("a", "6"), tool("b", "6")]).0, ["b Any"]);
}

/// Equal calls in flight at one crash count as one.
#[test]
fn a_crash_counts_once() {
    let mut court = Court::new();
    assert_eq!(court.crash(&[poison(); 9]), nobody());
    assert_eq!(court.crash(&[poison(); 9]), nobody());
}

#[test]
fn a_call_is_allowed_again_after_ten_minutes_and_refused_after_one_more_crash() {
    let mut court = Court::new();
    for _ in 0..3 {
        court.crash(&[poison()]);
    }
    assert_eq!(court.wait(REFUSED_FOR / 2), 0);
    assert!(court.refuses(poison()));
    assert_eq!(court.wait(REFUSED_FOR / 2), 1);
    assert!(!court.refuses(poison()));
    assert_eq!(
        court.crash(&[poison()]),
        (vec!["poison Same".to_owned()], 1)
    );
    assert_eq!(court.wait(REFUSED_FOR), 1);
    court.answer(poison());
    assert!(court.suspects.is_empty());
}

#[test]
fn a_suspicion_expires() {
    let mut court = Court::new();
    court.crash(&[poison()]);
    assert_eq!(court.suspects.due(), Some(court.now + REFUSED_FOR));
    court.wait(REFUSED_FOR);
    assert!(court.suspects.is_empty());
    assert_eq!(court.suspects.due(), None);
}

/// The call in flight at every crash is found among any number of other calls.
#[test]
fn suspects_are_bounded() {
    let mut court = Court::new();
    for round in 0..3 {
        let names: Vec<String> = (0..1000).map(|n| format!("tool-{round}-{n}")).collect();
        let mut in_flight = vec![poison()];
        in_flight.extend(names.iter().map(|name| tool(name, "{}")));
        court.crash(&in_flight);
        assert!(court.suspects.0.len() <= MAX_SUSPECTS);
    }
    assert!(court.refuses(poison()));
}

proptest! {
    /// A call is refused only after [`CRASHES`] crashes without an answer in between. No more
    /// crashes are excused than happened.
    #[test]
    fn an_answered_call_is_never_refused(history in prop::collection::vec(
        (prop::collection::vec((0..4usize, 0..3usize), 0..4), prop::option::of((0..4usize, 0..3usize))),
        0..40,
    )) {
        let (names, texts) = (["a", "b", "c", "d"], ["1", "2", "3"]);
        let call = |(name, text): &(usize, usize)| tool(names[*name], texts[*text]);
        let mut court = Court::new();
        // Number of crashes since the last answer, by the indexes of a call.
        let mut since = std::collections::HashMap::<(usize, usize), u32>::new();
        let (mut crashes, mut excused_crashes) = (0, 0);
        for (in_flight, answered) in history {
            // A refused call is not sent.
            let in_flight: Vec<_> = in_flight.into_iter().filter(|index| !court.refuses(call(index))).collect();
            let distinct: HashSet<_> = in_flight.iter().copied().collect();
            for index in &distinct {
                *since.entry(*index).or_default() += 1;
            }
            let calls: Vec<_> = in_flight.iter().map(call).collect();
            let (refused_lines, freed) = court.crash(&calls);
            (crashes, excused_crashes) = (crashes + 1, excused_crashes + freed);
            prop_assert!(excused_crashes <= crashes, "{excused_crashes} of {crashes}");
            for line in refused_lines.iter().filter(|line| line.ends_with("Same")) {
                let guilty = distinct.iter().filter(|(name, _)| line.starts_with(names[*name]));
                let max_crashes = guilty.map(|index| since[index]).max();
                prop_assert!(max_crashes >= Some(CRASHES), "{line}: {max_crashes:?}");
            }
            if let Some(answered) = answered && !court.refuses(call(&answered)) {
                since.remove(&answered);
                court.answer(call(&answered));
                // The name may still be refused with any arguments, but not this call because of
                // its own crashes.
                let (next_suspects, _) = court.suspects.crashed(&[call(&answered)], court.now);
                let refusal = next_suspects.refusal(call(&answered), court.now);
                prop_assert!(refusal.is_none_or(|refusal| refusal.arguments == Arguments::Any));
            }
        }
    }
}
