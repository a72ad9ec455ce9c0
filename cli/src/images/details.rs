//! `hull inspect` and `hull history`.

use super::args::{HistoryArgs, InspectArgs};
use super::table::{Columns, render};
use super::template::Template;
use super::{EXIT_IMAGES, complain, human, print};
use crate::failure::{Failure, Result};
use image::{Details, Reference};
use serde::Serialize;
use serde_json::{Value, json};

const COLUMNS: Columns<'static> = &[
    ("IMAGE", "ID"),
    ("CREATED", "CreatedSince"),
    ("CREATED BY", "CreatedBy"),
    ("SIZE", "Size"),
    ("COMMENT", "Comment"),
];
/// Longest text of `CREATED BY`.
const LONGEST: usize = 45;

/// `hull inspect`.
pub fn inspect(args: &InspectArgs) -> Result<u8> {
    let store = args.store.open()?;
    let template = match args.format.as_deref() {
        None | Some("json") => None,
        Some(text) => Some(Template::parse(text)?),
    };
    let (mut found, mut code) = (Vec::new(), 0);
    for name in &args.images {
        match store.inspect(name).map_err(Failure::from).and_then(|details| object(&details)) {
            Ok(object) => found.push(object),
            Err(error) => {
                complain(&error.to_string());
                code = EXIT_IMAGES;
            }
        }
    }
    match (template, &args.format) {
        (Some(template), _) => {
            for object in &mut found {
                complete(object);
                print(&(template.fill(object)? + "\n"));
            }
        }
        (None, Some(_)) => print(&format!("{}\n", Value::from(found))),
        (None, None) => print(&pretty(&Value::from(found))),
    }
    Ok(code)
}

/// JSON with four spaces of indentation.
fn pretty(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    // A value in memory is always JSON.
    let _ = value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, formatter));
    bytes.push(b'\n');
    String::from_utf8_lossy(&bytes).into_owned()
}

fn config(details: &Details) -> Result<Value> {
    serde_json::from_slice(&details.config).map_err(|error| {
        Failure::request(details.id.to_string(), error, "the image is damaged: remove it with hull rmi -f")
    })
}

/// What docker prints of an image.
fn object(details: &Details) -> Result<Value> {
    let config = config(details)?;
    let names = |with_tag: bool| {
        let names = details.names.iter().filter(|name| name.tag().is_some() == with_tag);
        Value::from(names.map(Reference::familiar).collect::<Vec<_>>())
    };
    let mut object = json!({
        "Id": details.id.to_string(),
        "RepoTags": names(true),
        "RepoDigests": names(false),
        "Architecture": config["architecture"],
        "Os": config["os"],
        "Size": details.size,
        "Config": config["config"],
        "RootFS": {
            "Type": "layers",
            "Layers": details.layers.iter().map(|layer| layer.diff_id.to_string()).collect::<Vec<_>>(),
        },
        "Descriptor": {
            "mediaType": details.media_type,
            "digest": details.manifest.to_string(),
            "size": details.manifest_size,
        },
        "GraphDriver": { "Name": "erofs", "Data": { "File": details.erofs_path.display().to_string() } },
    });
    for (name, field) in [("Created", "created"), ("Author", "author"), ("Variant", "variant")] {
        if !config[field].is_null() {
            object[name] = config[field].clone();
        }
    }
    Ok(object)
}

/// Fields of docker's `Config` that are texts, lists and maps.
const TEXTS: [&str; 3] = ["User", "WorkingDir", "StopSignal"];
const LISTS: [&str; 4] = ["Cmd", "Entrypoint", "Env", "OnBuild"];
const MAPS: [&str; 3] = ["ExposedPorts", "Labels", "Volumes"];

/// Adds the fields that docker's templates know of each image, though its configuration does not have them.
fn complete(object: &mut Value) {
    let add = |object: &mut Value, name: &str, value: Value| {
        if object[name].is_null() {
            object[name] = value;
        }
    };
    for name in ["Created", "Author", "Variant"] {
        add(object, name, "".into());
    }
    let config = &mut object["Config"];
    if config.is_null() {
        *config = json!({});
    }
    if config.is_object() {
        TEXTS.iter().for_each(|name| add(config, name, "".into()));
        LISTS.iter().for_each(|name| add(config, name, json!([])));
        MAPS.iter().for_each(|name| add(config, name, json!({})));
    }
}

/// `hull history`.
pub fn history(args: &HistoryArgs) -> Result<u8> {
    let details = args.store.open()?.inspect(&args.image)?;
    let config = config(&details)?;
    let id = if args.listing.no_trunc { details.id.to_string() } else { details.id.short() };
    let mut layers = details.layers.iter();
    let mut rows = Vec::new();
    for entry in config["history"].as_array().into_iter().flatten() {
        let layer = if entry["empty_layer"] == true { None } else { layers.next() };
        rows.push(row(entry, layer.map_or(0, |layer| layer.size), args));
    }
    // Layers that the history does not mention.
    rows.extend(layers.map(|layer| row(&Value::Null, layer.size, args)));
    rows.reverse();
    if let Some(newest) = rows.first_mut() {
        newest["ID"] = id.into();
    }
    print(&render(&args.listing, COLUMNS, &rows)?);
    Ok(0)
}

fn row(entry: &Value, size: u64, args: &HistoryArgs) -> Value {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    // Control characters of an image do not reach the terminal.
    let clean = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let mut command = clean(text("created_by"));
    if !args.listing.no_trunc && command.chars().count() > LONGEST {
        command = command.chars().take(LONGEST - 1).chain(['…']).collect();
    }
    json!({
        "ID": "<missing>",
        "CreatedAt": text("created"),
        "CreatedSince": human::age(entry["created"].as_str()),
        "CreatedBy": command,
        "Size": human::size(size),
        "Comment": clean(text("comment")),
    })
}
