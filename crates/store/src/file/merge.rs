//! Merging of layers: the pages of a small layer are copied to another layer, and the small layer
//! is removed.
//!
//! A process that forks again and again, and changes pages while its children run, gets a new layer
//! at each fork. Each layer needs a file, and a layer that has pages stays after the children have
//! ended. Merging keeps the number of layers small.

use super::{BLOCK, FileStore, Layer};
use std::{io, ops::Range, os::unix::fs::FileExt};

/// Layers are merged before a fork until at most this number of layers is in use.
pub(super) const LAYERS_MAX: usize = 8;

/// Number of pages that are copied at once.
const COPIED_PAGES: u64 = 32;

/// Memory that is aligned for direct transfers.
#[repr(align(4096))]
struct Buffer([u8; (COPIED_PAGES * BLOCK) as usize]);

impl FileStore {
    /// Merges layers until at most [`LAYERS_MAX`] are in use. Does nothing while a transfer is
    /// outstanding.
    pub(super) fn merge(&mut self) {
        if !self.pending.is_empty() {
            return;
        }
        while self.layers.in_use().len() > LAYERS_MAX
            && let Some((from, to)) = self.layers.mergeable()
            // After an error, for example because the drive is full, pages that were not copied yet
            // stay in their layer.
            && self.move_layer(from, to).is_ok()
        {
            self.layers.remove(from);
            self.files.remove(&from);
        }
    }

    fn move_layer(&mut self, from: Layer, to: Layer) -> io::Result<()> {
        let mut buffer = Box::new(Buffer([0; (COPIED_PAGES * BLOCK) as usize]));
        for run in self.layers.pages_of(from) {
            for start in run.clone().step_by(COPIED_PAGES as usize) {
                let pages = start..run.end.min(start + COPIED_PAGES);
                self.copy(from, to, &pages, &mut buffer.0)?;
                let mut left = vec![];
                self.layers.move_pages(pages, to, &mut left);
                self.free_units(&left);
            }
        }
        Ok(())
    }

    /// Copies the content of pages from the files of the layer `from` to the files of the layer
    /// `to`.
    fn copy(
        &self,
        from: Layer,
        to: Layer,
        pages: &Range<u64>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let [from, to] = [from, to].map(|layer| self.files.get(&layer));
        let (Some(from), Some(to)) = (from, to) else { return Err(io::ErrorKind::NotFound.into()) };
        for part in self.stripes.parts(pages.start * BLOCK..pages.end * BLOCK) {
            let (from, to) = (&from[part.file], &to[part.file]);
            let bytes: u64 = part.of.iter().map(|of| of.end - of.start).sum();
            let content = &mut buffer[..bytes as usize];
            from.file.read_exact_at(content, from.base + part.offset)?;
            to.file.write_all_at(content, to.base + part.offset)?;
        }
        Ok(())
    }
}
