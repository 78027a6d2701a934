"""Numbers as people read them."""


def short(value: float) -> str:
    """Three decimals for shares, two for percents, none for thousands."""
    return (
        f"{value:.3f}"
        if abs(value) < 1
        else f"{value:.2f}"
        if abs(value) < 1000
        else f"{value:.0f}"
    )


def signed(value: float) -> str:
    """With its sign, always."""
    return ("+" if value >= 0 else "-") + short(abs(value))
