//! The DAMON thread of Interleaf: its set-up, its updates while it runs, and its removal.

use super::{ActuatorError, Setting, context::Context, settings_guard::SettingsGuard};
use crate::{
    machine::damon::{ADMIN, COUNT, MODULES, damon, probe::Probed},
    place::journal,
    root::{RootError, Write},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// A DAMON thread, which is removed when this value is dropped.
#[derive(Debug)]
pub struct Kdamond<'a> {
    setting: Setting<'a>,
    kernel: Probed,
    /// The path of each file of the thread, with the text that this process wrote to it last.
    written: BTreeMap<String, String>,
    settings: SettingsGuard<'a>,
    /// True when files were written that are not yet committed to the running thread.
    is_behind: bool,
    /// The time of the thread's last start.
    start: Option<Instant>,
}

/// Warm-up: the time after the start of the DAMON thread during which schemes with a quota match no
/// region, because kernels apply no limit in the first quota window. Without a warm-up, a whole
/// array of 200 MiB migrated at once where 24 MiB were allowed (Linux 6.12). The warm-up is longer
/// than any quota window (at most 2 s).
const WARM_UP: Duration = Duration::from_millis(4500);

/// [`Kdamond::apply`] fails when the kernel has refused the same context this number of times. A
/// single refusal can come from a DAMON thread that has just ended: the next attempt then starts
/// the thread again.
const SAME_MAX: u32 = 2;

/// A call of [`Kdamond::apply`] fails after this number of refusals by the kernel. After each
/// refusal the context is built again without the processes that have ended by then. A commit takes
/// one aggregation interval, so short-lived processes are gone after two or three attempts.
const TRIES_MAX: u32 = 50;

/// The statistics of a scheme since its set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Memory that the scheme tried to migrate, including pages that were on the destination
    /// already.
    pub tried_bytes: u64,
    /// Memory that the kernel reports as migrated.
    pub applied_bytes: u64,
}

fn file(path: &str) -> String {
    format!("{ADMIN}/{path}")
}

impl<'a> Kdamond<'a> {
    /// Returns a DAMON thread that is not set up yet.
    pub fn new(setting: Setting<'a>, kernel: Probed) -> Self {
        let (written, settings) = (BTreeMap::new(), SettingsGuard::new(setting.clone()));
        Self { setting, kernel, written, settings, is_behind: false, start: None }
    }

    /// Returns the features of the kernel's DAMON.
    pub fn kernel(&self) -> &Probed {
        &self.kernel
    }

    /// True once the DAMON thread was set up, even if the thread has ended since.
    pub fn is_set_up(&self) -> bool {
        !self.settings.is_empty()
    }

    /// True while the DAMON thread runs. The thread ends when the last monitored process has ended.
    /// On a captured machine (a copy of a machine's files), a thread that was set up counts as
    /// running.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn runs(&self) -> Result<bool, RootError> {
        if !self.setting.root.is_live() {
            return Ok(self.is_set_up());
        }
        let state = self.setting.root.peek(&file("0/state"))?;
        Ok(self.is_set_up() && state.is_some_and(|state| state.trim() == "on"))
    }

    /// True when the warm-up after the thread's start is over, so that the kernel applies quotas.
    pub fn is_warm(&self) -> bool {
        self.start.is_some_and(|start| start.elapsed() >= WARM_UP)
    }

    /// Runs the DAMON thread with the context that `build` returns: sets the thread up, starts it,
    /// or commits the changes to the running thread. Returns when the thread has the context, which
    /// takes up to one aggregation interval.
    ///
    /// The kernel refuses a whole context (`EINVAL`) if one of its processes or control groups has
    /// ended. Therefore `build` is called again after each refusal, and returns a context without
    /// these processes and groups, or `None` when nothing is left to monitor.
    ///
    /// # Errors
    /// When another program uses DAMON, `build` fails, or the kernel refuses the same context twice
    /// or 50 contexts in total. A thread that was set up before the call then keeps its last
    /// context; a new thread is removed. The next call tries again.
    pub fn apply(
        &mut self,
        build: &mut dyn FnMut() -> Result<Option<Context>, ActuatorError>,
    ) -> Result<(), ActuatorError> {
        let was_set_up = self.is_set_up();
        let done = self.build_and_apply(build);
        if !was_set_up && !matches!(done, Ok(true)) {
            self.release();
        }
        done.map(drop)
    }

    /// Builds a context and gives it to the DAMON thread, again after each refusal by the kernel.
    /// Returns true when the thread has the context, false when `build` has returned `None`.
    fn build_and_apply(
        &mut self,
        build: &mut dyn FnMut() -> Result<Option<Context>, ActuatorError>,
    ) -> Result<bool, ActuatorError> {
        let mut context = build()?;
        let (mut tries, mut same) = (0, 0);
        while let Some(now) = context {
            match self.apply_once(&now) {
                Err(why) if why.is_value_refused() => {
                    context = build()?;
                    same = if context.as_ref() == Some(&now) { same + 1 } else { 0 };
                    tries += 1;
                    if same == SAME_MAX || tries == TRIES_MAX {
                        return Err(why);
                    }
                }
                done => return done.map(|()| true),
            }
        }
        Ok(false)
    }

    fn apply_once(&mut self, context: &Context) -> Result<(), ActuatorError> {
        if !self.is_set_up() {
            self.claim()?;
        }
        let runs = self.runs()? && !self.written.is_empty();
        let is_warm = runs && self.is_warm();
        let mut context = context.clone();
        // Until the warm-up is over, make schemes with a quota match nothing. A captured machine (a
        // copy of a machine's files) has no warm-up, so that the recorded writes show the final
        // context.
        for scheme in context.schemes.iter_mut().filter(|_| self.setting.root.is_live()) {
            if scheme.quota.is_some() && !is_warm {
                scheme.accesses = None;
            }
        }
        let writes = context.writes(&self.kernel);
        for Write { path, text } in writes {
            if self.written.get(&path) == Some(&text) {
                continue;
            }
            self.is_behind = true;
            self.setting.root.write(&path, &text).map_err(ActuatorError::Refused)?;
            // Writing a count (`nr_...`) replaces the counted folders by new ones with default
            // values. Forget what was written below them, so that it is written again.
            if let Some((folder, name)) = path.rsplit_once('/')
                && name.starts_with("nr_")
            {
                let below = format!("{folder}/");
                self.written.retain(|path, _| !path.starts_with(&below));
            }
            self.written.insert(path, text);
        }
        let state = file("0/state");
        if !runs {
            self.start = Some(Instant::now());
            if self.settings.has(&state) {
                self.setting.root.write(&state, "on").map_err(ActuatorError::Refused)?;
            } else {
                self.settings.set(&state, "on")?;
            }
        } else if self.is_behind {
            self.setting.root.write(&state, "commit").map_err(ActuatorError::Refused)?;
        }
        self.is_behind = false;
        Ok(())
    }

    /// Reserves DAMON for this process. With `Setting::leave`, also switches off NUMA balancing and
    /// the kernel's DAMON modules; without it, fails if a module is enabled.
    fn claim(&mut self) -> Result<(), ActuatorError> {
        let root = self.setting.root;
        let Some(found) = damon(root)? else {
            return Err(ActuatorError::None("this kernel has no DAMON".into()));
        };
        if let Some(pid) = journal::holder(root, COUNT)?.filter(|_| !found.kdamonds.is_empty()) {
            return Err(ActuatorError::Held {
                holder: format!("process {pid} of interleaf has DAMON already"),
                hint: format!("let one of both do all, and end the other: kill {pid}"),
            });
        }
        if !found.kdamonds.is_empty() {
            let does = |it: &crate::machine::damon::KdamondSettings| {
                let words = it.operations.iter().chain(&it.actions).cloned();
                let words: Vec<String> = words.collect();
                let on = if it.on == Some(false) { "off" } else { "on" };
                format!("{on}: {}", words.join(" "))
            };
            let all: Vec<String> = found.kdamonds.iter().map(does).collect();
            return Err(ActuatorError::Held {
                holder: format!(
                    "another program has set up {} DAMON thread(s) ({})",
                    all.len(),
                    all.join("; ")
                ),
                hint: "stop the program that uses DAMON; for damo: `damo stop`".into(),
            });
        }
        if let Some(module) = found.modules.first().filter(|_| !self.setting.leave) {
            return Err(ActuatorError::Held {
                holder: format!("the kernel's {module} holds DAMON"),
                hint: format!(
                    "give leave to switch it off for the time (--stop-rivals), or \
                     echo N > /sys/module/{module}/parameters/enabled"
                ),
            });
        }
        self.settings.disable_balancer()?;
        for (module, path) in MODULES {
            if found.modules.iter().any(|name| name == module) {
                self.settings.set(path, "N")?;
            }
        }
        self.settings.set(COUNT, "1")
    }

    /// Adds a message to `notes` if the DAMON thread is set up and NUMA balancing is on, unless the
    /// last check found it on too. NUMA balancing migrates pages back that the thread has migrated.
    ///
    /// # Errors
    /// When the setting cannot be read.
    pub(super) fn note_balancer(&mut self, notes: &mut Vec<String>) -> Result<(), ActuatorError> {
        if self.is_set_up() { self.settings.note_balancer(notes) } else { Ok(()) }
    }

    /// Asks the DAMON thread for the present statistics of each scheme, in the order of the
    /// schemes; empty while the thread does not run. The thread answers between two applications of
    /// its schemes, when no migration is in progress, so the figures are complete.
    ///
    /// # Errors
    /// When the request fails.
    pub fn stats_now(&self) -> Result<Vec<Stats>, RootError> {
        if self.setting.root.is_live() && self.runs()? {
            match self.setting.root.write(&file("0/state"), "update_schemes_stats") {
                // The thread has ended since the check; this is no error.
                Err(why) if why.is_not_taken() && !self.runs()? => {}
                answer => answer?,
            }
        }
        self.stats()
    }

    /// Reads each scheme's statistics, in the order of the schemes; empty while the thread does not
    /// run. The kernel updates these figures on request and, since 6.17, periodically.
    ///
    /// # Errors
    /// When the statistics cannot be read.
    pub fn stats(&self) -> Result<Vec<Stats>, RootError> {
        let root = self.setting.root;
        if !root.is_live() || !self.runs()? {
            return Ok(vec![]);
        }
        let schemes = file("0/contexts/0/schemes");
        let number = |path: String| -> Result<u64, RootError> {
            let text = root.peek(&path)?.unwrap_or_default();
            Ok(text.trim().parse().unwrap_or(0))
        };
        let mut all = vec![];
        while root.peek_names(&format!("{schemes}/{}", all.len()))? != Vec::<String>::new() {
            let folder = format!("{schemes}/{}/stats", all.len());
            all.push(Stats {
                tried_bytes: number(format!("{folder}/sz_tried"))?,
                applied_bytes: number(format!("{folder}/sz_applied"))?,
            });
        }
        Ok(all)
    }

    /// Stops and removes the DAMON thread. Restores the changed settings, the last change first.
    pub fn release(&mut self) {
        self.written.clear();
        self.settings.release();
    }
}
