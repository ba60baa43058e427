"""Servers for the cases: config/dev.toml with some of its lines changed, and certificates of our own authority.

    authority ─▶ server.pem, clients' certificates        dev.toml ─▶ changed(...) ─▶ a file of this case's own
"""

import pathlib
import ssl
import tempfile

import trustme

DEV = "config/dev.toml"
SERVICE = "dev-service-token"


class Fixture:
    """A folder with an authority, certificates and configurations; gone when its `with` block ends."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tidegate-clients-")
        self.root = pathlib.Path(self.folder.name)
        self.authority, self.stranger = trustme.CA(), trustme.CA()
        self.authority.cert_pem.write_to_path(self.path("authority.pem"))
        self.renew()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, name):
        return str(self.root / name)

    def renew(self):
        """Gives the server another certificate, and returns its bytes as a client sees them."""
        made = self.authority.issue_cert("127.0.0.1", "localhost")
        made.private_key_pem.write_to_path(self.path("key.pem"))
        self.root.joinpath("cert.pem").write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())

    def context(self, user=None, authority=None):
        """What a client trusts, and the certificate that it shows, signed by our authority unless another is given."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.configure_trust(context)
        if user:
            (authority or self.authority).issue_cert(f"{user}.example", common_name=user).configure_cert(context)
        return context

    def config(self, name, changes=(), more=""):
        """Writes dev.toml with changes (old line's text, new text) and further sections; returns the path."""
        text = pathlib.Path(DEV).read_text()
        for old, new in changes:
            assert text.count(old) == 1, f"{DEV} has {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        pathlib.Path(self.path(name)).write_text(text + more)
        return self.path(name)

    def tls(self, required=False):
        """The changes that bring TLS to dev.toml, for MQTT and HTTP."""
        wanted = "required" if required else "optional"
        files = [f'cert_file = "{self.path("cert.pem")}"', f'key_file = "{self.path("key.pem")}"',
                 f'client_ca_file = "{self.path("authority.pem")}"', f'client_certificate = "{wanted}"']
        return [("\n[tls]\n", "\n[tls]\n" + "\n".join(files) + "\n"), ("\nhttp = false\n", "\nhttp = true\n")]
