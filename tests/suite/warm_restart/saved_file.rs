//! Edits a saved store and makes its checksums right again, like somebody who knows
//! the format.

use serde_json::Value;
use sha2::{Digest, Sha256};

const PREAMBLE: usize = 47;
const TAG: usize = 32;

pub struct SavedFile {
    preamble: Vec<u8>,
    pub header: Value,
    /// For each block: whether it is the last, and its bytes.
    blocks: Vec<(bool, Vec<u8>)>,
}

fn number(bytes: &[u8]) -> usize {
    u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as usize
}

impl SavedFile {
    pub fn parse(file: &[u8]) -> Self {
        let (preamble, rest) = file.split_at(PREAMBLE);
        let length = number(&preamble[PREAMBLE - 4..]);
        let (header, rest) = rest.split_at(length);
        let mut rest = &rest[TAG..];
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let length = number(&rest[1..5]);
            blocks.push((rest[0] == 1, rest[5..5 + length].to_vec()));
            rest = &rest[5 + length + TAG..];
        }
        Self {
            preamble: preamble.to_vec(),
            header: serde_json::from_slice(header).expect("JSON"),
            blocks,
        }
    }

    /// Returns the file with new checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let header = serde_json::to_vec(&self.header).expect("JSON");
        let mut file = self.preamble[..PREAMBLE - 4].to_vec();
        file.extend((header.len() as u32).to_le_bytes());
        file.extend(&header);
        let digest = Sha256::digest(&file);
        let tag = |index: u64, last: bool, block: &[u8]| {
            let mut hash = Sha256::new();
            hash.update(digest);
            hash.update(index.to_le_bytes());
            hash.update([u8::from(last)]);
            hash.update(block);
            hash.finalize()
        };
        let of_header = tag(0, false, &[]);
        let mut out = file.clone();
        out.extend(of_header);
        for ((last, block), index) in self.blocks.iter().zip(1..) {
            out.push(u8::from(*last));
            out.extend((block.len() as u32).to_le_bytes());
            out.extend(block);
            out.extend(tag(index, *last, block));
        }
        out
    }
}
