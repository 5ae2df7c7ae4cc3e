//! A slow and simple source of commands. Refreshes are issued when they are due. Each other command
//! is chosen at random. A command is issued at the first clock that the checker allows.

use super::*;

pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit
    }
}

/// Maximum number of clocks at which one command is tried: far more than any minimum distance in
/// the tables.
const TRIED_MAX: u64 = 40_000;

pub(super) struct Walk {
    device: Device,
    checker: Checker,
    random: SplitMix64,
    at: u64,
    refreshed: Vec<u64>,
    /// For each rank, the bank that the next same-bank refresh covers in each group, as an index
    /// within the group.
    turns: Vec<u8>,
    by_bank: bool,
}

impl Walk {
    pub(super) fn new(device: &Device, seed: u64) -> Self {
        let ranks = (device.pseudo_channels * device.ranks) as usize;
        Self {
            device: device.clone(),
            checker: Checker::new(device),
            random: SplitMix64(seed),
            at: 0,
            refreshed: vec![0; ranks],
            turns: vec![0; ranks],
            by_bank: device.timing.t_refi_sb > 0 && seed % 2 == 1,
        }
    }

    /// Issues the refreshes that are due, then a random command, if its bank is open or closed as
    /// the command requires.
    pub(super) fn step(&mut self, seen: &mut impl FnMut(&Command)) {
        let timing = self.device.timing;
        let interval = if self.by_bank { timing.t_refi_sb } else { timing.t_refi };
        let interval = u64::from(interval) * self.device.host_clocks;
        for place in 0..self.refreshed.len() {
            if interval > 0 && self.at > self.refreshed[place] + interval {
                self.refreshed[place] += interval;
                self.refresh(place, seen);
            }
        }
        let kinds = [Kind::Activate, Kind::Read, Kind::Write, Kind::Precharge];
        let mut kind = kinds[self.random.below(4) as usize];
        if self.random.below(8) == 0 {
            kind = match kind {
                Kind::Read => Kind::ReadAuto,
                Kind::Write => Kind::WriteAuto,
                Kind::Precharge => Kind::PrechargeAll,
                other => other,
            };
        }
        let mut command = Command { at: self.at, kind, ..END };
        command.pseudo = self.random.below(self.device.pseudo_channels.into()) as u8;
        command.rank = self.random.below(self.device.ranks.into()) as u8;
        // Only few banks are used, so that successive commands often go to the same bank or group:
        // then the rules within a bank or group apply.
        command.bank_group = self.random.below(u64::from(self.device.bank_groups).min(5)) as u8;
        command.bank = self.random.below(2) as u8;
        command.row = self.random.below(2) as u32;
        let rank = self.checker.rank(&command);
        let open = rank.bank(&command).has_row(&command).is_ok();
        let closed = rank.bank(&command).last.of(Class::Activate).is_none()
            || !rank.bank(&command).is_open();
        let fits = match Class::of(kind) {
            Class::Activate => closed,
            Class::Read | Class::Write => open,
            _ => !closed,
        };
        if fits {
            self.give(command, seen);
        }
    }

    fn refresh(&mut self, place: usize, seen: &mut impl FnMut(&Command)) {
        let ranks = self.device.ranks as usize;
        let mut command = Command { at: self.at, kind: Kind::PrechargeAll, ..END };
        (command.pseudo, command.rank) = ((place / ranks) as u8, (place % ranks) as u8);
        self.give(command, seen);
        command.kind = Kind::RefreshAll;
        if self.by_bank {
            (command.kind, command.bank) = (Kind::RefreshSame, self.turns[place]);
            self.turns[place] = (self.turns[place] + 1) % self.device.banks as u8;
        }
        self.give(command, seen);
    }

    /// Issues the command at the first clock that the rules allow.
    fn give(&mut self, mut command: Command, seen: &mut impl FnMut(&Command)) {
        for at in self.at..self.at + TRIED_MAX {
            command.at = at;
            if self.checker.verdict(&command).is_ok() {
                self.checker.check(&command).expect("it was allowed");
                seen(&command);
                self.at = at;
                return;
            }
        }
        let why = self.checker.verdict(&command).expect_err("nothing was allowed");
        panic!("{}: {why}", self.device.name);
    }
}

#[test]
fn allowed_commands_have_no_violation() {
    for name in ["rdimm-6400-2r", "mrdimm-8800-4r", "ddr4-3200-2r", "ddr3-1600", "stt-mram-ddr3"] {
        for seed in [1, 2] {
            let device = device(name);
            let mut walk = Walk::new(&device, seed);
            let mut other = Checker::new(&device);
            let mut counts = [0_u32; 9];
            for _ in 0..20_000 {
                walk.step(&mut |command| {
                    counts[command.kind as usize] += 1;
                    other.check(command).expect("another checker sees the same");
                });
            }
            other.finish(walk.at).expect("no refresh is late");
            let seen = counts[..7].iter().all(|count| *count > 50);
            assert!(seen, "{name}: {counts:?}");
        }
    }
}
