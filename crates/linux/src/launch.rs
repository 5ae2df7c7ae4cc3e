//! Commands: their start, signals, swap files and memory limits. Also the storage behind a folder,
//! and Unix sockets to which other programs connect.

pub mod command;

pub mod swapfile;

pub mod limited_group;

pub mod storage;

pub mod unix_socket;
