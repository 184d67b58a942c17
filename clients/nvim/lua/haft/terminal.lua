--- Buffers `haft://session/id`: live terminals of handles, which outlive the connection and the editor.
local base64 = require("haft.base64")
local client = require("haft.client")
local config = require("haft.config")
local drawing = require("haft.drawing")

local M = {}

---@class haft.Terminal
---@field buffer integer
---@field session string
---@field id string
---@field channel integer|nil    the emulator that draws the buffer
---@field cursor integer|nil     the output's offset up to which the buffer shows it
---@field generation integer|nil of the handle that is shown
---@field state table|nil        the last handle state
---@field subscription string|nil
local terminals = {} -- by buffer

local namespace = vim.api.nvim_create_namespace("haft")

function M.name(session, id)
  return ("haft://%s/%s"):format(session, id)
end

--- Return session and id of a buffer's name or of an argument `id` or `session/id`.
function M.parse(name)
  local session, id = name:gsub("^haft://", ""):match("^([^/]+)/([^/]+)$")
  if session then
    return session, id
  end
  return config.get("session"), name
end

--- Return the terminal of a buffer, of the current one by default.
function M.of(buffer)
  return terminals[buffer or vim.api.nvim_get_current_buf()]
end

local function mark(buffer, text)
  vim.api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  if text then
    local last = math.max(vim.api.nvim_buf_line_count(buffer) - 1, 0)
    pcall(vim.api.nvim_buf_set_extmark, buffer, namespace, last, 0, {
      virt_text = { { "[" .. text .. "]", "Comment" } },
    })
  end
end

local function note(terminal, text)
  if vim.api.nvim_buf_is_valid(terminal.buffer) then
    vim.b[terminal.buffer].haft_note = text or ""
    mark(terminal.buffer, text)
  end
end

local function is_stopped(terminal)
  return terminal.state ~= nil and terminal.state.state == "stopped"
end

--- Describe how a handle ended: `exited with status 1`.
function M.ending(state)
  local exit = state.exit
  if exit and exit.signal then
    return "killed by SIG" .. exit.signal
  elseif exit and exit.code then
    return "exited with status " .. exit.code
  end
  return "ended by " .. ((state.ended_by or {}).by or "exit")
end

local function apply(terminal, input, done)
  client.request("apply", {
    session = terminal.session,
    id = terminal.id,
    input = input,
    wait = "none",
    cursor = 0,
    max_bytes = 0,
  }, done, { start = false })
end

-- The largest window that shows the buffer is the size of Neovim's own emulator.
local function window_size(buffer)
  local rows, cols = 0, 0
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    rows = math.max(rows, vim.api.nvim_win_get_height(window))
    local info = vim.fn.getwininfo(window)[1]
    cols = math.max(cols, info.width - (info.textoff or 0))
  end
  return rows, cols
end

--- Give the handle the size of the window: when the buffer is entered or typed in, never on a mere attach.
function M.fit(buffer)
  local terminal = M.of(buffer)
  if not terminal or is_stopped(terminal) or not terminal.is_terminal then
    return
  end
  local rows, cols = window_size(terminal.buffer)
  if rows > 0 and cols > 0 and (rows ~= terminal.rows or cols ~= terminal.cols) then
    terminal.rows, terminal.cols = rows, cols
    apply(terminal, { resize = { rows = rows, cols = cols } }, function() end)
  end
end

local function on_input(terminal, bytes)
  if is_stopped(terminal) then
    return note(terminal, M.ending(terminal.state))
  end
  if terminal.state and terminal.state.state == "waiting" then
    return vim.notify(("haft: %s asks a question; :Haft answer %s"):format(terminal.id, terminal.id))
  end
  if client.state ~= "open" then
    return vim.notify("haft: not connected; the key was not sent", vim.log.levels.WARN)
  end
  M.fit(terminal.buffer)
  apply(terminal, { text = bytes }, client.report)
end

local function send(terminal, bytes)
  if #bytes == 0 or not terminal.channel then
    return
  end
  if not terminal.is_terminal then
    bytes = bytes:gsub("\r?\n", "\r\n")
  end
  drawing.write(terminal.channel, bytes)
end

local function open_channel(terminal)
  if not terminal.channel then
    terminal.channel = vim.api.nvim_open_term(terminal.buffer, {
      on_input = function(_, _, _, bytes)
        vim.schedule(function()
          on_input(terminal, bytes)
        end)
      end,
    })
  end
end

local follow

-- The code for params that do not fit: the view of a screen does not, where the handle has no terminal.
local INVALID_PARAMS = -32602
local CLEAR = "\27c\27[3J"

-- Draw a terminal's present screen, and follow it from there.
local function paint(terminal)
  client.request("fetch", {
    session = terminal.session,
    id = terminal.id,
    view = "paint",
    ["for"] = "terminal",
    clipboard = config.get("clipboard") or nil,
  }, function(err, state)
    if err then
      return note(terminal, err.message)
    end
    terminal.generation, terminal.cursor = state.generation, state.cursor
    send(terminal, CLEAR .. base64.decode(state.content or ""))
    follow(terminal)
  end, { start = false })
end

-- Draw from nothing: all output where there is little of it, which fills the scrollback; else the present screen.
local function draw(terminal, state)
  local is_long = state.cursor > config.get("history_bytes")
  if state.screen and (is_long or state.screen.alt) then
    return paint(terminal)
  end
  send(terminal, CLEAR)
  terminal.cursor = is_long and state.cursor - config.get("history_bytes") or 0
  follow(terminal)
end

local function on_event(terminal, method, event)
  if not vim.api.nvim_buf_is_valid(terminal.buffer) then
    return
  end
  if method == "handle/state" then
    local before = terminal.state
    terminal.state = event
    if event.generation ~= terminal.generation then
      terminal.generation = event.generation
      if before then
        send(terminal, CLEAR)
      end
    end
    if event.state == "stopped" then
      note(terminal, M.ending(event))
    elseif event.suspended then
      note(terminal, "suspended; :Haft signal " .. terminal.id .. " CONT")
    elseif event.state == "waiting" then
      note(terminal, "asks: " .. event.question.text)
    else
      note(terminal, nil)
    end
  elseif method == "handle/bytes" then
    if event.generation ~= terminal.generation then
      terminal.generation = event.generation
      send(terminal, CLEAR)
    elseif (event.omitted or 0) > 0 and terminal.is_terminal then
      -- The missing output moved the cursor and the colours: only a new drawing is right.
      client.unsubscribe(terminal.subscription)
      terminal.subscription = nil
      return paint(terminal)
    end
    send(terminal, base64.decode(event.data))
    terminal.cursor = event.cursor
  end
end

follow = function(terminal)
  client.subscribe_to_output({
    session = terminal.session,
    handles = { terminal.id },
    events = { "state", "bytes" },
    from = { [terminal.id] = terminal.cursor },
    ["for"] = "terminal",
    clipboard = config.get("clipboard") or nil,
  }, function(method, event)
    on_event(terminal, method, event)
  end, function(err, subscription)
    if err and err.code == INVALID_PARAMS then
      return M.show(terminal) -- the id is used anew, by a handle that has printed less
    elseif err then
      return note(terminal, err.message)
    end
    terminal.subscription = subscription
  end)
end

-- A handle on a pipe takes lines: keys that begin to insert ask for one.
local function map_line_keys(buffer)
  for _, key in ipairs({ "i", "I", "a", "A", "o", "O" }) do
    vim.keymap.set("n", key, function()
      require("haft.send").prompt(M.of(buffer))
    end, { buffer = buffer, desc = "haft: type a line" })
  end
end

--- Draw the handle in its buffer from nothing, and follow it.
function M.show(terminal)
  terminal.cursor, terminal.generation, terminal.state = nil, nil, nil
  local params = { session = terminal.session, id = terminal.id, view = "screen", max_bytes = 0 }
  local function on_state(err, state)
    if not vim.api.nvim_buf_is_valid(terminal.buffer) then
      return
    end
    if err and err.code == INVALID_PARAMS and params.view == "screen" then
      params.view = "raw"
      return client.request("fetch", params, on_state)
    end
    mark(terminal.buffer, nil)
    open_channel(terminal)
    if err then
      if not terminal.was_shown then
        client.report(err) -- the note is seen only where the buffer is
      end
      return note(terminal, err.message)
    end
    terminal.was_shown = true
    terminal.generation, terminal.state = state.generation, state
    terminal.is_terminal = state.screen ~= nil
    if state.screen then
      terminal.rows, terminal.cols = state.screen.rows, state.screen.cols
    else
      map_line_keys(terminal.buffer)
    end
    draw(terminal, state)
  end
  client.request("fetch", params, on_state)
end

--- Fill a buffer named `haft://session/id` (for BufReadCmd).
function M.read(buffer)
  local session, id = M.parse(vim.api.nvim_buf_get_name(buffer))
  if terminals[buffer] then
    return
  end
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].bufhidden = "hide"
  vim.bo[buffer].modifiable = false -- keys that come before the terminal is there are not text of a file
  local terminal = { buffer = buffer, session = session, id = id }
  terminals[buffer] = terminal
  vim.b[buffer].haft_session, vim.b[buffer].haft_id = session, id
  vim.bo[buffer].filetype = "haft"
  vim.api.nvim_create_autocmd({ "TermEnter", "WinEnter" }, {
    buffer = buffer,
    callback = function()
      M.fit(buffer)
    end,
  })
  vim.api.nvim_create_autocmd({ "BufUnload", "BufDelete", "BufWipeout" }, {
    buffer = buffer,
    callback = function()
      terminals[buffer] = nil
      client.unsubscribe(terminal.subscription)
    end,
  })
  mark(buffer, "opening")
  M.show(terminal)
end

--- Show a handle in the current window, or where `command` (`split`, `vsplit`, `tabedit`) puts it.
function M.open(session, id, command)
  vim.cmd((command or "edit") .. " " .. vim.fn.fnameescape(M.name(session, id)))
  return M.of()
end

client.on("close", function()
  for _, terminal in pairs(terminals) do
    terminal.subscription = nil
    if not is_stopped(terminal) then
      note(terminal, "not connected")
    end
  end
end)

client.on("open", function()
  for _, terminal in pairs(terminals) do
    if terminal.channel and terminal.cursor and not is_stopped(terminal) then
      note(terminal, nil)
      follow(terminal) -- from the cursor: nothing is missing, nothing is drawn twice
    end
  end
end)

return M
