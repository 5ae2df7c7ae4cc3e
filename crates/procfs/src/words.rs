//! Parsers of words and numbers in byte strings, which need not be UTF-8.

/// Returns the words of `text`, which are separated by spaces, tabs and newlines.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// Parses a decimal number without a sign.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    number(digits, 10)
}

/// Parses a hexadecimal number without a prefix.
pub(crate) fn hexadecimal(digits: &[u8]) -> Option<u64> {
    number(digits, 16)
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let text = str::from_utf8(digits).ok()?;
    // A plus sign is refused, because `from_str_radix` would accept it, but the kernel never writes
    // it.
    if text.starts_with('+') { None } else { u64::from_str_radix(text, radix).ok() }
}

/// Returns the parts of `text` before and after its first `divider`; `None` if it has no divider.
pub(crate) fn split_once(text: &[u8], divider: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == divider)?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_sign() {
        assert_eq!((decimal(b"42"), hexadecimal(b"7fff")), (Some(42), Some(0x7fff)));
        for wrong in [&b""[..], b"+1", b"-1", b"x", b"18446744073709551616", b"\xff"] {
            assert_eq!(decimal(wrong), None);
        }
    }

    #[test]
    fn words_are_divided_by_any_space() {
        assert_eq!(words(b" a  b\tc\n").collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(split_once(b"a-b-c", b'-'), Some((&b"a"[..], &b"b-c"[..])));
    }
}
