"""Which machine this is, for as long as it runs: what is local can be told from what is not."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Another one after each boot; empty where the system has none."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
