//! DRAM as a cache over a drive.
//!
//! A large allocation lives on a drive, and what of it is in use in DRAM. A program that touches a
//! page that is not there waits until it is; most of what it touches is there before, because what
//! it did so far says what it will do next ([`prefetch`]).
//!
//! Everything that decides is pure: it is told what was touched and what came of it, and says what
//! to read, to write and to give up.

pub mod page;

pub mod advice;

pub mod prefetch;

pub mod cache;

mod ranges;

mod fatal;

mod reply;

pub mod kernel;

pub mod store;

pub mod drive;

pub mod serve;

pub mod pager;

pub mod session;

pub mod shared;

pub mod swap_hints;

pub mod rights;
