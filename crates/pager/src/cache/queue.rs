//! Queues of extents: doubly linked lists, from which any extent can be removed in constant time.

use crate::cache::index::ExtentId;

const NONE: ExtentId = ExtentId::MAX;

/// The links of all queues. One entry for each extent is enough, because an extent is in at most
/// one queue.
#[derive(Clone, Debug, Default)]
pub struct Links(Vec<QueueLink>);

#[derive(Clone, Copy, Debug)]
struct QueueLink {
    before: ExtentId,
    behind: ExtentId,
}

/// A queue of extents, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct ExtentQueue {
    first: ExtentId,
    last: ExtentId,
}

impl Default for ExtentQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl ExtentQueue {
    pub const fn new() -> Self {
        Self { first: NONE, last: NONE }
    }

    /// The oldest extent.
    pub fn first(&self) -> Option<ExtentId> {
        (self.first != NONE).then_some(self.first)
    }

    /// The newest extent.
    pub fn last(&self) -> Option<ExtentId> {
        (self.last != NONE).then_some(self.last)
    }

    /// Appends an extent that is in no queue.
    pub fn push(&mut self, links: &mut Links, id: ExtentId) {
        let at = id as usize;
        if links.0.len() <= at {
            links.0.resize(at + 1, QueueLink { before: NONE, behind: NONE });
        }
        links.0[at] = QueueLink { before: self.last, behind: NONE };
        match self.last {
            NONE => self.first = id,
            last => links.0[last as usize].behind = id,
        }
        self.last = id;
    }

    /// Removes an extent that is in this queue.
    pub fn remove(&mut self, links: &mut Links, id: ExtentId) {
        let QueueLink { before, behind } = links.0[id as usize];
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
        fn extents_leave_in_order_or_from_the_middle(
            steps in proptest::collection::vec(0_u32..20, 0..200),
        ) {
            let (mut links, mut queue) = (Links::default(), ExtentQueue::new());
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
