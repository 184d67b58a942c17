--- haft in Neovim: handles of the daemon as buffers, and the questions that wait for you. See `:help haft`.
local M = {}

--- Change options; without this call the defaults hold (`:help haft-options`).
function M.setup(options)
  require("haft.config").set(options)
end

--- Return a short text for the statusline, empty where nothing waits for you: no request is sent.
function M.statusline()
  if not package.loaded["haft.model"] then
    return ""
  end
  local count = require("haft.model").count()
  return count == 0 and "" or ("haft! %d"):format(count)
end

--- Follow all sessions, so that the statusline and the events are up to date. Starts no daemon.
function M.watch()
  require("haft.model").watch({ start = false })
end

--- Show a handle, by `id` or `session/id`, in the current window or where `command` puts it.
function M.attach(name, command)
  local terminal = require("haft.terminal")
  local session, id = terminal.parse(name)
  return terminal.open(session, id, command)
end

--- Type a line into a handle.
function M.send(name, line)
  local session, id = require("haft.terminal").parse(name)
  require("haft.send").input(session, id, { line = line })
end

--- Return the questions and approvals that wait for you: a list of `{ kind, label, item }`.
function M.needing()
  return require("haft.model").needing()
end

return M
