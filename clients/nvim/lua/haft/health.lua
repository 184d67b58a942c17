--- `:checkhealth haft`
local client = require("haft.client")
local config = require("haft.config")
local socket = require("haft.socket")

local M = {}

local health = vim.health or require("health") -- the second before 0.8
local start = health.start or health.report_start
local ok = health.ok or health.report_ok
local warn = health.warn or health.report_warn
local report_error = health.error or health.report_error

function M.check()
  start("haft")
  local version = vim.version()
  ok(("Neovim %d.%d.%d"):format(version.major, version.minor, version.patch))
  if vim.fn.has("nvim-0.10") == 0 then
    warn("Neovim 0.10 and newer draw lines of a pipe and of reflowed windows better; this version works")
  end
  local command = config.connect_command(true)
  if command and vim.fn.executable(command[1]) == 1 then
    ok(("`%s` is found; it starts a daemon where none answers"):format(table.concat(command, " ")))
  else
    warn("`haft` is not on the PATH: a daemon that runs is used, none is started", { "uv tool install haftd" })
  end
  if config.host() then
    ok("the daemon is that of " .. config.host())
  end
  local paths = socket.candidates(config.get("socket"))
  for _, path in ipairs(paths) do
    local stat = (vim.uv or vim.loop).fs_stat(path)
    if stat then
      ok("socket " .. path)
    else
      warn("no socket at " .. path)
    end
  end
  local begin = (vim.uv or vim.loop).hrtime()
  local err = client.request_sync("ping", {}, 3000, { start = false })
  if err then
    return report_error("no daemon answers: " .. err.message, { ":Haft shell starts one", "`haft doctor` looks for the cause" })
  end
  local took = ((vim.uv or vim.loop).hrtime() - begin) / 1e6
  local server = client.server
  ok(("%s %s answers (pid %d, protocol %d, %.1f ms)"):format(server.server.name, server.server.version, server.pid, server.protocol, took))
  local failure, result = client.request_sync("handles/list", { session = "*" }, 3000, { start = false })
  if failure then
    return report_error(failure.message)
  end
  local live = 0
  for _, state in ipairs(result.handles) do
    live = live + (state.state == "stopped" and 0 or 1)
  end
  ok(("%d live handles of %d"):format(live, #result.handles))
end

return M
