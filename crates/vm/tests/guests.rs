//! All tests in virtual machines are one program, so that they run in parallel: one guest works
//! while others sleep. `docs/vm-tests.md` explains how to run a subset.

mod actuators;
mod balance;
mod boot;
mod card;
mod extend;
mod faults;
mod kernels;
mod load;
mod machine;
mod measure;
mod measure_app;
mod migrate;
mod operate;
mod run;
mod tune;
