//! The page that a browser shows after a login.

use mainstay_core::ids::ServerName;

/// Headers of the page. The page loads nothing, and does not leak its URL, which contains a code.
pub const PAGE_HEADERS: [(&str, &str); 5] = [
    ("content-type", "text/html; charset=utf-8"),
    (
        "content-security-policy",
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
];

/// The page after a successful login, or after a failed one with the reason.
pub fn landing_page(outcome: &Result<ServerName, String>) -> String {
    let (title, text) = match outcome {
        Ok(server) => (
            "Logged in",
            format!("Mainstay is logged in to {server}. You can close this page."),
        ),
        Err(reason) => (
            "Not logged in",
            format!("The login has failed: {reason}. You can close this page and try again."),
        ),
    };
    let text = escape(&text);
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} - Mainstay</title>\
         <link rel=\"icon\" href=\"data:,\">\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem;\
         color-scheme:light dark}}</style><h1>{title}</h1><p>{text}</p></html>\n"
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_reasons_as_text() {
        let page = landing_page(&Err("<script>alert(1)</script> & more".to_owned()));
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more"),
            "{page}"
        );
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn a_page_names_the_server() {
        let server = ServerName::new("files").expect("a name");
        assert!(landing_page(&Ok(server)).contains("logged in to files"));
    }
}
