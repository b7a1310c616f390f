"""One broker: connections in, partitions behind them, one event loop, no locks."""
