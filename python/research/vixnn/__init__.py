"""ViXNN's models: networks, training data, training, weights for `crates/vixnn`."""
