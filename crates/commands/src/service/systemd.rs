//! The service as a unit of systemd's user session.

use std::path::{Path, PathBuf};

use mainstay_config::Environment;

use super::{
    definition::{Definition, WRITTEN_BY},
    steps::{ProgramRun, Step},
};

pub const UNIT: &str = "mainstay.service";

/// The exit code of permanent failures: wrong usage or configuration. A restart would not help.
const PERMANENT: u8 = 2;

/// Characters that systemd refuses in the path of a program.
const REFUSED: [char; 3] = ['"', '\'', '\\'];

/// The path of the unit. `None` if the home folder is unknown.
pub fn place(environment: &dyn Environment) -> Option<PathBuf> {
    let configured = environment.var("XDG_CONFIG_HOME").map(PathBuf::from);
    let configured = configured.filter(|path| path.is_absolute());
    let folder = configured.or_else(|| Some(environment.home_dir()?.join(".config")))?;
    Some(folder.join("systemd/user").join(UNIT))
}

/// The reason why systemd would refuse the program. `None` if it would not.
pub fn refusal(definition: &Definition) -> Option<String> {
    let program = &definition.program;
    let refused = program.contains(REFUSED);
    refused.then(|| {
        format!("systemd starts no program with a quote or a backslash in its path: {program}")
    })
}

/// The text of the unit (systemd.service(5), systemd.syntax(7)).
pub fn text(definition: &Definition) -> String {
    let words = definition.arguments.iter().map(|word| argument(word));
    let arguments: Vec<String> = words.collect();
    let lines = definition.variables.iter().map(|(name, value)| {
        let pair = quoted(&format!("{name}={value}"));
        format!("Environment={pair}\n")
    });
    let variables = lines.collect::<Vec<_>>().concat();
    format!(
        "# {WRITTEN_BY}, which writes it anew.\n\
         [Unit]\n\
         Description=Mainstay keeps MCP servers up\n\
         \n\
         [Service]\n\
         Type=exec\n\
         ExecStart={} {}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         {variables}\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartPreventExitStatus={PERMANENT}\n\
         # Mainstay ends its servers itself; what is left is killed.\n\
         KillMode=mixed\n\
         TimeoutStopSec={}\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        quoted(&definition.program),
        arguments.join(" "),
        definition.stop_limit.as_secs(),
    )
}

/// Quotes a text with escapes. Keeps blanks, and prevents `%` from starting a specifier.
fn quoted(text: &str) -> String {
    let text = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("\"{text}\"")
}

/// An argument of the program. systemd expands `$` in arguments, but not in the program's path.
fn argument(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    quoted(&text.replace('$', "$$"))
}

fn systemctl(arguments: &[&str]) -> ProgramRun {
    ProgramRun::new("systemctl", &[&["--user"], arguments].concat())
}

/// A command that checks that the user's systemd can be reached. It changes nothing.
pub fn ask() -> ProgramRun {
    systemctl(&["show", "--property=Version"])
}

/// A command that prints the status of the service.
pub fn ask_status() -> ProgramRun {
    systemctl(&[
        "show",
        UNIT,
        "--property=LoadState,UnitFileState,ActiveState,SubState,MainPID,NRestarts,Result",
    ])
}

/// The value of a property in the output of `systemctl show`.
pub fn property<'o>(output: &'o str, name: &str) -> &'o str {
    let mut lines = output.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_default().trim()
}

/// The steps that install the service. They depend on the file that exists and on the state of the service.
pub fn install(place: &Path, text: &str, found: Option<&str>, is_active: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let has_changed = found != Some(text);
    if has_changed {
        steps.push(Step::Write {
            path: place.to_owned(),
            text: text.to_owned(),
        });
        steps.push(Step::Run(systemctl(&["daemon-reload"])));
    }
    steps.push(Step::Run(systemctl(&["enable", UNIT])));
    if has_changed || !is_active {
        // `restart` also starts a stopped service.
        steps.push(Step::Run(systemctl(&["restart", UNIT])));
    }
    steps
}

/// The steps that stop and remove the service.
pub fn uninstall(place: &Path) -> Vec<Step> {
    vec![
        Step::Run(systemctl(&["disable", "--now", UNIT])),
        Step::Remove(place.to_owned()),
        Step::Run(systemctl(&["daemon-reload"])),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insta::assert_snapshot;

    use super::{super::steps::step_texts, *};

    fn plain() -> Definition {
        Definition {
            program: "/home/me/.local/bin/mainstay".to_owned(),
            arguments: vec!["serve".to_owned()],
            variables: vec![(
                "PATH".to_owned(),
                "/home/me/.local/bin:/usr/bin:/bin".to_owned(),
            )],
            stop_limit: Duration::from_secs(19),
        }
    }

    fn odd() -> Definition {
        Definition {
            program: "/home/a b/100%/$HOME & co/mainstay".to_owned(),
            arguments: [
                "serve",
                "--config",
                "/home/a b/\"100%\" \\ $HOME & 'co'.json",
            ]
            .map(str::to_owned)
            .to_vec(),
            variables: vec![
                (
                    "PATH".to_owned(),
                    "/opt/a b:/opt/50%:/opt/$x:/opt/\"q\":/opt/<&>".to_owned(),
                ),
                ("MAINSTAY_HOME".to_owned(), "/srv/it's here".to_owned()),
            ],
            stop_limit: Duration::from_secs(19),
        }
    }

    #[test]
    fn units_hold_any_path() {
        assert_snapshot!(text(&plain()));
        assert_snapshot!(text(&odd()));
    }

    #[test]
    fn a_path_that_systemd_refuses_is_told() {
        assert_eq!(refusal(&odd()), None);
        let quoted = Definition {
            program: "/opt/it's/mainstay".to_owned(),
            ..plain()
        };
        assert!(refusal(&quoted).is_some());
    }

    /// Checks the unit with systemd itself, if it is installed.
    #[test]
    fn systemd_takes_the_unit() {
        use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};
        let folder = tempfile::tempdir().expect("a folder");
        for (index, mut definition) in [plain(), odd()].into_iter().enumerate() {
            let bin = folder.path().join(format!("{index} 100% $HOME & co"));
            fs::create_dir(&bin).expect("made");
            let program = bin.join("mainstay");
            fs::write(&program, "#!/bin/sh\n").expect("written");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
            definition.program = program.to_str().expect("UTF-8").to_owned();
            let unit = folder.path().join(format!("mainstay{index}.service"));
            fs::write(&unit, text(&definition)).expect("written");
            let verify = Command::new("systemd-analyze")
                .args(["verify", "--user", "--man=no"])
                .arg(&unit)
                .env("XDG_RUNTIME_DIR", folder.path())
                .output();
            // systemd is not installed everywhere.
            let Ok(verified) = verify else { return };
            let stderr = String::from_utf8_lossy(&verified.stderr);
            assert!(verified.status.success(), "{stderr}");
            assert!(!stderr.contains("mainstay"), "{stderr}");
        }
    }

    #[test]
    fn what_is_as_it_should_be_is_left_alone() {
        let place = Path::new("/u/mainstay.service");
        assert_snapshot!(step_texts::installations(|found, is_active| install(
            place, "new", found, is_active
        )));
    }

    #[test]
    fn properties_are_read() {
        let output = "ActiveState=active\nMainPID=17\nResult=\n";
        assert_eq!(property(output, "MainPID"), "17");
        assert_eq!(property(output, "Result"), "");
        assert_eq!(property(output, "Main"), "");
    }
}
