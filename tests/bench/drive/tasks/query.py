"""sqlite3: create, fill and query a table."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from ..expect import Expect
from ..haft import Haft
from ..task import Task
from ..tmux import Tmux

_CREATE = "create table dear (name text, price integer);"
_INSERT = "insert into dear select name, price from goods where price > 500;"
_SELECT = "select count(*), sum(price) from dear;"


def _prepare(folder: Path, draw: random.Random) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("create table goods (name text, price integer)")
        goods = [(f"thing {n}", draw.randrange(1000)) for n in range(40)]
        shop.executemany("insert into goods values (?, ?)", goods)


def _haft(haft: Haft) -> str:
    haft.run("sqlite3", "shop.db", max_bytes=0)
    haft.line(_CREATE)
    haft.line(_INSERT)
    answer = haft.line(_SELECT).text
    haft.line(".quit", wait="stopped", max_bytes=0)
    return answer


def _tmux(tmux: Tmux) -> str:
    tmux.spawn("sqlite3", "shop.db")
    tmux.until(r"^sqlite>$")
    tmux.send(_CREATE, "Enter")
    tmux.until(r"^sqlite>$")
    tmux.send(_INSERT, "Enter")
    tmux.until(r"^sqlite>$")
    tmux.send(_SELECT, "Enter")
    answer = tmux.until(r"^sqlite>$")
    tmux.send(".quit", "Enter")
    tmux.end()
    return answer


def _pexpect(child: Expect) -> str:
    child.spawn("sqlite3", "shop.db")
    child.expect("sqlite> ")
    child.sendline(_CREATE)
    child.expect("sqlite> ")
    child.sendline(_INSERT)
    child.expect("sqlite> ")
    child.sendline(_SELECT)
    answer = child.expect("sqlite> ")
    child.sendline(".quit")
    child.end()
    return answer


def _check(folder: Path, answer: str) -> str | None:
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        tables = [name for (name,) in shop.execute("select name from sqlite_schema order by 1")]
        if tables != ["dear", "goods"]:
            return f"the tables are {tables}"
        (count, total), *_ = shop.execute(
            "select count(*), sum(price) from goods where price > 500"
        )
        if list(shop.execute(_SELECT)) != [(count, total)]:
            return "the table is filled wrongly"
    return None if f"{count}|{total}" in answer else f"not {count}|{total} in:\n{answer}"


QUERY = Task(
    "sqlite3: create, insert, select", ("sqlite3",), _prepare, _haft, _haft, _tmux, _pexpect, _check
)
