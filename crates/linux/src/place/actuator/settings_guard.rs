//! The settings that an actuator has changed, such as NUMA balancing, which undoes migration.

use super::{ActuatorError, Setting};
use crate::machine::sysctl::NUMA_BALANCING;

/// Settings that are changed for an actuator. Dropping this value restores them.
#[derive(Debug)]
pub(super) struct SettingsGuard<'a> {
    setting: Setting<'a>,
    paths: Vec<String>,
    /// True if the last check found NUMA balancing on; the next check then adds no message.
    is_held: bool,
}

impl<'a> SettingsGuard<'a> {
    pub(super) fn new(setting: Setting<'a>) -> Self {
        Self { setting, paths: vec![], is_held: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|held| held == path)
    }

    /// Changes a setting through the journal; on a captured machine (a copy of a machine's files),
    /// only records the write.
    pub(super) fn set(&mut self, path: &str, text: &str) -> Result<(), ActuatorError> {
        if self.setting.root.is_live() {
            self.setting.journal.borrow_mut().set(path, text)?;
        } else {
            // Do not use the journal, which first reads the old value: in a copy of a machine's
            // files, most files of DAMON do not exist, because DAMON was not set up.
            self.setting.root.write(path, text)?;
        }
        self.paths.push(path.into());
        Ok(())
    }

    /// Disables NUMA balancing, which migrates pages back, if the user permits it.
    pub(super) fn disable_balancer(&mut self) -> Result<(), ActuatorError> {
        let is_on = self.setting.root.number(NUMA_BALANCING)?.is_some_and(|value| value > 0);
        if is_on && self.setting.leave && !self.has(NUMA_BALANCING) {
            self.set(NUMA_BALANCING, "0")?;
        }
        Ok(())
    }

    /// Adds a message to `notes` if NUMA balancing is on, unless the last check found it on too.
    /// NUMA balancing is on then because this process may not disable it, or because another
    /// program has enabled it again.
    pub(super) fn note_balancer(&mut self, notes: &mut Vec<String>) -> Result<(), ActuatorError> {
        let value = self.setting.root.number(NUMA_BALANCING)?.unwrap_or(0);
        if value > 0 && !self.is_held {
            let since = match self.has(NUMA_BALANCING) {
                true => "another program has switched it on again",
                false => "give leave to switch it off (--stop-rivals), or do so",
            };
            notes.push(format!(
                "numa_balancing={value} pulls pages away from where they are put: {since}: \
                 sysctl kernel.numa_balancing=0"
            ));
        }
        self.is_held = value > 0;
        Ok(())
    }

    /// Restores all settings, the last change first.
    pub(super) fn release(&mut self) {
        let paths = std::mem::take(&mut self.paths);
        if self.setting.root.is_live() {
            // A failure is ignored here: the journal keeps the changes that it could not undo, and
            // reports the outcome when it is closed.
            let _ = self.setting.journal.borrow_mut().release(&paths);
        }
    }
}

impl Drop for SettingsGuard<'_> {
    fn drop(&mut self) {
        self.release();
    }
}
