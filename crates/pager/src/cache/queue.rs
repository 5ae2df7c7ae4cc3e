//! Extents in an order, from which any can be taken out at once.

use crate::cache::index::ExtentId;

const NONE: ExtentId = ExtentId::MAX;

/// The neighbours of all extents in the queue that each is in: an extent is in one at most.
#[derive(Clone, Debug, Default)]
pub struct Links(Vec<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    before: ExtentId,
    behind: ExtentId,
}

/// A queue of extents.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    first: ExtentId,
    last: ExtentId,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// An empty one.
    pub const fn new() -> Self {
        Self { first: NONE, last: NONE }
    }

    /// The first.
    pub fn first(&self) -> Option<ExtentId> {
        (self.first != NONE).then_some(self.first)
    }

    /// Puts an extent that is in no queue at the end.
    pub fn push(&mut self, links: &mut Links, id: ExtentId) {
        let at = id as usize;
        if links.0.len() <= at {
            links.0.resize(at + 1, Link { before: NONE, behind: NONE });
        }
        links.0[at] = Link { before: self.last, behind: NONE };
        match self.last {
            NONE => self.first = id,
            last => links.0[last as usize].behind = id,
        }
        self.last = id;
    }

    /// Takes out an extent that is in this queue.
    pub fn remove(&mut self, links: &mut Links, id: ExtentId) {
        let Link { before, behind } = links.0[id as usize];
        match before {
            NONE => self.first = behind,
            before => links.0[before as usize].behind = behind,
        }
        match behind {
            NONE => self.last = before,
            behind => links.0[behind as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec(0_u32..20, 0..200)) {
            let (mut links, mut queue) = (Links::default(), Queue::new());
            let mut model = VecDeque::new();
            for id in steps {
                if model.contains(&id) {
                    queue.remove(&mut links, id);
                    model.retain(|other| *other != id);
                } else {
                    queue.push(&mut links, id);
                    model.push_back(id);
                }
                prop_assert_eq!(queue.first(), model.front().copied());
            }
            while let Some(id) = model.pop_front() {
                prop_assert_eq!(queue.first(), Some(id));
                queue.remove(&mut links, id);
            }
            prop_assert_eq!(queue.first(), None);
        }
    }
}
