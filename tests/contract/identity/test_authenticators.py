"""The contract of every authenticator of tokens: the one of signed tokens and its twin in memory."""

from collections.abc import Callable

import pytest

from braid.kernel.access.grants import ServicePrincipals
from braid.kernel.errors import Unauthenticated
from braid.kernel.limits.access.tokens import TOKEN_LEEWAY_SECONDS
from braid.kernel.ports import CertificateNames, Shown
from testbed.authority import ALICE
from tests.contract.identity.conftest import Rig

Make = Callable[..., Rig]


def problem(error: pytest.ExceptionInfo[Unauthenticated]) -> str:
    """Why a caller was refused."""
    return error.value.metadata["problem"]


async def test_a_token_names_its_caller_until_it_ends(make: Make) -> None:
    rig = make(prefix="corp/")
    token = rig.issue("alice@corp.example", 60)
    identity = await rig.either.identify(Shown(encrypted=True, bearer=token))
    assert identity is not None
    assert identity.principal == "jwt:corp/alice@corp.example"
    assert identity.expire_ms == rig.clock.now_ms() + int((60 + TOKEN_LEEWAY_SECONDS) * 1000)
    rig.clock.seconds += 60 + TOKEN_LEEWAY_SECONDS - 0.5
    assert await rig.of(token) == "jwt:corp/alice@corp.example"
    rig.clock.seconds += 0.5
    with pytest.raises(Unauthenticated, match="the token has expired") as refused:
        await rig.of(token)
    assert problem(refused) == "token_expired"


async def test_a_token_may_begin_a_little_late_and_no_later(make: Make) -> None:
    rig = make()
    assert await rig.of(rig.issue("alice", 300, begins_in=TOKEN_LEEWAY_SECONDS - 1)) == "jwt:alice"
    with pytest.raises(Unauthenticated, match="not valid yet") as refused:
        await rig.of(rig.issue("alice", 300, begins_in=TOKEN_LEEWAY_SECONDS + 1))
    assert problem(refused) == "token_not_yet"


async def test_a_token_for_others_is_refused(make: Make) -> None:
    rig = make()
    with pytest.raises(Unauthenticated, match="another audience than braid") as refused:
        await rig.of(rig.issue("alice", 60, audience="payments"))
    assert problem(refused) == "token_audience"


@pytest.mark.parametrize("token", ["x", "a.b.c", "Ümläut", "." * 100])
async def test_what_is_no_token_is_refused_without_being_told(make: Make, token: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        await make().of(token)
    assert problem(refused) == "token_malformed"
    assert len(token) < 2 or token not in str(refused.value)


@pytest.mark.parametrize("name", ["spiffe://test.local/service/registry-0", "dns:registry", "jwt:x"])
async def test_a_token_never_names_a_certificate_holder_or_a_service(make: Make, name: str) -> None:
    rig = make()
    principal = await rig.of(rig.issue(name, 60))
    assert principal == f"jwt:{name}"
    assert not ServicePrincipals("test.local", ("jwt:*", principal)).includes(principal)


@pytest.mark.parametrize("name", ["", "a b", "Ümläut", "a\nb", "a" * 3_000])
async def test_a_name_that_is_no_principal_is_refused(make: Make, name: str) -> None:
    rig = make()
    with pytest.raises(Unauthenticated, match="which is no principal") as refused:
        await rig.of(rig.issue(name, 60))
    assert problem(refused) == "token_name"


async def test_a_caller_has_one_identity_by_tls_and_none_in_plaintext(make: Make) -> None:
    rig = make()
    token, names = rig.issue("alice", 60), CertificateNames([ALICE])
    assert await rig.principal(Shown()) == ""
    assert await rig.principal(Shown(encrypted=True, certificate=names)) == ALICE
    refusals = {
        "two_identities": Shown(encrypted=True, certificate=names, bearer=token),
        "token_in_plaintext": Shown(bearer=token),
        "nothing_shown": Shown(encrypted=True),
    }
    for expected, shown in refusals.items():
        with pytest.raises(Unauthenticated) as refused:
            await rig.principal(shown)
        assert problem(refused) == expected
        assert token not in f"{refused.value!r} {shown!r}"
