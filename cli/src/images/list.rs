//! `hull images`.

use super::args::ImagesArgs;
use super::filter::{Filters, matches};
use super::table::{Columns, render};
use super::{complain, human, print};
use crate::failure::Result;
use image::{Digest, Listed, Reference};
use serde_json::{Value, json};

/// What stands for something that an image lacks.
const NONE: &str = "<none>";

const COLUMNS: Columns<'static> = &[
    ("REPOSITORY", "Repository"),
    ("TAG", "Tag"),
    ("DIGEST", "Digest"),
    ("IMAGE ID", "ID"),
    ("CREATED", "CreatedSince"),
    ("SIZE", "Size"),
];

/// `hull images`.
pub fn images(args: &ImagesArgs) -> Result<u8> {
    let listed = args.store.open()?.list()?;
    let (pattern, name) = match args.name.as_deref() {
        Some(text) if text.contains(['*', '?']) => (Some(text), None),
        name => (None, name),
    };
    let wanted = name.map(|name| Reference::parse(name).map(|parsed| (name, parsed))).transpose()?;
    let filters = Filters::new(&args.filter, &listed)?;
    let mut rows = Vec::new();
    for image in &listed {
        let Some(name) = &image.name else {
            if args.name.is_none() && filters.accept(image, None) {
                rows.push(row(image, None, None, args));
            }
            continue;
        };
        let digest = listed.iter().filter(|other| other.manifest == image.manifest).find_map(|other| {
            other.name.as_ref().filter(|other| other.repository() == name.repository()).and_then(Reference::digest)
        });
        // A name with a digest stands in the row of the tag of the same repository and image.
        let has_tag = |other: &Listed| {
            other.manifest == image.manifest
                && other.name.as_ref().is_some_and(|it| it.tag().is_some() && it.repository() == name.repository())
        };
        if name.tag().is_none() && listed.iter().any(has_tag) {
            continue;
        }
        // A name without a tag means all tags.
        let is_wanted = wanted.as_ref().is_none_or(|(text, parsed)| {
            let all_tags = !text.contains('@') && !text.rsplit('/').next().unwrap_or_default().contains(':');
            parsed.repository() == name.repository() && (all_tags || parsed == name)
        });
        let is_wanted = is_wanted && pattern.is_none_or(|pattern| matches(name, pattern));
        if is_wanted && filters.accept(image, Some(name)) {
            rows.push(row(image, Some(name), digest, args));
        }
        if image.is_damaged {
            complain(&format!(
                "warning: {}: files of this image are missing; remove it with hull rmi",
                name.familiar()
            ));
        }
    }
    let columns: Vec<_> = COLUMNS.iter().copied().filter(|(_, name)| args.digests || *name != "Digest").collect();
    print(&render(&args.listing, &columns, &rows)?);
    Ok(0)
}

fn row(image: &Listed, name: Option<&Reference>, digest: Option<Digest>, args: &ImagesArgs) -> Value {
    let id = if args.listing.no_trunc { image.id.to_string() } else { image.id.short() };
    json!({
        "Repository": name.map_or(NONE.to_owned(), Reference::repository),
        "Tag": name.and_then(Reference::tag).unwrap_or(NONE),
        "Digest": digest.map_or(NONE.to_owned(), |digest| digest.to_string()),
        "ID": id,
        "CreatedAt": human::date(image.created.as_deref()),
        "CreatedSince": human::age(image.created.as_deref()),
        "Size": human::size(image.size),
    })
}
