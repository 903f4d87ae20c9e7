//! The simplest form of a URI, for comparisons with patterns.

/// Returns the URI with its percent-encoding decoded, with `/` for `\\`, and without `.`, `..` and
/// empty segments in its path (RFC 3986, 6.2.2). Returns `None` if the URI has this form already.
///
/// The form is not a URI that a server understands. It is stricter than RFC 3986, because a server
/// may take its URIs for paths of files.
pub(super) fn simple_uri(uri: &str) -> Option<String> {
    let decoded = decode(uri).replace('\\', "/");
    // The authority counts as a segment: a server may take it for the first folder.
    let start_length = decoded
        .find("://")
        .map(|index| index + "://".len())
        .or_else(|| decoded.find(':').map(|index| index + 1));
    let (start, path) = decoded.split_at(start_length.unwrap_or_default());
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
    let simple = format!(
        "{start}{}{}{}",
        slash(path.starts_with('/')),
        segments.join("/"),
        slash(path.ends_with('/') && !segments.is_empty())
    );
    (simple != uri).then_some(simple)
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
    fn a_uri_is_simplified_as_a_server_may_do_it() {
        for (uri, simple) in [
            ("file:///public/a.txt", None),
            ("fake://text", None),
            ("fake://item/1?q=a b", None),
            ("https://h/a/", None),
            ("mail:inbox", None),
            ("plain", None),
            ("", None),
            ("file:///public/../secret", Some("file:///secret")),
            ("file:///public/%2e%2E/secret", Some("file:///secret")),
            ("file:///public/..%2fsecret", Some("file:///secret")),
            ("file:///public/..\\secret", Some("file:///secret")),
            ("file:///%73ecret/key", Some("file:///secret/key")),
            ("file:///public/./a", Some("file:///public/a")),
            ("file:///public//a", Some("file:///public/a")),
            ("file:///../../etc/passwd", Some("file:///etc/passwd")),
            ("file:///a/..", Some("file:///")),
            ("notes://public/../secret", Some("notes://secret")),
            ("notes://../public/a", Some("notes://public/a")),
            ("notes:a/../b", Some("notes:b")),
            ("https://h/100%", None),
            ("https://h/%zz%4", None),
            ("https://h/%ff", Some("https://h/\u{fffd}")),
            ("https://h/\u{e9}%c3%a9", Some("https://h/\u{e9}\u{e9}")),
        ] {
            assert_eq!(simple_uri(uri).as_deref(), simple, "{uri}");
        }
    }
}
