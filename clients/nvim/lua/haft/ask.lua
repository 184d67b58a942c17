--- Answer questions and decide approvals. Nothing opens by itself: a command or a mapping asks for it.
local client = require("haft.client")
local model = require("haft.model")

local M = {}

local function answer(inquiry, value)
  client.request("inquiries/answer", {
    session = inquiry.session,
    inquiry_id = inquiry.inquiry_id,
    question = inquiry.question.id,
    answer = value,
  })
end

local function show(value)
  return type(value) == "string" and value or vim.json.encode(value)
end

-- Ask for one of `options`; `done` is not called where the person turns away.
local function choose(prompt, options, done)
  vim.ui.select(options, { prompt = prompt, kind = "haft_answer", format_item = show }, function(choice, index)
    if index then
      done(options[index])
    end
  end)
end

-- The fields of a form one after the other.
local function fill_form(question, done)
  local fields = question.answer_type.fields
  local names = vim.tbl_keys(fields)
  table.sort(names)
  local result = vim.empty_dict()
  local function next_field(at)
    local name = names[at]
    if not name then
      return done(result)
    end
    choose(("%s: %s"):format(name, fields[name].text or ""), fields[name].options, function(value)
      result[name] = value
      next_field(at + 1)
    end)
  end
  next_field(1)
end

--- Ask the person the question of `inquiry`, and answer it.
function M.question(inquiry)
  local question = inquiry.question
  local kind = question.answer_type.type
  local prompt = question.text
  if question.pre_amble then
    vim.api.nvim_echo({ { question.pre_amble .. "\n" } }, false, {})
  end
  local function done(value)
    answer(inquiry, value)
  end
  if kind == "secret" then
    local ok, value = pcall(vim.fn.inputsecret, prompt .. " ")
    if ok and value ~= "" then
      done(value)
    end
  elseif kind == "boolean" then
    choose(prompt, { "yes", "no" }, function(value)
      done(value == "yes")
    end)
  elseif kind == "select" then
    choose(prompt, question.answer_type.options, done)
  elseif kind == "form" then
    fill_form(question, done)
  else
    local default = type(question.default) == "string" and question.default or nil
    vim.ui.input({ prompt = prompt .. " ", default = default }, function(value)
      if value ~= nil then
        done(value)
      end
    end)
  end
end

local function decide(approval, decision, more)
  local params = vim.tbl_extend("error", {
    session = approval.session,
    approval_id = approval.approval_id,
    decision = decision,
  }, more or {})
  client.request("approvals/decide", params)
end

-- A buffer with the arguments as JSON; writing it decides.
local function edit_arguments(approval)
  vim.cmd("botright new")
  local buffer = vim.api.nvim_get_current_buf()
  vim.api.nvim_buf_set_name(buffer, "haft-approval://" .. approval.approval_id)
  vim.bo[buffer].buftype, vim.bo[buffer].bufhidden, vim.bo[buffer].swapfile = "acwrite", "wipe", false
  vim.bo[buffer].filetype = "json"
  local lines = { "{" }
  local names = vim.tbl_keys(approval.arguments)
  table.sort(names)
  for index, name in ipairs(names) do
    local comma = index < #names and "," or ""
    table.insert(lines, ("  %s: %s%s"):format(vim.json.encode(name), vim.json.encode(approval.arguments[name]), comma))
  end
  table.insert(lines, "}")
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modified = false
  vim.api.nvim_create_autocmd("BufWriteCmd", {
    buffer = buffer,
    callback = function()
      local text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
      local ok, arguments = pcall(vim.json.decode, text)
      if not ok or type(arguments) ~= "table" then
        return vim.notify("haft: the buffer is not a JSON object; nothing was decided", vim.log.levels.ERROR)
      end
      client.request("approvals/decide", {
        session = approval.session,
        approval_id = approval.approval_id,
        decision = "edit",
        arguments = next(arguments) and arguments or vim.empty_dict(),
      }, function(err)
        if err then
          return client.report(err)
        end
        if vim.api.nvim_buf_is_valid(buffer) then
          vim.bo[buffer].modified = false
          vim.api.nvim_buf_delete(buffer, { force = true })
        end
      end)
    end,
  })
end

local KEYS = {
  { "a", "allow" },
  { "t", "allow until the turn ends", { decision = "allow", remember = "turn" } },
  { "S", "allow for the session", { decision = "allow", remember = "session" } },
  { "e", "edit the arguments" },
  { "d", "deny" },
  { "s", "skip" },
  { "q", "close, undecided" },
}

--- Show an approval with its arguments in a split; keys of that buffer decide it.
function M.approval(approval)
  vim.cmd("botright new")
  local buffer = vim.api.nvim_get_current_buf()
  vim.bo[buffer].buftype, vim.bo[buffer].bufhidden, vim.bo[buffer].swapfile = "nofile", "wipe", false
  vim.bo[buffer].filetype = "haft-approval"
  local lines = { ("%s: %s of %s in session %s"):format(approval.id, approval.action, approval.tool, approval.session) }
  if approval.root then
    table.insert(lines, "folder: " .. approval.root)
  end
  if approval.env then
    table.insert(lines, "variables that differ from haftd's: " .. table.concat(vim.list_slice(approval.env, 1, 8), ", ") .. (#approval.env > 8 and ", …" or ""))
  end
  table.insert(lines, "")
  vim.list_extend(lines, vim.split(approval.rendered, "\n"))
  if approval.refused then
    vim.list_extend(lines, { "", approval.refused })
  end
  table.insert(lines, "")
  for _, entry in ipairs(KEYS) do
    table.insert(lines, ("%s  %s"):format(entry[1], entry[2]))
  end
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.cmd("resize " .. math.min(#lines, math.floor(vim.o.lines / 2)))
  local function on(key, action)
    vim.keymap.set("n", key, function()
      vim.api.nvim_buf_delete(buffer, { force = true })
      action()
    end, { buffer = buffer, nowait = true })
  end
  for _, entry in ipairs(KEYS) do
    local name, more = entry[2], entry[3]
    on(entry[1], function()
      if more then
        decide(approval, more.decision, { remember = more.remember })
      elseif name == "edit the arguments" then
        edit_arguments(approval)
      elseif name ~= "close, undecided" then
        decide(approval, name)
      end
    end)
  end
end

--- Go to a handle that awaits the user: ask the question, show the approval, or show the handle that reads a secret.
function M.attend(needing)
  if needing.kind == "question" then
    M.question(needing.item)
  elseif needing.kind == "approval" then
    M.approval(needing.item)
  else
    require("haft.terminal").open(needing.item.session, needing.item.id)
  end
end

local position = 0

--- Go to the next that needs a person, or to the one before it with `step` -1.
function M.next(step)
  model.watch({ start = false }, function(err)
    if err then
      return vim.notify("haft: " .. err, vim.log.levels.ERROR)
    end
    local items = model.needing()
    if #items == 0 then
      return vim.notify("haft: nothing waits for you")
    end
    position = (position + (step or 1) - 1) % #items + 1
    M.attend(items[position])
  end)
end

--- Choose among all that waits for a person.
function M.pick()
  local items = model.needing()
  if #items == 0 then
    return vim.notify("haft: nothing waits for you")
  end
  vim.ui.select(items, {
    prompt = "Waiting for you",
    kind = "haft_needing",
    format_item = function(item)
      return item.kind .. "  " .. item.label
    end,
  }, function(item)
    if item then
      M.attend(item)
    end
  end)
end

return M
