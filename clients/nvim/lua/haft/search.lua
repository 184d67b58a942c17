--- Search the output of all handles of a session; the matches fill the quickfix list.
local client = require("haft.client")
local config = require("haft.config")
local log = require("haft.log")

local M = {}

--- Search for an RE2 `pattern` in the handles `ids`, in all of the session by default.
function M.search(pattern, ids, session)
  session = session or config.get("session")
  client.request("output/search", {
    session = session,
    pattern = pattern,
    ids = ids and #ids > 0 and ids or nil,
  }, function(err, result)
    if err then
      return client.report(err)
    end
    local items = {}
    for _, match in ipairs(result.matches) do
      table.insert(items, {
        filename = log.name(session, match.id),
        pattern = "\\V\\^" .. vim.fn.escape(match.line, "\\"),
        text = match.line,
      })
    end
    vim.fn.setqflist({}, " ", { title = "haft search " .. pattern, items = items })
    if #items == 0 then
      vim.notify("haft: no line matches " .. pattern)
    else
      vim.cmd("botright copen")
    end
  end)
end

return M
