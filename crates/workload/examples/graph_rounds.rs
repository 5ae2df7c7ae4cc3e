//! Times single rounds of a graph kernel, and writes the graph to a file for other programs:
//! `graph_rounds TASK SHAPE FOOTPRINT_MIB THREADS ROUNDS [FILE]`.
//!
//! The file has these numbers in the machine's byte order: the number of vertices, the number of
//! neighbours, and the offsets of the lists of neighbours (u64), the neighbours (u32), the number
//! of sources (u64), and the sources (u32).

use interleaf_workload::{
    Kernel,
    graph::{Graph, Shape, Task},
    memory::Memory,
};
use std::{
    env,
    error::Error,
    fs::File,
    io::{self, Write},
    time::Instant,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = io::stdout();
    let words: Vec<String> = env::args().skip(1).collect();
    let [task, shape, footprint, threads, rounds, file @ ..] = &words[..] else {
        return Err("graph_rounds TASK SHAPE FOOTPRINT_MIB THREADS ROUNDS [FILE]".into());
    };
    let task = Task::ALL.iter().find(|(name, _)| name == task).ok_or("no such task")?.1;
    let shape = Shape::ALL.iter().find(|(name, _)| name == shape).ok_or("no such shape")?.1;
    let footprint = footprint.parse::<u64>()? << 20;
    let mut graph = Graph::new(&Memory::Heap, footprint, threads.parse()?, task, shape, 1)?;
    let (offsets, neighbours) = graph.lists();
    writeln!(output, "{} vertices, {} neighbours", offsets.len() - 1, neighbours.len())?;
    if let [file, ..] = file {
        let mut file = File::create(file)?;
        file.write_all(&(offsets.len() as u64 - 1).to_ne_bytes())?;
        file.write_all(&(neighbours.len() as u64).to_ne_bytes())?;
        file.write_all(bytemuck::cast_slice(offsets))?;
        file.write_all(bytemuck::cast_slice(neighbours))?;
        let sources = graph.sources();
        file.write_all(&(sources.len() as u64).to_ne_bytes())?;
        file.write_all(bytemuck::cast_slice(&sources))?;
    }
    for _ in 0..rounds.parse()? {
        let begun = Instant::now();
        let work = graph.round();
        let seconds = begun.elapsed().as_secs_f64();
        writeln!(output, "{seconds:.5} s, {:.1} M edges/s", work.edges as f64 / 1e6 / seconds)?;
    }
    graph.verify()?;
    Ok(())
}
