--- The buffer `haft://`: all handles, and the questions that wait for you.
local client = require("haft.client")
local model = require("haft.model")
local terminal = require("haft.terminal")

local M = {}

local NAME = "haft://"
local MARKS = { answer = "?", decision = "!", secret = "*", line = ">", key = ">", nothing = " " }
local by_line = {}

local function age(state)
  local seconds = (state.elapsed_ms or 0) / 1000
  if seconds < 60 then
    return ("%.0f s"):format(seconds)
  elseif seconds < 3600 then
    return ("%.0f min"):format(seconds / 60)
  end
  return ("%.0f h"):format(seconds / 3600)
end

local function word(state)
  if state.state == "stopped" then
    return terminal.ending(state)
  elseif state.suspended then
    return "suspended"
  end
  local need = model.needs(state)
  return need == "nothing" and state.state or "waiting for " .. (need == "answer" and "an answer" or need)
end

-- The lines of the buffer, and the handle or the need on each.
local function render()
  local lines, items = {}, {}
  local function add(text, item)
    table.insert(lines, text)
    items[#lines] = item
  end
  local needing = model.needing()
  if #needing > 0 then
    add("Waiting for you")
    for _, need in ipairs(needing) do
      add(("  %-8s  %s"):format(need.kind, need.label:gsub("\n", " ")), { need = need })
    end
    add("")
  end
  add("Handles")
  for _, state in ipairs(model.list()) do
    local mark = MARKS[model.needs(state)] or " "
    local text = ("%s %-24s  %-16s  %-6s  %s"):format(mark, state.session .. "/" .. state.id, state.tool, age(state), word(state))
    add(text, { state = state })
  end
  if #lines == 1 then
    add("  none; :Haft spawn NAME COMMAND starts one")
  end
  return lines, items
end

local function redraw(buffer)
  local lines, items = render()
  by_line[buffer] = items
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
end

local function under_cursor(buffer)
  return (by_line[buffer] or {})[vim.api.nvim_win_get_cursor(0)[1]]
end

local function map(buffer, key, description, action)
  vim.keymap.set("n", key, function()
    local item = under_cursor(buffer)
    if item then
      action(item)
    end
  end, { buffer = buffer, nowait = true, desc = "haft: " .. description })
end

local function open(item, command)
  if item.need then
    require("haft.ask").attend(item.need)
  else
    terminal.open(item.state.session, item.state.id, command)
  end
end

--- Fill the buffer (for BufReadCmd), and keep it up to date.
function M.read(buffer)
  vim.bo[buffer].buftype, vim.bo[buffer].swapfile, vim.bo[buffer].bufhidden = "nofile", false, "hide"
  vim.bo[buffer].filetype = "haft-list"
  map(buffer, "<CR>", "show it", open)
  map(buffer, "s", "show it in a split", function(item)
    open(item, "split")
  end)
  map(buffer, "v", "show it in a vertical split", function(item)
    open(item, "vsplit")
  end)
  map(buffer, "X", "end it", function(item)
    if item.state and vim.fn.confirm("End " .. item.state.id .. "?", "&Yes\n&No", 2) == 1 then
      client.request("abort", { session = item.state.session, id = item.state.id })
    end
  end)
  map(buffer, "a", "answer or approve", function(item)
    if item.need then
      require("haft.ask").attend(item.need)
    end
  end)
  local group = vim.api.nvim_create_augroup("haft_list_" .. buffer, {})
  vim.api.nvim_create_autocmd("User", {
    group = group,
    pattern = "HaftChanged",
    callback = function()
      if not vim.api.nvim_buf_is_valid(buffer) then
        return true
      end
      redraw(buffer)
    end,
  })
  vim.api.nvim_create_autocmd("BufWipeout", {
    group = group,
    buffer = buffer,
    callback = function()
      by_line[buffer] = nil
      vim.api.nvim_del_augroup_by_id(group)
    end,
  })
  redraw(buffer)
  model.watch({ start = true }, function(err)
    if err then
      vim.notify("haft: " .. err, vim.log.levels.ERROR)
    end
  end)
end

function M.open(command)
  vim.cmd((command or "edit") .. " " .. NAME)
end

return M
