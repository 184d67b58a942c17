--- Find the daemon's socket by the rules of the protocol: environment, runtime folder, state folder's lock.
local bit = require("bit")
local config = require("haft.config")
local uv = vim.uv or vim.loop
local M = {}

local function read_file(path)
  local file = io.open(path, "r")
  if not file then
    return nil
  end
  local text = file:read("*a")
  file:close()
  return text
end

-- A folder of ours that no other user can write to.
local function is_private(path)
  local stat = uv.fs_stat(path)
  return stat and stat.type == "directory" and stat.uid == uv.getuid() and bit.band(stat.mode, 18) == 0
end

local function in_runtime_folder()
  local folder = vim.env.XDG_RUNTIME_DIR
  if not folder or folder == "" then
    folder = "/run/user/" .. uv.getuid()
    if not is_private(folder) then
      return "/tmp/haft-" .. uv.getuid() .. "/haftd.sock"
    end
  end
  local path = folder .. "/haft/haftd.sock"
  if #path > 107 then
    return ("/tmp/haft-%d/%s/haftd.sock"):format(uv.getuid(), vim.fn.sha256(folder):sub(1, 16))
  end
  return path
end

local function by_lock()
  local state = vim.env.XDG_STATE_HOME
  if not state or state == "" then
    state = (vim.env.HOME or "") .. "/.local/state"
  end
  local id = vim.trim(read_file("/etc/machine-id") or "")
  if not id:match("^%x+$") or #id ~= 32 then
    return nil
  end
  local machine = vim.fn.sha256("haftd:" .. id):sub(1, 16)
  local text = read_file(state .. "/haft/daemon-" .. machine .. ".lock")
  local ok, lock = pcall(vim.json.decode, (text or ""):match("^[^\n]*") or "")
  return ok and type(lock) == "table" and type(lock.socket) == "string" and lock.socket or nil
end

--- Return the paths where a daemon may listen, the likeliest first.
function M.candidates(configured)
  if configured == false or config.host() then
    return {}
  end
  local chosen = (config.address() or ""):match("^unix://(/.+)$")
  if chosen then
    return { chosen }
  end
  if configured then
    return { vim.fn.expand(configured) }
  end
  if vim.env.HAFT_SOCKET and vim.env.HAFT_SOCKET ~= "" then
    return { vim.env.HAFT_SOCKET }
  end
  local paths = { in_runtime_folder() }
  local locked = by_lock()
  if locked and locked ~= paths[1] then
    paths[2] = locked
  end
  return paths
end

return M
