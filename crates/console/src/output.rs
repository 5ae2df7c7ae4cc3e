//! The only module that prints the output of commands: data to stdout, messages and progress to
//! stderr, documents to files.

use crate::Failure;
use indicatif::{ProgressBar, ProgressStyle};
pub use interleaf_linux::replace::Existing;
use interleaf_linux::replace::{self, Durability};
use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, ErrorKind, IsTerminal as _, Write},
    os::fd::BorrowedFd,
    path::Path,
    process::ExitCode,
};
use textwrap::{Options, WordSeparator, WordSplitter};

/// Writes `text` to stdout.
pub fn data(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|why| match why.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::new(format!("stdout: {why}"), "make room there, or redirect stdout"),
    })
}

/// Writes a text for people, such as a table, to stdout. Lines that are wider than the width that
/// `terminal_width` returns are wrapped between words. Control characters are escaped.
pub fn text(text: &str) -> Result<(), Failure> {
    let (text, width) = (printable(text), terminal_width(|name| std::env::var(name).ok()));
    data(&width.map_or_else(|| text.to_string(), |width| wrapped(&text, width)))
}

/// Escapes the control characters of `text`: a name from a file could move a terminal's cursor.
/// Newlines, tabs and the color sequences of reports (`ESC [ digits m`) stay.
fn printable(text: &str) -> Cow<'_, str> {
    let is_foreign = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_foreign) {
        return text.into();
    }
    let is_colour = |rest: &str| {
        let digits = rest.strip_prefix("\u{1b}[");
        let end = digits.map(|it| it.trim_start_matches(|c: char| c.is_ascii_digit()));
        end.is_some_and(|end| end.starts_with('m'))
    };
    let mut shown = String::new();
    for (at, c) in text.char_indices() {
        match is_foreign(c) && !is_colour(&text[at..]) {
            true => shown.extend(c.escape_debug()),
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Wraps lines that are wider than `width` characters. Two or more spaces in a line separate
/// columns. If the last column begins in the left half of `width`, continuation lines are indented
/// to this column, and otherwise by two spaces.
fn wrapped(text: &str, width: usize) -> String {
    const INDENT: usize = 2;
    let line = |line: &str| {
        if textwrap::core::display_width(line) <= width {
            return line.to_string();
        }
        let column = line.rfind("  ").map_or(INDENT, |at| at + 2);
        let column = textwrap::core::display_width(&line[..column.min(line.len())]);
        let indent = " ".repeat(if column > width / 2 { INDENT } else { column.max(INDENT) });
        let options = Options::new(width)
            .subsequent_indent(&indent)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation);
        textwrap::fill(line, options)
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// True if stdout is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns the width of the terminal on stdout, in characters. If stdout is a pipe or a file,
/// returns the width in the environment variable `COLUMNS`, which watch(1) sets, or `None` without
/// this variable. `variable` returns the value of an environment variable.
pub fn terminal_width(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    match is_terminal() {
        true => Some(columns(rustix::stdio::stdout())),
        false => variable("COLUMNS")?.parse().ok().filter(|columns| *columns > 0),
    }
}

/// Returns the width of a terminal, in characters; 80 if the terminal does not report its width.
fn columns(terminal: BorrowedFd<'_>) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size.ok().map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(80)
}

/// True if printed texts may have colours: stdout is a terminal, the environment variable
/// `NO_COLOR` is empty, and `TERM` is neither empty nor `dumb`. `variable` returns the value of an
/// environment variable; a variable that is not set counts as empty.
pub fn has_colour(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_off = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let term = variable("TERM").unwrap_or_default();
    is_terminal() && !is_off && term != "dumb" && !term.is_empty()
}

/// True if the locale uses UTF-8. The first of the environment variables `LC_ALL`, `LC_CTYPE` and
/// `LANG` that is set and not empty decides (POSIX, 8.2). `variable` returns the value of an
/// environment variable.
pub fn has_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().filter_map(|name| variable(name)).find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// Writes the lines of a service to stdout. If a line cannot be written, the service continues.
#[derive(Debug, Default)]
pub struct Lines {
    /// True if the last line was written incompletely. The next line then begins with a newline.
    is_torn: bool,
}

impl Lines {
    /// Writes `line` and a newline to stdout.
    pub fn write(&mut self, line: &str) -> io::Result<()> {
        // The line bypasses std::io::Stdout, which would keep an unwritten part in its buffer and
        // write it later.
        let text = format!("{}{line}\n", if self.is_torn { "\n" } else { "" });
        let mut left = text.as_bytes();
        while !left.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), left) {
                Ok(count) => left = &left[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(why) => {
                    let written = &text.as_bytes()[..text.len() - left.len()];
                    self.is_torn = written.last().map_or(self.is_torn, |last| *last != b'\n');
                    return Err(why.into());
                }
            }
        }
        self.is_torn = false;
        Ok(())
    }
}

/// Writes `text` and a newline to stderr, wrapped like [`text`] if stderr is a terminal, with its
/// control characters escaped.
pub fn message(text: &str) {
    let text = printable(text);
    let width = io::stderr().is_terminal().then(|| columns(rustix::stdio::stderr()));
    let text = width.map_or_else(|| text.to_string(), |width| wrapped(&text, width));
    // A failure to write to stderr cannot be reported.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints each line of `text` to stderr with the prefix `interleaf: `, unless `quiet`.
pub fn note(quiet: bool, text: &str) {
    if !quiet {
        for line in text.lines() {
            message(&format!("interleaf: {line}"));
        }
    }
}

/// Prints a failure, and returns the exit status with which the process must end.
pub fn print_failure(failure: Failure) -> ExitCode {
    match failure {
        Failure::Error { problem, hint } => {
            message(&format!("error: {problem}\n\nhint: {hint}"));
            ExitCode::from(2)
        }
        Failure::Shown(text) => match data(&text) {
            Ok(()) | Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
            Err(failure) => print_failure(failure),
        },
        Failure::BrokenPipe => ExitCode::SUCCESS,
    }
}

/// Writes `bytes`, which a child wrote to its stderr, to the stderr of this process.
pub fn forward_stderr(bytes: &[u8]) {
    // A failed write is ignored, because it cannot be reported.
    let _ = io::stderr().lock().write_all(bytes);
}

/// Replaces the contents of `target` with `text`. The replacement is atomic if the folder permits
/// it: after a crash or on a full disk, and for each reader, the file has either the old or the new
/// contents. A file in a read-only folder is overwritten in place. `-` is stdout.
pub fn file(target: &Path, text: &str) -> Result<(), Failure> {
    match is_stdout(target) {
        true => data(text),
        false => replaced(target, text.as_bytes(), Durability::Synced),
    }
}

/// Replaces the contents of `target` with interim results, which are not synced: a power cut may
/// lose them. A pipe, a device and stdout are skipped, because they get only the final contents.
pub fn interim(target: &Path, text: &str) -> Result<(), Failure> {
    let is_stream = fs::metadata(target).is_ok_and(|found| !found.is_file());
    match is_stream || is_stdout(target) {
        true => Ok(()),
        false => replaced(target, text.as_bytes(), Durability::Cached),
    }
}

/// Opens a file to which a command writes piece by piece, such as a log.
pub fn growing(target: &Path, existing: Existing) -> Result<File, Failure> {
    replace::open_named(target, existing).map_err(|why| file_failure(target, &why))
}

/// Replaces the contents of `target` with `bytes` atomically, like [`fn@file`], but takes the
/// target `-` as the name of a file, not as stdout.
pub fn bytes(target: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replaced(target, bytes, Durability::Synced)
}

fn replaced(target: &Path, bytes: &[u8], durability: Durability) -> Result<(), Failure> {
    replace::named(target, bytes, durability).map_err(|why| file_failure(target, &why))
}

/// Checks, before long work begins, that `target` can be written. The contents of the file stay
/// unchanged.
pub fn check_writable(target: Option<&Path>) -> Result<(), Failure> {
    match target.filter(|target| !is_stdout(target)) {
        Some(target) => replace::check_named(target).map_err(|why| file_failure(target, &why)),
        None => Ok(()),
    }
}

/// True if `target` names stdout. Stdout must not be opened by its name: this would overwrite a
/// redirected file from the beginning, and would fail for a socket.
fn is_stdout(target: &Path) -> bool {
    let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| target == Path::new(name))
}

/// Converts `why`, the error of writing the file `target`, to a failure with a hint.
pub fn file_failure(target: &Path, why: &io::Error) -> Failure {
    let hint = match why.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room there, or name a file on another file system; the file is unchanged"
        }
        ErrorKind::PermissionDenied => {
            "name a file that this user may write to, and no file or link of another user"
        }
        ErrorKind::InvalidData => {
            "name a regular file or a file that is not there yet, or remove the symbolic link"
        }
        _ => "name a file in a folder that is there and that you may write to",
    };
    Failure::new(format!("{}: cannot be written: {why}", target.display()), hint)
}

/// Returns a progress bar over bytes, which is drawn only on a terminal. The caller sets the number
/// of bytes later.
pub fn progress_bytes(label: &str) -> ProgressBar {
    let template = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {elapsed}";
    bar(0, label, template)
}

/// Returns a progress bar over `steps` steps, which is drawn only on a terminal.
pub fn progress(steps: u64, label: &str) -> ProgressBar {
    bar(steps, label, "{msg} {wide_bar} {pos}/{len} {elapsed}, about {eta} left")
}

/// Returns a line with a message that changes, which is drawn only on a terminal.
pub fn spinner() -> ProgressBar {
    bar(0, "", "{msg}")
}

fn bar(length: u64, label: &str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(label.to_string());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_wrapped_between_words() {
        let text = "inputs: published: page streams, coupling of cxl to dram\n  - a note\n";
        let narrow = "inputs: published: page\n  streams, coupling of cxl to\n  dram\n  - a note\n";
        assert_eq!(wrapped(text, 30), narrow);
        assert_eq!(wrapped(text, 56), text, "as wide as its longest line");
        let word = "word ".repeat(2) + &"x".repeat(40);
        assert_eq!(wrapped(&word, 30), format!("word word\n  {}", "x".repeat(40)));
    }

    #[test]
    fn control_characters_are_escaped_and_colours_stay() {
        let table = [
            ("plain \u{e9}\nline", "plain \u{e9}\nline"),
            ("\u{1b}[1mbest\u{1b}[0m", "\u{1b}[1mbest\u{1b}[0m"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("a\rb\tc\u{9b}m", "a\\rb\tc\\u{9b}m"),
        ];
        for (text, expected) in table {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn a_wrapped_line_continues_at_its_last_column() {
        let text = "yes  nodes  all memory is on one node";
        assert_eq!(wrapped(text, 26), "yes  nodes  all memory is\n            on one node");
        let colours = "\u{1b}[32myes\u{1b}[0m  nodes  all memory is on one node";
        let wide = "\u{1b}[32myes\u{1b}[0m  nodes  all memory is\n            on one node";
        assert_eq!(wrapped(colours, 26), wide);
        let late = "a column that begins late:  text that is long";
        assert_eq!(wrapped(late, 30), "a column that begins late:\n  text that is long");
    }

    #[test]
    fn the_locale_decides_about_characters() {
        let with = |all: &str, lang: &str| {
            has_unicode(|name| match name {
                "LC_ALL" => Some(all.to_string()),
                "LANG" => Some(lang.to_string()),
                _ => None,
            })
        };
        assert!(with("", "en_US.UTF-8") && with("C.utf8", "C"));
        assert!(!with("C", "en_US.UTF-8") && !with("", "") && !with("POSIX", ""));
    }
}
