//! Starting commands: signals, swap files, drives, and sockets for other programs.

pub mod command;

pub mod swapfile;

pub mod storage;

pub mod unix_socket;
