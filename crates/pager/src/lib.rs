//! DRAM as a cache over a drive.
//!
//! A large allocation lives on a drive, and what of it is in use in DRAM. A program that touches a
//! page that is not there waits until it is; most of what it touches is there before, because what
//! it did so far says what it will do next ([`predict`]).
//!
//! Everything that decides is pure: it is told what was touched and what came of it, and says what
//! to read, to write and to give up.

pub mod advice;

pub mod cache;

pub mod cyclic;

pub mod index;

pub mod queue;

pub mod pool;

pub mod predict;

pub mod uffd;

mod digest;

mod memory;

mod frames;
mod transfers;

mod mover;

mod space;

mod fatal;

mod ranges;

pub mod arena;

pub mod store;

mod teller;

pub mod pager;

pub mod signal;

mod beside;
mod mappings;
mod stall;

pub mod fork;

pub mod worker;

pub mod share;

pub mod board;

pub mod session;

pub mod thread;

mod reply;

pub mod shared;

pub mod drive;

pub mod rights;

pub mod steer;
