--- The handles, questions and approvals of all sessions, kept up to date by the daemon's events.
local client = require("haft.client")
local terminal = require("haft.terminal")

local M = {
  handles = {}, -- handle states by `session/id`
  inquiries = {}, -- open questions by inquiry id
  approvals = {}, -- actions that await approval, by approval id
}

local EVENTS = { "state", "inquiries", "approvals" }
local subscription
local is_wanted = false
local changed_soon = false

local function key(state)
  return state.session .. "/" .. state.id
end

-- One `User HaftChanged` for all that came together.
local function changed()
  if changed_soon then
    return
  end
  changed_soon = true
  vim.defer_fn(function()
    changed_soon = false
    M.cached_count = nil
    client.emit("HaftChanged", { needs = M.count() })
    pcall(vim.cmd, "redrawstatus!")
  end, 20)
end

local function announce(name, item, text)
  client.emit(name, item)
  if require("haft.config").get("notify") then
    vim.notify("haft: " .. text, vim.log.levels.WARN)
  end
end

local function on_event(method, event)
  if method == "handle/state" then
    local before = M.handles[key(event)]
    M.handles[key(event)] = event
    if not before or before.state ~= event.state then
      client.emit("HaftState", event)
      if event.state == "stopped" then
        vim.schedule(function()
          pcall(vim.cmd, "checktime")
        end)
      end
    end
  elseif method == "handle/forgotten" then
    local known = M.handles[key(event)]
    if known and known.generation <= event.generation then
      M.handles[key(event)] = nil
    end
  elseif method == "inquiry/opened" then
    M.inquiries[event.inquiry_id] = event
    announce("HaftQuestion", event, ("%s asks: %s"):format(event.handle or event.session, event.question.text))
  elseif method == "inquiry/closed" then
    local open = M.inquiries[event.inquiry_id]
    if open and open.question.id == event.question then
      M.inquiries[event.inquiry_id] = nil
    end
  elseif method == "approval/opened" then
    M.approvals[event.approval_id] = event
    announce("HaftApproval", event, ("%s %s waits for approval"):format(event.tool, event.action))
  elseif method == "approval/closed" then
    M.approvals[event.approval_id] = nil
  end
  changed()
end

local function load()
  M.handles, M.inquiries, M.approvals = {}, {}, {}
  client.subscribe({ session = "*", events = EVENTS }, on_event, function(err, name)
    subscription = name
    client.report(err)
  end)
  client.request("handles/list", { session = "*" }, function(err, result)
    for _, state in ipairs(not err and result.handles or {}) do
      M.handles[key(state)] = M.handles[key(state)] or state
    end
    changed()
  end)
end

--- Keep the model, from now on and after each reconnect; `options.start` starts a daemon. `done(error)`.
function M.watch(options, done)
  local was_wanted = is_wanted
  is_wanted = true
  client.connect(options, function(err)
    if not err and not was_wanted and not subscription then
      load()
    end
    if done then
      done(err)
    end
  end)
end

client.on("open", function()
  if is_wanted then
    load()
  end
end)

client.on("close", function()
  subscription = nil
  M.handles, M.inquiries, M.approvals = {}, {}, {}
  changed()
end)

--- Return the input that a handle needs: answer, decision, secret, line, key or nothing.
function M.needs(state)
  if state.needs then
    return state.needs
  elseif state.state == "waiting" then
    return "answer"
  elseif state.input_wanted then
    return state.input_wanted.kind
  end
  return "nothing"
end

--- Return all that a person is needed for, the questions first: `{ kind, label, item }` each.
function M.needing()
  local items = {}
  for _, inquiry in pairs(M.inquiries) do
    local label = ("%s: %s"):format(inquiry.handle or inquiry.session, inquiry.question.text)
    table.insert(items, { kind = "question", order = 1, label = label, item = inquiry })
  end
  for _, approval in pairs(M.approvals) do
    local label = ("%s: %s %s"):format(approval.id, approval.action, approval.tool)
    table.insert(items, { kind = "approval", order = 2, label = label, item = approval })
  end
  for _, state in pairs(M.handles) do
    if M.needs(state) == "secret" then
      local label = ("%s: %s"):format(state.id, state.input_wanted and state.input_wanted.prompt or "a secret")
      table.insert(items, { kind = "secret", order = 3, label = label, item = state })
    end
  end
  table.sort(items, function(a, b)
    return a.order == b.order and a.label < b.label or a.order < b.order
  end)
  return items
end

--- Return how many questions, approvals and secrets wait for a person.
function M.count()
  M.cached_count = M.cached_count or #M.needing()
  return M.cached_count
end

--- Return the handle states, live handles first, by session and id.
function M.list()
  local states = vim.tbl_values(M.handles)
  table.sort(states, function(a, b)
    local a_stopped, b_stopped = a.state == "stopped", b.state == "stopped"
    if a_stopped ~= b_stopped then
      return b_stopped
    end
    return terminal.name(a.session, a.id) < terminal.name(b.session, b.id)
  end)
  return states
end

return M
