"""Research whose results the Rust workspace takes over."""
