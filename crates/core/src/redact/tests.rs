//! Tests of redaction: texts before and after.

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    config::{
        Broken, ConfigError, HttpLaunch, Launch, NetworkSettings, OAuth, ProxyChoice, Secret,
        ServerConfig, SignIn, StdioLaunch,
    },
    ids::ServerName,
};

fn redactor(defaults: bool, keys: &[&str], patterns: &[&str]) -> Redactor {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let rules = config::Redact {
        defaults,
        keys: owned(keys),
        patterns: owned(patterns),
    };
    Redactor::new(&rules, Instant::now).expect("valid")
}

/// A slow pattern does not block the records.
#[test]
fn a_text_is_hidden_after_the_time_limit() {
    fn late_clock() -> Instant {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        Instant::now() + SEARCH_TIME_LIMIT * CALLS.fetch_add(1, Ordering::Relaxed)
    }
    let rules = config::Redact {
        defaults: false,
        keys: Vec::new(),
        patterns: vec!["key=[^;]*;|key=".to_owned()],
    };
    let redactor = Redactor::new(&rules, late_clock).expect("valid");
    let text = format!("first {} secret", "key=".repeat(1000));
    assert_eq!(
        redactor.redact(&text, None),
        format!("first {UNSEARCHED_NOTICE}")
    );
    let redactor = Redactor::new(&rules, Instant::now).expect("valid");
    let text = "first key=a; second key=b; third";
    let expected = "first [redacted] second [redacted] third";
    assert_eq!(redactor.redact(text, None), expected);
}

#[test]
fn configured_secrets_are_removed_and_other_bytes_stay() {
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
        // A secret value of any type, at any depth.
        (
            r#"{"a":[{"apikey":{"b":[1,2]}}]}"#,
            r#"{"a":[{"apikey":"[redacted]"}]}"#,
        ),
        (
            r#"{"password":1,"password":2}"#,
            r#"{"password":"[redacted]","password":"[redacted]"}"#,
        ),
        // A key with an escape, and in any case.
        (
            r#"{"pass\u0077ord":1}"#,
            r#"{"pass\u0077ord":"[redacted]"}"#,
        ),
        // Matches inside strings, and in their escapes.
        (
            r#"["call 555-1234\n","ghp_ab"]"#,
            r#"["call [redacted]\n","[redacted]"]"#,
        ),
        (r#""gh\u0070_abc""#, r#""[redacted]""#),
        // Tool results often contain JSON in a string.
        (
            r#"{"text":"{\"password\":\"x\",\"n\":1.0}"}"#,
            r#"{"text":"{\"password\":\"[redacted]\",\"n\":1.0}"}"#,
        ),
        // Patterns do not apply to keys and numbers.
        (r#"{"ghp_abc":5551234}"#, r#"{"ghp_abc":5551234}"#),
        (
            r#"{"passwords":1,"text":"password"}"#,
            r#"{"passwords":1,"text":"password"}"#,
        ),
        // Plain text.
        ("token ghp_abc!", "token [redacted]!"),
    ] {
        assert_eq!(redactor.redact(text, None), expected, "{text}");
    }
}

#[test]
fn secrets_in_plain_texts_are_removed_and_other_bytes_stay() {
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
        // A header with several words ends at the end of the line or string.
        (
            "Authorization: ApiKey s3cr3t\nnext",
            "Authorization: ApiKey [redacted]\nnext",
        ),
        (
            "Proxy-Authorization: Custom s3cr3t more",
            "Proxy-Authorization: [redacted]",
        ),
        (
            r#"Authorization: Digest username="me", response="s3cr3t""#,
            "Authorization: Digest [redacted]",
        ),
        (
            "Cookie: a=b; session=s3cr3t\r\nHost: h",
            "Cookie: [redacted]\r\nHost: h",
        ),
        (
            "curl -H 'Cookie: a=b; session=s3cr3t' https://h/x",
            "curl -H 'Cookie: [redacted]' https://h/x",
        ),
        (
            r#"with {"headers":["Authorization: Digest a=\"s3cr3t\", b", 1]}, too"#,
            r#"with {"headers":["Authorization: Digest [redacted]", 1]}, too"#,
        ),
        ("/x?cookie=s3cr3t HTTP/1.1", "/x?cookie=[redacted] HTTP/1.1"),
        // Values in quotes and brackets.
        (
            r#"password: "two words", ok"#,
            r#"password: "[redacted]", ok"#,
        ),
        ("password := 'it \"is\"' ok", "password := '[redacted]' ok"),
        (r#"password: "a \"b\" c" d"#, r#"password: "[redacted]" d"#),
        ("password: \"cut off\nnext", "password: \"[redacted]\nnext"),
        ("password: pässwörd ok", "password: [redacted] ok"),
        (
            r#"{"token": {"value": "a}b"}, "n": 1} ..."#,
            r#"{"token": [redacted], "n": 1} ..."#,
        ),
        ("token: [ab, cd\nnext", "token: [redacted]\nnext"),
        // JSON inside JSON inside text.
        (
            r#"sent {"body":"{\"password\": \"two words\", \"n\": 1}"}!"#,
            r#"sent {"body":"{\"password\": \"[redacted]\", \"n\": 1}"}!"#,
        ),
        (
            r#"sent "{\"a\":\"{\\\"token\\\":\\\"a \\\\\\\"b\\\",\\\"n\\\":1}\"}"."#,
            r#"sent "{\"a\":\"{\\\"token\\\":\\\"[redacted]\\\",\\\"n\\\":1}\"}"."#,
        ),
        // Pairs of a name and a value, and options.
        (
            r#"got [{"name": "Authorization", "value": "Basic s3cr3t"}]."#,
            r#"got [{"name": "Authorization", "value": "[redacted]"}]."#,
        ),
        (
            "got [('X-Api-Key', 's3 cr3t'), ('a', 'b')]",
            "got [('X-Api-Key', '[redacted]'), ('a', 'b')]",
        ),
        (
            r#"got ["token", "password", "name"]"#,
            r#"got ["token", "password", "name"]"#,
        ),
        (
            r#"run ["x", "--api-key", "s3cr3t", "y"]!"#,
            r#"run ["x", "--api-key", "[redacted]", "y"]!"#,
        ),
        (
            "x --password s3cr3t --db-password=\"s3 cr3t\" y",
            "x --password [redacted] --db-password=\"[redacted]\" y",
        ),
        ("x --token --verbose", "x --token --verbose"),
        // XML.
        (
            r#"<a><password>s3 cr3t</password><o:Token type="x">s3cr3t</o:Token></a>"#,
            r#"<a><password>[redacted]</password><o:Token type="x">[redacted]</o:Token></a>"#,
        ),
        (
            "<password/> and <token> x",
            "<password/> and <token>[redacted]",
        ),
        (
            "https://b/x?X-Amz-Credential=s3cr3t&X-Amz-Date=1",
            "https://b/x?X-Amz-Credential=[redacted]",
        ),
        (
            "https://b/x?X-Amz-Signature=s3cr3t",
            "https://b/x?X-Amz-Signature=[redacted]",
        ),
        (
            "https://hooks.slack.com/services/T0/B0/s3cr3t here",
            "https://hooks.slack.com/services/[redacted] here",
        ),
        // Values with plural names, unless they are numbers.
        (
            "passwords: 'a b', apiKeys=x; tokens: [\"a\", \"b\"]",
            "passwords: '[redacted]', apiKeys=[redacted]; tokens: [redacted]",
        ),
        (
            "tokens: 1,200; Tokens = 1.2k, tokens={\"in\": 5}, passwords: none",
            "tokens: 1,200; Tokens = 1.2k, tokens={\"in\": 5}, passwords: none",
        ),
        (
            "max_tokens: unlimited, maxTokens=5 totalTokens=7",
            "max_tokens: unlimited, maxTokens=5 totalTokens=7",
        ),
        // No secrets.
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

/// The default rules need no configuration.
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
        // Pairs of a name and a value, in either order and at any depth.
        (
            r#"[{"name":"Authorization","value":"Basic x"},{"Value":["x"],"Name":"DB_PASSWORD","n":1}]"#,
            r#"[{"name":"Authorization","value":"[redacted]"},{"Value":"[redacted]","Name":"DB_PASSWORD","n":1}]"#,
        ),
        (
            r#"{"header":"X-Api-Key","a":{"name":"b","value":"c"},"value":"x"}"#,
            r#"{"header":"X-Api-Key","a":{"name":"b","value":"c"},"value":"[redacted]"}"#,
        ),
        (
            r#"{"value":{"password":"x"},"key":"token"}"#,
            r#"{"value":"[redacted]","key":"token"}"#,
        ),
        (
            r#"{"h":[["X-Api-Key","x"],["Accept","y"],["token","password","z"],["a password","y"]]}"#,
            r#"{"h":[["X-Api-Key","[redacted]"],["Accept","y"],["token","password","z"],["a password","y"]]}"#,
        ),
        (
            r#"["x","--api-key","y","-password","z","--token","--verbose","--secret=y"]"#,
            r#"["x","--api-key","[redacted]","-password","[redacted]","--token","--verbose","--secret=[redacted]"]"#,
        ),
        // Values with plural names, unless they are numbers.
        (
            r#"{"tokens":["x"],"passwords":{"a":"y"},"secrets":"z","apiKeys":[["k"]]}"#,
            r#"{"tokens":"[redacted]","passwords":"[redacted]","secrets":"[redacted]","apiKeys":"[redacted]"}"#,
        ),
        (
            r#"{"tokens":[1,{"tokens":2,"x":["3"]}],"usage":{"inputTokens":"many","total_tokens":5}}"#,
            r#"{"tokens":[1,{"tokens":2,"x":["3"]}],"usage":{"inputTokens":"many","total_tokens":5}}"#,
        ),
        (
            r#"[{"name":"tokens","value":5},{"name":"tokens","value":"x"},{"value":"x","name":"maxTokens"}]"#,
            r#"[{"name":"tokens","value":5},{"name":"tokens","value":"[redacted]"},{"value":"x","name":"maxTokens"}]"#,
        ),
        // Names that only resemble secret names.
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
        "ASIAIOSFODNN7EXAMPLE",
        "npm_0123456789abcdefghijABCDEFGHIJ012345",
        "hf_abcdefghijABCDEFGHIJabcdefghijABCD",
        "pypi-AgEIcHlwaS5vcmcCJDAwMDAwMDAw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf9-09fvkMFg",
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
    let redactor_off = super::tests::redactor(false, &[], &[]);
    assert!(matches!(
        redactor_off.redact(r#"{"password":"x"}"#, None),
        Cow::Borrowed(_)
    ));
}

/// Deep nesting causes neither recursion nor quadratic time.
#[test]
fn depth_hides_nothing() {
    let redactor = redactor(true, &["k"], &[]);
    let levels = 100_000;
    let nested = |inner: &str| {
        format!(
            "{}{inner}{}",
            r#"{"a":["#.repeat(levels),
            "]}".repeat(levels)
        )
    };
    let (text, expected) = (
        nested(r#"{"k":1,"token":"x"}"#),
        nested(r#"{"k":"[redacted]","token":"[redacted]"}"#),
    );
    assert!(redactor.redact(&text, None) == expected);
    // JSON in strings in strings.
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
    let launch = HttpLaunch {
        url: url.to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
            .collect(),
        ..HttpLaunch::default()
    };
    Secrets::from_config(&ServerConfig::new(name(), Launch::Http(launch))).expect("secrets")
}

#[test]
fn credentials_of_a_source_are_hidden_beside_those_of_the_configuration() {
    let credentials = [
        Secret::new("t0ken-of-today"),
        Secret::new("t0ken-of-before"),
    ];
    let configured = http("https://h/mcp", &[("x-api-key", "k3y-of-the-file")]);
    for (configured, expected) in [
        (Some(&configured), "[redacted] [redacted] [redacted]"),
        (None, "[redacted] [redacted] k3y-of-the-file"),
    ] {
        let secrets = Secrets::with_credentials(configured, &credentials).expect("secrets");
        let hidden = secrets.hide("t0ken-of-today t0ken-of-before k3y-of-the-file");
        assert_eq!(hidden, expected);
    }
    assert!(Secrets::with_credentials(None, []).is_none());
}

#[test]
fn secrets_of_a_login_are_hidden() {
    let launch = HttpLaunch {
        url: "https://h/mcp".to_owned(),
        sign_in: SignIn::OAuth(OAuth {
            client_id: Some("public-client".to_owned()),
            client_secret: Some(Secret::new("cl13nt-s3cret")),
            private_key: Some(Secret::new("pr1vate-k3y")),
            ..OAuth::default()
        }),
        ..HttpLaunch::default()
    };
    let config = ServerConfig::new(name(), Launch::Http(launch));
    let secrets = Secrets::from_config(&config).expect("secrets");
    assert_eq!(
        secrets.hide("public-client cl13nt-s3cret pr1vate-k3y"),
        "public-client [redacted] [redacted]"
    );
}

fn stdio(args: &[&str], env: &[(&str, &str)]) -> Option<Secrets> {
    let launch = StdioLaunch {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
            .collect(),
        ..StdioLaunch::default()
    };
    Secrets::from_config(&ServerConfig::new(name(), Launch::Stdio(launch)))
}

#[test]
fn configured_secrets_are_found_in_every_form() {
    let secrets = http(
        "https://me:p4ssw@h/mcp?api_key=querykey",
        &[
            ("authorization", "Bearer top/secret+token?1"),
            ("x-api-key", "plain"),
        ],
    );
    for text in [
        "no top/secret+token?1 here",
        "no top%2Fsecret%2btoken%3F1 here",
        "no p4ssw here",
        "no querykey here",
        "no plain here",
        // Base64 of `Bearer top/secret+token?1`, of `x:top/secret+token?1`, and of the token alone.
        "no QmVhcmVyIHRvcC9zZWNyZXQrdG9rZW4/MQ== here",
        "no eDp0b3Avc2VjcmV0K3Rva2VuPzE= here",
        "no dG9wL3NlY3JldCt0b2tlbj8x here",
        "no dG9wL3NlY3JldCt0b2tlbj8x here",
        "no 746f702f7365637265742b746f6b656e3f31 here",
    ] {
        let redacted_text = secrets.hide(text);
        assert!(
            redacted_text.contains(HIDDEN)
                && redacted_text.starts_with("no ")
                && redacted_text.ends_with(" here"),
            "{text}: {redacted_text}"
        );
        assert!(
            !redacted_text.contains("c2VjcmV0") && !redacted_text.contains("secret"),
            "{text}: {redacted_text}"
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

/// A proxy's password is found encoded as in the URL, decoded, and in base64.
#[test]
fn the_password_of_a_proxy_is_a_secret_of_the_server() {
    let launch = HttpLaunch {
        url: "https://h".to_owned(),
        network: NetworkSettings {
            proxy: ProxyChoice::Through(Secret::new("http://me:p%40ssw0rd@proxy:3128")),
            ..NetworkSettings::default()
        },
        ..HttpLaunch::default()
    };
    let server = ServerConfig::new(name(), Launch::Http(launch));
    let secrets = Secrets::from_config(&server).expect("secrets");
    // Encoded, decoded, and base64 of `me:p@ssw0rd` as in the header.
    for text in ["p%40ssw0rd", "p@ssw0rd", "bWU6cEBzc3cwcmQ="] {
        let hidden = secrets.hide(text);
        assert!(!hidden.contains(text), "{hidden}");
    }
    assert_eq!(
        secrets.hide("me at http://proxy:3128"),
        "me at http://proxy:3128"
    );
}

#[test]
fn escapes_hide_no_secret() {
    let password = "Tr0ub4dor&3/x\"é\\<𝄞>'z";
    let secrets = stdio(&[], &[("DB_PASSWORD", password)]).expect("a secret");
    let json = json!(password).to_string();
    let escaped_text = &json[1..json.len() - 1];
    let doubly_escaped = json!(escaped_text).to_string();
    for notation in [
        password,
        escaped_text,
        &doubly_escaped[1..doubly_escaped.len() - 1],
        &escaped_text.replace('/', r"\/"),
        &escaped_text
            .replace('&', r"\u0026")
            .replace('<', r"\u003c")
            .replace('>', r"\u003E"),
        &escaped_text
            .replace('é', r"\u00e9")
            .replace('𝄞', r"\ud834\udd1e"),
        r#"Tr0ub4dor\\u00263/x\\\"\\u00E9\\\\\\u003c\\uD834\\uDD1E\\u003e'z"#,
        &password
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;"),
        "Tr0ub4dor%263%2Fx%22%C3%A9%5C%3C%F0%9D%84%9E%3E%27z",
        "Tr0ub4dor&#38;3&sol;x&#0034;é&#x5C;&#x3c;𝄞&#62;&apos;z",
        &password
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<Vec<_>>()
            .concat(),
        &password
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect::<Vec<_>>()
            .concat(),
    ] {
        let redacted_text = secrets
            .hide(&format!("the password is {notation}, it said"))
            .into_owned();
        assert_eq!(
            redacted_text, "the password is [redacted], it said",
            "{notation}"
        );
    }
}

/// An error about a package must name the package.
#[test]
fn names_of_packages_are_not_secret() {
    for arguments in [
        ["-y", "no-such-pkg-zz9qq"],
        ["--from", "mcp-server-x2@1.0.3"],
        ["-m", "server2module"],
        ["--rm", "mcp/server-v2"],
    ] {
        assert_eq!(stdio(&arguments, &[]), None, "{arguments:?}");
    }
    assert!(stdio(&["--password", "hunter2hunter2"], &[]).is_some());
}

/// A long log line is cut in the middle, possibly inside a secret.
#[test]
fn halves_of_a_secret_at_a_cut_are_hidden() {
    let secrets = stdio(&[], &[("DB_PASSWORD", "Sup3rS3cr3tPassw0rd")]).expect("a secret");
    let redacted_text = redact_with(
        "one Sup3rS3c … aaa\ntwo xxx … tPassw0rd b\nthree Sup3rS … Passw0rd c",
        Some(&secrets),
    );
    assert_eq!(
        redacted_text,
        "one [redacted] … aaa\ntwo xxx … [redacted] b\nthree [redacted] … [redacted] c"
    );
    assert_eq!(redact_with("a … b", Some(&secrets)), "a … b");
}

#[test]
fn ordinary_values_of_a_configuration_stay() {
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
    for (text, expected) in [
        (
            "t0ken hush topsecret123 shortone dbpass",
            "[redacted] [redacted] [redacted] [redacted] [redacted]",
        ),
        (
            "abc /home/me2you production 80808080 /etc/key.pem",
            "abc /home/me2you production 80808080 /etc/key.pem",
        ),
    ] {
        assert_eq!(secrets.hide(text), expected);
    }
    assert!(stdio(&["-v"], &[("DEBUG", "true")]).is_none());
    // A part of a long secret is hidden.
    let long_secret: String = (0..400)
        .map(|n: u32| char::from_digit(n * 7 % 36, 36).expect("a digit"))
        .collect();
    let secrets = stdio(&[], &[("PRIVATE_KEY", &long_secret)]).expect("secrets");
    assert!(
        !secrets
            .hide(&long_secret[64..200])
            .contains(&long_secret[64..80])
    );
}

/// A secret of the configuration is hidden anywhere in JSON, also under an innocent name.
#[test]
fn secrets_are_hidden_in_json() {
    let redactor_off = redactor(false, &[], &[]);
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
        assert_eq!(
            redactor_off.redact(text, Some(&secrets)),
            expected,
            "{text}"
        );
    }
}

/// Generates a list of arguments, a pair, or any other value.
fn json_value() -> impl Strategy<Value = Value> {
    let name = || {
        prop_oneof![
            Just("password".to_owned()),
            Just("tokens".to_owned()),
            Just("max_tokens".to_owned()),
            Just("name".to_owned()),
            Just("value".to_owned()),
            "[a-z\"\\\\]{0,4}"
        ]
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[^:=@<,]{0,12}".prop_map(Value::from),
        name().prop_map(Value::from),
        Just(Value::from("--password")),
        Just(Value::from("4096")),
        Just(Value::from(r#"{"password":"x"}"#)),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((name(), inner.clone()), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
            (name(), inner.clone(), any::<bool>()).prop_map(|(name, value, is_first)| {
                let members = [("name", Value::from(name)), ("value", value)];
                let members = members.map(|(key, value)| (key.to_owned(), value));
                let mut members = Vec::from(members);
                if !is_first {
                    members.reverse();
                }
                Value::Object(members.into_iter().collect())
            }),
        ]
    })
}

/// True if the documented rules hide a value with this name.
fn is_hidden(name: &str, value: &Value) -> bool {
    fn has_strings(value: &Value) -> bool {
        match value {
            Value::String(text) => !names::is_number(text),
            Value::Array(elements) => elements.iter().any(has_strings),
            Value::Object(members) => members.values().any(has_strings),
            _ => false,
        }
    }
    match name.trim_start_matches('-') {
        "password" => true,
        "tokens" => has_strings(value),
        _ => false,
    }
}

/// Computes the expected result from the parsed value.
fn expected(value: &Value) -> Value {
    let or_hidden = |is_hidden: bool, value: &Value| {
        if is_hidden {
            HIDDEN.into()
        } else {
            expected(value)
        }
    };
    match value {
        Value::Object(members) => {
            let name = members.get("name").and_then(Value::as_str);
            let pairs = members.iter().map(|(key, value)| {
                let is_value = key == "value" && name.is_some_and(|name| is_hidden(name, value));
                let value = or_hidden(is_value || is_hidden(key, value), value);
                (key.clone(), value)
            });
            Value::Object(pairs.collect())
        }
        Value::Array(elements) => {
            let texts: Vec<Option<&str>> = elements.iter().map(Value::as_str).collect();
            let hides = |index: usize| match *texts {
                [Some(name), Some(_)] if index == 1 && !name.starts_with('-') => {
                    is_hidden(name, &elements[index])
                }
                _ => {
                    let previous_text = index
                        .checked_sub(1)
                        .and_then(|previous_text| texts[previous_text]);
                    previous_text.is_some_and(|option| option.starts_with('-'))
                        && texts[index].is_some_and(|text| !text.starts_with("--"))
                        && is_hidden(previous_text.unwrap_or_default(), &elements[index])
                }
            };
            elements
                .iter()
                .enumerate()
                .map(|(index, element)| or_hidden(hides(index), element))
                .collect()
        }
        Value::String(text) if text == r#"{"password":"x"}"# => {
            r#"{"password":"[redacted]"}"#.into()
        }
        _ => value.clone(),
    }
}

/// Generates a name and its value in one of many notations. `S` stands for the secret.
fn notation() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("Authorization"),
        Just("cookie"),
        Just("password"),
        Just("api_keys"),
        Just("X-Access-Token")
    ];
    let opening = prop::sample::select(vec![
        "N: \"S x\"",
        "N='x S'",
        "{\"a\":1,\"N\" : \"x, S\"} or so",
        "{\"b\":\"{\\\"N\\\":\\\"x S\\\"}\"} or so",
        "--N S",
        "--N \"x S\"",
        "--N=S",
        "<N>x S</N>",
        "<o:N a=\"b\">x S</o:N>",
        "[[\"N\", \"x S\"]] or so",
        "[\"--N\", \"x S\", 1] or so",
        "[{\"name\": \"N\", \"value\": \"x S\"}] or so",
        "N => S",
        "N: {\"x\": [\"}\", \"S\"]}",
        "?N=S",
    ]);
    let filler = || "[ -MO-RT-~\n]{0,8}\n";
    (name, opening, filler(), filler()).prop_map(|(name, opening, before, after)| {
        format!("{before}{}{after}", opening.replace('N', name))
    })
}

proptest! {
    #[test]
    fn redacted_json_is_json_with_other_values(value in json_value(), pretty in any::<bool>()) {
        let redactor = redactor(true, &[], &[]);
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let redacted_text = redactor.redact(&text, None);
        let actual: Value = serde_json::from_str(&redacted_text).expect("JSON");
        prop_assert_eq!(actual, expected(&value));
    }

    /// A secret is found in plain text, in a JSON string, and in JSON inside a JSON string.
    #[test]
    fn a_secret_is_found_in_every_notation(
        text in notation(),
        secret in "[a-z][0-9a-z_/+.-]{8,20}",
        depth in 0_usize..3,
    ) {
        let secret = format!("sEcR{secret}");
        let mut text = text.replace('S', &secret);
        prop_assert!(!redact(&text).contains(&secret), "{text}: {}", redact(&text));
        for _ in 0..depth {
            text = json!({"n": 1, "text": text}).to_string();
        }
        let redacted_text = redactor(true, &[], &[]).redact(&text, None).into_owned();
        prop_assert!(!redacted_text.contains(&secret), "{text}: {redacted_text}");
    }

    /// The result is not much longer than the text. No text causes a panic.
    #[test]
    fn any_text_is_redacted_without_a_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "token", "tokens", "Authorization", "cookie", "bearer ", "--", "-", ":", "=", ",", "\"", "'", "\\",
            "\\\"", "[", "]", "{", "}", "(", ")", "<", ">", "</", "value", "name", " ", "\n", "ä", "1", "x",
            "https://", "@",
        ]), 0..40),
    ) {
        let text = words.concat();
        let redacted_once = redact(&text).into_owned();
        prop_assert!(redacted_once.len() <= text.len() + words.len() * HIDDEN.len());
        let _ = redactor(true, &["name"], &[]).redact(&text, None);
    }
}

/// Mainstay's own errors contain names of secrets, but no secrets.
#[test]
fn findings_about_the_configuration_stay_readable() {
    let finding = ConfigError {
        path: "mcpServers.x.headers.Authorization".to_owned(),
        message: "variable \"TRACKER_TOKEN\" is not set".to_owned(),
        hint: Some("set it, or give a default: ${TRACKER_TOKEN:-…}".to_owned()),
        position: None,
        awaits_file: false,
    };
    let message = finding.to_string();
    let broken_entry = Broken {
        problem: finding,
        transport: "http",
    };
    let secrets = Secrets::from_config(&ServerConfig::new(name(), Launch::Broken(broken_entry)));
    let redactor = redactor(true, &[], &[]);
    for text in [
        message.clone(),
        format!("cannot start: {message}"),
        format!("Server 'x' is not connected: {message}; and again: {message}"),
    ] {
        assert_eq!(redact_with(&text, secrets.as_ref()), text);
        assert_eq!(redactor.redact(&text, secrets.as_ref()), text);
        assert_ne!(
            redact_with(&text, None),
            text,
            "a server's text is not trusted"
        );
    }
    // Text around such an error is redacted as usual.
    let quoted_message = format!("token=abcdef {message} password: hunter2");
    let expected = format!("token=[redacted] {message} password: [redacted]");
    assert_eq!(redact_with(&quoted_message, secrets.as_ref()), expected);
    assert_eq!(redactor.redact(&quoted_message, secrets.as_ref()), expected);
}
