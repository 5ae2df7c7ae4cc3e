//! Channels without thread-local variables. A channel of the standard library registers a
//! thread-local destructor for the waiting thread. For this, the C library takes the lock of the
//! dynamic loader, which can deadlock (see the documentation of the crate).

use crate::lock;
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

#[derive(Debug)]
struct Queue<T> {
    values: VecDeque<T>,
    is_closed: bool,
}

#[derive(Debug)]
struct Channel<T> {
    queue: Mutex<Queue<T>>,
    changed: Condvar,
}

/// The sending end of a channel. Dropping it closes the channel.
#[derive(Debug)]
pub struct Sender<T>(Arc<Channel<T>>);

/// The receiving end of a channel. Any number of threads may have clones of it. Each value is
/// received only once.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Channel<T>>);

/// Creates a channel, and returns its two ends.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let queue = Mutex::new(Queue { values: VecDeque::new(), is_closed: false });
    let channel = Arc::new(Channel { queue, changed: Condvar::new() });
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

impl<T> Sender<T> {
    /// Sends a value. If no receiver takes it, it is dropped with the channel.
    pub fn send(&self, value: T) {
        lock(&self.0.queue).values.push_back(value);
        self.0.changed.notify_one();
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        lock(&self.0.queue).is_closed = true;
        self.0.changed.notify_all();
    }
}

impl<T> Receiver<T> {
    /// Waits for a value. Returns `None` if the channel is empty and closed.
    pub fn receive(&self) -> Option<T> {
        let mut queue = lock(&self.0.queue);
        loop {
            if let Some(value) = queue.values.pop_front() {
                return Some(value);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn each_value_is_received_once_and_then_the_end() {
        let (sender, receiver) = channel();
        let sums: Vec<_> = (0..4)
            .map(|_| {
                let receiver = receiver.clone();
                thread::spawn(move || std::iter::from_fn(|| receiver.receive()).sum::<u64>())
            })
            .collect();
        (1..=1000).for_each(|value| sender.send(value));
        drop(sender);
        let sums = sums.into_iter().map(|thread| thread.join().unwrap_or(0));
        assert_eq!(sums.sum::<u64>(), 500_500);
        assert_eq!(receiver.receive(), None);
    }
}
