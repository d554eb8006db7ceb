//! Blocks of drawn requests, in memory or in a file that goes when nobody reads it any more.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sample::Row;

/// Rows read at a time.
const AT_ONCE: u64 = 1024;
const ROW_BYTES: usize = 20;

/// A file without a name.
#[derive(Debug)]
pub struct Spill {
    file: Arc<File>,
    end: u64,
}

/// Requests in order of arrival.
#[derive(Debug)]
pub enum Block {
    Held(Arc<Vec<Row>>),
    /// Where in the file it begins, and how many rows it has.
    Spilled(u64, u64),
}

fn failed(what: &str, error: &io::Error) -> Error {
    let folder = std::env::temp_dir();
    Error::Disk { what: format!("drawn requests cannot be {what} in {}: {error}", folder.display()) }
}

impl Spill {
    pub fn new() -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = std::env::temp_dir();
        for _ in 0..1000 {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("planner-requests-{}-{number}", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    std::fs::remove_file(&path).map_err(|error| failed("kept", &error))?;
                    return Ok(Self { file: Arc::new(file), end: 0 });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("kept", &error)),
            }
        }
        Err(failed("kept", &io::Error::from(io::ErrorKind::AlreadyExists)))
    }

    pub fn write(&mut self, rows: &[Row]) -> Result<Block> {
        let mut bytes = Vec::with_capacity(rows.len() * ROW_BYTES);
        for (arrival, input, output, redraws) in rows {
            bytes.extend_from_slice(&arrival.to_le_bytes());
            for value in [input, output, redraws] {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        self.file.write_all_at(&bytes, self.end).map_err(|error| failed("kept", &error))?;
        let block = Block::Spilled(self.end, rows.len() as u64);
        self.end += bytes.len() as u64;
        Ok(block)
    }
}

impl Block {
    /// Reads it from the first row on that `is_first` says yes to, round its end and up to there; rows that it says yes
    /// to come after those that it does not. A block that is not held is in `spill`.
    pub fn reader(&self, spill: Option<&Spill>, is_first: impl Fn(&Row) -> bool) -> Result<Reader> {
        let mut reader = match self {
            Self::Held(rows) => {
                let n = rows.len() as u64;
                Reader { rows: Arc::clone(rows), at: 0, file: None, begin: 0, n, place: 0, left: n }
            }
            Self::Spilled(begin, n) => {
                let file = spill.map(|spill| Arc::clone(&spill.file));
                Reader { rows: Arc::default(), at: 0, file, begin: *begin, n: *n, place: 0, left: *n }
            }
        };
        let (mut low, mut high) = (0, reader.n);
        while low < high {
            let middle = low + (high - low) / 2;
            if reader.row(middle)?.is_some_and(|row| is_first(&row)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        reader.place = low % reader.n.max(1);
        Ok(reader)
    }
}

/// The rows of a block, one after the other.
pub struct Reader {
    /// All of a held block, else some that were read, of which `at` is the next.
    rows: Arc<Vec<Row>>,
    at: usize,
    file: Option<Arc<File>>,
    /// Where in the file the block begins, and its rows.
    begin: u64,
    n: u64,
    /// The next row to be read or given, and how many are left.
    place: u64,
    left: u64,
}

impl Reader {
    /// The row that `take` gives next.
    pub fn peek(&mut self) -> Result<Option<Row>> {
        if self.file.is_none() {
            let place = self.place as usize;
            return Ok(if self.left > 0 { self.rows.get(place).copied() } else { None });
        }
        if self.at == self.rows.len() && self.left > 0 {
            let n = self.left.min(AT_ONCE).min(self.n - self.place);
            self.rows = Arc::new(self.read(self.place, n)?);
            (self.at, self.left) = (0, self.left - n);
            self.place = (self.place + n) % self.n;
        }
        Ok(self.rows.get(self.at).copied())
    }

    pub fn take(&mut self) -> Result<Option<Row>> {
        let row = self.peek()?;
        if self.file.is_some() {
            self.at += 1;
        } else if row.is_some() {
            self.left -= 1;
            self.place = (self.place + 1) % self.n;
        }
        Ok(row)
    }

    fn row(&self, place: u64) -> Result<Option<Row>> {
        if self.file.is_none() {
            return Ok(self.rows.get(place as usize).copied());
        }
        Ok(self.read(place, 1)?.first().copied())
    }

    fn read(&self, place: u64, n: u64) -> Result<Vec<Row>> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let mut bytes = vec![0; n as usize * ROW_BYTES];
        let at = self.begin + place * ROW_BYTES as u64;
        file.read_exact_at(&mut bytes, at).map_err(|error| failed("read", &error))?;
        Ok(bytes.chunks_exact(ROW_BYTES).map(row_of).collect())
    }
}

fn row_of(bytes: &[u8]) -> Row {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let arrival = u64::from(word(0)) | u64::from(word(4)) << 32;
    (arrival, word(8), word(12), word(16))
}
