//! Lists of CPUs and nodes in the kernel's grammar (`0-3,8`) and in numactl's grammar (`0-3,!2`,
//! `+0-1`, `all`).

use std::{collections::BTreeSet, fmt};

/// The highest accepted ID of a CPU or node; no machine has so many CPUs.
const NUMBER_MAX: u32 = 65_535;

/// A set of IDs of CPUs or nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdList(BTreeSet<u32>);

/// The reason why a text is not a valid list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdListError {
    #[error("\"{part}\" in \"{text}\" is neither a number nor a range such as 0-3")]
    Part { text: String, part: String },
    #[error("\"{part}\" in \"{text}\" ends before it begins")]
    Backwards { text: String, part: String },
    #[error("\"{text}\": there is no {number}, the machine has {allowed}")]
    Absent {
        text: String,
        number: u32,
        /// The IDs that the machine has.
        allowed: String,
    },
    #[error("\"{0}\" names nothing")]
    Empty(String),
}

impl IdList {
    /// Parses a list in the kernel's grammar, such as `0-3,8`. An empty text is an empty list.
    ///
    /// # Errors
    /// When the text between two commas is neither a number up to 65535 nor an ascending range of
    /// such numbers.
    pub fn of_kernel(text: &str) -> Result<Self, IdListError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut numbers = BTreeSet::new();
        for part in text.split(',') {
            numbers.extend(range(text, part.trim())?);
        }
        Ok(Self(numbers))
    }

    /// Parses a user's list in numactl's grammar: `all`, `0-3,8`, `!2` (all but 2) or `0-3,!2`.
    /// `has` is the list of the machine's IDs. After a leading `+`, numbers are positions in `has`:
    /// `+0` is its first ID. The returned list has each ID once, in the order of the text.
    ///
    /// # Errors
    /// When the text is malformed, names an ID that the machine does not have, or names no ID.
    pub fn of_user(text: &str, has: &Self) -> Result<Vec<u32>, IdListError> {
        let trimmed = text.trim();
        if trimmed == "all" {
            return Ok(has.iter().collect());
        }
        let (trimmed, relative) = match trimmed.strip_prefix('+') {
            Some(rest) => (rest, true),
            None => (trimmed, false),
        };
        let ordered: Vec<u32> = has.iter().collect();
        let find = |number: u32| {
            let found = if relative {
                ordered.get(number as usize).copied()
            } else {
                has.0.get(&number).copied()
            };
            let allowed = has.to_string();
            found.ok_or_else(|| IdListError::Absent { text: text.into(), number, allowed })
        };
        let (mut wanted, mut unwanted): (Vec<u32>, Vec<u32>) = (vec![], vec![]);
        for part in trimmed.split(',') {
            let part = part.trim();
            let (part, set) = match part.strip_prefix('!') {
                Some(rest) => (rest, &mut unwanted),
                None => (part, &mut wanted),
            };
            for number in range(text, part)? {
                set.push(find(number)?);
            }
        }
        if wanted.is_empty() {
            wanted.clone_from(&ordered);
        }
        let mut left: Vec<u32> = vec![];
        for number in wanted {
            if !unwanted.contains(&number) && !left.contains(&number) {
                left.push(number);
            }
        }
        if left.is_empty() { Err(IdListError::Empty(text.into())) } else { Ok(left) }
    }

    /// Returns the IDs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, number: u32) -> bool {
        self.0.contains(&number)
    }
}

impl FromIterator<u32> for IdList {
    fn from_iter<T: IntoIterator<Item = u32>>(numbers: T) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl fmt::Display for IdList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = vec![];
        let mut numbers = self.iter().peekable();
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            parts.push(if first == last { first.to_string() } else { format!("{first}-{last}") });
        }
        f.write_str(&parts.join(","))
    }
}

/// Parses `part`, which is one element of the list `text`: a number, or a range such as `0-3`.
fn range(text: &str, part: &str) -> Result<std::ops::RangeInclusive<u32>, IdListError> {
    let wrong = || IdListError::Part { text: text.into(), part: part.into() };
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: Option<u32> = digits.parse().ok().filter(|number| *number <= NUMBER_MAX);
        number.filter(|_| plain).ok_or_else(wrong)
    };
    let (first, last) = match part.split_once('-') {
        Some((first, last)) => (number(first.trim())?, number(last.trim())?),
        None => (number(part)?, number(part)?),
    };
    if first > last {
        return Err(IdListError::Backwards { text: text.into(), part: part.into() });
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_the_kernel() {
        for (text, shown, len) in
            [("0", "0", 1), ("0-3,8", "0-3,8", 5), ("", "", 0), ("5,0-1", "0-1,5", 3)]
        {
            let list = IdList::of_kernel(text).unwrap();
            assert_eq!((list.to_string().as_str(), list.len()), (shown, len));
        }
        for bad in ["a", "1-", "-1", "3-1", "1,,2", "0x1", "99999999"] {
            assert!(IdList::of_kernel(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_a_user() {
        let has = IdList::of_kernel("0-1,4-5").unwrap();
        let table = [
            ("all", "0-1,4-5"),
            ("0,4", "0,4"),
            ("!4", "0-1,5"),
            ("0-1,!1", "0"),
            ("+0-2", "0-1,4"),
            ("+!3", "0-1,4"),
        ];
        for (text, shown) in table {
            let list: IdList = IdList::of_user(text, &has).unwrap().into_iter().collect();
            assert_eq!(list.to_string(), shown, "{text}");
        }
        let table = [
            ("2", "\"2\": there is no 2, the machine has 0-1,4-5"),
            ("+4", "\"+4\": there is no 4, the machine has 0-1,4-5"),
            ("0,!0", "\"0,!0\" names nothing"),
            ("", "\"\" in \"\" is neither a number nor a range such as 0-3"),
            ("1-0", "\"1-0\" in \"1-0\" ends before it begins"),
        ];
        for (text, error) in table {
            assert_eq!(IdList::of_user(text, &has).unwrap_err().to_string(), error);
        }
    }

    proptest! {
        #[test]
        fn text_and_back(numbers in prop::collection::btree_set(0..200u32, 0..40)) {
            let list: IdList = numbers.iter().copied().collect();
            prop_assert_eq!(IdList::of_kernel(&list.to_string()), Ok(list));
        }
    }
}
