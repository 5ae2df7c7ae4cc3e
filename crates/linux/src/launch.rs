//! The start of commands, with what it needs: signals, swap files, memory limits, drives, and
//! sockets for other programs.

pub mod command;

pub mod swapfile;

pub mod limited_group;

pub mod storage;

pub mod unix_socket;
