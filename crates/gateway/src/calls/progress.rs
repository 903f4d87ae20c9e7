//! The progress that a server reports for a request. Only a rising number counts as progress
//! (specification, "Progress": the value must increase with each notification).

use mainstay_transport::Frame;

/// The highest progress value of one exchange so far.
#[derive(Debug, Default)]
pub struct HighestProgress(Option<f64>);

impl HighestProgress {
    /// Returns true if the notification's value is higher than all earlier values. False for a
    /// value that is not a number.
    pub fn rises(&mut self, notification: &Frame) -> bool {
        let reported = notification.param("progress").and_then(number);
        let rises =
            reported.is_some_and(|reported| self.0.is_none_or(|highest| reported > highest));
        if rises {
            self.0 = reported;
        }
        rises
    }
}

/// Parses a JSON number or a string that contains a number.
fn number(text: &str) -> Option<f64> {
    let inner = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let number: f64 = inner.unwrap_or(text).parse().ok()?;
    (!number.is_nan()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_that_rises_is_progress() {
        let mut progress = HighestProgress::default();
        for (number, rises) in [
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
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":1,"progress":{number}}}}}"#
            );
            let frame = Frame::read(text.into()).expect("a message");
            assert_eq!(progress.rises(&frame), rises, "{number}");
        }
        let nothing = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let frame = Frame::read(nothing.into()).expect("a message");
        assert!(!HighestProgress::default().rises(&frame));
    }
}
