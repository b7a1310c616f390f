"""Tests of barnabas.log.directory."""
