//! Tests that turn the answers of a registry into commands and URLs.

mod answers;

use mainstay_install::{
    command::recipe,
    listing::{self, Server},
    offer::{Offer, OfferKind, offers},
    question::{self, Answers},
    recipe::Recipe,
};
use serde_json::{Value, json};

use answers::answers;

fn server(fields: &Value) -> Server {
    let mut whole = json!({"name": "io.github.a/b", "description": "it", "version": "1.0.0"});
    for (key, value) in fields.as_object().expect("an object") {
        whole[key] = value.clone();
    }
    listing::one(&whole.to_string(), "io.github.a/b")
        .expect("read")
        .server
}

fn package(fields: &Value) -> Server {
    let mut package = json!({"registryType": "npm", "identifier": "thing", "version": "1.2.3", "transport": {"type": "stdio"}});
    for (key, value) in fields.as_object().expect("an object") {
        package[key] = value.clone();
    }
    server(&json!({"packages": [package]}))
}

fn offered(server: &Server) -> Offer {
    let (offers, unusable) = offers(server, |_| true);
    offers
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("{unusable:?}"))
}

/// The command line of a package, or the reason why there is none.
fn line(fields: &Value, values: &[(&str, &str)]) -> String {
    let server = package(fields);
    let (offers, unusable) = offers(&server, |_| true);
    let Some(offer) = offers.first() else {
        return unusable[0].to_string();
    };
    let values = answers(values);
    if let Err(error) = question::check(&offer.questions, &values) {
        return error.to_string();
    }
    let Recipe::Command {
        command, args, env, ..
    } = recipe(offer, &values).expect("a recipe")
    else {
        panic!("a command");
    };
    let variables = env
        .iter()
        .map(|(name, text)| format!("{name}={}", text.value));
    let words = std::iter::once(&command)
        .chain(&args)
        .map(|word| word.value.clone());
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

#[test]
fn packages_are_run_by_their_runtimes() {
    for (fields, expected) in [
        (json!({}), "npx -y thing@1.2.3"),
        (json!({"identifier": "@a/b.c_d"}), "npx -y @a/b.c_d@1.2.3"),
        (json!({"runtimeHint": "bunx"}), "bunx thing@1.2.3"),
        (
            json!({"runtimeArguments": [{"type": "named", "name": "-y"}]}),
            "npx -y thing@1.2.3",
        ),
        (
            json!({"runtimeArguments": [{"type": "named", "name": "-y", "isRequired": true}]}),
            "npx -y thing@1.2.3",
        ),
        (json!({"registryType": "pypi"}), "uvx thing@1.2.3"),
        (
            json!({"registryType": "pypi", "runtimeHint": "pipx"}),
            "pipx run thing==1.2.3",
        ),
        (
            json!({"registryType": "pypi", "runtimeArguments": [{"type": "named", "name": "--from", "value": "thing==1.2.3"}]}),
            "uvx --from thing==1.2.3 thing",
        ),
        (
            json!({"registryType": "oci"}),
            "docker run -i --rm thing:1.2.3",
        ),
        (
            json!({"registryType": "oci", "identifier": "ghcr.io/a/b:4"}),
            "docker run -i --rm ghcr.io/a/b:4",
        ),
        (
            json!({"registryType": "oci", "identifier": "host:5000/b"}),
            "docker run -i --rm host:5000/b:1.2.3",
        ),
        (
            json!({"registryType": "oci", "runtimeHint": "podman", "environmentVariables": [{"name": "KEY", "value": "v"}]}),
            "KEY=v podman run -i --rm -e KEY thing:1.2.3",
        ),
        (
            json!({"registryType": "oci", "runtimeArguments": [
                {"type": "positional", "value": "run"}, {"type": "named", "name": "--network", "value": "host"},
                {"type": "named", "name": "--rm", "value": ""}]}),
            "docker run -i --network host --rm thing:1.2.3",
        ),
        (
            json!({"registryType": "nuget", "packageArguments": [{"type": "positional", "value": "mcp"}]}),
            "dnx --yes thing@1.2.3 -- mcp",
        ),
    ] {
        assert_eq!(line(&fields, &[]), expected, "{fields}");
    }
}

#[test]
fn what_could_be_an_injection_is_no_offer() {
    for fields in [
        json!({"identifier": "--version"}),
        json!({"identifier": "-e"}),
        json!({"identifier": "a b"}),
        json!({"identifier": "a;rm -rf /"}),
        json!({"identifier": "$(id)"}),
        json!({"identifier": "a@2"}),
        json!({"identifier": "git+https://x"}),
        json!({"identifier": "file:../x"}),
        json!({"identifier": "../x"}),
        json!({"identifier": "@a"}),
        json!({"identifier": "@-a/b"}),
        json!({"identifier": ""}),
        json!({"identifier": "x".repeat(1000)}),
        json!({"identifier": "\u{1b}[2J"}),
        json!({"version": "-1"}),
        json!({"version": "^1.0"}),
        json!({"version": "1 --call id"}),
        json!({"registryType": "pypi", "identifier": "a[x]"}),
        json!({"registryType": "oci", "identifier": "--privileged"}),
        json!({"registryType": "oci", "identifier": "a b"}),
        json!({"registryType": "sh"}),
        json!({"registryBaseUrl": "https://evil.example"}),
        json!({"registryType": "mcpb", "identifier": "https://a/b.mcpb"}),
        json!({"registryType": "mcpb", "identifier": "file:///x.mcpb", "fileSha256": "a".repeat(64)}),
        json!({"transport": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp"}}),
        json!({"environmentVariables": [{"name": "A B"}]}),
        json!({"environmentVariables": [{"name": "A=B"}]}),
        json!({"environmentVariables": [{}]}),
        json!({"packageArguments": [{"type": "named", "name": "x"}]}),
        json!({"packageArguments": [{"type": "named", "name": "--x --y"}]}),
        json!({"packageArguments": [{"type": "other", "name": "--x"}]}),
        json!({"packageArguments": vec![json!({"type": "positional", "valueHint": "x"}); 1]
            .into_iter().chain((0..300).map(|number| json!({"type": "positional", "valueHint": number.to_string()}))).collect::<Vec<_>>()}),
    ] {
        let server = package(&fields);
        let (offers, unusable) = offers(&server, |_| true);
        assert!(offers.is_empty(), "{fields}: {offers:?}");
        assert_eq!(unusable.len(), 1, "{fields}");
    }
}

/// The publisher writes the hint, so a hint may only name a program that is known to run such packages.
#[test]
fn unknown_runtimes_are_not_run() {
    for hint in ["sh", "/bin/sh", "node", "npx;id", "docker"] {
        let offer = offered(&package(&json!({"runtimeHint": hint})));
        assert_eq!(offer.runtime, "npx", "{hint}");
        assert!(
            offer.notes[0].contains("not known to run npm"),
            "{:?}",
            offer.notes
        );
    }
}

/// Another program may interpret the arguments differently: `npx`, like a shell, runs the text after `-c`.
#[test]
fn arguments_for_another_program_are_left_out() {
    let shell = json!([{"type": "named", "name": "-c", "value": "touch /tmp/x"}]);
    for hint in ["bash", "node"] {
        let fields = json!({"runtimeHint": hint, "runtimeArguments": shell});
        assert_eq!(line(&fields, &[]), "npx -y thing@1.2.3", "{hint}");
        let notes = offered(&package(&fields)).notes;
        let words = "the publisher's arguments for another program are not given to npx";
        assert!(notes.iter().any(|note| note == words), "{notes:?}");
    }
    let hinted = json!({"runtimeHint": "npx", "runtimeArguments": [{"type": "positional", "value": "--no-audit"}]});
    assert_eq!(line(&hinted, &[]), "npx -y --no-audit thing@1.2.3");
}

/// The values that a person gives.
type Given = &'static [(&'static str, &'static str)];

#[test]
fn arguments_take_their_forms() {
    let with_argument = |argument: Value| json!({"packageArguments": [argument]});
    let cases: &[(Value, Given, &str)] = &[
        (
            json!({"type": "positional", "value": "a b; c"}),
            &[],
            " a b; c",
        ),
        (json!({"type": "positional", "valueHint": "dir"}), &[], ""),
        (
            json!({"type": "positional", "valueHint": "dir"}),
            &[("dir", "/x y")],
            " /x y",
        ),
        (
            json!({"type": "positional", "valueHint": "dir", "isRepeated": true}),
            &[("dir", "a"), ("dir", "b")],
            " a b",
        ),
        (
            json!({"type": "positional", "valueHint": "dir"}),
            &[("dir", "a"), ("dir", "b")],
            "dir takes one value",
        ),
        (
            json!({"type": "positional", "valueHint": "dir"}),
            &[("dri", "a")],
            "dri is not asked for",
        ),
        (
            json!({"type": "positional", "valueHint": "n", "default": 7}),
            &[],
            " 7",
        ),
        (
            json!({"type": "named", "name": "--port", "default": "1"}),
            &[],
            " --port 1",
        ),
        (
            json!({"type": "named", "name": "--port", "default": "1"}),
            &[("port", "2")],
            " --port 2",
        ),
        (
            json!({"type": "named", "name": "--port", "format": "number"}),
            &[("port", "x")],
            "port must be a number",
        ),
        (
            json!({"type": "named", "name": "--x", "isRepeated": true, "placeholder": "p"}),
            &[("x", "a"), ("x", "b")],
            " --x a --x b",
        ),
        (
            json!({"type": "named", "name": "--v", "format": "boolean"}),
            &[("v", "true")],
            " --v",
        ),
        (
            json!({"type": "named", "name": "--v", "format": "boolean"}),
            &[("v", "false")],
            "",
        ),
        (
            json!({"type": "named", "name": "--v", "format": "boolean"}),
            &[("v", "x")],
            "v must be true or false",
        ),
        (
            json!({"type": "named", "name": "--m", "choices": ["a", "b"]}),
            &[("m", "c")],
            "m must be one of: a, b",
        ),
        (
            json!({"type": "named", "name": "--m", "choices": ["a", "b"]}),
            &[("m", "b")],
            " --m b",
        ),
        (
            json!({"type": "named", "name": "--mount", "value": "src={src},dst={dst},{other}", "isRepeated": true,
                "variables": {"src": {"isRequired": true}, "dst": {"default": "/data"}}}),
            &[("src", "/a"), ("src", "/b")],
            " --mount src=/a,dst=/data,{other} --mount src=/b,dst=/data,{other}",
        ),
        (
            json!({"type": "named", "name": "--mount", "value": "src={src}", "variables": {"src": {}}}),
            &[],
            "",
        ),
        // References in a publisher's text are escaped, and references in a person's answers are kept.
        (
            json!({"type": "positional", "value": "${file:/etc/passwd}"}),
            &[],
            " $${file:/etc/passwd}",
        ),
        (
            json!({"type": "positional", "valueHint": "k", "default": "${HOME}"}),
            &[],
            " $${HOME}",
        ),
        (
            json!({"type": "positional", "valueHint": "k"}),
            &[("k", "${KEY}")],
            " ${KEY}",
        ),
        (
            json!({"type": "positional", "value": "${v}", "variables": {"v": {"default": "{file:/x}"}}}),
            &[],
            " $${file:/x}",
        ),
    ];
    for (argument, answers, expected) in cases {
        let expected = match expected {
            words if words.starts_with(' ') || words.is_empty() => {
                format!("npx -y thing@1.2.3{words}")
            }
            words => (*words).to_owned(),
        };
        assert_eq!(
            line(&with_argument(argument.clone()), answers),
            expected,
            "{argument}"
        );
    }
}

#[test]
fn required_variables_are_questions_and_secrets_are_hidden() {
    let server = package(&json!({"environmentVariables": [
        {"name": "KEY", "description": "a key", "isRequired": true, "isSecret": true},
        {"name": "MODE", "choices": ["a", "b"], "default": "a"},
        {"name": "URL", "value": "https://{host}/", "variables": {"host": {"isRequired": true}}},
        {"name": "OPTIONAL"},
    ]}));
    let offer = offered(&server);
    let mut answers = Answers::new();
    let open = question::open(&offer.questions, &answers);
    let open: Vec<_> = open
        .iter()
        .map(|question| (question.key.as_str(), question.secret))
        .collect();
    assert_eq!(open, [("KEY", true), ("host", false)]);
    answers.insert("KEY".to_owned(), vec!["s3cret".to_owned()]);
    answers.insert("host".to_owned(), vec!["h".to_owned()]);
    let Recipe::Command { env, .. } = recipe(&offer, &answers).expect("a recipe") else {
        panic!("a command");
    };
    let env: Vec<_> = env
        .iter()
        .map(|(name, text)| (name.as_str(), text.value.as_str(), text.masked()))
        .collect();
    assert_eq!(
        env,
        [
            ("KEY", "s3cret", "***"),
            ("MODE", "a", "a"),
            ("URL", "https://h/", "https://h/")
        ]
    );
}

#[test]
fn remotes_have_variables_and_headers() {
    let server = server(&json!({"remotes": [{
        "type": "streamable-http",
        "url": "https://{tenant}.example.com/{unknown}/mcp",
        "variables": {"tenant": {"isRequired": true}, "unused": {"isRequired": true}},
        "headers": [
            {"name": "Authorization", "value": "Bearer {token}", "isSecret": true, "variables": {"token": {"isRequired": true, "isSecret": true}}},
            {"name": "X-Mode", "default": "fast"},
            {"name": "X-File", "value": "${file:/etc/passwd}"},
        ],
    }, {"type": "sse", "url": "https://x/sse"}]}));
    let (all, unusable) = offers(&server, |_| false);
    assert!(unusable.is_empty() && all.len() == 2);
    let mut answers = Answers::new();
    answers.insert("tenant".to_owned(), vec!["me".to_owned()]);
    answers.insert("token".to_owned(), vec!["t0ken".to_owned()]);
    question::check(&all[0].questions, &answers).expect("asked for");
    assert!(question::open(&all[0].questions, &answers).is_empty());
    let entry = recipe(&all[0], &answers).expect("a recipe").entry();
    assert_eq!(
        Value::Object(entry),
        json!({
            "url": "https://me.example.com/{unknown}/mcp",
            "transport": "http",
            "headers": {"Authorization": "Bearer t0ken", "X-Mode": "fast", "X-File": "$${file:/etc/passwd}"},
        })
    );
    let entry = recipe(&all[1], &Answers::new()).expect("a recipe").entry();
    assert_eq!(
        Value::Object(entry),
        json!({"url": "https://x/sse", "transport": "sse"})
    );
}

#[test]
fn hostile_remotes_are_no_offers() {
    for remote in [
        json!({"type": "streamable-http", "url": "file:///etc/passwd"}),
        json!({"type": "streamable-http", "url": "{scheme}://x"}),
        json!({"type": "streamable-http"}),
        json!({"type": "stdio", "url": "https://x"}),
        json!({"type": "sse", "url": "https://x", "headers": [{"name": "A: b\r\nC"}]}),
        json!({"type": "sse", "url": "https://x", "headers": [{"name": ""}]}),
    ] {
        let (offers, _) = offers(&server(&json!({"remotes": [remote]})), |_| true);
        assert!(offers.is_empty(), "{remote}");
    }
}

#[test]
fn the_best_that_can_run_here_comes_first() {
    let package_of = |kind: &str, identifier: &str| json!({"registryType": kind, "identifier": identifier, "version": "1", "transport": {"type": "stdio"}});
    let server = server(&json!({
        "packages": [package_of("oci", "image"), package_of("pypi", "thing"), package_of("npm", "thing")],
        "remotes": [{"type": "sse", "url": "https://x"}],
    }));
    let kinds = |has: &dyn Fn(&str) -> bool| -> Vec<_> {
        offers(&server, has)
            .0
            .iter()
            .map(|offer| (offer.kind, offer.can_run))
            .collect()
    };
    assert_eq!(
        kinds(&|runtime| runtime == "podman" || runtime == "uvx"),
        [
            (OfferKind::Pypi, true),
            (OfferKind::Remote, true),
            (OfferKind::Oci, true),
            (OfferKind::Npm, false)
        ]
    );
    assert_eq!(kinds(&|_| false)[0], (OfferKind::Remote, true));
    let (offers, _) = offers(&server, |runtime| runtime == "podman");
    let oci = offers
        .iter()
        .find(|offer| offer.kind == OfferKind::Oci)
        .expect("there");
    assert_eq!(oci.summary(), "podman image:1");
}
