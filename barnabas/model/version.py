"""The version of Barnabas."""

VERSION = "0.1.0"
