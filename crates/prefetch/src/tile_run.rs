//! The position of a run of neighbouring pages in a tile. A tile is a rectangular block of a
//! matrix; each row of the tile is a run.

use crate::page::Page;

/// A run of neighbouring pages, with its position in its tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TileRun {
    /// The first page of the run, or the page after its highest page if the run descends.
    pub(super) start: Page,
    /// The start of the first run of the tile.
    pub(super) tile_start: Page,
    /// The position of the run in the tile, counted from 1.
    pub(super) number: u64,
}
