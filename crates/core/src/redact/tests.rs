//! What is taken out, and what stays.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    config::{HttpLaunch, HttpTransport, Launch, Secret, ServerConfig, StdioLaunch},
    ids::ServerName,
};

fn redactor(defaults: bool, keys: &[&str], patterns: &[&str]) -> Redactor {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let rules = config::Redact {
        defaults,
        keys: own(keys),
        patterns: own(patterns),
    };
    Redactor::new(&rules).expect("valid")
}

#[test]
fn what_is_named_goes_and_the_rest_keeps_its_bytes() {
    let redactor = redactor(
        false,
        &["password", "apiKey"],
        &["ghp_[a-z]+", r"\d{3}-\d{4}"],
    );
    for (text, expected) in [
        ("{}", "{}"),
        (
            r#"{ "n": 1.50, "Password" : "x", "z":[1e400] }"#,
            r#"{ "n": 1.50, "Password" : "[redacted]", "z":[1e400] }"#,
        ),
        // Whole values, whatever they are, and at any depth.
        (
            r#"{"a":[{"apikey":{"b":[1,2]}}]}"#,
            r#"{"a":[{"apikey":"[redacted]"}]}"#,
        ),
        (
            r#"{"password":1,"password":2}"#,
            r#"{"password":"[redacted]","password":"[redacted]"}"#,
        ),
        // However the key is spelt.
        (
            r#"{"pass\u0077ord":1}"#,
            r#"{"pass\u0077ord":"[redacted]"}"#,
        ),
        // In strings, escapes included.
        (
            r#"["call 555-1234\n","ghp_ab"]"#,
            r#"["call [redacted]\n","[redacted]"]"#,
        ),
        (r#""gh\u0070_abc""#, r#""[redacted]""#),
        // Results of tools are JSON in a string.
        (
            r#"{"text":"{\"password\":\"x\",\"n\":1.0}"}"#,
            r#"{"text":"{\"password\":\"[redacted]\",\"n\":1.0}"}"#,
        ),
        // The names of members are no values, and numbers no strings.
        (r#"{"ghp_abc":5551234}"#, r#"{"ghp_abc":5551234}"#),
        (
            r#"{"passwords":1,"text":"password"}"#,
            r#"{"passwords":1,"text":"password"}"#,
        ),
        // No JSON.
        ("token ghp_abc!", "token [redacted]!"),
    ] {
        assert_eq!(redactor.redact(text, None), expected, "{text}");
    }
}

#[test]
fn secrets_in_plain_texts_go_and_the_rest_stays() {
    for (text, expected) in [
        ("Bearer xyz", "Bearer [redacted]"),
        ("got bearer  a.b-c_d/e=, ok", "got bearer  [redacted], ok"),
        (
            "Authorization: Basic dXNlcg==",
            "Authorization: Basic [redacted]",
        ),
        ("authorization=abc", "authorization=[redacted]"),
        (
            r#"{"Authorization": "Bearer a1", "x": 1}"#,
            r#"{"Authorization": "Bearer [redacted]", "x": 1}"#,
        ),
        (
            r#"{"access_token":"s3cr3t","n":2}"#,
            r#"{"access_token":"[redacted]","n":2}"#,
        ),
        ("GET /x?token=abc;y=1", "GET /x?token=[redacted];y=1"),
        ("X-Api-Key: k1\nnext", "X-Api-Key: [redacted]\nnext"),
        ("GITHUB_TOKEN='ghp_1'", "GITHUB_TOKEN='[redacted]'"),
        ("password = geheim", "password = [redacted]"),
        // Nothing to hide.
        (
            "max_tokens: 5, token count 7",
            "max_tokens: 5, token count 7",
        ),
        ("a forbearer says grüß dich", "a forbearer says grüß dich"),
        ("Authorization is needed", "Authorization is needed"),
    ] {
        assert_eq!(redact(text), expected);
    }
}

/// Without a word in the configuration.
#[test]
fn secrets_are_recognised_by_name_and_form() {
    let redactor = redactor(true, &[], &[]);
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl";
    for (text, expected) in [
        (
            r#"{"Authorization":"Basic eDp5","n":1.0}"#,
            r#"{"Authorization":"[redacted]","n":1.0}"#,
        ),
        (
            r#"{"access_token":"a","client-secret":["b"],"apiKey":{"c":1}}"#,
            r#"{"access_token":"[redacted]","client-secret":"[redacted]","apiKey":"[redacted]"}"#,
        ),
        (
            r#"{"db":{"PASSWORD":4711}}"#,
            r#"{"db":{"PASSWORD":"[redacted]"}}"#,
        ),
        (
            r#"{"pass\u0077ord":1}"#,
            r#"{"pass\u0077ord":"[redacted]"}"#,
        ),
        (
            r#"{"half":"\ud800","password":"x"}"#,
            r#"{"half":"\ud800","password":"[redacted]"}"#,
        ),
        (
            r#"{"text":"Authorization: Bearer x\nok"}"#,
            r#"{"text":"Authorization: Bearer [redacted]\nok"}"#,
        ),
        (
            r#"{"text":"{\"token\":\"x\",\"n\":1.0}"}"#,
            r#"{"text":"{\"token\":\"[redacted]\",\"n\":1.0}"}"#,
        ),
        (
            r#"["postgres://me:hush@db/x"]"#,
            r#"["postgres://me:[redacted]@db/x"]"#,
        ),
        // What only sounds like it.
        (
            r#"{"max_tokens":5,"nextPageToken":"x","tokenizer":"y","secretary":"z","keys":["k"]}"#,
            r#"{"max_tokens":5,"nextPageToken":"x","tokenizer":"y","secretary":"z","keys":["k"]}"#,
        ),
        (r#"{"url":"https://h/a@b"}"#, r#"{"url":"https://h/a@b"}"#),
    ] {
        assert_eq!(redactor.redact(text, None), expected, "{text}");
    }
    for secret in [
        jwt,
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-1234567890-abcdef",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ] {
        let text = json!({"text": format!("it is {secret} here")}).to_string();
        assert_eq!(
            redactor.redact(&text, None),
            r#"{"text":"it is [redacted] here"}"#,
            "{secret}"
        );
    }
    let off = super::tests::redactor(false, &[], &[]);
    assert!(matches!(
        off.redact(r#"{"password":"x"}"#, None),
        Cow::Borrowed(_)
    ));
}

/// However deep: nothing recurses, and nothing is read once for each level.
#[test]
fn depth_hides_nothing() {
    let redactor = redactor(true, &["k"], &[]);
    let levels = 100_000;
    let deep = |inside: &str| {
        format!(
            "{}{inside}{}",
            r#"{"a":["#.repeat(levels),
            "]}".repeat(levels)
        )
    };
    let (text, expected) = (
        deep(r#"{"k":1,"token":"x"}"#),
        deep(r#"{"k":"[redacted]","token":"[redacted]"}"#),
    );
    assert!(redactor.redact(&text, None) == expected);
    // As a string in a string in a string, the innermost of which is taken for plain text.
    let mut text = r#"{"token":"s3cr3t"}"#.to_owned();
    for _ in 0..8 {
        text = json!({ "text": text }).to_string();
    }
    assert!(!redactor.redact(&text, None).contains("s3cr3t"), "{text}");
}

fn name() -> ServerName {
    ServerName::new("x").expect("a name")
}

fn http(url: &str, headers: &[(&str, &str)]) -> Secrets {
    let headers = headers.iter();
    let launch = HttpLaunch {
        url: url.to_owned(),
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
            .collect(),
        transport: HttpTransport::Detect,
    };
    Secrets::of(&ServerConfig::new(name(), Launch::Http(launch))).expect("secrets")
}

fn stdio(args: &[&str], env: &[(&str, &str)]) -> Option<Secrets> {
    let launch = StdioLaunch {
        args: args.iter().map(|it| (*it).to_owned()).collect(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
            .collect(),
        ..StdioLaunch::default()
    };
    Secrets::of(&ServerConfig::new(name(), Launch::Stdio(launch)))
}

#[test]
fn the_configurations_own_secrets_are_found_in_every_form() {
    let secrets = http(
        "https://me:p4ssw@h/mcp?api_key=querykey",
        &[
            ("authorization", "Bearer top/secret+token?1"),
            ("x-api-key", "plain"),
        ],
    );
    for said in [
        "no top/secret+token?1 here",
        "no top%2Fsecret%2btoken%3F1 here",
        "no p4ssw here",
        "no querykey here",
        "no plain here",
        // Base64 of `Bearer top/secret+token?1`, of `x:top/secret+token?1`, and URL-safe.
        "no QmVhcmVyIHRvcC9zZWNyZXQrdG9rZW4/MQ== here",
        "no eDp0b3Avc2VjcmV0K3Rva2VuPzE= here",
        "no dG9wL3NlY3JldCt0b2tlbj8x here",
        "no dG9wL3NlY3JldCt0b2tlbj8x here",
        "no 746f702f7365637265742b746f6b656e3f31 here",
    ] {
        let shown = secrets.hide(said);
        assert!(
            shown.contains(HIDDEN) && shown.starts_with("no ") && shown.ends_with(" here"),
            "{said}: {shown}"
        );
        assert!(
            !shown.contains("c2VjcmV0") && !shown.contains("secret"),
            "{said}: {shown}"
        );
    }
    assert!(matches!(
        secrets.hide("connection refused"),
        Cow::Borrowed(_)
    ));
    let basic = http("http://h", &[("authorization", "Basic bWU6aHVzaGh1c2g=")]);
    assert_eq!(
        basic.hide("user me, password hushhush"),
        "user me, password [redacted]"
    );
}

#[test]
fn what_is_no_secret_of_a_configuration_stays() {
    let secrets = stdio(
        &[
            "--token=t0ken",
            "--key-file",
            "/etc/key.pem",
            "--secret",
            "hush",
        ],
        &[
            ("FOO", "topsecret123"),
            ("API_KEY", "shortone"),
            ("PIN_TOKEN", "abc"),
            ("HOME", "/home/me2you"),
            ("NODE_ENV", "production"),
            ("PORT", "80808080"),
            ("DATABASE_URL", "postgres://me:dbpass@h/db"),
        ],
    )
    .expect("secrets");
    for (said, expected) in [
        (
            "t0ken hush topsecret123 shortone dbpass",
            "[redacted] [redacted] [redacted] [redacted] [redacted]",
        ),
        (
            "abc /home/me2you production 80808080 /etc/key.pem",
            "abc /home/me2you production 80808080 /etc/key.pem",
        ),
    ] {
        assert_eq!(secrets.hide(said), expected);
    }
    assert!(stdio(&["-v"], &[("DEBUG", "true")]).is_none());
    // A long one is found by its parts.
    let long: String = (0..400)
        .map(|n: u32| char::from_digit(n * 7 % 36, 36).expect("a digit"))
        .collect();
    let secrets = stdio(&[], &[("PRIVATE_KEY", &long)]).expect("secrets");
    assert!(!secrets.hide(&long[64..200]).contains(&long[64..80]));
}

/// In JSON they are hidden wherever they stand, under whatever name.
#[test]
fn secrets_are_hidden_in_json() {
    let off = redactor(false, &[], &[]);
    let secrets = http("http://h", &[("authorization", "Bearer topsecret/1")]);
    for (text, expected) in [
        (
            r#"{"e":"got topsecret\/1","n":1.0}"#,
            r#"{"e":"got [redacted]","n":1.0}"#,
        ),
        (r#"{"topsecret/1":[2]}"#, r#"{"[redacted]":[2]}"#),
        (
            r#"["{\"a\":\"topsecret/1\"}"]"#,
            r#"["{\"a\":\"[redacted]\"}"]"#,
        ),
        ("no topsecret/1 in words", "no [redacted] in words"),
    ] {
        assert_eq!(off.redact(text, Some(&secrets)), expected, "{text}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("password".to_owned()),
        Just("token".to_owned()),
        "[a-z\"\\\\]{0,4}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(Value::from(r#"{"token":"x"}"#)),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The same by a reader that builds the value.
fn expected(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(key, value)| {
                    let hidden = matches!(&**key, "password" | "token");
                    let value = if hidden {
                        HIDDEN.into()
                    } else {
                        expected(value)
                    };
                    (key.clone(), value)
                })
                .collect(),
        ),
        Value::Array(elements) => elements.iter().map(expected).collect(),
        Value::String(text) if text == r#"{"token":"x"}"# => r#"{"token":"[redacted]"}"#.into(),
        _ => value.clone(),
    }
}

proptest! {
    #[test]
    fn redacted_json_is_json_with_other_values(value in json_value(), pretty in any::<bool>()) {
        let redactor = redactor(false, &["password", "token"], &[]);
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let redacted = redactor.redact(&text, None);
        let read: Value = serde_json::from_str(&redacted).expect("JSON");
        prop_assert_eq!(read, expected(&value));
    }
}
