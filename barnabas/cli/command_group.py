"""Groups of commands; a name that is none gets the nearest one that is."""

import click

from barnabas.config.option import nearest


class NamedCommands(click.Group):
    """Commands by name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = dict.fromkeys(self.list_commands(ctx))
        if args and args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(f"no command {args[0]!r}{nearest(args[0], names)}", ctx)
        return super().resolve_command(ctx, args)
