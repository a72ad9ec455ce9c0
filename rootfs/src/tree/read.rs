//! Small files of the tree, for what a command line needs to know of an image (users and groups).

use super::{Body, Tree, walk::Last};
use crate::{
    error::{Error, Fault, Limit},
    path,
};

impl Tree {
    /// The content of a regular file; links are followed inside the tree. `None`: there is no regular file.
    ///
    /// # Errors
    ///
    /// The file has more than `most` bytes, or the image cannot be read.
    pub fn read_file(&mut self, file: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
        let refuse = |fault: Fault| fault.of(file.as_bytes());
        let names = path::names(file.as_bytes(), &self.limits).map_err(refuse)?;
        let Some(id) = self.find(&names, Last::Follow).map_err(refuse)? else { return Ok(None) };
        let Tree { inodes, spool, .. } = self;
        let Some(Some(Body::File { size, place })) = inodes.get(id as usize).map(|i| i.as_ref().map(|i| &i.body))
        else {
            return Ok(None);
        };
        if *size > most {
            return Err(refuse(Fault::Limit(Limit::File(most))));
        }
        let mut content = vec![0; *size as usize];
        spool.read(place, *size, 0, &mut content)?;
        Ok(Some(content))
    }
}
