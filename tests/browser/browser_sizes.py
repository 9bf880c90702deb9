"""On what the pages are looked at."""

SIZES = [(390, "light"), (390, "dark"), (1400, "light"), (1400, "dark")]
