//! A pseudo-terminal for tests. Tests can press its keys, and hang it up.

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(10);

/// A pseudo-terminal, and the text that programs have written to it.
pub(crate) struct Screen {
    terminal: Option<File>,
    keyboard: File,
    text: String,
}

impl Screen {
    #[allow(dead_code, reason = "not every test has this width")]
    pub(crate) fn open() -> Self {
        Self::of_width(100)
    }

    pub(crate) fn of_width(columns: u16) -> Self {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        rustix::io::ioctl_fionbio(&keyboard, true).unwrap();
        let name = ptsname(&keyboard, vec![]).unwrap().into_string().unwrap();
        let mut options = OpenOptions::new();
        // Do not make the terminal the controlling terminal of this process.
        options.read(true).write(true).custom_flags(rustix::fs::OFlags::NOCTTY.bits() as i32);
        let terminal = options.open(name).unwrap();
        let size = Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        Self { terminal: Some(terminal), keyboard: File::from(keyboard), text: String::new() }
    }

    fn terminal(&self) -> &File {
        self.terminal.as_ref().unwrap()
    }

    #[allow(dead_code, reason = "not every test looks at them")]
    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(self.terminal()).unwrap()
    }

    /// Starts a command whose stdin, stdout and stderr are the terminal.
    pub(crate) fn start(&self, command: &mut Command) -> Child {
        let end = || Stdio::from(self.terminal().try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        // `command` still holds copies of the terminal's descriptor. Replace them, which closes
        // them.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        child
    }

    #[allow(dead_code, reason = "not every test presses keys")]
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until a program has written `text` to the terminal.
    #[allow(dead_code, reason = "not every test waits")]
    pub(crate) fn until(&mut self, text: &str) {
        let begun = Instant::now();
        while !self.text.contains(text) {
            assert!(begun.elapsed() < PATIENCE, "no {text:?} in {:?}", self.text);
            let mut bytes = [0; 4096];
            match self.keyboard.read(&mut bytes) {
                Ok(count) => self.text += &String::from_utf8_lossy(&bytes[..count]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(why) => panic!("{why}: no {text:?} in {:?}", self.text),
            }
        }
    }

    /// Runs a command on the terminal until it ends, and returns the text that it has written.
    #[allow(dead_code, reason = "not every test looks at all")]
    pub(crate) fn all_of(mut self, command: &mut Command) -> String {
        let mut child = self.start(command);
        let begun = Instant::now();
        loop {
            let is_over = child.try_wait().unwrap().is_some();
            assert!(begun.elapsed() < PATIENCE, "it does not end: {:?}", self.text);
            let mut bytes = [0; 4096];
            match self.keyboard.read(&mut bytes) {
                Ok(count) => self.text += &String::from_utf8_lossy(&bytes[..count]),
                Err(why) if why.kind() == ErrorKind::WouldBlock && is_over => return self.text,
                Err(why) if why.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(why) => panic!("{why}: {:?}", self.text),
            }
        }
    }

    /// Hangs up the terminal, as the end of a connection does.
    #[allow(dead_code, reason = "not every test hangs up")]
    pub(crate) fn hang_up(self) {
        drop(self);
    }
}

/// Waits for the end of a process. After the time limit, kills the process and panics.
#[allow(dead_code, reason = "not every test waits")]
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it does not end");
        }
        thread::sleep(PAUSE);
    }
}
