"""Plots with matplotlib, and HTML for notebooks, in the colours and labels of the HTML pages.

The native module decides which figures a record has, and has the one list of colours.
"""

from __future__ import annotations

import html as _html
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from . import _core, _table
from ._errors import InputError, InputTypeError
from ._options import items, word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

#: Colours of groups of series (Okabe and Ito 2008, without yellow).
PALETTE: tuple[str, ...] = tuple(_core.PALETTE)

#: The most rows that a table in a notebook shows.
ROWS_MAX = 12


class Curve(Protocol):
    """A curve of latency against bandwidth, as :class:`interleaf.Curve` is one."""

    @property
    def bandwidth_gbps(self) -> ArrayLike:
        """Bandwidths, GB/s."""

    @property
    def latency_ns(self) -> ArrayLike:
        """Latencies at these bandwidths, ns."""

    @property
    def mix(self) -> object:
        """The mix of reads and writes; its text names the curve."""


class Record(Protocol):
    """A record with figures, as :class:`interleaf.Record` is one."""

    def figures(self) -> list[dict[str, Any]]:
        """Return the figures of the record."""

    def columns(self) -> dict[str, list[Any]]:
        """Return the main table by column."""

    def to_json(self) -> str:
        """Return the document as JSON."""


def colour(group: int) -> str:
    """Return the colour of a group; colours repeat after seven groups."""
    return PALETTE[group % len(PALETTE)]


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        if not hasattr(ax, "set_xlabel"):
            raise InputTypeError(f"ax is of type {type(ax).__name__}", "give axes of matplotlib")
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as why:
        raise ImportError("plots need matplotlib: pip install matplotlib") from why
    return pyplot.subplots()[1]


def curve(given: Curve, ax: Axes | None = None, label: str | None = None) -> Axes:
    """Draw latency against bandwidth of a curve; returns the axes."""
    axes = _axes(ax)
    group = len(axes.lines)
    name = label or str(given.mix)
    axes.plot(given.bandwidth_gbps, given.latency_ns, color=colour(group), marker="o", label=name)
    axes.set_xlabel("bandwidth, GB/s")
    axes.set_ylabel("latency, ns")
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def record(given: Record, figure: int | str = 0, ax: Axes | None = None) -> Axes:
    """Draw a figure of a record; returns the axes.

    Raises:
        InputError: The record has no such figure.
    """
    figures = given.figures()
    ids = [str(found["id"]) for found in figures]
    if isinstance(figure, str) and figure in ids:
        return draw(figures[ids.index(figure)], ax)
    if isinstance(figure, int) and 0 <= figure < len(figures):
        return draw(figures[figure], ax)
    raise _no_figure(figure, ids)


def _no_figure(figure: object, ids: list[str]) -> InputError:
    hint = f"the figures are {', '.join(ids)}" if ids else "this record has no figure"
    return InputError(f"there is no figure {figure!r}", hint)


def draw(figure: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Draw a figure that :meth:`Record.figures` returned; returns the axes."""
    axes = _axes(ax)
    categories = figure.get("categories", [])
    if categories and all(series["kind"] == "points" for series in figure["series"]):
        return _rows(figure, axes)
    bars = [series for series in figure["series"] if series["kind"] == "bars"]
    width = 0.8 / max(len(bars), 1)
    for series in figure["series"]:
        shade = colour(series["group"])
        x, y, name = series["x"], series["y"], series["name"]
        low, high = series.get("low", []), series.get("high", [])
        if series["kind"] == "line":
            axes.plot(x, y, color=shade, label=name)
            if low:
                axes.fill_between(x, low, high, color=shade, alpha=0.13, linewidth=0)
        elif series["kind"] == "points":
            axes.plot(x, y, color=shade, label=name, marker="o", linestyle="none")
        else:
            at = bars.index(series)
            middle = [place + (at - (len(bars) - 1) / 2) * width for place in x]
            error = _error(y, low, high)
            axes.bar(middle, y, width, color=shade, label=name, yerr=error)
    if categories:
        axes.set_xticks(range(len(categories)), categories, rotation=30, ha="right")
    scale = figure.get("scale", "linear")
    if scale in ("log-x", "log-xy"):
        axes.set_xscale("log")
    elif scale == "linear-from-zero":
        axes.set_xlim(left=0)
    if scale == "log-xy":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=figure.get("y_from", 0.0))
    axes.set_title(figure["title"])
    axes.set_xlabel(figure["x_label"])
    axes.set_ylabel(figure["y_label"])
    if len(figure["series"]) > 1:
        axes.legend()
    return axes


def _error(values: list[float], low: list[float], high: list[float]) -> list[list[float]] | None:
    """Return the distances of the ends of intervals from the values; None without intervals."""
    if not low:
        return None
    return [[abs(v - e) for v, e in zip(values, ends, strict=True)] for ends in (low, high)]


def _rows(figure: dict[str, Any], axes: Axes) -> Axes:
    """Draw points in a row for each category, along a horizontal axis of values."""
    for series in figure["series"]:
        axes.errorbar(
            series["y"],
            series["x"],
            xerr=_error(series["y"], series.get("low", []), series.get("high", [])),
            color=colour(series["group"]),
            label=series["name"],
            fmt="o",
            capsize=3,
        )
    axes.axvline(0, color="#707070", linewidth=1)
    names = figure["categories"]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_title(figure["title"])
    axes.set_xlabel(figure["y_label"])
    if len(figure["series"]) > 1:
        axes.legend()
    return axes


def compare(records: Iterable[Record], figure: int | str = 0, ax: Axes | None = None) -> Axes:
    """Draw the same figure of several records on one pair of axes; returns the axes.

    Each record has a colour. The names of its series have the record's own title before them. A
    record without the figure is left out.

    Raises:
        InputError: No record has such a figure.
    """
    drawn: list[dict[str, Any]] = []
    ids: dict[str, None] = {}
    for group, given in enumerate(items("records", records, "give a list of records")):
        if not hasattr(given, "figures"):
            kind = type(given).__name__
            raise InputTypeError(f"records[{group}] is of type {kind}", "give a record")
        figures = given.figures()
        ids.update(dict.fromkeys(str(found["id"]) for found in figures))
        for found in _chosen(figures, figure):
            title = found["title"]
            series = [
                {**one, "group": group, "name": f"{title}: {one['name']}"}
                for one in found["series"]
            ]
            drawn.append({**found, "series": series})
    if not drawn:
        raise _no_figure(figure, list(ids))
    axes = _axes(ax)
    for found in drawn:
        draw(found, axes)
    axes.set_title("")
    axes.legend()
    return axes


def sweep(
    given: object,
    x: str,
    y: str,
    line: str | None = None,
    *,
    where: Mapping[str, object] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a column of a sweep against another one; returns the axes.

    Cases with the same ``x`` on a line, such as those of several seeds, are drawn as their mean,
    with a band from the least value to the largest.

    Args:
        given: The result of :func:`interleaf.sweep`, a data frame (pandas, Polars), a table
            (Arrow), a dictionary of columns, or the path of the CSV file of
            ``interleaf simulate machine --sweep``.
        x: The column along the horizontal axis. Texts with one unit, such as ``2%``, are numbers;
            others, such as weights, stand side by side.
        y: The column along the vertical axis, of numbers. Rows without one are left out.
        line: The column with a value for each line. Default: one line.
        where: Values of columns of the rows that are drawn: ``{"workload": "lbm"}``.
        ax: The axes to draw on. Default: new ones.

    Raises:
        InputError: There is no such column, no row is left, or ``y`` has other texts than numbers.
    """
    table = _table.columns_of(given)
    across = _table.column(table, word("x", x))
    up = _table.column(table, word("y", y))
    of = _table.column(table, word("line", line)) if line is not None else [""] * len(up)
    wanted = [(_table.column(table, name), value) for name, value in (where or {}).items()]
    rows = [
        at
        for at in range(len(up))
        if not _table.is_absent(up[at])
        and not _table.is_absent(across[at])
        and all(_table.is_same(cells[at], value) for cells, value in wanted)
    ]
    if not rows:
        raise InputError(f"no row has {x!r} and {y!r}", "leave out where, or parts of it")
    values = _table.numbers([up[at] for at in rows])
    if values is None:
        raise InputError(f"{y!r} has texts that are no numbers of one unit", "draw another column")
    measured = _table.numbers([across[at] for at in rows])
    names = list(dict.fromkeys(str(across[at]) for at in rows))
    places = measured[0] if measured else [float(names.index(str(across[at]))) for at in rows]
    lines: dict[str, dict[float, list[float]]] = {}
    for at, place, value in zip(rows, places, values[0], strict=True):
        lines.setdefault(str(of[at]), {}).setdefault(place, []).append(value)
    axes = _axes(ax)
    for group, (name, points) in enumerate(lines.items()):
        _band(axes, points, colour(group), name)
    if measured is None:
        axes.set_xticks(range(len(names)), names)
    axes.set_xlabel(_labelled(x, measured[1] if measured else ""))
    axes.set_ylabel(_labelled(y, values[1]))
    if line is not None:
        axes.legend(title=line)
    return axes


def _band(axes: Axes, points: Mapping[float, list[float]], shade: str, name: str) -> None:
    """Draw the mean at each place, and a band where a place has several values."""
    places = sorted(points)
    means = [sum(points[place]) / len(points[place]) for place in places]
    axes.plot(places, means, color=shade, marker="o", label=name or None)
    if any(len(values) > 1 for values in points.values()):
        low = [min(points[place]) for place in places]
        high = [max(points[place]) for place in places]
        axes.fill_between(places, low, high, color=shade, alpha=0.13, linewidth=0)


def _labelled(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit else name


def _chosen(figures: list[dict[str, Any]], figure: int | str) -> list[dict[str, Any]]:
    if isinstance(figure, int):
        return figures[figure : figure + 1] if figure >= 0 else []
    return [found for found in figures if found["id"] == figure]


def html(given: Record) -> str:
    """Return a record as HTML for a notebook: its first figure as SVG, and its main table."""
    parts = []
    for caption, picture in _core.pictures(given.to_json())[:1]:
        parts.append(f"<figure>{picture}<figcaption>{_html.escape(caption)}</figcaption></figure>")
    columns = {
        name: values
        for name, values in given.columns().items()
        if not any(isinstance(value, str) and value.startswith("[") for value in values)
    }
    count = max((len(values) for values in columns.values()), default=0)
    head = "".join(f"<th>{_html.escape(name)}</th>" for name in columns)
    rows = []
    for at in range(min(count, ROWS_MAX)):
        cells = (values[at] for values in columns.values())
        rows.append("".join(f"<td>{_html.escape(_shown(cell))}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = f"<p>{count - ROWS_MAX} more rows</p>" if count > ROWS_MAX else ""
    return f"{''.join(parts)}<table><tr>{head}</tr>{body}</table>{more}"


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
