//! `interleaf simulate card --serve`: presents a simulated card to the NVMe driver of a virtual
//! machine's guest.

use crate::args::{CardLoadArgs, LatencyChoice};
use interleaf_card_server::{
    Clock, Event, Latency, ServeError, ServeOptions, Storage, guest_clock::qemu_options, serve,
};
use interleaf_console::{Failure, output};
use interleaf_job::card::cards;
use std::{io::ErrorKind, path::Path, process::ExitCode, sync::Arc};

/// Serves the simulated card on `socket` until a signal ends this process.
pub(super) fn run(args: &CardLoadArgs, socket: &Path) -> Result<ExitCode, Failure> {
    let [card] = &cards(&args.card)?[..] else {
        return Err(Failure::new(
            "--serve: a socket has one card",
            "give one --card, and start another server on another socket for another card",
        ));
    };
    if args.slow_down.is_some() && args.latency == Some(LatencyChoice::None) {
        return Err(Failure::new(
            "--slow-down: --latency none has no durations that it could multiply",
            "give --latency real or guest, or leave --slow-down out",
        ));
    }
    let slow_down = args.slow_down.unwrap_or(1);
    let paced = |clock| Latency::Card { card: Box::new(card.clone()), slow_down, clock };
    let options = ServeOptions {
        storage: args.contents.clone().map_or(Storage::Memory, Storage::File),
        latency: match args.latency {
            None | Some(LatencyChoice::None) => Latency::None,
            Some(LatencyChoice::Real) => paced(Clock::Host),
            Some(LatencyChoice::Guest) => paced(Clock::Guest),
        },
        listener: Arc::new(|event| output::message(&event_text(&event))),
        ..ServeOptions::of(card, socket)
    };
    let message = format!(
        "{} waits on {} for QEMU: {} (docs/cards.md); Ctrl-C ends it",
        card.name,
        socket.display(),
        qemu_options(socket, args.latency == Some(LatencyChoice::Guest)),
    );
    serve(&options, || output::message(&message)).map_err(refused)?;
    Ok(ExitCode::SUCCESS)
}

fn refused(why: ServeError) -> Failure {
    let (option, hint) = match &why {
        ServeError::Exists(_) => ("serve", "name a path that does not exist"),
        ServeError::Socket { .. } => {
            ("serve", "name a socket in a folder that you may write to, in less than 100 bytes")
        }
        ServeError::SlowDown => ("slow-down", "write a whole number such as 20"),
        ServeError::Settings(_) => ("card", "change the value in the file of the card"),
        ServeError::Contents(why) if why.kind() == ErrorKind::WouldBlock => {
            ("contents", "end the other server, or name another file")
        }
        ServeError::Contents(_) => (
            "contents",
            "name a new file, or a regular file that you may write to, up to the size of the card",
        ),
        ServeError::Io(_) => {
            ("serve", "raise the limits of processes and open files (ulimit -u, ulimit -n)")
        }
    };
    Failure::new(format!("--{option}: {why}"), hint)
}

fn event_text(event: &Event) -> String {
    match event {
        Event::Connected => "QEMU has connected".into(),
        Event::Disconnected(None) => "QEMU has disconnected".into(),
        Event::Disconnected(Some(why)) => format!("QEMU has disconnected: {why}"),
        Event::MemoryNotShared => "the guest's memory is not shared: start QEMU with -object \
                                   memory-backend-memfd,id=m,size=SIZE,share=on and -machine \
                                   memory-backend=m"
            .into(),
        Event::ClockMissing => {
            "the guest has rung a doorbell and nothing tells its time: start QEMU \
                                with -plugin libinterleaf_qemu_clock.so (docs/cards.md)"
                .into()
        }
        Event::PowerLost(bytes) => {
            format!("the power failed, with {bytes} bytes in the volatile write cache")
        }
        Event::WriteFailed(offset) => format!(
            "the contents cannot be written at byte {offset}: cached writes from there on are lost"
        ),
        Event::ControllerFailed => "a queue of the guest is in memory that does not exist: the \
                                    controller waits for a reset"
            .into(),
    }
}
