//! Numbers the banks of a pseudo-channel, and represents sets of banks.
//!
//! A bank has one number over all ranks and bank groups of its pseudo-channel, so its state is one
//! entry of a table. With 2 ranks of 8 groups of 4 banks, bank 45 is bank 1 of group 3 of rank 1:
//! 45 = (1 * 8 + 3) * 4 + 1.

use super::device::Device;
pub(super) use super::device::{BANKS_MAX, RANKS_MAX};

/// Maximum number of bank groups of a pseudo-channel, over all ranks.
pub(super) const GROUPS_MAX: usize = 64;

/// The value in place of a row number for a bank without an open row.
pub(super) const CLOSED: u32 = u32::MAX;

/// A set of banks: bit b is set if the bank with the number b is in the set.
pub(super) type BankSet = u128;

/// Returns the numbers of the banks in a set, ascending.
#[inline]
pub(super) fn banks_in(mut set: BankSet) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let bank = set.trailing_zeros() as usize;
            set &= set - 1;
            bank & (BANKS_MAX - 1)
        })
    })
}

/// The dimensions of a pseudo-channel, and the bank group and the rank of each bank.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) ranks: usize,
    /// Number of bank groups in a rank.
    pub(super) groups: usize,
    /// Number of banks in a bank group.
    pub(super) banks: usize,
    /// The bank group of each bank, numbered over all ranks.
    group_of: [u8; BANKS_MAX],
    rank_of: [u8; BANKS_MAX],
}

impl Geometry {
    pub(super) fn new(device: &Device) -> Self {
        let (groups, banks) = (device.bank_groups as usize, device.banks as usize);
        let ranks = device.ranks as usize;
        let divided_by = |divisor: usize| {
            let mut quotients = [0; BANKS_MAX];
            for (bank, slot) in quotients.iter_mut().enumerate().take(ranks * groups * banks) {
                *slot = (bank / divisor) as u8;
            }
            quotients
        };
        let (group_of, rank_of) = (divided_by(banks), divided_by(groups * banks));
        Self { ranks, groups, banks, group_of, rank_of }
    }

    #[inline]
    pub(super) fn rank(&self, bank: usize) -> usize {
        // The masks here and in `group` change no valid number. They show the compiler that an
        // index is within its array, so that the compiler leaves out the bounds check.
        usize::from(self.rank_of[bank]) & (RANKS_MAX - 1)
    }

    /// Returns the bank group of a bank, numbered over all ranks.
    #[inline]
    pub(super) fn group(&self, bank: usize) -> usize {
        usize::from(self.group_of[bank]) & (GROUPS_MAX - 1)
    }

    /// Returns the address of `bank` in a command: rank, bank group within the rank, and bank
    /// within the group.
    #[inline]
    pub(super) fn address(&self, bank: usize) -> (u8, u8, u8) {
        let group = usize::from(self.group_of[bank]);
        (self.rank_of[bank], (group % self.groups) as u8, (bank % self.banks) as u8)
    }

    /// Returns the set of all banks of a rank.
    pub(super) fn rank_banks(&self, rank: usize) -> BankSet {
        let count = self.groups * self.banks;
        ((1 << count) - 1) << (rank * count)
    }

    /// Returns the banks with index `number` in each group of a rank, which one same-bank refresh
    /// covers.
    pub(super) fn same_banks(&self, rank: usize, number: usize) -> BankSet {
        let first = rank * self.groups * self.banks + number;
        (0..self.groups).fold(0, |set, group| set | 1 << (first + group * self.banks))
    }
}
