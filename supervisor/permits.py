"""
Leave to make model calls: budgets, limits of a key, warm caches. Pure; time comes in as seconds.

A call is granted in the order in which it was asked for, when all of these hold:

* *budget*: what was spent, what is reserved for calls under way, and the upper bound of this one fit. So at every
  instant ``spent + reserved <= budget``, whatever dies or is retried. A call that does not fit waits for those under
  way, which mostly take less than their bound; when there is none, it is given a shorter reply, or refused;
* *key*: no limit was met on it of late. After such a pause one call goes first, and the others follow its success;
* *cache*: no other call with the same prefix is the first of its kind right now. It warms the provider's cache.

::

    ask ──► queue ──pump──► granted ──settle | fail | forget──► gone
                     └────► refused
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ipc.content import Usage
from ipc.messages import Purpose

SMALLEST_REPLY_TOKENS = 1_024
"""A reply is not bounded below this to make a call fit into a budget."""
WARM_WITHIN_S = 2.0
"""A call waits no longer than this for another one to warm the cache."""


@dataclass(frozen=True)
class Asked:
    """A call that somebody wants to make; *input_tokens* is an estimate, *max_output* the most of its reply."""

    agent_id: str
    request_id: str
    key_id: str
    prefix_hash: str
    purpose: Purpose
    input_tokens: int
    max_output: int

    @property
    def lease(self) -> str:
        """The name of its lease: request ids are unique within an agent."""
        return f"{self.agent_id}/{self.request_id}"


@dataclass(frozen=True)
class Price:
    """Of a token of each kind, in 10⁻⁹ dollars; *input_nano_usd* is the dearest that may come up."""

    input_nano_usd: int
    output_nano_usd: int


@dataclass(frozen=True)
class Bound:
    """The most that a call can use. *nano_usd* is 0 where money is not counted."""

    tokens: int = 0
    nano_usd: int = 0


@dataclass(frozen=True)
class Granted:
    """*asked* may be made; *max_output* is smaller than asked where the budget has no room for more."""

    asked: Asked
    max_output: int
    bound: Bound


@dataclass(frozen=True)
class Refused:
    """*asked* may not be made, now or later."""

    asked: Asked
    subtype: str
    reason: str


@dataclass(frozen=True)
class Budget:
    """What a tree may use; None: no bound."""

    tokens: int | None = None
    nano_usd: int | None = None


@dataclass
class _Lease:
    asked: Asked
    bound: Bound
    warms: bool


@dataclass
class _Pause:
    until_s: float
    probe: str | None = None
    """The lease that goes first when it is over."""


@dataclass
class Permits:
    """The state of all calls of a run. *spent* is what is settled; *price* None: money is not counted."""

    budget: Budget
    price: Price | None = None
    warms: bool = True
    spent: Bound = field(default_factory=Bound)
    leases: dict[str, _Lease] = field(default_factory=dict)
    _queue: deque[Asked] = field(default_factory=deque)
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _warming: dict[str, float] = field(default_factory=dict)
    _warm: set[str] = field(default_factory=set)

    @property
    def reserved(self) -> Bound:
        """What the calls under way can use at most."""
        return Bound(
            sum(lease.bound.tokens for lease in self.leases.values()),
            sum(lease.bound.nano_usd for lease in self.leases.values()),
        )

    def ask(self, asked: Asked) -> None:
        """Queue a call."""
        self._queue.append(asked)

    def pump(self, now_s: float) -> list[Granted | Refused]:
        """What can be answered now, in the order it was asked for."""
        answers: list[Granted | Refused] = []
        waiting: deque[Asked] = deque()
        full = False
        while self._queue:
            asked = self._queue.popleft()
            # Behind one that waits for the budget everybody does, or a large call would never have its turn.
            answer = None if full or self._held(asked, now_s) else self._answer(asked, now_s)
            if answer is None:
                full = full or not self._held(asked, now_s)
                waiting.append(asked)
            else:
                answers.append(answer)
        self._queue = waiting
        return answers

    def next_at_s(self, now_s: float) -> float | None:
        """When a waiting call may be granted though nothing else happens."""
        if not self._queue:
            return None
        times = [pause.until_s for pause in self._pauses.values() if pause.until_s > now_s]
        times += [since_s + WARM_WITHIN_S for since_s in self._warming.values() if since_s + WARM_WITHIN_S > now_s]
        return min(times, default=None)

    def settle(self, lease_id: str, usage: Usage, nano_usd: int) -> None:
        """A call has succeeded, and used this."""
        lease = self._close(lease_id, Bound(usage.total_tokens, nano_usd))
        if lease is None:
            return
        self._warm.add(lease.asked.prefix_hash)
        pause = self._pauses.get(lease.asked.key_id)
        if pause is not None and pause.probe == lease_id:
            del self._pauses[lease.asked.key_id]

    def fail(self, lease_id: str, usage: Usage, nano_usd: int, paused_until_s: float | None) -> None:
        """A call has failed, used this all the same, and met a limit of its key that holds until then, if any."""
        lease = self._close(lease_id, Bound(usage.total_tokens, nano_usd))
        if lease is None:
            return
        key_id = lease.asked.key_id
        pause = self._pauses.get(key_id)
        if paused_until_s is not None:
            latest_s = max(paused_until_s, pause.until_s if pause else 0.0)
            self._pauses[key_id] = _Pause(latest_s)
        elif pause is not None and pause.probe == lease_id:
            del self._pauses[key_id]  # it failed, but at something else

    def forget(self, agent_id: str) -> list[tuple[str, Bound]]:
        """An agent is gone: its waiting calls are dropped, and those under way count as all they could use."""
        self._queue = deque(asked for asked in self._queue if asked.agent_id != agent_id)
        lost = [(name, lease.bound) for name, lease in self.leases.items() if lease.asked.agent_id == agent_id]
        for name, bound in lost:
            lease = self._close(name, bound)
            pause = self._pauses.get(lease.asked.key_id) if lease else None
            if pause is not None and pause.probe == name:
                pause.probe = None
        return lost

    def _close(self, lease_id: str, used: Bound) -> _Lease | None:
        lease = self.leases.pop(lease_id, None)
        if lease is not None:
            self.spent = Bound(self.spent.tokens + used.tokens, self.spent.nano_usd + used.nano_usd)
            if lease.warms:
                self._warming.pop(lease.asked.prefix_hash, None)
        return lease

    def _held(self, asked: Asked, now_s: float) -> bool:
        """Whether *asked* waits for its key or for a cache."""
        pause = self._pauses.get(asked.key_id)
        if pause is not None and (now_s < pause.until_s or pause.probe is not None):
            return True
        if not self._wants_warmth(asked):
            return False
        since_s = self._warming.get(asked.prefix_hash)
        return since_s is not None and now_s < since_s + WARM_WITHIN_S

    def _wants_warmth(self, asked: Asked) -> bool:
        return (
            self.warms and asked.purpose == "step" and bool(asked.prefix_hash) and asked.prefix_hash not in self._warm
        )

    def _answer(self, asked: Asked, now_s: float) -> Granted | Refused | None:
        """The answer to *asked*; None: it waits for calls under way."""
        max_output = asked.max_output
        while not self._fits(bound := self._bound(asked, max_output)):
            if self.leases:
                return None
            room = self._output_room(asked)
            if room < min(SMALLEST_REPLY_TOKENS, asked.max_output) or room >= max_output:
                return self._refusal(asked, bound)
            max_output = room
        warms = self._wants_warmth(asked) and asked.prefix_hash not in self._warming
        self.leases[asked.lease] = _Lease(asked, bound, warms)
        if warms:
            self._warming[asked.prefix_hash] = now_s
        pause = self._pauses.get(asked.key_id)
        if pause is not None:
            pause.probe = asked.lease
        return Granted(asked, max_output, bound)

    def _bound(self, asked: Asked, max_output: int) -> Bound:
        price = self.price or Price(0, 0)
        nano_usd = asked.input_tokens * price.input_nano_usd + max_output * price.output_nano_usd
        return Bound(asked.input_tokens + max_output, nano_usd)

    def _left(self) -> tuple[int | None, int | None]:
        reserved = self.reserved
        tokens = None if self.budget.tokens is None else self.budget.tokens - self.spent.tokens - reserved.tokens
        nano = None if self.budget.nano_usd is None else self.budget.nano_usd - self.spent.nano_usd - reserved.nano_usd
        return tokens, nano

    def _fits(self, bound: Bound) -> bool:
        tokens, nano_usd = self._left()
        return (tokens is None or bound.tokens <= tokens) and (nano_usd is None or bound.nano_usd <= nano_usd)

    def _output_room(self, asked: Asked) -> int:
        """How long a reply to *asked* may be within what is left."""
        tokens, nano_usd = self._left()
        rooms = [asked.max_output]
        if tokens is not None:
            rooms.append(tokens - asked.input_tokens)
        if nano_usd is not None and self.price is not None:
            left = nano_usd - asked.input_tokens * self.price.input_nano_usd
            rooms.append(left // self.price.output_nano_usd if self.price.output_nano_usd else asked.max_output)
        return min(rooms)

    def _refusal(self, asked: Asked, bound: Bound) -> Refused:
        nano_usd = self.budget.nano_usd
        if nano_usd is not None and self.spent.nano_usd + bound.nano_usd > nano_usd:
            reason = (
                f"--budget-usd {dollars(nano_usd)} is used up: {dollars(self.spent.nano_usd)} spent, "
                f"and the next model call could cost {dollars(bound.nano_usd)}"
            )
            return Refused(asked, "error_max_budget_usd", reason)
        reason = (
            f"--budget-tokens {self.budget.tokens} is used up: {self.spent.tokens} spent, "
            f"and the next model call could take {bound.tokens}"
        )
        return Refused(asked, "error_max_tokens", reason)


def dollars(nano_usd: int) -> str:
    """*nano_usd* in dollars, with as many digits as it needs."""
    return f"{nano_usd / 1e9:.6f}".rstrip("0").rstrip(".")
