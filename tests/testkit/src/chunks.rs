//! Ways of splitting bytes into the chunks in which they might arrive.

/// Cuts `bytes` into pieces whose lengths cycle through `cuts`.
pub fn cut<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    let mut lengths = cuts.iter().copied().filter(|length| *length > 0).cycle();
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(rest.len()).min(rest.len());
        let (piece, after) = rest.split_at(length);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Every way of cutting `bytes` in two, then into single bytes, then not at all.
pub fn each_cut(bytes: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    (1..bytes.len())
        .map(|at| {
            let (a, b) = bytes.split_at(at);
            vec![a, b]
        })
        .chain([cut(bytes, &[1]), vec![bytes]])
}
