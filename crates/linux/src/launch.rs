//! Starts commands, and provides their signal handling, swap files, memory limits and drives. Also
//! opens Unix sockets for other programs.

pub mod command;

pub mod swapfile;

pub mod limited_group;

pub mod storage;

pub mod unix_socket;
