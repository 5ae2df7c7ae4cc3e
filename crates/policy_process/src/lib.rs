//! Policies that run as processes: a command of the user decides on placement in place of a
//! built-in policy.
//!
//! The command, which may be written in any language, reads lines of JSON from its stdin and
//! answers each line with a line on its stdout (docs/policies.md). The first line describes the
//! memory tiers of a domain (a socket). Each later line has the observation of a period:
//!
//! ```text
//! {"schema":"interleaf.policy/1","message":"start","domain":0,"tiers":[{"name":"dram",...},...]}
//! {"weights":[100,0]}
//! {"message":"period","time_s":6.0,"tiers":[{"bandwidth_gbps":301.2,...},...],...}
//! {"weights":[65,35],"reason":"the latency of dram is higher"}
//! ```
//!
//! Each domain has its own process. A process fails if it ends, answers late or answers with an
//! invalid line ([`PolicyProcessError`]). The domain then keeps its current target, and the caller
//! gets the error from [`PolicyProcesses::failure`].

#![forbid(unsafe_code)]

mod child;
mod message;

use child::Child;
use core::time::Duration;
use interleaf_linux::stop_flag::StopFlag;
use interleaf_model::{
    machine::TierLayout,
    policy::{Observation, Policy, Verdict},
};
use message::{Answer, PeriodMessage, StartMessage};
use std::sync::{Arc, Mutex, PoisonError};

/// The prefix that marks the name of a policy as a command, as in `exec:./policy.py --gain 2`.
pub const PREFIX: &str = "exec:";

/// The default time limit of an answer. Even an interpreter that loads large libraries starts
/// within this time.
pub const TIME_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyCommand {
    program: String,
    arguments: Vec<String>,
}

impl PolicyCommand {
    /// Parses the name of a policy. If it is `exec:PROGRAM ARGUMENT...`, with spaces between the
    /// arguments, returns the command; otherwise returns `None`.
    ///
    /// # Errors
    /// When no command follows the prefix.
    pub fn parse(policy: &str) -> Option<Result<Self, PolicyProcessError>> {
        let mut words = policy.strip_prefix(PREFIX)?.split_whitespace().map(str::to_string);
        let program = words.next().ok_or(PolicyProcessError::NoCommand);
        Some(program.map(|program| Self { program, arguments: words.collect() }))
    }
}

/// The processes that run the user's policy command, one for each domain (socket).
#[derive(Clone, Debug)]
pub struct PolicyProcesses {
    command: PolicyCommand,
    limit: Duration,
    stop: StopFlag,
    failure: Arc<Mutex<Option<PolicyProcessError>>>,
}

impl PolicyProcesses {
    /// Prepares the processes of `command`, which [`Self::policy`] starts. `limit` is the time
    /// limit of each answer. Once `stop` is set, the policies no longer wait for answers.
    pub fn new(command: PolicyCommand, limit: Duration, stop: StopFlag) -> Self {
        Self { command, limit, stop, failure: Arc::default() }
    }

    /// Starts the process of the domain (socket) with the index `domain`, whose tiers are `tiers`,
    /// and waits for its first answer. Returns the policy of the domain. If there is no valid first
    /// answer, this policy keeps all pages on the first tier. After the failure of any domain's
    /// process, no further process is started.
    pub fn policy(&self, domain: usize, tiers: &[TierLayout]) -> Box<dyn Policy> {
        let first = (0..tiers.len()).map(|tier| if tier == 0 { 1.0 } else { 0.0 }).collect();
        if self.has_failed() {
            return Box::new(ProcessPolicy { child: None, start: first, processes: self.clone() });
        }
        let started = Child::start(&self.command.program, &self.command.arguments);
        let asked = started.and_then(|mut child| {
            let message = StartMessage::new(domain, tiers);
            let answer = child.ask(&message, tiers.len(), self.limit, &self.stop)?;
            Ok((child, answer))
        });
        let (child, start) = match asked {
            Ok((child, Some(answer))) => (Some(child), answer.shares),
            Ok((_, None)) => (None, first),
            Err(why) => {
                self.fail(why);
                (None, first)
            }
        };
        Box::new(ProcessPolicy { child, start, processes: self.clone() })
    }

    /// Returns the first failure of any process since the last call; `None` if no process has
    /// failed.
    pub fn failure(&self) -> Option<PolicyProcessError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True if a process has failed and [`Self::failure`] has not returned the failure yet, or if a
    /// stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.has_failed() || self.stop.is_set()
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn fail(&self, why: PolicyProcessError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

/// The policy of one domain (socket). Its decisions are the answers of a process.
struct ProcessPolicy {
    /// The process; `None` after a failure, or if a stop was requested before the first answer.
    child: Option<Child>,
    /// The initial shares of the tiers: those of the process's first answer, or all pages on the
    /// first tier.
    start: Vec<f64>,
    processes: PolicyProcesses,
}

impl Policy for ProcessPolicy {
    fn start(&self) -> Vec<f64> {
        self.start.clone()
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        let PolicyProcesses { limit, stop, .. } = &self.processes;
        let tiers = seen.tiers.len();
        let asked = self
            .child
            .as_mut()
            .filter(|_| !self.processes.has_failed())
            .map_or(Ok(None), |child| child.ask(&PeriodMessage::new(seen), tiers, *limit, stop));
        match asked {
            Ok(Some(Answer { shares, reason })) => {
                let action = if shares == seen.target { "hold" } else { "step" };
                Verdict::interleave(shares, action, reason)
            }
            Ok(None) => Verdict::interleave(seen.target.clone(), "hold", "the policy has ended"),
            Err(why) => {
                self.processes.fail(why);
                self.child = None;
                Verdict::interleave(seen.target.clone(), "hold", "the policy failed")
            }
        }
    }
}

/// The failure of a policy's process. `line` is the 1-based number of a line on the process's
/// stdout; answer N is line N.
#[derive(Debug, thiserror::Error)]
pub enum PolicyProcessError {
    #[error("there is no command after \"{PREFIX}\"")]
    NoCommand,
    #[error("{program}: the policy cannot be started: {why}")]
    Start { program: String, why: std::io::Error },
    #[error("{program}: the policy ended ({status}) before line {line} of its stdout")]
    Ended { program: String, status: String, line: u64 },
    #[error("{program}: the policy has not written line {line} of its stdout after {seconds} s")]
    Late { program: String, line: u64, seconds: f64 },
    #[error("{program}: line {line} of the policy's stdout: {problem}")]
    Answer { program: String, line: u64, problem: String },
}

impl PolicyProcessError {
    /// Returns the advice that is printed with the error: what the user can change.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoCommand => "write a program and its arguments: \"exec:./policy.py --gain 2\"",
            Self::Start { .. } => {
                "give its path (exec:./policy.py), make it executable (chmod +x) and let its first \
                 line name its interpreter (#!/usr/bin/env python3)"
            }
            Self::Ended { .. } => {
                "let it answer each line of its stdin until stdin ends; its messages are on stderr"
            }
            Self::Late { .. } => {
                "let it flush stdout after each line (in Python: print(answer, flush=True)), or \
                 give it more time in `simulate machine`: --policy-limit 60s"
            }
            Self::Answer { .. } => {
                "answer each line of stdin with one line such as {\"weights\": [65, 35]}; write \
                 messages to stderr"
            }
        }
    }
}
