//! The program `drive` uses an NVMe drive as applications and administrators do.
//!
//! ```text
//! drive module /modules/02-xfs.ko
//! drive identify /dev/nvme0
//! drive refuse /dev/nvme0                        commands that the drive must refuse
//! drive fill /dev/nvme0n1 0 1MiB 7               write data made from the seed 7
//! drive check /dev/nvme0n1 0 1MiB 7              compare
//! drive discard|zero /dev/nvme0n1 0 1MiB
//! drive blank /dev/nvme0n1 0 1MiB                all bytes are zero
//! drive mount ext4 /dev/nvme0n1 /mnt
//! drive unmount /mnt
//! drive journal /mnt/3 /dev/ttyS1                write records, fsync each, report its number
//! drive recover /mnt/3 120                       check that the first 120 records exist
//! ```

use std::{
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    process::ExitCode,
};

use rustix::{
    fs::OFlags,
    mount::{MountFlags, UnmountFlags, mount, unmount},
    system::finit_module,
};

use crate::words;

mod ioctl;
mod journal;
mod nvme;

/// Bytes that `fill`, `check` and `blank` write or read at once.
const TRANSFER: usize = 128 << 10;

/// Runs the subcommand in `args`, such as `fill`.
pub fn main(args: impl Iterator<Item = String>, out: &mut dyn Write) -> ExitCode {
    let args: Vec<String> = args.collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = run(&words, out);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A failure to print cannot be reported anywhere.
            let _ = writeln!(out, "drive {}: {why}", args.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str], out: &mut dyn Write) -> io::Result<()> {
    match words {
        ["module", path] => {
            let parameters = CString::default();
            Ok(finit_module(File::open(path)?, &parameters, 0)?)
        }
        ["identify", device] => nvme::identify(Path::new(device), out),
        ["refuse", device] => nvme::refuse(Path::new(device), out),
        ["fill", device, offset, bytes, seed] => fill(device, range(offset, bytes)?, word(seed)?),
        ["check", device, offset, bytes, seed] => {
            let seed = word(seed)?;
            compare(device, range(offset, bytes)?, |at, data| pattern(seed, at, data))
        }
        ["blank", device, offset, bytes] => {
            compare(device, range(offset, bytes)?, |_, data| data.fill(0))
        }
        ["discard", device, offset, bytes] => {
            ioctl::discard(&OpenOptions::new().write(true).open(device)?, range(offset, bytes)?)
        }
        ["zero", device, offset, bytes] => {
            ioctl::zero(&OpenOptions::new().write(true).open(device)?, range(offset, bytes)?)
        }
        ["mount", kind, device, folder] => {
            fs::create_dir_all(folder)?;
            Ok(mount(*device, *folder, *kind, MountFlags::empty(), None)?)
        }
        ["unmount", folder] => Ok(unmount(*folder, UnmountFlags::empty())?),
        ["journal", folder, port] => journal::write(Path::new(folder), Path::new(port)),
        ["recover", folder, records] => {
            let found = journal::recover(Path::new(folder), word(records)?)?;
            writeln!(out, "recovered {found}")
        }
        _ => Err(io::Error::other("unknown words; the header of drive.rs has the usage")),
    }
}

fn word<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    words::number(text).map_err(io::Error::other)
}

/// Parses a range of bytes: the offset and the length, written as `0` or `64MiB`.
fn range(offset: &str, bytes: &str) -> io::Result<[u64; 2]> {
    let size = |text: &str| match text {
        "0" => Ok(0),
        _ => words::size(text).map(|size| size as u64).map_err(io::Error::other),
    };
    Ok([size(offset)?, size(bytes)?])
}

/// Opens a device for access without the page cache.
fn direct(device: &str, write: bool) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits() as i32;
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(device)
}

/// Creates a buffer of [`TRANSFER`] bytes, aligned to a page, because direct I/O requires
/// alignment.
fn buffer() -> io::Result<memmap2::MmapMut> {
    memmap2::MmapMut::map_anon(TRANSFER)
}

/// Divides a range into transfers, and returns the offset and the length of each. All have
/// [`TRANSFER`] bytes, except that the last may be shorter.
fn parts([offset, bytes]: [u64; 2]) -> impl Iterator<Item = (u64, usize)> {
    let starts = (offset..offset + bytes).step_by(TRANSFER);
    starts.map(move |at| (at, TRANSFER.min((offset + bytes - at) as usize)))
}

fn fill(device: &str, range: [u64; 2], seed: u64) -> io::Result<()> {
    let file = direct(device, true)?;
    let mut buffer = buffer()?;
    for (at, bytes) in parts(range) {
        let data = &mut buffer[..bytes];
        pattern(seed, at, data);
        file.write_all_at(data, at)?;
    }
    file.sync_data()
}

/// Compares a range of the device with expected data. `expect` gets an offset on the device and a
/// buffer, and fills the buffer with the data that are expected at the offset.
fn compare(device: &str, range: [u64; 2], expect: impl Fn(u64, &mut [u8])) -> io::Result<()> {
    let file = direct(device, false)?;
    let mut buffer = buffer()?;
    let mut expected = vec![0; TRANSFER];
    for (at, bytes) in parts(range) {
        let (data, expected) = (&mut buffer[..bytes], &mut expected[..bytes]);
        file.read_exact_at(data, at)?;
        expect(at, expected);
        if let Some(wrong) = data.iter().zip(expected.iter()).position(|(a, b)| a != b) {
            let (found, due) = (data[wrong], expected[wrong]);
            let place = at + wrong as u64;
            return Err(io::Error::other(format!("byte {place} is {found:#x}, not {due:#x}")));
        }
    }
    Ok(())
}

/// Fills `data`, which is at byte offset `at` of the device, with words of 8 bytes. Each word is a
/// hash of `seed` and of the word's offset on the device.
fn pattern(seed: u64, at: u64, data: &mut [u8]) {
    for (word, place) in data.chunks_mut(8).zip((at / 8)..) {
        word.copy_from_slice(&mix(seed, place).to_le_bytes()[..word.len()]);
    }
}

/// Hashes two numbers with the finalizer of SplitMix64 (Steele et al., OOPSLA 2014).
fn mix(seed: u64, place: u64) -> u64 {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(place);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
