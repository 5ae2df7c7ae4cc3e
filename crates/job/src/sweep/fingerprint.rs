//! Computes fingerprints (hashes) of a sweep's input and of its rows, by which a sweep detects that
//! its input or its rows have changed.

/// Returns the fingerprint of `texts`, in hexadecimal digits (FNV-1a, 64 bits).
pub(super) fn of<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let add = |hash: u64, text: T| text.as_ref().bytes().fold(hash, mix);
    format!("{:016x}", texts.into_iter().fold(0xcbf2_9ce4_8422_2325, add))
}
