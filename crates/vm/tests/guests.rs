//! All tests in virtual machines, in one program: its tests run side by side, so that one guest
//! works while others wait. `docs/vm-tests.md` says how to run some of them.

mod actuators;
mod balance;
mod boot;
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
