//! A flag by which one thread asks another to end a long operation early.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that any thread can set once. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Requests that the operation ends early.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once a stop has been requested.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
