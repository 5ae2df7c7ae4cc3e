//! `drain SOCKET DURATION`
//!
//! Listens to a feed ([`crate::feed`]) for at least DURATION, and then until all tiers have the
//! same number of lines. Prints the sum of the traffic for each domain and tier:
//!
//! ```text
//! fed 2.013 20 {"domain":0,"tier":0,"read_bytes":580,"written_bytes":420}
//! drained
//! ```
//!
//! The first number is the time in seconds from the first to the last line of this domain and tier,
//! by the time stamps of the lines, or by their arrival if the lines have no time stamps. The
//! second number counts the lines after the first. The JSON object is the sum of the counted lines.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixListener,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    feed::{self, Fed},
    step::Millis,
};

/// Time limit of a wait for the next line.
const PATIENCE: Duration = Duration::from_secs(30);

/// The sum of the lines of a single domain and tier.
struct TierSum {
    /// Times of the first and the last line by `CLOCK_MONOTONIC`, ns.
    first: u64,
    last: u64,
    /// Number of lines after the first line.
    lines: usize,
    fed: Fed,
}

/// Runs the program. `args` excludes the program's name.
pub fn main(args: impl Iterator<Item = String>, out: &mut impl Write) -> ExitCode {
    let args: Vec<String> = args.collect();
    let done = match &args[..] {
        [socket, duration] => match duration.parse::<Millis>() {
            Ok(duration) => drain(Path::new(socket), duration.duration(), out),
            Err(why) => Err(io::Error::other(why)),
        },
        _ => Err(io::Error::other("where, and how long? write for example /tmp/feed.sock 2s")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If stdout is closed, an error message cannot be delivered.
            let _ = writeln!(out, "drain: {why}");
            ExitCode::FAILURE
        }
    }
}

fn drain(socket: &Path, duration: Duration, out: &mut impl Write) -> io::Result<()> {
    // A killed instance of `drain` leaves its socket behind, and `bind` would fail on this socket.
    if socket.exists() {
        fs::remove_file(socket)?;
    }
    let listener = UnixListener::bind(socket)?;
    let sums = sums(&listener, duration);
    fs::remove_file(socket)?;
    for sum in sums?.values() {
        let seconds = Duration::from_nanos(sum.last.saturating_sub(sum.first)).as_secs_f64();
        writeln!(out, "fed {seconds:.3} {} {}", sum.lines, serde_json::to_string(&sum.fed)?)?;
    }
    writeln!(out, "drained")
}

/// Sums the traffic that the first client reports for at least `duration`, by domain and tier.
fn sums(
    listener: &UnixListener,
    duration: Duration,
) -> io::Result<BTreeMap<(usize, usize), TierSum>> {
    let (client, _) = listener.accept()?;
    client.set_read_timeout(Some(PATIENCE))?;
    let begun = Instant::now();
    let mut sums: BTreeMap<(usize, usize), TierSum> = BTreeMap::new();
    for line in BufReader::new(client).lines() {
        let line = line?;
        let fed: Fed = serde_json::from_str(&line)
            .map_err(|why| io::Error::other(format!("{why}, in the line {line}")))?;
        let now = fed.time_ns.unwrap_or_else(feed::time_ns);
        sums.entry((fed.domain, fed.tier))
            .and_modify(|sum| {
                sum.last = now;
                sum.lines += 1;
                // The first line is left out, because it counts traffic from before the connection.
                if sum.lines == 1 { sum.fed = fed } else { sum.fed.add(&fed) }
            })
            .or_insert(TierSum { first: now, last: now, lines: 0, fed });
        // Stop only when all tiers have the same number of lines, so that their time spans are
        // equal.
        let lines = sums.values().next().map_or(0, |sum| sum.lines);
        if begun.elapsed() >= duration && sums.values().all(|sum| sum.lines == lines) {
            return Ok(sums);
        }
    }
    Err(io::Error::other("the client went away"))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixStream, thread};

    use super::*;

    #[test]
    fn fed_traffic_is_summed() {
        let socket = std::env::temp_dir().join(format!("interleaf-drain-{}", std::process::id()));
        let listener = UnixListener::bind(&socket).unwrap();
        let path = socket.clone();
        let client = thread::spawn(move || {
            let mut stream = UnixStream::connect(path).unwrap();
            for step in 1.. {
                for tier in [0, 1] {
                    let line = format!(
                        "{{\"domain\":0,\"tier\":{tier},\"read_bytes\":{step},\
                         \"written_bytes\":{tier}}}\n"
                    );
                    // The write fails when the listener has closed the connection.
                    if stream.write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
                thread::sleep(Duration::from_millis(60));
            }
        });
        let sums = sums(&listener, Duration::from_millis(600)).unwrap();
        fs::remove_file(&socket).unwrap();
        assert_eq!(sums.len(), 2);
        for ((_, tier), sum) in sums {
            assert!(sum.lines >= 1 && sum.last > sum.first);
            // The first line of a tier is left out, because it counts traffic from before the
            // connection.
            assert_eq!(sum.fed.read_bytes, (2..=sum.lines as u64 + 1).sum::<u64>());
            assert_eq!(sum.fed.written_bytes, (sum.lines * tier) as u64);
        }
        client.join().unwrap();
    }

    #[test]
    fn wrong_arguments_are_reported() {
        for wrong in [&["/tmp/x"][..], &["/tmp/x", "5"]] {
            let mut out = vec![];
            let _ = main(wrong.iter().map(ToString::to_string), &mut out);
            assert!(String::from_utf8(out).unwrap().starts_with("drain: "), "{wrong:?}");
        }
    }
}
