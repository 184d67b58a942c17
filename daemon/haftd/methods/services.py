"""Parts of the daemon shared by methods on handles, bound by `methods.table`."""

from __future__ import annotations

import msgspec

from haftd.audit import Audit
from haftd.executions.helpers import HelperRunner
from haftd.executions.starter import Starter
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.router import InquiryRouter
from haftd.notices.output_watcher import OutputWatcher
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

from .access import Access


class HandleServices(msgspec.Struct, frozen=True):
    access: Access
    supervisor: Supervisor
    inquiries: InquiryRouter
    catalogue: Catalogue
    audit: Audit


class StartServices(HandleServices, frozen=True):
    starter: Starter
    helpers: HelperRunner
    subscriptions: Subscriptions
    watching: OutputWatcher
