//! Calls on names: attributes, links, extended attributes, space, directories.

pub mod attributes;
pub mod names;
pub mod quota;
pub mod space;
pub mod stat;
pub mod working;
pub mod xattr;
