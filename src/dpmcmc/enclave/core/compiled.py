"""Reads a compiled program, and refuses it unless the gate stands in it as it was meant.

The gate's operations carry a name, `gate.SCOPE`. In the optimised program that XLA executes, every instruction and
every fusion that holds one of them must consist of integer operations alone, and what it reads must come, by integer
operations, from a loop, from the carry of a loop, from an argument of the program or from a constant: never from
floating point in the same breath, for that could be computed twice, and differently. gate.md says what follows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from dpmcmc.enclave.core.gate import SCOPE
from dpmcmc.enclave.refusals import floating_gate, no_gate
from dpmcmc.errors import RunRefused

_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_FLOAT = re.compile(r"\b(?:f16|bf16|f32|f64|tf32|f8\w*|f4\w*|c64|c128)\[")
_PARTS = re.compile(r"^(\(.*?\)|[^(]*?) ([a-z][a-z0-9\-]*)\((.*)$")  # shape, operation, operands and attributes
_NAMES = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")

_ENDS = frozenset({"parameter", "constant", "while", "iota", "partition-id", "replica-id"})
"""Where values come from that nothing computes again: arguments and carries, what a loop leaves, and constants."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a compiled program."""

    name: str
    operation: str
    shape: str
    operands: tuple[str, ...]
    called: tuple[str, ...]
    is_gate: bool
    is_root: bool


def check_compiled(text: str) -> None:
    """Refuse a compiled program in which the gate was mixed with floating point, or cannot be found."""
    program = _Program(text)
    found = False
    for instructions in program.computations.values():
        for instruction in instructions.values():
            if program.holds_gate(instruction):
                found = True
                program.check(instruction, instructions)
    if not found:
        raise no_gate()


class _Program:
    def __init__(self, text: str) -> None:
        self.computations = {name: dict(body) for name, body in _parse(text)}

    def holds_gate(self, instruction: Instruction) -> bool:
        """Say whether an instruction, or what it calls, is part of the gate."""
        if instruction.operation in {"while", "conditional", "tuple", "get-tuple-element", "parameter"}:
            return False
        parts = instruction.called if instruction.operation in {"fusion", "call"} else ()  # a sum's are shared
        inner = (one for name in parts for one in self.computations[name].values())
        return instruction.is_gate or any(map(self.holds_gate, inner))

    def check(self, instruction: Instruction, neighbours: dict[str, Instruction]) -> None:
        """Refuse an instruction of the gate that computes with floating point, or reads what was just computed so."""
        seen: set[str] = set()
        open_ends = [instruction]
        while open_ends:
            one = open_ends.pop()
            if one.name in seen:
                continue
            seen.add(one.name)
            source = neighbours[one.operands[0]] if one.operation == "get-tuple-element" else one
            is_end = source.operation in _ENDS or self._is_loop(source)
            if not (self._is_integer(one) or (is_end and one.shape.startswith("("))):
                raise floating_gate(one.operation, one.name, instruction.name)
            if not is_end:
                open_ends += [neighbours[name] for name in one.operands]

    def _is_loop(self, instruction: Instruction) -> bool:
        """Say whether an instruction is a call of nothing but a loop: XLA wraps small loops so on a CPU."""
        if instruction.operation != "call":
            return False
        *_, last = self.computations[instruction.called[0]].values()
        return last.is_root and last.operation == "while"

    def _is_integer(self, instruction: Instruction) -> bool:
        if _FLOAT.search(instruction.shape) or instruction.operation == "conditional":
            return False
        return all(self._is_integer(inner) for name in instruction.called for inner in self.computations[name].values())


def _parse(text: str) -> Iterator[tuple[str, list[tuple[str, Instruction]]]]:
    """Yield the computations of a program in XLA's own notation, each with its instructions by name."""
    name, body = None, []
    for line in text.splitlines():
        if name is None:
            begun = _COMPUTATION.match(line)
            if begun:
                name, body = begun[2], []
        elif line.startswith("}"):
            yield name, body
            name = None
        else:
            found = _INSTRUCTION.match(line)
            body.append((found[2], _instruction(found[2], found[3], bool(found[1]))) if found else _unreadable(line))


def _instruction(name: str, rest: str, is_root: bool) -> Instruction:
    parts = _PARTS.match(rest) or _unreadable(rest)
    shape, operation, rest = parts.groups()
    end = _closing(rest)
    operands, attributes = rest[:end], rest[end:]
    is_gate = f"/{SCOPE}/" in attributes or f'/{SCOPE}"' in attributes
    called = tuple(_CALLED.findall(attributes))
    return Instruction(name, operation, shape, tuple(_NAMES.findall(operands)), called, is_gate, is_root)


def _closing(text: str) -> int:
    """Return where the bracket closes that was opened before the text."""
    depth = 1
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return place
    return _unreadable(text)


def _unreadable(line: str) -> NoReturn:
    raise RunRefused(f"a line of the compiled program cannot be read, so nothing is executed: {line[:80]!r}")
