"""Keys and certificates from files and options, and what is said about those that are not good."""

import subprocess
from pathlib import Path

import pytest

from barnabas.model.errors import Code, Failed
from barnabas.system.tls.contexts import client_context, server_context
from barnabas.system.tls.stores import KeyStore, read_key_store, read_trust_store
from tests.support.certificates import Pki, new_pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return new_pki(tmp_path_factory.mktemp("pki"), "alice")


def keys(pki: Pki, name: str = "server.pem", **passwords: str | None) -> KeyStore:
    found = read_key_store(pki.path(name), None, None, passwords.get("store"), passwords.get("key"))
    assert found is not None
    return found


def test_pem_and_pkcs12_hold_the_same(pki: Pki) -> None:
    pem, packed = keys(pki), keys(pki, "server.p12", store=pki.password)
    assert pem.own == packed.own
    trusted = read_trust_store(pki.path("ca.pem"), None, None)
    assert trusted == read_trust_store(None, Path(pki.path("ca.pem")).read_text(), None)
    for each in (pem, packed):
        server_context(each, trusted, "required")
        client_context(each, trusted)


def test_a_key_and_certificates_may_be_in_the_options(pki: Pki) -> None:
    text = Path(pki.path("server.pem")).read_text()
    key, _, chain = text.partition("-----BEGIN CERTIFICATE")
    found = read_key_store(None, key, "-----BEGIN CERTIFICATE" + chain, None, None)
    assert found is not None
    assert found.own == keys(pki).own
    with pytest.raises(Failed, match=r"ssl\.keystore\.certificate\.chain is missing"):
        read_key_store(None, key, None, None, None)
    assert read_key_store(None, None, None, None, None) is None
    assert read_trust_store(None, None, None) is None


def test_an_encrypted_key_needs_its_password(pki: Pki, tmp_path: Path) -> None:
    out = tmp_path / "encrypted.pem"
    command = ["openssl", "pkcs8", "-topk8", "-in", pki.path("server.pem"), "-passout", "pass:x y"]
    key = subprocess.run(command, check=True, capture_output=True).stdout
    own = Path(pki.path("server.pem")).read_bytes()
    out.write_bytes(key + own[own.index(b"-----BEGIN CERTIFICATE") :])
    found = read_key_store(str(out), None, None, None, "x y")
    server_context(found, None)
    for password in ("wrong", None):
        wrong = read_key_store(str(out), None, None, None, password)
        with pytest.raises(Failed, match=r"is ssl\.key\.password right") as refused:
            server_context(wrong, None)
        assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", r"keytool -importkeystore .* -deststoretype PKCS12"),
        (b"0\x82garbage", "not a PKCS12 file, or the password is wrong"),
        (b"hello", "it has no certificate"),
        (b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", "no private key|not valid"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "store"
    path.write_bytes(data)
    with pytest.raises(Failed, match=reason) as refused:
        read_key_store(str(path), None, None, None, None)
    assert refused.value.code is Code.INVALID_CONFIG
    assert str(path) in refused.value.detail
    with pytest.raises(Failed, match="cannot be read: No such file"):
        read_trust_store(str(tmp_path / "missing"), None, None)


def test_a_key_of_another_certificate_is_refused(pki: Pki) -> None:
    own, other = keys(pki), keys(pki, "alice.pem")
    key = other.pem.partition(b"-----BEGIN CERTIFICATE")[0]
    chain = own.pem[own.pem.index(b"-----BEGIN CERTIFICATE") :]
    with pytest.raises(Failed, match="does not belong to the first certificate"):
        server_context(KeyStore(key + chain, None, own.own), None)


def test_a_broker_without_a_key_or_without_trust_for_clients_does_not_start(pki: Pki) -> None:
    with pytest.raises(Failed, match=r"set ssl\.keystore\.location"):
        server_context(None, None)
    with pytest.raises(Failed, match=r"set ssl\.truststore\.location"):
        server_context(keys(pki), None, "requested")


def test_suites_are_named_as_in_java(pki: Pki) -> None:
    found = server_context(
        keys(pki),
        None,
        suites=["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"],
    )
    names = {each["name"] for each in found.get_ciphers() if "ECDHE" in each["name"]}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
    old = server_context(keys(pki), None, suites=["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"])
    assert old.maximum_version.name == "TLSv1_2"
    new = server_context(keys(pki), None, suites=["TLS_AES_256_GCM_SHA384"])
    assert new.minimum_version.name == "TLSv1_3"
    chacha = ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"]
    server_context(keys(pki), None, suites=chacha)
    with pytest.raises(Failed, match=r"ssl\.cipher\.suites: OpenSSL has no"):
        server_context(keys(pki), None, suites=[*chacha, "TLS_NO_WITH_SUCH_SUITE"])
    with pytest.raises(Failed, match="no version of TLS in common"):
        server_context(keys(pki), None, versions=["TLSv1.2"], suites=["TLS_AES_256_GCM_SHA384"])
