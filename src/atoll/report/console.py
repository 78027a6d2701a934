"""Where tables are printed."""

from rich.console import Console

_FILE_WIDTH = 110


def console() -> Console:
    """Standard output; a file or a pipe has no edge to wrap tables at."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=max(screen.width, _FILE_WIDTH))
