"""Client of the Tidegate ledger: transfers that are applied exactly once, also when an answer was lost."""

from .client import Client
from .errors import TidegateError
from .ids import new_id
from .models import *  # noqa: F403
from .models import __all__ as _models
from .retry import Retry

__all__ = ["Client", "Retry", "TidegateError", "new_id", *_models]
