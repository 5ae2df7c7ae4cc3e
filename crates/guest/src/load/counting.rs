//! Sends the counts of the emulated traffic to the feed at regular intervals, in place of hardware
//! counters.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Emulated, LoadArgs, Reached};
use crate::feed::{Feeder, time_ns};

/// Interval at which the counts are sent to the feed, each time with one line for each tier.
const TICK: Duration = Duration::from_millis(50);

/// Sends the counts of the emulated traffic to the feed, while another thread sweeps the pages.
pub(super) struct Counting<'a> {
    emulated: &'a Emulated,
    speed: f64,
    state: Mutex<State>,
    is_over: AtomicBool,
}

struct State {
    feeder: Option<Feeder>,
    reached: Reached,
    /// Time up to which the traffic is counted in the feed, in ns of [`time_ns`].
    fed_until_ns: u64,
}

impl<'a> Counting<'a> {
    /// Starts to count now, at the bandwidths of `reached`.
    pub(super) fn new(emulated: &'a Emulated, args: &LoadArgs, reached: Reached) -> Self {
        let feeder = args.feed.clone().map(Feeder::new);
        let state = State { feeder, reached, fed_until_ns: time_ns() };
        let (state, is_over) = (Mutex::new(state), AtomicBool::new(false));
        Self { emulated, speed: args.speed, state, is_over }
    }

    /// Sends the counts of the traffic to the feed, a Unix socket, once in each [`TICK`] until
    /// `is_over` is set.
    pub(super) fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(TICK);
            let mut state = self.state();
            self.send(&mut state, time_ns());
        }
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Sends the traffic up to now at the old bandwidths, and uses the bandwidths of `reached` from
    /// now on.
    pub(super) fn set(&self, reached: &Reached) {
        let mut state = self.state();
        self.switch(&mut state, reached, time_ns());
    }

    fn switch(&self, state: &mut State, reached: &Reached, now_ns: u64) {
        self.send(state, now_ns);
        state.reached.clone_from(reached);
    }

    /// Sends the counts of the emulated traffic since the last call to the feed, a Unix socket.
    fn send(&self, state: &mut State, now_ns: u64) {
        let seconds = self.speed * (now_ns - state.fed_until_ns) as f64 * 1e-9;
        state.fed_until_ns = now_ns;
        if let Some(feeder) = &mut state.feeder {
            let mut counted = self.emulated.counted(&state.reached, seconds);
            counted.iter_mut().for_each(|fed| fed.time_ns = Some(now_ns));
            feeder.send(&counted);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        os::unix::net::UnixListener,
        path::Path,
    };

    use super::{super::input, *};
    use crate::feed::Fed;

    fn emulated() -> Emulated {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let platform = root.join("platforms/gnr120-cz122.toml");
        let (platform, measured_on, demand) =
            input::read(&platform, &root.join("workloads/lbm.toml")).unwrap();
        Emulated::new(platform, &measured_on, &demand, 119, &[])
    }

    /// Listens on the socket of a feed. Returns the listener, and the arguments of a load that
    /// sends its traffic to this socket.
    fn listener(test: &str) -> (UnixListener, LoadArgs) {
        let socket = std::env::temp_dir().join(format!("interleaf-{test}-{}", std::process::id()));
        let listener = UnixListener::bind(&socket).unwrap();
        let text = format!(
            "--platform p --demand d --threads 119 --hot 1MiB --speed 2 --feed {}",
            socket.display()
        );
        (listener, LoadArgs::parse(text.split_whitespace().map(String::from)).unwrap())
    }

    #[test]
    fn the_feed_receives_traffic_until_the_end() {
        let emulated = emulated();
        let (listener, args) = listener("counting-run");
        let counting = Counting::new(&emulated, &args, emulated.reached(0, &[1.0, 0.0]));
        thread::scope(|scope| {
            scope.spawn(|| counting.run());
            let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
            let line = lines.next();
            counting.stop();
            let fed: Fed = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
            assert!(fed.time_ns.is_some() && fed.bytes() > 0, "{fed:?}");
        });
        std::fs::remove_file(args.feed.unwrap()).unwrap();
    }

    /// All pages are on the first tier for a while, and then on the second tier. The bytes that are
    /// fed for each tier equal the emulated bandwidth of the tier, multiplied by the time for which
    /// the pages were on the tier.
    #[test]
    fn fed_bytes_are_bandwidth_times_duration() {
        let emulated = emulated();
        let (listener, args) = listener("counting");
        let all_local = emulated.reached(0, &[1.0, 0.0]);
        let all_away = emulated.reached(0, &[0.0, 1.0]);
        let counting = Counting::new(&emulated, &args, all_local.clone());
        let mut state = counting.state();
        let begun = state.fed_until_ns;
        let at = |ms: u64| begun + ms * 1_000_000;
        counting.send(&mut state, at(50));
        counting.send(&mut state, at(101));
        counting.switch(&mut state, &all_away, at(120));
        counting.send(&mut state, at(170));
        counting.send(&mut state, at(240));
        drop(state);
        drop(counting);
        std::fs::remove_file(args.feed.unwrap()).unwrap();
        // For each tier, the bytes that were fed while all pages were on the tier, and the duration
        // of that time, ns.
        let (mut fed_until_ns, mut before) = ([(0, 0); 2], begun);
        for line in BufReader::new(listener.accept().unwrap().0).lines() {
            let fed: Fed = serde_json::from_str(&line.unwrap()).unwrap();
            let until = fed.time_ns.unwrap();
            if fed.bytes() > 0 {
                fed_until_ns[fed.tier].0 += fed.bytes();
                fed_until_ns[fed.tier].1 += until - before;
                before = until;
            }
        }
        for ((bytes, ns), reached) in fed_until_ns.into_iter().zip([&all_local, &all_away]) {
            let ratio = bytes as f64 / (2.0 * ns as f64 * reached.bandwidth_gbps());
            assert!((ratio - 1.0).abs() < 1e-3 && ns == 120_000_000, "{ratio}, {ns} ns");
        }
    }
}
