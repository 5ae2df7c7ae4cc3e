//! Sends commands to an NVMe controller without the kernel's block layer (passthrough).

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use super::ioctl::{Passthrough, pass};

const IDENTIFY: u8 = 0x06;
const PAGE: usize = 4096;

/// Prints the identify data of the controller and of namespace 1.
pub(super) fn identify(device: &Path, out: &mut dyn Write) -> io::Result<()> {
    let device = File::open(device)?;
    let page = |structure: u32, namespace: u32| -> io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE];
        let dwords = [structure, 0, 0, 0, 0, 0];
        let command = Passthrough::new(IDENTIFY, namespace, dwords);
        match pass(&device, true, command, &mut page)? {
            0 => Ok(page),
            status => Err(io::Error::other(format!("identify {structure}: status {status:#x}"))),
        }
    };
    let controller = page(1, 0)?;
    let text = |at: usize, length: usize| {
        String::from_utf8_lossy(&controller[at..at + length]).trim_end().to_string()
    };
    writeln!(out, "serial {}", text(4, 20))?;
    writeln!(out, "model {}", text(24, 40))?;
    writeln!(out, "firmware {}", text(64, 8))?;
    let mut version = [0; 4];
    version.copy_from_slice(&controller[80..84]);
    writeln!(out, "version {:#x}", u32::from_le_bytes(version))?;
    writeln!(out, "transfer pages {}", 1_u32 << controller[77])?;
    writeln!(out, "write cache {}", controller[525] & 1)?;
    let namespace = page(0, 1)?;
    let mut blocks = [0; 8];
    blocks.copy_from_slice(&namespace[..8]);
    writeln!(out, "blocks {}", u64::from_le_bytes(blocks))?;
    writeln!(out, "block bytes {}", 1_u32 << namespace[130])
}

/// Sends commands that a controller must reject, and prints the status of each command.
pub(super) fn refuse(device: &Path, out: &mut dyn Write) -> io::Result<()> {
    let device = File::open(device)?;
    let admin = |opcode, namespace, dword_10| {
        let dwords = [dword_10, 0, 0, 0, 0, 0];
        (true, Passthrough::new(opcode, namespace, dwords))
    };
    let io = |opcode, namespace, block: u64, blocks: u32| {
        let dwords = [block as u32, (block >> 32) as u32, blocks - 1, 0, 0, 0];
        (false, Passthrough::new(opcode, namespace, dwords))
    };
    let table = [
        ("admin opcode", admin(0xff, 0, 0)),
        ("identify structure", admin(IDENTIFY, 0, 0x77)),
        ("identify namespace", admin(IDENTIFY, 9, 0)),
        ("log page", admin(0x02, u32::MAX, 0x000f_0077)),
        ("feature", admin(0x0a, 0, 0x77)),
        ("delete of no queue", admin(0x00, 0, 0xffff)),
        ("io opcode", io(0x77, 1, 0, 1)),
        ("last block", io(0x02, 1, u64::MAX, 1)),
    ];
    for (name, (is_admin, command)) in table {
        let mut data = vec![0; if command.opcode() == 0 { 0 } else { PAGE }];
        let status = pass(&device, is_admin, command, &mut data)?;
        writeln!(out, "{name}: {:#05x}", status & 0x7ff)?;
    }
    Ok(())
}
