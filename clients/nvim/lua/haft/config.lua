--- Options. Defaults hold without any call; `require("haft").setup{}` or `vim.g.haft` changes them.
local M = {}

local defaults = {
  -- The daemon's socket; by default found as `haft` finds it.
  socket = nil,
  -- A command that joins its standard streams to a daemon, which it starts where none answers.
  -- For another machine: { "ssh", "box", "haft", "connect" }, with `socket = false`.
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
    if defaults[key] == nil and key ~= "socket" then
      error(('haft: no option is called "%s"; :help haft-options lists them'):format(key), 0)
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

return M
