"""The settings by which clients of each kind log in as a user of a protected cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import ssl


class KafkaPythonSettings(TypedDict):
    """The arguments of kafka-python's clients."""

    bootstrap_servers: list[str]
    security_protocol: Literal["SASL_SSL"]
    sasl_mechanism: str
    sasl_plain_username: str
    sasl_plain_password: str
    ssl_cafile: str


class AiokafkaSettings(TypedDict):
    """The arguments of aiokafka's clients."""

    bootstrap_servers: str
    security_protocol: Literal["SASL_SSL"]
    sasl_mechanism: str
    sasl_plain_username: str
    sasl_plain_password: str
    ssl_context: "ssl.SSLContext"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLogin:
    """A user of a protected cluster, who logs in by a password over TLS."""

    user: str
    password: str = field(repr=False)
    authorities: str
    """The path of the certificates of the authorities that vouch for the brokers."""
    bootstrap_servers: str = ""
    """The addresses of brokers, `host:port,host:port`. Empty: the settings name none."""
    mechanism: str = "SCRAM-SHA-512"
    """One of `SaslMechanism`."""

    def librdkafka(self) -> dict[str, str | int | float | bool]:
        """The settings of librdkafka's clients, such as confluent-kafka's."""
        return {
            **self._named("bootstrap.servers"),
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
            "ssl.ca.location": self.authorities,
        }

    def kafka_python(self) -> KafkaPythonSettings:
        """The arguments of kafka-python's clients: `KafkaProducer(**login.kafka_python())`."""
        return {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
            "ssl_cafile": self.authorities,
        }

    def aiokafka(self) -> AiokafkaSettings:
        """The arguments of aiokafka's clients: `AIOKafkaProducer(**login.aiokafka())`."""
        import ssl

        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
            "ssl_context": ssl.create_default_context(cafile=self.authorities),
        }

    def java(self) -> Mapping[str, str]:
        """The settings of Java's clients, and of `quorate --command-config`."""
        name = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
        module = f"org.apache.kafka.common.security.{name}LoginModule"
        return {
            **self._named("bootstrap.servers"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f"{module} required username={_quoted(self.user)} "
            f"password={_quoted(self.password)};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authorities,
        }

    def java_properties(self) -> str:
        """The same as the text of a properties file."""
        return properties_text(self.java())

    def as_dict(self) -> dict[str, object]:
        """Return it for programs, with the settings of clients that other languages have."""
        return {
            "user": self.user,
            "password": self.password,
            "librdkafka": self.librdkafka(),
            "java": dict(self.java()),
        }

    def _named(self, key: str) -> Mapping[str, str]:
        return {key: self.bootstrap_servers} if self.bootstrap_servers else {}


def properties_text(settings: Mapping[str, str]) -> str:
    """Return the text of a properties file, with Java's escapes."""
    import javaproperties

    return "".join(f"{javaproperties.join_key_value(key, value)}\n" for key, value in settings.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
