//! The service as an agent of launchd (macOS).

use std::path::{Path, PathBuf};

use mainstay_config::Environment;

use super::{
    definition::{Definition, WRITTEN_BY},
    steps::{ProgramRun, Step},
};

pub const LABEL: &str = "mainstay.daemon";

/// The path of the agent's file. `None` if the home folder is unknown.
pub fn place(environment: &dyn Environment) -> Option<PathBuf> {
    let folder = environment.home_dir()?.join("Library/LaunchAgents");
    Some(folder.join(format!("{LABEL}.plist")))
}

/// The text of the agent (launchd.plist(5)). launchd writes the daemon's stderr to `log`.
pub fn text(definition: &Definition, log: &Path) -> String {
    let arguments = [&definition.program]
        .into_iter()
        .chain(&definition.arguments);
    let arguments = arguments.map(|argument| format!("\t\t{}\n", string(argument)));
    let arguments = arguments.collect::<Vec<_>>().concat();
    let lines = definition
        .variables
        .iter()
        .map(|(name, value)| format!("\t\t<key>{}</key>\n\t\t{}\n", escaped(name), string(value)));
    let variables = lines.collect::<Vec<_>>().concat();
    let log = string(&log.to_string_lossy());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- {WRITTEN_BY}, which writes it anew. -->\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \t<key>Label</key>\n\
         \t<string>{LABEL}</string>\n\
         \t<key>ProgramArguments</key>\n\
         \t<array>\n\
         {arguments}\
         \t</array>\n\
         \t<key>EnvironmentVariables</key>\n\
         \t<dict>\n\
         {variables}\
         \t</dict>\n\
         \t<key>RunAtLoad</key>\n\
         \t<true/>\n\
         \t<key>KeepAlive</key>\n\
         \t<dict>\n\
         \t\t<key>SuccessfulExit</key>\n\
         \t\t<false/>\n\
         \t</dict>\n\
         \t<key>ThrottleInterval</key>\n\
         \t<integer>10</integer>\n\
         \t<key>ExitTimeOut</key>\n\
         \t<integer>{}</integer>\n\
         \t<key>StandardErrorPath</key>\n\
         \t{log}\n\
         </dict>\n\
         </plist>\n",
        definition.stop_limit.as_secs(),
    )
}

fn string(text: &str) -> String {
    format!("<string>{}</string>", escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The domain of this user's graphical session.
pub fn domain(user: u32) -> String {
    format!("gui/{user}")
}

fn target(user: u32) -> String {
    format!("{}/{LABEL}", domain(user))
}

/// A command that checks that the user's session can be reached. It changes nothing.
pub fn ask(user: u32) -> ProgramRun {
    ProgramRun::new("launchctl", &["print", &domain(user)])
}

/// A command that prints the status of the service. It fails if the service is not loaded.
pub fn ask_status(user: u32) -> ProgramRun {
    ProgramRun::new("launchctl", &["print", &target(user)])
}

/// The process id in the output of `launchctl print`.
pub fn pid(output: &str) -> Option<u32> {
    let mut lines = output.lines();
    lines.find_map(|line| line.trim().strip_prefix("pid = ")?.parse().ok())
}

/// The steps that install the service. They depend on the file that exists and on the state of the
/// service.
pub fn install(
    user: u32,
    place: &Path,
    text: &str,
    found: Option<&str>,
    is_loaded: bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let has_changed = found != Some(text);
    if has_changed {
        steps.push(Step::Write {
            path: place.to_owned(),
            text: text.to_owned(),
        });
    }
    if has_changed && is_loaded {
        steps.push(Step::Run(ProgramRun::new(
            "launchctl",
            &["bootout", &target(user)],
        )));
        // launchd stops an agent in the background. No agent can be loaded until it has stopped.
        steps.push(Step::Until(ask_status(user)));
    }
    if has_changed || !is_loaded {
        steps.push(Step::Run(ProgramRun::new(
            "launchctl",
            &["enable", &target(user)],
        )));
        let place = place.to_string_lossy();
        steps.push(Step::Run(ProgramRun::new(
            "launchctl",
            &["bootstrap", &domain(user), &place],
        )));
    }
    steps
}

/// The steps that stop and remove the service.
pub fn uninstall(user: u32, place: &Path, is_loaded: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if is_loaded {
        steps.push(Step::Run(ProgramRun::new(
            "launchctl",
            &["bootout", &target(user)],
        )));
    }
    steps.push(Step::Remove(place.to_owned()));
    steps
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insta::assert_snapshot;

    use super::{super::steps::step_texts, *};

    #[test]
    fn agents_hold_any_path() {
        let definition = Definition {
            program: "/Users/a b/100%/$HOME & co/mainstay".to_owned(),
            arguments: ["serve", "--config", "/Users/a b/\"q\" <x> 'y'.json"]
                .map(str::to_owned)
                .to_vec(),
            variables: vec![("PATH".to_owned(), "/opt/R&D/bin:/usr/bin".to_owned())],
            stop_limit: Duration::from_secs(19),
        };
        assert_snapshot!(text(&definition, Path::new("/Users/a b/state/service.log")));
    }

    #[test]
    fn what_is_as_it_should_be_is_left_alone() {
        let place = Path::new("/a/mainstay.daemon.plist");
        assert_snapshot!(step_texts::installations(|found, is_loaded| install(
            501, place, "new", found, is_loaded
        )));
    }

    #[test]
    fn the_process_is_read() {
        assert_eq!(
            pid("gui/501/mainstay.daemon = {\n\tstate = running\n\tpid = 17\n}"),
            Some(17)
        );
        assert_eq!(pid("\tstate = not running\n"), None);
    }
}
