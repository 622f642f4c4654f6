"""A Zarr folder that can be told to stop.

After one write has failed, or on Ctrl-C, zarr goes on with the others in the background: they would fill a folder
that is just being removed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore


class StoppableStore(LocalStore):
    """Writes one file after the other, and none after a failure or ``stop()``."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._lock, self._stopped = threading.Lock(), False

    def stop(self) -> None:
        """Returns once nothing is being written any more; nothing will be."""
        with self._lock:
            self._stopped = True

    async def set(self, key: str, value: Any, **options: Any) -> None:
        """Write one file."""
        with self._lock:
            if self._stopped:
                raise OSError("stopped")
            try:
                self._write(self.root / key, value.to_bytes())
            except BaseException:
                self._stopped = True
                raise

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write one file if there is none."""
        if not (self.root / key).exists():
            await self.set(key, value)

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
