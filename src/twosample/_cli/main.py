"""The command line, put together from its groups of commands.

`shared.options` says what the exit statuses are. Results go to standard output; warnings, errors
and progress to standard error. A command imports what takes long to import when it is run, so that
--help is quick.
"""

from __future__ import annotations

import sys

from .interrupts import end_in_a_sentence, ignore_from_now_on

TYPE_CHECKING = False  # as in `interrupts`
if TYPE_CHECKING:
    import typer


def main() -> None:
    """Run the command line; this is the `twosample` script."""
    end_in_a_sentence()  # first of all, since importing the commands takes time, too
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write("error: the command line takes typer; pip install 'twosample[cli]'.\n")
        sys.exit(2)
    try:
        build()(prog_name="twosample")
    except OSError as error:  # when typer itself writes, such as help to a disk that is full
        sys.stderr.write(f"error: {error.strerror or error}.\n")
        sys.exit(2)
    finally:
        ignore_from_now_on()


def build() -> typer.Typer:
    """The application with all of its commands."""
    import typer

    from . import bench, check, compare, fitted, methods, plan, schema, test, watch
    from .shared import options

    # No rich markup: help and errors stay plain sentences in a pipe, in a log and on a narrow
    # screen.
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    # The order is that of `twosample --help`.
    app.command("test")(test.run)
    app.command("check")(check.run)
    app.command("compare")(compare.run)
    app.command("watch")(watch.run)
    app.command("plan")(plan.run)
    app.command("fit")(fitted.fit)
    app.command("apply")(fitted.apply)
    app.command("methods")(methods.run)
    app.command("schema")(schema.run)
    app.add_typer(bench.build(), name="bench")
    return app
