"""The core's knowledge of its own log: ends, epochs, voter sets, an incoming snapshot."""
