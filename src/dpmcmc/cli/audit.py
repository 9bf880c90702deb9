"""stub"""
def audit() -> None:
    """stub."""
