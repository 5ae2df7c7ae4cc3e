//! The guest's program has several names, as busybox has: the name by which the program is called
//! selects what it does.

use std::{env, io, path::Path, process::ExitCode};

use interleaf_guest::{actuate, drain, drive, extend, init, load, touch, work};

fn main() -> ExitCode {
    let mut args = env::args();
    let name = args.next().unwrap_or_default();
    let name = Path::new(&name).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name {
        "drain" => drain::main(args, &mut io::stdout()),
        "drive" => drive::main(args, &mut io::stdout()),
        "extend" => extend::main(args, &mut io::stdout()),
        "load" => load::main(args, &mut io::stdout()),
        "work" => work::main(args, &mut io::stdout()),
        "touch" => touch::main(args, &mut io::stdout()),
        "actuate" => actuate::main(args, &mut io::stdout()),
        // If init returns, the kernel panics, which tells the host that init failed.
        _ => init::main(),
    }
}
