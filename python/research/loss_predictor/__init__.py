"""The network that predicts packet loss: its data, training, figures and export."""
