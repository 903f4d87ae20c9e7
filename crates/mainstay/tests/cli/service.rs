//! `mainstay service` with scripts in place of `systemctl` and `launchctl`, which record their
//! arguments.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use insta::assert_snapshot;
use mainstay_testkit::{Home, Run, home, within};

/// A script that records its arguments. A file marks the service as running.
const SYSTEMCTL: &str = r#"#!/bin/sh
[ -e "$HOME/no-session" ] && { echo 'Failed to connect to bus: No medium found' >&2; exit 1; }
case "$*" in
*"show --property"*) echo Version=252; exit ;;
*show*)
    if [ -e "$HOME/up" ]; then echo "ActiveState=active
SubState=running
MainPID=4711
UnitFileState=enabled
NRestarts=2
Result=success"; else echo "ActiveState=failed
SubState=failed
MainPID=0
Result=exit-code"; fi
    exit ;;
esac
echo "systemctl $*" >> "$HOME/said"
case "$*" in
*restart*) [ -e "$HOME/fails" ] && { echo 'Job failed. See the journal.' >&2; exit 1; }; touch "$HOME/up" ;;
*disable*) rm -f "$HOME/up" ;;
esac
"#;

const LAUNCHCTL: &str = r#"#!/bin/sh
case "$*" in
"print gui/"*/mainstay.daemon) [ -e "$HOME/up" ] && echo "	pid = 4711" || exit 113; exit ;;
"print "*) exit ;;
esac
echo "launchctl $1 $2" | sed 's/[0-9][0-9]*/UID/' >> "$HOME/said"
case "$1" in
bootstrap) touch "$HOME/up" ;;
bootout) rm "$HOME/up" ;;
esac
"#;

struct Machine {
    home: Home,
    path: String,
}

impl Machine {
    fn new() -> Self {
        let home = home!();
        let bin = home.path().join("bin & \"100%\" $x");
        fs::create_dir(&bin).expect("made");
        for (name, text) in [("systemctl", SYSTEMCTL), ("launchctl", LAUNCHCTL)] {
            let program = bin.join(name);
            fs::write(&program, text).expect("written");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let path = format!("{}:/usr/bin:/bin", bin.display());
        Self { home, path }
    }

    async fn run(&self, arguments: &[&str]) -> Run {
        let mut command = self.home.command(arguments);
        let output = within(command.env("PATH", &self.path).output()).await;
        Run::new(arguments, &output.expect("it starts"))
    }

    async fn transcript(&self, commands: &[&[&str]]) -> String {
        let mut runs = Vec::new();
        for arguments in commands {
            runs.push(self.run(arguments).await.to_string());
        }
        self.redacted(&runs.join("\n"))
    }

    fn redacted(&self, text: &str) -> String {
        let program = env!("CARGO_BIN_EXE_mainstay");
        self.home.redacted(&text.replace(program, "[MAINSTAY]"))
    }

    fn unit(&self) -> PathBuf {
        let unit = ".config/systemd/user/mainstay.service";
        self.home.path().join(unit)
    }

    /// Returns the recorded arguments, and clears the record.
    fn recorded_arguments(&self) -> String {
        let path = self.home.path().join("said");
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::remove_file(path).ok();
        text
    }
}

#[tokio::test]
async fn a_unit_is_installed_shown_and_removed() {
    let machine = Machine::new();
    let dry_run = machine.run(&["service", "install", "--dry-run"]).await;
    assert_snapshot!("dry_run", machine.redacted(&dry_run.to_string()));
    assert!(!machine.unit().exists());
    assert_eq!(machine.recorded_arguments(), "");

    assert_snapshot!(
        "installed",
        machine
            .transcript(&[
                &["service", "status"],
                &["service", "install"],
                &["service", "status"],
                &["service", "status", "--json"],
            ])
            .await
    );
    assert_eq!(
        machine.recorded_arguments(),
        "systemctl --user daemon-reload\nsystemctl --user enable mainstay.service\nsystemctl --user restart mainstay.service\n"
    );
    let unit = fs::read_to_string(machine.unit()).expect("a unit");
    assert!(
        dry_run
            .stdout
            .contains(unit.lines().nth(6).expect("a line"))
    );

    // A second installation changes nothing.
    machine.run(&["service", "install"]).await;
    assert_eq!(
        machine.recorded_arguments(),
        "systemctl --user enable mainstay.service\n"
    );
    assert_eq!(fs::read_to_string(machine.unit()).expect("a unit"), unit);

    // An installation with another port rewrites the unit.
    let listen = &["service", "install", "--listen", "127.0.0.1:7421"];
    assert_eq!(machine.run(listen).await.code, Some(0));
    assert!(machine.recorded_arguments().contains("restart"));
    let unit = fs::read_to_string(machine.unit()).expect("a unit");
    assert!(unit.contains(" serve --listen 127.0.0.1:7421\n"), "{unit}");

    assert_snapshot!(
        "removed",
        machine
            .transcript(&[
                &["service", "uninstall", "--dry-run"],
                &["service", "uninstall"],
                &["service", "uninstall"],
                &["service", "status"],
            ])
            .await
    );
    assert!(!machine.unit().exists());
    assert_eq!(
        machine.recorded_arguments(),
        "systemctl --user disable --now mainstay.service\nsystemctl --user daemon-reload\n"
    );
}

#[tokio::test]
async fn without_a_session_nothing_is_written() {
    let machine = Machine::new();
    machine.home.file("no-session", "");
    let refused_output = machine.transcript(&[&["service", "install"]]).await;
    assert_snapshot!(refused_output);
    assert!(!machine.unit().exists());
    let run = machine.run(&["service", "install", "--json"]).await;
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains(r#""error":"no_service_manager""#),
        "{run}"
    );

    let run = machine.run(&["service", "install", "--write-only"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(machine.unit().exists());
    assert_eq!(machine.recorded_arguments(), "");
}

#[tokio::test]
async fn an_unusable_configuration_is_not_installed_as_a_service() {
    let machine = Machine::new();
    let broken_file = machine.home.file("broken.json", "{");
    let run = machine
        .run(&["service", "install", "--config", &broken_file])
        .await;
    assert_eq!(run.code, Some(2), "{run}");

    let daemon = machine.home.serve(&["--demo"]).await;
    let run = machine.run(&["service", "install"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("runs already (pid"), "{run}");
    daemon.stop().await;
    assert!(!machine.unit().exists());
    assert_eq!(machine.recorded_arguments(), "");

    // A unit of another author is not overwritten.
    let unit = "[Service]\nExecStart=/usr/bin/mainstay serve\n";
    fs::create_dir_all(machine.unit().parent().expect("a folder")).expect("made");
    fs::write(machine.unit(), unit).expect("written");
    for action in ["install", "uninstall"] {
        let run = machine.run(&["service", action]).await;
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("was not written by Mainstay"), "{run}");
    }
    assert_eq!(fs::read_to_string(machine.unit()).expect("a unit"), unit);
    fs::remove_file(machine.unit()).expect("removed");

    // The command prints the error of the service manager.
    machine.home.file("fails", "");
    let run = machine.run(&["service", "install"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("Job failed. See the journal."), "{run}");
    let run = machine.run(&["service", "status"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stdout.contains("failed (failed, exit-code)"), "{run}");
}

#[tokio::test]
async fn an_agent_is_installed_and_removed() {
    let machine = Machine::new();
    let launchd = ["--manager", "launchd"];
    let run = machine
        .run(&[&["service", "install"][..], &launchd].concat())
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(
        machine.recorded_arguments(),
        "launchctl enable gui/UID/mainstay.daemon\nlaunchctl bootstrap gui/UID\n"
    );
    let agent = machine
        .home
        .path()
        .join("Library/LaunchAgents/mainstay.daemon.plist");
    let text = fs::read_to_string(&agent).expect("an agent");
    assert!(text.contains("bin &amp; \"100%\" $x:/usr/bin"), "{text}");
    assert!(machine.home.state().is_dir());

    let run = machine
        .run(
            &[
                &["service", "install", "--listen", "127.0.0.1:1"][..],
                &launchd,
            ]
            .concat(),
        )
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(
        machine.recorded_arguments(),
        "launchctl bootout gui/UID/mainstay.daemon\nlaunchctl enable gui/UID/mainstay.daemon\nlaunchctl bootstrap gui/UID\n"
    );
    let run = machine
        .run(&[&["service", "status"][..], &launchd].concat())
        .await;
    assert!(run.stdout.contains("process   4711"), "{run}");
    let run = machine
        .run(&[&["service", "uninstall"][..], &launchd].concat())
        .await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(
        machine.recorded_arguments(),
        "launchctl bootout gui/UID/mainstay.daemon\n"
    );
    assert!(!agent.exists());
}
