"""What the tests of commands on a search share: flags of quick searches, and a reader of tables."""

FLAGS = ["--dim=4", "--search_epochs=2", "--epochs=1", "--patience=1", "--no_xla"]
# One stage only.
SHORT = ["--no_first_order", "--search_epochs=1", "--after=nothing", "--order=2", "--no_xla"]


def table(text: str) -> list[list[str]]:
    """The cells of the table that a command printed first."""
    return [line.split("\t") for line in text.split("\n\n")[0].splitlines()]
