"""Tests of barnabas.log.producers."""
