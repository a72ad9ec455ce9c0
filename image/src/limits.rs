//! Limits of what archives and registries may offer.

/// Largest manifest or index in bytes, as registries have it.
pub(crate) const MANIFEST: u64 = 4 << 20;
/// Largest configuration in bytes.
pub(crate) const CONFIG: u64 = 8 << 20;
/// Most layers of an image.
pub(crate) const LAYERS: usize = 500;
/// Most images in an archive or index.
pub(crate) const IMAGES: usize = 1000;
/// Most files in an archive of images.
pub(crate) const FILES: usize = 20_000;
/// Deepest nesting of indexes.
pub(crate) const NESTING: usize = 4;
/// Default of [`Limits::size`].
pub const DEFAULT_SIZE: u64 = 64 << 30;

/// Limits that a user may raise.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes that an archive or the layers of an image may have, packed or unpacked.
    pub size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { size: DEFAULT_SIZE }
    }
}
