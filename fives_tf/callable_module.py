"""Lets a module be called as its function of the same name, whoever imported the module before."""

import types
from typing import Any


class CallableModule(types.ModuleType):
    """The class of a module such as `fives_tf.search`, which holds the function `search`."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Calls the function."""
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **settings)
