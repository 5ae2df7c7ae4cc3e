//! A request to stop, which work that takes long looks at.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that is set once, from any thread. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks for the end.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
