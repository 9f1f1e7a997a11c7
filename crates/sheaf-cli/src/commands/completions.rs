//! `sheaf completions` and `sheaf man`: what a package installs beside the binary, made from the arguments themselves.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use sheaf_admm::Result;
use sheaf_learn::train::file::{io_error, write_whole};

use super::Job;
use crate::args::Cli;
use crate::report::Report;

/// Prints the completions of a shell.
pub fn completions(shell: Shell) -> Box<dyn Job> {
    Box::new(move || {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "sheaf", &mut script);
        let script = String::from_utf8_lossy(&script).into_owned();
        let mut report = Report::new();
        report.drawing(&script).value("shell", shell.to_string()).value("script", script);
        Ok(report)
    })
}

/// Writes a manual page for the tool and for each command.
pub fn man(out: PathBuf) -> Box<dyn Job> {
    Box::new(move || {
        std::fs::create_dir_all(&out).map_err(|e| io_error(&out, "to create the folder", &e))?;
        let mut pages = Vec::new();
        let mut command = Cli::command().disable_help_subcommand(true);
        // Names such as `sheaf-solve-maze` are known only then.
        command.build();
        page(&command, &mut pages)?;
        for (name, text) in &pages {
            write_whole(&out.join(format!("{name}.1")), text)?;
        }
        let mut report = Report::new();
        report.add("pages", "pages", pages.len(), pages.len().to_string()).written(&out);
        Ok(report)
    })
}

/// The page of a command, then those of its subcommands.
fn page(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| page(sub, pages))?;
    let (mut text, place) = (Vec::new(), std::path::Path::new("manual page"));
    Man::new(command.clone()).render(&mut text).map_err(|e| io_error(place, "to write the page", &e))?;
    pages.push((command.get_display_name().unwrap_or("sheaf").to_string(), text));
    Ok(())
}
