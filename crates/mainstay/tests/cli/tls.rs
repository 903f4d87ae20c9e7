//! A daemon that speaks HTTPS, and the commands of its machine.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use insta::assert_snapshot;
use mainstay_testkit::{
    Home, Serving,
    certificates::{Authority, Identity},
    found, home,
    limits::PROGRAMS,
    within,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{connect::front::Front, fakes::fakes};

const DAY: Duration = Duration::from_hours(24);

/// A home with a configuration of one server and with a certificate.
struct World {
    home: Home,
    config: String,
    authority: Authority,
}

impl World {
    fn new(http: Value) -> Self {
        let home = home!();
        let config = fakes(&home, &[("fake", &[])]);
        let mut file: Value = serde_json::from_str(&read(&config)).expect("JSON");
        file["http"] = http;
        let config = home.file("servers.json", &file.to_string());
        let authority = Authority::new("corp");
        home.file("ca.pem", &authority.pem());
        let world = Self {
            home,
            config,
            authority,
        };
        // Neither the machine's names nor an authority that it trusts.
        world.replace(&world.authority.issue(&["gate.example"]));
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn replace(&self, identity: &Identity) {
        let [_, key] = identity.write(self.home.path());
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).expect("set");
    }

    async fn serve(&self) -> Serving {
        self.home.serve(&["--config", &self.config]).await
    }

    /// The output of a command that must succeed.
    async fn run(&self, arguments: &[&str]) -> String {
        let run = self.home.run(arguments).await;
        assert_eq!(run.code, Some(0), "{run}");
        run.stdout
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).expect("readable")
}

fn tls() -> Value {
    json!({"tls": {"cert": "cert.pem", "key": "key.pem"}})
}

/// Commands need neither a trusted certificate, nor one that is issued for their address, nor one of their own.
#[tokio::test]
async fn the_commands_reach_a_daemon_that_speaks_https() {
    for client_ca in [None, Some("ca.pem")] {
        let mut http = tls();
        http["tls"]["clientCa"] = json!(client_ca);
        let world = World::new(http);
        let daemon = world.serve().await;
        assert!(daemon.url.starts_with("https://127.0.0.1:"));
        assert!(world.run(&["list"]).await.contains("fake"));
        let call = ["call", "fake/echo", "text=hello"];
        assert!(world.run(&call).await.contains("hello"));
        // The URL that `serve` prints leads to the same daemon.
        assert!(
            world
                .run(&["list", "--url", &daemon.url])
                .await
                .contains("fake")
        );
        let link = world.run(&["ui", "--no-open"]).await;
        assert!(
            link.starts_with(&format!("{}/#/sign-in?code=", daemon.url)),
            "{link}"
        );
        let mut front = Front::open(&world.home, &["connect"], "2025-11-25").await;
        let answer = front.call("fake__echo", json!({"text": "through"})).await;
        assert_eq!(
            answer["result"]["content"][0]["text"], "through",
            "{answer}"
        );
        let (code, stderr) = front.end().await;
        assert_eq!(code, Some(0), "{stderr}");
        // A client of the same configuration shares the servers.
        let arguments = ["mcp", "--config", &world.config];
        let front = Front::open(&world.home, &arguments, "2025-11-25").await;
        let (_, stderr) = front.end().await;
        assert!(stderr.contains("attached to the daemon at"), "{stderr}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn another_url_with_https_says_what_to_do() {
    let home = home!();
    let run = home
        .run(&["list", "--url", "https://gate.example:7420"])
        .await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr
            .contains("commands reach a daemon with TLS from its own machine alone"),
        "{run}"
    );
}

#[tokio::test]
async fn unusable_files_are_found_before_the_start() {
    let world = World::new(tls());
    let arguments = ["validate", &world.config];
    assert!(world.run(&arguments).await.contains("ok: 1 server"));
    let text = format!("{{\n  \"mcpServers\": {{}},\n  \"http\": {}}}", tls());
    let config = world.home.file("servers.json", &text);
    let other = world.authority.issue(&["gate.example"]);
    fs::write(world.path("key.pem"), other.key).expect("written");
    let mut transcript = String::new();
    for arguments in [
        &["validate", &config][..],
        &["validate", "--json", &config],
        &["serve", "--config", &config, "--listen", "127.0.0.1:0"],
    ] {
        let run = world.home.run(arguments).await;
        assert_eq!(run.code, Some(2), "{run}");
        transcript.push_str(&run.to_string());
    }
    fs::remove_file(world.path("key.pem")).expect("removed");
    let run = world.home.run(&["validate", &config]).await;
    assert_eq!(run.code, Some(2), "{run}");
    transcript.push_str(&run.to_string());
    assert_snapshot!(world.home.redacted(&transcript));
    let expired = world.authority.issue_until(&["a"], SystemTime::now() - DAY);
    world.replace(&expired);
    let run = world.home.run(&["validate", &config]).await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(
        run.stderr.contains("the certificate has expired, at 2"),
        "{run}"
    );
}

/// A reload looks at the files at once, and does not depend on them.
#[tokio::test]
async fn a_reload_takes_a_new_certificate_and_keeps_the_old_one_if_it_must() {
    let world = World::new(tls());
    let mut daemon = world.serve().await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    fs::write(world.path("cert.pem"), "").expect("written");
    world.run(&["reload"]).await;
    daemon
        .wait_for_stderr("the new certificate cannot be used")
        .await;
    world.replace(&world.authority.issue(&["localhost"]));
    world.run(&["reload"]).await;
    let events = found(PROGRAMS, "a new certificate", async || {
        let events = world.run(&["events"]).await;
        events.contains("renewed").then_some(events)
    });
    let events = events.await;
    assert!(events.contains("the file is empty"), "{events}");
    daemon.stop().await;
}

#[tokio::test]
async fn doctor_examines_the_certificate() {
    let mut http = tls();
    http["publicUrl"] = "https://other.example".into();
    http["allowedHosts"] = json!(["gate.example"]);
    let world = World::new(http);
    let doctor = async || {
        let arguments = ["doctor", "--json", "--no-start", "--listen", "127.0.0.1:0"];
        let arguments = [&arguments[..], &["--config", &world.config]].concat();
        let findings = world.home.run(&arguments).await.json();
        let findings: Vec<Value> = findings.as_array().expect("an array").clone();
        let is_tls = |finding: &Value| {
            finding["id"]
                .as_str()
                .is_some_and(|id| id.starts_with("tls."))
        };
        findings.into_iter().filter(is_tls).collect::<Vec<_>>()
    };
    let ids = |findings: &[Value]| {
        let ids: Vec<String> = findings
            .iter()
            .map(|finding| finding["id"].as_str().expect("an id").to_owned())
            .collect();
        ids.join(" ")
    };
    let findings = doctor().await;
    assert_eq!(ids(&findings), "tls.certificate tls.name");
    let names = findings[0]["what"].as_str().expect("a text");
    assert!(names.ends_with(", for gate.example"), "{names}");
    let missing = findings[1]["what"].as_str().expect("a text");
    assert!(missing.ends_with("is not for other.example"), "{missing}");

    let end = SystemTime::now() + 5 * DAY;
    let both = ["gate.example", "*.example"];
    world.replace(&world.authority.issue_until(&both, end));
    let key = world.path("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("set");
    assert_eq!(ids(&doctor().await), "tls.expires tls.key_readable");
    fs::write(&key, "").expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("set");
    let findings = doctor().await;
    assert_eq!(ids(&findings), "tls.unusable");
    assert_eq!(findings[0]["level"], "error");
}

/// A program of others, if there is one.
#[tokio::test]
async fn curl_is_served() {
    let mut http = tls();
    http["tls"]["clientCa"] = "ca.pem".into();
    http["requireToken"] = false.into();
    let world = World::new(http);
    world.replace(&world.authority.issue(&["localhost", "127.0.0.1"]));
    let me = world.authority.issue(&["me"]);
    world
        .home
        .file("me.pem", &format!("{}{}", me.certificate, me.key));
    let daemon = world.serve().await;
    let curl = async |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--show-error", "--http1.1", "--max-time", "20"])
            .args(arguments)
            .current_dir(world.home.path());
        within(command.output()).await.ok()
    };
    let url = format!("{}/healthz", daemon.url);
    let trusting = [
        "--cacert",
        "ca.pem",
        "--cert",
        "me.pem",
        "--write-out",
        " %{http_code}",
        &url,
    ];
    // A machine without curl has nothing to show.
    if let Some(output) = curl(&trusting).await {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.ends_with(" 200"), "{stdout} {stderr}");
        for version in ["--tls-max=1.2", "--tlsv1.3"] {
            let arguments: Vec<&str> = version.split('=').chain(trusting).collect();
            let output = curl(&arguments).await.expect("it is there");
            assert!(output.stdout.ends_with(b" 200"), "{version}: {output:?}");
        }
        let stranger = curl(&["--cacert", "ca.pem", &url])
            .await
            .expect("it is there");
        assert!(!stranger.status.success(), "{stranger:?}");
        let plain = url.replace("https://", "http://");
        let notice = curl(&[&plain]).await.expect("it is there");
        assert!(
            String::from_utf8_lossy(&notice.stdout).contains("use https://"),
            "{notice:?}"
        );
    }
    daemon.stop().await;
}
