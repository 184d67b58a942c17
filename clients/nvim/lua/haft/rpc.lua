--- JSON-RPC over a stream: the daemon's Unix socket, or the standard streams of `haft connect`.
local uv = vim.uv or vim.loop

local M = {}

-- Messages are handled for this long before the editor gets its turn for keys and drawing.
local MAX_SLICE_MS = 5
-- Above this many bytes of unhandled messages reading stops, and the daemon keeps the rest.
local MAX_BUFFERED_BYTES = 256 * 1024

---@class haft.Connection
---@field on_notification fun(method: string, params: table, connection: haft.Connection)
---@field on_close fun(reason: string)
local Connection = {}
Connection.__index = Connection

local function new(on_notification, on_close)
  return setmetatable({
    on_notification = on_notification,
    on_close = on_close,
    pending = {}, -- reply callbacks by request id
    next_id = 0,
    pieces = {}, -- of a line that has no end yet
    lines = {}, -- whole lines, first .. last
    first = 1,
    last = 0,
    buffered = 0,
    scheduled = false,
    paused = false,
    held = false,
    closed = false,
  }, Connection)
end

--- Connect to a Unix socket; `done(nil, connection)` or `done(error)`, in the main loop.
function M.connect(path, on_notification, on_close, done)
  local self = new(on_notification, on_close)
  local pipe = uv.new_pipe(false)
  self.input, self.output = pipe, pipe
  pipe:connect(path, function(err)
    if err then
      pipe:close()
      return vim.schedule(function()
        done(path .. ": " .. err)
      end)
    end
    self:_start()
    vim.schedule(function()
      done(nil, self)
    end)
  end)
end

--- Start `command` and speak over its standard streams; it exits when the connection is closed.
function M.spawn(command, on_notification, on_close, done)
  local self = new(on_notification, on_close)
  local stdin, stdout, stderr = uv.new_pipe(false), uv.new_pipe(false), uv.new_pipe(false)
  self.input, self.output, self.errors = stdout, stdin, stderr
  local complaint = ""
  local process, err
  process, err = uv.spawn(command[1], {
    args = vim.list_slice(command, 2),
    stdio = { stdin, stdout, stderr },
    detached = true, -- a C-c that is typed at the editor's own terminal is not for it
  }, function()
    process:close()
    vim.schedule(function()
      self:_close(complaint ~= "" and vim.trim(complaint) or (command[1] .. " has ended"))
    end)
  end)
  if not process then
    for _, pipe in ipairs({ stdin, stdout, stderr }) do
      pipe:close()
    end
    return vim.schedule(function()
      done(command[1] .. ": " .. tostring(err))
    end)
  end
  stderr:read_start(function(_, data)
    if data and #complaint < 4096 then
      complaint = complaint .. data
    end
  end)
  self:_start()
  vim.schedule(function()
    done(nil, self)
  end)
end

--- Send a request; `done(error, result)` is called once, in the main loop.
function Connection:request(method, params, done)
  if self.closed then
    return vim.schedule(function()
      done({ code = 0, message = "the connection to haftd is closed" })
    end)
  end
  self.next_id = self.next_id + 1
  local id = self.next_id
  self.pending[id] = done
  self:_write({ jsonrpc = "2.0", id = id, method = method, params = params })
  return id
end

--- Ask the daemon to end a waiting request; its reply is an error.
function Connection:cancel(id)
  if self.pending[id] and not self.closed then
    self:_write({ jsonrpc = "2.0", method = "$/cancelRequest", params = { id = id } })
  end
end

function Connection:close()
  self:_close("closed by the editor")
end

function Connection:_write(message)
  self.output:write(vim.json.encode(message) .. "\n")
end

function Connection:_start()
  self.input:read_start(function(err, data)
    self:_on_read(err, data)
  end)
end

-- Called by libuv: no function of the editor may be called here.
function Connection:_on_read(err, data)
  if err or not data then
    return vim.schedule(function()
      self:_drain(true)
      -- `haft connect` says on its standard error why it ended; that is known when it has exited.
      if not self.errors then
        self:_close(err or "haftd closed the connection")
      end
    end)
  end
  local from = 1
  while true do
    local newline = data:find("\n", from, true)
    if not newline then
      break
    end
    self.pieces[#self.pieces + 1] = data:sub(from, newline - 1)
    self.last = self.last + 1
    self.lines[self.last] = table.concat(self.pieces)
    self.pieces = {}
    from = newline + 1
  end
  if from <= #data then
    self.pieces[#self.pieces + 1] = data:sub(from)
  end
  self.buffered = self.buffered + #data
  if self.buffered > MAX_BUFFERED_BYTES and not self.paused then
    self.paused = true
    self.input:read_stop()
  end
  self:_schedule()
end

function Connection:_schedule()
  if not self.scheduled and self.last >= self.first then
    self.scheduled = true
    vim.schedule(function()
      self:_drain(false)
    end)
  end
end

-- Handle whole lines for a slice of time, or all of them at the end of the stream.
function Connection:_drain(all)
  self.scheduled = false
  local deadline = uv.hrtime() + MAX_SLICE_MS * 1e6
  while self.first <= self.last and not self.closed and (all or not self.held) do
    local line = self.lines[self.first]
    self.lines[self.first] = nil
    self.first = self.first + 1
    self.buffered = self.buffered - #line - 1
    self:_handle(line)
    if not all and uv.hrtime() > deadline then
      break
    end
  end
  if self.closed then
    return
  end
  if self.paused and self.buffered < MAX_BUFFERED_BYTES / 2 then
    self.paused = false
    self:_start()
  end
  if self.first <= self.last and not self.held then
    -- A timer, not `vim.schedule`: keys that were typed meanwhile come first.
    self.scheduled = true
    vim.defer_fn(function()
      self:_drain(false)
    end, 1)
  end
end

--- Handle no messages until `hold(false)`; the daemon keeps the messages that do not fit.
function Connection:hold(held)
  if self.held ~= held then
    self.held = held
    if not held then
      self:_schedule()
    end
  end
end

function Connection:_handle(line)
  local ok, message = pcall(vim.json.decode, line, { luanil = { object = true } })
  if not ok or type(message) ~= "table" then
    return self:_close("haftd sent a line that is not a JSON object")
  end
  if message.method and message.id ~= nil then
    self:_write({
      jsonrpc = "2.0",
      id = message.id,
      error = { code = -32601, message = "this client serves no requests" },
    })
  elseif message.method then
    M.guard(self.on_notification, message.method, message.params or {}, self)
  else
    local done = self.pending[message.id]
    self.pending[message.id] = nil
    if done then
      M.guard(done, message.error, message.result)
    end
  end
end

function Connection:_close(reason)
  if self.closed then
    return
  end
  self.closed = true
  for _, stream in ipairs({ self.input, self.output, self.errors }) do
    if not stream:is_closing() then
      stream:close()
    end
  end
  local pending = self.pending
  self.pending, self.lines, self.pieces = {}, {}, {}
  for _, done in pairs(pending) do
    M.guard(done, { code = 0, message = "the connection to haftd was lost: " .. reason })
  end
  M.guard(self.on_close, reason)
end

--- Call `callback`, and report its error without ending the connection.
function M.guard(callback, ...)
  local ok, err = xpcall(callback, debug.traceback, ...)
  if not ok then
    vim.notify("haft: " .. err, vim.log.levels.ERROR)
  end
end

return M
