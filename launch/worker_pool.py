"""A pool of Beam's Python workers that several TaskManagers on one machine share.

Beam's own pool (`worker_pool_main`) is made for one TaskManager. Two of them give their workers the
same numbers, and when one stops its worker, that pool stops the other's. Here a worker is not
stopped: it ends by itself when its TaskManager closes the line, or is gone.
"""

import sys
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer


class Pool(BeamFnExternalWorkerPoolServicer):
    """Starts a process for each worker that a TaskManager asks for."""

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name is gRPC's
        """Does nothing."""
        return beam_fn_api_pb2.StopWorkerResponse()


if __name__ == "__main__":
    _, server = Pool.start(use_process=True, port=int(sys.argv[1]))
    server.wait_for_termination()
