"""What clusters of GPUs would do, extrapolated from what `scaling.py` measured.

The assumptions are stated here and in `docs/scaling.md`; no GPU was measured.
"""

from dataclasses import asdict, dataclass
from typing import Any

import search_speed

from fives_tf.tables import print_table

EXCHANGES = ("sparse", "dense")
MILLION = 10**6

# None of these is measured.
SPEEDUP = 10  # of a GPU over all cores of this machine
COLLECTIVES = 7  # in a step: three for the slices, two for other gradients, two for the figures
COLLECTIVE_SECONDS = 50e-6  # that each takes beside its bytes
LARGE_TABLE = 10**9  # rows


@dataclass(frozen=True)
class Cluster:
    """GPUs, and what joins them.

    Attributes:
        name: What to call it.
        gpus: The number of GPUs.
        bandwidth: Bytes a second, in each direction, of the slowest link of a ring through all.
    """

    name: str
    gpus: int
    bandwidth: float


CLUSTERS = (
    Cluster("4 GPUs, NVLink", 4, 200e9),
    Cluster("4 GPUs, PCIe 4.0", 4, 20e9),
    Cluster("8 x 4 GPUs, 100 Gb Ethernet", 32, 10e9),
    Cluster("8 x 4 GPUs, the same without NCCL", 32, 1e9),
)


def assumptions() -> dict[str, Any]:
    """What the model assumes, for the result."""
    return {
        "speedup": SPEEDUP,
        "collectives": COLLECTIVES,
        "collective_seconds": COLLECTIVE_SECONDS,
        "clusters": [asdict(cluster) for cluster in CLUSTERS],
    }


def extrapolate(
    measured: list[dict[str, Any]], size: int, shape: search_speed.Shape
) -> list[dict[str, Any]]:
    """What clusters of GPUs would do, if they were as this file assumes.

    The time of a step is that of the network, which the replicas share, of the update, which each
    makes for the whole batch, and of the exchange in a ring: slices are handed on to all others,
    sums of tensors go round twice.
    """
    most = max(found["replicas"] for found in measured)
    alone, several = (
        {exchange: find(measured, exchange, replicas) for exchange in EXCHANGES}
        for replicas in (1, most)
    )
    updates = {name: found["update_milliseconds"] / SPEEDUP for name, found in alone.items()}
    one = alone["sparse"]["step_milliseconds"] / SPEEDUP
    network = one - updates["sparse"]
    slices, tensors = most * several["sparse"]["slice_bytes"], several["sparse"]["tensor_bytes"]
    table = several["dense"]["tensor_bytes"] - tensors
    model = []
    # The batch has so many times the rows of the measured one: as many in all, or as many a GPU.
    for cluster, times in ((c, times) for c in CLUSTERS for times in (1, c.gpus)):
        part = (cluster.gpus - 1) / cluster.gpus
        for exchange, rows in (("sparse", size), ("dense", size), ("dense", LARGE_TABLE)):
            if exchange == "sparse":
                sent = part * (times * slices + 2 * tensors)
                update = times * updates["sparse"]
            else:
                sent = part * 2 * (table * rows / size + tensors)
                update = updates["dense"] * rows / size
            moving = 1000 * (sent / cluster.bandwidth + COLLECTIVES * COLLECTIVE_SECONDS)
            step = network * times / cluster.gpus + update + moving
            model.append(
                {
                    "cluster": cluster.name,
                    "batch": times * shape.batch,
                    "exchange": exchange,
                    "table_rows": rows,
                    "sent_bytes": round(sent),
                    "exchange_milliseconds": round(moving, 3),
                    "step_milliseconds": round(step, 3),
                    "rows_per_second": round(1000 * times * shape.batch / step),
                    "one_gpu_ratio": round(times * one / step, 3),
                }
            )
    return model


def print_model(model: list[dict[str, Any]]) -> None:
    """Prints what the model tells."""
    header = "assumed|batch|exchange|table rows|MB sent|ms of exchange|ms a step|rows/s|of one GPU"
    print_table(
        header.split("|"),
        [
            (
                line["cluster"],
                f"{line['batch']:,}",
                line["exchange"],
                f"{line['table_rows']:,}",
                f"{line['sent_bytes'] / MILLION:,.2f}",
                f"{line['exchange_milliseconds']:,.2f}",
                f"{line['step_milliseconds']:,.2f}",
                f"{line['rows_per_second']:,}",
                f"{line['one_gpu_ratio']:.2f}",
            )
            for line in model
        ],
    )


def find(
    measured: list[dict[str, Any]], exchange: str, replicas: int, workers: int = 1
) -> dict[str, Any]:
    """One of the measurements."""
    wanted = (exchange, replicas, workers)
    [found] = [m for m in measured if (m["exchange"], m["replicas"], m["workers"]) == wanted]
    return found
