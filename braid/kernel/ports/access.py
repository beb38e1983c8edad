"""The port to access control: what serving control RPCs asks before a handler runs."""

from collections.abc import Callable
from typing import Protocol

from braid.kernel.errors import BraidError
from braid.kernel.ports.rpc import Caller


class Authorizer(Protocol):
    """Decides who may call what. Methods are full names: `/braid.api.registry.v1.RegistryService/MoveStream`."""

    def guards(self, method: str) -> bool:
        """Whether calls of the method are asked about at all; asked once, before serving."""
        ...

    def waits_for_hello(self, method: str) -> bool:
        """Whether it takes the first message of a duplex method to decide."""
        ...

    def authenticate(self, method: str, caller: Caller) -> None:
        """Raises `Unauthenticated` unless the transport has verified who calls."""
        ...

    def authorize(self, method: str, request: object | None, caller: Caller) -> None:
        """Decides on a request, or on the first message of a duplex method; None where it does not wait for that.

        Raises:
            Unauthenticated: nobody knows who calls.
            AccessDenied: the caller has no right to it; says which grant is missing.
            Unavailable: it is not known yet which rights there are.
        """
        ...

    def check_later(self, method: str, hello: object, message: object, caller: Caller) -> None:
        """Raises `AccessDenied` for a later message of a duplex method about what its first one did not name."""
        ...

    def opened(
        self, method: str, request: object | None, caller: Caller, end: Callable[[BraidError], None]
    ) -> Callable[[], None]:
        """Looks after an open stream: calls `end` once its caller has lost the right to it.

        Returns:
            What ends that.
        """
        ...
