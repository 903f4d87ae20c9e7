//! Decides what to do with a message whose answer was lost. Pure.

use mainstay_core::message::Method;

/// The evidence about a message that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The daemon did not accept the message: it was not connected, read only a part of the
    /// message, did not know the session, or was stopping.
    NotTaken,
    /// The daemon may have accepted the message. The answer's stream broke but can be resumed.
    Resumable,
    /// The daemon may have accepted the message. There is no stream to resume.
    Taken,
}

/// The next step for a message after a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFate {
    /// Send the message to the next daemon.
    Again,
    /// Resume the answer's stream.
    Resume,
    /// Answer that the outcome is unknown: the call may have run.
    Unknown,
    /// Drop the message. The client cancelled it, or it is a notification that is not repeated.
    Dropped,
}

/// The kind of a message to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Request(Method),
    Notification(Method),
    /// A batch (2025-03-26), which may contain a call.
    Batch,
}

/// Decides the next step after `loss`. A message that may have run is sent again only if it is
/// read-only or idempotent.
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

/// True if a request is read-only or idempotent, so that it may run twice.
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

    /// The true course of one attempt, of which the front sees only a part.
    #[derive(Clone, Copy, Debug)]
    enum Attempt {
        /// The daemon did not read the whole message.
        Unread,
        /// The message ran, but its answer was lost.
        RanUnheard,
        /// The daemon accepted the message, but ended before running it.
        TakenInVain,
        /// The message ran, but its answer's stream broke.
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

        /// The loss that the front observes; `None` if the answer arrived.
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

    /// Simulates the attempts to send a message. Returns the number of runs, and true if the client
    /// got an answer.
    fn course(message: Outgoing, attempts: &[Attempt], resumes: bool) -> (usize, bool) {
        let mut runs = 0;
        for attempt in attempts {
            runs += usize::from(attempt.runs());
            let Some(loss) = attempt.observed() else {
                return (runs, true);
            };
            match after_loss(message, loss, false) {
                MessageFate::Again => {}
                // Only the daemon that has the stream resumes it. Others refuse.
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
