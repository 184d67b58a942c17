--- `:Haft SUBCOMMAND …`, and the completion of its words.
local ask = require("haft.ask")
local client = require("haft.client")
local config = require("haft.config")
local model = require("haft.model")
local send = require("haft.send")
local terminal = require("haft.terminal")

local M = {}

local COMPLETION_TIMEOUT_MS = 500

local function fail(text)
  vim.notify("haft: " .. text, vim.log.levels.ERROR)
end

-- The `split`, `vertical` or `tab` in front of the command decides where a handle is shown.
local function placement(options)
  local mods = options.smods or {}
  local text = options.mods or ""
  if mods.tab and mods.tab >= 0 or text:find("tab") then
    return "tabedit"
  elseif text ~= "" and text ~= "silent" then
    return text .. " split"
  end
  return options.bang and "split" or "edit"
end

-- The handle that an argument names, else the one that the current buffer shows.
local function handle_of(word)
  if word then
    return terminal.parse(word)
  end
  local shown = terminal.of()
  if shown then
    return shown.session, shown.id
  end
end

local function with_handle(word, action)
  local session, id = handle_of(word)
  if not id then
    return fail("which handle? Give its id, or run the command in its buffer")
  end
  action(session, id)
end

local function open_inquiry(session, id)
  for _, inquiry in pairs(model.inquiries) do
    if inquiry.session == session and inquiry.handle == id then
      return inquiry
    end
  end
end

--- Answer the question of a handle, or choose among all that waits.
function M.answer(session, id)
  model.watch({ start = false }, function(err)
    if err then
      return fail(err)
    end
    if not id then
      return ask.pick()
    end
    client.request("inquiries/list", { session = session }, function(failure, result)
      if failure then
        return client.report(failure)
      end
      for _, inquiry in ipairs(result.inquiries) do
        if inquiry.handle == id or inquiry.inquiry_id == id then
          return ask.question(inquiry)
        end
      end
      local inquiry = open_inquiry(session, id)
      if inquiry then
        return ask.question(inquiry)
      end
      vim.notify(("haft: %s asks nothing"):format(id))
    end)
  end)
end

local function approve(word)
  client.request("approvals/list", { session = "*" }, function(err, result)
    if err then
      return client.report(err)
    end
    local found = {}
    for _, approval in ipairs(result.approvals) do
      if not word or approval.approval_id == word or approval.id == word then
        table.insert(found, approval)
      end
    end
    if #found == 0 then
      vim.notify("haft: nothing waits for approval")
    elseif #found == 1 then
      ask.approval(found[1])
    else
      vim.ui.select(found, {
        prompt = "Approve",
        kind = "haft_approval",
        format_item = function(approval)
          return ("%s: %s %s"):format(approval.id, approval.action, approval.tool)
        end,
      }, function(approval)
        if approval then
          ask.approval(approval)
        end
      end)
    end
  end)
end

local function unused_id(base)
  local taken = {}
  local err, result = client.request_sync("handles/list", { session = config.get("session") }, 2000)
  for _, state in ipairs(not err and result.handles or {}) do
    taken[state.id] = true
  end
  local number = 1
  while taken[base .. "-" .. number] do
    number = number + 1
  end
  return base .. "-" .. number
end

local function spawn(params, command)
  client.request("spawn", vim.tbl_extend("keep", params, {
    session = config.get("session"),
    root = config.root(),
    wait = "none",
    cursor = 0, -- reads nothing for the session
    max_bytes = 0,
  }), function(err, state)
    if err then
      return client.report(err)
    end
    terminal.open(state.session, state.id, command)
  end)
end

local subcommands = {}

subcommands.list = {
  run = function(_, options)
    require("haft.list").open(placement(options))
  end,
}

subcommands.attach = {
  complete = "handle",
  run = function(words, options)
    if not words[1] then
      return M.pick_handle(placement(options))
    end
    local session, id = terminal.parse(words[1])
    terminal.open(session, id, placement(options))
  end,
}

subcommands.shell = {
  run = function(words, options)
    local id = words[1] or unused_id("shell")
    spawn({ tool = "shell", id = id, args = vim.empty_dict() }, placement(options))
  end,
}

subcommands.run = {
  complete = "command",
  run = function(words, options, line)
    local command = line:match("^%s*%S+%s+(.*)$")
    if not command then
      return fail(":Haft run COMMAND…")
    end
    local argv = { vim.o.shell ~= "" and vim.o.shell or "sh", "-c", command }
    local id = unused_id(vim.fn.fnamemodify(words[1], ":t"):gsub("[^%w_.:-]", "") or "run")
    spawn({ tool = "run", id = id, args = { argv = argv, terminal = true } }, placement(options))
  end,
}

subcommands.spawn = {
  complete = "tool",
  run = function(words, options, line)
    local tool, id = words[1], words[2]
    if not tool or not id then
      return fail(":Haft spawn TOOL ID [JSON object of arguments]")
    end
    local text = line:match("^%s*%S+%s+%S+%s+%S+%s+(.*)$")
    local ok, args = true, vim.empty_dict()
    if text then
      ok, args = pcall(vim.json.decode, text)
    end
    if not ok or type(args) ~= "table" then
      return fail("the arguments are not a JSON object: " .. text)
    end
    spawn({ tool = tool, id = id, args = next(args) and args or vim.empty_dict() }, placement(options))
  end,
}

subcommands.send = {
  complete = "handle",
  range = true,
  run = function(words, options, line)
    local text = line:match("^%s*%S+%s+%S+%s+(.*)$")
    if options.range > 0 then
      send.lines(options.line1, options.line2, words[1])
    elseif text then
      local session, id = terminal.parse(words[1])
      send.input(session, id, { line = text })
    else
      local at = vim.api.nvim_win_get_cursor(0)[1]
      send.lines(at, at, words[1])
    end
  end,
}

subcommands.file = {
  complete = "handle",
  run = function(words)
    send.file(words[1])
  end,
}

subcommands.secret = {
  complete = "handle",
  run = function(words)
    with_handle(words[1], function(session, id)
      send.secret(session, id)
    end)
  end,
}

subcommands.signal = {
  complete = "handle",
  run = function(words)
    if not words[2] then
      return fail(":Haft signal ID NAME, as in :Haft signal build INT")
    end
    local session, id = terminal.parse(words[1])
    send.input(session, id, { signal = (words[2]:upper():gsub("^SIG", "")) })
  end,
}

subcommands.abort = {
  complete = "handle",
  run = function(words)
    with_handle(words[1], function(session, id)
      client.request("abort", { session = session, id = id }, function(err)
        client.report(err)
      end)
    end)
  end,
}

subcommands.logs = {
  complete = "handle",
  run = function(words, options)
    with_handle(words[1], function(session, id)
      require("haft.log").open(session, id, placement(options))
    end)
  end,
}

subcommands.search = {
  run = function(_, _, line)
    local pattern = line:match("^%s*%S+%s+(.*)$")
    if not pattern then
      return fail(":Haft search PATTERN, an RE2 regular expression")
    end
    require("haft.search").search(pattern)
  end,
}

subcommands.answer = {
  complete = "handle",
  run = function(words)
    local session, id
    if words[1] then
      session, id = terminal.parse(words[1])
    else
      session, id = handle_of(nil)
    end
    M.answer(session, id)
  end,
}

subcommands.approve = {
  run = function(words)
    approve(words[1])
  end,
}

subcommands.next = {
  run = function()
    ask.next(1)
  end,
}

subcommands.previous = {
  run = function()
    ask.next(-1)
  end,
}

subcommands.fit = {
  run = function()
    terminal.fit()
  end,
}

subcommands.watch = {
  run = function()
    model.watch({ start = true }, function(err)
      if err then
        fail(err)
      end
    end)
  end,
}

subcommands.disconnect = {
  run = function()
    client.disconnect()
  end,
}

--- Choose a live handle of any session, and show it.
function M.pick_handle(command)
  client.request("handles/list", { session = "*" }, function(err, result)
    if err then
      return client.report(err)
    end
    if #result.handles == 0 then
      return vim.notify("haft: no handle; :Haft shell starts one")
    end
    vim.ui.select(result.handles, {
      prompt = "Attach",
      kind = "haft_handle",
      format_item = function(state)
        return ("%s/%s  %s  %s"):format(state.session, state.id, state.tool, state.state)
      end,
    }, function(state)
      if state then
        terminal.open(state.session, state.id, command)
      end
    end)
  end)
end

--- Run `:Haft …`; `options` is the table of a user command's callback.
function M.run(options)
  local words = vim.list_slice(options.fargs, 2)
  local name = options.fargs[1] or "list"
  local subcommand = subcommands[name]
  if not subcommand then
    return fail(('":Haft %s" is unknown; it is one of: %s'):format(name, table.concat(M.names(), ", ")))
  end
  if options.range > 0 and not subcommand.range then
    return fail((":Haft %s does not accept a range"):format(name))
  end
  subcommand.run(words, options, options.args)
end

function M.names()
  local names = vim.tbl_keys(subcommands)
  table.sort(names)
  return names
end

local function handle_names()
  local err, result = client.request_sync("handles/list", { session = "*" }, COMPLETION_TIMEOUT_MS, { start = false })
  local names = {}
  for _, state in ipairs(not err and result.handles or {}) do
    local name = state.session == config.get("session") and state.id or (state.session .. "/" .. state.id)
    table.insert(names, name)
  end
  return names
end

local function tool_names()
  local err, result = client.request_sync("tools/list", { root = config.root() }, COMPLETION_TIMEOUT_MS, { start = false })
  local names = {}
  for _, tool in ipairs(not err and result.tools or {}) do
    table.insert(names, tool.tool or tool.name)
  end
  return names
end

--- Complete a word of `:Haft …`; no daemon is started for it.
function M.complete(lead, line)
  local words = vim.split(line:match("Haft!?%s+(.*)$") or "", "%s+")
  local choices = {}
  if #words <= 1 then
    choices = M.names()
  else
    local kind = (subcommands[words[1]] or {}).complete
    if kind == "handle" and #words == 2 then
      choices = handle_names()
    elseif kind == "tool" and #words == 2 then
      choices = tool_names()
    elseif kind == "command" then
      return vim.fn.getcompletion(lead, #words == 2 and "shellcmd" or "file")
    end
  end
  return vim.tbl_filter(function(choice)
    return vim.startswith(choice, lead)
  end, choices)
end

return M
