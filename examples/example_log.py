"""The table that the examples use: a CSV that the user names, or a generated log."""

import argparse
import tempfile

import pandas as pd

from fives_tf.synth import SynthConfig, generate


def read_arguments(text: str) -> tuple[pd.DataFrame, pd.Series, argparse.Namespace]:
    """Reads the flags of an example; the columns, the target, and the flags.

    Args:
        text: What the example does.
    """
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--csv", metavar="FILE", help="a table; a generated one unless given")
    parser.add_argument("--label", default="click", metavar="COLUMN", help="its binary target")
    parser.add_argument("--rows", type=int, default=30_000, help="rows of the generated log")
    parser.add_argument("--crosses", type=int, default=10, help="how many crosses to add")
    arguments = parser.parse_args()
    table = pd.read_csv(arguments.csv) if arguments.csv else generated_log(arguments.rows)
    return table.drop(columns=arguments.label), table[arguments.label], arguments


def generated_log(rows: int) -> pd.DataFrame:
    """A log in which four crosses are planted, three pairs and one triple."""
    with tempfile.TemporaryDirectory() as directory:
        generate(SynthConfig(rows=rows), directory)
        return pd.read_csv(f"{directory}/log.csv")
