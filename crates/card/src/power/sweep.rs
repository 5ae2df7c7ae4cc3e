//! Evaluates power failures at many random moments of a run.

use super::failure::{PowerFailure, PowerFailures};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

/// The options of a sweep: the number of moments, and the seed of their random choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepOptions {
    /// The number of moments, drawn at random from the times of the run.
    pub moments: u64,
    /// Seed of the moments, and of the failures of the NAND at each moment.
    pub seed: u64,
}

/// The consequences of power failures at many moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PowerSweep {
    /// The number of moments that were evaluated.
    pub moments: u64,
    /// The number of moments at which nothing was lost or torn.
    pub harmless: u64,
    /// Number of acknowledged writes, summed over all moments.
    pub acknowledged_writes: u64,
    /// Number of writes submitted and not acknowledged, summed over all moments.
    pub outstanding_writes: u64,
    /// Number of lost writes, summed over all moments.
    pub lost_writes: u64,
    /// Number of torn writes, summed over all moments.
    pub torn_writes: u64,
    /// Number of lost and torn blocks that the card did not report, summed over all moments.
    pub unreported_blocks: u64,
    /// Number of pages whose programs failed, and for which the plane had another good block,
    /// summed over all moments.
    pub remapped_pages: u64,
    /// Maximum time of a save, s; 0 without saves.
    pub save_seconds_max: f64,
    /// Mean energy of a save over all moments, J.
    pub save_energy_mean_j: f64,
    /// Maximum energy of a save, J.
    pub save_energy_max_j: f64,
    /// Minimum energy left in the capacitor after a save, J; infinite without saves.
    pub left_min_j: f64,
    /// The failure with the most lost and torn blocks. If several failures have equally many, the
    /// one that was added first.
    pub worst: Option<PowerFailure>,
}

impl SweepOptions {
    /// Returns the moments (fs) in order of time, each with the seed of its failure. The moments
    /// are independent, so any thread may evaluate any moment.
    pub fn moments_of(&self, failures: &PowerFailures<'_>) -> Vec<(u64, u64)> {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let end = u128::from(failures.timeline().end()) + 1;
        let moment = |random: &mut Pcg64Mcg| ((u128::from(random.next_u64()) * end) >> 64) as u64;
        let mut moments: Vec<(u64, u64)> =
            (0..self.moments).map(|_| (moment(&mut random), random.next_u64())).collect();
        moments.sort_unstable();
        moments
    }
}

impl PowerSweep {
    /// Evaluates all moments on this thread.
    pub fn run(failures: &PowerFailures<'_>, options: &SweepOptions) -> Self {
        let mut sweep = Self::empty();
        for (at, seed) in options.moments_of(failures) {
            sweep.add(failures.at(at, seed));
        }
        sweep
    }

    /// Creates a sweep without moments.
    pub fn empty() -> Self {
        Self { left_min_j: f64::INFINITY, ..Self::default() }
    }

    /// Adds the consequences of a power failure at one more moment.
    pub fn add(&mut self, failure: PowerFailure) {
        self.moments += 1;
        self.harmless += u64::from(failure.is_harmless());
        self.acknowledged_writes += failure.acknowledged_writes;
        self.outstanding_writes += failure.outstanding_writes;
        self.lost_writes += failure.lost_writes;
        self.torn_writes += failure.torn_writes;
        self.unreported_blocks += failure.unreported_blocks;
        if let Some(save) = &failure.save {
            self.remapped_pages += save.remapped;
            self.save_seconds_max = self.save_seconds_max.max(save.seconds);
            self.save_energy_max_j = self.save_energy_max_j.max(save.energy_j);
            self.save_energy_mean_j +=
                (save.energy_j - self.save_energy_mean_j) / self.moments as f64;
            self.left_min_j = self.left_min_j.min(save.left_j);
        }
        let harm = |failure: &PowerFailure| failure.lost_blocks + failure.torn_blocks;
        if self.worst.as_ref().is_none_or(|worst| harm(worst) < harm(&failure)) {
            self.worst = Some(failure);
        }
    }
}
