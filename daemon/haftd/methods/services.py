"""The parts of the daemon that the methods on handles work with.

A method takes its own dependencies as first parameters, and `methods.table` binds them. The methods that start, read,
feed and end handles call each other, and share one of the values here.
"""

from __future__ import annotations

from dataclasses import dataclass

from haftd.audit import Audit
from haftd.executions.helpers import HelperRunner
from haftd.executions.starting import Starter
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.router import InquiryRouter
from haftd.notices.output_watcher import OutputWatcher
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

from .access import Access


@dataclass(frozen=True, slots=True)
class HandleServices:
    """For a method on a handle that exists."""

    access: Access
    supervisor: Supervisor
    inquiries: InquiryRouter
    catalogue: Catalogue
    audit: Audit


@dataclass(frozen=True, slots=True)
class StartServices(HandleServices):
    """For a method that may start a tool as well."""

    starter: Starter
    helpers: HelperRunner
    subscriptions: Subscriptions
    watching: OutputWatcher
