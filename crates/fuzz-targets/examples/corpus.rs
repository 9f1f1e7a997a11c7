//! Writes the seed corpus for cargo-fuzz: `cargo run -p sheaf-fuzz --example corpus -- fuzz/corpus`.

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "fuzz/corpus".into());
    sheaf_fuzz::write_corpus(std::path::Path::new(&folder))
}
