"""
From options to a run that can start: every check that can refuse one is here, before any process exists.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from ipc import ids
from ipc.content import clean
from ipc.script import ScriptError, validate
from ipc.spec import ModelSpec
from supervisor import resumption
from supervisor.admission import Limits, offered_tools
from supervisor.config import RunConfig
from supervisor.idle import MAX_MAIL_BYTES
from supervisor.instructions import read_instructions
from supervisor.launch import ZygoteParams
from supervisor.model_choice import Choice, accepted_media, choose
from supervisor.neighbours import Entry, Registration, register
from supervisor.options import Options
from supervisor.permits import Budget
from supervisor.prelude import Prelude, zygote_params
from supervisor.resumption import Past
from supervisor.run import Order
from supervisor.run_dir import HeldLock, Refused, RunDir, hold_session, open_run, runtime_dir, state_dir
from supervisor.sandboxing import Fence, fenced, unfenced
from supervisor.secret_names import secrets_of
from supervisor.sessions import latest_in
from supervisor.structured import TOOL as STRUCTURED_OUTPUT
from supervisor.structured import BadSchema, read_schema
from supervisor.tool_environment import tool_environment
from supervisor.toolhosts import Plans, ToolhostPlan
from supervisor.windows import window_of
from toolhost.permissions import Mode, Policy
from toolhost.registry import TOOLS
from toolhost.rules import Rule, RuleError, parse_rule

if TYPE_CHECKING:
    from supervisor.prices import Prices


@dataclass(frozen=True)
class Composition:
    """
    All that one run needs to start.

    When every process is dead, ``aftermath`` has the warnings to give, and ``release`` gives back what was held.
    """

    order: Order
    zygote: ZygoteParams
    toolhosts: Plans
    neighbours: Registration
    aftermath: Callable[[], tuple[str, ...]]
    release: Callable[[], None]


def compose(options: Options, environment: Mapping[str, str], prelude: Prelude | None) -> Composition:
    """
    Settle *options* in *environment*, and take the run's and the session's locks.

    Raises:
        Refused: they make no run.
    """
    rules = {name: _rules(name, getattr(options, name)) for name in ("deny", "ask", "allow")}
    tools = _tools(options.tools, network=options.network)
    state = prelude.state_dir if prelude else state_dir(options.state_dir)
    for option, limit_s in (("--timeout", options.timeout_s), ("--wait-limit", options.wait_limit_s)):
        if limit_s is not None and math.isnan(limit_s):
            raise Refused(f"{option}: {limit_s} is no number of seconds")
    prompt = _prompt(options.prompt)
    past = _past(options, state, prompt)
    choice = prelude.choice if prelude else choose(options.model or (past.model if past else None), environment)
    if (
        past is not None
        and options.tools is not None
        and ({*tools} ^ {*past.state.root.added.tools}) - {"Agent", STRUCTURED_OUTPUT}
    ):
        kept = ", ".join(past.state.root.added.tools)
        raise Refused(f"--tools: a resumed session keeps the tools it began with, which are {kept}")
    began = past.state.started if past is not None else None
    # A session goes on with the window that it was told, while it goes on with its model.
    same = began is not None and options.model is None
    window = options.window_tokens or (began.window_tokens if began is not None and same else None)
    model = _model_spec(choice, window)
    cwd = os.path.realpath(options.cwd or (past.cwd if past else os.getcwd()))
    for name in (cwd, str(state), choice.model):
        if clean(name) != name:
            raise Refused(f"{name!r} is not UTF-8; Covey cannot work with such a name")
    if not os.path.isdir(cwd):
        gone = "is gone" if past is not None and options.cwd is None else "is not a directory"
        raise Refused(f"{cwd} {gone}; name another with --cwd")
    budget = _budget(options, past)
    schema = _schema(options, past)
    fence = _fence(options, cwd, state, environment)
    instructions = read_instructions(fence.roots[0], cwd)
    held = _hold(state, prelude, None if options.fork else past)
    run_id = held.run_dir.run_id
    policy = Policy(
        mode=Mode(options.mode),
        deny=rules["deny"],
        ask=rules["ask"],
        allow=rules["allow"],
        sandboxed=fence.sandboxed,
        network=options.network,
        write_roots=fence.roots,
        protected=fence.protected,
        state_dirs=fence.state_dirs,
        home=os.path.expanduser("~"),
        version=1,
    )
    config = RunConfig(
        run_id=run_id,
        cwd=cwd,
        workspace=fence.roots[0],
        model=model,
        model_option=f"{choice.provider.name}/{os.path.abspath(choice.model) if model.script else choice.model}",
        policy=policy,
        limits=Limits(
            max_depth=options.max_depth,
            max_agents=options.max_agents,
            max_turns=options.max_turns,
            timeout_s=options.timeout_s,
            wait_limit_s=options.wait_limit_s,
        ),
        tools=tools,
        append_system=clean(options.append_system),
        instructions=instructions.text,
        window_option=window,
        tool_environment=tool_environment(environment, options.env, fence),
        secrets=secrets_of(environment),
        state_dir=state,
        log_dir=held.run_dir.log,
        overflow_dir=held.run_dir.overflow,
        sandboxed=fence.sandboxed,
        media=accepted_media(model),
        output_schema=schema,
        budget=budget,
        prices=_prices(budget, model),
        warms_caches=options.cache_warm,
    )
    for warning in instructions.warnings:
        sys.stderr.write(f"covey: warning: {warning}\n")
    neighbours = _enter(fence, run_id, exclusive=options.exclusive)
    order = Order(config, held.run_dir, held.session_id, prompt, past, fork=options.fork)
    fences = [fence]

    def renew() -> ToolhostPlan | None:
        if (newer := fences[-1].renew()) is None:
            return None
        fences.append(newer)
        return _toolhost_plan(newer, config)

    def release() -> None:
        for each in fences:
            each.release()
        neighbours.release()
        held.session.release()
        held.run_dir.lock.release()

    plans = Plans(_toolhost_plan(fence, config), renew)
    # The first fence has seen the workspace as it was; a renewed one has not.
    zygote = zygote_params(held.run_dir, choice.provider)
    return Composition(order, zygote, plans, neighbours, fence.aftermath, release)


def _enter(fence: Fence, run_id: str, *, exclusive: bool) -> Registration:
    """Enter the run among those at work in the same workspace, or leave the workspace as it was."""
    try:
        return register(runtime_dir(), Entry(run_id, os.getpid(), fence.roots[0], exclusive))
    except BaseException:
        fence.release()
        raise


def _toolhost_plan(fence: Fence, config: RunConfig) -> ToolhostPlan:
    return ToolhostPlan(
        argv=fence.argv,
        sandboxed=fence.sandboxed,
        cwd=config.cwd,
        environment=config.tool_environment,
        write_roots=fence.toolhost_roots,
        network=config.policy.network,
        overflow_dir=config.overflow_dir,
        explain=fence.explain,
    )


def _prompt(given: str | None) -> str | None:
    """The prompt as it may cross the wire."""
    if given is None:
        return None
    prompt = clean(given)
    size_bytes = len(msgspec.json.encode(prompt))
    if size_bytes > MAX_MAIL_BYTES:
        raise Refused(
            f"the prompt has {size_bytes} bytes, the limit is {MAX_MAIL_BYTES}; put it into a file and name that"
        )
    return prompt


def _fence(options: Options, cwd: str, state: Path, environment: Mapping[str, str]) -> Fence:
    if options.sandbox == "off":
        return unfenced(cwd, state, runtime_dir(), environment, network=options.network)
    return fenced(cwd, state, runtime_dir(), environment, network=options.network)


@dataclass(frozen=True)
class _Held:
    run_dir: RunDir
    session: HeldLock
    session_id: str


def _hold(state: Path, prelude: Prelude | None, past: Past | None) -> _Held:
    """The run's directory and its session, both locked."""
    session_id = past.session_id if past else ids.session_id(os.urandom(16))
    run_id = past.run_id if past and past.reopen else ids.run_id(os.urandom(ids.ENTROPY_BYTES))
    session = hold_session(state, session_id, prelude.run_dir.run_id if prelude else run_id)
    try:
        return _Held(prelude.run_dir if prelude else open_run(state, run_id), session, session_id)
    except Refused:
        session.release()
        raise


def _model_spec(choice: Choice, given_window: int | None) -> ModelSpec:
    script = None
    name = choice.model
    if choice.provider.name == "scripted":
        script = _script(Path(choice.model))
        name = Path(choice.model).name
    window_tokens, max_output_tokens = window_of(choice.provider.name, choice.model, given_window)
    return ModelSpec(
        provider=choice.provider.name,
        name=name,
        base_url=choice.base_url,
        api_key=choice.api_key,
        key_id=choice.provider.key_variable or "none",
        script=script,
        window_tokens=window_tokens,
        max_output_tokens=max_output_tokens,
    )


def _past(options: Options, state: Path, prompt: str | None) -> Past | None:
    """The run whose session is gone on with."""
    wanted = options.resume
    if options.continue_latest:
        if wanted is not None:
            raise Refused("give --resume or --continue, not both")
        where = os.path.realpath(options.cwd or os.getcwd())
        wanted = latest_in(state, where)
        if wanted is None:
            raise Refused(f"--continue: there is no session of {where} yet")
    return None if wanted is None else resumption.find_past(state, wanted, prompt=prompt, fork=options.fork)


def _schema(options: Options, past: Past | None) -> dict[str, Any] | None:
    """The schema of the answer; a run that goes on keeps what it began with."""
    given = options.json_schema
    if given is None:
        return past.state.started.output_schema if past and past.reopen and past.state.started else None
    try:
        data = given.encode() if given.lstrip().startswith("{") else Path(given).read_bytes()
        return read_schema(data)
    except OSError as error:
        raise Refused(f"--json-schema {given}: {error.strerror}") from error
    except (BadSchema, UnicodeEncodeError, ValueError) as error:
        raise Refused(f"--json-schema: {error}") from error


def _budget(options: Options, past: Past | None) -> Budget:
    """What was given; a run that goes on keeps what it began with."""
    began = past.state.started if past is not None and past.reopen else None
    nano_usd = began.budget_nano_usd if began else None
    if options.budget_usd is not None:
        if not math.isfinite(options.budget_usd):
            raise Refused(f"--budget-usd: {options.budget_usd} is no number of dollars")
        nano_usd = round(options.budget_usd * 1_000_000_000)
    tokens = options.budget_tokens
    return Budget(tokens=began.budget_tokens if tokens is None and began else tokens, nano_usd=nano_usd)


def _prices(budget: Budget, model: ModelSpec) -> Prices | None:
    """The prices of *model*, where a budget counts in money; a script costs nothing."""
    if budget.nano_usd is None or model.script is not None:
        return None
    from supervisor.prices import NoPrice, Prices  # noqa: PLC0415 - half of a cold start, and hardly ever needed

    try:
        return Prices(model.provider, model.name)
    except NoPrice as error:
        raise Refused(f"--budget-usd: nothing is known of what {error} costs; use --budget-tokens") from None


def _script(path: Path) -> dict[str, object]:
    try:
        data = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    except OSError as error:
        raise Refused(f"--model scripted/{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise Refused(f"--model scripted/{path}: not YAML: {' '.join(str(error).split())}") from error
    checked = validate(data)
    if isinstance(checked, ScriptError):
        raise Refused(f"--model scripted/{path}: {checked.text}")
    return dict(data)


def _rules(option: str, texts: tuple[str, ...]) -> tuple[Rule, ...]:
    try:
        return tuple(parse_rule(text) for text in texts)
    except RuleError as error:
        raise Refused(f"--{option}: {error}") from error


def _tools(names: tuple[str, ...] | None, *, network: bool) -> tuple[str, ...]:
    unknown = [name for name in names or () if name not in TOOLS]
    if unknown:
        raise Refused(f"--tools: there is no tool {unknown[0]!r}; there are {', '.join(TOOLS)}")
    tools = offered_tools(names, network=network)
    if shut := [name for name in names or () if name not in tools]:
        raise Refused(f"--tools: {shut[0]} needs the network, which only --network opens")
    return tools
