"""The root of the command line: which subcommands there are, and what an error looks like.

Always: data goes to stdout, all else to stderr; an error is one line, never a traceback.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

import barnabas
from barnabas.cli import exits
from barnabas.cli.command_group import NamedCommands
from barnabas.cli.options import cluster_options
from barnabas.model.errors import KafkaError

COMMANDS = {
    "up": "Run a broker here, in the foreground, or a cluster of several.",
    "status": "Show the brokers, the controller, and what is wrong.",
    "tour": "Show the ideas of the documentation, one by one, on brokers that it starts.",
    "doctor": "Check this machine: versions, limits, disk, ports, Java, clock.",
    "demo": "A broker, a stream of orders, three pipelines on Spark, and counts that agree.",
    "topic": "List, create, describe, configure and delete topics.",
    "produce": "Write records to a topic, from lines on standard input.",
    "consume": "Read records from a topic.",
    "gen": "Make sample records: orders, clicks, sensors, or your own.",
    "record": "Write the records of a topic to a file.",
    "replay": "Write the records of such a file to a topic, at any speed.",
    "cluster": "Look at a cluster of brokers, move replicas, elect leaders.",
    "group": "List, describe, watch and explain consumer groups; move their offsets.",
    "txn": "List, describe and explain transactions; abort one.",
    "tls": "Make certificates for development.",
    "user": "Create, list and delete users of SCRAM, and change their passwords.",
    "acl": "Change, list and check access rules; explain why a request is denied.",
    "quota": "Set, describe and delete limits of users, clients and addresses.",
    "keeper": "Look at the store that brokers share: nodes, contents, changes.",
    "log": "Look into the files of a log: dump, verify, repair.",
    "pipeline": "Run a pipeline on Spark: a stream, a lake or a mirror.",
    "lake": "Maintain the tables that pipelines write: join files, expire, clean up.",
    "dlq": "List dead-letter topics, show their records, send them back.",
    "delay": "Deliver records at the time in their headers; list and cancel pending ones.",
    "sql": "Run a query over topics.",
    "console": "Show topics, groups, brokers and what is wrong, in a browser.",
}

FOLDERS = {  # of the commands that are not in cli/ itself
    **dict.fromkeys(("acl", "quota", "tls", "user"), "cli.security"),
    **dict.fromkeys(("console", "sql"), "cli.looking"),
    **dict.fromkeys(("gen", "record", "replay"), "cli.recordings"),
    **dict.fromkeys(("doctor", "keeper", "log"), "cli.machine"),
    "lake": "cli.pipelines",
    "tour": "cli.tours",
}

_TEXT_SHOWN_MAX = 100
_COMPLETION = "_BARNABAS_COMPLETE"  # what the shell sets to ask for completions


class LazyCommands(NamedCommands):
    """Commands by name; the module of each is imported when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        folder = FOLDERS.get(cmd_name, "cli")
        command: click.Command = import_module(f"barnabas.{folder}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    name="barnabas",
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(barnabas.__version__, "--version", message="barnabas %(version)s")
@cluster_options
def root() -> None:
    """An event log, compatible with Apache Kafka."""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    try:
        if _COMPLETION in os.environ:
            root.main(prog_name="barnabas", complete_var=_COMPLETION)
        # Not root.main: it handles closed pipes and interrupts in another way.
        with root.make_context("barnabas", list(arguments)) as context:
            result = root.invoke(context)
        return result if isinstance(result, int) else exits.OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as help_text:
        click.echo(help_text.format_message())
        return exits.USAGE
    except click.ClickException as problem:
        _say(problem)
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return exits.PIPE_CLOSED
    except KafkaError as problem:
        click.echo(f"barnabas: {problem.detail}", err=True)
        return exits.exit_code_of(problem)
    except UnicodeEncodeError as problem:  # such as bytes of the command line that are not text
        shown = problem.object[:_TEXT_SHOWN_MAX]
        click.echo(f"barnabas: {shown!r} cannot be written as {problem.encoding}", err=True)
        return exits.USAGE
    except OSError as problem:
        named = f"{problem.filename}: " if problem.filename else ""
        click.echo(f"barnabas: {named}{problem.strerror or problem}", err=True)
        return exits.FAILURE


def _say(problem: click.ClickException) -> None:
    """One line, and where to find help."""
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    name = context.command_path if context else "barnabas"
    line = " ".join(problem.format_message().split())
    line = line[:1].lower() + line[1:]
    click.echo(f"barnabas: {line.rstrip('.')} (see {name} --help)", err=True)


def _forget_stdout() -> None:
    """The reader of standard output is gone, so the interpreter must not flush it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
