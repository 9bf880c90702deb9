"""Programs on records that are never in one place: executed release by release, each one a pass over chunks.

READ IF IT IS ON: certificates of such runs name the path "streamed". streamed.md has the proof.

`steps` divides an audited program into what is public and what is asked of the records; `partial` compiles what a chunk
adds, up to exact integers, and what makes releases of their sum; `local` adds up over the chunks of a source; `streamed`
is where a vault meets them. Another engine, on other machines, has one method: `Engine.partial_sum`.
"""

from dpmcmc.enclave.engines.contract import Engine
from dpmcmc.enclave.engines.local import LocalEngine
from dpmcmc.enclave.engines.partial import PartialProgram
from dpmcmc.enclave.engines.streamed import Streamed, streamed

__all__ = ["Engine", "LocalEngine", "PartialProgram", "Streamed", "streamed"]
