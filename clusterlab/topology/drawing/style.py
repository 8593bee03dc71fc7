"""How a picture looks: colours for light and dark, and how a rail is told without its colour."""

from __future__ import annotations

from clusterlab.topology.parts import LINK_CLASSES

RAIL_DASHES = ("", "10 3", "3 3", "10 3 3 3", "16 4", "6 2", "1 3", "14 3 2 3 2 3")
"""With its number beside it, what tells a rail where colour does not."""

_LIGHT = {
    "back": "#ffffff",
    "ink": "#1f2328",
    "soft": "#59636e",
    "edge": "#818b98",
    "fault": "#b3151f",
    "frame": "#f6f8fa",
    "gpu": "#d8f0dd",
    "nvswitch": "#e9ddfb",
    "nic": "#d6e9fb",
    "cpu": "#fbe7cf",
    "pcie": "#eceff2",
    "switch": "#dfe6ee",
    "host": "#ffffff",
    "scale_up": "#7047c4",
}
_DARK = {
    "back": "#0d1117",
    "ink": "#e6edf3",
    "soft": "#9ea7b3",
    "edge": "#6e7681",
    "fault": "#ff7b72",
    "frame": "#161b22",
    "gpu": "#173a22",
    "nvswitch": "#33254d",
    "nic": "#16324d",
    "cpu": "#43301a",
    "pcie": "#262c34",
    "switch": "#263140",
    "host": "#0d1117",
    "scale_up": "#ab8bf0",
}
_LIGHT_RAILS = (
    *("#0969da", "#bc4c00", "#1a7f37", "#8250df"),
    *("#7a5c00", "#0b7285", "#bf3989", "#57606a"),
)
_DARK_RAILS = (
    *("#58a6ff", "#f0883e", "#3fb950", "#bc8cff"),
    *("#d4a72c", "#39c5cf", "#f778ba", "#b1bac4"),
)

RAILS = len(_LIGHT_RAILS)


def rail_css(rail: int | None) -> str:
    """The class of a rail's lines."""
    return "wire" if rail is None else f"rail{rail % RAILS}"


def rail_dash(rail: int | None) -> str:
    """The dash of a rail's lines."""
    return "" if rail is None else RAIL_DASHES[rail % RAILS]


def style_sheet() -> str:
    """The picture's CSS: light, and dark where the reader prefers it."""
    return (
        ".fabric text{font-family:system-ui,'Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif}"
        + ".fabric .bold{font-weight:600}"
        + _rules(_LIGHT, _LIGHT_RAILS)
        + "@media (prefers-color-scheme:dark){"
        + _rules(_DARK, _DARK_RAILS)
        + "}"
    )


def _rules(colours: dict[str, str], rails: tuple[str, ...]) -> str:
    c = colours
    rules = [
        f".back{{fill:{c['back']}}}",
        f".halo{{stroke:{c['back']};stroke-width:3px;paint-order:stroke}}",
        f".label{{fill:{c['ink']}}}",
        f".soft{{fill:{c['soft']}}}",
        f".bad{{fill:{c['fault']}}}",
        f".wire{{stroke:{c['edge']};fill:{c['edge']}}}",
        *(f".link-{link_class}{{stroke:{c['edge']}}}" for link_class in LINK_CLASSES),
        *(f".link-{link_class}{{stroke:{c['scale_up']}}}" for link_class in ("nvlink", "xgmi")),
        f".fault{{stroke:{c['fault']};fill:none}}",
        f".frame{{fill:{c['frame']};stroke:{c['edge']}}}",
        *(
            f".{kind}{{fill:{c[kind]};stroke:{c['edge']}}}"
            for kind in ("gpu", "nvswitch", "nic", "cpu", "pcie", "switch", "host")
        ),
        f".down{{stroke:{c['fault']};stroke-width:2;stroke-dasharray:4 3}}",
        *(f".rail{i}{{stroke:{colour};fill:{colour}}}" for i, colour in enumerate(rails)),
    ]
    return "".join(".fabric " + rule for rule in rules)
