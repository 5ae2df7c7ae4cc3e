//! Starting commands: signals, memory limits, swap, and sockets for other programs.

pub mod command;

pub mod swapfile;

pub mod storage;

pub mod unix_socket;
