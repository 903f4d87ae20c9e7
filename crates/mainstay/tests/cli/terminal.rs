//! A pseudo-terminal that runs a command and records its output.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
};

use mainstay_testkit::within;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::{
    process::{Child, Command},
    sync::watch,
};

/// Opens a pseudo-terminal. Returns both ends.
pub fn pseudo_terminal() -> (OwnedFd, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a pseudo-terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(OpenptFlags::NOCTTY.bits().cast_signed())
        .open(name.to_str().expect("UTF-8"))
        .expect("the other end");
    (master, slave)
}

/// A pseudo-terminal, and the output of its command so far.
pub struct Terminal {
    slave: Option<File>,
    /// The input of the terminal.
    keys: File,
    output: watch::Receiver<Vec<u8>>,
    /// Ends when all processes have closed the terminal.
    reader: tokio::task::JoinHandle<()>,
}

impl Terminal {
    pub fn open() -> Self {
        Self::of_width(100)
    }

    pub fn of_width(width: u16) -> Self {
        let (master, slave) = pseudo_terminal();
        let size = Winsize {
            ws_row: 40,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&slave, size).expect("a size");
        let (output_sender, output) = watch::channel(Vec::new());
        let mut master = File::from(master);
        let keys = master.try_clone().expect("another handle");
        let reader = tokio::task::spawn_blocking(move || {
            let mut piece = [0; 4096];
            // When the other side is closed, the read fails.
            while let Ok(length @ 1..) = master.read(&mut piece) {
                output_sender.send_modify(|output| output.extend(&piece[..length]));
            }
        });
        Self {
            slave: Some(slave),
            keys,
            output,
            reader,
        }
    }

    /// Starts a command on the terminal, without colours.
    pub fn start(&mut self, mut command: Command) -> Child {
        command.env("NO_COLOR", "1");
        self.start_as_it_is(command)
    }

    /// Starts a command without setting `NO_COLOR`.
    pub fn start_as_it_is(&mut self, mut command: Command) -> Child {
        let slave = self.slave.take().expect("one command for each terminal");
        let stream = || OwnedFd::from(slave.try_clone().expect("another handle"));
        command
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .expect("it starts")
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    pub async fn until(&mut self, text: &str) {
        let has_text = |output: &Vec<u8>| String::from_utf8_lossy(output).contains(text);
        within(self.output.wait_for(has_text))
            .await
            .expect("it goes on");
    }

    /// Waits until the command has ended. Returns all of its output.
    pub async fn end(self) -> Vec<u8> {
        within(self.reader).await.expect("it reads");
        self.output.borrow().clone()
    }
}
