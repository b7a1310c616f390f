"""What the name of a topic tells."""

import re

DEAD_LETTER_NAME = re.compile(r"[._-](dlq|dlt|dead-?letters?|errors)$", re.IGNORECASE)
LETTER_ENDINGS = (".dlq", ".dlt", "-dlq", "-dlt", ".dead-letter", ".errors")
