"""What a broker and the process that started it say to each other.

Kept apart from supervisor.py: a lone broker needs these words, and no supervisor.
"""

import sys

READY_LINE = "barnabas ready on "
FAILED_LINE = "barnabas failed: "
SUPERVISED = "BARNABAS_SUPERVISED"  # in the environment of a broker that watches its standard input


def say(line: str, *, err: bool = False) -> None:
    """Dropped where nobody reads: a supervisor that waits for its reader would not stop either."""
    stream = sys.stderr if err else sys.stdout
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):  # replaced, as tests do, or closed
        import click

        click.echo(line, err=err)
        return
    from barnabas.system.unblocked import write_now

    stream.flush()
    write_now(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
