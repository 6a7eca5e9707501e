"""
Who is behind a key, and where a message to an agent goes.

The key decides who speaks: a message belongs to the agent that its connection's public key is registered for, whatever
it says about itself. A peer chooses the name under which the ROUTER files its connection (its routing id), so the name
of another is the one thing an impostor may try. It fails twice:

* a routing id ends in a random token that only its agent and the supervisor know (it travels encrypted, like the key it
  is as good as), so nobody can take over another's place, which is what makes ZeroMQ's hand-over safe to allow;
* a routing id that does not begin with the agent of its key is a breach: nothing is sent to it, nothing taken from it.

A key speaks for one incarnation. Registering the next one replaces it, and a breach revokes it; live connections with
a key that is gone are strangers from that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_MAX_EPOCH_DIGITS = 9


@dataclass(frozen=True)
class Address:
    """What an incarnation calls its connection. *token* is random, secret and new for every connection."""

    agent_id: str
    epoch: int
    token: str

    @property
    def routing_id(self) -> bytes:
        """The address as ZeroMQ carries it."""
        return f"{self.agent_id}.{self.epoch}.{self.token}".encode()


def parse_address(routing_id: bytes) -> Address | None:
    """The address that *routing_id* is, if it is one."""
    agent_id, _, rest = routing_id.decode("ascii", "replace").rpartition(".")[0].rpartition(".")
    token = routing_id.rpartition(b".")[2].decode("ascii", "replace")
    if agent_id and token and rest.isdecimal() and len(rest) <= _MAX_EPOCH_DIGITS:
        return Address(agent_id, int(rest), token)
    return None


@dataclass(frozen=True)
class Sender:
    """A message is of incarnation *epoch* of *agent_id*."""

    agent_id: str
    epoch: int


@dataclass(frozen=True)
class Stranger:
    """The key is not, or no longer, registered: ignore the message."""


@dataclass(frozen=True)
class Breach:
    """The agent with this key broke the contract. Its key is revoked; *reason* is for people."""

    agent_id: str
    reason: str


@dataclass(frozen=True)
class _Holder:
    """Whose key it is; the epoch is that of its first message."""

    agent_id: str
    epoch: int | None = None


class Routes:
    """The keys that are registered and the routes learnt from messages that came with them."""

    def __init__(self) -> None:
        self._holders: dict[str, _Holder] = {}
        self._routes: dict[str, tuple[int, bytes]] = {}

    def register(self, agent_id: str, public_key: str) -> None:
        """From now on *public_key*, and no earlier key, speaks for *agent_id*."""
        self.revoke(agent_id)
        self._holders[public_key] = _Holder(agent_id)

    def revoke(self, agent_id: str) -> None:
        """No key speaks for *agent_id* any more, and nothing can be sent to it."""
        self._holders = {key: holder for key, holder in self._holders.items() if holder.agent_id != agent_id}
        self._routes.pop(agent_id, None)

    def admits(self, public_key: str) -> bool:
        """Whether a connection with *public_key* may be made."""
        return public_key in self._holders

    def route(self, agent_id: str, epoch: int) -> bytes | None:
        """The routing id of that incarnation's connection, once it has spoken."""
        known_epoch, routing_id = self._routes.get(agent_id, (None, None))
        return routing_id if known_epoch == epoch else None

    def attribute(self, public_key: str, routing_id: bytes) -> Sender | Stranger | Breach:
        """Whose message it is that came over a connection named *routing_id* with *public_key*."""
        holder = self._holders.get(public_key)
        if holder is None:
            return Stranger()
        address = parse_address(routing_id)
        if address is None:
            # When a connection is replaced, the ROUTER renames the old one: what it still holds is its agent's.
            if routing_id.startswith(b"\0") and holder.epoch is not None:
                return Sender(holder.agent_id, holder.epoch)
            return self.breach(public_key, f"it calls itself {routing_id[:80]!r}, which is no address")
        if address.agent_id != holder.agent_id:
            return self.breach(public_key, f"it calls itself {address.agent_id}")
        if holder.epoch not in (None, address.epoch):
            return self.breach(public_key, f"its key is of epoch {holder.epoch}, it claims {address.epoch}")
        self._holders[public_key] = replace(holder, epoch=address.epoch)
        self._routes[holder.agent_id] = (address.epoch, routing_id)
        return Sender(holder.agent_id, address.epoch)

    def breach(self, public_key: str, reason: str) -> Breach | Stranger:
        """Cut off whoever holds *public_key*."""
        holder = self._holders.get(public_key)
        if holder is None:
            return Stranger()
        self.revoke(holder.agent_id)
        return Breach(holder.agent_id, reason)
