"""The privacy budget of a dataset."""

from dataclasses import dataclass

from dpmcmc import validation


@dataclass(frozen=True)
class Budget:
    """A privacy budget: the (epsilon, delta) guarantee that all releases together must satisfy.

    Attributes:
        epsilon: at least 0.
        delta: strictly between 0 and 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validation.non_negative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", validation.probability("delta", self.delta))

    def __str__(self) -> str:
        return f"epsilon={self.epsilon:g}, delta={self.delta:g}"
