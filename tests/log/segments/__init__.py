"""Tests of barnabas.log.segments."""
