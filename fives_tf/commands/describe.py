"""`fives describe`: shows what is in a dataset directory."""

import argparse

from fives_tf.commands.printing import add_json_flag, print_json

HELP = "show the fields, vocabularies, rates and splits of a dataset directory"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.add_argument("dataset", metavar="DATASET", help="the dataset directory")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the description."""
    from fives_tf.dataset import Dataset
    from fives_tf.describe import describe
    from fives_tf.tables import print_table

    description = describe(Dataset.open(args.dataset))
    if args.json:
        print_json(description)
        return
    print_table(
        ("split", "rows", "clicks", "click rate", "shards"),
        [
            (s["name"], f"{s['rows']:,}", f"{s['clicks']:,}", f"{s['rate']:.4f}", str(s["shards"]))
            for s in description["splits"]
        ],
    )
    print_table(
        ("field", "column", "kind", "ids", "missing", "rare", "most frequent"),
        [
            (
                f["name"],
                f["column"],
                f["kind"],
                f"{f['ids']:,}",
                f"{f['missing']:.2%}",
                f"{f['rare']:.2%}",
                f["example"],
            )
            for f in description["fields"]
        ],
    )
    print(
        f"{len(description['fields'])} fields, {description['ids']:,} ids, fitted on "
        f"{description['fitted_rows']:,} rows; {description['rejected']:,} bad rows set aside"
    )
