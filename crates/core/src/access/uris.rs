//! The forms of a URI that are compared with patterns.

/// Maximum number of times that a URI is decoded. A URI that still changes then is refused.
const MAX_DECODINGS: usize = 4;

/// Returns the forms in which a server may take this URI, besides the URI itself: with its
/// percent-encoding decoded, with `/` for `\\`, and without `.`, `..` and empty segments (RFC 3986,
/// 6.2.2). One form takes the query and the fragment for a part of the path, one does not. Returns
/// `None` if the URI has characters that parsers of URIs drop, or if it is encoded too often.
///
/// The forms are not URIs that a server understands. They are stricter than RFC 3986, because a
/// server may take its URIs for paths of files.
pub(super) fn other_forms(uri: &str) -> Option<Vec<String>> {
    let mut decoded = uri.to_owned();
    for _ in 0..MAX_DECODINGS {
        let again = decode(&decoded);
        if again == decoded {
            break;
        }
        decoded = again;
    }
    let is_unclear = decode(&decoded) != decoded
        || decoded.trim() != decoded
        || decoded.chars().any(char::is_control);
    if is_unclear {
        return None;
    }
    let decoded = decoded.replace('\\', "/");
    let path_length = decoded.find(['?', '#']).unwrap_or(decoded.len());
    let (path, rest) = decoded.split_at(path_length);
    let mut forms = vec![simplified(&decoded), simplified(path) + rest];
    forms.dedup();
    forms.retain(|form| form != uri);
    Some(forms)
}

/// Removes `.`, `..` and empty segments. The authority counts as a segment, because a server may
/// take it for the first folder.
fn simplified(uri: &str) -> String {
    let (start, path) = uri.split_at(start_length(uri));
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let slash = |is_there: bool| if is_there { "/" } else { "" };
    format!(
        "{start}{}{}{}",
        slash(path.starts_with('/')),
        segments.join("/"),
        slash(path.ends_with('/') && !segments.is_empty())
    )
}

/// The length of the scheme with its `:` or `://` (RFC 3986, 3.1). 0 without a scheme.
fn start_length(uri: &str) -> usize {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return 0;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    match (is_scheme, rest.starts_with("//")) {
        (false, _) => 0,
        (true, false) => scheme.len() + ":".len(),
        (true, true) => scheme.len() + "://".len(),
    }
}

/// Decodes the percent-encoding once. Bytes that are not UTF-8 become U+FFFD.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let digits = bytes.get(index + 1..index + 3);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) if bytes[index] == b'%' => {
                decoded.push(code);
                index += 3;
            }
            _ => {
                decoded.push(bytes[index]);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_the_forms_in_which_a_server_may_take_it() {
        for (uri, forms) in [
            ("file:///public/a.txt", &[][..]),
            ("fake://text", &[]),
            ("fake://item/1?q=a b#c", &[]),
            ("https://h/a/", &[]),
            ("mail:inbox", &[]),
            ("plain", &[]),
            ("", &[]),
            ("file:///public/../secret", &["file:///secret"]),
            ("file:///public/%2e%2E/secret", &["file:///secret"]),
            ("file:///public/%252e%252e/secret", &["file:///secret"]),
            ("file:///public/..%2fsecret", &["file:///secret"]),
            ("file:///public/..\\secret", &["file:///secret"]),
            ("file:///%73ecret/key", &["file:///secret/key"]),
            ("file:///public/./a", &["file:///public/a"]),
            ("file:///public//a", &["file:///public/a"]),
            ("file:///../../etc/passwd", &["file:///etc/passwd"]),
            ("file:///a/..", &["file:///"]),
            ("file:///a/public/..?x", &["file:///a?x"]),
            ("file:///a/public/..#x", &["file:///a#x"]),
            ("file:///a?x=/../b", &["file:///b"]),
            ("notes:a/../b", &["notes:b"]),
            ("notes://public/../secret", &["notes://secret"]),
            ("notes://../public/a", &["notes://public/a"]),
            (
                "notes:public/../secret?://",
                &["notes:secret?:/", "notes:secret?://"],
            ),
            ("https://h/100%", &[]),
            ("https://h/%zz%4", &[]),
            ("https://h/%ff", &["https://h/\u{fffd}"]),
            ("https://h/\u{e9}%c3%a9", &["https://h/\u{e9}\u{e9}"]),
        ] {
            let found = other_forms(uri).unwrap_or_else(|| panic!("{uri}"));
            assert_eq!(found, forms, "{uri}");
        }
    }

    #[test]
    fn an_unclear_uri_has_no_forms() {
        let often = format!("file:///a/%{}2e", "25".repeat(MAX_DECODINGS));
        let endless = format!("file:///%{}", "25".repeat(20_000));
        for uri in [
            "file:///public/.\t./secret",
            "file:///public/.\n./secret",
            "file:///public/.%09./secret",
            " file:///public/a",
            "file:///public/a ",
            "file:///public/a%00",
            &often,
            &endless,
        ] {
            assert_eq!(other_forms(uri), None, "{uri}");
        }
    }
}
