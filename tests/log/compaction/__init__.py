"""Tests of barnabas.log.compaction."""
