--- A strategy for overseer.nvim: tasks run as handles of haftd, and outlive the editor.
--- Use it by `strategy = "haft"` in overseer's configuration or in a task.
local client = require("haft.client")
local config = require("haft.config")
local terminal = require("haft.terminal")

local Strategy = {}

--- Make a strategy; `options.session` is the session of the handles.
function Strategy.new(options)
  return setmetatable({ options = options or {} }, { __index = Strategy })
end

function Strategy:get_bufnr()
  return self.bufnr
end

-- The status that a shell would give: 128 and the signal's number for a killed program.
local function status(state)
  local exit = state.exit or {}
  if exit.code then
    return exit.code
  end
  return 128 + ((vim.uv or vim.loop).constants["SIG" .. (exit.signal or "TERM")] or 15)
end

function Strategy:_follow(task)
  local rest = ""
  local function on_event(method, event)
    if method == "handle/output" then
      task:dispatch("on_output", vim.split(event.data, "\n"))
      local lines = vim.split(rest .. event.data, "\n")
      rest = table.remove(lines)
      if #lines > 0 then
        task:dispatch("on_output_lines", lines)
      end
    elseif event.state == "stopped" and self.id then
      self.id = nil
      client.unsubscribe(self.subscription)
      if rest ~= "" then
        task:dispatch("on_output_lines", { rest })
      end
      task:on_exit(status(event))
    end
  end
  client.subscribe_to_output({
    session = self.session,
    handles = { self.id },
    events = { "state", "output" },
    from = { [self.id] = 0 },
  }, on_event, function(err, name)
    self.subscription = name
    client.report(err)
  end)
end

function Strategy:start(task)
  local command = task.cmd
  local argv = type(command) == "table" and command or { vim.o.shell, "-c", command }
  local base = (task.name or "task"):gsub("[^%w_.:-]+", "-"):gsub("^[^%w]+", ""):sub(1, 40)
  self.session = self.options.session or config.get("session")
  local id = ("%s.%x"):format(base ~= "" and base or "task", (vim.uv or vim.loop).hrtime() % 0x100000000)
  local env
  if task.env and next(task.env) then
    -- Another machine has paths of its own: haftd fills in the missing variables.
    env = vim.tbl_extend("force", config.host() and {} or vim.fn.environ(), task.env)
  end
  self.bufnr = vim.fn.bufadd(terminal.name(self.session, id))
  client.request("spawn", {
    session = self.session,
    root = config.root(task.cwd),
    tool = "run",
    id = id,
    args = { argv = argv, terminal = true },
    env = env,
    wait = "none",
    cursor = 0, -- reads nothing for the session
    max_bytes = 0,
  }, function(err)
    if err then
      client.report(err)
      return task:on_exit(127)
    end
    self.id = id
    terminal.read(self.bufnr)
    self:_follow(task)
  end)
end

function Strategy:stop()
  if self.id then
    client.request("abort", { session = self.session, id = self.id }, function() end)
  end
end

function Strategy:reset()
  self:stop()
  self.id, self.bufnr = nil, nil
end

function Strategy:dispose()
  self:stop()
  if self.bufnr and vim.api.nvim_buf_is_valid(self.bufnr) then
    vim.api.nvim_buf_delete(self.bufnr, { force = true })
  end
end

return Strategy
