//! Decides the next step for an unanswered message. Pure.

use mainstay_core::message::Method;

/// Knowledge about an unanswered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The daemon did not accept it: no connection, a partly read request, an unknown session, or
    /// shutdown.
    NotTaken,
    /// The daemon may have accepted it, and the broken stream can be resumed.
    Resumable,
    /// The daemon may have accepted it.
    Taken,
}

/// The next step for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// Send it to the next daemon.
    Again,
    /// Resume the stream.
    Resume,
    /// Answer that the outcome is unknown.
    Unknown,
    /// Drop the message, because no client waits.
    Dropped,
}

/// A message to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Request(Method),
    Notification(Method),
    /// A batch (2025-03-26), which may contain a call.
    Batch,
}

/// The next step after `loss`. A message that may have run is sent again only if it is read-only or
/// idempotent.
pub fn after_loss(message: Outgoing, loss: Loss, is_cancelled: bool) -> MessageFate {
    match (message, loss) {
        _ if is_cancelled => MessageFate::Dropped,
        (_, Loss::NotTaken) => MessageFate::Again,
        (Outgoing::Request(_), Loss::Resumable) => MessageFate::Resume,
        (Outgoing::Request(method), Loss::Taken) if repeats_safely(method) => MessageFate::Again,
        (Outgoing::Notification(Method::Initialized | Method::RootsChanged), _) => {
            MessageFate::Again
        }
        (Outgoing::Notification(_), _) => MessageFate::Dropped,
        (Outgoing::Request(_) | Outgoing::Batch, Loss::Taken | Loss::Resumable) => {
            MessageFate::Unknown
        }
    }
}

/// True if a request is read-only or idempotent.
fn repeats_safely(method: Method) -> bool {
    match method {
        Method::Initialize
        | Method::Ping
        | Method::ToolsList
        | Method::ResourcesList
        | Method::ResourceTemplatesList
        | Method::ResourcesRead
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::PromptsList
        | Method::PromptsGet
        | Method::Complete
        | Method::SetLevel
        | Method::Discover
        | Method::Listen
        | Method::TasksGet
        | Method::TasksList
        | Method::TasksResult => true,
        Method::ToolsCall
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::CreateMessage
        | Method::Elicit
        | Method::RootsList
        | Method::Initialized
        | Method::Cancelled
        | Method::Progress
        | Method::LogMessage
        | Method::ToolsChanged
        | Method::PromptsChanged
        | Method::ResourcesChanged
        | Method::ResourceUpdated
        | Method::RootsChanged
        | Method::ElicitationComplete
        | Method::Acknowledged
        | Method::TaskStatus
        | Method::TaskChanged
        | Method::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The actual course of one attempt.
    #[derive(Clone, Copy, Debug)]
    enum Attempt {
        /// The daemon did not read the whole message.
        Unread,
        /// The message ran, but its answer was lost.
        RanUnheard,
        /// The daemon accepted the message, but died before running it.
        TakenInVain,
        /// The message ran, but its stream broke.
        RanOnABrokenStream,
        RanAndAnswered,
    }

    impl Attempt {
        fn runs(self) -> bool {
            matches!(
                self,
                Self::RanUnheard | Self::RanOnABrokenStream | Self::RanAndAnswered
            )
        }

        /// The observable part.
        fn observed(self) -> Option<Loss> {
            match self {
                Self::Unread => Some(Loss::NotTaken),
                Self::RanUnheard | Self::TakenInVain => Some(Loss::Taken),
                Self::RanOnABrokenStream => Some(Loss::Resumable),
                Self::RanAndAnswered => None,
            }
        }
    }

    fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
        let attempt = prop_oneof![
            Just(Attempt::Unread),
            Just(Attempt::RanUnheard),
            Just(Attempt::TakenInVain),
            Just(Attempt::RanOnABrokenStream),
            Just(Attempt::RanAndAnswered),
        ];
        prop::collection::vec(attempt, 1..12)
    }

    /// Simulates a message. Returns the number of runs, and true if the client got an answer.
    fn course(message: Outgoing, attempts: &[Attempt], resumes: bool) -> (usize, bool) {
        let mut runs = 0;
        for attempt in attempts {
            runs += usize::from(attempt.runs());
            let Some(loss) = attempt.observed() else {
                return (runs, true);
            };
            match after_loss(message, loss, false) {
                MessageFate::Again => {}
                // The daemon with the stream sends the answer. Other daemons refuse.
                MessageFate::Resume if resumes => return (runs, true),
                MessageFate::Resume => match after_loss(message, Loss::Taken, false) {
                    MessageFate::Again => {}
                    _ => return (runs, true),
                },
                MessageFate::Unknown => return (runs, true),
                MessageFate::Dropped => return (runs, false),
            }
        }
        (runs, false)
    }

    proptest! {
        #[test]
        fn no_call_runs_twice_and_each_that_was_taken_is_answered(
            attempts in attempts(), resumes: bool,
        ) {
            for message in [
                Outgoing::Request(Method::ToolsCall),
                Outgoing::Request(Method::TasksUpdate),
                Outgoing::Request(Method::Other),
                Outgoing::Batch,
            ] {
                let (runs, is_answered) = course(message, &attempts, resumes);
                prop_assert!(runs <= 1);
                let was_taken = attempts.iter().any(|attempt| attempt.observed() != Some(Loss::NotTaken));
                prop_assert_eq!(is_answered, was_taken);
            }
        }

        #[test]
        fn read_only_messages_are_sent_until_answered(attempts in attempts()) {
            let message = Outgoing::Request(Method::ToolsList);
            let (_, is_answered) = course(message, &attempts, false);
            let was_answered = attempts.iter().any(|attempt| attempt.observed().is_none());
            prop_assert_eq!(is_answered, was_answered);
        }
    }

    #[test]
    fn nobody_waits_for_what_was_cancelled() {
        for loss in [Loss::NotTaken, Loss::Resumable, Loss::Taken] {
            let call = Outgoing::Request(Method::ToolsCall);
            assert_eq!(after_loss(call, loss, true), MessageFate::Dropped);
        }
    }

    #[test]
    fn a_notification_of_a_moment_is_not_repeated() {
        let fate = |method| after_loss(Outgoing::Notification(method), Loss::Taken, false);
        assert_eq!(fate(Method::Progress), MessageFate::Dropped);
        assert_eq!(fate(Method::Initialized), MessageFate::Again);
    }
}
