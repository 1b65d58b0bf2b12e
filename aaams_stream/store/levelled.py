"""A volume seen by the tree over its identities: at a level, or its objects alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.model import OBJECT_DTYPE
from aaams_stream.store.layout import WITHOUT_LEVELS, array_in, read_rows
from aaams_stream.store.levels import Hierarchy, checked_level
from aaams_stream.store.tables import Tables, require_complete

if TYPE_CHECKING:
    from aaams_stream.store.view import LevelView, ObjectView
    from aaams_stream.store.volume import Volume


class Levelled(Tables):
    """Tables with a tree over their identities, where all frames are there."""

    _hierarchy: Hierarchy | None = None

    @property
    def has_levels(self) -> bool:
        """Whether the tree over its identities is there."""
        return self.complete and bool(self._record["schema"] > WITHOUT_LEVELS)

    @property
    def merge_count(self) -> int:
        """How many merges the tree over its identities has; reads no table."""
        return int(array_in(self._root, "hierarchy/level").shape[0]) if self.has_levels else 0

    @property
    def hierarchy(self) -> Hierarchy:
        """The tree over its identities.

        Raises:
            SinkError: it is not there: the volume is not complete, or was written without levels.
        """
        if self._hierarchy is None:
            self._require_levels()
            self._hierarchy = Hierarchy(self._root, self.frame_count, self.counts.identities)
        return self._hierarchy

    def _require_levels(self) -> None:
        require_complete(self, "levels are found at the end")
        if not self.has_levels:
            raise SinkError(
                f"{self.path}: was written without levels; add them with aaams-stream levels "
                f"{self.path}"
            )

    def groups(
        self, *, level: float | None = None, segments: float | None = None
    ) -> NDArray[np.uint32]:
        """Return the group of each id at a level of the tree.

        Args:
            level: after all merges up to this one, 0 being none.
            segments: at the level whose mean number of groups a frame is nearest to this one;
                either this or a level is given.

        Returns:
            (n + 1,) uint32: of each id the smallest id in its group; 0 stays 0.

        Raises:
            ConfigError: both are given, or neither, or what cannot be.
            SinkError: the volume has no levels; the text says how to get them.
        """
        return self.hierarchy.lookup(self.level_at(level=level, segments=segments))

    def at(self, *, level: float | None = None, segments: float | None = None) -> LevelView:
        """Return the volume seen at a coarser level, with all it can be asked.

        Nothing is read before it is asked for; an id is then that of a group.

        Args:
            level: after all merges up to this one, 0 being none.
            segments: at the level whose mean number of groups a frame is nearest to this one;
                either this or a level is given.

        Returns:
            A `Volume` of groups.

        Raises:
            ConfigError: both are given, or neither, or what cannot be.
            SinkError: the volume has no levels; the text says how to get them.
        """
        from aaams_stream.store.view import LevelView

        return LevelView(cast("Volume", self), self.level_at(level=level, segments=segments))

    def objects(self, k: int = 10) -> NDArray[Any]:
        """Return the groups that look most like things.

        An object is the group of its id at its level. One may lie inside another.

        Args:
            k: how many at most.

        Returns:
            Rows of OBJECT_DTYPE, best first.

        Raises:
            ConfigError: `k` is below 1.
            SinkError: the volume has no levels; the text says how to get them.
        """
        if not k >= 1:
            raise ConfigError(f"the number of objects must be >= 1, got {k}")
        self._require_levels()
        count = array_in(self._root, "objects/id").shape[0]
        return read_rows(self._root, "objects", 0, min(k, count), OBJECT_DTYPE)

    def only(self, objects: NDArray[Any]) -> ObjectView:
        """Return the volume with nothing but some of its objects, each one identity.

        Of two that lie in each other the one that comes first has the pixels.

        Args:
            objects: rows of `objects()`, or one of them.

        Returns:
            A `Volume` of objects; elsewhere ids are 0.

        Raises:
            SinkError: the volume has no levels; the text says how to get them.
            ValueError: these are no objects, but ids for example.
        """
        from aaams_stream.store.view import ObjectView

        return ObjectView(cast("Volume", self), objects)

    def level_at(self, *, level: float | None = None, segments: float | None = None) -> float:
        """Return the level that is meant by a level or a number of groups a frame.

        Args:
            level: is returned, once it is found to be one.
            segments: the mean number of groups a frame; either this or a level is given.

        Returns:
            The level, 0 for no merge.

        Raises:
            ConfigError: both are given, or neither, or what cannot be.
            SinkError: the volume has no levels; the text says how to get them.
        """
        if (level is None) == (segments is None):
            raise ConfigError("give either a level or a number of groups, and not both")
        hierarchy = self.hierarchy
        if segments is not None:
            return hierarchy.level_of(segments)
        assert level is not None
        return checked_level(level)
