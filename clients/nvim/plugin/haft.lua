-- Define `:Haft`, the buffers `haft://…` and `<Plug>` mappings; everything else is loaded when it is used.
if vim.g.loaded_haft then
  return
end
vim.g.loaded_haft = true

if not vim.api.nvim_create_user_command then
  vim.notify("haft needs Neovim 0.7 or newer")
  return
end

vim.api.nvim_create_user_command("Haft", function(options)
  require("haft.command").run(options)
end, {
  nargs = "*",
  range = true,
  bang = true,
  complete = function(lead, line)
    return require("haft.command").complete(lead, line)
  end,
  desc = "Work with the handles of haftd",
})

local group = vim.api.nvim_create_augroup("haft", {})

vim.api.nvim_create_autocmd("BufReadCmd", {
  group = group,
  pattern = "haft://*",
  nested = true,
  callback = function(event)
    if vim.api.nvim_buf_get_name(event.buf):match("^haft://$") then
      require("haft.list").read(event.buf)
    else
      require("haft.terminal").read(event.buf)
    end
  end,
})

vim.api.nvim_create_autocmd("BufReadCmd", {
  group = group,
  pattern = "haft-log://*",
  nested = true,
  callback = function(event)
    require("haft.log").read(event.buf)
  end,
})

vim.api.nvim_create_autocmd({ "VimResized", "WinClosed" }, {
  group = group,
  callback = function()
    if package.loaded["haft.terminal"] then
      vim.schedule(require("haft.terminal").fit)
    end
  end,
})
if vim.fn.exists("##WinResized") == 1 then
  vim.api.nvim_create_autocmd("WinResized", {
    group = group,
    callback = function()
      if package.loaded["haft.terminal"] then
        require("haft.terminal").fit()
      end
    end,
  })
end

local function plug(mode, name, action, options)
  vim.keymap.set(mode, "<Plug>(haft-" .. name .. ")", action, options or {})
end

plug("n", "next", function()
  require("haft.ask").next(1)
end)
plug("n", "previous", function()
  require("haft.ask").next(-1)
end)
plug("n", "send-line", function()
  local at = vim.api.nvim_win_get_cursor(0)[1]
  require("haft.send").lines(at, at + vim.v.count1 - 1)
end)
plug("n", "send", function()
  vim.o.operatorfunc = "v:lua.require'haft.send'.operator"
  return "g@"
end, { expr = true })
plug("x", "send", function()
  local mode = vim.fn.mode()
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes("<Esc>", true, false, true), "nx", false)
  require("haft.send").region("<", ">", mode)
end)
plug("n", "list", "<Cmd>Haft list<CR>")
