"""Scores rows where nothing but TensorFlow is to be had; run as a program by the tests.

    python -I plain_load.py REQUESTS    # prints JSON: probabilities by model and way of loading

REQUESTS is JSON: a list with a SavedModel, raw columns by name and rows of ids in each element.
"""

import importlib.util
import json
import sys

NOT_NEEDED = ("fives_tf", "pipelines", "apache_beam", "pyarrow", "farmhash", "tensorflow_serving")


class Refuse:
    """Lets nothing be imported that a server does not have."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in NOT_NEEDED:
            raise ImportError(f"{name} was asked for")


def main(requests: str) -> None:
    there = [name for name in NOT_NEEDED if importlib.util.find_spec(name)]
    sys.meta_path.insert(0, Refuse())
    with open(requests, encoding="utf-8") as file:
        answers = [score(**request) for request in json.load(file)]
    imported = [name for name in NOT_NEEDED if name in sys.modules]
    print(json.dumps({"there": there, "imported": imported, "answers": answers}))


def score(model: str, columns: dict[str, list], ids: list[list[int]]) -> dict[str, list[float]]:
    """The probabilities by a session and by a loaded model's signatures."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], model)
        signature = graph.signature_def["serving_default"]
        feeds = {info.name: columns[name] for name, info in signature.inputs.items()}
        by_session = session.run(signature.outputs["probability"].name, feeds)
    loaded = tf.saved_model.load(model)
    # Python's name of an input is that of its placeholder, without the signature's before it.
    inputs = {
        info.name.removeprefix("serving_default_").partition(":")[0]: tf.constant(
            columns[name], tf.dtypes.as_dtype(info.dtype)
        )
        for name, info in signature.inputs.items()
    }
    by_columns = loaded.signatures["serving_default"](**inputs)["probability"]
    by_ids = loaded.signatures["ids"](ids=tf.constant(ids, tf.int64))["probability"]
    return {
        "session": by_session.tolist(),
        "serving_default": by_columns.numpy().tolist(),
        "ids": by_ids.numpy().tolist(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
