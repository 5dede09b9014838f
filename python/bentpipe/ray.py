"""An executor of `concurrent.futures` on Ray: `bp.sweep(scenario, grid, executor=RayExecutor())`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class RayExecutor(Executor):
    """Runs functions as Ray tasks. Ray makes a task again whose worker died.

    Ray must be installed; it is started if it is not running.
    """

    def __init__(self, *, max_retries: int = 3) -> None:
        import ray

        if not ray.is_initialized():
            ray.init()
        self._ray = ray
        self._call = ray.remote(max_retries=max_retries)(_call)

    @property
    def workers(self) -> int:
        """How many tasks run side by side."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begins a call."""
        return self._call.remote(fn, args, kwargs).future()


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
