--- Options. Defaults hold without any call; `require("haft").setup{}` or `vim.g.haft` changes them.
local M = {}

local defaults = {
  -- The daemon's socket; by default found as `haft` finds it.
  socket = nil,
  -- Another machine, as `haft --host` takes it ("ssh://user@box"); by default that of $HAFT_HOST.
  host = nil,
  -- A command that joins its standard streams to a daemon, which it starts where none answers.
  connect = { "haft", "connect" },
  -- The session in which handles are started, and in which a name without "/" is looked up.
  session = "default",
  -- Bytes of a terminal's earlier output to fetch when its buffer opens.
  history_bytes = 1024 * 1024,
  -- Let programs write the clipboard (OSC 52).
  clipboard = false,
  -- Tell in one line when a question or an approval arrives.
  notify = true,
}

local given = {}

function M.set(options)
  for key in pairs(options or {}) do
    if defaults[key] == nil and key ~= "socket" and key ~= "host" then
      error(('haft: there is no option "%s"; :help haft-options lists the options'):format(key), 0)
    end
  end
  given = options or {}
end

--- Return the value of an option.
function M.get(name)
  if given[name] ~= nil then
    return given[name]
  end
  local global = vim.g.haft
  if type(global) == "table" and global[name] ~= nil then
    return global[name]
  end
  return defaults[name]
end

--- Return the daemon's address by the option or by $HAFT_HOST, or nil.
function M.address()
  local address = M.get("host") or vim.env.HAFT_HOST
  return address ~= "" and address or nil
end

--- Return the address of another machine's daemon, or nil for this machine's.
function M.host()
  local host = M.address()
  return host and not vim.startswith(host, "unix:") and host or nil
end

--- Return the folder in which handles start, or nil: a folder of this machine means nothing on another one.
function M.root(folder)
  return not M.host() and (folder or vim.fn.getcwd()) or nil
end

--- Return the command that joins its standard streams to the daemon; it starts none without `may_start`.
function M.connect_command(may_start)
  local command = M.get("connect")
  if not command or not M.host() then
    return command
  end
  command = vim.list_extend({ command[1], "--host", M.host() }, vim.list_slice(command, 2))
  return may_start and command or vim.list_extend(command, { "--no-start" })
end

return M
