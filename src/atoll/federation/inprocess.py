"""The engine of simulations: server and clients in one process, nothing copied on the way."""

from collections.abc import Iterator

from atoll.federation.calls import Call
from atoll.federation.host import Host
from atoll.federation.protocol import Federation
from atoll.federation.states import Wanted
from atoll.federation.validation import Batch
from atoll.tree import Tree


class InProcess(Federation):
    """Every client in one host: the whole cohort at once, or in its chunks."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.cohort.clients, host.seed)
        self.host = host

    def deliver(self, call: Call, to: tuple[int, ...], each: Tree) -> Iterator[Batch]:
        return self.host.perform(call, to, each)

    @property
    def state(self) -> Tree:
        """Clients' states, as far as a checkpoint needs them."""
        return self.host.state

    def kept(self, wanted: Wanted) -> Tree:
        """The part of :attr:`state` that is wanted, by names of leaves."""
        return self.host.kept(wanted)

    def whole_state(self) -> Tree:
        """Everybody's state."""
        return self.host.states.whole()

    def close(self) -> None:
        """There is nothing to end."""
