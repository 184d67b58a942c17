--- Draw output in small pieces, so that keys and the screen keep their turn beside a program that prints much.
--- Neovim's emulator draws when it has time, and costs more than the hand-over: how late a timer comes shows that.
local uv = vim.uv or vim.loop

local M = {}

local PIECE_BYTES = 4096
local MAX_QUEUED_BYTES = 128 * 1024
local MIN_PAUSE_MS, MAX_PAUSE_MS = 1, 60

local queue, first, last = {}, 1, 0 -- of { channel, bytes }
local queued_bytes = 0
local is_running = false
local on_full, on_room = function() end, function() end

--- Have functions called when much is queued, and when there is room again.
function M.on_pressure(full, room)
  on_full, on_room = full, room
end

local function draw(due)
  local late_ms = (uv.hrtime() - due) / 1e6
  local entry = queue[first]
  if not entry then
    is_running = false
    return
  end
  local piece = entry.bytes:sub(1, PIECE_BYTES)
  entry.bytes = entry.bytes:sub(PIECE_BYTES + 1)
  if entry.bytes == "" then
    queue[first] = nil
    first = first + 1
  end
  queued_bytes = queued_bytes - #piece
  pcall(vim.api.nvim_chan_send, entry.channel, piece) -- its buffer may be gone
  if queued_bytes < MAX_QUEUED_BYTES / 2 then
    on_room()
  end
  local pause = math.floor(math.max(MIN_PAUSE_MS, math.min(2 * late_ms, MAX_PAUSE_MS)))
  local next_due = uv.hrtime() + pause * 1e6
  vim.defer_fn(function()
    draw(next_due)
  end, pause)
end

--- Draw bytes by the channel of a terminal buffer, after all that was given before.
function M.write(channel, bytes)
  last = last + 1
  queue[last] = { channel = channel, bytes = bytes }
  queued_bytes = queued_bytes + #bytes
  if queued_bytes > MAX_QUEUED_BYTES then
    on_full()
  end
  if not is_running then
    is_running = true
    draw(uv.hrtime())
  end
end

return M
