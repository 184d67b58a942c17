"""Parts of the daemon that methods on handles share, bound by `methods.table`."""

from __future__ import annotations

from dataclasses import dataclass

from haftd.audit import Audit
from haftd.executions.helpers import HelperRunner
from haftd.executions.starter import Starter
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.router import InquiryRouter
from haftd.notices.output_watcher import OutputWatcher
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

from .access import Access


@dataclass(frozen=True, slots=True)
class HandleServices:
    access: Access
    supervisor: Supervisor
    inquiries: InquiryRouter
    catalogue: Catalogue
    audit: Audit


@dataclass(frozen=True, slots=True)
class StartServices(HandleServices):
    starter: Starter
    helpers: HelperRunner
    subscriptions: Subscriptions
    watching: OutputWatcher
