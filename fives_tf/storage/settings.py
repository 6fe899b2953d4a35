"""How a store is reached: the one place that turns a user's settings into those of libraries.

Settings are environment variables, the same on every machine of a job, so that they, and above all
credentials, are in no file, flag or log of ours. Credentials are left to the libraries, which look
for them in the environment, in the files of the AWS tools and at the instance's role.
"""

import ctypes
import functools
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fives_tf.errors import UserError

ATTEMPTS = 10  # throttling and errors of a store may last for half a minute
CONNECT_SECONDS = 5.0
_OFF = ("0", "false")


@dataclass(frozen=True)
class S3Settings:
    """How a store that speaks S3 is reached.

    Attributes:
        endpoint: Its URL; None for that of Amazon.
        region: The region.
        ca_file: The certificates of the authorities to trust; None for the system's.
    """

    endpoint: str | None
    region: str
    ca_file: str | None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "S3Settings":
        """Reads the variables that the tools of Amazon know, and those of tensorflow-io."""

        def first(*names: str) -> str | None:
            return next((environment[name] for name in names if environment.get(name)), None)

        if (first("S3_VERIFY_SSL") or "").lower() in _OFF:
            raise UserError(
                "S3_VERIFY_SSL: certificates are always checked; name the file with that of the "
                "store's authority in AWS_CA_BUNDLE."
            )
        endpoint = first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT")
        if endpoint and "://" not in endpoint:
            plain = (first("S3_USE_HTTPS") or "").lower() in _OFF
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        region = first("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1"
        return cls(endpoint, region, first("AWS_CA_BUNDLE", "S3_CA_FILE"))

    def for_both(self) -> dict[str, str]:
        """Variables that all who speak S3 read."""
        # A store of one's own has no roles of instances, and nobody would answer for them.
        return {"AWS_EC2_METADATA_DISABLED": "true"} if self.endpoint else {}

    def for_arrow(self, attempts: int) -> dict[str, Any]:
        """The arguments of `pyarrow.fs.S3FileSystem`.

        Args:
            attempts: How often a request is tried.
        """
        from pyarrow import fs

        return {
            "region": self.region,
            "endpoint_override": self.endpoint,
            "tls_ca_file_path": self.ca_file,
            "connect_timeout": CONNECT_SECONDS,
            "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
        }

    def for_tensorflow(self) -> dict[str, str]:
        """The variables that tensorflow-io reads."""
        variables = {
            "AWS_REGION": self.region,
            "AWS_MAX_ATTEMPTS": str(ATTEMPTS),
            # With it, records and checkpoints come out corrupt if the store fails for a while.
            "S3_DISABLE_MULTI_PART_DOWNLOAD": "1",
        }
        if self.endpoint:
            variables["S3_ENDPOINT"] = self.endpoint
            variables["S3_USE_HTTPS"] = "1" if self.endpoint.startswith("https:") else "0"
        if self.ca_file:
            variables["S3_CA_FILE"] = self.ca_file
        return variables


@functools.cache
def teach_tensorflow() -> None:
    """Makes TensorFlow read and write at stores."""
    settings = S3Settings.read(os.environ)
    os.environ.update(settings.for_both() | settings.for_tensorflow())
    try:
        importlib.import_module("tensorflow_io")
    except (ImportError, NotImplementedError) as error:
        raise UserError(
            "TensorFlow needs tensorflow-io for s3:// and hdfs://, and that cannot be used "
            f"({error}); it works with TensorFlow 2.16 and Python up to 3.12. Otherwise copy the "
            "files to a disk."
        ) from None
    # It leaves threads that crash in the destructors of the program. The program ends before them,
    # and after all that Python has to do, with its own exit code.
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)
