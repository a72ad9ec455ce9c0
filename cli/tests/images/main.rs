//! The commands for images: archives of other tools, hostile archives, removal, interruptions.

mod archives;
mod copy;
mod copy_in;
mod damaged;
mod hostile;
mod import;
mod interrupted;
mod names;
mod registry;
mod support;
