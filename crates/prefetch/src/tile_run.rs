//! The position of a run in a tile. A tile is a rectangular block of a matrix; each row of the tile
//! is a run of neighbouring pages.

use crate::page::Page;

/// A run of neighbouring pages, with its position in its tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TileRun {
    /// The first page of the run. If the run descends, this is the page after its highest page.
    pub(super) start: Page,
    /// The start of the first run of the tile.
    pub(super) tile_start: Page,
    /// The position of the run in the tile, counted from 1.
    pub(super) number: u64,
}
