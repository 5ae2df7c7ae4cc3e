//! Tests that fragmented free frames are made contiguous.

use super::{
    super::{Settings, frame_pool::Frame},
    Simulation,
};
use interleaf_prefetch::{Limits, page::Page};
use std::mem;

impl Simulation {
    /// Moves the memory of free frames. The simulation calls this at once, because the fault server
    /// also moves the memory before any later action.
    pub(super) fn move_memory(&mut self, from: Frame, to: Frame, order: u8) {
        for at in 0..1 << order {
            let content = self.frames[(from + at) as usize].take();
            assert!(content.is_some(), "free frames have memory");
            let of_mapped = mem::replace(&mut self.frames[(to + at) as usize], content);
            assert!(of_mapped.is_none(), "the frames of a mapped extent have no memory");
            self.moved_memory += 1;
        }
    }
}

/// Faults on single pages in random order fragment the free frames. A loop over other pages must
/// then make free frames contiguous: in its last pass, the extents that it maps have at least 24
/// pages in the mean.
#[test]
fn a_loop_makes_fragmented_frames_contiguous() {
    let frames = 32_768;
    let settings = Settings { frames, order: 0, prefetch: Limits { initial: 16, max: 512 } };
    let pages = 3 * frames as usize;
    let mut simulation = Simulation::new(settings, pages, 1, 1);
    for _ in 0..3 * frames {
        let page = simulation.below(frames as usize) as Page;
        simulation.touch(0, page, true);
        simulation.settle();
    }
    let (mut loaded, mut extents) = (0, 0);
    for round in 0..8 {
        let before = (simulation.cache.counts().read, simulation.moved_in);
        for page in Page::from(frames)..pages as Page {
            simulation.touch(0, page, round == 0);
            simulation.settle();
        }
        loaded = simulation.cache.counts().read - before.0;
        extents = simulation.moved_in - before.1;
    }
    assert!(simulation.moved_memory > 0);
    assert!(loaded / extents >= 24, "{loaded} pages in {extents} extents");
}
