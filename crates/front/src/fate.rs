//! Decides what follows when a message to the daemon has no answer. Pure.

use mainstay_core::message::Method;

/// What is known of a message without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The daemon has not taken it: no connection, a request that was not read whole, a session that
    /// the daemon does not know, or a daemon that is stopping.
    NotTaken,
    /// The daemon may have taken it, and a stream that may still bring the answer broke off.
    Resumable,
    /// The daemon may have taken it.
    Taken,
}

/// What to do with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Send it to the daemon that comes next.
    Again,
    /// Ask the daemon for the rest of the stream.
    Resume,
    /// Answer that it may or may not have run.
    Unknown,
    /// Nobody waits for it.
    Dropped,
}

/// What is sent to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    Request(Method),
    Notification(Method),
    /// Several messages in one (2025-03-26): at least one of them may be a call.
    Batch,
}

/// What follows `loss`. Nothing that may have run is sent again, unless it only reads or sets what the
/// session is set to anyway.
pub fn of(message: Outgoing, loss: Loss, is_cancelled: bool) -> Fate {
    match (message, loss) {
        _ if is_cancelled => Fate::Dropped,
        (_, Loss::NotTaken) => Fate::Again,
        (Outgoing::Request(_), Loss::Resumable) => Fate::Resume,
        (Outgoing::Request(method), Loss::Taken) if repeats_safely(method) => Fate::Again,
        (Outgoing::Notification(Method::Initialized | Method::RootsChanged), _) => Fate::Again,
        (Outgoing::Notification(_), _) => Fate::Dropped,
        (Outgoing::Request(_) | Outgoing::Batch, Loss::Taken | Loss::Resumable) => Fate::Unknown,
    }
}

/// Whether a request may be made twice: it reads, or it sets what is set already.
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

    /// What became of one attempt, as only an onlooker sees it.
    #[derive(Clone, Copy, Debug)]
    enum Attempt {
        /// Nobody listened, the daemon was stopping, or it died before it had read all.
        Unread,
        /// It ran, and the answer was lost.
        RanUnheard,
        /// It was taken, and the daemon died before it ran.
        TakenInVain,
        /// It ran; the stream of its answer broke.
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

        /// What the front sees of it.
        fn seen(self) -> Option<Loss> {
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

    /// How a message fares: how often it ran, and whether its sender was told.
    fn course(message: Outgoing, attempts: &[Attempt], resumes: bool) -> (usize, bool) {
        let mut ran = 0;
        for attempt in attempts {
            ran += usize::from(attempt.runs());
            let Some(loss) = attempt.seen() else {
                return (ran, true);
            };
            match of(message, loss, false) {
                Fate::Again => {}
                // The daemon that has the stream brings the answer; any other refuses.
                Fate::Resume if resumes => return (ran, true),
                Fate::Resume => match of(message, Loss::Taken, false) {
                    Fate::Again => {}
                    _ => return (ran, true),
                },
                Fate::Unknown => return (ran, true),
                Fate::Dropped => return (ran, false),
            }
        }
        (ran, false)
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
                let (ran, told) = course(message, &attempts, resumes);
                prop_assert!(ran <= 1);
                let taken = attempts.iter().any(|it| it.seen() != Some(Loss::NotTaken));
                prop_assert_eq!(told, taken);
            }
        }

        #[test]
        fn what_only_reads_is_sent_until_it_is_answered(attempts in attempts()) {
            let message = Outgoing::Request(Method::ToolsList);
            let (_, told) = course(message, &attempts, false);
            let answered = attempts.iter().any(|it| it.seen().is_none());
            prop_assert_eq!(told, answered);
        }
    }

    #[test]
    fn nobody_waits_for_what_was_cancelled() {
        for loss in [Loss::NotTaken, Loss::Resumable, Loss::Taken] {
            let call = Outgoing::Request(Method::ToolsCall);
            assert_eq!(of(call, loss, true), Fate::Dropped);
        }
    }

    #[test]
    fn a_notification_of_a_moment_is_not_repeated() {
        let of = |method| of(Outgoing::Notification(method), Loss::Taken, false);
        assert_eq!(of(Method::Progress), Fate::Dropped);
        assert_eq!(of(Method::Initialized), Fate::Again);
    }
}
