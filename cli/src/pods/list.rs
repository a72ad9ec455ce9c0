//! `hull ps`.

use super::{Entry, Registry};
use crate::failure::Result;
use crate::images::args::Listing;
use crate::images::human;
use crate::images::table::{Columns, render};
use clap::Args;
use image::time;
use serde_json::{Value, json};

/// Digits of an id in a table, as of docker.
const SHORT_ID: usize = 12;
/// Characters of a command in a table, as of docker.
const SHORT_COMMAND: usize = 20;

const COLUMNS: Columns<'static> = &[
    ("POD ID", "ID"),
    ("IMAGE", "Image"),
    ("COMMAND", "Command"),
    ("CREATED", "RunningFor"),
    ("PID", "Pid"),
    ("PORTS", "Ports"),
    ("NAMES", "Names"),
];

/// Options of `ps`.
#[derive(Args, Debug)]
pub struct PsArgs {
    /// How the listing is printed.
    #[command(flatten)]
    pub listing: Listing,
}

/// `hull ps`.
pub fn ps(args: &PsArgs) -> Result<u8> {
    let entries = match Registry::find()? {
        Some(registry) => registry.entries()?,
        None => Vec::new(),
    };
    let rows: Vec<Value> = entries.iter().map(|entry| row(entry, args.listing.no_trunc)).collect();
    crate::images::print(&render(&args.listing, COLUMNS, &rows)?);
    Ok(0)
}

/// A text for a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn row(entry: &Entry, whole: bool) -> Value {
    let id = if whole { &entry.id } else { entry.id.get(..SHORT_ID).unwrap_or(&entry.id) };
    let command = plain(&entry.command.join(" "));
    let command = match command.char_indices().nth(SHORT_COMMAND - 1) {
        Some((at, c)) if !whole && at + c.len_utf8() < command.len() => format!("{}…", &command[..at]),
        _ => command,
    };
    let created = time::format(entry.started);
    json!({
        "ID": id,
        "Image": entry.image.as_deref().map(plain).unwrap_or_default(),
        "Command": format!("\"{command}\""),
        "CreatedAt": created,
        "RunningFor": human::age(Some(&created)),
        "Pid": entry.pid.to_string(),
        "Ports": plain(&entry.ports.join(", ")),
        "Names": entry.name.as_deref().map(plain).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_short_and_harmless() {
        let words = ["sleep", "\x1b[31m1000000000000"].map(|word| word.as_bytes().to_vec());
        let entry =
            Entry::new("0123456789abcdef".repeat(4), None, Some("debian".into()), &words, vec!["80/tcp".into()]);
        let short = row(&entry, false);
        assert_eq!(short["ID"], "0123456789ab");
        assert_eq!(short["Command"], "\"sleep  [31m10000000…\"");
        assert_eq!(
            (&short["Names"], &short["Ports"], &short["Image"]),
            (&json!(""), &json!("80/tcp"), &json!("debian"))
        );
        assert!(short["RunningFor"].as_str().unwrap().ends_with(" ago"));
        let whole = row(&entry, true);
        assert_eq!(whole["ID"], "0123456789abcdef".repeat(4));
        assert_eq!(whole["Command"], "\"sleep  [31m1000000000000\"");
    }
}
