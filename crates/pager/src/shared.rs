//! Memory that processes share, as `mmap(2)` with `MAP_SHARED | MAP_ANONYMOUS` gives it.
//!
//! Each such mapping is a memory file ([`server`]), and pages of it are in DRAM as long as the file
//! has them. What is not there is in the frames of a pager or on its store:
//!
//! ```text
//!            a copy, and then the page is mapped where it is waited for
//!   frame  ------------------------------------------------------------->  memory file
//!          <-------------------------------------------------------------
//!            nobody may write; a copy; and a hole is punched into the file, which takes the page
//!            out of all address spaces at once
//! ```
//!
//! A process cannot do that for another that may outlive it: with the last descriptor of a
//! `userfaultfd` its pages go back to the kernel, which has zeros for them. So a process that does
//! nothing else serves all processes of a session: it ends when all that share memory have ended,
//! and whoever shares memory ends with it if it is killed. Each process makes a descriptor of its
//! own for its own addresses, keeps it, and hands a copy to the server over a socket; a child that
//! is forked does so before `fork(2)` returns in it, and has no mapping until then.
//!
//! A page is in the file exactly while the cache of the server has it as mapped. So the first touch
//! in another process is a fault on a page that is there, which is mapped without a copy
//! (`UFFDIO_CONTINUE`); and between write protection and the hole nobody can map it anew, since the
//! server alone does.

mod client;
mod peers;
mod pieces;
mod server;
pub(crate) mod wire;

pub use client::{Client, Shares};
pub use server::serve;

/// The socket in the folder of a session.
const SOCKET: &str = "shared";
