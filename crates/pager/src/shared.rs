//! Memory that processes share by `mmap(2)` with `MAP_SHARED | MAP_ANONYMOUS`.
//!
//! Each such mapping is a memory file ([`server`]). A page is mapped only while the file contains
//! it. All other pages are in the frames of a pager or in its store:
//!
//! ```text
//!            copy the content, and map the page for the processes that wait for it
//!   frame  ------------------------------------------------------------->  memory file
//!          <-------------------------------------------------------------
//!            write-protect the page, copy the content, and punch a hole into the file, which
//!            unmaps the page in all address spaces
//! ```
//!
//! A process cannot serve memory for another process that may live longer. Once the last descriptor
//! of a userfaultfd is closed, the kernel fills missing pages with zeros. So a dedicated server
//! process serves all processes of a session. The server ends after the last process that shares
//! memory. If the server is killed, these processes end too. Each process makes a userfaultfd for
//! its own addresses, keeps it, and passes a copy to the server over a socket. A forked child makes
//! its own userfaultfd before `fork(2)` returns in the child, and maps no shared memory until then.
//!
//! A page is in the file exactly while it is mapped in the state of the server's cache. So the
//! first access of another process is a minor fault, which is served without a copy
//! (`UFFDIO_CONTINUE`). Between write protection and the punched hole no process can map the page
//! again, because only the server maps pages.

mod client;
pub(crate) mod message;
mod peers;
mod pieces;
mod server;

pub use client::{Client, SharedRanges};
pub use server::serve;

/// The name of the socket in the folder of a session.
const SOCKET: &str = "shared";
