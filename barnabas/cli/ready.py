"""What a broker and the process that started it say to each other.

Kept apart from supervisor.py: a lone broker needs these words, and no supervisor.
"""

READY_LINE = "barnabas ready on "
FAILED_LINE = "barnabas failed: "
SUPERVISED = "BARNABAS_SUPERVISED"  # in the environment of a broker that watches its standard input
