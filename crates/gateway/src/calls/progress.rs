//! How far a server says that it is with a request. Only a number that rises is a sign of work
//! (specification, "Progress": it must increase with each notification).

use mainstay_transport::Frame;

/// The highest number of one exchange.
#[derive(Debug, Default)]
pub struct Progress(Option<f64>);

impl Progress {
    /// Whether a notification says more than those before. One whose number cannot be read does not.
    pub fn rises(&mut self, notification: &Frame) -> bool {
        let said = notification.param("progress").and_then(number);
        let rises = said.is_some_and(|said| self.0.is_none_or(|highest| said > highest));
        if rises {
            self.0 = said;
        }
        rises
    }
}

/// A number, also one that is spelled as a string.
fn number(text: &str) -> Option<f64> {
    let inner = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let number: f64 = inner.unwrap_or(text).parse().ok()?;
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_that_rises_is_progress() {
        let mut progress = Progress::default();
        for (said, rises) in [
            ("0", true),
            ("0", false),
            ("0.5", true),
            ("0.25", false),
            ("\"0.75\"", true),
            ("null", false),
            ("\"NaN\"", false),
            ("{}", false),
            ("-3", false),
            ("1e400", true),
            ("1e500", false),
        ] {
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"progress":{said}}}}}"#
            );
            let frame = Frame::read(text.into()).expect("a message");
            assert_eq!(progress.rises(&frame), rises, "{said}");
        }
        let nothing = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let frame = Frame::read(nothing.into()).expect("a message");
        assert!(!Progress::default().rises(&frame));
    }
}
