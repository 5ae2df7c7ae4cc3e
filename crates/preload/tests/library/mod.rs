//! Finds the library that the tests preload.

use std::path::PathBuf;

/// The path of the preloaded library, which is in the folder of this test program or in the folder
/// above it.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this test");
    let folders = test.ancestors().skip(1).take(2);
    let mut found = folders.map(|folder| folder.join("libinterleaf_preload.so"));
    found.find(|library| library.exists()).expect("the library beside the tests")
}
