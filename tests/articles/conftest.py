"""Each test has fresh brokers in this process, of the package's own plugin."""

from barnabas.testing.plugin import kafka

__all__ = ["kafka"]
