//! The policy of memory of the calling thread: the one system call that no crate wraps, and the
//! only `unsafe` of the workspace.

use std::io;

/// `MPOL_WEIGHTED_INTERLEAVE` of `linux/mempolicy.h`, since 6.9.
const WEIGHTED_INTERLEAVE: libc::c_int = 6;

/// Nodes that a mask can name.
const NODES_MAX: u32 = u64::BITS;

/// Where the kernel takes new pages from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Only from these nodes, the nearest first.
    Bind(Vec<u32>),
    /// From these nodes in turn, of each as many as its weight says.
    WeightedInterleave(Vec<u32>),
}

impl Policy {
    /// Sets it for the calling thread, and the threads and processes that it starts.
    ///
    /// # Errors
    ///
    /// What the kernel says: of a policy that it does not know, or a node that it does not have,
    /// that the argument is invalid.
    pub fn set(&self) -> io::Result<()> {
        let (mode, nodes) = match self {
            Self::Bind(nodes) => (libc::MPOL_BIND, nodes),
            Self::WeightedInterleave(nodes) => (WEIGHTED_INTERLEAVE, nodes),
        };
        if let Some(node) = nodes.iter().find(|node| **node >= NODES_MAX) {
            let why = format!("node {node}: at most {}", NODES_MAX - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        set(mode, nodes.iter().fold(0, |mask, node| mask | 1 << node))
    }
}

#[expect(unsafe_code, reason = "no crate wraps this system call")]
fn set(mode: libc::c_int, mask: u64) -> io::Result<()> {
    // The kernel takes one less than the length it is given for the number of bits.
    let bits = libc::c_ulong::from(NODES_MAX) + 1;
    // SAFETY: `set_mempolicy(int mode, const unsigned long *mask, unsigned long bits)` reads
    // `bits - 1` bits from `mask`, which are the 64 of the local of that name, and writes no memory
    // of this process. It has effect only on where later pages come from.
    let result = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::c_long::from(mode), &raw const mask, bits)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
