--- The editor's connection to the daemon: connect, start the daemon, connect again. Handles' output comes by a
--- second connection, the feed, so that a handle that prints much delays no reply.
local config = require("haft.config")
local drawing = require("haft.drawing")
local rpc = require("haft.rpc")
local socket = require("haft.socket")

local M = {
  state = "closed", ---@type "closed"|"connecting"|"open"
  server = nil, -- the result of `initialize` while open
}

local FIRST_RETRY_MS, MAX_RETRY_MS = 100, 5000

local connection
local feed -- the connection for output
local open_another -- opens one more connection to the same daemon
local waiting = {} -- callbacks for the end of the present attempt to connect
local subscribers = {} -- notification callbacks by subscription
local early = {} -- notifications that came before the reply that names their subscription
local listeners = { open = {}, close = {} }
local retry_ms = FIRST_RETRY_MS
local wanted = false -- connect again when the connection is lost

--- Run an autocommand `User <name>`; `data` reaches it on Neovim 0.8 and newer.
function M.emit(name, data)
  local options = { pattern = name, modeline = false, data = data }
  if not pcall(vim.api.nvim_exec_autocmds, "User", options) then
    options.data = nil
    pcall(vim.api.nvim_exec_autocmds, "User", options)
  end
end

--- Call `callback` after each connect ("open") or loss of the connection ("close").
function M.on(event, callback)
  table.insert(listeners[event], callback)
end

local function key_of(via, subscription)
  return (via == feed and "feed " or "") .. subscription
end

local function on_notification(method, params, via)
  local name = params.subscription and key_of(via, params.subscription)
  if name and subscribers[name] then
    subscribers[name](method, params)
  elseif name then
    early[name] = early[name] or {}
    table.insert(early[name], { method, params })
  end
end

local function settle(err)
  local callbacks = waiting
  waiting = {}
  for _, callback in ipairs(callbacks) do
    rpc.guard(callback, err)
  end
end

local reconnect

local function on_close(reason)
  local was_open = M.state == "open"
  M.state, M.server, connection = "closed", nil, nil
  if feed then
    feed:close()
    feed = nil
  end
  subscribers, early = {}, {}
  if was_open then
    for _, callback in ipairs(listeners.close) do
      rpc.guard(callback, reason)
    end
    M.emit("HaftDisconnected", { reason = reason })
    if wanted then
      reconnect()
    end
  end
end

local function on_open(opened)
  connection = opened
  local params = { client = { name = "nvim", version = M.version }, protocol = 1 }
  connection:request("initialize", params, function(err, result)
    if err then
      M.state = "closed"
      connection:close()
      return settle("haftd refused this client: " .. err.message)
    end
    M.state, M.server, retry_ms, wanted = "open", result, FIRST_RETRY_MS, true
    settle(nil)
    for _, callback in ipairs(listeners.open) do
      rpc.guard(callback)
    end
    M.emit("HaftConnected", { pid = result.pid })
  end)
end

drawing.on_pressure(function()
  if feed then
    feed:hold(true)
  end
end, function()
  if feed then
    feed:hold(false)
  end
end)

-- Open the feed; its loss is the loss of the connection.
local function with_feed(done)
  if feed then
    return done(nil, feed)
  end
  open_another(on_notification, function()
    feed = nil
    M.drop()
  end, function(err, opened)
    if err then
      return done({ code = 0, message = err })
    end
    if feed then -- another one was faster
      opened.on_close = function() end
      opened:close()
      return done(nil, feed)
    end
    feed = opened
    local params = { client = { name = "nvim", version = M.version }, protocol = 1 }
    feed:request("initialize", params, function(failure)
      done(failure, feed)
    end)
  end)
end

-- Try each path, then the command that starts a daemon where that is allowed.
local function attempt(paths, may_start, complaint)
  local path = table.remove(paths, 1)
  if path then
    return rpc.connect(path, on_notification, on_close, function(err, opened)
      if opened then
        open_another = function(...)
          rpc.connect(path, ...)
        end
        return on_open(opened)
      end
      attempt(paths, may_start, complaint or err)
    end)
  end
  local command = config.connect_command(may_start)
  if command and (may_start or config.get("socket") == false or config.host()) then
    if vim.fn.executable(command[1]) == 0 then
      M.state = "closed"
      return settle(("no haftd answers, and `%s` is not found to start one; :checkhealth haft"):format(command[1]))
    end
    open_another = function(...)
      rpc.spawn(command, ...)
    end
    return rpc.spawn(command, on_notification, function(reason)
      if M.state ~= "open" then
        M.state = "closed"
        settle(reason)
      end
      on_close(reason)
    end, function(err, opened)
      if opened then
        return on_open(opened)
      end
      M.state = "closed"
      settle(err)
    end)
  end
  M.state = "closed"
  settle("no haftd answers: " .. (complaint or "no socket is known"))
end

--- Connect; a daemon is started where none answers and `options.start` is not false. `done(error)`.
function M.connect(options, done)
  if M.state == "open" then
    return done(nil)
  end
  table.insert(waiting, done)
  if M.state == "connecting" then
    return
  end
  M.state = "connecting"
  attempt(socket.candidates(config.get("socket")), not options or options.start ~= false)
end

reconnect = function()
  vim.defer_fn(function()
    if M.state ~= "closed" or not wanted then
      return
    end
    M.connect({ start = false }, function(err)
      if err then
        retry_ms = math.min(retry_ms * 2, MAX_RETRY_MS)
        reconnect()
      end
    end)
  end, retry_ms)
end

--- Close the connection, and do not connect again until a command needs the daemon. Handles keep running.
function M.disconnect()
  wanted = false
  if connection then
    connection:close()
  end
end

--- Lose the connection as a failure would: it is made again.
function M.drop()
  if connection then
    connection:close()
  end
end

--- Send a request once connected; `done(error, result)`, where an error has a `message`.
function M.request(method, params, done, options)
  done = done or M.report
  if next(params) == nil then
    params = vim.empty_dict()
  end
  if M.state == "open" then
    return connection:request(method, params, done)
  end
  M.connect(options, function(err)
    if err then
      return done({ code = 0, message = err })
    end
    connection:request(method, params, done)
  end)
end

--- Wait for the reply to a request, `timeout_ms` at most: for completion and for scripts.
function M.request_sync(method, params, timeout_ms, options)
  local answer
  M.request(method, params, function(err, result)
    answer = { err, result }
  end, options)
  if not vim.wait(timeout_ms, function()
    return answer ~= nil
  end, 5) then
    return { code = 0, message = ("haftd did not answer %s within %d ms"):format(method, timeout_ms) }
  end
  return answer[1], answer[2]
end

-- Subscriptions of the two connections have the same names.
local function subscribe_by(via, params, on_event, done)
  via:request("subscribe", params, function(err, result)
    if err then
      return done(err)
    end
    local name = key_of(via, result.subscription)
    subscribers[name] = on_event
    local missed = early[name] or {}
    early[name] = nil
    done(nil, name)
    for _, event in ipairs(missed) do
      on_event(event[1], event[2])
    end
  end)
end

--- Subscribe; `on_event(method, params)` is called until the connection ends or `unsubscribe`. `done(error, name)`.
function M.subscribe(params, on_event, done)
  M.connect({ start = false }, function(err)
    if err then
      return done({ code = 0, message = err })
    end
    subscribe_by(connection, params, on_event, done)
  end)
end

--- Subscribe as `subscribe` does, by the connection for output.
function M.subscribe_to_output(params, on_event, done)
  M.connect({ start = false }, function(err)
    if err then
      return done({ code = 0, message = err })
    end
    with_feed(function(failure, via)
      if failure then
        return done(failure)
      end
      subscribe_by(via, params, on_event, done)
    end)
  end)
end

function M.unsubscribe(name)
  if name and subscribers[name] then
    subscribers[name] = nil
    local by_feed = vim.startswith(name, "feed ")
    local via = by_feed and feed or connection
    if via then
      via:request("unsubscribe", { subscription = (name:gsub("^feed ", "")) }, function()
        early[name] = nil
      end)
    end
  end
end

--- Show the error of a request in one line.
function M.report(err)
  if err then
    vim.notify("haft: " .. err.message, vim.log.levels.ERROR)
  end
end

M.version = "0.1.0"

return M
