"""The parts of pages that programs write, between two marks."""

from collections.abc import Callable, Iterable, Mapping

BEGIN = "<!-- generated: {name} ({by}) -->"
END = "<!-- end of generated -->"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = list(head)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def split(text: str, name: str, *, by: str) -> tuple[str, str, str]:
    """The text before a part, in it, and after it, without its marks."""
    begin = BEGIN.format(name=name, by=by)
    before, found, rest = text.partition(begin)
    part, ended, after = rest.partition(END)
    if not found or not ended:
        raise SystemExit(f"there is no {begin} with its {END}")
    return before, part, after


def filled(text: str, parts: Mapping[str, Callable[[], str]], *, by: str) -> str:
    for name, write in parts.items():
        before, _, after = split(text, name, by=by)
        text = f"{before}{BEGIN.format(name=name, by=by)}\n\n{write()}\n\n{END}{after}"
    return text
