//! What stands in for Burn's dashboard where it isn't asked for: nothing. The curve says what there
//! is to say, a line at a time (see `curve`).
