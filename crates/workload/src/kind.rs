//! The workloads by name.

use crate::{
    Kernel, SetupError,
    fft::Transform,
    gemm::Gemm,
    memory::Memory,
    polynomial::Polynomial,
    random::Random,
    stream::{Loop, Stream},
    sweep::Sweep,
};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// STREAM.
    Stream,
    /// Everything read in order.
    Seq,
    /// A word of each page, in strides.
    Stride,
    /// A word anywhere.
    Random,
    /// One long Fourier transform.
    Fft,
    /// The Fourier transform of a cube.
    Fft3d,
    /// A product of matrices stored row by row.
    Gemm,
    /// Matrix multiplication, tile by tile.
    GemmTiled,
    /// A polynomial at every element.
    Polynomial,
}

/// The unit of a workload's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, in 10^9 a second.
    Gbps,
    /// Operations with floating point, in 10^9 a second.
    Gflops,
    /// Accesses, in 10^3 a second.
    Kaccesses,
}

impl Unit {
    /// The unit as printed behind a number.
    pub fn text(self) -> &'static str {
        match self {
            Self::Gbps => "GB/s",
            Self::Gflops => "GFLOP/s",
            Self::Kaccesses => "k accesses/s",
        }
    }
}

/// The parameters of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Bytes of all its arrays together.
    pub footprint: u64,
    /// Threads.
    pub threads: usize,
    /// The memory of the arrays.
    pub memory: Memory,
    /// Of stream: one loop alone.
    pub only: Option<Loop>,
    /// Of stride: bytes from one access to the next.
    pub stride: u64,
    /// Of random and polynomial: whether elements are modified.
    pub is_writing: bool,
    /// Of gemm-tiled: rows of a tile.
    pub tile: usize,
    /// Of polynomial: its degree.
    pub degree: u32,
    /// Of random: the seed of its sequence.
    pub seed: u64,
}

impl Kind {
    /// All workloads: name, kind, and a summary line.
    pub const ALL: [(&'static str, Self, &'static str); 9] = [
        ("stream", Self::Stream, "STREAM: triad over three arrays, then copy, scale and add"),
        ("seq", Self::Seq, "reads every word in order"),
        ("stride", Self::Stride, "reads one word of each page, 64 KiB from one to the next"),
        ("random", Self::Random, "reads single words anywhere, or changes them (--write)"),
        ("fft", Self::Fft, "one long Fourier transform in place"),
        ("fft-3d", Self::Fft3d, "the Fourier transform of a cube, axis by axis"),
        ("gemm", Self::Gemm, "a product of matrices stored row by row"),
        ("gemm-tiled", Self::GemmTiled, "a product of matrices stored tile by tile"),
        ("polynomial", Self::Polynomial, "a polynomial at each element, of any intensity"),
    ];

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _, _)| *known == name).map(|(_, kind, _)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind, _)| *kind == self).map_or("", |(name, _, _)| name)
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::Stream | Self::Seq => Unit::Gbps,
            Self::Stride | Self::Random => Unit::Kaccesses,
            Self::Fft | Self::Fft3d | Self::Gemm | Self::GemmTiled | Self::Polynomial => {
                Unit::Gflops
            }
        }
    }

    /// The workload, with its arrays filled.
    ///
    /// # Errors
    /// When a setting is not for it, or there is no memory.
    pub fn kernel(self, setting: &Setting) -> Result<Box<dyn Kernel>, SetupError> {
        let Setting { footprint, threads, ref memory, is_writing, .. } = *setting;
        let seed = setting.seed;
        Ok(match self {
            Self::Stream => Box::new(Stream::new(memory, footprint, threads, setting.only)?),
            Self::Seq => Box::new(Sweep::new(memory, footprint, threads, None)?),
            Self::Stride => Box::new(Sweep::new(memory, footprint, threads, Some(setting.stride))?),
            Self::Random => Box::new(Random::new(memory, footprint, threads, is_writing, seed)?),
            Self::Fft => Box::new(Transform::long(memory, footprint, threads)?),
            Self::Fft3d => Box::new(Transform::cube(memory, footprint, threads)?),
            Self::Gemm => Box::new(Gemm::new(memory, footprint, threads, None)?),
            Self::GemmTiled => Box::new(Gemm::new(memory, footprint, threads, Some(setting.tile))?),
            Self::Polynomial => {
                let degree = setting.degree;
                Box::new(Polynomial::new(memory, footprint, threads, degree, is_writing)?)
            }
        })
    }
}
