//! Options of the linker for the preloaded library.

fn main() {
    // The constructor of this library runs before the constructors of all other libraries
    // (`DF_1_INITFIRST`), so that its handlers of `pthread_atfork(3)` are registered first. A fork
    // calls the handlers that prepare it in reverse order, and those after it in order. So all
    // other handlers run while extended memory is mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo::rerun-if-changed=build.rs");
}
