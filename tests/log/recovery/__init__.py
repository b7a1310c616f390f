"""Tests of barnabas.log.recovery."""
