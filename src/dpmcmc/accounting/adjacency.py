"""Which data sets count as neighbours."""

from enum import StrEnum

from dpmcmc.validation import refuse


class Adjacency(StrEnum):
    """The neighbouring relation of a guarantee: ``replace_one`` or ``add_or_remove_one``; stated with every epsilon."""

    REPLACE_ONE = "replace_one"
    """Neighbours differ in the value of one record; the number of records is public."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    """Neighbours differ by one added or removed record; the number of records is private."""

    @property
    def words(self) -> str:
        """The relation in words, as certificates state it."""
        return self.value.replace("_", "-")

    @classmethod
    def parse(cls, name: str, value: object) -> "Adjacency":
        """Return `value` (an `Adjacency` or its name) as an `Adjacency`."""
        try:
            return cls(str(value).replace("-", "_"))
        except ValueError:
            refuse(name, value, f"must be one of {', '.join(member.value for member in cls)}")
