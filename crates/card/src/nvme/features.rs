//! Executes Get Features and Set Features (NVMe 1.4, section 5.21). The values of features cannot
//! be saved: all return to their defaults at a reset.

use super::{command::SubmissionEntry, settings::NvmeSettings, status::NvmeStatus};

const ARBITRATION: u8 = 0x01;
const POWER_MANAGEMENT: u8 = 0x02;
const TEMPERATURE_THRESHOLD: u8 = 0x04;
const ERROR_RECOVERY: u8 = 0x05;
const VOLATILE_WRITE_CACHE: u8 = 0x06;
const NUMBER_OF_QUEUES: u8 = 0x07;
const INTERRUPT_COALESCING: u8 = 0x08;
const INTERRUPT_VECTOR: u8 = 0x09;
const WRITE_ATOMICITY: u8 = 0x0a;
const ASYNC_EVENTS: u8 = 0x0b;

/// Default of the over-temperature threshold, kelvins: 70 degrees Celsius. The value is assumed: a
/// usual limit of cards.
const TEMPERATURE_DEFAULT: u32 = 343;

/// The values of the features, and the properties of the controller that limit these values.
#[derive(Clone, Debug)]
pub(super) struct Features {
    /// The value of each feature, as dword 11 of Set Features gives it. The index is the feature
    /// identifier.
    values: [u32; 12],
    /// For each interrupt vector, true if interrupt coalescing is disabled.
    uncoalesced: Vec<bool>,
    queues: u16,
    has_write_cache: bool,
}

impl Features {
    pub(super) fn new(settings: &NvmeSettings) -> Self {
        let mut features = Self {
            values: [0; 12],
            uncoalesced: vec![false; settings.vectors.into()],
            queues: settings.queues,
            has_write_cache: settings.write_cache,
        };
        for identifier in 0..12 {
            features.values[usize::from(identifier)] = features.default_value(identifier);
        }
        features
    }

    fn default_value(&self, identifier: u8) -> u32 {
        match identifier {
            TEMPERATURE_THRESHOLD => TEMPERATURE_DEFAULT,
            VOLATILE_WRITE_CACHE => self.has_write_cache.into(),
            NUMBER_OF_QUEUES => self.allocated(),
            _ => 0,
        }
    }

    /// Returns the numbers of allocated I/O completion queues (bits 31:16) and I/O submission
    /// queues (bits 15:0), both 0's based.
    fn allocated(&self) -> u32 {
        let queues = u32::from(self.queues) - 1;
        queues << 16 | queues
    }

    /// Returns the maximum number of commands that are fetched from a queue in its turn: 2^AB,
    /// where AB is the arbitration burst. An AB of 7 means no limit.
    pub(super) fn arbitration_burst(&self) -> u32 {
        match self.values[usize::from(ARBITRATION)] & 7 {
            7 => u32::MAX,
            exponent => 1 << exponent,
        }
    }

    /// Returns the weights of the high, medium and low priority classes: the maximum number of
    /// commands in a round, 1 to 256. The fields HPW, MPW and LPW are 0's based.
    pub(super) fn arbitration_weights(&self) -> [u32; 3] {
        let value = self.values[usize::from(ARBITRATION)];
        [24, 16, 8].map(|shift| (value >> shift & 0xff) + 1)
    }

    /// Returns true if completed writes may stay in the volatile write cache.
    pub(super) fn write_cache_is_on(&self) -> bool {
        self.values[usize::from(VOLATILE_WRITE_CACHE)] & 1 == 1
    }

    /// Executes Get Features. Returns dword 0 of the completion.
    pub(super) fn get(&self, entry: &SubmissionEntry) -> Result<u32, NvmeStatus> {
        let identifier = self.identifier(entry)?;
        let select = entry.dword(10) >> 8 & 7;
        match select {
            0 if identifier == INTERRUPT_VECTOR => {
                let vector = entry.dword(11) & 0xffff;
                let uncoalesced = self.uncoalesced.get(vector as usize);
                let uncoalesced = *uncoalesced.ok_or(NvmeStatus::InvalidField)?;
                Ok(u32::from(uncoalesced) << 16 | vector)
            }
            0 => Ok(self.values[usize::from(identifier)]),
            // Select 1 requests the default value. Select 2 requests the saved value; no value can
            // be saved, so the saved value is the default value.
            1 | 2 => Ok(self.default_value(identifier)),
            // Select 3 requests the supported capabilities: changeable, not specific to a
            // namespace, not saveable.
            3 => Ok(1 << 2),
            _ => Err(NvmeStatus::InvalidField),
        }
    }

    /// Executes Set Features. Returns dword 0 of the completion. `queues_exist` is true if I/O
    /// queues have been created.
    pub(super) fn set(
        &mut self,
        entry: &SubmissionEntry,
        queues_exist: bool,
    ) -> Result<u32, NvmeStatus> {
        let identifier = self.identifier(entry)?;
        let value = entry.dword(11);
        if entry.dword(10) >> 31 == 1 {
            return Err(NvmeStatus::FeatureNotSaveable);
        }
        match identifier {
            // Power state 0 is the only power state.
            POWER_MANAGEMENT if value & 0x1f != 0 => return Err(NvmeStatus::InvalidField),
            NUMBER_OF_QUEUES => {
                if queues_exist {
                    return Err(NvmeStatus::SequenceError);
                }
                if value & 0xffff == 0xffff || value >> 16 == 0xffff {
                    return Err(NvmeStatus::InvalidField);
                }
                // The controller always allocates all queues, whatever the host requests.
                return Ok(self.allocated());
            }
            INTERRUPT_VECTOR => {
                let vector = self.uncoalesced.get_mut((value & 0xffff) as usize);
                *vector.ok_or(NvmeStatus::InvalidField)? = value >> 16 & 1 == 1;
            }
            _ => {}
        }
        self.values[usize::from(identifier)] = value;
        Ok(0)
    }

    /// Returns the identifier of the feature that a command names; an error if the controller does
    /// not have the feature.
    fn identifier(&self, entry: &SubmissionEntry) -> Result<u8, NvmeStatus> {
        let identifier = (entry.dword(10) & 0xff) as u8;
        if ![0, 1, u32::MAX].contains(&entry.namespace) {
            return Err(NvmeStatus::InvalidNamespace);
        }
        match identifier {
            VOLATILE_WRITE_CACHE if !self.has_write_cache => Err(NvmeStatus::InvalidField),
            ARBITRATION
            | POWER_MANAGEMENT
            | TEMPERATURE_THRESHOLD
            | ERROR_RECOVERY
            | VOLATILE_WRITE_CACHE
            | NUMBER_OF_QUEUES
            | INTERRUPT_COALESCING
            | INTERRUPT_VECTOR
            | WRITE_ATOMICITY
            | ASYNC_EVENTS => Ok(identifier),
            _ => Err(NvmeStatus::InvalidField),
        }
    }
}
