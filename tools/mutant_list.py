"""
The mutants: ways to break a promise, each with the tests that must notice.

A mutant is one or more exact replacements. Its *old* text stands exactly once in its file; when a file changes so that
it no longer does, a test says so and the mutant is written anew. A promise that is held by two independent means needs
a replacement for each, or nothing breaks. *tests* are the smallest selection that must fail, by an assertion.
"""

from __future__ import annotations

from dataclasses import dataclass

PROMISES = "tests/promises"
ONE = f"{PROMISES}/test_01_one_report_a_task.py"
TWO = f"{PROMISES}/test_02_nothing_outlives_its_owner.py"
THREE = f"{PROMISES}/test_03_decided_at_execution.py"
FIVE = f"{PROMISES}/test_05_no_call_runs_twice.py"
SEVEN = f"{PROMISES}/test_07_conflicting_calls_never_overlap.py"
EIGHT = f"{PROMISES}/test_08_stable_prefix.py"
NINE = f"{PROMISES}/test_09_a_transcript_always_loads_into_a_valid_request.py"
THIRTEEN = f"{PROMISES}/test_13_keys_appear_nowhere.py"
FOURTEEN = f"{PROMISES}/test_14_text_cannot_pretend_to_be_authority.py"
SIXTEEN = f"{PROMISES}/test_16_endings_agree.py"
EIGHTEEN = f"{PROMISES}/test_18_a_child_sees_its_brief_only.py"
NINETEEN = f"{PROMISES}/test_19_history_is_append_only.py"

REFUSED = f"{THREE}::test_what_would_be_asked_is_not_executed_where_nobody_can_answer"
FORBIDDEN = f"{THREE}::test_prohibitions_stand_before_the_mode"
LAST_LOOK = f"{THREE}::test_the_gate_refuses_what_was_not_decided_on"
STANDING_STILL = f"{TWO}::test_not_even_a_process_that_stands_still_outlives_its_owner"
JOURNALLED = f"{ONE}::test_no_model_is_shown_a_report_that_the_journal_does_not_have"


@dataclass(frozen=True)
class Edit:
    """In *file*, *old* becomes *new*."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A broken promise, by *name*."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "no-decision-at-execution",
        (Edit("supervisor/call_check.py", "if decision.verdict is not Verdict.ALLOW:", "if False:"),),
        (REFUSED, FORBIDDEN),
    ),
    Mutant(
        "decision-on-other-arguments",
        (
            Edit(
                "supervisor/call_check.py",
                "Request(tool=call.name, arguments=call.arguments,",
                'Request(tool=call.name, arguments=call.arguments | {"command": "true"},',
            ),
            Edit("supervisor/gate.py", "if digest != checked.decision.digest:", "if False:"),
        ),
        (FORBIDDEN,),
    ),
    Mutant(
        "digest-not-compared",
        (Edit("supervisor/gate.py", "if digest != checked.decision.digest:", "if False:"),),
        (LAST_LOOK,),
    ),
    Mutant(
        "headless-ask-executes",
        (
            Edit(
                "toolhost/permissions.py",
                "return replace(decision, verdict=Verdict.DENY, reason=reason)",
                "return replace(decision, verdict=Verdict.ALLOW, reason=reason)",
            ),
        ),
        (REFUSED,),
    ),
    Mutant(
        "mode-before-deny",
        (
            Edit("toolhost/permissions.py", "    deny_rules,\n    ask_rules,\n", ""),
            Edit(
                "toolhost/permissions.py",
                "    mode_override,  # bypassPermissions stops here\n",
                "    mode_override,\n    deny_rules,\n    ask_rules,\n",
            ),
        ),
        (FORBIDDEN,),
    ),
    Mutant(
        "run-a-cut-call",
        (Edit("agentproc/turn.py", "return RefuseCalls(calls, CUT)", "return RunTools(calls)"),),
        (f"{THREE}::test_a_call_that_was_cut_off_is_not_executed",),
    ),
    Mutant(
        "ack-before-append",
        (
            Edit(
                "agentproc/driver.py",
                "                self._store.append(entry)\n                self._inbox.stored(seq)\n",
                "                await self._send(wire.Ack(seq=seq))\n"
                "                self._store.append(entry)\n                self._inbox.stored(seq)\n",
            ),
        ),
        (f"{ONE}::test_what_an_agent_acknowledges_is_on_its_disk",),
    ),
    Mutant(
        "report-sent-before-journalled",
        (Edit("supervisor/ledger.py", "        await self._journal.committed(self._last)\n", "        return\n"),),
        (JOURNALLED,),
    ),
    Mutant(
        # The agent does not remember what it has seen, so what its supervisor sends again is new to it.
        "report-twice-on-crash",
        (
            Edit(
                "agentproc/transcript.py",
                "                self.last_seen = max(self.last_seen, seq)\n                self.in_turn = True\n",
                "                self.in_turn = True\n",
            ),
        ),
        (f"{ONE}::test_a_report_survives_its_supervisor_once",),
    ),
    Mutant(
        "one-shot-leaves-with-mail-pending",
        (Edit("supervisor/idle.py", "    if agent.mail:\n", "    if agent.mail and agent.last_turn is None:\n"),),
        (JOURNALLED, f"{ONE}::test_in_any_history_every_task_is_reported_once_before_its_owner_may_leave"),
    ),
    Mutant(
        "one-shot-leaves-with-tasks-open",
        (
            Edit(
                "supervisor/idle.py",
                "    if any(not task.added.leftover for task in state.open_tasks(agent_id)):\n",
                "    if False:\n",
            ),
        ),
        (JOURNALLED, f"{ONE}::test_in_any_history_every_task_is_reported_once_before_its_owner_may_leave"),
    ),
    Mutant(
        "kill-the-pid-not-the-tree",
        (
            Edit(
                "toolhost/process_tree.py",
                "    tree = below(roots)\n    parents = {*roots,",
                "    tree = []\n    parents = {*roots,",
            ),
            Edit(
                "toolhost/process_tree.py",
                "    _until_empty(killed, spared, end_s)\n    # Killed",
                "    if shell is not None:\n        _signal_own(shell, signal.SIGKILL)\n    # Killed",
            ),
        ),
        (f"{TWO}::test_what_a_command_started_ends_with_it",),
    ),
    Mutant(
        "no-die-with-parent-zygote",
        (
            Edit(
                "agentproc/zygote.py",
                "if not kernel.die_with_parent(plan.supervisor_pid):",
                "if os.getppid() != plan.supervisor_pid:",
            ),
            # It takes the signal back while a bwrap is young, and then asks for it again.
            Edit(
                "agentproc/zygote.py",
                "if not kernel.die_with_parent(self._supervisor_pid):",
                "if os.getppid() != self._supervisor_pid:",
            ),
        ),
        (STANDING_STILL,),
    ),
    Mutant(
        "no-die-with-parent-agent",
        (
            Edit(
                "agentproc/forked.py",
                "if dying_with_it and not kernel.die_with_parent(zygote_pid):",
                "if dying_with_it and os.getppid() != zygote_pid:",
            ),
        ),
        (STANDING_STILL,),
    ),
    Mutant(
        "no-die-with-parent-toolhost",
        (Edit("toolhost/sandbox.py", '"--disable-userns", "--die-with-parent", ', '"--disable-userns", '),),
        (STANDING_STILL,),
    ),
    Mutant(
        "interrupted-call-runs-again",
        (Edit("agentproc/driver.py", "already_sent=resumed)", "already_sent=False)"),),
        (f"{FIVE}::test_a_call_that_lost_its_supervisor_is_unknown_and_not_run_again",),
    ),
    Mutant(
        "unknown-told-as-not-executed",
        (
            Edit(
                "supervisor/settling.py",
                'or Answer("unknown", OUTCOME_UNKNOWN)',
                "or answer",
            ),
        ),
        (f"{FIVE}::test_whenever_the_supervisor_dies_the_model_is_told_the_truth",),
    ),
    Mutant(
        "commands-share-the-workspace",
        (Edit("toolhost/claims.py", "Claim(shell, exclusive=not reads_only)", "Claim(shell, exclusive=False)"),),
        ("tests/process/test_shared_workspace.py::test_two_agents_that_change_the_same_files_lose_nothing",),
    ),
    Mutant(
        "nobody-waits-for-a-claim",
        (Edit("toolhost/locks.py", "        if ticket.blocks:\n", "        if False:\n"),),
        (f"{SEVEN}::test_conflicting_calls_never_overlap",),
    ),
    Mutant(
        "an-endless-command-is-never-overtaken",
        (Edit("toolhost/locks.py", "OVERTAKING_S = 10.0", "OVERTAKING_S = 1e9"),),
        (f"{SEVEN}::test_nobody_starves",),
    ),
    Mutant(
        "timestamp-in-the-prefix",
        (
            Edit(
                "agentproc/prompt.py",
                "    text = _CORE\n",
                "    text = _CORE + f\"It is {__import__('time').time_ns()}.\\n\"\n",
            ),
        ),
        (EIGHT,),
    ),
    Mutant(
        "key-readable-in-a-later-sibling",
        (
            Edit(
                "agentproc/zygote.py",
                "        try:\n            match request:\n                case ForkAgent():\n",
                "        with contextlib.suppress(BlockingIOError):\n"
                "            channel = socket.socket(fileno=os.dup(channel_fd))\n"
                "            spec = channel.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)\n"
                "            self.__dict__.setdefault('specs', []).append(spec)\n"
                "        try:\n            match request:\n                case ForkAgent():\n",
            ),
        ),
        (f"{THIRTEEN}::test_the_secrets_of_one_agent_are_not_in_the_memory_of_a_later_one",),
    ),
    Mutant(
        "key-in-the-environment",
        (Edit("supervisor/launch.py", "if name.upper() in _ENVIRONMENT or ", "if name or "),),
        (
            f"{THIRTEEN}::test_no_argument_and_no_environment_below_the_supervisor_has_it",
            f"{THIRTEEN}::test_only_the_agents_memory_has_it",
        ),
    ),
    Mutant(
        "tags-stand-in-tool-output",
        (Edit("supervisor/output.py", "shown = neutralise(ends.head)", "shown = ends.head"),),
        (f"{FOURTEEN}::test_no_answer_of_a_tool_has_one",),
    ),
    Mutant(
        "own-answers-are-not-cleaned",
        (Edit("supervisor/gate.py", "        if answer.presented:\n", "        if answer:\n"),),
        (f"{FOURTEEN}::test_no_answer_of_a_tool_has_one",),
    ),
    Mutant(
        "key-left-in-tool-output",
        (
            Edit(
                "supervisor/output.py",
                "self._keep(self._stream.feed(text) + self._stream.finish())",
                "self._keep(text)",
            ),
        ),
        (
            f"{THIRTEEN}::test_no_file_of_covey_has_it",
            f"{THIRTEEN}::test_no_output_has_it",
            f"{THIRTEEN}::test_no_model_request_has_it",
        ),
    ),
    Mutant(
        "exit-0-on-error",
        (Edit("supervisor/command.py", "    return how.exit_code\n", "    return 0\n"),),
        (f"{SIXTEEN}::test_what_a_run_says_of_its_end_agrees_in_every_format",),
    ),
    Mutant(
        "fresh-child-inherits-the-conversation",
        (
            Edit(
                "supervisor/agent_tool.py",
                'kind="user", text=prompt)',
                'kind="user", text="".join(path.read_text() for path in '
                'services.config.state_dir.glob(f"sessions/{owner.session_id}/*.jsonl")) + "\\n" + prompt)',
            ),
        ),
        (EIGHTEEN,),
    ),
    Mutant(
        "history-rewritten",
        (
            Edit(
                "agentproc/store.py",
                "        path = directory / FILE_NAME\n",
                "        path = directory / FILE_NAME\n"
                "        if path.exists():\n"
                "            lines = path.read_bytes()\n"
                "            path.unlink()\n"
                "            path.write_bytes(lines)\n",
            ),
        ),
        (f"{NINETEEN}::test_a_transcript_stays_the_same_file",),
    ),
    Mutant(
        "a-call-may-stay-without-a-result",
        (
            Edit(
                "agentproc/view.py",
                "answers.pop(call.id, None)) for call in calls)",
                "answers.pop(call.id)) for call in calls if call.id in answers)",
            ),
        ),
        (NINE,),
    ),
    Mutant(
        "cut-between-call-and-result",
        (Edit("agentproc/view.py", "if not unanswered and at > 0 and isinstance", "if at > 0 and isinstance"),),
        ("tests/unit/agentproc/test_compaction.py",),
    ),
    Mutant(
        "the-goal-counts-messages-only",
        (Edit("agentproc/compaction.py", "room = window.room(meter.of_prefix(prefix))", "room = window.room(0)"),),
        ("tests/unit/agentproc/test_compaction.py", "tests/unit/agentproc/test_window_simulation.py"),
    ),
    Mutant(
        "nothing-is-reserved",
        (
            Edit(
                "supervisor/permits.py",
                "self.leases[asked.lease] = _Lease(asked, bound, warms)",
                "self.leases[asked.lease] = _Lease(asked, Bound(), warms)",
            ),
        ),
        ("tests/unit/supervisor/test_permits.py",),
    ),
    Mutant(
        "what-a-dead-agent-reserved-is-free-again",
        (Edit("supervisor/permits.py", "lease = self._close(name, bound)", "lease = self._close(name, Bound())"),),
        ("tests/unit/supervisor/test_permits.py",),
    ),
)
