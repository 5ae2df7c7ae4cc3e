//! Writes records for tests that cut the power while records are written. Each record is durable
//! before the next is written.
//!
//! Even records are appended to the file `log`. Each odd record is a file of its own, written under
//! another name and then renamed. The number of a record is reported after `fsync` returned: from
//! then on the record must survive a power failure.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use super::{mix, pattern};

/// Returns the number of bytes of a record: 1 to 24,000, so that most records span several blocks.
fn length(record: u64) -> usize {
    1 + (mix(1, record) % 24_000) as usize
}

fn data(record: u64) -> Vec<u8> {
    let mut data = vec![0; length(record)];
    pattern(record, 0, &mut data);
    data
}

/// Writes records until the machine stops or the file system is full.
pub(super) fn write(folder: &Path, port: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Makes the name of the folder durable before the first record.
    File::open(folder.parent().unwrap_or(folder))?.sync_all()?;
    let mut log = OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
    let mut port = OpenOptions::new().write(true).open(port)?;
    let names = File::open(folder)?;
    names.sync_all()?;
    for record in 0.. {
        let data = data(record);
        if record % 2 == 0 {
            log.write_all(&data)?;
            if record % 4 == 0 { log.sync_data()? } else { log.sync_all()? }
        } else {
            let written = folder.join("new");
            let mut file = File::create(&written)?;
            file.write_all(&data)?;
            file.sync_all()?;
            fs::rename(&written, folder.join(record.to_string()))?;
            names.sync_all()?;
        }
        // Writes the line in a single call, so that no other output to the port splits the line.
        port.write_all(format!("|durable {record}\n").as_bytes())?;
    }
    Ok(())
}

/// Checks the first `records` records, and returns the number of checked bytes.
pub(super) fn recover(folder: &Path, records: u64) -> io::Result<u64> {
    let mut checked = 0;
    let mut at = 0;
    let mut log = File::open(folder.join("log"))?;
    for record in 0..records {
        let expected = data(record);
        let mut found = vec![0; expected.len()];
        let read = if record % 2 == 0 {
            log.seek(SeekFrom::Start(at))?;
            at += expected.len() as u64;
            log.read_exact(&mut found)
        } else {
            File::open(folder.join(record.to_string()))
                .and_then(|mut file| file.read_exact(&mut found))
        };
        let named = |why| io::Error::other(format!("record {record}: {why}"));
        read.map_err(|why| named(why.to_string()))?;
        if found != expected {
            return Err(named("its bytes are wrong".to_string()));
        }
        checked += expected.len() as u64;
    }
    Ok(checked)
}
