//! Copy-on-write snapshots: which layer holds each page of a program and of its forked children.
//!
//! A child begins with its parent's pages, which are not copied: all stored pages are *frozen*,
//! which means that neither process changes them in place. From then on, each process writes
//! changed pages to a layer of its own. In this example, the layer that holds a page is in
//! brackets:
//!
//! ```text
//!            parent          child
//! page 0   [1] frozen      [1] frozen     changed by neither process since
//! page 1   [2]             [1] frozen     changed by the parent
//! page 2   [2]             [2]            changed by both, each in its own layer 2
//! ```
//!
//! When all other processes that use a frozen layer have ended, the layer is *thawed*: the last
//! process again changes its remaining pages of this layer in place.
//!
//! Space is allocated and freed in units of some MiB, so that a file has few extents.

use crate::Page;
use std::ops::Range;

/// The 1-based number of a layer; 0 means no layer.
pub type Layer = u8;

const NOWHERE: Layer = 0;

/// The layer that holds each page, and the state of each layer.
#[derive(Clone, Debug)]
pub struct Layers {
    /// The layer of each page, indexed by page.
    of: Vec<Layer>,
    layers: Vec<LayerUse>,
    unit_pages: u64,
}

#[derive(Clone, Debug, Default)]
struct LayerUse {
    is_frozen: bool,
    is_in_use: bool,
    pages: u64,
    /// Number of pages of the layer in each allocation unit, indexed by the unit.
    units: Vec<u32>,
}

/// Neighbouring pages that are all in one layer, or that no layer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRun {
    /// The layer that holds all of the pages; `None` if no layer holds them.
    pub layer: Option<Layer>,
    pub pages: Range<Page>,
}

/// Neighbouring pages whose space in a layer is allocated together, when the first of them is
/// written, and freed together, when the last of them is erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationUnit {
    pub layer: Layer,
    /// The index of the unit in the layer: the unit's first page divided by the pages per unit.
    pub index: u64,
}

impl Layers {
    /// The layers of a process without stored pages: one writable layer.
    pub fn new(unit_pages: u64) -> Self {
        let top = LayerUse { is_in_use: true, ..LayerUse::default() };
        Self { of: vec![], layers: Vec::from([top]), unit_pages }
    }

    /// Splits `pages`, which are about to be read, into runs of pages that are in the same layer.
    pub fn read(&self, pages: Range<Page>) -> Vec<LayerRun> {
        runs(pages, |page| self.layer(page))
    }

    /// Prepares a write to `pages`: new pages, and pages in frozen layers, move to the writable
    /// layer. Returns `pages`, split into runs of pages that are in the same layer. Appends
    /// allocation units that become used to `units`.
    pub fn write(&mut self, pages: Range<Page>, units: &mut Vec<AllocationUnit>) -> Vec<LayerRun> {
        if self.of.len() < pages.end as usize {
            self.of.resize(pages.end as usize, NOWHERE);
        }
        let top = self.top();
        for page in pages.clone() {
            let layer = self.layer(page);
            let stays = layer != NOWHERE && !self.layers[usize::from(layer) - 1].is_frozen;
            if !stays {
                self.leave(page, &mut vec![]);
                self.enter(page, top, units);
            }
        }
        runs(pages, |page| self.layer(page))
    }

    /// Erases pages. Appends allocation units that become unused to `units`.
    pub fn erase(&mut self, pages: Range<Page>, units: &mut Vec<AllocationUnit>) {
        for page in pages.start..pages.end.min(self.of.len() as Page) {
            self.leave(page, units);
        }
    }

    /// Freezes all layers that have pages, for a child that is about to be forked. Returns
    /// `Some(Some(layer))` if a new writable layer was added, `Some(None)` if an empty writable
    /// layer existed already, and `None` if there are too many layers.
    pub fn fork(&mut self) -> Option<Option<Layer>> {
        let is_empty = |layer: &LayerUse| layer.is_in_use && !layer.is_frozen && layer.pages == 0;
        let new = if !self.layers.iter().any(is_empty) {
            let free = self.layers.iter().position(|layer| !layer.is_in_use);
            let new = free.unwrap_or(self.layers.len());
            let name = Layer::try_from(new + 1).ok()?;
            if new == self.layers.len() {
                self.layers.push(LayerUse::default());
            }
            self.layers[new] = LayerUse { is_in_use: true, ..LayerUse::default() };
            Some(name)
        } else {
            None
        };
        for layer in &mut self.layers {
            layer.is_frozen |= layer.pages > 0;
        }
        Some(new)
    }

    /// Returns the layers of a child, and the number of its writable layer. The child has all
    /// frozen layers, and one writable layer for its own writes. Must be called right after
    /// [`Layers::fork`].
    pub fn child(&self) -> (Self, Layer) {
        let mut child = self.clone();
        for layer in child.layers.iter_mut().filter(|layer| !layer.is_frozen) {
            *layer = LayerUse::default();
        }
        let own = self.top();
        child.layers[usize::from(own) - 1].is_in_use = true;
        (child, own)
    }

    /// Makes the remaining pages of a frozen layer writable again, after all other processes that
    /// use the layer have ended. Appends the unused allocation units of the layer to `units`.
    pub fn thaw(&mut self, layer: Layer, units: &mut Vec<AllocationUnit>) {
        let of = &mut self.layers[usize::from(layer) - 1];
        of.is_frozen = false;
        let is_unused = |(_, pages): &(usize, &u32)| **pages == 0;
        let unused = of.units.iter().enumerate().filter(is_unused);
        units.extend(unused.map(|(unit, _)| AllocationUnit { layer, index: unit as u64 }));
    }

    /// The frozen layers, each with a flag: true if this process still has pages in the layer.
    pub fn frozen(&self) -> Vec<(Layer, bool)> {
        let layers = self.layers.iter().zip(1..).filter(|(layer, _)| layer.is_frozen);
        layers.map(|(layer, name)| (name, layer.pages > 0)).collect()
    }

    /// All layers in use.
    pub fn in_use(&self) -> Vec<Layer> {
        let layers = self.layers.iter().zip(1..).filter(|(layer, _)| layer.is_in_use);
        layers.map(|(_, name)| name).collect()
    }

    /// Returns two layers that can be merged. The first is the smallest layer with pages: its pages
    /// can move. The second is the largest layer that is not frozen: the pages can move to it.
    /// `None` if no two such layers exist.
    pub fn mergeable(&self) -> Option<(Layer, Layer)> {
        let in_use = || (1..).zip(&self.layers).filter(|(_, layer)| layer.is_in_use);
        let open = in_use().filter(|(_, layer)| !layer.is_frozen);
        let (to, _) = open.max_by_key(|(_, layer)| layer.pages)?;
        let others = in_use().filter(|(name, layer)| *name != to && layer.pages > 0);
        others.min_by_key(|(_, layer)| layer.pages).map(|(from, _)| (from, to))
    }

    /// The pages in a layer, as ranges of neighbouring pages.
    pub fn pages_of(&self, layer: Layer) -> Vec<Range<Page>> {
        let mut found = runs(0..self.of.len() as Page, |page| self.layer(page));
        found.retain(|run| run.layer == Some(layer));
        found.into_iter().map(|run| run.pages).collect()
    }

    /// Moves pages to the layer `to`, which is not frozen. The caller has already copied the
    /// content of the pages to the files of `to`. Appends allocation units that become unused to
    /// `left`.
    pub fn move_pages(&mut self, pages: Range<Page>, to: Layer, left: &mut Vec<AllocationUnit>) {
        for page in pages {
            self.leave(page, left);
            self.enter(page, to, &mut vec![]);
        }
    }

    /// Removes a layer without pages. If the layer is not frozen, another layer that is not frozen
    /// must exist.
    pub fn remove(&mut self, layer: Layer) {
        self.layers[usize::from(layer) - 1] = LayerUse::default();
    }

    fn layer(&self, page: Page) -> Layer {
        self.of.get(page as usize).copied().unwrap_or(NOWHERE)
    }

    /// The layer for new pages: the first layer that is not frozen. Such a layer always exists,
    /// because `fork` leaves an empty layer unfrozen, or adds one.
    fn top(&self) -> Layer {
        let is_open = |layer: &LayerUse| layer.is_in_use && !layer.is_frozen;
        self.layers.iter().position(is_open).map_or(NOWHERE, |at| at as Layer + 1)
    }

    fn enter(&mut self, page: Page, layer: Layer, units: &mut Vec<AllocationUnit>) {
        let unit = page / self.unit_pages;
        let in_layer = &mut self.layers[usize::from(layer) - 1];
        if in_layer.units.len() <= unit as usize {
            in_layer.units.resize(unit as usize + 1, 0);
        }
        if in_layer.units[unit as usize] == 0 {
            units.push(AllocationUnit { layer, index: unit });
        }
        in_layer.units[unit as usize] += 1;
        in_layer.pages += 1;
        self.of[page as usize] = layer;
    }

    fn leave(&mut self, page: Page, units: &mut Vec<AllocationUnit>) {
        let layer = std::mem::replace(&mut self.of[page as usize], NOWHERE);
        if layer == NOWHERE {
            return;
        }
        let unit = page / self.unit_pages;
        let in_layer = &mut self.layers[usize::from(layer) - 1];
        in_layer.pages -= 1;
        in_layer.units[unit as usize] -= 1;
        // The unit's space in a frozen layer stays allocated, even without pages of this process:
        // other processes may have pages in the unit.
        if in_layer.units[unit as usize] == 0 && !in_layer.is_frozen {
            units.push(AllocationUnit { layer, index: unit });
        }
    }
}

fn runs(pages: Range<Page>, layer: impl Fn(Page) -> Layer) -> Vec<LayerRun> {
    let mut runs: Vec<LayerRun> = vec![];
    for page in pages {
        let layer = Some(layer(page)).filter(|layer| *layer != NOWHERE);
        match runs.last_mut() {
            Some(run) if run.layer == layer => run.pages.end = page + 1,
            _ => runs.push(LayerRun { layer, pages: page..page + 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn run(layer: Option<Layer>, pages: Range<Page>) -> LayerRun {
        LayerRun { layer, pages }
    }

    #[test]
    fn frozen_pages_do_not_change() {
        let (mut parent, mut units) = (Layers::new(8), vec![]);
        assert_eq!(parent.write(0..4, &mut units), [run(Some(1), 0..4)]);
        assert_eq!(units, [AllocationUnit { layer: 1, index: 0 }]);
        assert_eq!(parent.fork(), Some(Some(2)));
        let child = parent.clone();
        assert_eq!(parent.write(1..3, &mut units), [run(Some(2), 1..3)]);
        assert_eq!(parent.fork(), Some(Some(3)));
        assert_eq!(
            parent.read(0..6),
            [run(Some(1), 0..1), run(Some(2), 1..3), run(Some(1), 3..4), run(None, 4..6)]
        );
        assert_eq!(child.read(0..4), [run(Some(1), 0..4)]);
        units.clear();
        parent.erase(0..4, &mut units);
        assert_eq!(units, [], "others need what is frozen");
        assert_eq!(parent.frozen(), [(1, false), (2, false)]);
        parent.thaw(1, &mut units);
        assert_eq!(units, [AllocationUnit { layer: 1, index: 0 }]);
        assert_eq!(parent.fork(), Some(None), "there is nothing to share");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(Range<Page>),
        Erase(Range<Page>),
        Fork,
        Thaw,
        Merge,
    }

    fn step() -> impl Strategy<Value = Step> {
        let pages = || (0_u64..60, 1_u64..20).prop_map(|(start, count)| start..start + count);
        prop_oneof![
            4 => pages().prop_map(Step::Write),
            2 => pages().prop_map(Step::Erase),
            1 => Just(Step::Fork),
            1 => Just(Step::Thaw),
            1 => Just(Step::Merge),
        ]
    }

    /// A simulated process. Each of its layers is a file; a frozen layer is the same file for
    /// several processes.
    struct Process {
        layers: Layers,
        files: BTreeMap<Layer, usize>,
        expected: BTreeMap<Page, u32>,
    }

    /// Simulated processes, each a child of an earlier one, and the files of all processes.
    struct World {
        processes: Vec<Process>,
        files: Vec<BTreeMap<Page, u32>>,
        written: u32,
    }

    impl World {
        fn new() -> Self {
            let first = Process {
                layers: Layers::new(8),
                files: [(1, 0)].into_iter().collect(),
                expected: BTreeMap::new(),
            };
            let (processes, files) = (Vec::from([first]), Vec::from([BTreeMap::new()]));
            Self { processes, files, written: 0 }
        }

        fn write(&mut self, at: usize, pages: Range<Page>) {
            let process = &mut self.processes[at];
            for run in process.layers.write(pages, &mut vec![]) {
                let file = process.files[&run.layer.unwrap()];
                for page in run.pages {
                    self.written += 1;
                    self.files[file].insert(page, self.written);
                    process.expected.insert(page, self.written);
                }
            }
        }

        fn erase(&mut self, at: usize, pages: &Range<Page>) {
            let (process, mut units) = (&mut self.processes[at], vec![]);
            process.layers.erase(pages.clone(), &mut units);
            for unit in units {
                let gone = unit.index * 8..unit.index * 8 + 8;
                let file = &mut self.files[process.files[&unit.layer]];
                file.retain(|page, _| !gone.contains(page));
            }
            process.expected.retain(|page, _| !pages.contains(page));
        }

        fn fork(&mut self, at: usize) {
            let process = &mut self.processes[at];
            let Some(new) = process.layers.fork() else { return };
            let (layers, own) = process.layers.child();
            let in_use = layers.in_use();
            let mut files = process.files.clone();
            files.retain(|layer, _| in_use.contains(layer));
            files.insert(own, self.files.len());
            self.files.push(BTreeMap::new());
            if let Some(new) = new {
                process.files.insert(new, self.files.len());
                self.files.push(BTreeMap::new());
            }
            let child = Process { layers, files, expected: process.expected.clone() };
            self.processes.push(child);
        }

        fn thaw(&mut self, at: usize) {
            for (layer, has_pages) in self.processes[at].layers.frozen() {
                let file = self.processes[at].files[&layer];
                let has = |other: &&Process| other.files.values().any(|of| *of == file);
                let users = self.processes.iter().filter(has).count();
                let process = &mut self.processes[at];
                if !has_pages {
                    process.layers.remove(layer);
                    process.files.remove(&layer);
                } else if users == 1 {
                    process.layers.thaw(layer, &mut vec![]);
                }
            }
        }

        fn merge(&mut self, at: usize) {
            let (process, mut left) = (&mut self.processes[at], vec![]);
            let Some((from, to)) = process.layers.mergeable() else { return };
            let (old, new) = (process.files[&from], process.files[&to]);
            for pages in process.layers.pages_of(from) {
                for page in pages.clone() {
                    let content = self.files[old][&page];
                    self.files[new].insert(page, content);
                }
                process.layers.move_pages(pages, to, &mut left);
            }
            for unit in left {
                assert_eq!(unit.layer, from);
                let gone = unit.index * 8..unit.index * 8 + 8;
                self.files[old].retain(|page, _| !gone.contains(page));
            }
            process.layers.remove(from);
            process.files.remove(&from);
        }

        fn holds(&self) {
            for process in &self.processes {
                for LayerRun { layer, pages } in process.layers.read(0..80) {
                    let file = layer.map(|layer| &self.files[process.files[&layer]]);
                    for page in pages {
                        let found = file.map(|file| file[&page]);
                        assert_eq!(found, process.expected.get(&page).copied());
                    }
                }
            }
        }
    }

    proptest! {
        /// Asserts that each process reads the content that it wrote last. A page that it has not
        /// written has the content that its parent had at the fork.
        #[test]
        fn writes_of_one_process_are_invisible_to_others(
            steps in proptest::collection::vec((any::<prop::sample::Index>(), step()), 0..200),
        ) {
            let mut world = World::new();
            for (which, step) in steps {
                let count = world.processes.len();
                let at = which.index(count);
                match step {
                    Step::Write(pages) => world.write(at, pages),
                    Step::Erase(pages) => world.erase(at, &pages),
                    Step::Fork if count < 6 => world.fork(at),
                    Step::Fork if at > 0 => drop(world.processes.swap_remove(at)),
                    Step::Fork => {}
                    Step::Thaw => world.thaw(at),
                    Step::Merge => world.merge(at),
                }
                world.holds();
            }
        }
    }
}
