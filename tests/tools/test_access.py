"""Laws of the access policy: pure decisions, and the reading of rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.launch_spec import Grant, Sandbox
from haftd.tools.calls.confinement import make_program_sandbox, make_sandbox, policy_in_force
from haftd.tools.calls.environment import build
from haftd.tools.calls.resolve import CallContext, resolve
from haftd.tools.definitions.access import (
    RIGHTS,
    WRITE,
    AccessPolicy,
    NetRule,
    PathRule,
    Right,
    canonicalize_host,
    covers,
)
from haftd.tools.definitions.load import is_about_rules
from haftd.tools.lists.full_description import describe

from .definition_kit import environment, read, tool

NAMES = st.sampled_from(["a", "b", "ab"])
PATHS = st.lists(NAMES, max_size=3).map(lambda names: "/" + "/".join(names))
RIGHT = st.sampled_from(RIGHTS)
SETS = st.frozensets(RIGHT)
RULES = st.builds(
    lambda path, grants, denies: PathRule(path, grants, denies - grants), PATHS, SETS, SETS
)
POLICIES = st.lists(RULES, max_size=5, unique_by=lambda rule: rule.path).map(
    lambda rules: AccessPolicy(fs=tuple(rules))
)


def policy(text: str, form: str = "tools") -> AccessPolicy:
    access = tool(f'[{form}.x]\ncommand = "a"\n{text}').policy
    assert access is not None
    return access


def problem(text: str, form: str = "tools") -> tuple[str, int | Any, str]:
    """Return key, line and message of the single problem of a definition, which makes no tool."""
    tools, problems = read(f'[{form}.x]\ncommand = "a"\n{text}')
    assert tools == {}
    (one,) = problems
    return one.key, one.line, one.message


@given(POLICIES, RIGHT, PATHS)
def test_the_longest_rule_that_names_a_right_decides(
    access: AccessPolicy, right: Right, path: str
) -> None:
    answer = False
    parts = path.strip("/").split("/") if path != "/" else []
    for length in range(len(parts) + 1):
        for rule in access.fs or ():
            if rule.path == "/" + "/".join(parts[:length]):
                answer = (answer or right in rule.grants) and right not in rule.denies
    assert access.may(right, path) is answer


GENEROUS = st.sampled_from(
    [frozenset(RIGHTS), frozenset({"read", "execute"}), frozenset(RIGHTS) - {"delete"}]
)
FEW_DENIALS = st.lists(RIGHT, max_size=1).map(frozenset)
GENEROUS_RULES = st.builds(
    lambda path, grants, denies: PathRule(path, grants - denies, denies),
    PATHS,
    GENEROUS,
    FEW_DENIALS,
)


@given(st.lists(GENEROUS_RULES, min_size=2, max_size=4, unique_by=lambda rule: rule.path), NAMES)
@example([PathRule("/", frozenset({"read"})), PathRule("/a", denies=frozenset({"read"}))], "a")
def test_an_enforceable_policy_grants_below_what_it_grants_above(
    rules: list[PathRule], name: str
) -> None:
    """Landlock adds rights up along a path: a policy that takes some away is refused."""
    access = AccessPolicy(fs=tuple(rules))
    if any(access.find_unenforceable()):
        return
    paths = [f"{rule.path.rstrip('/')}{below}" for rule in rules for below in ("", f"/{name}")]
    for rule in rules:
        granted = access.list_rights(rule.path)
        for path in paths:
            if covers(rule.path, path):
                assert granted <= access.list_rights(path or "/")


@given(POLICIES, RIGHT, PATHS)
def test_dots_and_relative_paths_are_denied(access: AccessPolicy, right: Right, path: str) -> None:
    assert not access.may(right, f"{path}/../b")
    assert not access.may(right, path.lstrip("/") or "a")


@given(PATHS, PATHS)
def test_covering_goes_by_whole_names(above: str, path: str) -> None:
    parts, prefix = path.split("/"), above.split("/")
    assert covers(above, path) is (above == "/" or parts[: len(prefix)] == prefix)


def test_nothing_is_granted_without_rules_and_all_by_an_open_kind() -> None:
    nothing, everything = AccessPolicy((), (), (), ()), AccessPolicy()
    for access, answer in ((nothing, False), (everything, True)):
        assert access.may_read("/a") is answer
        assert access.may_connect("a", 1) is answer
        assert access.may_see("A") is answer
        assert access.may_run("a") is answer


@pytest.mark.parametrize(
    ("rule", "host", "port", "scheme", "path", "answer"),
    [
        (NetRule("a.b"), "A.B.", 80, None, None, True),
        (NetRule("a.b"), "x.a.b", 80, None, None, False),
        (NetRule("a.b"), "a.b.evil", 80, None, None, False),
        (NetRule("*.a.b"), "x.y.a.b", 80, None, None, True),
        (NetRule("*.a.b"), "a.b", 80, None, None, False),
        (NetRule("*.a.b"), "xa.b", 80, None, None, False),
        (NetRule("*"), "anything", 1, None, None, True),
        (NetRule("a", port=443), "a", 443, None, None, True),
        (NetRule("a", port=443), "a", 80, None, None, False),
        (NetRule("a", "https"), "a", 443, "https", "/", True),
        (NetRule("a", "https"), "a", 443, "http", "/", False),
        (NetRule("a", "https"), "a", 443, None, None, False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1", True),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/x?y=/../z", True),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v10", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/../v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/%2e%2e/v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/%252e%252e/v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1\\..\\v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/..;/v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/%2e%2e%3Bx=1/v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/.;/v2", False),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", "/v1/x;..;/y..;z", True),
        (NetRule("a", path_prefix="/v1"), "a", 443, "https", None, False),
        (NetRule("127.0.0.1"), "::ffff:127.0.0.1", 80, None, None, True),
        (NetRule("127.0.0.1"), "[::ffff:7f00:1]", 80, None, None, True),
        (NetRule("127.0.0.1"), "127.1", 80, None, None, True),
        (NetRule("127.0.0.1"), "2130706433", 80, None, None, True),
        (NetRule("127.0.0.1"), "0x7f000001", 80, None, None, True),
        (NetRule("127.0.0.1"), "0177.0.0.1", 80, None, None, True),
        (NetRule("::1"), "0:0:0:0:0:0:0:1", 80, None, None, True),
    ],
)  # fmt: skip
def test_a_net_rule_matches_a_destination(
    rule: NetRule, host: str, port: int, scheme: str | None, path: str | None, answer: bool
) -> None:
    assert AccessPolicy(net=(rule,)).may_connect(host, port, scheme, path) is answer


@given(st.ip_addresses(v=4))
def test_every_spelling_of_an_address_is_one_host(address: Any) -> None:
    number = int(address)
    for text in (str(address), str(number), hex(number), f"::ffff:{address}"):
        assert canonicalize_host(text) == str(address)


def test_the_most_specific_net_rule_decides_and_a_denial_among_equals() -> None:
    rules = (
        NetRule("*"),
        NetRule("*.corp", allow=False),
        NetRule("ok.corp"),
        NetRule("ok.corp", port=22, allow=False),
    )
    access = AccessPolicy(net=rules)
    assert access.may_connect("example.com", 443)
    assert not access.may_connect("git.corp", 443)
    assert access.may_connect("ok.corp", 443)
    assert not access.may_connect("ok.corp", 22)
    assert not AccessPolicy(net=(NetRule("a"), NetRule("a", allow=False))).may_connect("a", 1)


@pytest.mark.parametrize(
    ("rules", "host", "address", "answer"),
    [
        ([NetRule("a.org")], "a.org", "93.184.216.34", True),
        ([NetRule("a.org")], "b.org", "93.184.216.34", False),
        ([NetRule("a.org")], "a.org", "10.0.0.1", False),
        ([NetRule("a.org")], "a.org", "::ffff:127.0.0.1", False),
        ([NetRule("*.org")], "a.org", "127.0.0.1", False),
        ([NetRule("*")], "a.org", "169.254.169.254", False),
        ([NetRule("localhost")], "localhost", "127.0.0.1", False),
        ([NetRule("a.org"), NetRule("127.0.0.1")], "a.org", "127.0.0.1", True),
        ([NetRule("a.org"), NetRule("127.0.0.1", port=1)], "a.org", "127.0.0.1", False),
        ([NetRule("127.0.0.1")], "a.org", "127.0.0.1", False),
        ([NetRule("127.0.0.1")], "127.1", "127.0.0.1", True),
        ([NetRule("*"), NetRule("93.184.216.34", allow=False)], "a.org", "93.184.216.34", False),
        ([NetRule("*"), NetRule("93.184.216.34", port=1, allow=False)], "a.org", "93.184.216.34", True),
        *(
            ([NetRule("*"), NetRule("10.1.2.3"), NetRule("93.184.216.34", allow=False)], "a.org", form, False)
            for form in (
                "64:ff9b::93.184.216.34", "64:ff9b:1::93.184.216.34", "64:ff9b:1:5db8:d8:2200::", "2002:5db8:d822::1",
                "::93.184.216.34", "::ffff:93.184.216.34", "::ffff:0:93.184.216.34",
            )
        ),
        ([NetRule("*"), NetRule("93.184.216.34", port=1, allow=False)], "a.org", "2002:5db8:d822::1", True),
        ([NetRule("*"), NetRule("127.0.0.1")], "a.org", "64:ff9b::127.0.0.1", False),
        ([NetRule("*"), NetRule("64:ff9b::7f00:1")], "a.org", "64:ff9b::127.0.0.1", True),
    ],
)  # fmt: skip
def test_an_address_counts_as_well_as_the_name_that_leads_to_it(
    rules: list[NetRule], host: str, address: str, answer: bool
) -> None:
    access = AccessPolicy(net=tuple(rules))
    assert (
        access.may_reach(host, address, 443, is_public="93" in address or "5db8" in address)
        is answer
    )


@pytest.mark.parametrize(
    ("rules", "network"),
    [
        ("[]", "none"),
        ('[{ host = "a", allow = false }]', "none"),
        ('[{ host = "*" }]', "all"),
        ('[{ host = "*" }, { host = "a" }]', "all"),
        ('[{ host = "*" }, { host = "a", allow = false }]', "proxy"),
        ('[{ host = "*", port = 443 }]', "proxy"),
        ('[{ host = "*", scheme = "https" }]', "proxy"),
        ('[{ host = "a" }]', "proxy"),
    ],
)
def test_a_process_is_held_to_single_hosts_by_the_proxy(rules: str, network: str) -> None:
    text = f"access.net = {rules}\n"
    assert policy(text).network == network
    sandbox = called(text).launch.sandbox
    assert (sandbox.network, sandbox.is_proxied) == (network == "all", network == "proxy")
    sentences = describe(tool(f'[tools.x]\ncommand = "a"\n{text}')).access
    assert ("by haft's proxy only" in str(sentences)) is (network == "proxy")
    mediated = describe(
        tool(f'[tools.x]\nruntime = "vfs"\ncommand = "a"\nparameters = {{}}\n{text}')
    )
    assert "proxy" not in str(mediated.access)


@pytest.mark.parametrize(
    ("rules", "network", "mediated"),
    [
        (None, "all", "all"),
        ([], "none", "none"),
        ([NetRule("*")], "all", "all"),
        ([NetRule("a")], "proxy", "proxy"),
        ([NetRule("a"), NetRule("b", path_prefix="/x")], "proxy", "none"),
        ([NetRule("*"), NetRule("b", path_prefix="/x")], "all", "none"),
    ],
)
def test_a_program_of_a_mediated_tool_has_no_network_beside_rules_with_a_path(
    rules: list[NetRule] | None, network: str, mediated: str
) -> None:
    held = AccessPolicy((), None if rules is None else tuple(rules), (), ())
    assert held.network == network
    sandbox = make_program_sandbox(held, "/r")
    assert (sandbox.network, sandbox.is_proxied) == (mediated == "all", mediated == "proxy")


def test_the_address_of_the_proxy_overrides_every_other(tmp_path: Any) -> None:
    overlay: dict[str, str | bool | None] = {"HTTPS_PROXY": "http://other", "NO_PROXY": "*"}
    env = build(
        {}, overlay=overlay, socket="", mark="", call="", is_confined=True, proxy="http://p"
    )
    names = [name for name in env if name.upper().endswith("_PROXY") and env[name] == "http://p"]
    assert len(names) == 6 and env["NO_PROXY"] == env["no_proxy"] == ""
    assert "HTTP_PROXY" not in build({}, socket="", mark="", call="", is_confined=True)


def test_both_forms_of_rules_are_one_policy() -> None:
    tables = policy(
        '[[tools.x.access.fs]]\npath = "src/"\nread = true\nwrite = true\n'
        '[[tools.x.access.fs]]\npath = "/etc/ssl"\nread = true\n'
        '[[tools.x.access.env]]\nname = "A"\n'
    )
    lists = policy(
        'access.fs.read = ["./src", "/etc//ssl"]\naccess.fs.write = ["src"]\naccess.env.read = ["A"]\n'
    )
    assert tables == lists
    assert tables.fs == (
        PathRule("src", frozenset({"read", *WRITE})),
        PathRule("/etc/ssl", frozenset({"read"})),
    )


def test_a_kind_without_rules_is_closed_in_one_form_and_open_in_the_other() -> None:
    text = 'access.fs.read = ["."]\n'
    rules = (PathRule(".", frozenset({"read"})),)
    assert policy(text) == AccessPolicy(rules, (), (), ())
    assert policy(text, "conversation.tools") == AccessPolicy(rules)
    assert policy("access = {}\n") == AccessPolicy((), (), (), ())


def test_the_sandbox_of_the_root_is_extended_by_rules() -> None:
    root = PathRule(".", frozenset(RIGHTS))
    assert policy('sandbox = "root"\n') == AccessPolicy((root,), (), (), ())
    access = policy('sandbox = "root"\naccess.fs.read = ["/opt"]\naccess.env.read = ["A"]\n')
    assert access.fs == (root, PathRule("/opt", frozenset({"read"})))
    assert access.may_see("A") and not access.may_see("B")


def test_write_is_refined_by_its_parts() -> None:
    (rule,) = policy('[[tools.x.access.fs]]\npath = "a"\nwrite = true\ndelete = false\n').fs or ()
    assert rule == PathRule("a", frozenset({"create", "update"}), frozenset({"delete"}))


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("access = 1", "access", "must be a table"),
        ("access.files = []", "access.files", "no such kind"),
        ('access.fs = ["a"]', "access.fs", "needs its right"),
        ("access.fs = 1", "access.fs", "one table for each rule: `[[tools.X.access.fs]]`"),
        ('access.fs = { path = ".", read = true }', "access.fs", "one table for each rule: `[[tools.X.access.fs]]`"),
        ('access.net = { host = "a" }', "access.net", "one table for each rule: `[[tools.X.access.net]]`"),
        ('access.env = { name = "A" }', "access.env", "one table for each rule: `[[tools.X.access.env]]`"),
        ('access.fs.look = ["a"]', "access.fs.look", "no such right"),
        ('access.fs.read = "a"', "access.fs.read", "array of paths"),
        ('access.fs.read = ["../a"]', "access.fs.read.0", "`..`"),
        ('access.fs.read = ["a/*"]', "access.fs.read.0", "pattern"),
        ('access.fs.read = [""]', "access.fs.read.0", "a path"),
        ('access.fs.read = ["$A/b"]', "access.fs.read.0", "${A}"),
        ('access.fs.read = ["~b/c"]', "access.fs.read.0", "~/"),
        ('access.fs.read = ["./~/c"]', "access.fs.read.0", "~/"),
        ("access.fs = [{ read = true }]", "access.fs.0", "needs a `path`"),
        ('access.fs = [{ path = "a" }]', "access.fs.0", "names no right"),
        ('access.fs = [{ path = "a", reads = true }]', "access.fs.0.reads", "no such key"),
        ('access.fs = [{ path = "a", read = 1 }]', "access.fs.0.read", "true or false"),
        ('access.fs = [{ path = "a", read = true }, { path = "./a", read = false }]', "access.fs", "contradict"),
        ('access.net = ["a"]', "access.net.0", "table with a `host`"),
        ("access.net = [{ port = 1 }]", "access.net.0", "needs a `host`"),
        ('access.net = [{ host = "a b" }]', "access.net.0.host", "not a valid host"),
        ('access.net = [{ host = "https://a" }]', "access.net.0.host", "separate keys"),
        ('access.net = [{ host = "a:443", allow = false }]', "access.net.0.host", "separate keys"),
        ('access.net = [{ host = "a", port = 0 }]', "access.net.0.port", "65535"),
        ('access.net = [{ host = "a", scheme = "HTTP" }]', "access.net.0.scheme", "in lower case"),
        ('access.net = [{ host = "a", path_prefix = "x" }]', "access.net.0.path_prefix", "begins with /"),
        ('access.env = ["A"]', "access.env.0", "env.read"),
        ('access.env.write = ["A"]', "access.env.write", "no such right"),
        ('access.env.read = ["A=B"]', "access.env.read.0", "name of a variable"),
        ("access.commands = []", "access.commands", "table of programs"),
        ("access.commands.cargo = 1", "access.commands.cargo", "args"),
        ('access.commands.cargo.args = ["check"]', "access.commands.cargo.args", "arrays of words"),
        ('access.commands.cargo.args = [["**", "a"]]', "access.commands.cargo.args", "at the end"),
        ('sandbox = "none"', "sandbox", '"root"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["tools", "conversation.tools"])
def test_a_wrong_rule_is_named_with_its_key(text: str, key: str, words: str, form: str) -> None:
    found, line, message = problem(text + "\n", form)
    assert (found, line) == (f"{form}.x.{key}", 3)
    assert words in message


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ('access.fs = [{ path = ".", read = true }, { path = ".git", read = false }]', "access.fs", "denies read"),
        ('access.fs = [{ path = "/usr/share/x", read = false }]', "access.fs", "in /usr"),
        ('access.fs = [{ path = "/lib", execute = false, read = true }]', "access.fs", "denies execute"),
        ('access.fs.create = ["a"]', "access.fs", "`create` without `update`"),
        ('access.net = [{ host = "a", path_prefix = "/x" }]', "access.net", "path_prefix"),
        ('access.net = [{ host = "a", path_prefix = "/x", allow = false }]', "access.net", 'only `runtime = "vfs"`'),
        ('access.commands.cargo.args = [["check", "**"]]', "access.commands", "vfs"),
        ('source = "mcp.s.t"\naccess.net = []', "access", "the source"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["tools", "conversation.tools"])
def test_a_rule_that_no_process_can_be_held_to_makes_no_tool(
    text: str, key: str, words: str, form: str
) -> None:
    found, _, message = problem(text + "\n", form)
    assert found == f"{form}.x.{key}"
    assert words in message and "unsafe = true" in message
    tools, problems = read(f'[{form}.x]\ncommand = "a"\n{text}\nunsafe = true\n')
    assert [problem for problem in problems if "access" in problem.key] == []
    assert tools["x"].policy is None


@pytest.mark.parametrize(
    "text", ['sandbox = "Root"', 'access.fs.read = ["src/*"]', 'sandbox = "root"\nlimit.wall_s = 1']
)
def test_a_fault_beside_rules_makes_no_tool_of_the_layers_below(text: str) -> None:
    tools, problems = read('[tools.x]\ncommand = "a"\n', f"[tools.x]\n{text}\n")
    assert tools == {}
    assert problems


def test_rules_of_one_form_close_the_kinds_that_the_other_form_leaves_open() -> None:
    tools, problems = read(
        '[tools.x]\ncommand = "a"\naccess.fs.read = ["."]\n'
        '[conversation.tools.x]\naccess.env.read = ["FOO"]\n'
    )
    assert problems == [] and tools["x"].policy is not None
    assert not tools["x"].policy.may_connect("example.org", 443)


def test_a_denial_that_takes_nothing_away_is_no_problem() -> None:
    text = 'access.fs = [{ path = "a", read = true }, { path = "b", read = false, write = true }]\n'
    assert list(policy(text).find_unenforceable()) == []
    assert list(policy('access.net = [{ host = "a", allow = false }]\n').find_unenforceable()) == []


def called(text: str, variables: dict[str, str] | None = None, root: str = "/r") -> Any:
    context = CallContext(root=root, session="s", handle="h", variables=variables or {})
    return resolve(tool(f'[tools.x]\ncommand = "a"\n{text}'), {}, context)


def test_paths_begin_at_the_root_and_variables_are_the_daemons() -> None:
    text = 'access.fs.read = [".", "b", "~/c", "${DATA}/d", "/e"]\n'
    access = called(text, {"HOME": "/h", "DATA": "/data"})
    assert access.launch.sandbox == Sandbox(
        "/r",
        tuple(Grant(path, frozenset({"read"})) for path in ("/r", "/r/b", "/h/c", "/data/d", "/e")),
    )


@pytest.mark.parametrize("path", ["~", "~/", "~/."])
def test_a_tilde_alone_is_the_home_folder(path: str) -> None:
    access = called(f'access.fs.read = ["{path}"]\n', {"HOME": "/h"})
    assert [grant.path for grant in access.launch.sandbox.grants] == ["/h"]


@pytest.mark.parametrize(
    ("variables", "words"), [({}, "names DATA, which is not set"), ({"DATA": "/a/.."}, "`..`")]
)
def test_a_variable_without_a_usable_value_refuses_the_call(
    variables: dict[str, str], words: str
) -> None:
    with pytest.raises(RpcError) as caught:
        called('access.fs.read = ["${DATA}/d"]\n', variables)
    assert words in caught.value.message and caught.value.data["reason"] == "sandbox"


def test_rules_that_meet_only_at_the_root_are_checked_at_the_call() -> None:
    text = 'access.fs = [{ path = "/", read = true }, { path = "b", read = false }]\n'
    with pytest.raises(RpcError, match="denies read"):
        called(text)


def test_a_runtime_that_enforces_nothing_refuses_the_call() -> None:
    own = tool('[tools.x]\ncommand = "a"\naccess = {}\n')
    with pytest.raises(RpcError, match="enforces none"):
        make_sandbox(own, policy_in_force(own, "/r", {}), "/r", "other")


def test_the_policy_in_force_is_handed_to_the_tool() -> None:
    access = called('sandbox = "root"\naccess.env.read = ["A"]\naccess.net = [{ host = "*" }]\n')
    assert '"access":{"fs":[{"path":"/r","read":true,' in access.context_json
    assert access.policy.as_data()["net"] == [{"host": "*", "allow": True}]
    assert access.policy.as_data()["env"] == [{"name": "A", "read": True}]
    assert access.launch.sandbox.network is True


def test_a_tool_without_rules_has_no_sandbox() -> None:
    assert called("").launch.sandbox is None
    assert called("access = {}\nunsafe = true\n").launch.sandbox is None
    assert called("access = {}\n").launch.sandbox == Sandbox("/r", (), network=False)


@pytest.mark.parametrize("rule", ["net = []", 'env.read = ["A"]', 'net = [{ host = "*" }]'])
def test_rules_that_leave_files_open_make_no_tool(rule: str) -> None:
    """The tool could write a definition for itself."""
    key, _, message = problem(f"access.{rule}\n", "conversation.tools")
    assert key == "conversation.tools.x.access" and "gives the tool access to all files" in message
    assert policy(f"access.{rule}\n").fs == ()


def test_an_empty_table_of_the_older_form_is_no_rule() -> None:
    assert tool('[conversation.tools.x]\ncommand = "a"\naccess = {}\n').policy is None


def test_a_sandbox_for_all_tools_is_a_problem_of_the_list() -> None:
    _, problems = read('[tools."*"]\nsandbox = "root"\n[tools.x]\ncommand = "a"\nbad = 1\n')
    assert [problem.key for problem in problems if is_about_rules(problem)] == ["tools.*.sandbox"]


def test_the_rules_are_described_in_words() -> None:
    def words(text: str) -> str:
        description = describe(tool(f'[tools.x]\ncommand = "a"\n{text}')).access
        return "\n".join(description or ())

    assert words("") == ""
    assert "`unsafe = true`" in words("access = {}\nunsafe = true\n")
    root = words('sandbox = "root"\n')
    assert "may read, write and execute the root and everything below" in root
    assert "Network: none" in root and "Always granted" in root
    more = words('access.fs.read = ["a"]\naccess.net = [{ host = "*" }]\naccess.env.read = ["A"]\n')
    assert "may read a and everything below" in more
    assert "may connect to every host" in more and "A, and what its definition sets" in more


def test_the_description_of_a_mediated_tool_is_that_of_its_rules_in_force() -> None:
    def sentences(text: str) -> list[str]:
        return list(describe(tool(text)).access or ())[1:]

    none = ["Files: none.", "Network: none.", "Environment: none.", "Programs: none."]
    form = 'x]\nruntime = "vfs"\ncommand = "a"\n'
    assert sentences(f"[tools.{form}") == none
    assert sentences(f"[conversation.tools.{form}access = {{}}\n") == none
    assert sentences(f"[tools.{form}unsafe = true\n")[0] == "Files: every one in the root."
    rules = (
        'access.commands.git = { args = [["log"]], envs = ["GIT_DIR"] }\n'
        'access.env = [{ name = "A*" }, { name = "AB", read = false }]\n'
    )
    assert sentences(f"[tools.{form}{rules}")[2:] == [
        "Environment: A* (not AB), in headers of requests.",
        "Programs: may run git log, in a sandbox by its rules, with GIT_DIR.",
    ]


@pytest.mark.parametrize(
    ("rule", "config"),
    [
        ("fs.read = ['.']", "/dev/null"),
        ("fs.read = ['/h/.gitconfig']", None),
        ("fs.read = ['/h/.config']", None),
        ("fs.read = ['/']", None),
    ],
)
def test_git_gets_no_configuration_that_it_may_not_read(rule: str, config: str | None) -> None:
    access = called(f"access.{rule}\n", {"HOME": "/h"})
    env = build(
        {"HOME": "/h"},
        socket="",
        mark="",
        call="",
        may_read=access.policy.may_read,
        is_confined=True,
    )
    assert env.get("GIT_CONFIG_GLOBAL") == config


def test_a_rule_hides_a_variable_that_every_tool_has() -> None:
    table = "[[tools.x.access.env]]\nname = "
    access = policy(f'{table}"HOME"\nread = false\n{table}"L*"\nread = false\n')
    assert not access.may_inherit("HOME") and not access.may_inherit("LOGNAME")
    assert access.may_inherit("USER") and not access.may_inherit("OTHER")


def test_the_environment_of_a_sandbox_has_what_is_granted_and_no_socket() -> None:
    base = {"PATH": "/bin", "HOME": "/h", "KEPT": "1", "OTHER": "2", "API_KEY": "3", "LC_ALL": "C"}
    access = policy('access.env.read = ["KEPT", "API_*"]\n')
    env = build(
        base,
        secret_env=["*_KEY"],
        overlay={"SET": "4"},
        askpass="/askpass",
        socket="/s",
        mark="m",
        call="{}",
        may_inherit=access.may_inherit,
        is_confined=True,
    )
    assert {"PATH", "HOME", "KEPT", "SET", "LC_ALL"} <= env.keys()
    assert "GIT_CONFIG_GLOBAL" not in env
    assert not {"OTHER", "API_KEY", "HAFT_SOCKET", "SUDO_ASKPASS", "SSH_ASKPASS"} & env.keys()
    assert "HAFT_SOCKET" in environment(called(""))
