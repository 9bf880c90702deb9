"""Programs on records that are never in one place: executed release by release, each one a pass over chunks.

READ IF IT IS ON: certificates of such runs name the path "streamed". streamed.md has the proof.

`steps` divides an audited program into what is public and what is asked of the records; `passes` makes of what is
asked at once a program for a chunk, which ends in exact integers (`partial`), and one for their sum, which adds noise;
`local` adds up over the chunks of a source; `streamed` is where a vault meets them. Another engine, on other machines,
has one method more than facts: `Engine.partial_sum`.
"""

from dpmcmc.enclave.engines.contract import Engine
from dpmcmc.enclave.engines.local import LocalEngine
from dpmcmc.enclave.engines.partial import PartialProgram
from dpmcmc.enclave.engines.streamed import Streamed, streamed

__all__ = ["Engine", "LocalEngine", "PartialProgram", "Streamed", "streamed"]
