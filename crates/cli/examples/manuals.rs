//! Writes the manual pages and the completions of shells: `cargo run --example manuals -- FOLDER`.
//!
//! `FOLDER/man1` gets a page for the command and a page for each verb. `FOLDER/completions` gets a
//! file for each of bash, fish and zsh. `packaging/build` puts the files into the package.

use clap_complete::Shell;
use std::{env, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("name the folder to write to"))?;
    let (pages, completions) = (folder.join("man1"), folder.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let mut command = interleaf_cli::command();
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command, "interleaf", &completions)?;
    }
    clap_mangen::generate_to(command, pages)
}
