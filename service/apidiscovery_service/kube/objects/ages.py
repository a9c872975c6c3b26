"""How long ago something was, as kubectl's columns say it.

Source: k8s.io/apimachinery pkg/util/duration/duration.go, HumanDuration.
"""

from datetime import timedelta

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# Below so many seconds: the unit, and the smaller unit that is written if it is not 0.
_STEPS = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (48 * _HOUR, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def human_duration(age: timedelta) -> str:
    """Return an age in two figures at most: `5s`, `4m10s`, `3h`, `5d2h`, `2y40d`.

    A second or less into the future is `0s`, for clocks differ; more is `<invalid>`.
    """
    seconds = int(age.total_seconds())
    if seconds < 0:
        return "0s" if seconds == -1 else "<invalid>"
    for limit, (unit, name), smaller in _STEPS:
        if seconds < limit:
            rest = seconds % unit // smaller[0] if smaller else 0
            return f"{seconds // unit}{name}" + (f"{rest}{smaller[1]}" if smaller and rest else "")
    return f"{seconds // _YEAR}y"
