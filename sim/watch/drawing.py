"""Draws a timeline as SVG, which a page shows at the width that it has: lanes over time, top to bottom.

| lanes       | what is drawn                                                                         |
|-------------|---------------------------------------------------------------------------------------|
| nodes       | a bar while a node is up; starting, paused and down have a look and a word of theirs; |
|             | below it a line while it leads the quorum, with the epoch                             |
| faults      | each as long as it lasts, in as few rows as they need                                 |
| partitions  | who leads, in that broker's colour, with the epoch; below a line for each ISR member  |
| records     | how many were acknowledged (up) and read (down), in each half of a second             |

A colour is never the only sign. Every shape has a title: what it is, from when to when. On a narrow page the names
stand above their lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from ...light_dataclass import dataclass
from ...pages import LOOKS, Markup
from .timeline import NO_LEADER, Led, Span, State, Timeline

WIDE: Final = 1160
NARROW: Final = 400
NAMES: Final = 168
"""The width of the names where they stand left of their lanes."""
LANE: Final = 20
LINE: Final = 4
GAP: Final = 8
FONT: Final = 11
CHARACTER: Final = 6.2
"""The width of a character, about."""
FAULT_ROWS_MAX: Final = 40
PARTITIONS_MAX: Final = 12
BUCKET_S: Final = 0.5
TICKS: Final = (0.5, 1, 2, 5, 10, 20, 60, 120, 300)
TICK_PIXELS_MIN: Final = 60
STYLE: Final = """<style>
.watch text { font: 11px var(--sans); fill: var(--text); } .watch .quiet { fill: var(--quiet); }
.watch .head { font-weight: 600; font-size: 12px; } .watch .grid { stroke: var(--line); stroke-width: 1; }
.watch .up { fill: var(--good); fill-opacity: .28; } .watch .starting { fill: var(--good); fill-opacity: .1; }
.watch .paused { fill: var(--warn); fill-opacity: .45; } .watch .down { fill: var(--bad); fill-opacity: .35; }
.watch .leads { fill: var(--accent); } .watch .none { fill: none; stroke: var(--bad); stroke-dasharray: 3 2; }
.watch .fault { fill: var(--warn); fill-opacity: .3; stroke: var(--warn); stroke-width: .6; }
.watch .calm { stroke: var(--good); stroke-width: 1.5; stroke-dasharray: 5 4; }
.watch .finding { stroke: var(--bad); stroke-width: 2; } .watch .acked { fill: var(--good); }
.watch .read { fill: var(--accent); } .watch .bold { font-weight: 600; fill: #fff; }
</style>"""


@dataclass(slots=True)
class _Sheet:
    """A drawing that grows downwards. `left` is where time begins."""

    width: int
    left: int
    end_s: float
    top: float = 0
    parts: list[str] | None = None

    def __post_init__(self) -> None:
        self.parts = []

    def add(self, part: str) -> None:
        assert self.parts is not None, self
        self.parts.append(part)

    def x(self, at_s: float) -> float:
        return self.left + (self.width - self.left - 6) * min(max(at_s, 0.0), self.end_s) / max(self.end_s, 1e-9)

    def text(self, x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> None:
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def head(self, text: str) -> None:
        self.top += 16
        self.text(2, self.top, text, "head")
        self.top += 6

    def name(self, text: str) -> None:
        """Name the next lane."""
        if self.left > 2 * GAP:
            self.text(2, self.top + LANE * 0.7, text)
        else:
            self.text(self.left, self.top + FONT, text, "quiet")
            self.top += FONT + 4

    def bar(
        self, span: Span | Led, kind: str, title: str, *, height: float = LANE, shift: float = 0, fill: str = ""
    ) -> float:
        """Draw from one moment to another; return how wide that is."""
        x = self.x(span.begin_s)
        width = max(self.x(span.end_s) - x, 1.2)
        color = f' fill="{fill}"' if fill else ""
        self.add(
            f'<rect x="{x:.1f}" y="{self.top + shift:.1f}" width="{width:.1f}" height="{height}" class="{kind}"{color}>'
            f"<title>{escape(title)}, {span.begin_s:.2f} to {span.end_s:.2f} s</title></rect>"
        )
        return width

    def word(self, span: Span | Led, width: float, word: str, kind: str = "") -> None:
        """Write into a bar, if there is room."""
        if width > len(word) * CHARACTER + 4:
            self.text(self.x(span.begin_s) + 3, self.top + LANE * 0.7, word, kind)


def drawing(timeline: Timeline, finding: str | None) -> Markup:
    """Draw it twice: for wide pages, and for narrow ones."""
    return Markup(
        STYLE
        + f'<div class="at-wide" style="max-width:none">{_svg(timeline, finding, WIDE, NAMES)}</div>'
        + f'<div class="at-narrow" style="max-width:none">{_svg(timeline, finding, NARROW, GAP)}</div>'
    )


def _svg(timeline: Timeline, finding: str | None, width: int, left: int) -> str:
    sheet = _Sheet(width, left, timeline.end_s)
    _nodes(sheet, timeline)
    _faults(sheet, timeline.faults)
    _partitions(sheet, timeline.partitions)
    _records(sheet, timeline)
    sheet.top += GAP
    assert sheet.parts is not None
    drawn, sheet.parts = sheet.parts, []
    _axis(sheet, timeline, finding)
    body = "".join([*sheet.parts, *drawn])
    return (
        f'<svg class="watch" viewBox="0 -20 {width} {sheet.top + 26:.0f}" role="img" '
        f'aria-label="What happened, over time">{body}</svg>'
    )


def _axis(sheet: _Sheet, timeline: Timeline, finding: str | None) -> None:
    room = sheet.width - sheet.left
    step_s = next((tick for tick in TICKS if room * tick / max(timeline.end_s, 1e-9) >= TICK_PIXELS_MIN), TICKS[-1])
    for number in range(int(timeline.end_s / step_s) + 1):
        x = sheet.x(number * step_s)
        sheet.add(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="-4" y2="{sheet.top:.0f}" class="grid"/>')
        if x + 24 < sheet.width:
            sheet.text(x, -8, f"{number * step_s:g} s", "quiet", anchor="middle" if number else "start")
    if timeline.calm_s is not None:
        _mark(sheet, timeline.calm_s, "calm", "faults are over")
    if finding is not None:
        _mark(sheet, timeline.end_s, "finding", finding)


def _mark(sheet: _Sheet, at_s: float, kind: str, text: str) -> None:
    x = sheet.x(at_s)
    title = f"<title>{escape(text)}</title>"
    sheet.add(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="-4" y2="{sheet.top:.0f}" class="{kind}">{title}</line>')
    sheet.text(x - 3, sheet.top + 3, text if kind == "calm" else "the finding", "quiet", anchor="end")


def _nodes(sheet: _Sheet, timeline: Timeline) -> None:
    sheet.head("Nodes, and who leads the quorum")
    for host, spans in timeline.nodes.items():
        sheet.name(host)
        for span in spans:
            width = sheet.bar(span, span.text, f"{host} is {span.text}")
            if span.text != State.UP:
                sheet.word(span, width, span.text)
        for led in timeline.quorum.get(host, []):
            sheet.bar(led, "leads", f"{host} leads the quorum in {led.text}", height=LINE, shift=LANE)
            sheet.word(led, sheet.x(led.end_s) - sheet.x(led.begin_s), f"leads, {led.text}")
        sheet.top += LANE + LINE + GAP


def _faults(sheet: _Sheet, faults: Sequence[Span]) -> None:
    if not faults:
        return
    sheet.head("Faults")
    rows = _packed(sheet, faults)
    for row in rows[:FAULT_ROWS_MAX]:
        for span in row:
            sheet.bar(span, "fault", span.text, height=LANE - 4)
            room = _room(sheet)
            x = min(sheet.x(span.begin_s) + 3, sheet.width - len(_label(span, room)) * CHARACTER - 4)
            sheet.text(max(x, sheet.left), sheet.top + LANE * 0.6, _label(span, room))
        sheet.top += LANE
    left_out = sum(len(row) for row in rows[FAULT_ROWS_MAX:])
    if left_out:
        sheet.text(sheet.left, sheet.top + FONT, f"and {left_out} more, in the table", "quiet")
        sheet.top += LANE


def _room(sheet: _Sheet) -> int:
    """How many characters of a fault are shown."""
    return 44 if sheet.width > NARROW else 26


def _label(span: Span, room: int) -> str:
    return span.text if len(span.text) <= room else span.text[: room - 1] + "…"


def _packed(sheet: _Sheet, spans: Sequence[Span]) -> list[list[Span]]:
    """Return rows in which neither bars nor their words overlap."""
    rows: list[list[Span]] = []
    ends: list[float] = []
    for span in sorted(spans, key=lambda each: each.begin_s):
        words = len(_label(span, _room(sheet))) * CHARACTER + 8
        begin = min(sheet.x(span.begin_s), sheet.width - words)
        end = max(sheet.x(span.end_s), begin + words)
        place = next((index for index, taken in enumerate(ends) if taken <= begin), None)
        if place is None:
            rows.append([span])
            ends.append(end)
        else:
            rows[place].append(span)
            ends[place] = end
    return rows


def _partitions(sheet: _Sheet, partitions: dict[str, list[Led]]) -> None:
    if not partitions:
        return
    sheet.head("Partitions: leader, epoch, members of the ISR")
    shown = sorted(partitions, key=lambda name: (name.startswith("__"), name))[:PARTITIONS_MAX]
    for name in shown:
        sheet.name(name)
        members = sorted({member for led in partitions[name] for member in (*led.isr, led.leader) if member >= 0})
        for span in _joined(partitions[name]):
            has_leader = span.leader != NO_LEADER
            text = f"{span.leader}, epoch {span.epoch}" if has_leader else "no leader"
            kind, fill = ("", _color(span.leader)) if has_leader else ("none", "")
            width = sheet.bar(span, kind, f"{name}: {text}", fill=fill)
            sheet.word(span, width, text, "bold" if has_leader else "")
        for number, member in enumerate(members):
            for led in partitions[name]:
                if member in led.isr:
                    shift = LANE + 2 + number * (LINE + 1)
                    sheet.bar(led, "", f"{name}: {member} is in the ISR", height=LINE, shift=shift, fill=_color(member))
        sheet.top += LANE + 2 + len(members) * (LINE + 1) + GAP
    if len(partitions) > len(shown):
        sheet.text(sheet.left, sheet.top + FONT, f"and {len(partitions) - len(shown)} more partitions", "quiet")
        sheet.top += LANE


def _joined(changes: Sequence[Led]) -> Iterator[Led]:
    """Yield the times of one leader in one epoch as one, whatever the ISR was."""
    current: Led | None = None
    for led in changes:
        if current is not None and (current.leader, current.epoch) == (led.leader, led.epoch):
            current = Led(current.begin_s, led.end_s, led.leader, led.epoch, ())
        else:
            if current is not None:
                yield current
            current = led
    if current is not None:
        yield current


def _records(sheet: _Sheet, timeline: Timeline) -> None:
    if not timeline.acknowledged and not timeline.read:
        return
    sheet.head("Records a half second: acknowledged (up), read (down)")
    height = 36
    middle = sheet.top + height + 2
    for kind, counts, sign in (("acked", timeline.acknowledged, -1), ("read", timeline.read, 1)):
        sums = _sums(counts)
        most = max(sums.values(), default=1)
        for bucket, count in sums.items():
            x, end = sheet.x(bucket * BUCKET_S), sheet.x((bucket + 1) * BUCKET_S)
            tall = height * count / most
            y = middle - tall if sign < 0 else middle
            sheet.add(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(end - x - 0.8, 0.6):.1f}" height="{tall:.1f}" '
                f'class="{kind}"><title>{count} records, from {bucket * BUCKET_S:g} s on</title></rect>'
            )
        if sheet.left > 2 * GAP:
            sheet.text(2, middle + sign * height / 2 + 4, f"{'acknowledged' if sign < 0 else 'read'}, up to {most}")
    sheet.top = middle + height + GAP


def _sums(counts: Iterable[tuple[float, int]]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for at_s, count in counts:
        sums[int(at_s / BUCKET_S)] = sums.get(int(at_s / BUCKET_S), 0) + count
    return sums


def _color(node_id: int) -> str:
    return LOOKS[node_id % len(LOOKS)].color
