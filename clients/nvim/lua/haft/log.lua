--- Buffers `haft-log://session/id`: the kept output of a handle as plain text, to read, search and jump in.
local client = require("haft.client")

local M = {}

local READ_TIMEOUT_MS = 5000

function M.name(session, id)
  return ("haft-log://%s/%s"):format(session, id)
end

--- Fill the buffer (for BufReadCmd) before the command that opened it continues, so that a line can be jumped to.
function M.read(buffer)
  local session, id = vim.api.nvim_buf_get_name(buffer):match("^haft%-log://([^/]+)/([^/]+)$")
  vim.bo[buffer].buftype, vim.bo[buffer].swapfile = "nofile", false
  if not session then
    return vim.notify("haft: the name of a log must be haft-log://SESSION/ID", vim.log.levels.ERROR)
  end
  local err, state = client.request_sync("fetch", {
    session = session,
    id = id,
    view = "all",
    max_bytes = 16 * 1024 * 1024,
  }, READ_TIMEOUT_MS)
  if err then
    return client.report(err)
  end
  local text = state.output or state.content or state.result or ""
  local lines = vim.split((text:gsub("\n$", "")), "\n")
  for index, line in ipairs(lines) do
    lines[index] = line:gsub("\r", ""):gsub("%z", "")
  end
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable, vim.bo[buffer].modified = false, false
  vim.bo[buffer].filetype = "haft-log"
end

function M.open(session, id, command)
  vim.cmd((command or "edit") .. " " .. vim.fn.fnameescape(M.name(session, id)))
end

return M
