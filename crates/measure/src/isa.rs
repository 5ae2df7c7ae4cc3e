//! Names the instruction sets of the traffic kernels ([`crate::kernel`]), and detects them on this
//! machine.

use std::{fmt, str::FromStr};

/// An instruction set of loads and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Vectors of 16 bytes, which every x86-64 processor has.
    Sse2,
    /// Vectors of 32 bytes.
    Avx2,
    /// Vectors of 64 bytes (AVX-512F).
    Avx512,
    /// Vectors of 16 bytes, which every AArch64 processor has.
    Neon,
    /// Vectors of a width that depends on the machine.
    Sve,
}

/// All instruction sets with their names. The instruction sets of one architecture are in the order
/// of their vector width, the narrowest first.
const NAMED: [(Isa, &str); 5] = [
    (Isa::Sse2, "sse2"),
    (Isa::Avx2, "avx2"),
    (Isa::Avx512, "avx512"),
    (Isa::Neon, "neon"),
    (Isa::Sve, "sve"),
];

/// The reason why a requested instruction set cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IsaError {
    /// The text is not the name of an instruction set.
    #[error("there is no instruction set \"{0}\"")]
    Name(String),
    /// This machine does not have the instruction set.
    #[error("this machine has no {0}")]
    Absent(Isa),
}

impl IsaError {
    pub fn hint() -> String {
        let names: Vec<String> = Isa::available().iter().map(Isa::to_string).collect();
        format!("this machine has {}; without --isa the best is taken", names.join(", "))
    }
}

impl Isa {
    /// Returns the instruction sets that this machine has, the narrowest first. The list is never
    /// empty.
    pub fn available() -> Vec<Self> {
        NAMED.iter().map(|(isa, _)| *isa).filter(|isa| isa.is_here()).collect()
    }

    /// Returns this instruction set, if the machine has it.
    ///
    /// # Errors
    ///
    /// When the machine does not have the instruction set.
    pub fn here(self) -> Result<Self, IsaError> {
        if self.is_here() { Ok(self) } else { Err(IsaError::Absent(self)) }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_here(self) -> bool {
        match self {
            Self::Sse2 => true,
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
            Self::Neon | Self::Sve => false,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn is_here(self) -> bool {
        match self {
            Self::Neon => true,
            Self::Sve => std::arch::is_aarch64_feature_detected!("sve"),
            Self::Sse2 | Self::Avx2 | Self::Avx512 => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMED.iter().find(|(isa, _)| isa == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Isa {
    type Err = IsaError;

    fn from_str(text: &str) -> Result<Self, IsaError> {
        let found = NAMED.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        found.map(|(isa, _)| *isa).ok_or_else(|| IsaError::Name(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (isa, name) in NAMED {
            assert_eq!(name.parse(), Ok(isa));
            assert_eq!(isa.to_string(), name);
        }
        assert_eq!("mmx".parse::<Isa>(), Err(IsaError::Name("mmx".into())));
    }

    /// The environment variable `INTERLEAF_ISAS` may list instruction sets, for runs on an emulated
    /// processor. All listed instruction sets must be available.
    #[test]
    fn instruction_sets_required_by_the_environment_are_available() {
        let names = std::env::var("INTERLEAF_ISAS").unwrap_or_default();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let isa = name.parse::<Isa>().and_then(Isa::here);
            assert!(isa.is_ok(), "{isa:?}");
        }
    }

    #[test]
    fn a_machine_has_one_architecture() {
        let all = Isa::available();
        assert!(!all.is_empty());
        let foreign = if cfg!(target_arch = "x86_64") { Isa::Neon } else { Isa::Sse2 };
        assert_eq!(foreign.here(), Err(IsaError::Absent(foreign)));
        assert_eq!(all[0].here(), Ok(all[0]));
    }
}
