//! Configurations of Windows programs: UTF-16, byte order marks, CRLF.

use std::fs;

use mainstay_platform::encoding::Encoding;
use mainstay_testkit::home;
use serde_json::{Value, json};

fn text() -> String {
    let program = fake_server::binary();
    let entry = json!({"one": {"command": program, "args": ["ü"], "disabled": true}});
    let text = serde_json::to_string_pretty(&json!({"mcpServers": entry})).expect("JSON");
    format!("{text}\n").replace('\n', "\r\n")
}

/// An edit keeps the encoding, the byte order mark and the line ends.
#[tokio::test]
async fn files_of_windows_are_read_and_edited_in_their_own_way() {
    let marked_text = format!("\u{feff}{}", text()).into_bytes();
    for bytes in [
        Encoding::Utf16Le.encode(&text()),
        Encoding::Utf16Be.encode(&text()),
        marked_text,
        text().into_bytes(),
    ] {
        let home = home!();
        let path = home.file("servers.json", "");
        fs::write(&path, &bytes).expect("written");
        let run = home.run(&["validate", &path]).await;
        assert_eq!(run.code, Some(0), "{run}");
        let program = fake_server::binary();
        let program = program.to_str().expect("UTF-8");
        for arguments in [
            &[
                "add",
                "two",
                "--no-check",
                "--config",
                &path,
                "--",
                program,
                "stdio",
            ][..],
            &["enable", "one", "--config", &path],
            &["disable", "two", "--config", &path],
        ] {
            let run = home.run(arguments).await;
            assert_eq!(run.code, Some(0), "{run}");
        }
        let edited_bytes = fs::read(&path).expect("there");
        assert_eq!(Encoding::detect(&edited_bytes), Encoding::detect(&bytes));
        let edited_bytes = Encoding::decode(edited_bytes).expect("a text");
        assert_eq!(
            edited_bytes.starts_with('\u{feff}'),
            bytes.starts_with(b"\xef\xbb\xbf")
        );
        let text_without_crlf = edited_bytes.replace("\r\n", "");
        assert!(
            !text_without_crlf.contains(['\r', '\n']),
            "{edited_bytes:?}"
        );
        let value: Value =
            serde_json::from_str(edited_bytes.trim_start_matches('\u{feff}')).expect("JSON");
        let servers = &value["mcpServers"];
        assert_eq!(servers["one"]["disabled"], false, "{edited_bytes}");
        assert_eq!(servers["one"]["args"][0], "ü", "{edited_bytes}");
        assert_eq!(servers["two"]["args"][0], "stdio", "{edited_bytes}");
        let list = home.run(&["config", "show", "--config", &path]).await;
        assert!(
            list.code == Some(0) && list.stdout.contains("two"),
            "{list}"
        );
    }
}
