"""The oracle's blocks, one by one: who may find what in them, and which is used again first."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Stretch:
    """A part of a prompt that a hash names, with the whole blocks that it fills."""

    hash: int
    blocks: int
    refs: int = 1


@dataclass(eq=False)
class Own:
    """Blocks that a preempted request gave up and may find again: the first `left` of them."""

    left: int


@dataclass(eq=False)
class Mark:
    """The place in the queue of a stretch too short to fill a block."""

    stretch: Stretch


@dataclass
class Host:
    """Host memory: stretches in the order of their coming, and the blocks of swapped sequences."""

    total: int
    swapped: int = 0
    stretches: dict[int, int] = field(default_factory=dict)

    def has_room(self, blocks: int) -> bool:
        if self.total == 0 or self.total - self.swapped < blocks:
            return False
        while self.total - self.swapped - sum(self.stretches.values()) < blocks:
            self.stretches.pop(next(iter(self.stretches)))
        return True

    def keep(self, stretch: Stretch) -> None:
        self.stretches.pop(stretch.hash, None)
        if self.has_room(stretch.blocks):
            self.stretches[stretch.hash] = stretch.blocks


class Blocks:
    """The free blocks of a replica, the one freed longest ago first, and the stretches that can be found."""

    def __init__(self, total: int, host_blocks: int) -> None:
        self.queue: list[Stretch | Own | Mark | None] = [None] * total
        self.table: dict[int, Stretch] = {}
        self.host = Host(host_blocks)

    @property
    def free(self) -> int:
        return sum(not isinstance(block, Mark) for block in self.queue)

    def take(self, n: int) -> None:
        while n > 0:
            block = self.queue.pop(0)
            if isinstance(block, Mark):
                self.forget(block.stretch)
                continue
            if isinstance(block, Stretch):
                self.forget(block)
            if isinstance(block, Own):
                block.left -= 1
            n -= 1

    def forget(self, stretch: Stretch) -> None:
        if self.table.get(stretch.hash) is stretch:
            del self.table[stretch.hash]
            self.host.keep(stretch)

    def give(self, n: int) -> None:
        self.queue.extend([None] * n)

    def hold(self, stretch: Stretch) -> None:
        self.queue = [
            block for block in self.queue if block is not stretch and getattr(block, "stretch", None) is not stretch
        ]
        stretch.refs += 1

    def let_go(self, stretch: Stretch) -> None:
        stretch.refs -= 1
        if stretch.refs == 0:
            self.queue.extend([stretch] * stretch.blocks or [Mark(stretch)])

    def publish(self, hash_: int, blocks: int) -> Stretch:
        self.table[hash_] = Stretch(hash_, blocks)
        return self.table[hash_]

    def give_own(self, n: int) -> Own | None:
        if n == 0:
            return None
        own = Own(n)
        self.queue.extend([own] * n)
        return own

    def take_own(self, own: Own) -> None:
        self.queue = [block for block in self.queue if block is not own]

    def find(self, wanted: list[tuple[int, int]]) -> list[Stretch | int]:
        """The longest chain of (hash, blocks) here: a stretch each or, where it is in host memory, its hash."""
        chain: list[Stretch | int] = []
        for hash_, blocks in wanted:
            stretch = self.table.get(hash_)
            if stretch is not None and stretch.blocks == blocks:
                chain.append(stretch)
            elif stretch is None and self.host.stretches.get(hash_) == blocks:
                chain.append(hash_)
            else:
                break
        return chain
