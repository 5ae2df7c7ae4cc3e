//! Passes options to the linker of the preloaded library.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    // The constructor of this library runs before the constructors of all other libraries
    // (`DF_1_INITFIRST`), so that its handlers of `pthread_atfork(3)` are registered first. A fork
    // first calls the `prepare` handlers in reverse order of registration, and at its end the
    // `parent` or `child` handlers in the order of registration. Therefore the handlers of other
    // libraries can use extended memory: they run before the pager stops or after it continues.
    let mut cargo = io::stdout();
    writeln!(cargo, "cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst")?;
    writeln!(cargo, "cargo::rerun-if-changed=build.rs")
}
