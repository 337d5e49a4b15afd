"""The loops of one `relayctl serve` process, one per module, and the worker that owns them."""
