"""The `barnabas` command. Each subcommand is imported only when it is used."""


def main() -> None:
    """What the installed command calls."""
    import sys

    from barnabas.cli.app import run

    sys.exit(run(sys.argv[1:]))
