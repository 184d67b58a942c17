--- Send lines of a buffer, a selection, a motion or a file to a handle.
local client = require("haft.client")
local terminal = require("haft.terminal")

local M = {}

-- The handle that this editor sent to last, or that a `haft://` buffer in this tab page shows.
local last

local function visible()
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    local shown = terminal.of(vim.api.nvim_win_get_buf(window))
    if shown and not (shown.state and shown.state.state == "stopped") then
      return { shown.session, shown.id }
    end
  end
end

--- Return session and id for sending: of `name`, else of the buffer's `b:haft_target`, a visible handle, the last one.
function M.target(name)
  name = name or vim.b.haft_target
  if name and name ~= "" then
    return terminal.parse(name)
  end
  local target = visible() or last
  if target then
    return target[1], target[2]
  end
  return nil
end

--- Type `input` (a form of the protocol's input) into a handle.
function M.input(session, id, input, done)
  if not id then
    return vim.notify("haft: send to which handle? :Haft send ID, or show one in a window", vim.log.levels.ERROR)
  end
  last = { session, id }
  client.request("apply", { session = session, id = id, input = input, wait = "none", cursor = 0, max_bytes = 0 }, done)
end

--- Send the lines `first` to `last_line` of the current buffer as one input.
function M.lines(first, last_line, name)
  local lines = vim.api.nvim_buf_get_lines(0, first - 1, last_line, false)
  local session, id = M.target(name)
  M.input(session, id, { line = table.concat(lines, "\n") })
end

--- Send the text between the marks `[` and `]` (for an operator) or `<` and `>`.
function M.region(from, to, kind, name)
  local a, b = vim.api.nvim_buf_get_mark(0, from), vim.api.nvim_buf_get_mark(0, to)
  if kind == "line" or kind == "V" then
    return M.lines(a[1], b[1], name)
  end
  local lines = vim.api.nvim_buf_get_lines(0, a[1] - 1, b[1], false)
  if #lines == 0 then
    return
  end
  -- The last character may have several bytes.
  local tail = lines[#lines]
  local stop = vim.str_utfindex and b[2] < #tail and vim.fn.byteidx(tail, vim.fn.charidx(tail, b[2]) + 1) or #tail
  lines[#lines] = tail:sub(1, stop)
  lines[1] = lines[1]:sub(a[2] + 1)
  local session, id = M.target(name)
  M.input(session, id, { line = table.concat(lines, "\n") })
end

--- The function of 'operatorfunc': send the text of a motion.
function M.operator(kind)
  M.region("[", "]", kind)
end

--- Send the text of the file that the current buffer shows.
function M.file(name)
  M.lines(1, vim.api.nvim_buf_line_count(0), name)
end

--- Ask for a line, and send it to the handle of `shown`; a secret is asked for without showing it.
function M.prompt(shown)
  local state = shown.state or {}
  local wanted = state.input_wanted or {}
  if state.state == "waiting" then
    return require("haft.command").answer(shown.session, shown.id)
  elseif wanted.kind == "secret" then
    return M.secret(shown.session, shown.id, wanted.prompt)
  end
  vim.ui.input({ prompt = (wanted.prompt or (shown.id .. ">")) .. " " }, function(line)
    if line then
      M.input(shown.session, shown.id, { line = line })
    end
  end)
end

--- Ask for a secret and type it, which the daemon does only where it is not shown.
function M.secret(session, id, prompt)
  local ok, value = pcall(vim.fn.inputsecret, (prompt or "secret") .. " ")
  if ok and value ~= "" then
    M.input(session, id, { line = value, secret = true })
  end
end

return M
