//! Fingerprint of the engine's sources, so that results say which core made them, whatever the build profile.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn main() {
    let mut files = Vec::new();
    sources(Path::new("../engine/src"), &mut files);
    sources(Path::new("src"), &mut files);
    files.sort();
    // FNV-1a, 64 bits: not for security, only to tell builds apart.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in &files {
        for byte in fs::read(file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=PLANNER_SOURCES={hash:016x}");
    println!("cargo:rerun-if-changed=../engine/src");
    println!("cargo:rerun-if-changed=src");
}
